"""Regions of a model that sees counts: boxes of how often each letter of a support occurs.

    a box       every letter from `low` to `high` times, all ends whole numbers
    a chart     one letter weighs 1, the others (and CLS) from `low` to `high`: ratios, any length
    a tail      all inputs from n letters on, scores scaled by log n
    a limit     all attention on one letter

Copies of a letter share their state in every layer, so a key of a letter weighs its count times
exp(score), somewhere in an interval. The first layer's scores and values are made in balls. Later
layers are computed in intervals, for all boxes at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, ctx

from tsc_interp.trusted import balls
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.forward import Forward
from tsc_interp.trusted.margins import BITS
from tsc_interp.trusted.means import Stage, Sums, highest
from tsc_interp.trusted.relaxation import Form, activated
from tsc_interp.trusted.spans import UNIT, Floats, Span, exponential, share, up
from tsc_interp.trusted.spec import CLS, FIRST_LETTER

_ONE_STATE = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Boxes:
    """Some regions of one kind and one support.

    low, high [region key]: multiplicities, CLS first, then the support's letters
    shortest, longest [region]: numbers of letters, where scores grow with log n
    tail: every input from `shortest` letters on, however often each letter occurs
    """

    low: Floats
    high: Floats
    shortest: Sequence[int] = ()
    longest: Sequence[int] = ()
    tail: bool = False

    def __len__(self) -> int:
        return len(self.low)


class Weights:
    """How much keys weigh for one query, relative to one of them: `[region key]`, and free ones.

    A free key may weigh anything: the mean is a mixture of the others' mean and its value.
    """

    def __init__(self, gaps: Span, powers: Span | None, logs: Span | None, boxes: Boxes) -> None:
        """`gaps [region key]`: scores relative to a key's, without log n; `powers` are their exp.

        `logs [region 1]` is what scores are multiplied by, where they are.
        """
        present = boxes.high > 0
        self.free = np.zeros_like(present)
        if boxes.tail:
            assert logs is not None
            # Relative to one copy of the best key, all copies of another weigh at most n · n^gap:
            # falling in n where the gap is below -1. (Where n counts CLS there are fewer copies.)
            best = (gaps.low == 0) & (gaps.high == 0) & present
            falls = (gaps.high < -1) & present
            self.free = present & ~best & ~falls
            reach = exponential((gaps + Span.exact(np.array(1.0))) * logs).high
            self.low = np.where(best, 1.0, 0.0)
            self.high = np.where(best, 1.0, np.where(falls, reach, 0.0))
            return
        if logs is not None:
            powers = exponential(gaps * logs)
        assert powers is not None
        weights = Span(boxes.low, boxes.high) * powers
        self.low = np.where(present, np.maximum(weights.low, 0.0), 0.0)
        self.high = np.where(present, weights.high, 0.0)

    def sums(self, values: Span, q: Floats) -> Sums:
        """Of directions `q [region row d]` and values `[region key d]`."""
        middle, radius = values.middle, values.radius
        sizes = np.abs(middle) + radius
        d, keys = middle.shape[-1], middle.shape[-2]
        units = (d + 2 * keys + 16) * UNIT
        # A little above q · v, [region row key].
        wide = np.abs(q) @ np.swapaxes(sizes, 1, 2)
        above = q @ np.swapaxes(middle, 1, 2) + np.abs(q) @ np.swapaxes(radius, 1, 2)
        above = up(above + up(wide * units))
        shape = above.shape[:2]
        stages = []
        for key in range(keys):
            weights = np.stack([self.low[:, key], self.high[:, key]], axis=-1)[:, None]
            scores = weights[:, None] * above[:, :, key, None, None]
            present = np.ones(weights.shape, dtype=bool)
            stages.append(Stage(scores, weights, present, _ONE_STATE, _ONE_STATE[None]))
        slack = 4 * units * (up(wide * (1 + units)) @ self.high[:, :, None])[..., 0]
        mass_slack = 4 * units * self.high.sum(1, keepdims=True)
        free = None
        if self.free.any():
            free = np.where(self.free[:, None], above, -np.inf).max(2)
        zero = np.zeros((shape[0], 1))
        return Sums(stages, np.zeros(shape), zero, up(slack), up(mass_slack), units, free)


@dataclass
class BoxRegions:
    """What the reading token holds after the last attention (`margins.Attended`)."""

    base: Span
    reach: Span
    heads: Sequence[tuple[Weights, Span]]
    """The weights of each head's keys, and their values `[region key d]`."""

    def highest(self, q: Floats, enough: Floats | None = None) -> Floats:
        """At least q · (what the heads add) everywhere in a box: `[region row]`."""
        number = len(self.base.low)
        rows = np.broadcast_to(q, (number, *q.shape[1:]))

        def sums(head: int, directions: Floats) -> Sums:
            weights, values = self.heads[head]
            return weights.sums(values, directions)

        return highest(sums, len(self.heads), rows, enough)


class CountTables:
    """All supports of one model."""

    def __init__(self, forward: Forward, budget: Budget) -> None:
        self.forward, self.spec, self.spend = forward, forward.spec, budget
        self._exact = {
            name: Span.exact(np.atleast_2d(weight).astype(np.float64))
            for name, weight in forward.weights.items()
        }
        self._first: dict[tuple[int, ...], Any] = {}
        self._logs: dict[int, tuple[float, float]] = {}

    def regions(self, support: tuple[int, ...], boxes: Boxes) -> BoxRegions:
        """What attention of the last layer meets, over boxes of a support."""
        self.spend()
        spec, number = self.spec, len(boxes)
        if support not in self._first:
            with ctx.workprec(BITS):
                self._first[support] = self._first_layer(support)
        state, heads = self._first[support]
        state = _repeated(state, number)
        logs = self._log_spans(boxes) if spec.log_n else None
        for layer in range(spec.n_layers):
            queries = 1 if layer == spec.n_layers - 1 else 1 + len(support)
            if layer:
                heads = [self._later_layer(layer, head, state) for head in range(spec.n_heads)]
            bias = self._bias(f"blocks.{layer}.attn.b_O", spec.d_model if spec.n_heads else 0)
            added, own = [], state[:, :queries]
            own = own if bias is None else own + bias
            for gaps, powers, values in heads:
                if not layer:
                    values = _repeated(values, number)
                    pairs = [(_repeated(gaps[query], number), powers[query])
                             for query in range(queries)]  # fmt: skip
                else:
                    rows = [self._row(gaps, query) for query in range(queries)]
                    pairs = [(row, None if logs is not None else exponential(row)) for row in rows]
                added.append(([Weights(*pair, logs, boxes) for pair in pairs], values))
            if queries == 1:
                return _regions(own[:, 0], [(weights[0], values) for weights, values in added])
            parts = [
                _means(_regions(own[:, query], [(w[query], values) for w, values in added]))
                for query in range(queries)
            ]
            state = Span(
                *(np.stack([getattr(p, end) for p in parts], 1) for end in ("low", "high"))
            )
            state = self._mlp(layer, state) if spec.d_mlp else state
        raise AssertionError("a model has a layer")

    # -- layers ----------------------------------------------------------------------------------

    def _first_layer(self, support: tuple[int, ...]) -> tuple[Span, list[tuple[Span, Span, Span]]]:
        """The embeddings; per head the scores' gaps `[query key]`, their exp, and values."""
        forward, tokens = self.forward, [CLS, *(FIRST_LETTER + letter for letter in support)]
        spots = [(token, 0) for token in tokens]
        x = forward.embedded(spots)
        heads = []
        for head in range(self.spec.n_heads):
            read = forward.normed("blocks.0.ln1", x)
            queries, keys = (forward.met(part, 0, head, read, spots) for part in ("Q", "K"))
            rows = forward.scores(head, queries, spots, keys, spots, 1, scaled=False).tolist()
            attended = range(0 if self.spec.attend_cls else 1, len(tokens))
            gaps, chosen = [], []
            for row in rows:
                best = max(attended, key=lambda key: float(row[key].mid()))
                gaps.append([score - row[best] for score in row])
                chosen.append(best)
            spans, is_best = Span.of(gaps), np.array(chosen)[:, None] == np.arange(len(tokens))
            spans = Span(np.where(is_best, 0.0, spans.low), np.where(is_best, 0.0, spans.high))
            values = Span.of(forward.added(0, head, read).tolist())
            heads.append((spans, exponential(spans), values))
        return Span.of(x.tolist()), heads

    def _later_layer(self, layer: int, head: int, state: Span) -> tuple[Span, None, Span]:
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
        return (query @ turned) * factor, None, value @ Span.exact(output)

    def _row(self, gaps: Span, query: int) -> Span:
        """The gaps of one query's scores, `[region key]`."""
        row = gaps[:, query]
        middle = row.middle.copy()
        if not self.spec.attend_cls:
            middle[:, 0] = -np.inf
        best = middle.argmax(1)[:, None]
        one = Span(*(np.take_along_axis(end, best, 1) for end in (row.low, row.high)))
        relative, is_best = row - one, np.arange(row.low.shape[1]) == best
        return Span(np.where(is_best, 0.0, relative.low), np.where(is_best, 0.0, relative.high))

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


def _regions(base: Span, heads: Sequence[tuple[Weights, Span]]) -> BoxRegions:
    reach = base
    for weights, values in heads:
        present = ((weights.high > 0) | weights.free)[..., None]
        low = np.where(present, values.low, np.inf).min(1)
        reach = reach + Span(low, np.where(present, values.high, -np.inf).max(1))
    return BoxRegions(base, reach, heads)


def _means(regions: BoxRegions) -> Span:
    """Where the residual stream lies after attention, `[region d]`."""
    d = regions.base.low.shape[-1]
    with np.errstate(all="ignore"):
        both = regions.highest(np.concatenate([np.eye(d), -np.eye(d)])[None])
    most, least = np.split(both, 2, axis=1)
    found = regions.base + Span(-least, most)
    return Span(
        np.maximum(found.low, regions.reach.low), np.minimum(found.high, regions.reach.high)
    )


def _repeated(span: Span, number: int) -> Span:
    """The same for every region."""
    return Span(*(np.broadcast_to(end, (number, *end.shape)) for end in (span.low, span.high)))


def _ball(ball: Any) -> Span:
    return Span.of([[ball]])[0, 0]
