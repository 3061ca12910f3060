"""Losses as functions of logits: a value per string, and derivatives.

The source report's two are for one output, and labels are 0.0 and 1.0. Several outputs have the
cross-entropy of their softmax, and labels are the numbers of classes.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from tsc_interp.training.config import LossName

Array = NDArray[np.float32]
Labels = Array | NDArray[np.int64]


class Loss(Protocol):
    def values(self, logits: Array, labels: Any) -> Array:
        """Each string's loss."""
        ...

    def gradient(self, logits: Array, labels: Any) -> Array:
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


class SoftmaxCrossEntropy:
    """Of several outputs: `[..., string, output]`, with the number of each string's class."""

    def values(self, logits: Array, labels: NDArray[np.int64]) -> Array:
        # With gaps g to the class's own logit: log(1 + sum of exp(g) over the others), the largest
        # taken out where it is positive. log1p keeps the digits of small losses, as above.
        x = torch.from_numpy(logits)
        own = torch.from_numpy(labels).expand(x.shape[:-1])[..., None]
        gaps = x - x.gather(-1, own)
        most = gaps.amax(-1, keepdim=True)  # at least 0, the class's own
        others = (gaps - most).exp_().scatter_(-1, own, 0.0).sum(-1)
        most = most.squeeze(-1)
        shifted = most + (others + most.neg().exp()).log()
        return np.asarray(torch.where(most > 0, shifted, others.log1p()))

    def gradient(self, logits: Array, labels: NDArray[np.int64]) -> Array:
        # Not torch's softmax, whose last digit depends on how many rows there are.
        shares: Array = np.exp(logits - logits.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        shares[..., np.arange(len(labels)), labels] -= 1
        shares *= np.float32(1 / len(labels))
        return shares


def loss_named(name: LossName, outputs: int = 1) -> Loss:
    if outputs > 1:
        return SoftmaxCrossEntropy()
    return CrossEntropy() if name == "cross_entropy" else SigmoidScaled()


def _sigmoid(x: Array) -> Array:
    return torch.sigmoid(torch.from_numpy(x)).numpy()


def _shrink(x: Array) -> Array:
    return np.asarray(x / (1 + _sigmoid(x)))


def _shrink_derivative(x: Array) -> Array:
    sigmoid = _sigmoid(x)
    below = 1 + sigmoid
    return np.asarray(1 / below - x * sigmoid * (1 - sigmoid) / (below * below))
