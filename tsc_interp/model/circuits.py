"""What follows from a classifier's weights, under TransformerLens's names: QK, OV, composition."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformer_lens import FactoredMatrix

from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.interop import utility
from tsc_interp.model.vocabulary import Vocabulary


class Circuits(Vocabulary):
    """Products of weights per head, and the weights as a TransformerLens model would hold them."""

    @property
    def QK(self) -> FactoredMatrix:
        return FactoredMatrix(self.W_Q, self.W_K.transpose(-2, -1))

    @property
    def OV(self) -> FactoredMatrix:
        return FactoredMatrix(self.W_V, self.W_O)

    @property
    def all_head_labels(self) -> list[str]:
        """`L0H1` and so on, in the order heads are stacked."""
        layers, heads = range(self.config.n_layers), range(self.config.n_heads)
        return [f"L{layer}H{head}" for layer in layers for head in heads]

    def all_composition_scores(self, mode: str) -> Tensor:
        """`[layer head layer head]`: how much a later head reads an earlier one, by Q, K or V."""
        if mode not in ("Q", "K", "V"):
            raise UsageError(f"composition is through 'Q', 'K' or 'V', not {mode!r}")
        reads = {"Q": self.QK, "K": self.QK.T, "V": self.OV}[mode]
        layer = torch.arange(self.config.n_layers)
        earlier = layer[:, None, None, None] < layer[None, None, :, None]
        scores: Tensor = utility("composition_scores")(self.OV, reads, broadcast_dims=True)
        return scores.where(earlier, torch.zeros_like(scores))

    def accumulated_bias(
        self, layer: int, mlp_input: bool = False, include_mlp_biases: bool = True
    ) -> Tensor:
        """`[d_model]`: the sum of all biases that were added to the residual stream before a layer.

        With `mlp_input`, that layer's attention is counted, too.
        """
        if self.config.biases and self.config.attention_norm != "off":
            raise UnsupportedError("a norm after attention scales its bias by what else it adds")
        total = self.W_U.new_zeros((*self.ensemble_shape, self.config.d_model))
        if self.config.has_attention:
            total = total + self.b_O[..., : layer + mlp_input, :].sum(-2)
        if self.config.has_mlp and include_mlp_biases:
            total = total + self.b_out[..., :layer, :].sum(-2)
        return total

    def tl_parameters(self) -> dict[str, Tensor]:
        """The weights by HookedTransformer's names, with the zeros it has where we have nothing."""
        zeros: dict[str, Any] = {"pos_embed.W_pos": self.W_pos, "unembed.b_U": self.b_U}
        for layer, block in enumerate(self.blocks):
            for part, biases in (("attn", "QKVO"), ("mlp", ("in", "out"))):
                if hasattr(block, part):
                    component = getattr(block, part)
                    names = [f"b_{bias}" for bias in biases]
                    zeros |= {f"blocks.{layer}.{part}.{b}": getattr(component, b) for b in names}
        return zeros | dict(self.named_parameters())
