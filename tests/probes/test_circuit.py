"""Circuits: one known by construction, brute force, and edits as the oracle."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.verification.models import random_checkpoint
from tsc_interp.checkpoints import Checkpoint, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.classifier import Classifier
from tsc_interp.probes.circuit import auc
from tsc_interp.probes.registry import figures, run_probe
from tsc_interp.probes.wiring import wiring
from tsc_interp.verification import difference

STRINGS = ["aac", "ab", "abc", "bcc"]


def constructed() -> Checkpoint:
    """Head 0 finds a and tells the logit; head 1 finds b and tells neuron 2, which tells the logit.

    Dimensions: 0 and 1 are written by the heads, 2 and 3 say b and a, 4 says letter, 5 says CLS.
    Head 2 and neurons 0 and 1 are there, read and write, and are heard by no one that matters.
    logit = 2 (a or not: ±1) + GELU(3 (b or not: ±1)) - 4.
    """
    config = ClassifierConfig(d_model=7, n_heads=3, d_head=1, d_mlp=3)
    w = {name: np.zeros(shape, np.float32) for name, shape in config.weight_shapes().items()}
    embed = w["embed.W_E"]
    embed[0, 5] = 1.0
    embed[2:, 4] = 1.0
    embed[2, 3] = embed[3, 2] = 1.0
    attn = {x: w[f"blocks.0.attn.W_{x}"] for x in "QKVO"}
    for head, letter, out in ((0, 3, 0), (1, 2, 1), (2, 3, 6)):
        attn["Q"][head, 5, 0], attn["K"][head, letter, 0] = 10.0, 1.0
        attn["V"][head, letter, 0], attn["V"][head, 4, 0] = 2.0, -1.0
        attn["O"][head, 0, out] = 2.0 if head == 0 else 1.0
    w["blocks.0.mlp.W_in"][1, 2] = 3.0
    w["blocks.0.mlp.W_in"][6, :2] = 1.0
    w["blocks.0.mlp.W_out"][2, 0] = 1.0
    w["blocks.0.mlp.W_out"][:2, 6] = 1.0
    w["unembed.W_U"][0, 0], w["unembed.W_U"][5, 0] = 1.0, -4.0
    return Checkpoint(config, w)


KNOWN = {"head0->logit", "head1->neuron2", "neuron2->logit", "embed->logit"}


def test_a_circuit_known_by_construction_is_found():
    model = constructed()
    assert tsc.verify(model, 20).correct
    # 15 edges are too many for all choices, so this is one removal at a time.
    result = run_probe("circuit", model, STRINGS, max_length=12)
    assert result.circuit is not None
    assert set(result.circuit.kept) == KNOWN
    assert result.circuit.agree_through is None  # the same function: proved at every length
    assert result.auc.at(method="removed alone") == 1.0
    nodes = run_probe("circuit", model, STRINGS, graph="nodes", max_length=12)
    assert nodes.search.startswith("all 64")
    assert set(nodes.circuit.kept) == {"head0", "head1", "neuron2"}


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_wires_are_what_edits_compute(seed):
    checkpoint = random_checkpoint(ClassifierConfig(d_model=3, d_mlp=2, n_heads=2), seed)
    counts = np.array([[1, 0, 0], [1, 1, 0], [2, 1, 3], [0, 4, 1]])
    wires = wiring(checkpoint, counts)
    means = wiring(checkpoint, checkpoint.config.alphabet.count_matrix(STRINGS))
    edges = [str(edge) for edge in wires.edges()]
    rng = np.random.default_rng(seed)
    keep = (rng.random((12, len(edges))) < 0.6).astype(float)
    texts = [checkpoint.config.alphabet.write(row) for row in counts]
    for change, fill in (("zero", None), (f"mean({', '.join(STRINGS)})", means)):
        found = wires.logits(keep, fill)
        for row, mask in zip(found, keep, strict=True):
            gone = [f"{e}={change}" for e, stays in zip(edges, mask, strict=True) if not stays]
            edited = tsc.edit(checkpoint, gone) if gone else checkpoint
            with torch.no_grad():
                expected = Classifier.from_checkpoint(edited)(texts).double().numpy()
            np.testing.assert_allclose(row, expected, atol=2e-5, rtol=1e-5)


def test_the_front_by_brute_force():
    """Every set of heads and neurons of a model, each an edit, each counted exactly."""
    checkpoint = load_checkpoint("generalization-errors")
    result = run_probe("circuit", checkpoint, STRINGS, graph="nodes", max_length=20)
    best: dict[int, int] = {}
    for size in range(5):
        for kept in combinations(result.parts, size):
            gone = [f"{part}=zero" for part in result.parts if part not in kept]
            found = difference(checkpoint, tsc.edit(checkpoint, gone) if gone else checkpoint, 20)
            best[size] = min(best.get(size, found.vectors), found.vectors)
    for choice in result.front:
        assert choice.vectors == best[choice.size]
    sizes = {choice.size for choice in result.front}
    least = np.inf
    for size in range(5):
        assert (size in sizes) == (best[size] < least) or least == 0
        least = min(least, best[size])


def test_the_three_edges_of_the_walkthrough():
    result = run_probe("circuit", "walkthrough", STRINGS, max_length=12)
    assert set(result.circuit.kept) == {"head0->neuron0", "head1->logit", "neuron0->logit"}
    gone = [f"{part}=zero" for part in result.circuit.removed]
    circuit = tsc.edit("walkthrough", gone)
    assert circuit.weight_hash() == result.circuit.weight_hash
    assert tsc.horizon(circuit).length == result.circuit.verified_length > 2166
    first = tsc.diff("walkthrough", circuit, max_length=10)
    assert first.shortest == result.circuit.first_difference == "abc{2165}"
    assert result.findings[0].severity == "note"
    assert {figure.name for figure in figures(result)} == {"front", "graph", "ranking"}
    assert type(result).from_dict(result.to_dict()) == result


def test_auc_by_hand():
    scores = np.array([3.0, 1.0, 2.0, 1.0])
    inside = np.array([True, False, False, True])
    # pairs (3>1), (3>2), (1=1), (1<2)
    assert auc(scores, inside) == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert np.isnan(auc(scores, np.ones(4, bool)))


def test_what_has_no_circuit_of_this_kind_is_refused():
    for options in ({"n_layers": 2}, {"norm": "rms"}, {"n_positions": 9}):
        model = random_checkpoint(ClassifierConfig(**options), 0)
        with pytest.raises(UnsupportedError, match="only edges"):
            run_probe("circuit", model, STRINGS, graph="nodes")
    with pytest.raises(UnsupportedError, match="no attention"):
        run_probe("circuit", random_checkpoint(ClassifierConfig(n_heads=0), 0), STRINGS)
    with pytest.raises(UsageError, match="edges or nodes"):
        run_probe("circuit", "walkthrough", STRINGS, graph="wires")
