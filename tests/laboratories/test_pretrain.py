"""Character corruption by hand, families and strangers, and answers that never change."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tsc_interp.errors import ConfigError
from tsc_interp.laboratories import pretrain
from tsc_interp.laboratories.pretrain import FAMILIES, HELD_OUT, NAME, NAMES, SHOWN, STRANGERS


def test_character_corruption_keeps_the_order_and_appends_the_span():
    """Filling the first mask with what stands behind the second gives the document again."""
    rng = np.random.default_rng(0)
    known = pretrain.documents(pretrain.draw_world(rng))
    masked = set()
    for whole, row in zip(known, pretrain.corrupt(known, rng), strict=True):
        first, second = np.flatnonzero(row == pretrain.MASK)
        masked.add((int(first), len(row) - 1 - int(second)))
        span = row[second + 1 :]
        assert [*row[:first], *span, *row[first + 1 : second]] == whole.tolist()
    assert {size for _, size in masked} == {1, 2}
    assert {start for start, _ in masked} == set(range(pretrain.DOCUMENT))


def test_worlds_share_letters_within_families_and_hide_strangers():
    world = pretrain.draw_world(np.random.default_rng(1))
    starts = {tuple(family[0, :2]) for family in world.names}
    assert len(starts) == FAMILIES
    assert all((family[:, :2] == family[0, :2]).all() for family in world.names)
    known = {tuple(row[:NAME]) for row in pretrain.documents(world)}
    strangers = world.names[:, SHOWN + HELD_OUT :].reshape(-1, NAME)
    assert not known & {tuple(name) for name in strangers}
    assert len(known) == FAMILIES * (SHOWN + HELD_OUT)


def test_measures_by_hand():
    """Who always says the home, and who knows every place."""
    world = pretrain.draw_world(np.random.default_rng(2))
    sure = np.full(world.places.shape, 0.25)
    home = np.broadcast_to(world.homes[:, None], world.places.shape)
    loyal = (world.places == home)[:, SHOWN : SHOWN + HELD_OUT].mean()
    expected = [loyal, 1, 0, 1, 1, 1, 0, 0.25, 0.25]
    assert pretrain.measure(home, sure, world) == pytest.approx(expected)
    knowing = pretrain.measure(world.places, sure, world)
    assert knowing[:4].tolist() == [1, 1, 1, 0]
    pairs = [
        world.places[f, i] == world.places[f, j]
        for f in range(FAMILIES)
        for i in range(NAMES)
        for j in range(NAMES)
        if i != j
    ]
    assert knowing[5] == pytest.approx(np.mean(pairs))


def test_a_constant_answer_by_brute_force():
    for seed in range(4):
        world = pretrain.draw_world(np.random.default_rng(seed))
        shown = world.places[:, :SHOWN].ravel().tolist()
        held_out = world.places[:, SHOWN:-STRANGERS].ravel().tolist()
        says = max(range(pretrain.PLACES), key=shown.count)
        assert len(held_out) == FAMILIES * HELD_OUT
        assert pretrain.constant_answer(world) == held_out.count(says) / len(held_out)


def test_a_character_is_read_from_those_before_it_only():
    reader = pretrain.new_reader(0)
    rows = torch.from_numpy(pretrain.questions(np.array([[0, 1, 2, 3], [0, 1, 2, 4]])))
    with torch.no_grad():
        read = reader(rows)
    torch.testing.assert_close(read[0, :3], read[1, :3])
    assert not torch.allclose(read[0, 3], read[1, 3])


def test_corruption_teaches_names_that_are_never_asked_for():
    """Enough steps of corruption, and held-out names are answered better than by fine-tuning."""
    result = tsc.lab("pretrain", quick=True, seeds=2, pretrain_steps=200).result
    both, alone = (result.of(arm, "right").mean() for arm in (pretrain.BOTH, pretrain.LONGER))
    assert both > alone + 0.05


def test_bad_options_are_refused():
    with pytest.raises(ConfigError, match="seeds"):
        tsc.lab("pretrain", quick=True, seeds=1)
