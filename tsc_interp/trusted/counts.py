"""Keys of a model that sees counts, in boxes of how often each letter occurs (boxes.py).

Copies of a letter share their state in every layer. The first layer's scores and values are made in
balls. Later layers are computed in intervals, for all boxes at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, ctx

from tsc_interp.trusted import balls
from tsc_interp.trusted.boxes import Boxes, BoxRegions, Weights
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.forward import Forward
from tsc_interp.trusted.margins import BITS
from tsc_interp.trusted.relaxation import Form, activated
from tsc_interp.trusted.spans import Span, exponential, share, up
from tsc_interp.trusted.spec import CLS, FIRST_LETTER

_SCORE_BITS = 256
"""Attention sees scores' differences, however large they are."""


class CountTables:
    """All supports of one model."""

    def __init__(self, forward: Forward, budget: Budget) -> None:
        self.forward, self.spec, self.spend = forward, forward.spec, budget
        self._exact = {
            name: Span.exact(np.atleast_2d(weight).astype(np.float64))
            for name, weight in forward.weights.items()
        }
        self._first: dict[tuple[int, ...], tuple[Span, Span, Span, Span]] = {}
        self._logs: dict[int, tuple[float, float]] = {}

    def regions(self, support: tuple[int, ...], boxes: Boxes) -> BoxRegions:
        """What attention of the last layer meets, over boxes of a support."""
        self.spend()
        spec, number = self.spec, len(boxes)
        state, gaps, powers, values = self.first_layer(support)
        state, logs = _repeated(state, number), self._log_spans(boxes) if spec.log_n else None
        heads = spec.n_heads
        for layer in range(spec.n_layers):
            queries = 1 if layer == spec.n_layers - 1 else 1 + len(support)
            if layer and heads:
                of_heads = [self._later_layer(layer, head, state) for head in range(heads)]
                scores, values = (_stack(parts, 0) for parts in zip(*of_heads, strict=True))
            bias = self._bias(f"blocks.{layer}.attn.b_O", heads)
            parts = []
            for query in range(queries):
                own = state[:, query] if bias is None else state[:, query] + bias
                if layer and heads:
                    weights = Weights.of(self._relative(scores[:, :, query]), None, logs, boxes)
                    regions = BoxRegions(own, weights, values)
                else:
                    shape = (heads, number, gaps.low.shape[-1])
                    some, exps = (_wide(x[:, query][:, None], shape) for x in (gaps, powers))
                    weights = Weights.of(some, exps, logs, boxes)
                    all_values = _wide(values[:, None], (*shape, spec.d_model))
                    regions = BoxRegions(own, weights, all_values)
                if layer == spec.n_layers - 1:
                    return regions
                parts.append(regions.means())
            state = _stack(parts, 1)
            state = self._mlp(layer, state) if spec.d_mlp else state
        raise AssertionError("a model has a layer")

    # -- layers ----------------------------------------------------------------------------------

    def first_layer(self, support: tuple[int, ...]) -> tuple[Span, Span, Span, Span]:
        """The embeddings; scores' gaps `[head query key]`, their exp, values `[head key d]`."""
        if support not in self._first:
            tokens = [0, *(1 + letter for letter in support)]
            state, scores, values = self._every_token
            with ctx.workprec(_SCORE_BITS):
                gaps = [
                    self._gaps([[rows[query][key] for key in tokens] for query in tokens])
                    for rows in scores
                ]
            none = Span.exact(np.zeros((0, len(tokens), len(tokens))))
            spans = _stack(gaps, 0) if gaps else none
            self._first[support] = state[tokens], spans, exponential(spans), values[:, tokens]
        return self._first[support]

    def _gaps(self, rows: Sequence[Sequence[Any]]) -> Span:
        """Scores relative to the largest of their row that is attended to."""
        attended = range(0 if self.spec.attend_cls else 1, len(rows))
        bests = [max(attended, key=lambda key: float(row[key].mid())) for row in rows]
        spans = Span.of([[x - row[best] for x in row]
                         for row, best in zip(rows, bests, strict=True)])  # fmt: skip
        return _zero_at(spans, np.array(bests)[:, None])

    @cached_property
    def _every_token(self) -> tuple[Span, list[list[list[Any]]], Span]:
        """CLS and all letters: embeddings, scores `[head][query][key]`, values `[head key d]`."""
        forward, spec = self.forward, self.spec
        spots = [(CLS, 0), *((FIRST_LETTER + letter, 0) for letter in range(spec.n_letters))]
        with ctx.workprec(_SCORE_BITS):
            x = forward.embedded(spots)
            read = forward.normed("blocks.0.ln1", x) if spec.n_heads else x
            scores, values = [], []
            for head in range(spec.n_heads):
                queries, keys = (forward.met(part, 0, head, read, spots) for part in ("Q", "K"))
                found = forward.scores(head, queries, spots, keys, spots, 1, scaled=False)
                scores.append(found.tolist())
                values.append(Span.of(forward.added(0, head, read).tolist()))
            none = Span.exact(np.zeros((0, len(spots), spec.d_model)))
            return Span.of(x.tolist()), scores, _stack(values, 0) if values else none

    def _later_layer(self, layer: int, head: int, state: Span) -> tuple[Span, Span]:
        """Scores `[region query key]` of a later layer, and values `[region key d]`."""
        name, spec = f"blocks.{layer}.attn", self.spec
        read = self._normed(f"blocks.{layer}.ln1", state)
        met = []
        for part in ("Q", "K", "V"):
            weight = self.forward.weights[f"{name}.W_{part}"][head].astype(np.float64)
            rows = read @ Span.exact(weight)
            if spec.biases:
                bias = self.forward.weights[f"{name}.b_{part}"][head].astype(np.float64)
                rows = rows + Span.exact(bias)
            met.append(rows)
        query, key, value = met
        with ctx.workprec(BITS):
            factor = _ball(balls.score_factor(spec.d_head, spec.attention_scale))
        turned = Span(np.swapaxes(key.low, 1, 2), np.swapaxes(key.high, 1, 2))
        output = self.forward.weights[f"{name}.W_O"][head].astype(np.float64)
        return (query @ turned) * factor, value @ Span.exact(output)

    def _relative(self, scores: Span) -> Span:
        """Scores `[head region key]` relative to the largest that is attended to, about."""
        middle = scores.middle.copy()
        if not self.spec.attend_cls:
            middle[..., 0] = -np.inf
        best = middle.argmax(-1)[..., None]
        ends = (np.take_along_axis(end, best, -1) for end in (scores.low, scores.high))
        return _zero_at(scores - Span(*ends), best)

    def _mlp(self, layer: int, state: Span) -> Span:
        name = f"blocks.{layer}.mlp"
        pre = self._normed(f"blocks.{layer}.ln2", state) @ self._exact[f"{name}.W_in"]
        bias = self._bias(f"{name}.b_in", self.spec.d_mlp)
        pre = pre if bias is None else pre + bias
        rows = Span.exact(np.zeros((*pre.low.shape, 1)))
        post = activated(self.spec.act_fn, Form(rows, Span.exact(np.zeros(pre.low.shape)), pre))
        out = post.values @ self._exact[f"{name}.W_out"]
        bias = self._bias(f"{name}.b_out", self.spec.d_model)
        return state + out if bias is None else state + out + bias

    def _normed(self, name: str, x: Span) -> Span:
        spec, d = self.spec, self.spec.d_model
        if not spec.has_norm:
            return x
        if spec.centred_norm:
            x = x - (x.total() * share(d))[..., None]
        mean = x.square().total() * share(d) + Span.exact(np.array(spec.norm_eps))
        divided = x * mean.root().inverse()[..., None]
        most = up(np.sqrt(np.array(float(d))))  # no coordinate is larger
        divided = Span(np.maximum(divided.low, -most), np.minimum(divided.high, most))
        if not spec.learned_norm:
            return divided
        scaled = divided * self._exact[f"{name}.w"]
        return scaled + self._exact[f"{name}.b"] if spec.centred_norm else scaled

    def _bias(self, name: str, width: int) -> Span | None:
        return self._exact[name] if self.spec.biases and width else None

    def _log_spans(self, boxes: Boxes) -> Span:
        """What scores are multiplied by, `[region 1]`."""
        ends = [[self._log(n)[0] for n in boxes.shortest], [self._log(n)[1] for n in boxes.longest]]
        return Span(*(np.array(end, dtype=np.float64)[:, None] for end in ends))

    def _log(self, letters: int) -> tuple[float, float]:
        if letters not in self._logs:
            with ctx.workprec(BITS):
                span = _ball(arb(letters + self.spec.cls_counted).log())
            self._logs[letters] = float(span.low), float(span.high)
        return self._logs[letters]


def _repeated(span: Span, number: int) -> Span:
    """The same for every region."""
    return _wide(span, (number, *span.low.shape))


def _wide(span: Span, shape: tuple[int, ...]) -> Span:
    return Span(np.broadcast_to(span.low, shape), np.broadcast_to(span.high, shape))


def _stack(parts: Sequence[Span], axis: int) -> Span:
    ends = ([getattr(part, end) for part in parts] for end in ("low", "high"))
    return Span(*(np.stack(end, axis) for end in ends))


def _zero_at(gaps: Span, best: Any) -> Span:
    """What is relative to itself is exactly zero."""
    here = np.arange(gaps.low.shape[-1]) == best
    return Span(np.where(here, 0.0, gaps.low), np.where(here, 0.0, gaps.high))


def _ball(ball: Any) -> Span:
    return Span.of([[ball]])[0, 0]
