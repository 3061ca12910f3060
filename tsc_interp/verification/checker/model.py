"""Runs the real-number classifier over boxes of counts, in `arb` balls.

Only the attention weights need care. Over a box of weights, Σ w v / Σ w takes its extremes where
each weight is at one of its ends (`kernel.mean`); a ball around the extremes goes on. The rest is
ball arithmetic. Where the last block's MLP reads the residual directly, values are projected onto
what is read out before the extremes are taken, which keeps the bound tight.

Two classes are told apart by one logit: the model's own, or its second output minus the first. A
class has a *margin*: of two classes the logit or minus the logit, of more the smallest of its
output's differences to the others, each read out as one logit is. A `BoxModel` bounds one such
number.

No ball is compared here: every judgement is the kernel's, so what is not known cannot prove.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flint import arb, ctx

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.budget import MEMORY, Kept
from tsc_interp.verification.checker.kernel import Ball, Range
from tsc_interp.verification.checker.rounding import FloatBound

PRECISION = 128
_PRECISIONS = (PRECISION, 1024, 8192)


@dataclass(frozen=True)
class Multiplicities:
    """How often CLS and each of a support's letters may occur: exact ends, in that order."""

    ranges: Sequence[tuple[float, float]]
    log_n: Ball | None = None
    """A ball around log n where scores are scaled by it."""
    tail: bool = False
    """Every string of at least n letters, however often each letter occurs (log n only)."""

    @property
    def keys(self) -> list[int]:
        """What can be attended to: CLS has multiplicity 0 when it is not."""
        return [i for i, (_, most) in enumerate(self.ranges) if most]


class BoxModel:
    """Enclosures of the logit of one classifier without positions, or of a class's margin."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        pay: Callable[[], None] = lambda: None,
        memory: int = MEMORY,
    ) -> None:
        checkpoint = checkpoint.expanded()
        self.config, self.pay = checkpoint.config, pay
        self.weights = {name: _balls(array.tolist()) for name, array in checkpoint.weights.items()}
        self.cls = int(self.config.attend_cls)
        self._kept = Kept(memory)
        self.label: int | None = None
        """The class whose margin is bounded, of more than two; None where it is the logit."""
        self.negated = False
        """Whether minus the logit is bounded: the margin of class 0 of two, which wins ties."""
        self.leaves_out_equals = False
        """Whether outputs that equal this class's over the reals were left out of its margin."""
        self.columns: list[list[Ball]] = self.weights["unembed.W_U"]
        self.offset: list[Ball] | None = self.weights.get("unembed.b_U")
        self._outputs = [w for name, w in checkpoint.weights.items() if name.startswith("unembed.")]
        if self.config.n_outputs != 1:
            self._read_differences([(1, 0)])

    @cached_property
    def rounding(self) -> FloatBound:
        """How far float32 can be from what is bounded here."""
        return FloatBound(self.config, self.weights)

    def of_class(self, label: int) -> BoxModel:
        """The same model, of which the margin of one class is asked."""
        balls = (self.config.d_model + 1) * self.config.n_outputs
        return self._kept.get(("class", label), balls, lambda: self._of_class(label))

    def _of_class(self, label: int) -> BoxModel:
        model = copy(self)
        if self.config.n_outputs in (1, 2):
            model.negated = label == 0
            return model
        model.label = label
        # A later output of the same weights loses every tie over the reals.
        later = range(label + 1, self.config.n_outputs)
        others = [*range(label), *(j for j in later if not self._same(j, label))]
        model.leaves_out_equals = len(others) != self.config.n_outputs - 1
        model._read_differences([(label, j) for j in others])
        return model

    def _same(self, output: int, other: int) -> bool:
        """Whether two outputs are read by the same weights."""
        return all(bool((w[..., output] == w[..., other]).all()) for w in self._outputs)

    def _read_differences(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Read outputs minus others: 512 bits hold the difference of any two float32 numbers."""
        with ctx.workprec(512):
            self.columns = [
                [row[a] - row[b] for a, b in pairs] for row in self.weights["unembed.W_U"]
            ]
            if self.config.biases:
                bias = self.weights["unembed.b_U"]
                self.offset = [bias[a] - bias[b] for a, b in pairs]

    # -- what the checker asks -----------------------------------------------------------------

    def answers(self, margin: Ball) -> bool:
        """Whether a margin of this class proves it the answer."""
        return kernel.is_not_positive(-margin) if self.negated else kernel.is_positive(margin)

    def is_answer(self, support: tuple[int, ...], counts: Sequence[int]) -> bool:
        """Whether this class is proved to be the answer to one count vector."""
        for precision in _PRECISIONS:
            with ctx.workprec(precision):
                margin = self._counts(support, counts, counts)
                if self.answers(margin):
                    return True
                if kernel.is_positive(-margin):
                    return False
        return False

    def count_box(self, support: tuple[int, ...], low: Sequence[int], high: Sequence[int]) -> Ball:
        """The logit over all counts of the support's letters from `low` to `high`."""
        with ctx.workprec(PRECISION):
            return self._counts(support, low, high)

    def ratio_box(
        self, support: tuple[int, ...], column: int, low: Sequence[float], high: Sequence[float]
    ) -> Ball:
        """The letter in `column` weighs 1; CLS, where attended to, comes first among the others."""
        ranges = list(zip(low, high, strict=True))
        if not self.cls:
            ranges.insert(0, (0.0, 0.0))
        ranges.insert(1 + column, (1.0, 1.0))
        with ctx.workprec(PRECISION):
            return self._logit(support, Multiplicities(ranges))

    def limit(self, letter: tuple[int, ...]) -> Ball:
        """The logit when all attention goes to one letter."""
        with ctx.workprec(PRECISION):
            return self._logit(letter, Multiplicities([(0, 0), (1, 1)]))

    def tail(self, support: tuple[int, ...], start: int) -> Ball:
        """The logit over all strings of the support from `start` letters on, scores × log n."""
        ranges = [(self.cls, self.cls), *((1, 1) for _ in support)]
        with ctx.workprec(PRECISION):
            return self._logit(support, Multiplicities(ranges, self._log(start), tail=True))

    def _log(self, letters: int) -> Ball:
        """What scores are multiplied by; some count CLS besides the letters."""
        return arb(letters + self.config.cls_counted).log()

    # -- the forward pass ------------------------------------------------------------------------

    def _counts(self, support: tuple[int, ...], low: Sequence[int], high: Sequence[int]) -> Ball:
        log_n = None
        if self.config.log_n:
            log_n = kernel.hull([self._log(sum(low)), self._log(sum(high))])
        ranges = [(self.cls, self.cls), *zip(low, high, strict=True)]
        return self._logit(support, Multiplicities(ranges, log_n))

    def _logit(self, support: tuple[int, ...], copies: Multiplicities) -> Ball:
        x = [self.weights["embed.W_E"][t] for t in (CLS, *(FIRST_LETTER + i for i in support))]
        for layer in range(self.config.n_layers):
            self.pay()
            block, last = f"blocks.{layer}", layer == self.config.n_layers - 1
            normed = self.config.has_norm and self.config.has_mlp
            direct = last and not (normed or self.config.final_norm)
            readout = self._readout(block) if direct else None
            queries = 1 if last else len(x)
            out = [row if readout is None else _times(row, readout) for row in x[:queries]]
            for head in range(self.config.n_heads):
                key = (support, head, ctx.prec, self.label) if layer == 0 else None
                scores, values = self._scores_and_values(block, head, x, queries, readout, key)
                out = [
                    _plus(row, _attend(query_scores, values, copies))
                    for row, query_scores in zip(out, scores, strict=True)
                ]
            if self.config.has_attention and self.config.biases:
                bias = self.weights[f"{block}.attn.b_O"]
                bias = bias if readout is None else _times(bias, readout)
                out = [_plus(row, bias) for row in out]
            if readout is not None:
                size = len(self.columns[0])
                return self._finish(block, out[0][:size], out[0][size:])
            x = out
            if self.config.has_mlp:
                w_in, w_out = (self.weights[f"{block}.mlp.W_{way}"] for way in ("in", "out"))
                pre = [_times(self._norm(f"{block}.ln2", row), w_in) for row in x]
                if last and not self.config.final_norm:
                    return self._finish(block, _times(x[0], self.columns), pre[0])
                post = [self._post(block, row) for row in pre]
                x = [_plus(row, _times(added, w_out)) for row, added in zip(x, post, strict=True)]
                x = [self._biased(row, f"{block}.mlp.b_out") for row in x]
        read = self._norm("ln_final", x[0])  # the last layer has returned where there is none
        return self._smallest(_times(read, self.columns))

    def _smallest(self, read: list[Ball]) -> Ball:
        """The logit, or the smallest of several differences, once the bias is added."""
        read = read if self.offset is None else _plus(read, self.offset)
        if self.config.n_outputs not in (1, 2):
            return kernel.smallest(read)
        return -read[0] if self.negated else read[0]

    def _biased(self, row: list[Ball], name: str) -> list[Ball]:
        return _plus(row, self.weights[name]) if self.config.biases else row

    def _post(self, block: str, pre: Sequence[Ball]) -> list[Ball]:
        """What the neurons write, given what they read."""
        pre = self._biased([*pre], f"{block}.mlp.b_in")
        return [kernel.activation(self.config.act_fn, value) for value in pre]

    def _readout(self, block: str) -> list[list[Ball]]:
        """Columns: the logit (or differences), then what the last neurons read."""
        if not self.config.has_mlp:
            return self.columns
        w_in = self.weights[f"{block}.mlp.W_in"]
        return [[*u, *w] for u, w in zip(self.columns, w_in, strict=True)]

    def _finish(self, block: str, read: list[Ball], pre: Sequence[Ball]) -> Ball:
        """What is read of the residual before the last MLP, with what that adds."""
        if self.config.has_mlp:
            post = self._post(block, pre)
            for row, value in zip(self.weights[f"{block}.mlp.W_out"], post, strict=True):
                read = _plus(read, [value * way for way in _times(row, self.columns)])
            if self.config.biases:
                read = _plus(read, _times(self.weights[f"{block}.mlp.b_out"], self.columns))
        return self._smallest(read)

    def _scores_and_values(
        self, block: str, head: int, x: list[Any], queries: int, readout: Any, key: Any
    ) -> tuple[list[list[Ball]], list[list[Ball]]]:
        """Scores `[query key]` and what each key adds, `[key channel]`; constant in layer 0."""

        def make() -> tuple[list[list[Ball]], list[list[Ball]]]:
            return self._make_scores_and_values(block, head, x, queries, readout)

        if key is None:
            return make()
        channels = self.config.d_model if readout is None else len(readout[0])
        return self._kept.get(key, len(x) * (queries + channels), make)

    def _make_scores_and_values(
        self, block: str, head: int, x: list[Any], queries: int, readout: Any
    ) -> tuple[list[list[Ball]], list[list[Ball]]]:
        read = [self._norm(f"{block}.ln1", row) for row in x]
        w = {part: self.weights[f"{block}.attn.W_{part}"][head] for part in "QKVO"}
        query_rows, key_rows, value_rows = (
            [_times(row, w[part]) for row in rows]
            for part, rows in (("Q", read[:queries]), ("K", read), ("V", read))
        )
        if self.config.biases:
            b = {part: self.weights[f"{block}.attn.b_{part}"][head] for part in "QKV"}
            query_rows, key_rows, value_rows = (
                [_plus(row, b[part]) for row in rows]
                for part, rows in (("Q", query_rows), ("K", key_rows), ("V", value_rows))
            )
        factor = kernel.score_factor(self.config.d_head, self.config.attention_scale)
        scores = [[kernel.dot(q, k) * factor for k in key_rows] for q in query_rows]
        values = [_times(row, w["O"]) for row in value_rows]
        if readout is not None:
            values = [_times(row, readout) for row in values]
        return scores, values

    def _norm(self, name: str, row: list[Ball]) -> list[Ball]:
        if not self.config.has_norm:
            return row
        if self.config.centred_norm:
            mean = sum(row, arb(0)) / len(row)
            row = [value - mean for value in row]
        square = sum((kernel.square(value) for value in row), arb(0)) / len(row)
        divisor = kernel.root(square + arb(self.config.norm_eps))
        # No coordinate exceeds sqrt(d_model) times the root mean square it is divided by.
        row = [kernel.clamp(value / divisor, arb(len(row)).sqrt().upper()) for value in row]
        if not self.config.learned_norm:
            return row
        row = [v * w for v, w in zip(row, self.weights[f"{name}.w"], strict=True)]
        if self.config.centred_norm:
            row = _plus(row, self.weights[f"{name}.b"])
        return row


def _attend(
    scores: Sequence[Ball], values: Sequence[Sequence[Ball]], copies: Multiplicities
) -> list[Ball]:
    """Each channel's weighted mean over the keys.

    Attention does not see a number subtracted from every score. The largest score is subtracted,
    so that weights stay in range. Which key is taken for the largest decides how tight the bound
    is, not whether it holds.
    """
    best = copies.keys[0]
    for k in copies.keys[1:]:
        if kernel.is_less(scores[best].mid(), scores[k].mid()):
            best = k
    gaps = {k: scores[k] - scores[best] if k != best else arb(0) for k in copies.keys}
    if copies.tail:
        return _attend_tail(gaps, best, values, copies)
    weights = []
    for k, gap in gaps.items():
        low, high = kernel.exp_range(gap if copies.log_n is None else gap * copies.log_n)
        least, most = copies.ranges[k]
        weights.append((least * low, most * high))
    return kernel.means(weights, _columns(values, gaps))


def _attend_tail(
    gaps: dict[int, Ball], best: int, values: Sequence[Sequence[Ball]], copies: Multiplicities
) -> list[Ball]:
    """The same for every string of at least N letters, scores scaled by log n.

    Relative to one copy of the best key, all copies of another weigh at most n · n^gap = n^(1+gap):
    falling in n when the gap is below -1, so at most N^(1+gap). (Where n counts CLS, too, there are
    fewer copies than n, and the same holds.) A key with a smaller margin may weigh anything: the
    mean is then a mixture of the others' mean and that key's value.
    """
    weights: dict[int, Range] = {best: (arb(1), arb(1))}
    for k, gap in gaps.items():
        if k != best and kernel.is_less(gap, arb(-1)):
            weights[k] = arb(0), kernel.exp_range((1 + gap) * copies.log_n)[1]
    means = kernel.means([*weights.values()], _columns(values, weights))
    free = _columns(values, [k for k in gaps if k not in weights])
    return [kernel.hull([mean, *others]) for mean, others in zip(means, free, strict=True)]


def _columns(values: Sequence[Sequence[Ball]], keys: Iterable[int]) -> list[list[Ball]]:
    """What these keys hold, channel by channel."""
    rows = [values[k] for k in keys]
    return [[row[channel] for row in rows] for channel in range(len(values[0]))]


def _plus(a: Sequence[Ball], b: Sequence[Ball]) -> list[Ball]:
    return [p + q for p, q in zip(a, b, strict=True)]


def _times(row: Sequence[Ball], matrix: Sequence[Sequence[Ball]]) -> list[Ball]:
    return [kernel.dot(row, [line[j] for line in matrix]) for j in range(len(matrix[0]))]


def _balls(value: Any) -> Any:
    return [_balls(entry) for entry in value] if isinstance(value, list) else arb(value)
