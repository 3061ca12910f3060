"""The places in a classifier's tree: each holds its weights and can be called on its own.

`model.embed(tokens)`, `model.blocks[0].ln1(x)`, `model.blocks[0].mlp(x)` and `model.unembed(x)` run
the one definition of the forward pass on the part's own weights, through the part's own hooks.
Biases of a model without them are shown as zeros, because TransformerLens's models always have
them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.forward import unembed
from tsc_interp.model.layers import Layers

_BIASED = {f"b_{part}": f"W_{part}" for part in ("U", "in", "out", *"QKVO")}


class Component(nn.Module):
    """A named place such as `blocks.0`, holding other parts, weights and hook points."""

    hook_out_is_single_residual_stream = True  # what TransformerLens 4's logit lens asks of a block

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.config = config

    def forward(self, *_: Any, **__: Any) -> Any:
        raise UnsupportedError(
            "attention needs to know how often each key counts, which a residual stream does not "
            "say; run the model with stop_at_layer, or with start_at_layer and tokens"
        )

    def __getattr__(self, name: str) -> Any:
        # Reached where there is no parameter of that name.
        weight = self._parameters.get(_BIASED.get(name, ""))
        if weight is None or self.config.biases:
            return super().__getattr__(name)
        return torch.zeros_like(weight[..., 0, 0, :] if name == "b_O" else weight[..., 0, :])

    def _layers(self) -> Layers:
        return Layers(self.config, dict(self.named_parameters()), self._tap)

    def _tap(self, name: str, activation: Tensor) -> Tensor:
        point = self._modules.get(name)
        return activation if point is None else point(activation)


class Embed(Component):
    W_E: Tensor

    def forward(self, tokens: Tensor) -> Tensor:
        return self.W_E[..., tokens, :]


class Unembed(Component):
    W_U: Tensor

    def forward(self, residual: Tensor) -> Tensor:
        """`[... batch pos out]`: the read-out at every position, of which the model uses CLS's."""
        if self.config.tied_embeddings:
            raise UnsupportedError(
                "this read-out is tied to the embeddings and has no weights of its own: "
                "residual @ model.W_U (+ model.b_U) is what it computes"
            )
        return unembed(dict(self.named_parameters()), residual)


class Norm(Component):
    def forward(self, x: Tensor) -> Tensor:
        return self._layers().norm("", x)


class HeadNorm(Component):
    """Of every query or key, `[batch pos head d_head]`."""

    def forward(self, x: Tensor) -> Tensor:
        return self._layers().norm("", x, per_head=True, kind=self.config.qk_norm)


class FinalNorm(Component):
    """There is none: the read-out takes the residual stream as it is."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Mlp(Component):
    W_in: Tensor
    W_out: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return self._layers().mlp("", x)


class Attention(Component):
    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor


_KINDS: dict[str, type[Component]] = {
    "embed": Embed,
    "unembed": Unembed,
    "ln1": Norm,
    "ln2": Norm,
    "ln_final": Norm,
    "q_norm": HeadNorm,
    "k_norm": HeadNorm,
    "attn": Attention,
    "mlp": Mlp,
}


def place(root: nn.Module, config: ClassifierConfig, path: str) -> tuple[nn.Module, str]:
    """The part that `path`'s last name belongs to, made on the way if need be."""
    *parents, leaf = path.split(".")
    module = root
    for name in parents:
        if name not in module._modules:
            module.add_module(name, _KINDS.get(name, Component)(config))
        module = module.get_submodule(name)
    return module, leaf
