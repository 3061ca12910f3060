"""What an exported model has to withstand: TransformerLens's processing, caches, copies, resets."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import tsc_interp as tsc
from tests.model.outside_models import tl_model
from tests.model.test_forward import random_strings, shaken_weights
from tests.model.test_interop import EXPORTABLE, read
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.model.inputs import token_rows
from tsc_interp.strings import FIRST_LETTER

SIZES = {"n_letters": 4, "d_model": 5, "d_head": 3, "d_mlp": 7, "n_layers": 2}
NORMS = ["off", "rms", "layer", "layer_pre"]
FINAL = [(norm, final) for norm in NORMS for final in (False, True) if final <= (norm != "off")]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def made(**options: Any) -> tuple[HookedClassifier, Any, torch.Tensor]:
    config = ClassifierConfig(**{**SIZES, **options})
    model = HookedClassifier(config, shaken_weights(config))
    tokens = torch.from_numpy(token_rows(config, random_strings(config)))
    return model, model.to_transformer_lens(n_ctx=40), tokens


@pytest.mark.parametrize(("norm", "final"), FINAL)
@pytest.mark.parametrize("options", [{}, {"biases": True, "n_outputs": 3}], ids=["", "several"])
def test_weight_processing_keeps_the_answer(norm: str, final: bool, options: Any) -> None:
    """Folded norms, centred weights: differences of outputs are what they were."""
    model, exported, tokens = made(norm=norm, final_norm=final, **options)
    before = model(tokens)
    exported.process_weights()
    after = read(model.config, exported(tokens), tokens)
    if model.config.n_outputs > 1:
        after, before = (x - x.mean(-1, keepdim=True) for x in (after, before))
    assert torch.allclose(after, before, atol=2e-5)
    assert before.abs().max() > 1e-2
    W_U = exported.W_U.detach()
    assert torch.allclose(W_U.mean(-1), torch.zeros(model.config.d_model), atol=1e-6)
    assert W_U.abs().max() > 1e-3  # a single column would be gone


def readings(model: HookedClassifier) -> tuple[Any, Any]:
    """From a normalised residual stream to the logit: with the norm's own weights, and without."""
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    direction, bias = weights["unembed.W_U"][:, 0], model.b_U.detach()
    scaled = direction * weights.get("ln_final.w", torch.ones(len(direction)))
    shifted = bias + weights.get("ln_final.b", torch.zeros(len(direction))) @ direction
    return lambda x: x @ direction + bias, lambda x: x @ scaled + shifted


@pytest.mark.parametrize(("norm", "final"), FINAL)
@pytest.mark.parametrize("side", ["ours", "exported"])
def test_caches_add_up_to_the_logit(norm: str, final: bool, side: str) -> None:
    """Accumulated residuals and their parts, through the final norm or without one."""
    model, exported, tokens = made(norm=norm, final_norm=final, biases=True)
    logits = model(tokens)
    through_norm, scaled = readings(model)
    _, cache = (model if side == "ours" else exported).run_with_cache(tokens)
    last = cache.accumulated_resid(apply_ln=True)[-1][:, 0]  # the norm recomputed, weights and all
    assert torch.allclose(through_norm(last), logits, atol=1e-4)
    parts = cache.decompose_resid(mode="all")
    parts = cache.apply_ln_to_stack(parts)[:, :, 0].sum(0)  # divided by the cached scale
    assert torch.allclose(scaled(parts), logits, atol=1e-4)
    if norm != "off":
        scale = cache["ln_final.hook_scale"] if final or side == "exported" else torch.ones(1)
        assert final or torch.equal(scale, torch.ones_like(scale))


@pytest.mark.parametrize(("norm", "final"), FINAL)
def test_the_logit_lens_ends_at_the_logits(norm: str, final: bool) -> None:
    model, exported, tokens = made(norm=norm, final_norm=final, biases=True)
    _, cache = exported.run_with_cache(tokens)
    lens = cache.logit_lens(positions=0).readout.values
    assert torch.allclose(lens[-1][:, 1] - lens[-1][:, 0], model(tokens), atol=1e-5)
    assert not torch.allclose(lens[0], lens[-1], atol=1e-2)


CASES = {
    "bidirectional": {},
    "attending CLS": {"attend_cls": True, "norm": "rms"},
    "causal": {"reads": "last", "attend_cls": True, "biases": True, "act_fn": "gelu_new"},
    "the last letter": {
        "reads": "last_letter", "attend_cls": True, "n_outputs": 4, "norm": "layer",
    },
    "positions": {"n_positions": 23, "positions": "sinusoidal", "act_fn": "silu"},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_masking_is_not_a_hook(name: str) -> None:
    """Reset, copied, given other batches in turn: the same function every time."""
    model, exported, tokens = made(**CASES[name])
    short, long = tokens[:, :-1][(tokens[:, -1] == 1)], tokens
    before = exported(long), exported(short)
    exported.reset_hooks(including_permanent=True)
    assert torch.equal(exported(long), before[0])
    assert torch.equal(exported(short), before[1])
    assert torch.equal(exported(long), before[0])
    twin = copy.deepcopy(exported)
    assert torch.equal(twin(long), before[0])
    with torch.no_grad():
        next(iter(twin.parameters())).add_(1.0)
    assert torch.equal(exported(long), before[0])
    assert torch.equal(exported.to("cpu")(long), before[0])
    again = model.to_transformer_lens(n_ctx=40)
    again.load_state_dict(exported.state_dict())
    assert torch.equal(again(long), before[0])
    assert torch.allclose(read(model.config, before[0], long), model(long), atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_beginning_in_the_middle(name: str) -> None:
    """With the tokens a residual stream belongs to it is exact, whatever was run before."""
    model, exported, tokens = made(**CASES[name])
    out = exported(tokens)
    residual = exported(tokens, stop_at_layer=1)
    assert torch.allclose(residual, model(tokens, stop_at_layer=1), atol=1e-5)
    other = torch.from_numpy(token_rows(model.config, ["ab", "d"]))
    exported(other)
    assert torch.allclose(exported(residual, start_at_layer=1, tokens=tokens), out, atol=1e-6)
    with pytest.raises(UsageError, match=r"tokens=\.\.\. with start_at_layer"):
        exported(residual, start_at_layer=1)
    attended = model.inputs(tokens).multiplicity.long()
    masked = exported(residual, start_at_layer=1, attention_mask=attended)
    assert torch.allclose(masked, out, atol=1e-6)


def test_a_mask_of_ones_own_is_honoured() -> None:
    """Hiding the last letter of equally long strings is the string without it, but for PAD."""
    model, exported, _ = made()
    tokens = model.tokens(["abca", "bbdc"])
    mask = torch.ones_like(tokens)
    mask[:, -1] = 0
    hidden = exported(tokens, attention_mask=mask, position_ids=torch.arange(5).expand(2, -1))
    expected = model(model.tokens(["abc", "bbd"]))
    assert torch.allclose(read(model.config, hidden, tokens), expected, atol=1e-5)


@pytest.mark.parametrize("config", EXPORTABLE, ids=lambda config: config.key()[:6])
def test_out_and_in_again(config: ClassifierConfig) -> None:
    """The same function comes back, with biases that are zero and positions as a table."""
    model = HookedClassifier(config, shaken_weights(config))
    letters = {FIRST_LETTER + i: x for i, x in enumerate(config.alphabet.letters)}
    back = tsc.from_transformer_lens(
        model.to_transformer_lens(), tokens=letters, query=0 if config.has_cls else None,
        task="contains_all",
    )  # fmt: skip
    assert (back.config.attend_cls, back.config.reads) == (config.attend_cls, config.reads)
    assert back.config.final_norm == config.final_norm
    assert back.config.n_outputs == config.n_outputs
    strings = random_strings(config)
    assert torch.allclose(tsc.load(back)(strings), model(strings), atol=1e-6)


def test_two_kinds_of_norm_are_not_taken_over() -> None:
    theirs = tl_model(1, normalization_type="LN", final_rms=True)
    with pytest.raises(UnsupportedError, match="one kind of norm"):
        tsc.from_transformer_lens(theirs, tokens=[0, 1, 2], query=5, task="contains_all")


def test_a_short_context_is_room_enough() -> None:
    """An export without positions reads up to `n_ctx` tokens, and is imported all the same."""
    model = tsc.load("walkthrough")
    letters = {2: "a", 3: "b", 4: "c"}
    for n_ctx in (2, 7):
        exported = model.to_transformer_lens(n_ctx=n_ctx)
        back = tsc.from_transformer_lens(exported, tokens=letters, query=0, task="contains_all")
        assert torch.allclose(tsc.load(back)(["aab{9}"]), model(["aab{9}"]), atol=1e-5)
    found = tsc.horizon(back)
    assert found.length == tsc.horizon("walkthrough").length
