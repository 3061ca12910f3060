"""Counts: what the trusted base accepts is true, and its bounds hold; against mpmath."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import FAMILY, configs
from tests.trusted.counts import contradicted, forged_parts, judge_of, replay_of
from tests.verification import precise
from tests.verification.models import WIDER, hand_built, random_checkpoint, unfailing
from tsc_interp.checkpoints import Checkpoint, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.trusted.boxes import Boxes
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.judge import Judge

KINDS = [
    *WIDER,
    *(c for c in FAMILY if not c.needs_order and c.n_outputs > 1),
    ClassifierConfig(d_model=2, norm="layer"),
    ClassifierConfig(d_model=2, norm="rms", n_layers=2),
    ClassifierConfig(d_model=3, norm="rms", attend_cls=True, n_letters=2),
    ClassifierConfig(n_layers=4, n_letters=2),
]


def stretched(config: ClassifierConfig, seed: int, scale: float, values: float) -> Checkpoint:
    """Random weights, and values so large that boxes of states become wide."""
    weights = {
        name: w * np.float32(values) if name.endswith("W_V") else w
        for name, w in random_checkpoint(config, seed, scale).weights.items()
    }
    return Checkpoint(config, weights)


@pytest.mark.parametrize("config", KINDS, ids=range(len(KINDS)))
def test_what_is_accepted_is_true(config: ClassifierConfig) -> None:
    accepted = 0
    for checkpoint in (random_checkpoint(config, 2, 1.0), stretched(config, 2, 1.0, 1e5)):
        parts = replay_of(checkpoint).parts
        for part in forged_parts(config):
            try:
                parts.add(part)
            except NotProved:
                continue
            accepted += 1
            assert contradicted(checkpoint, part) is None, part
    assert accepted


def outputs(checkpoint: Checkpoint, counts: list[int]) -> list[float]:
    found = precise.outputs(checkpoint, counts)
    return [0.0, *map(float, found)] if len(found) == 1 else [*map(float, found)]


def gaps(judge: Judge, support: tuple[int, ...], boxes: Boxes, winner: int) -> np.ndarray:
    winners = np.full(len(boxes), winner)
    with np.errstate(all="ignore"):
        return judge.margins.gaps(
            judge.counts.regions(support, boxes), winners, np.arange(judge.n_classes)
        )


@settings(max_examples=25)
@given(configs(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_margins_over_boxes_hold_and_points_are_tight(
    config: ClassifierConfig, seed: int, draw: int
) -> None:
    checkpoint = random_checkpoint(config, seed, scale=1.5)
    judge, rng = judge_of(checkpoint), np.random.default_rng(draw)
    size = int(rng.integers(1, config.n_letters + 1))
    support = tuple(sorted(rng.choice(config.n_letters, size, replace=False).tolist()))
    low = np.floor(10 ** rng.uniform(0, 3, size))
    high = low + np.floor(10 ** rng.uniform(0, 2, size)) - 1
    cls = float(config.attend_cls)
    ends = np.array([[cls, *low], [cls, *low]]), np.array([[cls, *high], [cls, *low]])
    lengths = [int(low.sum())] * 2, [int(high.sum()), int(low.sum())]
    bounds = gaps(judge, support, Boxes(*ends, *lengths), 1)
    for _ in range(3):
        counts = [0] * config.n_letters
        for letter, a, b in zip(support, low, high, strict=True):
            counts[letter] = int(rng.integers(a, b + 1))
        out = outputs(checkpoint, counts)
        scale = 1 + max(map(abs, out))
        assert not out[1] - out[0] < bounds[0, 0] - 1e-9 * scale
    at_low = [0] * config.n_letters
    for letter, a in zip(support, low, strict=True):
        at_low[letter] = int(a)
    out = outputs(checkpoint, at_low)
    if config.final_norm:  # margins are times its scale then
        assert (bounds[1, 0] > 0) <= (out[1] > out[0])
    elif config.n_layers == 1:
        assert bounds[1, 0] == pytest.approx(out[1] - out[0], abs=1e-6 * (1 + max(map(abs, out))))


@settings(max_examples=25)
@given(configs(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_vectors_that_share_a_box_have_their_own_margins(
    config: ClassifierConfig, seed: int, draw: int
) -> None:
    checkpoint = random_checkpoint(config, seed, scale=1.5)
    judge, rng = judge_of(checkpoint), np.random.default_rng(draw)
    size = int(rng.integers(1, config.n_letters + 1))
    support = tuple(sorted(rng.choice(config.n_letters, size, replace=False).tolist()))
    group, winner = np.array([1, 0, 1, 0, 1]), np.array([1, 0, 0, 1, 1])
    near = np.floor(10 ** rng.uniform(0, 3, (2, size)))[group]
    vectors = near + rng.integers(0, 1 + int(10 ** rng.uniform(0, 2)), (len(group), size))
    wanted = np.ones((len(group), judge.n_classes), dtype=bool)
    if config.n_layers > 1:
        with pytest.raises(NotProved):
            judge.gaps_at_vectors(support, vectors, group, winner, wanted)
        return
    bounds = judge.gaps_at_vectors(support, vectors, group, winner, wanted)
    for row, won, found in zip(vectors.astype(int).tolist(), winner, bounds, strict=True):
        counts = np.zeros(config.n_letters, dtype=int)
        counts[list(support)] = row
        out = np.array(outputs(checkpoint, counts.tolist()))
        margins, slack = out[won] - out, 1e-9 * (1 + np.abs(out).max())
        if config.final_norm:  # margins are times its scale then
            assert not ((found > 0) & (margins < 0)).any()
            continue
        assert not (margins < found - slack).any()
        if not config.d_mlp:
            assert found == pytest.approx(margins, abs=1e3 * slack)


def test_ratios_hold_their_strings() -> None:
    """40 b's and 10 to 20 c's: b weighs 1, CLS 1/40, c between 1/4 and 1/2."""
    checkpoint = load_checkpoint("attend-cls")
    low, high = np.array([[1 / 64, 1.0, 0.25]]), np.array([[1 / 32, 1.0, 0.5]])
    bound = gaps(judge_of(checkpoint), (1, 2), Boxes(low, high), 0)[0, 1]
    logits = [outputs(checkpoint, [0, 40, c])[1] for c in (10, 15, 20)]
    assert bound <= -max(logits) < bound + 1.0


def test_tails_hold_every_longer_string() -> None:
    checkpoint = unfailing()
    judge, ones = judge_of(checkpoint), np.array([[0.0, 1.0, 1.0, 1.0]])
    bound = gaps(judge, (0, 1, 2), Boxes(ones, ones, [40], [40], tail=True), 1)[0, 0]
    assert bound > 0
    for counts in ([1, 1, 38], [1, 38, 1], [20, 10, 10], [1, 1, 10**9], [10**9, 1, 1]):
        assert bound <= outputs(checkpoint, counts)[1]
    # Too early: two a's and b's among few letters are not yet heard over the others.
    early = gaps(judge, (0, 1, 2), Boxes(ones, ones, [3], [3], tail=True), 1)[0, 0]
    assert early < bound


def test_a_limit_of_zero_says_nothing() -> None:
    """Two heads that cancel: the logit is zero everywhere."""
    parts = replay_of(hand_built([[1, 0, 2]] * 2, [[1, 0, 3], [-1, 0, -3]], 0.0)).parts
    for j in (0, 1):
        with pytest.raises(NotProved, match="not proved"):
            parts.add({"letters": [0], "limit": True, "tree": [["is", j]]})


def test_extreme_scores_prove_nothing_false() -> None:
    """Gaps of 700 and more: weights underflow, and what was lost may decide."""
    for gap in (20.0, 700.0, 745.0, 1e4, 1e30):
        checkpoint = hand_built([[gap, 0, 0]], [[-1, 1, 0]], -1e-12)
        parts = replay_of(checkpoint).parts
        for part in forged_parts(checkpoint.config):
            try:
                parts.add(part)
            except NotProved:
                continue
            if "limit" not in part:  # no count that the oracle tries is near it
                assert contradicted(checkpoint, part) is None, (gap, part)
