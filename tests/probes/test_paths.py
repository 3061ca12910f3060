"""Paths: each edge by hand, and gradients where they are exact."""

from __future__ import annotations

import numpy as np
import pytest

from tests.model.test_forward import shaken_weights
from tests.probes.models import check_survives_json
from tests.probes.patching_oracle import OneLayer
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.interventions.singly import expected, singly
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.registry import figures, find_probe

paths = find_probe("paths")

ODD = ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11)


@pytest.mark.parametrize("name", ["odd", "generalization-errors"])
def test_every_edge_by_hand(name: str) -> None:
    if name == "odd":
        model, pairs = HookedClassifier(ODD, shaken_weights(ODD)), [("ab{3}e{2}", "a{4}ce")]
    else:
        model, pairs = load(name), [("ab{66}", "ab{100}"), ("aab", "acc")]
    config = model.config
    oracle = OneLayer(config, {k: v.detach() for k, v in model.named_parameters()})
    result = paths.run(model, ["a"], pairs=pairs)
    for pair, found in zip(pairs, result.pairs, strict=True):
        effects = {edge.name: edge.effect for edge in found.edges}
        wanted = {}
        for h in range(config.n_heads):
            wanted[f"head {h} → logit"] = oracle.effect(*pair, ("heard", "logit", h), ("z", h))
            for n in range(config.d_mlp):
                edge = f"head {h} → neuron {n}"
                wanted[edge] = oracle.effect(*pair, ("heard", n, h), ("z", h))
            for t, letter in enumerate(config.alphabet.letters):
                wanted[f"{letter} → head {h} (count)"] = oracle.effect(*pair, ("score", h, t))
        for n in range(config.d_mlp):
            wanted[f"neuron {n} → logit"] = oracle.effect(*pair, ("said", n), ("post", n))
        assert set(effects) <= set(wanted)
        for edge, effect in wanted.items():
            assert effects.get(edge, 0.0) == pytest.approx(effect, abs=2e-4), edge
        assert len(wanted) == len(effects) + found.same
        assert found.left_out == 0
    check_survives_json(result)


def test_gradients_are_exact_where_all_is_linear() -> None:
    """Without an MLP nothing after a head bends: head → logit is exact, and neuron → logit always.

    And the size of the patch does not matter then: half the way is half the effect.
    """
    config = ClassifierConfig(d_model=6, n_heads=3, d_head=2, d_mlp=0)
    model = HookedClassifier(config, shaken_weights(config))
    result = paths.run(model, ["a"], pairs=[("abbc", "acc"), ("a", "bc{30}")])
    for found in result.pairs:
        assert np.allclose(found.effects, found.estimates, atol=1e-4)
        assert {edge.through for edge in found.edges} == {"", "count"}
    bent = paths.run(load("walkthrough"), ["aab", "aac"]).pairs[0]
    errors = {edge.name: abs(edge.effect - edge.estimate) for edge in bent.edges}
    assert max(e for name, e in errors.items() if name.endswith("→ logit")) < 1e-4
    assert max(errors.values()) > 0.1


def test_estimates_are_the_slope_of_what_interventions_do() -> None:
    """Oracle: a thousandth of the change, a thousandth of the effect, times a thousand."""
    config = ClassifierConfig(n_layers=2, d_model=5, n_heads=2, d_head=3, d_mlp=4)
    model = HookedClassifier(config, shaken_weights(config)).double()
    part = ["head1", "neuron2", "layer1.head0.key", "head0->layer1.head1.value", "head1->neuron3",
            "layer1.resid_pre@0", "head0.value[b]"]  # fmt: skip
    step = 1e-4
    small = singly(model, "abc", [f"{p}=scale({1 - step})" for p in part])
    slopes = (small.after.double() - small.before) / step
    estimates = expected(model, "abc", [f"{p}=zero" for p in part])
    assert estimates.tolist() == pytest.approx(slopes.tolist(), abs=1e-3)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_many_edges_are_bounded_and_what_is_left_out_is_said(monkeypatch) -> None:
    monkeypatch.setattr("tsc_interp.probes.paths.MOST_MEASURED", 7)
    model = HookedClassifier(ODD, shaken_weights(ODD))
    pair = [("ab{3}e{2}", "a{4}ce")]
    few = paths.run(model, ["a"], pairs=pair)
    monkeypatch.undo()
    every = paths.run(model, ["a"], pairs=pair).pairs[0]
    assert len(few.pairs[0].edges) == 7
    assert few.pairs[0].left_out == len(every.edges) + every.same - 7
    largest = sorted(every.edges, key=lambda edge: -abs(edge.estimate))
    assert {e.name for e in few.pairs[0].edges} == {e.name for e in largest[:7]}
    assert few.pairs[0].left_out_estimate == pytest.approx(abs(largest[7].estimate))
    assert "left out" in few.findings[-1].text
    monkeypatch.setattr("tsc_interp.probes.paths.MOST_EDGES", 7)
    with pytest.raises(UnsupportedError, match="edges"):
        paths.run(model, ["a"], pairs=pair)


def test_by_position_letters_are_heard_as_keys_and_values() -> None:
    config = ClassifierConfig(n_positions=8, d_model=5, d_mlp=3)
    model = HookedClassifier(config, shaken_weights(config))
    result = paths.run(model, ["abcc", "aacc"])
    found = {edge.name: edge for edge in result.pairs[0].edges}
    assert {"2 b|a → head 0 (key)", "2 b|a → head 1 (value)"} <= set(found)
    assert not any("1 a" in name for name in found)
    # A value is heard linearly up to the head; as the only change it is what the head then says.
    assert abs(found["2 b|a → head 0 (value)"].effect) > 1e-4
    assert figures(result)


def test_refusals() -> None:
    after = ClassifierConfig(norm="rms", attention_norm="rms", d_model=4)
    with pytest.raises(UnsupportedError, match="norms after its sub-layers"):
        paths.run(HookedClassifier(after, seed=1), ["ab", "acc"])
    with pytest.raises(UsageError, match="same logit"):
        paths.run(load("walkthrough"), ["ab", "ba"])
