"""The float32 model, whatever the order of its sums: bounds against torch itself.

Orders are shuffled in every way torch allows: the letters of a string, the coordinates of the
residual stream and of heads and neurons, the number of threads, strings alone and in a batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tsc_interp as tsc
from tests.cases import CONFIGS
from tests.verification.models import COUNTED, hand_built, random_checkpoint, small_vectors
from tsc_interp.checkpoints import Checkpoint, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_counts, from_tokens
from tsc_interp.tasks.counts import ContainsAll, MostFrequent
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.float32 import float32_answers, float32_horizon
from tsc_interp.verification.search.ways import FloatWays

ROUNDED = [c for c in [*CONFIGS, *COUNTED] if c.n_layers == 1 and not c.has_norm]


def shuffled(checkpoint: Checkpoint, rng: np.random.Generator) -> Checkpoint:
    """The same function of the reals, its sums in another order."""
    config, w = checkpoint.config, dict(checkpoint.weights)
    axes = {"W_E": {-1: "d"}, "W_Q": {-2: "d", -1: "k"}, "W_K": {-2: "d", -1: "k"}}
    axes |= {"W_V": {-2: "d", -1: "v"}, "W_O": {-2: "v", -1: "d"}, "W_in": {-2: "d", -1: "m"}}
    axes |= {"W_out": {-2: "m", -1: "d"}, "W_U": {-2: "d"}, "b_Q": {-1: "k"}, "b_K": {-1: "k"}}
    axes |= {"b_V": {-1: "v"}, "b_O": {-1: "d"}, "b_in": {-1: "m"}, "b_out": {-1: "d"}}
    axes |= {"W_gate": {-2: "d", -1: "m"}, "w": {-1: "d"}, "b": {-1: "d"}}
    sizes = {"d": config.d_model, "k": config.d_head, "v": config.d_head, "m": config.d_mlp}
    order = {name: rng.permutation(size) for name, size in sizes.items()}
    for name, weight in w.items():
        of_heads = name.endswith(("q_norm.w", "k_norm.w"))
        kinds = {-1: "k"} if of_heads else axes.get(name.split(".")[-1], {})
        for axis, what in kinds.items():
            weight = np.take(weight, order[what], axis)
        w[name] = np.ascontiguousarray(weight)
    return Checkpoint(config, w)


def computed(checkpoint: Checkpoint, counts: list[int], rng: np.random.Generator) -> list[float]:
    """The float32 logit as tokens in a random order, and compressed."""
    weights = {name: torch.from_numpy(w) for name, w in checkpoint.weights.items()}
    letters = np.repeat(np.arange(len(counts)), counts) + 2
    parts = [[0], rng.permutation(letters)]
    row = torch.from_numpy(np.concatenate(parts if not checkpoint.config.causal else parts[::-1]))
    config = checkpoint.config
    with torch.no_grad():
        tokens = forward(config, weights, from_tokens(config, row[None]))
        short = forward(config, weights, from_counts(config, torch.tensor([counts] * 3)))
    return [float(tokens[0]), float(short[1])]


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_and_long_strings(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    rng = np.random.default_rng(threads)
    try:
        checkpoint = load_checkpoint("walkthrough")
        model = CountModel(checkpoint)
        for counts in ([1, 1, 2150], [1, 1, 4000], [333, 333, 333]):
            truth = model.logit(counts)
            for form, value in zip(
                ("tokens", "compressed"), computed(checkpoint, counts, rng), strict=True
            ):
                assert abs(truth - value) <= FloatWays(model, form).error((0, 1, 2), counts, 1)
    finally:
        torch.set_num_threads(before)


@settings(max_examples=25)
@given(st.sampled_from(ROUNDED), st.integers(0, 10**6))
def test_what_is_safe_is_right_in_torch(config: ClassifierConfig, seed: int) -> None:
    checkpoint = random_checkpoint(config, seed)
    rng = np.random.default_rng(seed)
    for at, form in enumerate(("tokens", "compressed")):
        found = float32_horizon(checkpoint, limit=6, form=form)  # type: ignore[arg-type]
        for row in small_vectors(config.n_letters, min(found.safe_through, 4)).tolist():
            says = computed(shuffled(checkpoint, rng), row, rng)[at] > 0
            assert says == bool(config.task.labels(np.array(row)))
        if found.first is not None and found.certainty == "wrong":
            row = config.alphabet.counts(found.first).tolist()
            for _ in range(5):
                says = computed(shuffled(checkpoint, rng), row, rng)[at] > 0
                assert says != bool(config.task.labels(np.array(row)))


@pytest.mark.parametrize(
    "parts", [("W_E", "W_U"), ("W_Q", "W_K"), ("W_V", "W_O"), ("W_in", "W_out")]
)
def test_what_may_overflow_is_never_called_safe(parts: tuple[str, str]) -> None:
    """Reals have room for it and float32 has not: an infinity or no number, whatever is true."""
    config = ClassifierConfig(act_fn="relu", biases=True)
    weights = {
        name: w * np.float32(1e25 if name.endswith(parts) else 1.0)
        for name, w in random_checkpoint(config, 0, 1.0).weights.items()
    }
    checkpoint, rng = Checkpoint(config, weights), np.random.default_rng(0)
    says = [computed(checkpoint, row, rng) for row in small_vectors(3, 3).tolist()]
    assert not np.isfinite(says).all()
    assert float32_horizon(checkpoint, limit=4).safe_through == 0


def near_tie(gap: float) -> Checkpoint:
    """Says yes to `ab` by `gap`, no more: one head that weighs a and b alike."""
    return hand_built([[0.0, 0.0, -30.0]], [[3.0, 1.0, -9.0]], 2.0 - gap)


@pytest.mark.parametrize("gap", [0.0, 1e-7, -1e-7, 3e-7])
def test_near_ties_depend_on_rounding(gap: float) -> None:
    found = float32_horizon(near_tie(gap), limit=2)
    (answer,) = float32_answers(near_tie(gap), "ab")
    assert abs(answer.logit) < answer.bound
    assert answer.certainty == "depends on rounding"
    assert found.safe_through <= 1


def test_the_three_answers() -> None:
    """Far from the tie, on either side, and at it."""
    said = [float32_answers(near_tie(gap), "ab")[0].certainty for gap in (1e-3, -1e-3, 0.0)]
    assert said == ["right", "wrong", "depends on rounding"]


def test_the_walk_through_model() -> None:
    """Real horizon 2,166; in float32 the last strings before it depend on the order."""
    verdict = tsc.verify("walkthrough", 20, horizon=True)
    found = verdict.float32_horizon
    assert found is not None
    assert found.safe_through == 2164
    assert found.first == "abc{2163}"
    assert found.certainty == "depends on rounding"
    assert verdict.to_dict()["float32_horizon"]["safe_through"] == 2164
    assert any("any order of sums" in line for _, line in verdict._lines())
    assert float32_horizon("walkthrough", form="compressed").safe_through == 2166
    wrong = float32_horizon("generalization-errors")
    assert (wrong.safe_through, wrong.first, wrong.certainty) == (66, "ab{66}", "wrong")


@pytest.mark.parametrize("options", [{"norm": "rms", "d_mlp": 0}, {"n_layers": 2, "n_letters": 2}])
def test_what_is_not_bounded_is_refused(options: dict[str, Any]) -> None:
    checkpoint = random_checkpoint(ClassifierConfig(d_model=4, **options), 0)
    with pytest.raises(UnsupportedError, match="one layer without norms"):
        float32_horizon(checkpoint)
    with pytest.raises(UsageError, match="'tokens' or 'compressed'"):
        float32_horizon("walkthrough", form="both")  # type: ignore[arg-type]
    assert tsc.verify(checkpoint, 3, horizon=True).float32_horizon is None


def test_outputs_of_the_same_weights_depend_on_rounding() -> None:
    """Over the reals class 0 wins every tie; in float32 the sums may come out either way."""
    config = ClassifierConfig(task=MostFrequent(), n_outputs=3, d_model=3)
    weights = {name: w.copy() for name, w in random_checkpoint(config, 1).weights.items()}
    weights["unembed.W_U"][:] = weights["unembed.W_U"][:, :1]
    found = float32_horizon(Checkpoint(config, weights), limit=3)
    assert (found.safe_through, found.first) == (0, "a")
    assert found.certainty == "depends on rounding"


def some_equal_outputs(best: int) -> Checkpoint:
    """Of 17 outputs one is the least; the others have the same weights, whose order decides."""
    config = ClassifierConfig(
        n_letters=1, task=ContainsAll(letters="a"), n_outputs=17, d_model=4, n_heads=0, d_mlp=0
    )
    columns = np.tile(np.array([[1e8], [1.0], [-1e8], [1e3]], np.float32), 17)
    columns[:, 1 - best] *= -1
    embedding = np.ones((3, 4), np.float32)
    return Checkpoint(config, {"embed.W_E": embedding, "unembed.W_U": columns})


def test_a_tie_of_some_outputs_depends_on_rounding() -> None:
    checkpoint = some_equal_outputs(best=1)
    column = checkpoint.weights["unembed.W_U"][:, 1]
    assert sum(column, np.float32(0)) != sum(column[[0, 2, 1, 3]], np.float32(0))
    found = float32_horizon(checkpoint, limit=3)
    assert (found.safe_through, found.first) == (0, "a")
    assert found.certainty == "depends on rounding"
