"""Circuits of any model: gates against hooks written by hand, and models whose circuit is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.probes.models import (
    QUERY,
    TOKENS,
    check_survives_json,
    make_transformer_lens_model,
    transformer_lens_model,
)
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.interventions.hooks import intervene
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.probes.inputs import Inputs
from tsc_interp.probes.registry import figures, run_probe
from tsc_interp.probes.wiring import Gated


def leads(outputs: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    others = outputs.scatter(1, own[:, None], -torch.inf).max(1).values
    return outputs.gather(1, own[:, None])[:, 0] - others


def gated(model: object, tokens: torch.Tensor = TOKENS) -> Gated:
    return Gated(Inputs(model, tokens, query=QUERY))


@pytest.mark.parametrize("norm", ["LN", "RMS", None])
def test_each_edge_alone_is_what_the_intervention_does(norm: str | None) -> None:
    """Two independent ways to cut an edge: gates for all at once, and one intervention each."""
    model = transformer_lens_model(norm)
    graph = gated(model)
    with torch.no_grad():
        own = model(TOKENS)[:, QUERY].argmax(1)
        alone = graph(1 - torch.eye(len(graph.edges)))
    assert len(graph.edges) == 2 * 3 * 1 + 3 + 6 * 4 + 6 + 7  # qkv, mlp, qkv, mlp, logit
    for edge, lead in zip(graph.edges, alone, strict=True):
        after = intervene(model, TOKENS, f"{edge}=zero").after[:, QUERY]
        torch.testing.assert_close(lead, leads(after, own), atol=2e-4, rtol=1e-4)


def test_many_edges_at_once_without_norms() -> None:
    model = transformer_lens_model(None)
    graph = gated(model)
    kept = np.random.default_rng(0).random((4, len(graph.edges))) < 0.6
    with torch.no_grad():
        own = model(TOKENS)[:, QUERY].argmax(1)
    for choice, lead in zip(kept, graph.leads(kept), strict=True):
        cut = [f"{e}=zero" for e, stays in zip(graph.edges, choice, strict=True) if not stays]
        after = intervene(model, TOKENS, cut).after[:, QUERY]
        np.testing.assert_allclose(lead, leads(after, own).numpy(), atol=2e-4)


def test_nothing_but_corrupted_edges_is_the_corrupted_run() -> None:
    """Every edge from the corrupted rows: the logit hears only them, through a final norm too."""
    model, other = transformer_lens_model(), TOKENS.flip(0)
    graph = gated(model)
    graph.reference = gated(model, other).written()
    with torch.no_grad():
        own = model(TOKENS)[:, QUERY].argmax(1)
        expected = leads(model(other)[:, QUERY], own)
        got = graph(torch.zeros(len(graph.edges), 1))[0]
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


def test_attribution_is_the_slope_of_the_gates() -> None:
    graph = gated(transformer_lens_model())
    step = 1e-2
    for edge in (0, 7, len(graph.edges) - 1):
        gates = torch.ones(len(graph.edges), 2)
        gates[edge] += torch.tensor([step, -step])
        with torch.no_grad():
            up, down = graph(gates)
        slope = ((up - down) / (2 * step)).abs().mean()
        assert graph.attribution()[edge] == pytest.approx(float(slope), rel=0.02, abs=1e-3)


@pytest.mark.parametrize("fill", ["zero", "mean", "corrupted"])
def test_the_circuit_answers_as_the_model(fill: str) -> None:
    model = transformer_lens_model()
    options = {"corrupted": TOKENS.flip(0)} if fill == "corrupted" else {"fill": fill}
    result = run_probe("circuit", model, TOKENS, query=QUERY, **options)
    assert result.rows == 5
    assert result.front[0].vectors >= 0
    assert 0 < len(result.circuit.kept) < len(result.parts)
    assert set(result.circuit.kept) | set(result.circuit.removed) == set(result.parts)
    assert [f.name for f in figures(result)] == ["front", "graph", "ranking"]
    assert "not proved" in result.findings[0].text
    check_survives_json(result)
    if fill == "zero":  # the circuit, cut edge by edge in another way, gives the same answers
        graph = gated(model)
        kept = np.isin(result.parts, result.circuit.kept)
        assert (graph.leads(kept[None]) > 0).all()


def test_our_own_model_with_norms_and_positions() -> None:
    config = ClassifierConfig(n_layers=2, n_positions=8, norm="layer", d_model=6, n_heads=2)
    result = run_probe("circuit", HookedClassifier(config, seed=1), ["abc", "cba", "acb"])
    assert result.rows == 3
    assert "layer1.head1.key" in " ".join(result.parts)


def test_a_part_that_does_nothing_is_left_out() -> None:
    """A head whose output weights are zero cannot be in the circuit."""
    model = make_transformer_lens_model(attn_only=True)
    with torch.no_grad():
        model.blocks[1].attn.W_O[0] = 0.0
    result = run_probe("circuit", model, TOKENS, query=QUERY)
    assert not [part for part in result.circuit.kept if part.startswith("layer1.head0->")]


def test_too_many_edges_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = transformer_lens_model()
    size = sum(p.numel() for p in model.parameters()) * TOKENS.numel()
    monkeypatch.setattr("tsc_interp.probes.inputs.MOST_WORK", 100 * size)
    with pytest.raises(UnsupportedError, match="46 edges"):
        run_probe("circuit", model, TOKENS, query=QUERY)


def test_what_cannot_be_asked() -> None:
    model = transformer_lens_model()
    with pytest.raises(UnsupportedError, match="only edges"):
        run_probe("circuit", model, TOKENS, graph="nodes")
    with pytest.raises(UsageError, match="same length"):
        run_probe("circuit", model, TOKENS, corrupted=TOKENS[:, :5])
    with pytest.raises(UsageError, match="query"):
        run_probe("circuit", "walkthrough", ["ab"], query=0)
    with pytest.raises(UnsupportedError, match="run_with_hooks"):
        run_probe("circuit", torch.nn.Linear(2, 2), TOKENS)
