"""The checker's own forward pass: the real-number classifier over boxes, in `arb` balls.

Only the attention weights need care. Over a box of weights, Σ w v / Σ w takes its extremes at
corners, so it is evaluated at all of them; a ball around the extremes goes on. The rest is ball
arithmetic. Where the last block's MLP reads the residual directly, values are projected onto what
is read out before the corners are taken, which keeps the bound tight.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from flint import arb, ctx

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.strings import CLS, FIRST_LETTER

_PRECISIONS = (128, 1024, 8192)

Pair = tuple[Any, Any]
"""The ends of an interval, each an exact `arb`."""


class Weights:
    """Ranges of multiplicity of CLS and a face's letters, and of log n where it matters."""

    def __init__(
        self, light: Sequence[float], heavy: Sequence[float], log_n: Any, tail: bool = False
    ) -> None:
        self.light = [arb(value) for value in light]
        self.heavy = [arb(value) for value in heavy]
        self.log_n, self.tail = log_n, tail
        self.keys = [i for i, value in enumerate(heavy) if value]


class BoxModel:
    def __init__(self, checkpoint: Checkpoint) -> None:
        self.config = checkpoint.config
        self.log_n = self.config.log_n
        self.weights = {name: _balls(array.tolist()) for name, array in checkpoint.weights.items()}
        self.cls = int(self.config.attend_cls)
        self._first_layer: dict[Any, Any] = {}

    # -- what the checker asks -----------------------------------------------------------------

    def sign(self, face: tuple[int, ...], counts: Sequence[int]) -> int:
        """+1, -1 (also for exactly zero), or 0 when no precision decides."""
        for precision in _PRECISIONS:
            low, high = self.count_box(face, counts, counts, precision)
            if low > 0:
                return 1
            if high <= 0:
                return -1
        return 0

    def count_box(
        self, face: tuple[int, ...], low: Sequence[int], high: Sequence[int], precision: int = 128
    ) -> Pair:
        """The logit over all counts of the face's letters from `low` to `high`."""
        with ctx.workprec(precision):
            logs = _ball(arb(sum(low)).log(), arb(sum(high)).log()) if self.log_n else None
            return self._bound(face, Weights([self.cls, *low], [self.cls, *high], logs))

    def ratio_box(
        self, face: tuple[int, ...], column: int, low: Sequence[float], high: Sequence[float]
    ) -> Pair:
        """The letter in `column` weighs 1; CLS, where attended to, comes first among the others."""
        light, heavy = list(low), list(high)
        if not self.cls:
            light, heavy = [0.0, *light], [0.0, *heavy]
        light.insert(1 + column, 1.0)
        heavy.insert(1 + column, 1.0)
        with ctx.workprec(128):
            return self._bound(face, Weights(light, heavy, None))

    def limit(self, letter: tuple[int, ...]) -> Pair:
        """The logit when all attention goes to one letter."""
        with ctx.workprec(128):
            return self._bound(letter, Weights([0, 1], [0, 1], None))

    def tail(self, face: tuple[int, ...], start: int) -> Pair:
        """The logit over all strings of the face with at least `start` letters, scores × log n."""
        ones = [self.cls, *(1 for _ in face)]
        with ctx.workprec(128):
            return self._bound(face, Weights(ones, ones, arb(start).log(), True))

    # -- the forward pass ------------------------------------------------------------------------

    def _bound(self, face: tuple[int, ...], given: Weights) -> Pair:
        x = [self.weights["embed.W_E"][t] for t in (CLS, *(FIRST_LETTER + i for i in face))]
        for layer in range(self.config.n_layers):
            block, last = f"blocks.{layer}", layer == self.config.n_layers - 1
            direct = last and not (self.config.has_norm and self.config.has_mlp)
            readout = self._readout(block) if direct else None
            queries = 1 if last else len(x)
            out = [row if readout is None else _times(row, readout) for row in x[:queries]]
            for head in range(self.config.n_heads):
                key = (face, layer, head, ctx.prec) if layer == 0 else None
                scores, values = self._scores_and_values(block, head, x, queries, readout, key)
                for query, row in enumerate(out):
                    mixed = _attend(scores[query], values, given)
                    out[query] = _plus(row, mixed)
            if readout is not None:
                return self._finish(block, out[0][0], out[0][1:])
            x = out
            if self.config.has_mlp:
                pre = [
                    _times(self._norm(f"{block}.ln2", row), self.weights[f"{block}.mlp.W_in"])
                    for row in x
                ]
                if last:
                    logit = _times(x[0], self.weights["unembed.W_U"])[0]
                    return self._finish(block, logit, pre[0])
                post = [[_gelu(value) for value in row] for row in pre]
                back = [_times(row, self.weights[f"{block}.mlp.W_out"]) for row in post]
                x = [
                    [a + b for a, b in zip(*rows, strict=True)]
                    for rows in zip(x, back, strict=True)
                ]
        raise AssertionError("the last layer always returns")

    def _readout(self, block: str) -> list[list[Any]]:
        """Columns: the logit, then the arguments of the last GELUs."""
        columns = self.weights["unembed.W_U"]
        if not self.config.has_mlp:
            return columns  # type: ignore[no-any-return]
        return [[*u, *w] for u, w in zip(columns, self.weights[f"{block}.mlp.W_in"], strict=True)]

    def _finish(self, block: str, logit: Any, pre: Sequence[Any]) -> Pair:
        if self.config.has_mlp:
            for row, value in zip(self.weights[f"{block}.mlp.W_out"], pre, strict=True):
                logit = logit + _gelu(value) * _times(row, self.weights["unembed.W_U"])[0]
        return logit.lower(), logit.upper()

    def _scores_and_values(
        self, block: str, head: int, x: list[Any], queries: int, readout: Any, key: Any
    ) -> tuple[list[list[Any]], list[list[Any]]]:
        """Scores `[query key]` and what each key adds, `[key channel]`; constant in layer 0."""
        if key is not None and key in self._first_layer:
            return self._first_layer[key]  # type: ignore[no-any-return]
        read = [self._norm(f"{block}.ln1", row) for row in x]
        w = {part: self.weights[f"{block}.attn.W_{part}"][head] for part in "QKVO"}
        scale = 1 / arb(self.config.d_head).sqrt()
        asked = [_times(row, w["Q"]) for row in read[:queries]]
        keys = [_times(row, w["K"]) for row in read]
        scores = [[_dot(q, k) * scale for k in keys] for q in asked]
        values = [_times(_times(row, w["V"]), w["O"]) for row in read]
        if readout is not None:
            values = [_times(row, readout) for row in values]
        if key is not None:
            self._first_layer[key] = scores, values
        return scores, values

    def _norm(self, name: str, row: list[Any]) -> list[Any]:
        if not self.config.has_norm:
            return row
        if self.config.norm == "layer":
            mean = sum(row, arb(0)) / len(row)
            row = [value - mean for value in row]
        square = sum((_square(value) for value in row), arb(0)) / len(row)
        root = (square + arb(self.config.norm_eps)).sqrt()
        # No coordinate exceeds sqrt(d_model) times the root mean square it is divided by.
        most = arb(len(row)).sqrt().upper()
        row = [(v / root).intersection(_ball(-most, most)) for v in row]
        row = [v * w for v, w in zip(row, self.weights[f"{name}.w"], strict=True)]
        if self.config.norm == "layer":
            row = [v + b for v, b in zip(row, self.weights[f"{name}.b"], strict=True)]
        return row


def _attend(scores: Sequence[Any], values: Sequence[Sequence[Any]], given: Weights) -> list[Any]:
    """Each channel's weighted mean over the keys, as a ball around its extremes."""
    best = max(given.keys, key=lambda k: float(scores[k].mid()))
    choices, unbounded = [], []
    for k in given.keys:
        gap = scores[k] - scores[best] if k != best else arb(0)
        if not given.tail:
            power = (gap if given.log_n is None else gap * given.log_n).exp()
            low, high = given.light[k] * power.lower(), given.heavy[k] * power.upper()
            # A multiplicity and a power without width need one corner instead of two.
            same = bool(given.light[k] == given.heavy[k]) and power.rel_accuracy_bits() > 60
            choices.append([given.light[k] * power] if same else [low, high])
        elif k == best:
            choices.append([arb(1)])
        elif gap < -1:
            choices.append([arb(0), ((1 + gap) * given.log_n).exp().upper()])
        else:
            choices.append([arb(0)])
            unbounded.append(k)
    corners = [(weights, sum(weights, arb(0))) for weights in product(*choices)]
    means = []
    for channel in range(len(values[0])):
        column = [values[k][channel] for k in given.keys]
        found = [_dot(weights, column) / total if total > 0 else None for weights, total in corners]
        # A corner without weight bounds nothing: then the mean lies anywhere among the values.
        ends = [mean for mean in found if mean is not None]
        ends += column if len(ends) < len(found) else [values[k][channel] for k in unbounded]
        means.append(_ball(min(v.lower() for v in ends), max(v.upper() for v in ends)))
    return means


def _gelu(x: Any) -> Any:
    """x Φ(x) over a ball: decreasing up to its minimum near -0.7518, increasing after it."""
    low, high = x.lower(), x.upper()
    ends = [v * (-v / arb(2).sqrt()).erfc() / 2 for v in (low, high)]
    least = min(end.lower() for end in ends)
    if low < -0.7517 and high > -0.7518:
        least = min(least, arb(-0.16997120748))
    return _ball(least, max(end.upper() for end in ends))


def _ball(low: Any, high: Any) -> Any:
    return low.union(high)


def _square(x: Any) -> Any:
    return _ball(x.abs_lower() ** 2, x.abs_upper() ** 2)


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return sum((p * q for p, q in zip(a, b, strict=True)), arb(0))


def _plus(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    return [p + q for p, q in zip(a, b, strict=True)]


def _times(row: Sequence[Any], matrix: Sequence[Sequence[Any]]) -> list[Any]:
    return [_dot(row, [line[j] for line in matrix]) for j in range(len(matrix[0]))]


def _balls(value: Any) -> Any:
    return [_balls(entry) for entry in value] if isinstance(value, list) else arb(value)
