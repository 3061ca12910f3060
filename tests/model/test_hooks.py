"""Hooks: TransformerLens's names and shapes, edits with the effect the mathematics says, no leaks.

Also run against TransformerLens 3.9 (`make test-tl3`).
"""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.special import erf, softmax
from transformer_lens import ActivationCache

from tests.cases import CONFIGS, POSITIONED
from tests.model.test_forward import shaken_weights
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, UnsupportedError, UsageError
from tsc_interp.model.classifier import open_classifier
from tsc_interp.model.forward import hook_names
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.model.initialise import initial_weights, stack_weights

STRINGS = ["aabcde", "b{4}e{9}", "cab", "d"]


def from_stage(
    model: HookedClassifier, stage: str, value: np.ndarray, cache: ActivationCache
) -> np.ndarray:
    """Logits of a one-layer model without norms, had `stage` this value, in plain NumPy.

    What comes before the stage is read from the unedited cache, what comes after is computed here.
    """
    a = {name: tensor.double().numpy() for name, tensor in cache.items()}
    a[stage] = value
    w = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    order = hook_names(model.config)
    after = set(order[order.index(stage) + 1 :])

    def act(name: str) -> np.ndarray:
        return a[f"blocks.0.{name}"]

    def weight(name: str) -> np.ndarray:
        return w[f"blocks.0.{name}"]

    def project(part: str) -> np.ndarray:
        return np.einsum("bpd,hdk->bphk", act("hook_resid_pre"), weight(f"attn.W_{part}"))

    def scores() -> np.ndarray:
        products = np.einsum("bqhk,bjhk->bhqj", act("attn.hook_q"), act("attn.hook_k"))
        multiplicity = np.maximum(model.inputs(STRINGS).multiplicity.numpy(), 1e-300)
        return products / np.sqrt(model.config.d_head) + np.log(multiplicity)[:, None, None, :]

    def gelu(x: np.ndarray) -> np.ndarray:
        return 0.5 * x * (1 + erf(x / np.sqrt(2)))

    recompute = {
        "hook_resid_pre": lambda: a["hook_embed"],
        "attn.hook_q": lambda: project("Q"),
        "attn.hook_k": lambda: project("K"),
        "attn.hook_v": lambda: project("V"),
        "attn.hook_attn_scores": scores,
        "attn.hook_pattern": lambda: softmax(act("attn.hook_attn_scores"), axis=-1),
        "attn.hook_z": lambda: np.einsum(
            "bhqj,bjhk->bqhk", act("attn.hook_pattern"), act("attn.hook_v")
        ),
        "attn.hook_result": lambda: np.einsum(
            "bqhk,hkd->bqhd", act("attn.hook_z"), weight("attn.W_O")
        ),
        "hook_attn_out": lambda: act("attn.hook_result").sum(2),
        "hook_resid_mid": lambda: act("hook_resid_pre") + act("hook_attn_out"),
        "mlp.hook_pre": lambda: act("hook_resid_mid") @ weight("mlp.W_in"),
        "mlp.hook_post": lambda: gelu(act("mlp.hook_pre")),
        "hook_mlp_out": lambda: act("mlp.hook_post") @ weight("mlp.W_out"),
        "hook_resid_post": lambda: act("hook_resid_mid") + act("hook_mlp_out"),
    }
    # q, k and v are siblings: editing one leaves the other two as they were.
    siblings = {f"blocks.0.attn.hook_{part}" for part in "qkv"}
    for name in order:
        if name in after and not (stage in siblings and name in siblings):
            a[name] = recompute[name.removeprefix("blocks.0.")]()
    return act("hook_resid_post")[:, 0] @ w["unembed.W_U"][:, 0]


@pytest.mark.parametrize("stage", hook_names(ClassifierConfig()))
def test_an_edit_has_the_effect_the_mathematics_says(
    odd_model: HookedClassifier, stage: str
) -> None:
    model = odd_model.double()
    model.set_use_attn_result(True)
    plain, cache = model.run_with_cache(STRINGS)
    generator = torch.Generator().manual_seed(7)
    noise = torch.randn(cache[stage].shape, generator=generator, dtype=torch.float64)
    # In scores, what is masked (-inf) stays masked.
    new = cache[stage] * (1 + 0.5 * noise.where(torch.isfinite(cache[stage]), 0))
    edited = model.run_with_hooks(STRINGS, fwd_hooks=[(stage, lambda old, hook: new)])
    expected = from_stage(model, stage, new.numpy(), cache)
    assert edited.tolist() == pytest.approx(expected.tolist(), rel=1e-9)
    assert (edited - plain).abs().max() > 1e-4


@pytest.mark.parametrize("config", [*CONFIGS, POSITIONED], ids=lambda config: config.key()[:6])
def test_every_hook_can_be_read_and_edited(config: ClassifierConfig) -> None:
    model = HookedClassifier(config, seed=2)
    model.set_use_attn_result(True)
    strings = ["ab", "abba"]
    plain, cache = model.run_with_cache(strings)
    assert list(cache.keys()) == hook_names(config)
    for switch_on in (
        model.set_use_attn_in, model.set_use_split_qkv_input, model.set_use_hook_mlp_in
    ):  # fmt: skip
        switch_on(True)
    plain, cache = model.run_with_cache(strings)
    assert set(model.hook_dict) == set(cache.keys())
    for name in model.hook_dict:
        edited = model.run_with_hooks(strings, fwd_hooks=[(name, lambda x, hook: x * 0.5 + 0.25)])
        # On a lone finite score the softmax forgets shifts, and a 1-wide norm forgets everything.
        assert torch.isfinite(edited).all()
        assert not torch.equal(edited, plain), name


def test_names_and_shapes_are_hooked_transformers(odd_model: HookedClassifier) -> None:
    odd_model.set_use_attn_result(True)
    logits, cache = odd_model.run_with_cache(odd_model.tokens(STRINGS))
    batch, pos, width, heads, d_head, mlp = 4, 14, 7, 3, 2, 11
    assert logits.shape == (batch,)
    expected = {
        "hook_embed": (batch, pos, width),
        "blocks.0.hook_resid_pre": (batch, pos, width),
        **{f"blocks.0.attn.hook_{x}": (batch, pos, heads, d_head) for x in "qkvz"},
        "blocks.0.attn.hook_attn_scores": (batch, heads, pos, pos),
        "blocks.0.attn.hook_pattern": (batch, heads, pos, pos),
        "blocks.0.attn.hook_result": (batch, pos, heads, width),
        **{f"blocks.0.hook_{x}": (batch, pos, width)
           for x in ("attn_out", "resid_mid", "mlp_out", "resid_post")},
        "blocks.0.mlp.hook_pre": (batch, pos, mlp),
        "blocks.0.mlp.hook_post": (batch, pos, mlp),
    }  # fmt: skip
    assert {name: tuple(value.shape) for name, value in cache.items()} == expected
    assert isinstance(cache, ActivationCache)
    assert torch.equal(cache["pattern", 0], cache["blocks.0.attn.hook_pattern"])
    assert torch.allclose(cache["pattern", 0].sum(-1), torch.ones(batch, heads, pos))
    heads_stack = cache.stack_head_results(layer=1)
    assert torch.allclose(heads_stack.sum(0), cache["attn_out", 0], atol=1e-6)


def test_what_there_is_not_is_shown_as_zeros() -> None:
    config = ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11, n_layers=4)
    shapes = {"b_Q": (4, 3, 2), "b_K": (4, 3, 2), "b_V": (4, 3, 2), "b_O": (4, 7), "b_in": (4, 11),
              "b_out": (4, 7), "b_U": (1,), "W_pos": (256, 7)}  # fmt: skip
    for ensemble in ((), (6,)):
        weights = stack_weights([initial_weights(config, seed) for seed in range(6)])
        model = HookedClassifier(config, weights if ensemble else initial_weights(config, 0))
        for name, shape in shapes.items():
            found = getattr(model, name)
            assert found.shape == (*ensemble, *shape), name
            assert not found.any()
        assert torch.equal(model.W_E_pos[..., :7, :], model.W_E)
        assert model.blocks[0].attn.b_V.shape == (*ensemble, 3, 2)
        assert not model.accumulated_bias(2).any()
    assert model.cfg.positional_embedding_type == "none"
    assert HookedClassifier(POSITIONED).cfg.positional_embedding_type == "standard"
    matrices = 4 * (4 * 3 * 7 * 2 + 2 * 7 * 11)
    assert model.cfg.n_params == matrices
    assert HookedClassifier(config.replace(d_mlp=0)).cfg.n_params == 4 * 4 * 3 * 7 * 2


def test_biases_are_a_part_of_the_residual_stream() -> None:
    """What heads, MLPs, embeddings and biases add is all there is."""
    config = ClassifierConfig(
        d_model=7, n_heads=3, d_head=2, d_mlp=11, n_layers=2, biases=True, attend_cls=True
    )
    weights = initial_weights(config, 0)
    generator = torch.Generator().manual_seed(1)
    moved = {n: w + torch.randn(w.shape, generator=generator) for n, w in weights.items()}
    model = HookedClassifier(config, moved)
    model.set_use_attn_result(True)
    _, cache = model.run_with_cache(["aab", "c"])
    for layer, mlp_input in ((1, False), (1, True), (2, False)):
        parts = cache.get_full_resid_decomposition(
            layer, mlp_input=mlp_input, expand_neurons=False, apply_ln=False
        )
        place = "resid_mid" if mlp_input else "resid_pre"
        stream = cache["resid_post", 1] if layer == 2 else cache[place, layer]
        assert torch.allclose(parts.sum(0), stream, atol=1e-4)
    with pytest.raises(UnsupportedError, match="norm after attention"):
        HookedClassifier(config.replace(attention_norm="rms")).accumulated_bias(1)


def test_one_row_of_tokens_needs_no_batch(odd_model: HookedClassifier) -> None:
    row = odd_model.tokens("abca")[0]
    assert torch.equal(odd_model(row), odd_model(row[None]))
    assert odd_model.run_with_cache(row, remove_batch_dim=True)[1]["embed"].shape == (5, 7)


@pytest.mark.parametrize("norm", ["off", "rms", "layer"])
def test_a_hook_may_edit_one_heads_input_in_place(norm: str) -> None:
    """Head 1 reads its keys from noise: the same as replacing that head's keys."""
    config = ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11, norm=norm)
    model = HookedClassifier(config, shaken_weights(config))
    model.set_use_split_qkv_input(True)
    noise = torch.randn(4, 6, 7, generator=torch.Generator().manual_seed(1))

    def in_place(x: torch.Tensor, hook: object) -> None:
        x[:, :, 1] = noise

    def keys(k: torch.Tensor, hook: object) -> torch.Tensor:
        block = model.blocks[0]
        read = block.ln1(noise) if config.has_norm else noise
        k = k.clone()
        k[:, :, 1] = read @ block.attn.W_K[1]
        return k

    with torch.no_grad():
        edited = model.run_with_hooks(STRINGS, fwd_hooks=[("blocks.0.hook_k_input", in_place)])
        model.set_use_split_qkv_input(False)
        plain = model(STRINGS)
        expected = model.run_with_hooks(STRINGS, fwd_hooks=[("blocks.0.attn.hook_k", keys)])
    assert torch.allclose(edited, expected, atol=1e-6)
    assert (edited - plain).abs().max() > 1e-3


def test_what_the_mlp_reads_can_be_changed_in_place_without_the_stream() -> None:
    config = ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11)
    model = HookedClassifier(config, seed=3)
    model.set_use_hook_mlp_in(True)
    with torch.no_grad():
        _, cache = model.run_with_cache(STRINGS)
        out = model.run_with_hooks(
            STRINGS, fwd_hooks=[("blocks.0.hook_mlp_in", lambda x, hook: x.zero_())]
        )
        nothing = model.blocks[0].mlp(torch.zeros_like(cache["resid_mid", 0]))
        expected = model.unembed(cache["resid_mid", 0] + nothing)[:, 0, 0]
    assert torch.allclose(out, expected, atol=1e-6)


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_residual_decompositions_of_models_with_norms(norm: str) -> None:
    """Parts add up to what the next layer's norm gives; before the read-out there is no norm."""
    config = ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11, norm=norm,
                              n_layers=2)  # fmt: skip
    model = HookedClassifier(config, shaken_weights(config))
    with torch.no_grad():
        logits, cache = model.run_with_cache(STRINGS)
        for apply_ln in (False, True):
            stream = cache.get_full_resid_decomposition(apply_ln=apply_ln).sum(0)
            assert torch.allclose(stream, cache["resid_post", 1], atol=1e-5)
            read = cache.get_full_resid_decomposition(
                apply_ln=apply_ln, project_output_onto=model.W_U
            )
            assert torch.allclose(read.sum(0)[:, 0, 0], logits, atol=1e-5)
            last = cache.accumulated_resid(apply_ln=apply_ln)[-1]
            assert torch.equal(last, cache["resid_post", 1])
        parts = cache.logit_attrs(cache.decompose_resid(), 0)
        assert torch.allclose(parts.sum(0)[:, 0], logits, atol=1e-5)
        one = cache.logit_attrs(cache.decompose_resid(), 0, batch_slice=1)
        assert torch.equal(one, parts[:, 1])
        for mlp_input, name in ((False, "ln1"), (True, "ln2")):
            read = cache.get_full_resid_decomposition(1, mlp_input=mlp_input, apply_ln=True).sum(0)
            normalized = cache[f"blocks.1.{name}.hook_normalized"]
            assert torch.allclose(read, normalized, atol=1e-5)
    copied = copy.deepcopy(model)
    with torch.no_grad():
        copied.blocks[1].mlp.W_out.zero_()
        assert not copied.blocks[1].mlp(cache["resid_mid", 1]).any()
        assert model.blocks[1].mlp(cache["resid_mid", 1]).any()


def test_without_hooks_the_same_numbers_and_no_transformer_lens() -> None:
    config = ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11, norm="rms")
    hooked = HookedClassifier(config, shaken_weights(config))
    plain = open_classifier(hooked.to_checkpoint())
    logits, cache = plain.run_with_cache(STRINGS)
    their_logits, theirs = hooked.run_with_cache(STRINGS)
    assert torch.equal(logits, their_logits)
    assert list(cache) == list(theirs)
    assert all(torch.equal(value, theirs[name]) for name, value in cache.items())
    kept = {"blocks.0.attn.hook_z", "hook_embed"}
    for names in (kept, list(kept), lambda name: name in kept):
        assert set(plain.run_with_cache(STRINGS, names_filter=names)[1]) == kept
    hooks = [("blocks.0.attn.hook_z", lambda z, hook: z * 0.5 if hook.name else None)]
    assert torch.equal(
        plain.run_with_hooks(STRINGS, fwd_hooks=hooks),
        hooked.run_with_hooks(STRINGS, fwd_hooks=hooks),
    )
    with pytest.raises(UsageError, match=r"no activation blocks\.7"):
        plain.run_with_hooks(STRINGS, fwd_hooks=[("blocks.7.hook_z", print)])
    assert open_classifier(hooked) is hooked
    script = "import sys, tsc_interp as tsc; tsc.analyze('walkthrough', 'aab', probes='trace'); "
    script += "tsc.verify('walkthrough', 20, replay=True); tsc.evaluate('walkthrough', 'ab'); "
    script += "sys.exit('transformer_lens' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_hooks_are_gone_after_an_exception(walkthrough: HookedClassifier) -> None:
    before = walkthrough(["aac"])

    def broken(activation: torch.Tensor, hook: object) -> torch.Tensor:
        raise RuntimeError("broken on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        walkthrough.run_with_hooks(["aac"], fwd_hooks=[("blocks.0.attn.hook_z", broken)])
    with pytest.raises(UsageError):
        walkthrough.run_with_cache(torch.tensor([[0, 9]]))
    assert not any(point.fwd_hooks for point in walkthrough.hook_dict.values())
    assert torch.equal(walkthrough(["aac"]), before)


def test_gradients_flow_to_weights_and_hooks(odd_model: HookedClassifier) -> None:
    odd_model.set_use_attn_result(True)
    odd_model(STRINGS).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in odd_model.parameters())


def test_published_attention_of_the_walkthrough(walkthrough: HookedClassifier) -> None:
    """Weights per character, from the token form."""
    _, cache = walkthrough.run_with_cache(walkthrough.tokens(["baac"]))
    pattern = cache["pattern", 0][0, :, 0, 1:]
    head_0 = [4.5179e-06, 4.9982e-01, 4.9982e-01, 3.5828e-04]
    head_1 = [9.9959e-01, 1.5737e-06, 1.5737e-06, 4.0383e-04]
    # exp of a score of 12 turns the last bit of a weight into the fifth digit printed.
    assert pattern[0].tolist() == pytest.approx(head_0, rel=5e-5)
    assert pattern[1].tolist() == pytest.approx(head_1, rel=5e-5)
    final = cache["resid_post", 0][0, 0].tolist()
    assert [round(x, 4) for x in final] == [0.2414, 9.1150]


def test_an_ensemble_runs_behind_hooks_too() -> None:
    config = ClassifierConfig(d_model=3)
    members = [initial_weights(config, seed) for seed in range(5)]
    ensemble = HookedClassifier(config, stack_weights(members))
    assert ensemble.ensemble_shape == (5,)
    assert ensemble.W_Q.shape == (5, 1, 2, 3, 1)
    logits, cache = ensemble.run_with_cache(["ab", "c"], return_cache_object=False)
    assert logits.shape == (5, 2)
    assert cache["blocks.0.attn.hook_pattern"].shape == (5, 2, 2, 4, 4)
    for logit, member in zip(logits, members, strict=True):
        assert torch.allclose(logit, HookedClassifier(config, member)(["ab", "c"]), atol=1e-6)
    with pytest.raises(UsageError, match="one member"):
        ensemble.to_checkpoint()


def test_dropout_in_training_needs_tokens() -> None:
    model = HookedClassifier(ClassifierConfig(dropout=0.5, d_model=8))
    assert torch.equal(model(["abc"]), model(["abc"]))
    model.train()
    with pytest.raises(UnsupportedError, match="dropout"):
        model(["abc"])
    torch.manual_seed(0)
    first, second = model(model.tokens("abc")), model(model.tokens("abc"))
    assert not torch.equal(first, second)


def test_wrong_shapes_are_named(odd_config: ClassifierConfig) -> None:
    weights = initial_weights(odd_config, 0)
    weights["unembed.W_U"] = torch.zeros(8, 1)
    with pytest.raises(CheckpointError, match=r"unembed.W_U has shape \[8, 1\], expected \[7, 1\]"):
        HookedClassifier(odd_config, weights)


def test_missing_parts_say_so() -> None:
    with pytest.raises(UnsupportedError, match="no attention"):
        _ = HookedClassifier(ClassifierConfig(n_heads=0)).W_Q
    with pytest.raises(UnsupportedError, match="no MLP"):
        _ = HookedClassifier(ClassifierConfig(d_mlp=0)).W_in
