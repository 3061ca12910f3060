"""The image laboratory: mosaics by hand, the attention by loops, and what training adds."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tsc_interp.errors import UsageError
from tsc_interp.laboratories import image
from tsc_interp.laboratories.image import UNIFORM, WIDTH, ImageOptions, Questions


def test_each_tile_stands_in_its_place():
    tiles = np.arange(5 * 9 * 64, dtype=np.float32).reshape(5, 9, 8, 8)
    pictures = image.compose(tiles)
    assert pictures.shape == (5, 24, 24)
    for picture, place in ((0, 0), (3, 5), (4, 6)):  # place 5 is middle right, 6 bottom left
        row, column = divmod(place, 3)
        seen = pictures[picture, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
        assert (seen == tiles[picture, place]).all()


def test_sentences_by_hand():
    batch = Questions(
        np.zeros((1, 24, 24), np.float32), np.array([[7, 1, 2, 3, 4, 5, 6, 8, 9]]),
        np.array([[0, 5, 7]]),
    )  # fmt: skip
    known = image.vocabulary(3)
    written = [" ".join(known[i] for i in row) for row in batch.words(3)[0]]
    assert written == ["top left is", "middle right is", "bottom centre is"]
    assert [known[i] for i in batch.answers(3)[0]] == ["seven", "five", "eight"]
    assert image.place_names(3)[5] == "middle right"


def test_no_digit_is_both_trained_and_tested_with():
    train, held_out = image.split_digits()
    assert (len(train.labels), len(held_out.labels)) == (1297, 500)
    seen = {one.tobytes() for one in train.images}
    assert not any(one.tobytes() in seen for one in held_out.images)


def test_the_best_blind_guess_by_trying_every_answer():
    digits = np.random.default_rng(3).integers(10, size=(50, 4))
    best = [max(np.mean(row == guess) for guess in range(10)) for row in digits]
    assert image.blind_guess(digits) == pytest.approx(np.mean(best))


@pytest.mark.parametrize("grid", [2, 3])
def test_weights_belong_to_the_place_that_holds_their_location(grid):
    """Two locations across each digit; by the coordinates of one location at a time."""
    side = 2 * grid
    for location in range(side**2):
        weights = np.zeros((1, side**2))
        weights[0, location] = 1.0
        row, column = divmod(location, side)
        place = row // 2 * grid + column // 2
        assert image.attended(weights, grid)[0].argmax() == place
        assert image.pointed_at(weights, grid)[0] == place


@pytest.mark.parametrize("uniform", [False, True])
def test_attention_is_the_formula_location_by_location(uniform):
    network = image.new_network(ImageOptions(grid=2, filters=3), 5, uniform=uniform)
    digits, _ = image.split_digits()
    batch = image.draw(np.random.default_rng(1), digits, 2, 3, 5)
    pictures = torch.from_numpy(digits.standardised(batch.pictures))
    with torch.no_grad():
        logits, weights = network(pictures, torch.from_numpy(batch.words(2)))
        features = network.features(pictures)
        assert features.shape == (3, 16, WIDTH)
        words = network.words(torch.from_numpy(batch.words(2)[2, 4]))
        state = network.recurrent(words[None])[0][0, -1]
        scores = [
            float(network.query(state) @ (features[2, i] + network.places[i])) / WIDTH**0.5
            for i in range(16)
        ]
        raised = np.exp(scores)
        expected = np.full(16, 1 / 16) if uniform else raised / raised.sum()
        assert weights[2, 4].numpy() == pytest.approx(expected, abs=1e-5)
        seen = sum(float(w) * f for w, f in zip(expected, features[2], strict=True))
        told = network.next(torch.cat([torch.as_tensor(seen), state]))
    torch.testing.assert_close(logits[2, 4], told, atol=1e-4, rtol=1e-4)


def test_answers_do_not_depend_on_how_pictures_are_taken_together():
    network = image.new_network(ImageOptions(grid=2, filters=3), 5)
    digits, held_out = image.split_digits()
    batch = image.draw(np.random.default_rng(2), held_out, 2, 260, 1)
    said, weights = image.answer(network, digits, batch, 2)
    part = Questions(batch.pictures[249:252], batch.digits[249:252], batch.places[249:252])
    alone, own = image.answer(network, digits, part, 2)
    assert (said[249:252] == alone).all()
    assert weights[249:252] == pytest.approx(own, abs=1e-6)


def test_training_makes_it_look_and_uniform_weights_cannot():
    result = tsc.lab("image", quick=True).result
    test = result.options.test
    assert result.right.at(arm="trained").min() / test > result.blind + 0.1
    assert result.right.at(arm=UNIFORM).max() / test < result.blind
    assert result.pointed.array.min() / test > 0.9
    assert 0.5 < result.weight <= 1.0
    assert result.maps.array.sum(axis=(1, 2)) == pytest.approx(1.0)
    assert result.figures[0].name == "maps"


def test_a_missing_library_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(UsageError, match=r"laboratory image needs sklearn.*\[labs\]"):
        image.split_digits()
