"""Patching against `transformer_lens.patching`, on exported models.

Runs against whichever TransformerLens is installed: 4.x patches a TransformerBridge, 3.x (`make
test-tl3`) a HookedTransformer. Their functions run the model once per patch and know no rows.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from transformer_lens import patching as theirs

import tsc_interp as tsc
from tests.cases import POSITIONED
from tests.model.outside_models import to_bridge
from tests.model.test_forward import shaken_weights
from tests.probes.models import TOKENS, transformer_lens_model
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.probes.registry import find_probe, run_probe

patching = find_probe("patching")
paths = find_probe("paths")

FUNCTIONS = {
    "resid_pre": theirs.get_act_patch_resid_pre,
    "resid_mid": theirs.get_act_patch_resid_mid,
    "attn_out": theirs.get_act_patch_attn_out,
    "mlp_out": theirs.get_act_patch_mlp_out,
    "z": theirs.get_act_patch_attn_head_out_by_pos,
    "q": theirs.get_act_patch_attn_head_q_by_pos,
    "k": theirs.get_act_patch_attn_head_k_by_pos,
    "v": theirs.get_act_patch_attn_head_v_by_pos,
    "z_all_pos": theirs.get_act_patch_attn_head_out_all_pos,
    "q_all_pos": theirs.get_act_patch_attn_head_q_all_pos,
    "k_all_pos": theirs.get_act_patch_attn_head_k_all_pos,
    "v_all_pos": theirs.get_act_patch_attn_head_v_all_pos,
    "pattern_all_pos": theirs.get_act_patch_attn_head_pattern_all_pos,
    "pattern_by_pos": theirs.get_act_patch_attn_head_pattern_by_pos,
    "pattern_dest_src_pos": theirs.get_act_patch_attn_head_pattern_dest_src_pos,
}
CLEAN, CORRUPTED = "abcca", "aacca"
CONFIGS = {
    "two layers": ClassifierConfig(n_layers=2, d_model=5, n_heads=2, d_head=3, attend_cls=True),
    "positions": POSITIONED,
    "norms": ClassifierConfig(d_model=5, norm="rms", n_layers=2),
}


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def logit(out: torch.Tensor) -> torch.Tensor:
    """Of an exported classifier: the difference of its two outputs at CLS."""
    return out[0, 0, 1] - out[0, 0, 0]


def normalised(metrics: Any, clean: float, corrupted: float) -> np.ndarray:
    return (metrics.detach().double().numpy() - corrupted) / (clean - corrupted)


@to_bridge
@pytest.mark.parametrize("name", CONFIGS)
def test_every_site_is_what_transformer_lens_patches(name: str) -> None:
    config = CONFIGS[name]
    model = HookedClassifier(config, shaken_weights(config))
    exported = model.to_transformer_lens(n_ctx=16)
    tokens = model.tokens([CLEAN, CORRUPTED])
    logits, cache = exported.run_with_cache(tokens[:1])
    clean, corrupted = float(logit(logits)), float(logit(exported(tokens[1:])))

    ours = patching.run(model, ["a"], pairs=[(CLEAN, CORRUPTED)], by="position").pairs[0]
    on_theirs = patching.run(exported, tokens, query=0).pairs[0]
    assert ours.pair.clean_logit == pytest.approx(clean, abs=1e-5)

    for site, function in FUNCTIONS.items():
        metric = function(exported, tokens[1:], cache, logit)
        expected = normalised(metric, clean, corrupted)
        tolerance = 3e-5 / min(1.0, abs(clean - corrupted))
        if site == "resid_mid":
            # A TransformerBridge passes the edit to the MLP and not around it, so theirs is not
            # the residual stream; on that model the site is left out, and it is said.
            assert not on_theirs.has(site)
            assert not np.allclose(ours.site(site).effect.array, expected, atol=1e-3)
            continue
        assert ours.site(site).effect.shape == expected.shape, site
        np.testing.assert_allclose(
            ours.site(site).effect.array, expected, atol=tolerance, err_msg=site
        )
        np.testing.assert_allclose(
            on_theirs.site(site).effect.array, expected, atol=tolerance, err_msg=site
        )
    assert np.abs(ours.site("z_all_pos").effect.array).max() > 0.01


def test_a_model_that_transformer_lens_made() -> None:
    """Nine outputs, two causal layers, biases: the answer's logit less the largest other one."""
    model = transformer_lens_model()
    clean, corrupted = TOKENS[2:3], TOKENS[0:1]
    own = int(model(clean)[0, -1].argmax())

    def lead(out: torch.Tensor) -> torch.Tensor:
        last = out[0, -1]
        return last[own] - torch.cat([last[:own], last[own + 1 :]]).max()

    with torch.no_grad():
        logits, cache = model.run_with_cache(clean)
        before, after = float(lead(logits)), float(lead(model(corrupted)))
        ours = run_probe("patching", model, torch.cat([clean, corrupted])).pairs[0]
        for site in ("resid_pre", "attn_out", "mlp_out", "z", "k", "v_all_pos", "pattern_by_pos"):
            expected = normalised(FUNCTIONS[site](model, corrupted, cache, lead), before, after)
            np.testing.assert_allclose(
                ours.site(site).effect.array, expected, atol=2e-4, err_msg=site
            )


@pytest.mark.parametrize("kind", ["two layers", "norms"])
@pytest.mark.parametrize("component", ["q", "k", "v"])
def test_edges_between_heads_through_separate_inputs(component: str, kind: str) -> None:
    """As `get_act_patch_direct_path` of 4.x does it: the source's difference is added to what one
    head's query, key or value alone reads. (That function itself takes neither our hook names nor
    an exported bridge, which has no hooks before its projections.)"""
    config = CONFIGS[kind]
    model = HookedClassifier(config, shaken_weights(config))
    tokens = model.tokens([CLEAN, CORRUPTED])
    z = model.run_with_cache(tokens)[1]["blocks.0.attn.hook_z"].detach()
    result = paths.run(model, ["a"], pairs=[(CLEAN, CORRUPTED)], by="position").pairs[0]
    through = {"q": "query", "k": "key", "v": "value"}[component]
    found = {(e.source, e.target): e.effect for e in result.edges if e.through == through}
    model.set_use_split_qkv_input(True)
    for source in range(2):
        delta = (z[0] - z[1])[:, source] @ model.W_O[0, source].detach()
        for head in range(2):

            def add(read: torch.Tensor, hook: object, head=head, delta=delta) -> torch.Tensor:
                read = read.clone()
                read[:, :, head] += delta
                return read

            hooks = [(f"blocks.1.hook_{component}_input", add)]
            patched = float(model.run_with_hooks(tokens[1:], fwd_hooks=hooks).detach())
            measured = found.get((f"layer 0 head {source}", f"layer 1 head {head}"), 0.0)
            assert measured == pytest.approx(result.pair.effect(patched), abs=1e-4)
    assert max(map(abs, found.values())) > 1e-3


@to_bridge
def test_paths_on_the_exported_model_itself() -> None:
    config = CONFIGS["two layers"]
    model = HookedClassifier(config, shaken_weights(config))
    exported = model.to_transformer_lens(n_ctx=16)
    tokens = model.tokens([CLEAN, CORRUPTED])
    names = model.config.alphabet.token_names
    here = paths.run(model, ["a"], pairs=[(CLEAN, CORRUPTED)], by="position").pairs[0]
    there = paths.run(exported, tokens, query=0, token_names=names).pairs[0]
    ours = {edge.name: (edge.effect, edge.estimate) for edge in here.edges}
    other = {edge.name: (edge.effect, edge.estimate) for edge in there.edges}
    assert set(ours) == set(other)
    for name, numbers in ours.items():
        assert numbers == pytest.approx(other[name], abs=2e-4), name
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("norm", ["LN", "RMS"])
def test_edges_through_the_norms_of_a_model_that_transformer_lens_made(norm: str) -> None:
    """Oracle: the reader's own copy of the residual stream, through the norm written out here."""
    model = transformer_lens_model(norm)
    clean, corrupted = TOKENS[2:3], TOKENS[0:1]
    with torch.no_grad():
        _, at_clean = model.run_with_cache(clean)
        _, at_corrupted = model.run_with_cache(corrupted)

    def through(x: torch.Tensor, part: Any) -> torch.Tensor:
        gain = part.w.detach()
        if norm == "LN":
            return torch.nn.functional.layer_norm(x, (12,), gain, part.b.detach(), model.cfg.eps)
        return gain * x / (x.square().mean(-1, keepdim=True) + model.cfg.eps).sqrt()

    for source in range(2):
        z = at_clean["blocks.0.attn.hook_z"] - at_corrupted["blocks.0.attn.hook_z"]
        delta = z[:, :, source] @ model.blocks[0].attn.W_O[source].detach()
        stream = at_corrupted["blocks.1.hook_resid_pre"] + delta
        for name, letter in (("query", "Q"), ("key", "K"), ("value", "V")):
            attention = model.blocks[1].attn
            weight = getattr(attention, f"W_{letter}")[1].detach()
            bias = getattr(attention, f"b_{letter}")[1].detach()
            heard = through(stream, model.blocks[1].ln1) @ weight + bias

            def put(x: torch.Tensor, hook: object, heard: torch.Tensor = heard) -> torch.Tensor:
                x = x.clone()
                x[:, :, 1] = heard
                return x

            hook = (f"blocks.1.attn.hook_{letter.lower()}", put)
            with torch.no_grad():
                expected = model.run_with_hooks(corrupted, fwd_hooks=[hook])
            row = " ".join(map(str, clean[0].tolist()))
            edge = f"layer0.head{source}->layer1.head1.{name}=patch({row})"
            found = tsc.intervene(model, corrupted, edge).after
            np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-5, err_msg=edge)
        middle = at_corrupted["blocks.1.hook_resid_mid"] + delta
        heard = through(middle, model.blocks[1].ln2) @ model.blocks[1].mlp.W_in.detach()[:, 3]
        heard = heard + model.blocks[1].mlp.b_in.detach()[3]

        def neuron(x: torch.Tensor, hook: object, heard: torch.Tensor = heard) -> torch.Tensor:
            x = x.clone()
            x[:, :, 3] = heard
            return x

        with torch.no_grad():
            expected = model.run_with_hooks(
                corrupted, fwd_hooks=[("blocks.1.mlp.hook_pre", neuron)]
            )
        edge = f"layer0.head{source}->layer1.neuron3=patch({row})"
        found = tsc.intervene(model, corrupted, edge).after
        np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-5, err_msg=edge)
    with pytest.raises(UnsupportedError, match="edge into a reader is changed at a time"):
        tsc.intervene(model, corrupted, [edge, edge.replace(f"head{source}", "head0", 1)])
    result = run_probe("paths", model, torch.cat([clean, corrupted]))
    assert result.pairs[0].edges
