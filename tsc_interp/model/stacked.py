"""A classifier's weights under TransformerLens's names: `W_Q` and its like carry a layer axis.

What a classifier does not have (biases, a position table) is shown as zeros, which is what a
TransformerLens model that computes the same has there.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.forward import position_table, unembedding


class StackedWeights(nn.Module):
    """Read-only views. With ensemble axes, those stand first, then the layer axis."""

    config: ClassifierConfig
    ensemble_shape: tuple[int, ...]
    blocks: nn.ModuleList
    cfg: Any

    @property
    def W_E(self) -> Tensor:
        """`[vocab d_model]`."""
        return self.get_parameter("embed.W_E")

    @property
    def W_pos(self) -> Tensor:
        """`[n_ctx d_model]`: learned or sinusoidal positions, or zeros."""
        if self.config.learned_positions or self.config.added_positions:
            return position_table(self.config, dict(self.named_parameters()))
        n_ctx = getattr(self.cfg, "n_ctx", 0)
        return self.W_E.new_zeros((*self.ensemble_shape, n_ctx, self.config.d_model))

    @property
    def W_E_pos(self) -> Tensor:
        """`[vocab + n_ctx d_model]`: both, one below the other."""
        return torch.cat([self.W_E, self.W_pos], dim=-2)

    @property
    def W_U(self) -> Tensor:
        """`[d_model out]`: the read-out; the letters' embeddings where those are tied to it."""
        return unembedding(self.config, dict(self.named_parameters()))

    @property
    def b_U(self) -> Tensor:
        if self.config.biases:
            return self.get_parameter("unembed.b_U")
        return torch.zeros_like(self.W_U[..., 0, :])

    @property
    def W_Q(self) -> Tensor:
        """`[layer head d_model d_head]`, like `W_K` and `W_V`, of which a group has copies."""
        return self._stacked("attn.W_Q")

    @property
    def W_K(self) -> Tensor:
        return self._copied(self._stacked("attn.W_K"))

    @property
    def W_V(self) -> Tensor:
        return self._copied(self._stacked("attn.W_V"))

    @property
    def W_O(self) -> Tensor:
        """`[layer head d_head d_model]`."""
        return self._stacked("attn.W_O")

    @property
    def W_in(self) -> Tensor:
        """`[layer d_model d_mlp]`."""
        return self._stacked("mlp.W_in")

    @property
    def W_gate(self) -> Tensor | None:
        """`[layer d_model d_mlp]`; None where the MLP has no gate, as in TransformerLens."""
        return self._stacked("mlp.W_gate") if self.config.gated_mlp else None

    @property
    def W_out(self) -> Tensor:
        """`[layer d_mlp d_model]`."""
        return self._stacked("mlp.W_out")

    @property
    def b_Q(self) -> Tensor:
        """`[layer head d_head]`, like `b_K` and `b_V`; zero in a model without biases."""
        return self._stacked("attn.b_Q")

    @property
    def b_K(self) -> Tensor:
        return self._copied(self._stacked("attn.b_K"))

    @property
    def b_V(self) -> Tensor:
        return self._copied(self._stacked("attn.b_V"))

    @property
    def b_O(self) -> Tensor:
        """`[layer d_model]`, like `b_out`."""
        return self._stacked("attn.b_O")

    @property
    def b_in(self) -> Tensor:
        """`[layer d_mlp]`."""
        return self._stacked("mlp.b_in")

    @property
    def b_out(self) -> Tensor:
        return self._stacked("mlp.b_out")

    def _copied(self, shared: Tensor) -> Tensor:
        """One for every head, of one per group."""
        axis = len(self.ensemble_shape) + 1
        repeats = self.config.n_heads // self.config.kv_heads
        return shared.repeat_interleave(repeats, dim=axis) if repeats > 1 else shared

    def _stacked(self, name: str) -> Tensor:
        if name.startswith("attn") and not self.config.has_attention:
            raise UnsupportedError("this model has no attention (n_heads = 0)")
        if name.startswith("mlp") and not self.config.has_mlp:
            raise UnsupportedError("this model has no MLP (d_mlp = 0)")
        layers = [attrgetter(name)(block) for block in self.blocks]  # which show biases as zeros
        return torch.stack(layers, dim=len(self.ensemble_shape))
