"""Models that are not what they look like: each of these was imported once, and answers otherwise.

A class that is switched off by a bias of -1e9 once widened the tolerance to 30,000 for all outputs,
and strings of at most 16 letters showed nothing of what happens beyond.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import tsc_interp as tsc
from tests.model.outside_models import tl_model
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.comparing import compare
from tsc_interp.model.import_torch import from_torch
from tsc_interp.model.input_map import InputMap
from tsc_interp.model.interop import HAS_BRIDGE_ONLY

OFF = -1e9


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def parts(kind: type[nn.TransformerEncoderLayer] = nn.TransformerEncoderLayer) -> Any:
    """An embedding, two layers with a final norm, and a head of three classes, one switched off."""
    torch.manual_seed(1)
    embedding, head = nn.Embedding(5, 6), nn.Linear(6, 3)
    layer = kind(6, 2, 10, activation="gelu", norm_first=True, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(6), enable_nested_tensor=False)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
        head.bias[2] = OFF
    return embedding, encoder.eval(), head


def imported(embedding: Any, encoder: Any, head: Any, **options: Any) -> Any:
    return from_torch(
        embedding, encoder, head, tokens=[0, 1, 2], query=4, task="contains_all", **options
    )


class Window(nn.TransformerEncoderLayer):
    """Sees the first twenty tokens."""

    def forward(self, src: Tensor, *args: Any, **options: Any) -> Tensor:
        return torch.cat([super().forward(src[:, :20], *args, **options), src[:, 20:]], dim=1)


class Branch(nn.TransformerEncoderLayer):
    """Does something else with more than 17 tokens."""

    def forward(self, src: Tensor, *args: Any, **options: Any) -> Tensor:
        out = super().forward(src, *args, **options)
        return -out if src.shape[1] > 17 else out


def beyond(out: Tensor) -> Tensor:
    return -out if out.shape[1] > 17 else out


def _activation(encoder: Any, _: Any, __: Any) -> None:
    encoder.layers[1].activation = functional.relu
    encoder.layers[1].activation_relu_or_gelu = 1


def _own_activation(encoder: Any, _: Any, __: Any) -> None:
    for layer in encoder.layers:
        layer.activation = lambda x: beyond(functional.gelu(x))
        layer.activation_relu_or_gelu = 0


def _fast_path_activation(encoder: Any, _: Any, __: Any) -> None:
    for layer in encoder.layers:
        layer.activation = functional.relu  # and the fused path, which evaluation takes, has gelu


def _epsilon(encoder: Any, _: Any, __: Any) -> None:
    encoder.layers[0].norm2.eps = 0.3


def _final_epsilon(encoder: Any, _: Any, __: Any) -> None:
    encoder.norm.eps = 0.3


def _zero_attention(encoder: Any, _: Any, __: Any) -> None:
    encoder.layers[0].self_attn.add_zero_attn = True


def _key_bias(encoder: Any, _: Any, __: Any) -> None:
    attention = encoder.layers[1].self_attn
    attention.bias_k = attention.bias_v = nn.Parameter(torch.full((1, 1, 6), 3.0))


def _negated(encoder: Any, _: Any, __: Any) -> None:
    encoder.register_forward_hook(lambda module, given, out: -out)


def _hook_within(encoder: Any, _: Any, __: Any) -> None:
    encoder.layers[0].linear1.register_forward_pre_hook(lambda module, given: (beyond(given[0]),))


def _hook_on_embedding(_: Any, embedding: Any, __: Any) -> None:
    embedding.register_forward_hook(lambda module, given, out: beyond(out))


def _hook_on_head(_: Any, __: Any, head: Any) -> None:
    head.register_forward_hook(lambda module, given, out: out.flip(-1))


def _method(encoder: Any, _: Any, __: Any) -> None:
    plain = encoder.layers[1].forward
    encoder.layers[1].forward = lambda src, *a, **k: beyond(plain(src, *a, **k))


def _other_part(encoder: Any, _: Any, __: Any) -> None:
    encoder.layers[0].dropout1 = nn.Hardtanh(-50.0, 50.0)


def _max_norm(_: Any, embedding: Any, __: Any) -> None:
    embedding.max_norm = 100.0


CHANGES = [
    _activation, _own_activation, _fast_path_activation, _epsilon, _final_epsilon, _zero_attention,
    _key_bias, _negated, _hook_within, _hook_on_embedding, _hook_on_head, _method, _other_part,
    _max_norm,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__)
def test_changed_torch_modules_are_refused(change: Callable[..., None]) -> None:
    embedding, encoder, head = parts()
    change(encoder, embedding, head)
    with pytest.raises((UnsupportedError, UsageError)):
        imported(embedding, encoder, head)


@pytest.mark.parametrize("kind", [Window, Branch])
def test_subclasses_of_a_layer_are_refused(kind: Any) -> None:
    with pytest.raises((UnsupportedError, UsageError), match=kind.__name__):
        imported(*parts(kind))


def test_subclasses_of_the_other_parts_are_refused() -> None:
    class Scaled(nn.Embedding):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * (1.0 if input.shape[1] < 18 else 2.0)

    class Turned(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input)

    embedding, encoder, head = parts()
    with pytest.raises(UnsupportedError, match="Scaled"):
        imported(Scaled(5, 6), encoder, head)
    with pytest.raises(UnsupportedError, match="Turned"):
        imported(embedding, encoder, Turned(6, 3))
    with pytest.raises(UnsupportedError, match="Scaled"):
        imported(embedding, encoder, head, positions=Scaled(40, 6))


def test_a_hook_on_every_module_is_refused() -> None:
    handle = nn.modules.module.register_module_forward_hook(lambda module, given, out: None)
    try:
        with pytest.raises(UnsupportedError, match="every module"):
            imported(*parts())
    finally:
        handle.remove()


def test_what_is_unchanged_is_imported_and_left_as_it_was() -> None:
    embedding, encoder, head = parts()
    encoder.layers[0].train()
    before = [module.training for module in encoder.modules()]
    assert imported(embedding, encoder, head).config.n_outputs == 3
    assert [module.training for module in encoder.modules()] == before
    frozen = copy.deepcopy(encoder)
    frozen.layers[1].activation = nn.GELU()
    assert imported(embedding, frozen, head).config.act_fn == "gelu"


# -- TransformerLens -----------------------------------------------------------------------------


def long_model(**options: Any) -> Any:
    model = tl_model(3, n_ctx=64, d_vocab_out=3, n_layers=2, normalization_type="LN", **options)
    with torch.no_grad():
        bias = model.unembed.b_U
        bias[2] = OFF
    return model


def taken(model: Any) -> Any:
    return tsc.from_transformer_lens(model, tokens=[0, 1, 2], query=3, task="contains_all")


def act(layer: Any, function: Any) -> None:
    if HAS_BRIDGE_ONLY:
        layer.mlp.original_component.act = function
    else:
        layer.mlp.act_fn = function


def _tl_permanent_hook(model: Any) -> None:
    point = model.hook_dict["blocks.0.hook_resid_post"]
    point.add_hook(lambda x, hook: beyond(x), is_permanent=True)


def _tl_temporary_hook(model: Any) -> None:
    model.hook_dict["blocks.1.attn.hook_z"].add_hook(lambda x, hook: beyond(x))


def _tl_torch_hook(model: Any) -> None:
    model.blocks[1].register_forward_hook(lambda module, given, out: -out)


def _tl_activation(model: Any) -> None:
    act(model.blocks[1], functional.relu)


def _tl_all_activations(model: Any) -> None:
    for layer in model.blocks:
        act(layer, functional.relu)


def _tl_own_activation(model: Any) -> None:
    for layer in model.blocks:
        act(layer, lambda x: beyond(functional.gelu(x)))


def _tl_partial_activation(model: Any) -> None:
    def function(x: Tensor, way: str) -> Tensor:
        return beyond(functional.gelu(x, approximate=way))

    for layer in model.blocks:
        act(layer, partial(function, way="none"))


def _tl_epsilon(model: Any) -> None:
    norm = model.blocks[1].ln2
    (norm.original_component if HAS_BRIDGE_ONLY else norm).eps = 0.3


def _tl_method(model: Any) -> None:
    inner = model.original_model if HAS_BRIDGE_ONLY else model
    plain = inner.forward
    inner.forward = lambda *a, **k: plain(*a, **k)


def _tl_subclass(model: Any) -> None:
    class Other(type(model.blocks[0].mlp)):  # type: ignore[misc]
        pass

    model.blocks[0].mlp.__class__ = Other


@pytest.mark.parametrize(
    "change",
    [
        _tl_permanent_hook, _tl_temporary_hook, _tl_torch_hook, _tl_activation, _tl_all_activations,
        _tl_own_activation, _tl_partial_activation, _tl_epsilon, _tl_method, _tl_subclass,
    ],
    ids=lambda one: one.__name__,
)  # fmt: skip
def test_changed_models_of_transformer_lens_are_refused(change: Callable[[Any], None]) -> None:
    model = long_model()
    change(model)
    with pytest.raises(UnsupportedError):
        taken(model)


def test_an_unchanged_model_is_imported_and_hooks_can_be_removed() -> None:
    model = long_model()
    _tl_permanent_hook(model)
    model.reset_hooks(including_permanent=True)
    assert taken(model).config.n_layers == 2


def test_a_subclass_of_the_whole_model_is_refused() -> None:
    class Mine(type(tl_model())):  # type: ignore[misc]
        pass

    model = tl_model()
    model.__class__ = Mine
    with pytest.raises(UnsupportedError, match="Mine"):
        taken(model)


# -- the comparison itself -----------------------------------------------------------------------


def compared(change: Callable[[Tensor, Tensor], Tensor], room: int | None = None) -> None:
    """An import of three classes, one switched off, beside what its original is said to answer."""
    embedding, encoder, head = parts()
    checkpoint = imported(embedding, encoder, head)
    reading = InputMap((0, 1, 2), (), 4, "first", None)

    def original(letters: Tensor) -> Tensor:
        out = head(encoder(embedding(reading.rows(letters)))[:, 0])
        return change(letters, out)

    compare(checkpoint, reading, original, 64, 0, room)


def test_the_comparison_accepts_what_is_equal() -> None:
    compared(lambda letters, out: out)


@pytest.mark.parametrize(
    "change",
    [
        lambda letters, out: out + torch.tensor([1e-3, 0.0, 0.0]),
        lambda letters, out: out[:, [1, 0, 2]],
        lambda letters, out: out * (-1.0 if letters.shape[1] > 200 else 1.0),
        lambda letters, out: out + 0.01 * (letters.shape[1] > 17),
        lambda letters, out: out + 0.01 * ((letters == 2) & (letters.shape[1] == 1))[:, :1],
        lambda letters, out: out * float("nan"),
    ],
    ids=["small", "swapped", "hundreds", "18", "one letter", "nan"],
)
def test_the_comparison_sees_every_output_by_itself(change: Any) -> None:
    with pytest.raises(UnsupportedError, match="does not compute what the original does"):
        compared(change)
