"""Whether a model is its libraries' own code and nothing else, so that its weights say it all.

A comparison on strings sees what a model does on those strings. A hook, a subclass, a replaced
method or a table that was changed can do something else on longer ones, so none of them is
accepted. Whatever takes a model for a claim asks here: `to_checkpoint` of our own models, imports
of others.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from tsc_interp.errors import UnsupportedError

_LIBRARIES = ("torch.nn", "transformer_lens", "transformers", "tsc_interp")
_OF_ITS_LAYER = {"name", "training", "layer_id", "layer_idx", "_layer_idx"}
_PLAIN = (bool, int, float, str, type(None))


def require_unaltered(model: nn.Module) -> None:
    """Refuse a model that does more than its library's classes do with its weights.

    Args:
        model: The model, all of whose modules are looked at, registered or not.

    Raises:
        UnsupportedError: A forward hook, a subclass, a replaced method or a function of the user's;
            the message names the module and what to do.
    """
    everywhere = (torch_module._global_forward_hooks, torch_module._global_forward_pre_hooks)
    if any(everywhere):
        raise UnsupportedError(
            "a forward hook is registered on every module (torch.nn.modules.module); an import is "
            "compared without hooks: remove it first"
        )
    if any(parameter.is_meta for parameter in model.parameters()):
        raise UnsupportedError("the model is on the meta device, where weights have no values")
    require_plain(dict(model.named_parameters()) | dict(model.named_buffers()))
    for name, module in modules_of(model):
        where = f"{name} ({type(module).__name__})" if name else type(module).__name__
        if any(
            map(
                _foreign_hook,
                (*module._forward_hooks.values(), *module._forward_pre_hooks.values()),
            )
        ):
            raise UnsupportedError(
                f"{where} has a forward hook, which could change what the model computes; remove "
                "it first (TransformerLens: model.reset_hooks(including_permanent=True))"
            )
        if not _of_library(type(module)):
            raise UnsupportedError(
                f"{where} is no class of PyTorch or TransformerLens but one of your own, which "
                "could compute anything; a model of the library's own classes can be imported"
            )
        called = getattr(type(module), "forward", None), type(module).__call__
        if any(map(_foreign, called)):
            raise UnsupportedError(f"the class of {where} runs a forward pass of your own")
        for attribute, value in vars(module).items():
            if callable(getattr(type(module), attribute, None)):
                raise UnsupportedError(f"the method {attribute} of {where} was replaced")
            if module is not model and _foreign(value):
                raise UnsupportedError(
                    f"{attribute} of {where} is a function of your own, which could compute "
                    "anything; one of the library's own can be imported"
                )


def require_plain(tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors of a class of the user's own, which could compute anything."""
    for name, tensor in tensors.items():
        if type(tensor) not in (Tensor, nn.Parameter):
            raise UnsupportedError(
                f"{name} is a {type(tensor).__name__}, a class of tensors of its own, which could "
                "compute anything; copy its values into a plain torch.Tensor first"
            )


def require_own(model: nn.Module) -> None:
    """Refuse a model of ours of which its weights in float32 do not say everything.

    Args:
        model: A `Classifier` or `HookedClassifier`.

    Raises:
        UnsupportedError: As `require_unaltered`, or weights of another type than float32.
    """
    require_unaltered(model)
    points, modules = getattr(model, "hook_dict", {}), dict(model.named_modules())
    if any(modules.get(name) is not point for name, point in points.items()):
        raise UnsupportedError("an entry of hook_dict was replaced; load the model again")
    for name, parameter in model.named_parameters():
        if parameter.dtype != torch.float32:
            raise UnsupportedError(
                f"{name} is {str(parameter.dtype).removeprefix('torch.')}, and claims are about "
                "float32 weights; model.float() rounds them, and is another model"
            )


def require_fresh_tables(model: Any) -> None:
    """Refuse a TransformerLens model whose masks and tables are not those of a fresh model.

    They are made from the configuration and not imported, so a changed one would be lost.

    Args:
        model: A `HookedTransformer` or `TransformerBridge`.

    Raises:
        UnsupportedError: A table differs; the message names it.
    """
    inside: Any = getattr(model, "original_model", model)  # of a bridge
    ours = getattr(inside, "classifier_config", None)  # of an export
    cfg = deepcopy(getattr(inside, "config", None) or inside.cfg)
    if inside is model and ours is None and hasattr(cfg, "tokenizer_name"):
        cfg.tokenizer_name, cfg.init_weights = None, False
    with torch.random.fork_rng(devices=[]):
        fresh = type(inside)(cfg) if ours is None else type(inside)(cfg, ours)
    expected = dict(_tables(fresh))
    for name, table in _tables(inside):
        grown = name.endswith(".mask") and _is_causal_mask(name, table)  # in its first run
        if not grown and not _equal(table, expected.get(name)):
            raise UnsupportedError(
                f"the table {name} is not the one that a fresh model of this configuration has; "
                "masks and tables are not imported, so restore it"
            )


def require_saved_masks(state: Mapping[str, Tensor]) -> None:
    """Refuse masks of a saved state that are not causal masks; they are not imported."""
    for name, table in state.items():
        kept = table.ndim == 0 and float(table) in (-math.inf, -1e5)
        if not (kept if name.endswith("IGNORE") else _is_causal_mask(name, table)):
            raise UnsupportedError(
                f"{name} in the state is not TransformerLens's own mask, which every token and "
                "those before it pass; a model with that mask can be imported"
            )


def _tables(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Tensors that are no weights; a linear layer's are weights, whatever they are called."""
    for name, module in modules_of(model):
        if isinstance(module, nn.Linear):
            continue
        for attribute, value in {**module._buffers, **vars(module)}.items():
            if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
                yield f"{name}.{attribute}".replace("._original_component", ""), value


def _is_causal_mask(name: str, table: Tensor) -> bool:
    """A bridge's `causal_mask` says which tokens are not seen."""
    seen = ~table if table.dtype == torch.bool and name.endswith("causal_mask") else table
    return table.dtype == torch.bool and is_causal(seen.cpu().numpy())


def is_causal(seen: NDArray[Any]) -> bool:
    """Whether every token sees itself and those before it: ones up to the diagonal, else zeros."""
    square = seen.ndim == 2 and seen.shape[0] == seen.shape[1]
    return square and np.array_equal(seen, np.tri(len(seen)))


def _equal(table: Tensor, expected: Tensor | None) -> bool:
    if expected is None or table.shape != expected.shape:
        return False
    return torch.equal(table, expected.to(table.device, table.dtype))


def require_equal_layers(layers: Iterable[nn.Module]) -> None:
    """Refuse layers that differ in more than their weights: options, activations, kinds of parts.

    Args:
        layers: The layers of one model.

    Raises:
        UnsupportedError: Two layers differ; the message names the part and its attribute.
    """
    first: dict[tuple[str, str], Any] | None = None
    for index, layer in enumerate(layers):
        options = dict(_options(layer))
        if first is None:
            first = options
        for part, attribute in first.keys() | options.keys():
            if first.get((part, attribute), ...) != options.get((part, attribute), ...):
                raise UnsupportedError(
                    f"layer {index} differs from the first in {part or 'its'} {attribute}: "
                    f"{options.get((part, attribute))!r} instead of "
                    f"{first.get((part, attribute))!r}; equal layers can be imported"
                )


def require_epsilon(model: nn.Module, epsilon: float) -> None:
    """Refuse a norm whose epsilon is not that of the model's configuration."""
    for name, module in modules_of(model):
        for attribute in ("eps", "variance_epsilon"):
            if vars(module).get(attribute, epsilon) != epsilon:
                raise UnsupportedError(
                    f"the norm {name} has {attribute} = {vars(module)[attribute]}, the model's "
                    f"configuration eps = {epsilon}; one epsilon for all norms can be imported"
                )


def require_activation(model: nn.Module, expected: Callable[[Tensor], Tensor], name: str) -> None:
    """Refuse an MLP whose activation is not the one the model's configuration names."""
    at = torch.linspace(-12, 12, 2401)
    for part, module in modules_of(model):
        for attribute in ("act", "act_fn"):
            function = vars(module).get(attribute)
            if callable(function) and not torch.allclose(function(at), expected(at), atol=1e-5):
                raise UnsupportedError(
                    f"the activation of {part} is {function!r}, and the model's configuration "
                    f"says {name!r}; one activation for all layers can be imported"
                )


def modules_of(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every module, also those that only an attribute holds (a bridge's original model)."""
    waiting, seen = [("", model)], set()
    while waiting:
        name, module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield name, module
        attributes = {**module._modules, **vars(module)}
        waiting += [
            (f"{name}.{key}".lstrip("."), value)
            for key, value in attributes.items()
            if isinstance(value, nn.Module)
        ]


def _options(layer: nn.Module) -> Iterator[tuple[tuple[str, str], Any]]:
    for part, module in modules_of(layer):
        yield (part, "class"), type(module)
        for attribute, value in vars(module).items():
            if attribute in _OF_ITS_LAYER:
                continue
            if isinstance(value, _PLAIN) or (callable(value) and not isinstance(value, nn.Module)):
                yield (part, attribute), _unwrapped(value)


def _of_library(kind: type) -> bool:
    """Whether this is the very class its library has under that name."""
    known = any(f"{kind.__module__}.".startswith(f"{library}.") for library in _LIBRARIES)
    return known and getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind


def _foreign(value: Any) -> bool:
    if isinstance(value, nn.Module | Tensor | type) or not callable(value):
        return False
    function = value.func if isinstance(value, partial) else value
    home = getattr(function, "__module__", None) or type(function).__module__
    return not any(f"{home}.".startswith(f"{library}.") for library in ("torch", *_LIBRARIES[1:]))


def _foreign_hook(hook: Any) -> bool:
    """A bridge keeps hooks of its own that only look; hook points' are always the user's."""
    return not str(getattr(hook, "__module__", "")).startswith("transformer_lens.model_bridge.")


def _unwrapped(value: Any) -> Any:
    """A partial function as what it is made of, so that two of them can be equal."""
    if isinstance(value, partial):
        return value.func, value.args, tuple(sorted(value.keywords.items()))
    return value
