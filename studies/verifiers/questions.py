"""The question in a form that verifiers of neural networks take: boxes, and a sign on each.

A ReLU sibling of the walk-through model: letter counts as real numbers, one box per set of letters;
the logit must be above or below zero on all of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import tsc_interp as tsc


@dataclass(frozen=True)
class Heads:
    """One layer without positions: numerators and denominators of each head, linear in counts."""

    numerator: Tensor
    denominator: Tensor
    constant: Tensor
    out: Tensor
    up: Tensor
    down: Tensor
    read: Tensor

    @classmethod
    def of(cls, checkpoint: tsc.Checkpoint) -> Heads:
        w = {name: torch.from_numpy(array).double() for name, array in checkpoint.weights.items()}
        letters, cls_ = w["embed.W_E"][2:], w["embed.W_E"][0]
        attn = {part: w[f"blocks.0.attn.W_{part}"] for part in "QKVO"}
        scale = math.sqrt(checkpoint.config.d_head)
        scores = torch.einsum("d,hde,lf,hfe->hl", cls_, attn["Q"], letters, attn["K"]) / scale
        weights = (scores - scores.max(1, keepdim=True).values).exp()
        values = torch.einsum("lf,hfe->hl", letters, attn["V"])
        return cls(
            weights * values, weights, cls_, attn["O"][:, 0], w["blocks.0.mlp.W_in"],
            w["blocks.0.mlp.W_out"], w["unembed.W_U"][:, 0],
        )  # fmt: skip


class CountsNetwork(nn.Module):
    """Letter counts `[batch letter]` to the logit `[batch 1]`."""

    def __init__(self, heads: Heads) -> None:
        super().__init__()
        self.numerator, self.denominator = _linear(heads.numerator), _linear(heads.denominator)
        self.mixed = _linear(heads.out.T, heads.constant)
        self.up, self.down = _linear(heads.up.T), _linear(heads.down.T)
        self.read = _linear(heads.read[None])

    def forward(self, counts: Tensor) -> Tensor:
        x = self.mixed(self.numerator(counts) / self.denominator(counts))
        return self.read(x + self.down(self.up(x).relu()))


def _linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=torch.float64)
    made.weight.data = weight.contiguous()
    if bias is not None:
        made.bias.data = bias.contiguous()
    return made.requires_grad_(False)
