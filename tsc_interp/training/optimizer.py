"""AdamW on flat parameters `[model, parameter]`, in the order of torch's operations."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


class AdamW:
    """Decoupled weight decay, torch's default betas and epsilon. All models take the same steps."""

    def __init__(self, mean: Array, square: Array, steps: int, weight_decay: float) -> None:
        self.mean, self.square = mean, square
        self.steps = steps
        self._weight_decay = weight_decay
        self._scratch = np.empty_like(mean)

    def step(self, parameters: Array, gradient: Array, rate: float) -> None:
        """Update the parameters in place; the gradient is used up."""
        self.steps += 1
        scratch = self._scratch
        parameters *= 1.0 - rate * self._weight_decay
        np.subtract(gradient, self.mean, out=scratch)
        scratch *= 1.0 - _BETA_1
        self.mean += scratch
        gradient *= gradient
        gradient *= 1.0 - _BETA_2
        self.square *= _BETA_2
        self.square += gradient
        np.sqrt(self.square, out=scratch)
        scratch /= math.sqrt(1.0 - _BETA_2**self.steps)
        scratch += _EPSILON
        np.divide(self.mean, scratch, out=scratch)
        scratch *= rate / (1.0 - _BETA_1**self.steps)
        parameters -= scratch

    def keep(self, models: NDArray[np.intp]) -> None:
        """Forget the models not listed."""
        self.mean, self.square = self.mean[models], self.square[models]
        self._scratch = np.empty_like(self.mean)
