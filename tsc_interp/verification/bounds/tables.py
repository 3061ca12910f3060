"""One layer whose MLP reads the residual without a norm, as tables of numbers per token.

Then each head adds Σ n_t e_t v_t / Σ n_t e_t with constant tables e and v, and the logit is an
affine read-out plus activations of affine read-outs. `Tables` computes them in `arb`, once for all
letters; a `TableSupport` holds those of one support in float64 and bounds everything that rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from flint import arb_mat, ctx
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError
from tsc_interp.verification.bounds.activations import ACTIVATIONS
from tsc_interp.verification.bounds.exact import ExactModel, Pair
from tsc_interp.verification.bounds.intervals import (
    MEAN_TINY,
    UNIT,
    Array,
    Interval,
    in_slices,
    largest_sorted_mean,
    sure,
)

_PRECISIONS = (128, 512, 2048)
_SCORE_RADIUS = 2.0**-100
_SLOPE = 1.2
"""More than any activation's."""
_UNDERFLOW = 746
"""exp of less than minus this is zero in float64."""


class Tables:
    """Scores of every token and what it adds to one difference of outputs, rounded once.

    The precision is raised until the balls' radii are negligible. Values that cancel to zero may
    keep one even then, and it goes into the error bound.
    """

    def __init__(self, exact: ExactModel, pair: Pair) -> None:
        self.exact, (self._lower, self._upper) = exact, pair
        for self.precision in _PRECISIONS:
            with ctx.workprec(self.precision):
                precise = self._compute()
            if precise:
                return
        if not self._scores_settled():
            raise UnsupportedError(
                f"{_PRECISIONS[-1]} bits do not settle the attention scores of this model: its "
                f"weights are too large; exact verification needs smaller ones"
            )

    def _compute(self) -> bool:
        """All tables at the working precision; whether the radii can be neglected."""
        exact, config = self.exact, self.exact.config
        x = exact.embed(range(config.n_letters))
        read = exact.norm("blocks.0.ln1", x) if config.has_attention else x
        readout = self._readout()
        heads = range(config.n_heads)
        self.scores = [exact.scores(0, head, read).tolist()[0] for head in heads]
        self.values = [_rounded(exact.values(0, head, read) * readout) for head in heads]
        self.constant = _rounded(self._constant(x, readout))
        self.outer_weights = Rounded(np.zeros((0, 1)), np.zeros((0, 1)))
        if config.has_mlp:
            out = exact.matrix("blocks.0.mlp.W_out") * self._unembed("W_U")
            self.outer_weights = _rounded(out)
        tables = (*self.values, self.constant, self.outer_weights)
        return self._scores_settled() and all(
            bool((table.radii <= np.abs(table.values) * 2.0**-60).all()) for table in tables
        )

    def _constant(self, x: Any, readout: Any) -> Any:
        """What no attention changes: the tokens' own embeddings, and biases."""
        exact, config = self.exact, self.exact.config
        if config.has_attention:
            x = exact.biased(x, "blocks.0.attn.b_O")
        read = x * readout
        if not config.biases:
            return read
        offset = self._unembed("b_U")
        if config.has_mlp:
            written = exact.matrix("blocks.0.mlp.b_out") * self._unembed("W_U") + offset
            inner = exact.matrix("blocks.0.mlp.b_in")
            offset = arb_mat([[*written.tolist()[0], *inner.tolist()[0]]])
        return read + arb_mat(offset.tolist() * read.nrows())

    def _scores_settled(self) -> bool:
        return all(score.rad() < _SCORE_RADIUS for row in self.scores for score in row)

    def _unembed(self, part: str) -> Any:
        """What reads out the difference of the two outputs."""
        return self.exact.unembed(f"unembed.{part}", [self._upper], [self._lower])

    def _readout(self) -> Any:
        """Columns: the logit itself, then each activation's argument."""
        columns = self._unembed("W_U").tolist()
        if self.exact.config.has_mlp:
            inner = self.exact.matrix("blocks.0.mlp.W_in").tolist()
            columns = [[*out, *into] for out, into in zip(columns, inner, strict=True)]
        return arb_mat(columns)

    def support(self, letters: tuple[int, ...]) -> TableSupport:
        config = self.exact.config
        tokens = ([0] if config.attend_cls else []) + [1 + letter for letter in letters]
        gaps = np.zeros((config.n_heads, len(tokens)))
        weights = np.ones_like(gaps)
        with ctx.workprec(self.precision):
            for head, scores in enumerate(self.scores):
                # Relative to the support's largest score, so that nothing that matters underflows.
                largest = max((scores[token] for token in tokens), key=lambda score: score.mid())
                for column, token in enumerate(tokens):
                    gap = scores[token] - largest
                    gaps[head, column], weights[head, column] = float(gap), float(gap.exp())
        shape = (config.n_heads, len(tokens), self.constant.values.shape[1])
        values = np.reshape([table.values[tokens] for table in self.values], shape)
        radii = np.reshape([table.radii[tokens] for table in self.values], shape)
        return TableSupport(
            letters=letters,
            attends_cls=config.attend_cls,
            log_n=config.log_n,
            cls_counted=config.cls_counted,
            gaps=gaps,
            weights=weights,
            values=values,
            constant=self.constant.values[0],
            outer_weights=self.outer_weights.values[:, 0],
            act_fn=config.act_fn,
            channel_radii=self.constant.radii[0] + radii.max(1, initial=0.0).sum(0),
            outer_radii=self.outer_weights.radii[:, 0],
        )


@dataclass(frozen=True)
class TableSupport:
    """One layer on one support: weights `[head token]`, values `[head token channel]`."""

    letters: tuple[int, ...]
    attends_cls: bool
    log_n: bool
    gaps: Array
    weights: Array
    values: Array
    constant: Array
    outer_weights: Array
    act_fn: str
    channel_radii: Array
    outer_radii: Array
    """What rounding the tables once does not explain: the radii of the balls they come from."""
    cls_counted: int = 0
    """What n is larger by than the number of letters, where scores grow with log n."""

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """`[head channel token]`: tokens by their values."""
        return np.argsort(self.values.transpose(0, 2, 1), axis=-1)

    @cached_property
    def _sorted(self) -> Array:
        return np.take_along_axis(self.values.transpose(0, 2, 1), self._order, -1)

    @cached_property
    def _folded(self) -> Array:
        with np.errstate(all="ignore"):
            folded = np.einsum("ht,htk->hkt", self.weights, self.values)
        heads, tokens, channels = self.values.shape
        return np.asarray(folded.reshape(heads, channels * tokens))

    @cached_property
    def error(self) -> float:
        """How far any float64 logit here can be from the real one.

        A head's output is a ratio of sums of the same non-negative weights, so relative errors r of
        weights, products, sums and the quotient move channel k by at most r (|constant_k| +
        Σ_h max_t |v_htk|) = r Y_k, whatever the counts. An activation's slope is below 1.2 and its
        own evaluation is good to 64 units of |x| ≤ Y_k. With log n, a weight exp(gap log n) is off
        by up to 10 units times |gap log n|, at most 746 unless the weight vanishes anyway. To that
        come the tables' own radii, and what underflow can do.
        """
        heads, tokens, channels = self.values.shape
        sizes, outer = self._sizes, np.abs(self.outer_weights)
        spread = sizes[0] + 2 * _SLOPE * float(outer @ sizes[1:])
        units = 32 + 8 * tokens + 4 * heads + 4 * channels + (16 * _UNDERFLOW if self.log_n else 0)
        radii = self.channel_radii[0] + _SLOPE * float(outer @ self.channel_radii[1:])
        radii += float(self.outer_radii @ sizes[1:])
        tiny = MEAN_TINY * (1 + _SLOPE * float(outer.sum()))
        error = float(2 * (units * UNIT * spread + radii + tiny))
        # Beyond, sums might overflow: then nothing is decided here.
        return error if error < 2.0**900 else np.inf

    @property
    def _sizes(self) -> Array:
        """At least the size of each channel."""
        return np.asarray(np.abs(self.constant) + np.abs(self.values).max(1, initial=0.0).sum(0))

    @property
    def is_zero(self) -> bool:
        """Whether everything the logit is made of is zero, exactly."""
        inner = (self._sizes > 0) | (self.channel_radii > 0)
        outer = (self.outer_weights != 0) | (self.outer_radii > 0)
        return not (inner[0] or (outer & inner[1:]).any())

    @property
    def cost(self) -> int:
        heads, tokens, channels = self.values.shape
        return int(20 + heads * tokens * tokens * channels // 50)

    def logits(self, counts: Array) -> tuple[Array, float]:
        """Counts `[vector letter]` to logits, with one error bound for all of them."""
        _, tokens, channels = self.values.shape
        (logits,) = in_slices(self._logits, tokens * channels, counts)
        return logits, self.error

    def _logits(self, counts: Array) -> tuple[Array]:
        columns = np.ascontiguousarray(counts.T, dtype=np.float64)
        if self.attends_cls:
            columns = np.concatenate([np.ones((1, columns.shape[1])), columns])
        _, tokens, channels = self.values.shape
        if self.log_n:
            log_n = np.log(columns[int(self.attends_cls) :].sum(0) + self.cls_counted)
            weighted = np.exp(self.gaps[:, :, None] * log_n) * columns
            weighted /= weighted.sum(1, keepdims=True)
            read = np.einsum("htn,htk->kn", weighted, self.values)
        else:
            share = np.reciprocal(self.weights @ columns)
            mixed = self._folded.T @ share
            read = np.einsum("ktn,tn->kn", mixed.reshape(channels, tokens, -1), columns)
        read += self.constant[:, None]
        logits = read[0]
        if len(self.outer_weights):
            logits = logits + self.outer_weights @ ACTIVATIONS[self.act_fn].value(read[1:])
        return (logits,)

    def bounds(self, light: Array, heavy: Array, shortest: Array, longest: Array) -> Interval:
        """Each head's channels lie between their extremes over the box, neurons over those."""
        low, high = in_slices(self._bounds, self.values.size + 1, light, heavy, shortest, longest)
        return sure(low, high)

    def _bounds(self, light: Array, heavy: Array, shortest: Array, longest: Array) -> Interval:
        if self.log_n:
            # Gaps are ≤ 0, so a weight n^gap is largest for the shortest length.
            least, most = (np.log(n + self.cls_counted) for n in (shortest, longest))
            light = light[:, None] * np.exp(self.gaps * most[:, None, None])
            heavy = heavy[:, None] * np.exp(self.gaps * least[:, None, None])
        else:
            light, heavy = light[:, None] * self.weights, heavy[:, None] * self.weights
        return self.bounds_of_weights(light, heavy)

    def bounds_of_weights(self, light: Array, heavy: Array) -> Interval:
        """The same, with each head's own range of token weights `[box head token]`."""
        order, values = self._order, self._sorted
        head = np.arange(len(order))[:, None, None]
        light, heavy = light[:, head, order], heavy[:, head, order]
        high = largest_sorted_mean(light, heavy, values).sum(1) + self.constant
        flipped = light[..., ::-1], heavy[..., ::-1], -values[..., ::-1]
        low = self.constant - largest_sorted_mean(*flipped).sum(1)
        total_low, total_high = low[:, 0], high[:, 0]
        if len(self.outer_weights):
            inner_low, inner_high = ACTIVATIONS[self.act_fn].bounds(low[:, 1:], high[:, 1:])
            up, down = np.maximum(self.outer_weights, 0), np.minimum(self.outer_weights, 0)
            total_low = total_low + inner_low @ up + inner_high @ down
            total_high = total_high + inner_high @ up + inner_low @ down
        error = 2 * self.error
        return total_low - error, total_high + error


class Rounded(NamedTuple):
    """A matrix of balls as float64 midpoints and radii."""

    values: Array
    radii: Array


def _rounded(matrix: Any) -> Rounded:
    rows = matrix.tolist()
    values = np.array([[float(ball) for ball in row] for row in rows])
    radii = np.array([[_radius(ball) for ball in row] for row in rows])
    return Rounded(values, radii)


def _radius(ball: Any) -> float:
    """Rounded up, and zero only for a number that is exact, or a zero that is zero."""
    if ball.is_zero() or (ball.is_exact() and float(ball)):
        return 0.0
    return float(ball.rad()) * (1 + 1e-9) + 1e-300
