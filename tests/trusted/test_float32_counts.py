"""Float32 and counts: torch, in many orders of its sums, is the judge of what is accepted."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tsc_interp as tsc
from tests.trusted.counts import judge_of, replay_of
from tests.verification.models import hand_built, planted, random_checkpoint, small_vectors
from tests.verification.test_float32 import (
    ROUNDED,
    computed,
    near_tie,
    shuffled,
    some_equal_outputs,
)
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_counts, from_tokens
from tsc_interp.strings import CLS, PAD
from tsc_interp.tasks.counts import ContainsAll
from tsc_interp.trusted.boxes import Boxes
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.float32 import FORMS
from tsc_interp.verification.count_model import CountModel

ROWS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [1, 1, 1], [2, 1, 0],
                 [0, 1, 2]])  # fmt: skip


def gap(checkpoint: Checkpoint, counts: Any, winner: int, form: str | None) -> float:
    """Below the margin of a class of two, over the reals or in float32 as well."""
    judge, support = judge_of(checkpoint), tuple(np.flatnonzero(counts).tolist())
    own = [float(checkpoint.config.attend_cls), *np.asarray(counts)[list(support)]]
    length, wanted = int(sum(counts)), np.array([[True, True]])
    wanted[0, winner] = False
    ends = np.array([own]), np.array([own])
    boxes = Boxes(*ends, [length], [length])
    found = judge.gaps_in_boxes(support, boxes, np.array([winner]), wanted, form, length)
    point, none, winners = ends[0][:, 1:], np.zeros(1, dtype=np.int64), np.array([winner])
    at_once = judge.gaps_at_vectors(support, point, none, winners, wanted, form, length)
    # Both are below the margin: the larger has to be, too.
    return float(np.fmax(found, at_once)[0, 1 - winner])


@pytest.mark.parametrize("config", ROUNDED[::2], ids=lambda config: config.key()[:6])
def test_no_order_of_sums_leaves_the_bounds(config: ClassifierConfig) -> None:
    rng, finite = np.random.default_rng(7), 0
    for seed in range(2):
        checkpoint = random_checkpoint(config, seed, scale=float(rng.choice([0.5, 2, 4])))
        for most in (1, 40, 700):
            counts = rng.integers(0, most + 1, config.n_letters)
            counts[0] += 1
            bounds = {form: (gap(checkpoint, counts, 1, form), -gap(checkpoint, counts, 0, form))
                      for form in FORMS}  # fmt: skip
            for _ in range(3):
                found = computed(shuffled(checkpoint, rng), counts.tolist(), rng)
                for form, value in zip(FORMS, found, strict=True):
                    low, high = bounds[form]
                    finite += np.isfinite(low)
                    assert not value < low
                    assert not value > high
    assert finite


@pytest.mark.parametrize("config", ROUNDED[::5], ids=lambda config: config.key()[:6])
def test_certified_is_right_in_torch(config: ClassifierConfig) -> None:
    rng = np.random.default_rng(3)
    for seed in (0, 1, 3):
        checkpoint = random_checkpoint(config, seed)
        for at, form in enumerate(FORMS):
            certificate = tsc.certify(checkpoint, limit=6, float32=form)  # type: ignore[arg-type]
            derived = tsc.check(certificate, checkpoint).float32[form]
            assert certificate.float32 is not None
            assert certificate.float32.safe_through == derived.safe_through
            assert certificate.float32.proved
            for row in small_vectors(config.n_letters, min(derived.safe_through, 4)).tolist():
                says = computed(shuffled(checkpoint, rng), row, rng)[at] > 0
                assert says == bool(config.task.labels(np.array(row)))
            if derived.first_wrong is not None:
                row = config.alphabet.counts(derived.first_wrong).tolist()
                says = {computed(shuffled(checkpoint, rng), row, rng)[at] > 0 for _ in range(5)}
                assert says == {not config.task.labels(np.array(row))}


def summed(values: list[float]) -> Checkpoint:
    """No attention, no MLP: the logit is the sum of these, whatever the string."""
    config = ClassifierConfig(
        n_letters=1, task=ContainsAll(letters="a"), n_heads=0, d_mlp=0, d_model=len(values)
    )
    weights = {"embed.W_E": np.zeros((3, len(values)), np.float32)}
    weights["embed.W_E"][0] = values
    weights["unembed.W_U"] = np.ones((len(values), 1), np.float32)
    return Checkpoint(config, weights)


def refused(checkpoint: Checkpoint, part: dict[str, Any]) -> bool:
    try:
        replay_of(checkpoint, "tokens").parts.add(part)
    except NotProved:
        return True
    return False


@pytest.mark.parametrize("small", [2.0**-26, 2.0**-25, -(2.0**-26)])
def test_sums_whose_order_decides_are_claimed_neither_way(small: float) -> None:
    """1 + s - 1 is s or 0, by the order: torch says both."""
    checkpoint = summed([1.0, small, -1.0, 2 * small])
    for j in (0, 1):
        leaf = ["is", j, "float32"]
        assert refused(checkpoint, {"letters": [0], "up_to": 1, "tree": [leaf]})
        assert refused(checkpoint, {"counts": [1], "tree": [leaf]})
    real = {"letters": [0], "up_to": 1, "tree": [["is", 1]]}
    assert refused(checkpoint, real) == (small < 0)


def test_no_tie_of_equal_outputs_is_won_in_float32() -> None:
    """torch rounds columns of the same weights apart, where there are 17 of them."""
    for best, part in (
        (1, {"letters": [0], "up_to": 3, "tree": [["is", 1]]}),
        (0, {"counts": [1], "tree": [["is", 0]]}),
    ):
        checkpoint = some_equal_outputs(best)
        assert not refused(checkpoint, part)
        assert refused(checkpoint, {**part, "tree": [[*part["tree"][0], "float32"]]})  # type: ignore[index]


def test_the_order_of_letters_decides_and_is_not_claimed() -> None:
    """Values 2^24, -2^24 and 1: the same letters in another order give another sign in torch."""
    checkpoint = hand_built(
        [[0.0, 0.0, 0.0]], [[2.0**24, -(2.0**24), 1.0]], 0.25, task=ContainsAll(letters="abc")
    )
    weights = {name: torch.from_numpy(w) for name, w in checkpoint.weights.items()}
    rows = torch.tensor([[0, *order] for order in set(permutations([2, 2, 3, 3, 4, 4]))])
    with torch.no_grad():
        says = set((forward(checkpoint.config, weights, from_tokens(checkpoint.config, rows)) > 0)
                   .tolist())  # fmt: skip
    assert says == {True, False}
    assert gap(checkpoint, [2, 2, 2], 1, None) > 0
    assert not gap(checkpoint, [2, 2, 2], 1, "tokens") > 0


@pytest.mark.parametrize("size", [1e-7, -1e-7, 3e-7, 1e-2, -1e-2])
def test_near_ties_of_attention(size: float) -> None:
    assert (gap(near_tie(size), [1, 1, 0], 1, "tokens") > 0) == (size == 1e-2)


def test_a_box_is_asked_about_at_its_longest_input() -> None:
    """Longer inputs are rounded more; the longest of a box, or of the part, is what counts."""
    checkpoint = planted(4)
    bounds = [gap(checkpoint, [n, n, 0], 1, "tokens") for n in (1, 10, 100, 10**5)]
    real = [gap(checkpoint, [n, n, 0], 1, None) for n in (1, 10, 100, 10**5)]
    lost = [a - b for a, b in zip(real, bounds, strict=True)]
    assert lost == sorted(lost)
    assert not np.isfinite(gap(checkpoint, [2**22, 2**22, 0], 1, "tokens"))
    assert np.isfinite(gap(checkpoint, [2**40, 2**40, 0], 1, "compressed"))


def test_deeper_models_make_no_float32_claim() -> None:
    checkpoint = random_checkpoint(ClassifierConfig(n_layers=2), 0, 1.0)
    assert refused(checkpoint, {"counts": [1, 0, 0], "tree": [["is", 1, "float32"]]})
    with pytest.raises(UnsupportedError, match="one layer"):
        tsc.certify(checkpoint, limit=3, float32="tokens")


# -- overflow --------------------------------------------------------------------------------------


def in_torch(checkpoint: Checkpoint, form: str) -> np.ndarray:
    """The float32 logits of `ROWS`; as tokens all but the longest have PADs behind them."""
    config = checkpoint.config
    weights = {name: torch.from_numpy(w) for name, w in checkpoint.weights.items()}
    if form == "tokens":
        strings = [config.alphabet.expand(config.alphabet.write(row)) for row in ROWS]
        inputs = from_tokens(config, tsc.load(checkpoint).tokens(strings))
    else:
        inputs = from_counts(config, torch.tensor(ROWS))
    with torch.no_grad():
        return forward(config, weights, inputs).numpy()


@settings(max_examples=15, deadline=None)
@example(seed=2, token=CLS, parts="V", exponent=50.0, attend_cls=False, log_n=False)
@example(seed=1, token=PAD, parts="V", exponent=50.0, attend_cls=True, log_n=True)
@given(
    seed=st.integers(0, 10**6),
    token=st.integers(0, 4),
    parts=st.sampled_from(["K", "V", "Q", "KV"]),
    exponent=st.floats(-3.0, 60.0),
    attend_cls=st.booleans(),
    log_n=st.booleans(),
)
def test_masked_tokens_that_overflow_are_felt(
    seed: int, token: int, parts: str, exponent: float, attend_cls: bool, log_n: bool
) -> None:
    """A masked key's score gets -inf added and its value is multiplied by 0: NaN if infinite.

    Two dimensions: one token, and one projection, are huge in the second, to 1e60 together.
    """
    scale = "sqrt_d_head_log_n" if log_n else "sqrt_d_head"
    config = ClassifierConfig(attend_cls=attend_cls, score_scale=scale)
    weights = {n: w.copy() for n, w in random_checkpoint(config, seed, 1.0).weights.items()}
    huge = np.float32(10 ** (exponent / 2))
    weights["embed.W_E"][token, 1] = huge
    weights["blocks.0.attn.W_Q"][:, 1] = 0.0  # else every score overflows where CLS is huge
    for part in parts:
        weights[f"blocks.0.attn.W_{part}"][:, 1] = huge
    checkpoint = Checkpoint(config, weights)
    model = CountModel(checkpoint)
    for form in FORMS:
        for row, logit in zip(ROWS, in_torch(checkpoint, form), strict=True):
            low, high = gap(checkpoint, row, 1, form), -gap(checkpoint, row, 0, form)
            if np.isfinite(low) and np.isfinite(high):
                assert low <= logit <= high
                assert low <= model.logit(row.tolist()) <= high
