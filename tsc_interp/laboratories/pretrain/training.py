"""Many members trained at once, each on strings of its own.

The classifier's own forward pass under `vmap`: weights, strings and targets carry a leading member
axis, the loss is a sum over members and Adam works number by number, so no member feels another.
The trainer of `tsc_interp.training` knows streams and tasks; a corrupted string is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.forward import forward
from tsc_interp.model.initialise import initial_ensemble
from tsc_interp.model.inputs import Inputs
from tsc_interp.strings import CLS, FIRST_LETTER, PAD

Weights = dict[str, Tensor]
READ_OUT = "unembed.W_U"
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class Strings:
    """In the two forms of `model.inputs`: a token for each letter, or one with its count."""

    tokens: NDArray[np.int64]
    """`[member string position]`, CLS in front."""
    times: NDArray[np.int64]
    """`[member string position]`: how often the token stands there; 0: nobody attends to it."""

    @classmethod
    def of_letters(cls, letters: NDArray[np.int64]) -> Strings:
        """`[member string place]` of letters' numbers, -1 where there is none."""
        is_letter = letters >= 0
        tokens = np.where(is_letter, letters + FIRST_LETTER, PAD)
        return cls(_in_front(tokens, CLS), _in_front(is_letter.astype(np.int64), 0))

    @classmethod
    def of_counts(cls, counts: NDArray[np.int64]) -> Strings:
        """`[member string letter]`: cheaper where the alphabet is smaller than strings are long."""
        tokens = np.broadcast_to(FIRST_LETTER + np.arange(counts.shape[-1]), counts.shape)
        return cls(_in_front(tokens, CLS), _in_front(counts, 0))


def _in_front(rows: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    return np.concatenate([np.full_like(rows[..., :1], first), rows], axis=-1)


@dataclass(frozen=True)
class Batch:
    """Strings, and what is to be answered."""

    strings: Strings
    targets: NDArray[Any]
    """`[member string]` labels of one output, or `[member string output]` shares."""
    kept: NDArray[np.bool_] | None = None
    """`[member string]`: which strings count, where members have different numbers of them."""


def logits(config: ClassifierConfig, weights: Weights, strings: Strings) -> Tensor:
    """`[member string]`, or `[member string output]`."""

    def of_member(weights: Weights, tokens: Tensor, times: Tensor) -> Tensor:
        inputs = Inputs(tokens, times, times.sum(-1), compressed=False)
        return forward(config, weights, inputs)

    times = torch.from_numpy(strings.times).to(torch.float64)
    read: Tensor = torch.func.vmap(of_member)(weights, torch.from_numpy(strings.tokens), times)
    return read


def loss(config: ClassifierConfig, weights: Weights, batch: Batch) -> Tensor:
    """The mean over a member's strings, summed over members."""
    read = logits(config, weights, batch.strings)
    targets = torch.as_tensor(batch.targets, dtype=read.dtype)
    if targets.ndim == 2:
        losses = functional.binary_cross_entropy_with_logits(read, targets, reduction="none")
    else:
        losses = -(targets * read.log_softmax(-1)).sum(-1)
    if batch.kept is None:
        return losses.mean(-1).sum()
    kept = torch.as_tensor(batch.kept, dtype=losses.dtype)
    return ((losses * kept).sum(-1) / kept.sum(-1)).sum()


def train(
    config: ClassifierConfig, weights: Weights, batches: Iterable[Batch], rate: float
) -> Weights:
    """`weights` after one step of Adam for each batch.

    Written out: it is four lines, and torch's own imports a compiler for seconds.
    """
    names = list(weights)
    values = [weights[name].clone().requires_grad_() for name in names]
    means, squares = ([torch.zeros_like(value) for value in values] for _ in range(2))
    for step, batch in enumerate(batches, start=1):
        total = loss(config, dict(zip(names, values, strict=True)), batch)
        slopes = torch.autograd.grad(total, values)
        with torch.no_grad():
            for value, slope, mean, square in zip(values, slopes, means, squares, strict=True):
                mean.lerp_(slope, 1 - _BETAS[0])
                square.lerp_(slope.square(), 1 - _BETAS[1])
                size = (square / (1 - _BETAS[1] ** step)).sqrt_().add_(_EPSILON)
                value.addcdiv_(mean, size, value=-rate / (1 - _BETAS[0] ** step))
    return {name: value.detach() for name, value in zip(names, values, strict=True)}


def with_new_read_out(config: ClassifierConfig, weights: Weights, seeds: Sequence[int]) -> Weights:
    """The body kept, the read-out drawn anew for this configuration's outputs."""
    return {**weights, READ_OUT: initial_ensemble(config, seeds)[READ_OUT]}


def repeated(weights: Weights, times: int) -> Weights:
    """All members, then all of them again, and so on."""
    return {name: torch.cat([weight] * times) for name, weight in weights.items()}


def checkpoint(config: ClassifierConfig, weights: Weights, member: int) -> Checkpoint:
    return Checkpoint(config, {name: weight[member].numpy() for name, weight in weights.items()})
