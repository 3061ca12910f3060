"""OV, QK and composition from weights: against forward passes, and against TransformerLens."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.model.outside_models import tl_model
from tests.probes.models import TOKENS, check_survives_json, transformer_lens_model
from tsc_interp.errors import UnsupportedError
from tsc_interp.probes import circuits_weights
from tsc_interp.probes.registry import figures, run_probe


def _cache(model, tokens):
    with torch.no_grad():
        return model.run_with_cache(tokens)[1]


def test_first_layer_scores_are_the_models_own():
    """Without positions and norms, QK by token is what the first layer computes."""
    model = tl_model(d_vocab=6, d_vocab_out=2)
    rows = torch.tensor([[0, 1, 2, 3, 4, 5]])
    result = run_probe("circuits-weights", model, rows)
    cache = _cache(model, rows)
    q, k = (cache[f"blocks.0.attn.hook_{part}"][0].double().numpy() for part in "qk")
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(3)
    assert result.qk_token.array[0] == pytest.approx(scores, abs=1e-5)
    assert result.qk_position is None  # a table of zeros
    check_survives_json(result)


def test_positions_and_a_gain():
    model = transformer_lens_model("LN")
    result = run_probe("circuits-weights", model, TOKENS)
    attention, norm = model.blocks[1].attn, model.blocks[1].ln1
    place = model.W_pos.detach()[:7]
    place = (place - place.mean(-1, keepdim=True)) * norm.w.detach()
    for head in range(2):
        q = place @ attention.W_Q[head].detach() + attention.b_Q[head].detach()
        k = place @ attention.W_K[head].detach() + attention.b_K[head].detach()
        expected = (q @ k.T / np.sqrt(3)).numpy()
        assert result.qk_position.array[1, head] == pytest.approx(expected, abs=1e-5)
    assert [figure.name for figure in figures(result)] == [
        "ov-token", "qk-token", "qk-position", "composition",
    ]  # fmt: skip


@pytest.mark.parametrize("by", ["Q", "K", "V"])
def test_composition_is_transformer_lenses(by):
    model = transformer_lens_model(None)
    result = run_probe("circuits-weights", model, TOKENS)
    theirs = model.all_composition_scores(by)
    theirs = getattr(theirs, "scores", theirs).detach().numpy().reshape(4, 4)
    b = result.composition.labels["by"].index(by)
    later = np.triu(np.ones((4, 4)), 2).astype(bool)
    later[1, 2] = True  # from layer 0 to layer 1
    assert result.composition.array[b][later] == pytest.approx(theirs[later], abs=1e-5)
    assert not result.composition.array[b][~later].any()


def test_planted_composition_and_copying_are_found():
    """Head 1 of layer 1 reads, by its keys, the two dimensions that head 0 of layer 0 writes."""
    generator = torch.Generator().manual_seed(0)
    config = tsc.ClassifierConfig(n_layers=2, d_model=12, n_heads=2, d_head=2, n_positions=7)
    model = tsc.HookedClassifier(config, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
        model.blocks[0].attn.W_O[0] = 0
        model.blocks[0].attn.W_O[0, :, :2] = torch.eye(2)
        model.blocks[1].attn.W_K[1] = 0
        model.blocks[1].attn.W_K[1, :2] = 2 * torch.eye(2)
    result = run_probe("circuits-weights", model, ["abc"])
    by, source, to, score = result.pairs()[0]
    assert (by, source, to) == ("K", "layer 0 head 0", "layer 1 head 1")
    assert score > 0.5 > result.chance
    assert "layer 1 head 1 reads layer 0 head 0 by K" in result.findings[0].text


def test_a_head_that_copies():
    model = tl_model(d_vocab=4, d_vocab_out=4, d_model=8, d_head=4)
    embed, unembed = torch.eye(4, 8), torch.eye(8, 4)
    zero = torch.zeros(2, 8, 4)
    value, output = zero.clone(), zero.transpose(1, 2).clone()
    value[1], output[1] = torch.eye(8, 4), torch.eye(4, 8)
    heads = SimpleNamespace(W_Q=zero, W_K=zero, W_V=value, W_O=output)
    weights = {"W_E": embed, "W_U": unembed, "blocks": [SimpleNamespace(attn=heads)]}

    class Copier:
        """The same model with weights that are easy to read."""

        cfg = model.cfg
        run_with_cache = staticmethod(model.run_with_cache)
        parameters = staticmethod(model.parameters)
        W_pos = None

    for name, value in weights.items():
        setattr(Copier, name, value)
    result = run_probe("circuits-weights", Copier(), torch.tensor([[0, 1, 2, 3]]))
    assert (result.copied(0, 1), result.copied(0, 0)) == (4, 1)
    assert "Head 1 copies: for 4 of 4 tokens" in " ".join(f.text for f in result.findings)


def test_our_letters():
    result = run_probe("circuits-weights", "walkthrough", ["baac"])
    model = tsc.load("walkthrough")
    names = result.qk_token.labels["from"]
    assert names == ("CLS", "a", "b", "c")
    with torch.no_grad():
        cache = model.run_with_cache(["abc"])[1]
    q, k = (cache[f"blocks.0.attn.hook_{part}"][0, :, :, 0].numpy() for part in "qk")
    assert result.qk_token.array[0, 0] == pytest.approx(np.outer(q[:, 0], k[:, 0]), abs=1e-4)
    assert result.composition is None
    nothing = tsc.HookedClassifier(tsc.ClassifierConfig(n_heads=0, d_mlp=4), seed=0)
    with pytest.raises(UnsupportedError, match="no attention"):
        run_probe("circuits-weights", nothing, ["ab"])


def test_of_many_heads_fewer_positions_are_shown(monkeypatch):
    """Ten positions are 400 scores of 4 heads; where 256 are allowed, 8 positions fit."""
    model = transformer_lens_model("LN")
    rows = torch.zeros((1, 10), dtype=torch.int64)
    assert run_probe("circuits-weights", model, rows).qk_position.array.shape[2:] == (10, 10)
    monkeypatch.setattr(circuits_weights, "MOST_SCORES", 256)
    fewer = run_probe("circuits-weights", model, rows)
    assert fewer.qk_position.array.shape[2:] == (8, 8)
    assert "of 10 positions, the first 8 are shown" in fewer.not_applicable
