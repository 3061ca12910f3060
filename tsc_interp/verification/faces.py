"""A classifier on one *face*: all strings over exactly the same set of letters.

All kinds of face answer the same two questions with sound error bounds:

    logits(counts)             -> logit and error bound of each count vector
    bounds(light, heavy, n)    -> enclosure of the logit over each box

A box gives every attended token (CLS first, where it is attended to) a range of weights, which may
be counts or counts divided by a common number: attention only sees ratios. `n` is the range of
lengths, which matters only to scores scaled by log n.

One layer whose MLP reads the residual without a norm is a `TableFace` (tables.py). Anything else is
a `LayeredFace` (layered.py), slower and looser. Where zero weights make the logit zero, it is a
`ZeroFace`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.verification.exact import ExactModel, Pair, only_pair
from tsc_interp.verification.intervals import Array, Interval
from tsc_interp.verification.layered import LayeredFace
from tsc_interp.verification.tables import Tables


class Face(Protocol):
    @property
    def letters(self) -> tuple[int, ...]: ...

    @property
    def attends_cls(self) -> bool: ...

    @property
    def log_n(self) -> bool: ...

    @property
    def cost(self) -> int:
        """About how many microseconds a box takes; the same on every machine."""

    def logits(self, counts: Array) -> tuple[Array, Array | float]: ...

    def bounds(self, light: Array, heavy: Array, shortest: Array, longest: Array) -> Interval: ...


def count_box_bounds(face: Face, low: Array, high: Array) -> Interval:
    """The logit's range over boxes of counts `[box letter]`, both ends included."""
    shortest, longest = low.sum(-1), high.sum(-1)
    if face.attends_cls:
        low, high = _with_cls(low), _with_cls(high)
    return face.bounds(low, high, shortest, longest)


def _with_cls(counts: Array) -> Array:
    return np.concatenate([np.ones((*counts.shape[:-1], 1)), counts], axis=-1)


class Faces:
    """All faces of one classifier, each compiled when it is first asked for.

    What decides is one logit: that of the model, or the difference of two outputs (`pair`).
    """

    def __init__(self, checkpoint: Checkpoint, pair: Pair | None = None) -> None:
        self.checkpoint = checkpoint
        self.config = checkpoint.config
        self.exact = ExactModel(checkpoint, pair or only_pair(checkpoint.config))
        self._made: dict[tuple[int, ...], Face] = {}

    def __getitem__(self, letters: tuple[int, ...]) -> Face:
        if letters not in self._made:
            self._made[letters] = self._make(letters)
        return self._made[letters]

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self.exact)

    @cached_property
    def _float64(self) -> dict[str, Array]:
        return {name: w.astype(np.float64) for name, w in self.checkpoint.weights.items()}

    @cached_property
    def _reads_nothing(self) -> bool:
        """Whether the logit is zero whatever the residual: no weight, no bias."""
        names = ("unembed.W_U", "unembed.b_U") if self.config.biases else ("unembed.W_U",)
        read = [self.checkpoint.weights[name] for name in names]
        if self.exact.pair is not None:
            lower, upper = self.exact.pair
            return all(bool((w[..., lower] == w[..., upper]).all()) for w in read)
        return not any(w.any() for w in read)

    def _make(self, letters: tuple[int, ...]) -> Face:
        config = self.config
        if self._reads_nothing:
            return ZeroFace(letters, config.attend_cls, config.log_n)
        if config.n_layers > 1 or config.final_norm or (config.has_norm and config.has_mlp):
            return LayeredFace(config, self._float64, letters, self.exact.pair)
        face = self._tables.face(letters)
        return ZeroFace(letters, config.attend_cls, config.log_n) if face.is_zero else face


@dataclass(frozen=True)
class ZeroFace:
    """Zero weights make the logit of every string zero, which counts as negative."""

    letters: tuple[int, ...]
    attends_cls: bool
    log_n: bool
    cost: int = 1

    def logits(self, counts: Array) -> tuple[Array, float]:
        """With an error below zero: these signs are known, close to zero though they are."""
        return np.zeros(len(counts)), -1.0

    def bounds(self, light: Array, heavy: Array, shortest: Array, longest: Array) -> Interval:
        return np.zeros(len(light)), np.zeros(len(light))
