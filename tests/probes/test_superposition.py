"""Superposition: hull and cone distances against brute force, and what the report's models say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.probes.models import QUERY, TOKENS, check_survives_json, transformer_lens_model
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.attention import read
from tsc_interp.probes.inputs import Inputs
from tsc_interp.probes.registry import find_probe
from tsc_interp.probes.superposition import nearest_in_cone, nearest_in_hull

superposition = find_probe("superposition")


def brute_force_hull(point: np.ndarray, others: np.ndarray, steps: int = 60) -> float:
    """The nearest of all mixtures on a fine grid: never nearer than the hull."""
    grid = [
        np.array(shares) / steps
        for shares in itertools.product(range(steps + 1), repeat=len(others))
        if sum(shares) == steps
    ]
    return float(np.linalg.norm(np.array(grid) @ others - point, axis=1).min())


@given(seed=st.integers(0, 10**6), size=st.integers(1, 3), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_hull_distance_matches_brute_force_over_mixtures(
    seed: int, size: int, scale: float
) -> None:
    generator = np.random.default_rng(seed)
    others, point = scale * generator.normal(size=(3, size)), scale * generator.normal(size=size)
    distance, weights = nearest_in_hull(point, others)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    assert np.linalg.norm(weights @ others - point) == pytest.approx(distance)
    brute = brute_force_hull(point, others, steps=40)
    step = np.abs(others[:, None] - others[None]).max() * size / 40
    assert distance <= brute + 1e-9 * scale
    assert brute <= distance + step


@given(seed=st.integers(0, 10**6), size=st.integers(1, 4))
def test_cone_distance_is_optimal(seed: int, size: int) -> None:
    """Invariant: the remainder is orthogonal to what is used and obtuse to everything (KKT)."""
    generator = np.random.default_rng(seed)
    others, point = generator.normal(size=(3, size)), generator.normal(size=size)
    distance, weights = nearest_in_cone(point, others)
    rest = point - weights @ others
    assert distance == pytest.approx(float(np.linalg.norm(rest)), abs=1e-9)
    assert (others @ rest <= 1e-9).all()
    assert rest @ (weights @ others) == pytest.approx(0, abs=1e-9)


def test_known_geometry() -> None:
    corners = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    assert nearest_in_hull(np.array([0.5, 0.5]), corners)[0] == pytest.approx(0, abs=1e-12)
    assert nearest_in_hull(np.array([2.0, 2.0]), corners)[0] == pytest.approx(2**0.5)
    assert nearest_in_cone(np.array([-1.0, 3.0]), corners[1:])[0] == pytest.approx(1)
    assert nearest_in_hull(np.array([1.0]), np.zeros((0, 1)))[0] == float("inf")


def test_the_report_on_generalization_errors() -> None:
    result = superposition.run(load("generalization-errors"), ["b{2}c{152}", "ab"])
    assert result.values.at(layer=0, head=0, letter="a") == pytest.approx(2.0178, abs=5e-5)
    assert result.values.at(layer=0, head=0, letter="c") == pytest.approx(1.3575, abs=5e-5)
    # On a number line the hull of b and c ends at c.
    assert result.hull_distance.at(layer=0, head=0, letter="a") == pytest.approx(
        2.0178 - 1.3575, abs=1e-4
    )
    explained = [f for f in result.findings if f.severity == "failure"]
    assert len(explained) == 1
    for words in ("b{2}c{152}", "no `a`", "`c` is mistaken for it", "1.3575", "2.0178"):
        assert words in explained[0].text
    # 41% a: the share that places the head's value between those of b and a.
    head_value = float(result.string_values.at(layer=0, string="b{2}c{152}", head=0)[0])
    assert explained[0].numbers["share"] == pytest.approx((head_value + 2.0806) / 4.0984, abs=1e-3)


def test_walkthrough_has_nobody_to_imitate(walkthrough: HookedClassifier) -> None:
    result = superposition.run(walkthrough, ["aac", "baac"])
    assert {finding.severity for finding in result.findings} == {"good"}


def test_false_positives_without_imitation_are_said_to_be() -> None:
    texts = [f.text for f in superposition.run(load("lower-magnitude"), ["b", "bc"]).findings]
    assert any("No letter is mistaken" in text and "`b`, `bc`" in text for text in texts)


def test_odd_sizes_and_round_trip(odd_model: HookedClassifier) -> None:
    result = superposition.run(odd_model, ["abcde", "d{3}"])
    assert result.values.shape == (1, 3, 5, 2)
    assert result.hull_distance.shape == (1, 4, 5)
    assert result.mixture.array.sum(-1) == pytest.approx(np.ones((1, 4, 5)))
    check_survives_json(result)


def test_transformer_lens_model_against_its_own_cache() -> None:
    """Values are averages over what the query can see: recomputed here token by token."""
    model = transformer_lens_model()
    result = superposition.run(model, TOKENS, query=QUERY, layer=1)
    cache = model.run_with_cache(TOKENS)[1]
    seen = TOKENS[:, : QUERY + 1]
    values = cache["blocks.1.attn.hook_v"][:, : QUERY + 1]
    for letter in result.values.labels["letter"]:
        expected = values[seen == int(letter)].mean(0)
        got = result.values.at(layer=1, letter=letter)
        assert got == pytest.approx(expected.detach().numpy(), abs=1e-6)
    assert set(result.values.labels["letter"]) == {str(token) for token in seen.unique().tolist()}
    assert any("differ between its occurrences" in text for text in result.not_applicable)
    check_survives_json(result)


def test_reading_weights_add_up_on_both_kinds_of_model(odd_model: HookedClassifier) -> None:
    for reading in (
        read(Inputs(odd_model, ["ab{7}", "cd{3}e"])),
        read(Inputs(transformer_lens_model(None), TOKENS, query=QUERY)),
    ):
        for layer in reading.layers:
            assert layer.weights.sum(-1) == pytest.approx(np.ones(layer.weights.shape[:2]))


def test_refusals(walkthrough: HookedClassifier, odd_model: HookedClassifier) -> None:
    with pytest.raises(UsageError, match="at least one string"):
        superposition.run(walkthrough, [])
    with pytest.raises(UsageError, match="layers 0 to 0"):
        superposition.run(walkthrough, ["ab"], layer=1)
    with pytest.raises(UsageError, match="query position 9"):
        superposition.run(walkthrough, ["ab"], query=9)
    with pytest.raises(UsageError, match=r"\[2\]"):
        superposition.run(walkthrough, ["ab"], direction=[1.0, 2.0, 3.0])
    with pytest.raises(UsageError, match="token ids"):
        superposition.run(transformer_lens_model(), ["ab"])
    no_heads = HookedClassifier(odd_model.config.replace(n_heads=0))
    with pytest.raises(UnsupportedError, match="no attention"):
        superposition.run(no_heads, ["ab"])


def test_scores_that_do_not_explain_the_pattern_are_refused(walkthrough: HookedClassifier) -> None:
    """A permanent edit downstream of the scores must not be read as if it were not there."""
    hook = walkthrough.hook_dict["blocks.0.attn.hook_pattern"]
    edit = ("blocks.0.attn.hook_pattern", lambda pattern, hook: torch.roll(pattern, 1, -1))
    with walkthrough.hooks([edit]), pytest.raises(UnsupportedError, match="softmax"):
        superposition.run(walkthrough, ["aac"])
    assert not hook.fwd_hooks
