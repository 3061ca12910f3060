"""The places in a classifier's tree: each holds its weights and can be called on its own.

`model.embed(tokens)`, `model.blocks[0].ln1(x)`, `model.blocks[0].mlp(x)` and `model.unembed(x)` run
the one definition in `forward.py` on the part's own weights, through the part's own hooks. Biases
are shown as the zeros they are, because TransformerLens's models have them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model import forward as arithmetic


class Part(nn.Module):
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

    def _tap(self, name: str, activation: Tensor) -> Tensor:
        point = self._modules.get(name)
        return activation if point is None else point(activation)


class Embed(Part):
    W_E: Tensor

    def forward(self, tokens: Tensor) -> Tensor:
        return self.W_E[..., tokens, :]


class Unembed(Part):
    W_U: Tensor

    def forward(self, residual: Tensor) -> Tensor:
        """`[... batch pos 1]`: the read-out at every position, of which the model uses CLS's."""
        return arithmetic.unembed(self.W_U, residual)

    @property
    def b_U(self) -> Tensor:
        return torch.zeros_like(self.W_U[..., 0, :])


class Norm(Part):
    def forward(self, x: Tensor) -> Tensor:
        return arithmetic.norm(self.config, dict(self.named_parameters()), "", x, self._tap)


class FinalNorm(Part):
    """There is none: the read-out takes the residual stream as it is."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Mlp(Part):
    W_in: Tensor
    W_out: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return arithmetic.mlp(dict(self.named_parameters()), "", x, self._tap)

    @property
    def b_in(self) -> Tensor:
        return torch.zeros_like(self.W_in[..., 0, :])

    @property
    def b_out(self) -> Tensor:
        return torch.zeros_like(self.W_out[..., 0, :])


class Attention(Part):
    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor

    @property
    def b_Q(self) -> Tensor:
        return torch.zeros_like(self.W_Q[..., 0, :])

    @property
    def b_K(self) -> Tensor:
        return torch.zeros_like(self.W_K[..., 0, :])

    @property
    def b_V(self) -> Tensor:
        return torch.zeros_like(self.W_V[..., 0, :])

    @property
    def b_O(self) -> Tensor:
        return torch.zeros_like(self.W_O[..., 0, 0, :])


_KINDS: dict[str, type[Part]] = {
    "embed": Embed,
    "unembed": Unembed,
    "ln1": Norm,
    "ln2": Norm,
    "attn": Attention,
    "mlp": Mlp,
}


def place(root: nn.Module, config: ClassifierConfig, path: str) -> tuple[nn.Module, str]:
    """The part that `path`'s last name belongs to, made on the way if need be."""
    *parents, leaf = path.split(".")
    module = root
    for name in parents:
        if name not in module._modules:
            module.add_module(name, _KINDS.get(name, Part)(config))
        module = module.get_submodule(name)
    return module, leaf
