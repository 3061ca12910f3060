"""Logits and gradients by torch autograd over `model.forward`: every configuration, less speed.

Strings are counts wherever that is exact, and tokens for a model that sees order or drops out.
Weights are stacked, so an ensemble is still one call per batch; only dropout, whose noise must not
depend on who else is trained, goes one model at a time (`one_at_a_time`). Products of matrices
whose sizes are odd may be rounded by where a matrix lies in memory, so that a model's last digits
can depend on how many are trained with it; the same models together always give the same digits.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import Inputs, as_read, from_counts, from_tokens
from tsc_interp.training.flat_weights import Array, Packed
from tsc_interp.training.losses import Labels, Loss


class Autograd(Packed):
    """The engine for everything `closed_form.covers` does not accept."""

    def __init__(self, config: ClassifierConfig, loss: Loss) -> None:
        self.config = config
        self._loss = loss
        self._shapes = config.weight_shapes()
        self.size = sum(map(math.prod, self._shapes.values()))

    @property
    def uses_tokens(self) -> bool:
        return self.config.needs_order or self.config.dropout > 0

    @property
    def one_at_a_time(self) -> bool:
        return self.config.dropout > 0

    def named(self, flat: Array) -> dict[str, Array]:
        views, start = {}, 0
        for name, shape in self._shapes.items():
            end = start + math.prod(shape)
            views[name] = flat[:, start:end].reshape(len(flat), *shape)
            start = end
        return views

    def _tensors(self, flat: Array) -> dict[str, Tensor]:
        return {name: torch.from_numpy(view) for name, view in self.named(flat).items()}

    def prepare(self, strings: NDArray[np.int64]) -> Inputs:
        if self.uses_tokens:
            return from_tokens(self.config, torch.from_numpy(as_read(self.config, strings)))
        return from_counts(self.config, torch.from_numpy(strings))

    def logits(self, flat: Array, strings: Inputs) -> Array:
        with torch.no_grad():
            return forward(self.config, self._tensors(flat), strings).numpy()

    def gradient(self, flat: Array, strings: Inputs, labels: Labels) -> tuple[Array, Array]:
        weights = {name: view.requires_grad_() for name, view in self._tensors(flat).items()}
        logits = forward(self.config, weights, strings, training=True)
        d_logits = torch.from_numpy(self._loss.gradient(logits.detach().numpy(), labels))
        gradients = torch.autograd.grad(
            logits, list(weights.values()), d_logits, allow_unused=True, materialize_grads=True
        )
        gradient = torch.cat([part.reshape(len(flat), -1) for part in gradients], dim=1)
        return gradient.numpy(), logits.detach().numpy()
