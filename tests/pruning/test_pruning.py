"""Smaller models: what is removed is gone, what is left computes what it should."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.verification.models import random_checkpoint
from tests.verification.ordered_models import ordered_checkpoint
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.cli.app import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError, UnsupportedError, UsageError
from tsc_interp.model.classifier import Classifier
from tsc_interp.pruning import narrow, prune, remove
from tsc_interp.pruning.prune import parts_of, reach_of, without

STRINGS = ["a", "ab", "aab", "bc{7}", "abc{30}", "cc", "acb{5}"]


def logits(checkpoint):
    with torch.no_grad():
        return Classifier.from_checkpoint(checkpoint)(STRINGS)


@pytest.mark.parametrize("layers", [1, 2])
def test_removed_parts_write_nothing(layers):
    config = ClassifierConfig(n_layers=layers, n_heads=3, d_mlp=4, d_model=3, d_head=2)
    checkpoint = random_checkpoint(config, 3)
    heads, neurons = [(0, 1), *([(1, 0), (1, 2)] * (layers - 1))], [(0, 0), (0, 3)]
    smaller = remove(checkpoint, heads=heads, neurons=neurons)
    zero = [f"layer{layer}.head{i}=zero" for layer, i in heads]
    zero += [f"layer{layer}.neuron{i}=zero" for layer, i in neurons]
    torch.testing.assert_close(logits(smaller), logits(tsc.edit(checkpoint, zero)))
    assert smaller.config.n_heads == 2  # the layer that needs most
    assert smaller.config.d_mlp == (2 if layers == 1 else 4)
    assert smaller.n_parameters < checkpoint.n_parameters


@pytest.mark.parametrize("options", [
    {"biases": True, "act_fn": "relu"}, {"biases": True, "norm": "layer", "final_norm": True},
    {"n_outputs": 3, "biases": True}, {"gated_mlp": True, "act_fn": "silu", "biases": True},
    {"reads": "last", "attend_cls": True, "biases": True, "n_positions": 50},
])  # fmt: skip
def test_parts_of_the_wider_family_are_removed_with_their_biases(options):
    config = ClassifierConfig(n_heads=3, d_mlp=4, d_model=3, d_head=2, **options)
    checkpoint = ordered_checkpoint(config, 2)
    smaller = remove(checkpoint, heads=[(0, 1)], neurons=[(0, 0), (0, 3)])
    silent = tsc.edit(checkpoint, ["head1=zero", "neuron0=zero", "neuron3=zero"])
    torch.testing.assert_close(logits(smaller), logits(silent))
    assert (smaller.config.n_heads, smaller.config.d_mlp) == (2, 2)


def test_a_model_with_biases_is_pruned_by_its_horizon():
    checkpoint = random_checkpoint(ClassifierConfig(n_heads=3, biases=True, norm="rms"), 1)
    kept = prune(checkpoint, keep=1, limit=20)
    reaches = []
    for left in range(3):
        gone = [(0, head) for head in range(3) if head != left]
        reaches.append(tsc.horizon(remove(checkpoint, heads=gone), limit=20).verified_length)
    assert kept.after.verified_length == max(reaches)
    assert kept.checkpoint.config.d_model == checkpoint.config.d_model


def test_all_neurons_gone():
    checkpoint = random_checkpoint(ClassifierConfig(), 1)
    smaller = remove(checkpoint, neurons=[(0, 0), (0, 1)])
    assert not smaller.config.has_mlp
    torch.testing.assert_close(logits(smaller), logits(tsc.edit(checkpoint, "mlp=zero")))
    with pytest.raises(UsageError, match="no head 2"):
        remove(checkpoint, heads=[(0, 2)])


@pytest.mark.parametrize("seed", range(4))
def test_a_narrower_residual_computes_the_same(seed):
    """Weights that use three dimensions of nine, hidden by a random rotation."""
    config = ClassifierConfig(d_model=3, n_heads=2, d_head=2, d_mlp=2, n_layers=1 + seed % 2)
    inner = random_checkpoint(config, seed)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(9, 9)))[0][:3]
    wide = {}
    for name, w in inner.weights.items():
        if name.endswith(("W_E", "W_O", "W_out")):
            wide[name] = (w @ turn).astype(np.float32)
        else:
            wide[name] = np.einsum("dm,...dk->...mk", turn, w).astype(np.float32)
    checkpoint = tsc.Checkpoint(config.model_copy(update={"d_model": 9}), wide)
    smaller = narrow(checkpoint)
    assert smaller.config.d_model == 3
    torch.testing.assert_close(logits(smaller), logits(inner), atol=2e-4, rtol=1e-4)
    with pytest.raises(UsageError, match="from 1 to 9"):
        narrow(checkpoint, 0)
    with pytest.raises(UnsupportedError, match="norm"):
        narrow(random_checkpoint(ClassifierConfig(norm="rms"), 0))


def test_a_removed_part_leaves_the_horizon_of_one_set_to_zero():
    checkpoint = load_checkpoint("walkthrough")
    for part in parts_of(checkpoint):
        zeroed = tsc.edit(checkpoint, f"{part}=zero")
        reach = reach_of(without(checkpoint, [part]), 10_000)
        assert reach == tsc.horizon(zeroed, limit=10_000).verified_length


def test_many_heads_need_two(tmp_path, capsys):
    out = tmp_path / "small.safetensors"
    assert main(["prune", "-c", "many-heads", "--keep", "2", "-o", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    small = load_checkpoint(out)
    assert (small.config.n_heads, len(told["removed"])) == (2, 14)
    assert told["weight_hash"] == small.weight_hash()
    found = tsc.horizon(small)
    assert found.proved
    assert found.length == told["after"]["length"]
    # The best of all choices: any other two heads are no better.
    others = [(0, 1), (2, 3), (5, 11), (2, 10)]
    for pair in others:
        gone = [(0, i) for i in range(16) if i not in pair]
        rest = remove(load_checkpoint("many-heads"), heads=gone)
        assert tsc.horizon(rest, prove=False).verified_length <= found.verified_length


def test_keeping_the_horizon():
    found = prune("many-heads", limit=100_000)
    assert found.after.proved
    assert found.after.verified_length >= found.before.verified_length == 228
    assert found.checkpoint.n_parameters < 150
    assert found.checkpoint.provenance["pruned"]["removed"] == list(found.removed)


def test_wrong_use():
    with pytest.raises(UsageError, match="do not go together"):
        prune("walkthrough", keep=1, keep_horizon=True)
    with pytest.raises(UsageError, match="1 to 2"):
        prune("walkthrough", keep=3)
    with pytest.raises(TscError):
        prune(random_checkpoint(ClassifierConfig(n_heads=0), 0), keep=1)
