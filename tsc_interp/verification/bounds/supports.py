"""A classifier on one *support*: all strings over exactly the same set of letters.

The model answers with the index of its largest output, of equal ones the lowest. A model of one
output has two, the first of them zero: its logit is the difference of the two. A string of class c
is right when output c is above every output before it and not below any after it, so what decides
is the *margin* of c: the smallest of the differences `output c - output j`, ties decided (`TIE`).
Above zero the string is right, else wrong; what is too close to zero is decided in `arb`.

Differences and margins are supports alike, and answer two questions with sound error bounds:

    logits(counts)             -> value and error bound of each count vector
    bounds(light, heavy, n)    -> enclosure of the value over each box

A box gives every attended token (CLS first, where it is attended to) a range of weights, which may
be counts or counts divided by a common number: attention only sees ratios. `n` is the range of
lengths, which matters only to scores scaled by log n.

The difference of two outputs is a `TableSupport` (tables.py) for one layer whose MLP reads the
residual without a norm, and a `LayeredSupport` (layered.py), slower and looser, for anything else.
Outputs that are read by the same weights differ by a `ZeroSupport`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.verification.bounds.exact import LOGIT, ExactModel, Pair, require_two_classes
from tsc_interp.verification.bounds.intervals import Array, Interval
from tsc_interp.verification.bounds.layered import LayeredSupport
from tsc_interp.verification.bounds.tables import Tables

TIE = 2.0**-1022
"""What wins a tie, far less than any rounding error: the margin over an output of a higher index is
`TIE - difference`, which is above zero where the two are equal."""


class Support(Protocol):
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


def count_box_bounds(support: Support, low: Array, high: Array) -> Interval:
    """The logit's range over boxes of counts `[box letter]`, both ends included."""
    shortest, longest = low.sum(-1), high.sum(-1)
    if support.attends_cls:
        low, high = _with_cls(low), _with_cls(high)
    return support.bounds(low, high, shortest, longest)


def _with_cls(counts: Array) -> Array:
    return np.concatenate([np.ones((*counts.shape[:-1], 1)), counts], axis=-1)


class Supports:
    """All supports of one classifier, each compiled when it is first asked for.

    Args:
        checkpoint: The classifier.
        ties_are_won: Whether the lower of two outputs of the same weights is always the answer: so
            over the reals, but float32 may round them apart.
    """

    def __init__(self, checkpoint: Checkpoint, *, ties_are_won: bool = True) -> None:
        self.checkpoint, self._ties_are_won = checkpoint, ties_are_won
        written_out = checkpoint.expanded()
        self.config, self._weights = written_out.config, written_out.weights
        self.exact = ExactModel(written_out)
        self._tables: dict[Pair, Tables] = {}
        self._differences: dict[tuple[tuple[int, ...], Pair], Support] = {}
        self._margins: dict[tuple[tuple[int, ...], int], Support] = {}

    @property
    def multiclass(self) -> bool:
        """Whether there are more than two classes: two are the sign of one logit."""
        return self.config.n_outputs > 2

    def __getitem__(self, letters: tuple[int, ...]) -> Support:
        """The logit of a model of two classes."""
        require_two_classes(self.config)
        return self.difference(letters, LOGIT)

    def cost(self, letters: tuple[int, ...]) -> int:
        """About how many microseconds a box of these letters takes."""
        return self.margin(letters, 0).cost

    def margin(self, letters: tuple[int, ...], label: int) -> Support:
        """How far the output of this class is above all others; at zero or below it may lose."""
        if (letters, label) not in self._margins:
            self._margins[letters, label] = self._margin(letters, label)
        return self._margins[letters, label]

    def _margin(self, letters: tuple[int, ...], label: int) -> Support:
        parts: list[tuple[Support, float]] = []
        for other in range(self.exact.n_classes):
            if other == label:
                continue
            support = self.difference(letters, (min(other, label), max(other, label)))
            if not isinstance(support, ZeroSupport):
                parts.append((support, 1.0 if other < label else -1.0))
            elif other < label or not self._ties_are_won:
                return support  # never the answer, or never for certain
        if not parts:
            return self._zero(letters, TIE)  # this class wins every tie: always the answer
        return parts[0][0] if parts[0][1] > 0 and not parts[1:] else MarginSupport(letters, parts)

    def difference(self, letters: tuple[int, ...], pair: Pair) -> Support:
        """The upper of two outputs minus the lower."""
        if (letters, pair) not in self._differences:
            self._differences[letters, pair] = self._difference(letters, pair)
        return self._differences[letters, pair]

    def _difference(self, letters: tuple[int, ...], pair: Pair) -> Support:
        config = self.config
        if self._same(*pair):
            return self._zero(letters)
        if config.n_layers > 1 or config.final_norm or (config.has_norm and config.has_mlp):
            return LayeredSupport(config, self._float64, letters, pair)
        if pair not in self._tables:
            self._tables[pair] = Tables(self.exact, pair)
        support = self._tables[pair].support(letters)
        return self._zero(letters) if support.is_zero else support

    def _same(self, lower: int, upper: int) -> bool:
        """Whether two outputs are read by the same weights."""
        names = ("unembed.W_U", "unembed.b_U") if self.config.biases else ("unembed.W_U",)
        return all(row[lower] == row[upper] for n in names for row in self.exact.outputs(n))

    def _zero(self, letters: tuple[int, ...], value: float = 0.0) -> ZeroSupport:
        return ZeroSupport(letters, self.config.attend_cls, self.config.log_n, value)

    @cached_property
    def _float64(self) -> dict[str, Array]:
        return {name: w.astype(np.float64) for name, w in self._weights.items()}


class CombinedSupport:
    """A `Support` whose value is made of those of others; a subclass says how, in `combined`."""

    def __init__(self, letters: tuple[int, ...], parts: Sequence[Support]) -> None:
        self.letters, self.parts = letters, parts
        self.attends_cls = parts[0].attends_cls
        self.log_n = any(support.log_n for support in parts)
        self.cost = sum(support.cost for support in parts)

    def combined(self, ends: Sequence[Interval]) -> Interval:
        """The value's range, given that of each part."""
        raise NotImplementedError

    def logits(self, counts: Array) -> tuple[Array, Array | float]:
        """The value, and an error that holds whichever part it is of."""
        values, errors = zip(*(support.logits(counts) for support in self.parts), strict=True)
        value, _ = self.combined([(own, own) for own in values])
        return value, np.maximum.reduce(np.broadcast_arrays(*errors))

    def bounds(self, light: Array, heavy: Array, shortest: Array, longest: Array) -> Interval:
        return self.combined([part.bounds(light, heavy, shortest, longest) for part in self.parts])


class MarginSupport(CombinedSupport):
    """The smallest of some differences, each with its sign."""

    def __init__(self, letters: tuple[int, ...], parts: Sequence[tuple[Support, float]]) -> None:
        super().__init__(letters, [support for support, _ in parts])
        self._signs = [sign for _, sign in parts]

    def combined(self, ends: Sequence[Interval]) -> Interval:
        signed = [
            (low, high) if sign > 0 else (TIE - high, TIE - low)
            for (low, high), sign in zip(ends, self._signs, strict=True)
        ]
        lows, highs = zip(*signed, strict=True)
        return np.minimum.reduce(lows), np.minimum.reduce(highs)


@dataclass(frozen=True)
class ZeroSupport:
    """Two outputs that are the same on every string, so that the lower index wins every tie.

    `value` is zero, or `TIE` for the margin of a class that wins every one.
    """

    letters: tuple[int, ...]
    attends_cls: bool
    log_n: bool
    value: float = 0.0
    cost: int = 1

    def logits(self, counts: Array) -> tuple[Array, float]:
        """With an error below zero: these signs are known, close to zero though they are."""
        return np.full(len(counts), self.value), -1.0

    def bounds(self, light: Array, heavy: Array, shortest: Array, longest: Array) -> Interval:
        return np.full(len(light), self.value), np.full(len(light), self.value)
