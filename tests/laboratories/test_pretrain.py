"""Span corruption by hand, gradients member by member, and answers that never change."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import factorial

import numpy as np
import pytest
import torch
from torch.nn import functional

import tsc_interp as tsc
from tsc_interp.errors import ConfigError
from tsc_interp.laboratories.every_string import balanced, judge, vectors_up_to
from tsc_interp.laboratories.pretrain import characters, contains, partners
from tsc_interp.laboratories.pretrain.corruption import (
    best_restoration,
    corrupted,
    letter_counts,
    spans,
    uneven_strings,
)
from tsc_interp.laboratories.pretrain.result import PretrainOptions
from tsc_interp.laboratories.pretrain.training import (
    Batch,
    Strings,
    checkpoint,
    logits,
    loss,
    train,
    with_new_read_out,
)
from tsc_interp.model.classifier import Classifier
from tsc_interp.model.initialise import initial_ensemble
from tsc_interp.strings import CLS, PAD

SEEDS = [3, 4, 5]


def test_corruption_by_hand():
    """`abca` without its `bc` is `aa`, and a b and a c are to be told; of `cb` the c is gone."""
    letters = np.array([[[0, 1, 2, 0], [2, 1, -1, -1]]])
    gaps = np.array([[[False, True, True, False], [True, False, False, False]]])
    batch = corrupted(letters, gaps, 3, counted=False)
    assert batch.strings.tokens.tolist() == [[[CLS, 2, PAD, PAD, 2], [CLS, PAD, 3, PAD, PAD]]]
    assert batch.strings.times.tolist() == [[[0, 1, 0, 0, 1], [0, 0, 1, 0, 0]]]
    assert batch.targets.tolist() == [[[0, 0.5, 0.5], [0, 0, 1]]]
    counted = corrupted(letters, gaps, 3, counted=True)
    assert counted.strings.tokens.tolist() == [[[CLS, 2, 3, 4]] * 2]
    assert counted.strings.times.tolist() == [[[0, 2, 0, 0], [0, 0, 1, 0]]]
    assert counted.targets.tolist() == batch.targets.tolist()


def test_spans_are_one_stretch_and_never_the_whole_string():
    lengths = np.random.default_rng(0).integers(2, 8, size=(4, 500))
    gaps = spans(lengths, 3, np.random.default_rng(1), 7)
    sizes = gaps.sum(-1)
    assert set(np.unique(sizes)) == {1, 2, 3}
    assert (sizes < lengths).all()
    assert not (gaps & (np.arange(7) >= lengths[..., None])).any()
    edges = np.diff(gaps.astype(int), axis=-1, prepend=0, append=0)
    assert ((edges == 1).sum(-1) == 1).all()


def _chance(string: tuple[int, ...], n_letters: int = 3) -> Fraction:
    """Of a string whose shares are uniform on the simplex: Dirichlet's integral."""
    top = factorial(n_letters - 1)
    for letter in range(n_letters):
        top *= factorial(string.count(letter))
    return Fraction(top, factorial(len(string) + n_letters - 1))


def test_best_restoration_is_what_every_string_says():
    for visible in ((0,), (0, 0), (0, 1, 1), (2, 2, 2, 0)):
        for taken in (1, 2):  # however many are gone, the first of them has this distribution
            found = [Fraction(0)] * 3
            for more in product(range(3), repeat=taken):
                found[more[0]] += _chance(visible + more)
            share = [float(one / sum(found)) for one in found]
            counts = np.array([visible.count(letter) for letter in range(3)])
            assert best_restoration(counts) == pytest.approx(share)


def test_the_corpus_has_every_vector_of_counts_equally_often():
    letters, lengths = uneven_strings(np.random.default_rng(0), (1, 60_000), 3, 4)
    assert ((letters >= 0).sum(-1) == lengths).all()
    counts = letter_counts(letters, 3)[lengths == 4]
    vectors, times = np.unique(counts, axis=0, return_counts=True)
    assert len(vectors) == 15
    assert times / len(counts) == pytest.approx(np.full(15, 1 / 15), abs=0.01)


def _batch() -> Batch:
    rng = np.random.default_rng(7)
    counts = rng.integers(0, 4, size=(3, 6, 3)) + np.array([1, 0, 0])
    kept = np.arange(6) < np.array([6, 4, 2])[:, None]
    return Batch(Strings.of_counts(counts), (counts[..., 1] > 0).astype(float), kept)


def test_gradient_of_each_member_is_that_of_the_model_alone():
    batch, config = _batch(), contains.TASK
    weights = {n: w.requires_grad_() for n, w in initial_ensemble(config, SEEDS).items()}
    slopes = torch.autograd.grad(loss(config, weights, batch), list(weights.values()))
    for k in range(3):
        model = Classifier.from_checkpoint(
            checkpoint(config, {n: w.detach() for n, w in weights.items()}, k)
        )
        own = int(batch.kept[k].sum())
        texts = [config.alphabet.write(row[1:]) for row in batch.strings.times[k, :own]]
        targets = torch.tensor(batch.targets[k, :own], dtype=torch.float32)
        alone = functional.binary_cross_entropy_with_logits(model(texts), targets)
        alone.backward()
        plain = dict(model.named_parameters())
        for name, slope in zip(weights, slopes, strict=True):
            torch.testing.assert_close(slope[k], plain[name].grad, atol=1e-6, rtol=1e-4)


def test_training_is_torchs_adam_and_members_do_not_feel_each_other():
    batch, config = _batch(), contains.TASK
    fresh = initial_ensemble(config, SEEDS)
    together = train(config, fresh, [batch] * 5, 1e-2)
    values = {name: weight.clone().requires_grad_() for name, weight in fresh.items()}
    optimiser = torch.optim.Adam(list(values.values()), lr=1e-2)
    for _ in range(5):
        optimiser.zero_grad()
        loss(config, values, batch).backward()
        optimiser.step()
    last = slice(2, 3)
    strings = Strings(batch.strings.tokens[last], batch.strings.times[last])
    own = Batch(strings, batch.targets[last], batch.kept[last])
    alone = train(config, {n: w[last] for n, w in fresh.items()}, [own] * 5, 1e-2)
    for name, weight in together.items():
        torch.testing.assert_close(weight, values[name].detach(), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(weight[last], alone[name], atol=1e-5, rtol=1e-4)
        if not name.endswith("W_E"):
            assert not torch.equal(weight, fresh[name]), name


def test_shares_are_asked_for_with_several_outputs():
    """Cross-entropy against the shares, by hand, in the token form."""
    batch = corrupted(np.array([[[0, 1, 2]]]), np.array([[[False, True, True]]]), 3, counted=False)
    weights = initial_ensemble(contains.CORPUS, [0])
    read = logits(contains.CORPUS, weights, batch.strings)[0, 0].double()
    by_hand = -(read[1] + read[2]) / 2 + read.exp().sum().log()
    assert float(loss(contains.CORPUS, weights, batch)) == pytest.approx(float(by_hand), abs=1e-5)


def test_bodies_are_those_of_the_report_and_only_the_read_out_is_drawn_anew():
    fresh = initial_ensemble(contains.CORPUS, SEEDS)
    task = initial_ensemble(contains.TASK, SEEDS)
    mended = with_new_read_out(contains.TASK, fresh, SEEDS)
    assert all(torch.equal(mended[name], task[name]) for name in task)


def test_few_labels_are_balanced_right_and_nested():
    asked = PretrainOptions(seeds=3, labels=(4, 10))
    batch = contains.few_labels(asked, np.random.default_rng(0))
    counts = batch.strings.times[..., 1:]
    assert (batch.targets == ((counts[..., 0] > 0) & (counts[..., 1] > 0))).all()
    assert batch.kept.sum(-1).tolist() == [4] * 3 + [10] * 3
    assert [row[keep].mean() for row, keep in zip(batch.targets, batch.kept, strict=True)] == [
        0.5
    ] * 6
    assert (counts[:3] == counts[3:]).all()
    assert all(len(np.unique(member, axis=0)) == 10 for member in counts)


def test_constant_answers_by_brute_force():
    judged = judge("walkthrough", vectors_up_to(3, 6))
    for answer in (True, False):
        constant = replace(judged, positive=np.full(len(judged.labels), answer))
        assert balanced(constant) == 0.5
    facts = np.random.default_rng(0).integers(partners.PARTNERS, size=(5, partners.NAMES))
    for row, found in zip(facts.tolist(), partners.constant_answer(facts), strict=True):
        shown, held_out = row[: partners.SHOWN], row[partners.SHOWN : -partners.STRANGERS]
        says = max(range(partners.PARTNERS), key=shown.count)
        assert len(held_out) == partners.HELD_OUT
        assert found == held_out.count(says) / len(held_out)


def test_sentences_hold_the_facts():
    rng = np.random.default_rng(0)
    facts = rng.integers(partners.PARTNERS, size=(2, partners.NAMES))
    names = rng.integers(partners.NAMES, size=(2, 30))
    rows = partners.sentences(facts, names, rng)
    for k, i in np.ndindex(names.shape):
        row = sorted(rows[k, i])
        assert row[0] == names[k, i]
        assert row[1] == partners.NAMES + facts[k, names[k, i]]
        assert all(partners.NAMES + partners.PARTNERS <= x < partners.QUESTION for x in row[2:])
    assert len({int(row.argmin()) for row in rows.reshape(-1, 4)}) == 4


def test_bad_options_are_refused():
    for options, said in (({"labels": "8,9"}, "even numbers"), ({"seeds": 1}, "seeds")):
        with pytest.raises(ConfigError, match=said):
            tsc.lab("pretrain", quick=True, **options)


def test_character_corruption_keeps_the_order_and_appends_the_span():
    """Filling the first mask with what stands behind the second gives the document again."""
    rng = np.random.default_rng(0)
    world = characters.draw_world(rng)
    known = characters.documents(world)
    masked = set()
    for whole, row in zip(known, characters.corrupt(known, rng), strict=True):
        first, second = np.flatnonzero(row == characters.MASK)
        masked.add((int(first), len(row) - 1 - int(second)))
        span = row[second + 1 :]
        assert [*row[:first], *span, *row[first + 1 : second]] == whole.tolist()
    assert {size for _, size in masked} == {1, 2}
    assert {start for start, _ in masked} == set(range(characters.DOCUMENT))


def test_worlds_share_letters_within_families_and_hide_strangers():
    world = characters.draw_world(np.random.default_rng(1))
    starts = {tuple(family[0, :2]) for family in world.names}
    assert len(starts) == characters.FAMILIES
    assert all((family[:, :2] == family[0, :2]).all() for family in world.names)
    known = {tuple(row[: characters.NAME]) for row in characters.documents(world)}
    strangers = world.names[:, characters.SHOWN + characters.HELD_OUT :].reshape(-1, 4)
    assert not known & {tuple(name) for name in strangers}
    assert len(known) == characters.FAMILIES * (characters.SHOWN + characters.HELD_OUT)


def test_similar_answers_by_hand():
    """Who always says the home, and who knows every place."""
    world = characters.draw_world(np.random.default_rng(2))
    home = np.broadcast_to(world.homes[:, None], world.places.shape)
    assert characters.measure(home, world).tolist() == [1, 0, 1, 1, 1, 0]
    knowing = characters.measure(world.places, world)
    assert knowing[:3].tolist() == [1, 1, 0]
    pairs = [
        world.places[f, i] == world.places[f, j]
        for f in range(characters.FAMILIES)
        for i in range(characters.NAMES)
        for j in range(characters.NAMES)
        if i != j
    ]
    assert knowing[4] == pytest.approx(np.mean(pairs))


def test_a_character_is_read_from_those_before_it_only():
    torch.manual_seed(0)
    reader = characters.Reader()
    rows = torch.from_numpy(characters.questions(np.array([[0, 1, 2, 3], [0, 1, 2, 4]])))
    with torch.no_grad():
        read = reader(rows)
    torch.testing.assert_close(read[0, :3], read[1, :3])
    assert not torch.allclose(read[0, 3], read[1, 3])
