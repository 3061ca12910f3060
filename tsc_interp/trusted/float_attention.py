"""Bounds the float32 error up to the end of attention, in a model of one layer.

The assumptions are rounding.py's: sums in any order, with or without fused multiply-adds. A norm
takes the mean out (LayerNorm), divides by √(mean square + ε) or multiplies by its reciprocal, good
to 2 u each, then scales and shifts.

What float32 has of the residual stream after attention is δ away from the real one
(`AttentionErrors`).
Along a direction q, δ is at most, head by head,

    δ/(1-δ) times half the range of q · v over all keys     weights p, each moved by a share δ of
                                                            itself: Σ p |v - mean| is at most that
    |W_O q| · (errors of values, of the sums over keys)     in the head's own coordinates
    |q| · (errors of W_O's sums and of the last addition)   in those of the residual stream

What follows attention is bounded for x + δ instead of x (layer_rounding.py), so that errors which a
later part does not hear do not count.

No ball is compared here but in balls.py; what may overflow is `UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from flint import arb, ctx

from tsc_interp.trusted import balls
from tsc_interp.trusted.balls import UNKNOWN, Ball
from tsc_interp.trusted.budget import Budget, Kept
from tsc_interp.trusted.float32 import (
    PRECISION,
    TINY,
    Known,
    Norm,
    U,
    add,
    gamma,
    linear,
    normed,
    score,
    within,
)
from tsc_interp.trusted.forward import Forward, Row, Spot
from tsc_interp.trusted.positions import alibi_slopes, rotary, turned_pairs
from tsc_interp.trusted.spans import Floats, Span
from tsc_interp.trusted.spec import CLS, FIRST_LETTER, PAD

_SLACK = 2.0**-40
"""More than float64 rounds in these sums, relatively."""


class Token(NamedTuple):
    """A vector of one token at one place: its real components, and what float32 has of them."""

    real: Row
    known: list[Known]


@dataclass(frozen=True)
class HeadErrors:
    """One head: `share` of half the range of values, and what each component is off by besides.

    values [key d_head], own [d_head], out [d_head d]
    """

    share: float
    values: Floats
    own: Floats
    out: Floats

    def along(self, q: Floats) -> Floats:
        """What float32 moves the head's part of the residual stream by along directions."""
        read, wide = q @ self.out.T, np.abs(q) @ np.abs(self.out.T)
        means = read @ self.values.T
        ends = (means.max(-1) - means.min(-1)) / 2
        # These sums are rounded in float64, and the values were.
        slack = _SLACK * (wide @ (self.own + self.share * np.abs(self.values).max(0)))
        return np.asarray(np.abs(read) @ self.own + self.share * ends + slack)


@dataclass(frozen=True)
class AttentionErrors:
    """Where float32 may have the residual stream after attention, for one reader and length.

    rounded [d]: what is rounded after W_O
    sizes [d]: at least what float32 has of each coordinate
    All are NaN where something may overflow.
    """

    heads: Sequence[HeadErrors]
    rounded: Floats
    sizes: Floats

    def along(self, q: Floats) -> Floats:
        """What the residual stream is off by at most along directions `[... d]`."""
        off = np.abs(q) @ self.rounded
        for head in self.heads:
            off = off + head.along(q)
        return np.asarray(off * (1 + _SLACK))


class AttentionRounding:
    """Bounds for one model; all strings of a length at once."""

    def __init__(self, forward: Forward, budget: Budget) -> None:
        self.forward, self.spend = forward, budget
        self.spec, self.weights = forward.spec, forward.weights
        self._tokens: dict[Spot, Token] = {}
        self._kept = Kept(budget.memory)

    def errors(self, length: int, reader: Spot, form: str = "tokens") -> AttentionErrors:
        """For inputs of so many letters, or fewer where there are no positions.

        Args:
            length: How many.
            reader: The token that reads.
            form: How inputs are given: `tokens`, or `compressed`.
        """

        def make() -> AttentionErrors:
            with ctx.workprec(PRECISION):
                return self._errors(length, reader, form)

        places = length if self.spec.has_positions else 1
        numbers = self.spec.n_heads * places * self.spec.n_letters * self.spec.d_head
        return self._kept.get((length, reader, form), numbers, make)

    def _errors(self, length: int, reader: Spot, form: str) -> AttentionErrors:
        state, heads = self._embedded(reader).known, []
        if self.spec.n_heads:
            inputs, out = [], []
            for head in range(self.spec.n_heads):
                share, values, mixed = self._head(head, length, reader, form)
                matrix = self.weights["blocks.0.attn.W_O"][head].astype(np.float64)
                own = most([known.error for known in mixed])
                heads.append(HeadErrors(float(most([share])[0]), values, own, matrix))
                # Whatever the weights, a mean lies among its values.
                inputs += [Known(size + error, arb(0)) for size, error in mixed]
                out += exact(matrix)
            state = add(state, linear(inputs, out, self.vector("blocks.0.attn.b_O")))
        rounded = most([known.error for known in state])
        return AttentionErrors(heads, rounded, most([known.size + known.error for known in state]))

    # -- tokens ----------------------------------------------------------------------------------

    def _embedded(self, spot: Spot) -> Token:
        real = self.forward.embedded([spot]).tolist()[0]
        added = int(self.spec.added_positions)
        return Token(real, [Known(abs(x), added * (U * abs(x) + TINY)) for x in real])

    def _read(self, spot: Spot) -> Token:
        """What attention reads of a token."""
        if spot not in self._tokens:
            token = self._embedded(spot)
            if self.spec.has_norm:
                centred = (self.forward.embedded([spot]) * self.forward.centring()).tolist()[0]
                norm = Norm(self.spec.centred_norm, *self.forward.norm_weights("blocks.0.ln1"))
                token = self._normed_token(norm, token, centred)
            self._tokens[spot] = token
        return self._tokens[spot]

    def _normed_token(self, norm: Norm, token: Token, centred: Row) -> Token:
        divisor, eps = self.forward.divisor(centred), self.spec.norm_eps
        parts = zip(centred, norm.scale, norm.shift, strict=True)
        real = [x / divisor * scale + shift for x, scale, shift in parts]
        return _of(real, normed(token.known, norm, centred, divisor.lower(), eps))

    def _projected(self, part: str, head: int, read: Token) -> Token:
        self.spend()
        matrix = exact(self.weights[f"blocks.0.attn.W_{part}"][head])
        bias = self.vector(f"blocks.0.attn.b_{part}", head)
        real = [balls.dot(read.real, column) for column in zip(*matrix, strict=True)]
        real = real if bias is None else [x + b for x, b in zip(real, bias, strict=True)]
        return _of(real, linear(read.known, matrix, bias))

    def _met(self, part: str, head: int, spot: Spot) -> Token:
        """A query or key as it meets the other."""
        spec, token = self.spec, self._read(spot)
        if spec.positions == "shortformer":
            places = self.forward.places([spot]).tolist()[0]
            real = [x + p for x, p in zip(token.real, places, strict=True)]
            token = _of(real, add(token.known, [Known(abs(p), arb(0)) for p in places]))
        token = self._projected(part, head, token)
        if spec.qk_norm != "off":
            norm = Norm(False, self.forward.head_norm(0, part), [arb(0)] * spec.d_head)
            token = self._normed_token(norm, token, token.real)
        return self._turned(token, spot[1]) if spec.positions == "rotary" else token

    def _turned(self, token: Token, place: int) -> Token:
        spec, real, known = self.spec, list(token.real), list(token.known)
        table = rotary(spec.n_positions, spec.turned, spec.rotary_base)
        pairs = zip(*turned_pairs(spec.turned, spec.rotary_adjacent_pairs), strict=True)
        for index, (i, j) in enumerate(pairs):
            cos, sin = (arb(float(number)) for number in table[place, :, index])
            a, b = token.real[i], token.real[j]
            real[i], real[j] = cos * a - sin * b, cos * b + sin * a
            pair = [token.known[i], token.known[j]]
            known[i] = linear(pair, [[cos], [sin]], None)[0]
            known[j] = linear(pair, [[sin], [cos]], None)[0]
        return _of(real, known)

    # -- attention -------------------------------------------------------------------------------

    def _spots(self, length: int, reader: Spot) -> tuple[list[Spot], list[Spot]]:
        """Keys that may be attended to, and masked ones, of which only overflow matters."""
        spec, vocab = self.spec, self.spec.vocab
        first = int(spec.reads == "first")
        places = range(first, length + first) if spec.has_positions else range(1)
        later = range(spec.n_positions) if spec.has_positions else range(1)
        letters = [(token, place) for place in places for token in range(FIRST_LETTER, vocab)]
        own = [reader] if spec.attend_cls and reader[0] == CLS else []
        masked = [(PAD, place) for place in later] + ([] if own or reader[0] != CLS else [reader])
        return letters + own, masked

    def _head(
        self, head: int, length: int, reader: Spot, form: str
    ) -> tuple[Ball, Floats, list[Known]]:
        """How far the mean moves as a share of half the range of values; the values; the mean."""
        attended, masked = self._spots(length, reader)
        query, keys = self._met("Q", head, reader), [*attended, *masked]
        scores = [self._score(head, query, reader, key, length) for key in keys]
        values = [self._projected("V", head, self._read(key)) for key in keys]
        finite = all(e.is_finite() for row in [scores, *(v.known for v in values)] for _, e in row)
        attended_scores, attended_values = scores[: len(attended)], values[: len(attended)]
        apart = 2 * balls.largest([s + e for s, e in attended_scores])
        moved = balls.largest([error for _, error in attended_scores])
        terms = length + 1
        if form == "compressed":
            # 2 u below; 4 u of a count's log, and what adding it and the largest round.
            copies, terms = arb(length).log(), 1 + self.spec.n_letters
            moved, apart = moved + U * (apart + 5 * copies), apart + copies
        # A score that is moved, the difference to the largest, and exp.
        share = (moved + U * apart + 9 * U).exp() - 1
        if not (finite and balls.is_less(share, arb(1) / 4)):
            share = UNKNOWN
        columns = zip(*(token.known for token in attended_values), strict=True)
        middles = np.array([[float(x.mid()) for x in token.real] for token in attended_values])
        return share / (1 - share), middles, [_mixed(column, terms) for column in columns]

    def _score(self, head: int, query: Token, reader: Spot, spot: Spot, length: int) -> Known:
        spec, key = self.spec, self._met("K", head, spot)
        product = abs(balls.dot(query.real, key.real))
        size, error = score(spec, query.known, key.known, product, length)
        if spec.positions == "alibi":
            penalty = arb(float(alibi_slopes(spec.n_heads)[head])) * max(reader[1] - spot[1], 0)
            size, error = size + penalty, error + 2 * U * (size + error + 2 * penalty) + TINY
        return within(size + error, Known(size, error))

    def vector(self, name: str, head: int | None = None) -> Row | None:
        """A bias, None in a model without."""
        if not self.spec.biases:
            return None
        row: Row = self.forward.matrix(name, head).tolist()[0]
        return row


def _of(real: Row, known: Sequence[Known]) -> Token:
    """With the real sizes, which are known here."""
    return Token(real, [Known(abs(x), entry.error) for x, entry in zip(real, known, strict=True)])


def _mixed(values: Sequence[Known], keys: int) -> Known:
    """A mean of these with weights that are as float32 has them, summed in float32."""
    size = balls.largest([known.size for known in values])
    error = balls.largest([known.error for known in values])
    # The sum of weights, the division, and the sum of products.
    units = gamma(keys) + gamma(keys + 1) + 4 * U
    return Known(size, error + (size + error) * units * (1 + units) + keys * TINY * (1 + size))


def most(row: Row) -> Floats:
    """At least these numbers; NaN for what is not known."""
    bounds: Floats = Span.of([row]).high[0]
    return bounds


def exact(matrix: Any) -> list[Row]:
    """An array of weights as exact numbers."""
    return [[arb(x) for x in row] for row in matrix.astype(float).tolist()]
