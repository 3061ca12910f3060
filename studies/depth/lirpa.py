"""auto_LiRPA asked the same: the layers as it can trace them, over a box of embedded letters."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm
from torch import Tensor, nn

from studies.depth.bounds.first import Boxes
from tsc_interp.falsification.network import Affine, Network

METHODS = ("IBP", "CROWN-IBP", "CROWN")


class Plain(nn.Module):
    """Embedded rows `[row position component]` to the outputs at one position."""

    def __init__(self, network: Network, length: int, read: int) -> None:
        super().__init__()
        self.network, self.read = network, read
        hidden = np.triu(np.full((length, length), -1e4), 1) if network.causal else 0.0
        self.hidden = torch.as_tensor(hidden, dtype=torch.float32)
        self.parts: dict[int, tuple[Tensor, Tensor]] = {}
        for layer in (*network.layers, network):
            for part in vars(layer).values():
                if isinstance(part, Affine):
                    both = (torch.from_numpy(one).float() for one in (part.weight, part.bias))
                    self.parts[id(part)] = tuple(both)  # type: ignore[assignment]

    def forward(self, x: Tensor) -> Tensor:
        net = self.network
        for layer in net.layers:
            read = self._normed(layer.norm1, x)
            q, k, v = (
                (read @ self.parts[id(part)][0] + self.parts[id(part)][1])
                .view(-1, x.shape[1], net.n_heads, net.d_head).transpose(1, 2)
                for part in (layer.query, layer.key, layer.value)
            )  # fmt: skip
            scores = q.matmul(k.transpose(-1, -2)) / math.sqrt(net.d_head) + self.hidden
            z = (
                scores.softmax(-1)
                .matmul(v)
                .transpose(1, 2)
                .reshape(-1, x.shape[1], net.n_heads * net.d_head)
            )
            x = x + z @ self.parts[id(layer.output)][0] + self.parts[id(layer.output)][1]
            if layer.into is not None and layer.out is not None:
                hidden = self._normed(layer.norm2, x) @ self.parts[id(layer.into)][0]
                hidden = (hidden + self.parts[id(layer.into)][1]).relu()
                x = x + hidden @ self.parts[id(layer.out)][0] + self.parts[id(layer.out)][1]
        x = self._normed(net.final, x)[:, self.read]
        weight, bias = self.parts[id(net.unembed)]
        return x @ weight + bias

    def _normed(self, part: Affine | None, x: Tensor) -> Tensor:
        if part is None:
            return x
        c = x - x.mean(-1, keepdim=True)
        sigma = torch.sqrt((c * c).mean(-1, keepdim=True) + self.network.eps)
        return c / sigma * self.parts[id(part)][0] + self.parts[id(part)][1]


def signs(network: Network, boxes: Boxes, read: int, wanted: int, method: str) -> tuple[bool, bool]:
    """Whether one box is bounded to be right, and to be wrong."""
    warnings.simplefilter("ignore")
    vectors = torch.from_numpy(network.embed)[boxes.rows[0]]
    assert network.positions is not None
    positions = torch.from_numpy(network.positions)[: boxes.rows.shape[1]]
    low, high = vectors.clone(), vectors.clone()
    free = torch.from_numpy(network.embed)[boxes.letters[0]]
    low[boxes.places[0]], high[boxes.places[0]] = free.amin(1), free.amax(1)
    low, high = ((one + positions)[None].float() for one in (low, high))
    bounded: Any = BoundedModule(Plain(network, low.shape[1], read), low)
    box = PerturbationLpNorm(norm=float("inf"), x_L=low, x_U=high)
    compared = torch.zeros(1, 1, network.outputs)
    compared[..., wanted], compared[..., 1 - wanted] = 1.0, -1.0
    lower, upper = bounded.compute_bounds(
        x=(BoundedTensor((low + high) / 2, box),), C=compared, method=method
    )
    return bool((lower > 0).all()), bool((upper < 0).any())
