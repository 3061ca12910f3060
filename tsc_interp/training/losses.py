"""The source report's two losses, as functions of logits: a value per string, and derivatives."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from tsc_interp.training.config import LossName

Array = NDArray[np.float32]


class Loss(Protocol):
    def values(self, logits: Array, labels: Array) -> Array:
        """Each string's loss."""
        ...

    def gradient(self, logits: Array, labels: Array) -> Array:
        """The derivative of the mean over strings, by each logit."""
        ...


class CrossEntropy:
    """Binary cross-entropy on logits."""

    def values(self, logits: Array, labels: Array) -> Array:
        # log(1 + exp(x)) - label x, arranged so that small losses keep their digits, which torch's
        # own function does not do: it rounds them to the precision of the logit.
        x = torch.from_numpy(logits)
        tail = x.abs().neg_().exp_().log1p_()
        return tail.add_(x.clamp(min=0).sub_(x * torch.from_numpy(labels))).numpy()

    def gradient(self, logits: Array, labels: Array) -> Array:
        gradient = _sigmoid(logits)
        gradient -= labels
        gradient *= np.float32(1 / logits.shape[-1])
        return gradient


class SigmoidScaled:
    """Cross-entropy of -g(-g(x)) with g(x) = x / (1 + sigmoid(x)): large logits count for half."""

    def values(self, logits: Array, labels: Array) -> Array:
        return CrossEntropy().values(-_shrink(-_shrink(logits)), labels)

    def gradient(self, logits: Array, labels: Array) -> Array:
        inner = -_shrink(logits)
        outer = CrossEntropy().gradient(-_shrink(inner), labels)
        # d(-g(-g(x))) = g'(-g(x)) g'(x) dx
        return np.asarray(outer * _shrink_derivative(inner) * _shrink_derivative(logits))


def loss_named(name: LossName) -> Loss:
    return CrossEntropy() if name == "cross_entropy" else SigmoidScaled()


def _sigmoid(x: Array) -> Array:
    return torch.sigmoid(torch.from_numpy(x)).numpy()


def _shrink(x: Array) -> Array:
    return np.asarray(x / (1 + _sigmoid(x)))


def _shrink_derivative(x: Array) -> Array:
    sigmoid = _sigmoid(x)
    below = 1 + sigmoid
    return np.asarray(1 / below - x * sigmoid * (1 - sigmoid) / (below * below))
