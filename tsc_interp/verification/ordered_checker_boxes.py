"""Attention over boxes of strings in their order, in `arb` balls: part of the ordered checker.

A box gives each place a set of letters, and a head's mean over a box is a ratio of sums in which
each place picks its letter alone: λ is above every such mean if Σ_p max w (v - λ) is not positive,
which is what `_largest_mean` shows of the λ it returns. With one head and nothing but attention the
sign of a difference of outputs is that of one such sum, and λ is not even needed.

No ball is compared here: every judgement is the kernel's, so what is not known cannot prove.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flint import arb, ctx

from tsc_interp.verification import kernel
from tsc_interp.verification.kernel import Ball

_ROUNDS = 40

Sets = Sequence[Sequence[int]]
Row = list[Ball]


@dataclass(frozen=True)
class Keys:
    """Strings of one length: scores `[head reader place letter]`, and values by channel."""

    scores: list[list[list[Row]]]
    own_scores: list[Row]
    values: list[list[list[Row]]]
    own_values: list[list[Row]]
    constant: list[Row]


class Box:
    """The keys of one box: per head and place, weights and values of the letters it allows."""

    def __init__(self, keys: Keys, reader: int, free: Sets, attends: bool, kept: Any) -> None:
        self.keys, self.reader, self.free, self.attends = keys, reader, free, attends
        self.kept = kept
        self._weights: dict[int, tuple[list[Row], Ball | None]] = {}

    def range(self, channel: int, minus: int | None) -> Ball:
        """The range of a channel, or of one channel minus another."""
        keys = self.keys

        def value(row: Row) -> Ball:
            return row[channel] if minus is None else row[channel] - row[minus]

        total = value(keys.constant[self.reader])
        for head, held in enumerate(keys.values):
            weights, own = self._relative(head)
            terms = [
                [
                    (weight, value(held[place][letter]))
                    for weight, letter in zip(row, one, strict=True)
                ]
                for place, (row, one) in enumerate(zip(weights, self.free, strict=True))
            ]
            if own is not None:
                terms.append([(own, value(keys.own_values[head][self.reader]))])
            total = total + _mean(terms)
        return total

    def signs(
        self, label: int, others: Sequence[int], shift: Row, largest: bool
    ) -> dict[int, Ball]:
        """With one head alone: the smallest (or largest) Σ w (v + c) over all keys.

        For each other class, of the label's output minus its own: the difference times the sum of
        weights, which is positive, so the sign is what counts.
        """
        parts = [
            self._ends(place, one, label, others, shift, largest)
            for place, one in enumerate(self.free)
        ]
        if self.attends:
            parts.append(self._ends(None, (0,), label, others, shift, largest))
        return {j: sum((part[i] for part in parts), arb(0)) for i, j in enumerate(others)}

    def _ends(
        self,
        place: int | None,
        letters: Sequence[int],
        label: int,
        others: Sequence[int],
        shift: Row,
        largest: bool,
    ) -> Row:
        """One place's smallest (largest) term for each class; kept, for boxes share places."""
        key = (id(self.keys), self.reader, place, tuple(letters), label, tuple(others), largest)
        if key not in self.kept:
            rows = [self._terms(place, letter, shift) for letter in letters]
            end = _most if largest else _least
            self.kept[key] = [end([row[label] - row[j] for row in rows]) for j in others]
        return self.kept[key]  # type: ignore[no-any-return]

    def _terms(self, place: int | None, letter: int, shift: Row) -> Row:
        """w (v + c) for every output of one letter at one place (None: the one that reads)."""
        key = (id(self.keys), self.reader, place, letter)
        if key not in self.kept:
            keys, reader = self.keys, self.reader
            if place is None:
                score, held = keys.own_scores[0][reader], keys.own_values[0][reader]
            else:
                score, held = keys.scores[0][reader][place][letter], keys.values[0][place][letter]
            weight = (score - self._reference(0)).exp()
            outputs = zip(held, keys.constant[reader], shift, strict=False)
            self.kept[key] = [weight * (v + c + b) for v, c, b in outputs]
        return self.kept[key]  # type: ignore[no-any-return]

    def _reference(self, head: int) -> Ball:
        """A number near a reader's largest score: the same for all boxes, and any would do."""
        key = ("reference", id(self.keys), head, self.reader)
        if key not in self.kept:
            rows = self.keys.scores[head][self.reader]
            self.kept[key] = _most([score for row in rows for score in row]).mid()
        return self.kept[key]

    def _relative(self, head: int) -> tuple[list[Row], Ball | None]:
        """Weights of a head relative to the box's own largest score."""
        if head not in self._weights:
            scores = self.keys.scores[head][self.reader]
            rows = [[scores[p][letter] for letter in one] for p, one in enumerate(self.free)]
            own = self.keys.own_scores[head][self.reader] if self.attends else None
            every = [score for row in rows for score in row] + ([] if own is None else [own])
            reference = _most(every).mid()
            self._weights[head] = (
                [[(score - reference).exp() for score in row] for row in rows],
                None if own is None else (own - reference).exp(),
            )
        return self._weights[head]


def _mean(terms: Sequence[Sequence[tuple[Ball, Ball]]]) -> Ball:
    """Where Σ w v / Σ w can lie when each place picks one (w, v)."""
    high = _largest_mean(terms)
    low = _largest_mean([[(w, -v) for w, v in place] for place in terms])
    return kernel.hull([high, -low])


def _largest_mean(terms: Sequence[Sequence[tuple[Ball, Ball]]]) -> Ball:
    """A number that no mean exceeds: λ, once Σ_p max w (v - λ) ≤ 0 is shown, or the largest value.

    If Σ w (v - λ) ≤ 0 for every pick then Σ w v ≤ λ Σ w, and Σ w > 0. How λ is found is of no
    consequence: by the mean of the pick that is worst so far, a little more each time.
    """
    largest = _most([v for place in terms for _, v in place])
    level = -_most([-v for place in terms for _, v in place])
    for _ in range(_ROUNDS):
        picked = [_worst(place, level) for place in terms]
        excess = sum((bound for bound, _, _ in picked), arb(0))
        if kernel.is_not_positive(excess):
            return level
        total = sum((w for _, w, _ in picked), arb(0))
        weighted = sum((w * v for _, w, v in picked), arb(0))
        found = weighted / total
        if not found.is_finite():
            return largest
        step = (abs(level) + abs(largest)) * arb(2) ** (16 - ctx.prec)
        level = (_most([found, level]) + step).upper()
    return largest


def _worst(place: Sequence[tuple[Ball, Ball]], level: Ball) -> tuple[Ball, Ball, Ball]:
    """The largest w (v - λ) of one place as an exact number, and the (w, v) it comes from."""
    bound, weight, value = kernel.UNKNOWN, kernel.UNKNOWN, kernel.UNKNOWN
    for i, (w, v) in enumerate(place):
        term = w * (v - level)
        if not term.is_finite():
            return kernel.UNKNOWN, w, v
        end = term.upper()
        if i == 0 or kernel.is_less(bound, end):
            bound, weight, value = end, w, v
    return bound, weight, value


def _least(balls: Sequence[Ball]) -> Ball:
    """The smallest lower end, likewise."""
    best = kernel.UNKNOWN
    for i, ball in enumerate(balls):
        if not ball.is_finite():
            return kernel.UNKNOWN
        end = ball.lower()
        if i == 0 or kernel.is_less(end, best):
            best = end
    return best


def _most(balls: Sequence[Ball]) -> Ball:
    """The largest upper end, as an exact number; unknown if one ball is not finite."""
    best = kernel.UNKNOWN
    for i, ball in enumerate(balls):
        if not ball.is_finite():
            return kernel.UNKNOWN
        end = ball.upper()
        if i == 0 or kernel.is_less(best, end):
            best = end
    return best
