"""The checker's own forward pass over paths of a trellis: margins of one layer, in `arb` balls.

One token reads, so a letter at a place has one score and one value per head (heads.py). What heads
add to the residual stream x is bounded along any direction by `largest_means` (paths.py). Then the
margin of a label over another class is bounded as one linear function of x plus a ball:

    z = u · x                                    what a neuron reads, its range from its extremes
    s² = (l + h) s - l h - [0, (h - l)²/4]       a coordinate that a norm squares, l ≤ s ≤ h
    t = 1/√(m + ε) = τ m + ball                  what a norm multiplies by, m the mean square
    z t = z₀ t + t₀ z - z₀ t₀ ± rad z · rad t    and a gate times what it lets through likewise
    act(p) = α p + ball                          by its values at nodes and its second derivative

The coefficients are free: with any, the ball holds what is left. So margin = L · x + ball, and the
extreme of L · x over all paths is found exactly but for rounding. Where a final norm divides all
outputs by its scale, the margin is bounded times that scale, which is positive.

No ball is compared here: every judgement is the kernel's. Part of the checker (trellis.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.budget import MEMORY, Kept
from tsc_interp.verification.checker.heads import Heads, Row, Spot
from tsc_interp.verification.checker.kernel import Ball
from tsc_interp.verification.checker.paths import Floats, Paths, Weights, largest_means
from tsc_interp.verification.checker.relaxation import Form, activated, inverse_root, product

_BITS = 96
_SINGLE = (128, 1024, 8192)
"""Precisions in which single strings are evaluated, one after the other."""


@dataclass(frozen=True)
class Readout:
    """What follows attention, as matrices: a column per neuron, output or coordinate."""

    inner: Any
    gates: Any | None
    centred: Any
    outer: Any
    """Without the final norm's division."""
    out: Any
    """`W_out`, and `b_out` as a row."""
    out_bias: Any
    inner_bias: Row
    gate_bias: Row
    shift: Row
    """What is added to outputs after that division."""


@dataclass(frozen=True)
class Keys:
    """What one reader meets in strings of one length.

    `ends[head] = low, high [direction place letter]`: first the d_model coordinates of what a key
    adds, then the columns of what is read of them. `own` has the same of the reader itself.
    """

    weights: tuple[Weights, ...]
    ends: tuple[tuple[Floats, Floats], ...]
    own: tuple[tuple[Floats, Floats], ...]
    base: Any
    """The reader's own residual, as a row."""


class TrellisModel(Heads):
    """Judgements about the paths of a trellis, for one classifier of one layer."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        pay: Callable[[], None] = lambda: None,
        memory: int = MEMORY,
    ) -> None:
        super().__init__(checkpoint)
        self.pay = pay
        self._kept = Kept(memory)
        with ctx.workprec(_BITS):
            self._read = self._readout()
            self._directions = self._columns()
            self._rows = [arb_mat([row]) for row in self._directions.transpose().tolist()]

    @property
    def n_classes(self) -> int:
        """One output is as good as two, of which the first is always zero."""
        return max(2, self.config.n_outputs)

    # -- what the checker asks -------------------------------------------------------------------

    def is_right(self, paths: Paths, label: int) -> bool:
        """Whether the label's output wins on every path: a tie goes to the lower index."""
        others = [j for j in range(self.n_classes) if j != label]
        gaps = self._margins(paths, label, others)
        return all(_wins(label, j, gap) for j, gap in zip(others, gaps, strict=True))

    def is_beaten(self, paths: Paths, label: int, by: int) -> bool:
        """Whether one other output beats the label's on every path."""
        return by != label and _wins(by, label, self._margins(paths, by, [label])[0])

    def verdict(self, string: Sequence[int], label: int) -> bool | None:
        """Whether one string is answered with its label; None if it cannot be told."""
        others = [j for j in range(self.n_classes) if j != label]
        for precision in _SINGLE:
            self.pay()
            with ctx.workprec(precision):
                outputs = self._outputs(string)
                same = self._same_outputs(label)
                gaps = [arb(0) if j in same else outputs[label] - outputs[j] for j in others]
            if all(_wins(label, j, gap) for j, gap in zip(others, gaps, strict=True)):
                return True
            if any(_wins(j, label, -gap) for j, gap in zip(others, gaps, strict=True)):
                return False
        return None

    # -- margins over paths ----------------------------------------------------------------------

    def _margins(self, paths: Paths, label: int, others: Sequence[int]) -> list[Ball]:
        """The label's output minus each other one's, times the final norm's scale."""
        self.pay()
        readers = self._readers(paths)
        if len(readers) != 1:
            return [kernel.UNKNOWN] * len(others)
        with ctx.workprec(_BITS):
            keys = self._keys(paths.trellis.length, readers[0])
            ranges = self._ranges(paths, keys)
            posts = self._posts(ranges)
            scale = self._outer_scale(ranges, posts)
            forms = [self._margin(label, j, posts, scale) for j in others]
            same = self._same_outputs(label)
            rows = np.array([[float(x.mid()) for x in form.row.tolist()[0]] for form in forms])
            found = self._lowest(paths, keys, rows)
            gaps = []
            for j, form, row, low in zip(others, forms, rows, found, strict=True):
                exact = arb_mat([row.tolist()])
                rest = (form.row - exact).tolist()[0]
                bound = low + (exact * keys.base.transpose())[0, 0] + form.rest
                bound = bound + kernel.dot(rest, ranges[: self.config.d_model])
                gaps.append(arb(0) if j in same else bound)
            return gaps

    def _readers(self, paths: Paths) -> list[Spot]:
        length = paths.trellis.length
        if self.config.reads == "last_letter":
            letters = paths.letters_at(length - 1)
            return [(FIRST_LETTER + letter, length - 1) for letter in letters]
        return [(CLS, 0 if self.config.reads == "first" else length)]

    def _margin(self, label: int, other: int, posts: Sequence[Form], scale: Ball) -> Form:
        """The label's output minus another's as a linear function of x and a ball."""
        read = self._read
        column = arb_mat([[row[label] - row[other]] for row in read.outer.tolist()])
        rest = (read.out_bias * column)[0, 0]
        shift = read.shift[label] - read.shift[other]
        form = Form(column.transpose(), rest if shift.is_zero() else rest + shift * scale)
        if posts:
            gains = (read.out * column).transpose()
            row = gains * arb_mat([post.row.tolist()[0] for post in posts])
            left = kernel.dot(gains.tolist()[0], [post.rest for post in posts])
            form = Form(form.row + row, form.rest + left)
        return form

    def _posts(self, ranges: Sequence[Ball]) -> list[Form]:
        """What each neuron passes on."""
        config, read = self.config, self._read
        if not config.has_mlp:
            return []
        d, n = config.d_model, config.d_mlp
        pairs = zip(self._rows, ranges, strict=True)
        forms = [Form(row, arb(0), values) for row, values in pairs]
        raw, gates = forms[d : d + n], forms[d + n : d + n + n * config.gated_mlp]
        if config.has_norm:
            times = self._norm(forms[-d:])
            raw = [product(form, times) for form in raw]
            gates = [product(form, times) for form in gates]
        raw = [form.plus(bias) for form, bias in zip(raw, read.inner_bias, strict=True)]
        if not config.gated_mlp:
            return [activated(config.act_fn, form) for form in raw]
        after = self.bias("blocks.0.mlp.b_in", n).tolist()[0]
        gates = [form.plus(bias) for form, bias in zip(gates, read.gate_bias, strict=True)]
        opened = [activated(config.act_fn, form) for form in gates]
        passed = zip(opened, raw, after, strict=True)
        return [product(gate, form).plus(bias) for gate, form, bias in passed]

    def _norm(self, states: Sequence[Form]) -> Form:
        """What a norm multiplies by."""
        d = len(states)
        squares = [form.squared() for form in states]
        row = sum((form.row for form in squares[1:]), squares[0].row) * (1 / arb(d))
        rest = sum((form.rest for form in squares), arb(0)) / d
        values = sum((form.values for form in squares), arb(0)) / d
        return inverse_root(Form(row, rest, values), arb(self.config.norm_eps))

    def _outer_scale(self, ranges: Sequence[Ball], posts: Sequence[Form]) -> Ball:
        """The final norm's scale, where something is added after the division by it."""
        read = self._read
        if not self.config.final_norm or all(shift.is_zero() for shift in read.shift):
            return arb(1)
        d = self.config.d_model
        state = list(ranges[len(ranges) - d :])
        added = (read.out * read.centred).tolist() if posts else []
        shift = (read.out_bias * read.centred).tolist()[0]
        for i in range(d):
            state[i] = state[i] + shift[i]
            for row, post in zip(added, posts, strict=True):
                state[i] = state[i] + row[i] * post.values
        return self.divisor(state)

    # -- extremes over paths ---------------------------------------------------------------------

    def _ranges(self, paths: Paths, keys: Keys) -> list[Ball]:
        """Where each direction of x lies: coordinates from all keys, the others from paths."""
        d, base = self.config.d_model, (keys.base * self._directions).tolist()[0]
        found = [arb(0)] * len(base)
        for weights, (low, high), (own_low, own_high) in zip(
            keys.weights, keys.ends, keys.own, strict=True
        ):
            rows = np.concatenate([high[d:], -low[d:]])
            own = np.concatenate([own_high[d:], -own_low[d:]])
            top, bottom = np.split(largest_means(paths, weights, rows, own), 2)
            crude = _hull(low[:d], high[:d], own_low[:d], own_high[:d])
            for i, (a, b) in enumerate([*crude, *zip(-bottom, top, strict=True)]):
                found[i] = found[i] + kernel.hull([arb(float(a)), arb(float(b))])
        return [x + y for x, y in zip(found, base, strict=True)]

    def _lowest(self, paths: Paths, keys: Keys, rows: Floats) -> list[Ball]:
        """Below Σ_heads row · (what the head adds), for each row of exact numbers."""
        total = [arb(0)] * len(rows)
        d = self.config.d_model
        for weights, (low, high), (own_low, own_high) in zip(
            keys.weights, keys.ends, keys.own, strict=True
        ):
            y, own = _against(rows, low[:d], high[:d]), _against(rows, own_low[:d], own_high[:d])
            bounds = largest_means(paths, weights, y, own)
            total = [found - arb(float(bound)) for found, bound in zip(total, bounds, strict=True)]
        return total

    # -- one string ------------------------------------------------------------------------------

    def _outputs(self, string: Sequence[int]) -> Row:
        """Outputs times the final norm's scale."""
        config, length, read = self.config, len(string), self._readout()
        first = int(config.reads == "first")
        spots = [(FIRST_LETTER + letter, place + first) for place, letter in enumerate(string)]
        reader = spots[-1] if config.reads == "last_letter" else (CLS, 0 if first else length)
        own = config.attend_cls and config.reads != "last_letter"
        x = self._base(reader)
        for head in range(config.n_heads):
            scores, held = self.heard(head, [reader], [*spots, *([reader] * own)], length)
            raw = [score.exp() for score in scores.tolist()[0]]
            weights = arb_mat([[weight / sum(raw, arb(0)) for weight in raw]])
            x = x + weights * held
        if config.has_mlp:
            x = x + self._mlp(x)
        outputs = (x * read.outer).tolist()[0]
        scale = self.divisor((x * read.centred).tolist()[0]) if config.final_norm else arb(1)
        return [output + shift * scale for output, shift in zip(outputs, read.shift, strict=True)]

    def _mlp(self, x: Any) -> Any:
        name, config = "blocks.0.mlp", self.config
        seen = self.normed("blocks.0.ln2", x)
        pre, bias = seen * self.matrix(f"{name}.W_in"), self.bias(f"{name}.b_in", config.d_mlp)
        if config.gated_mlp:
            gates = (seen * self.matrix(f"{name}.W_gate")).tolist()[0]
            opened = [kernel.activation(config.act_fn, gate) for gate in gates]
            pairs = zip(opened, pre.tolist()[0], strict=True)
            post = arb_mat([[gate * value for gate, value in pairs]]) + bias
        else:
            values = (pre + bias).tolist()[0]
            post = arb_mat([[kernel.activation(config.act_fn, value) for value in values]])
        return post * self.matrix(f"{name}.W_out") + self.bias(f"{name}.b_out", config.d_model)

    # -- weights ---------------------------------------------------------------------------------

    def _readout(self) -> Readout:
        config, d = self.config, self.config.d_model
        outer = self.matrix("unembed.W_U")
        shift = self.bias("unembed.b_U", config.n_outputs)
        if config.n_outputs == 1:
            outer = arb_mat([[arb(0), *row] for row in outer.tolist()])
            shift = arb_mat([[arb(0), *shift.tolist()[0]]])
        centred = self.centring()
        if config.final_norm:
            scale, added = self.norm_weights("ln_final")
            shift = shift + arb_mat([added]) * outer
            outer = centred * _scaled(scale, outer)
        inner, gates = arb_mat(d, 0), None
        inner_bias = gate_bias = arb_mat(1, config.d_mlp)
        if config.has_mlp:
            inner = self.matrix("blocks.0.mlp.W_in")
            gates = self.matrix("blocks.0.mlp.W_gate") if config.gated_mlp else None
            if not config.gated_mlp:  # else it is added after the product
                inner_bias = self.bias("blocks.0.mlp.b_in", config.d_mlp)
            if config.has_norm:
                scale, added = self.norm_weights("blocks.0.ln2")
                inner_bias = inner_bias + arb_mat([added]) * inner
                inner = centred * _scaled(scale, inner)
                if gates is not None:
                    gate_bias = gate_bias + arb_mat([added]) * gates
                    gates = centred * _scaled(scale, gates)
        mlp = "blocks.0.mlp"
        return Readout(
            inner=inner,
            gates=gates,
            centred=centred,
            outer=outer,
            out=self.matrix(f"{mlp}.W_out") if config.has_mlp else None,
            out_bias=self.bias(f"{mlp}.b_out", d) if config.has_mlp else arb_mat(1, d),
            inner_bias=inner_bias.tolist()[0],
            gate_bias=gate_bias.tolist()[0],
            shift=shift.tolist()[0],
        )

    def _columns(self) -> Any:
        """Directions of x: coordinates, neurons, gates, and the state that norms divide by."""
        config, read = self.config, self._read
        blocks = [arb_mat([[arb(int(i == j)) for j in range(config.d_model)]
                           for i in range(config.d_model)])]  # fmt: skip
        if config.has_mlp:
            blocks += [read.inner, *([] if read.gates is None else [read.gates])]
        if config.has_norm or config.final_norm:
            blocks.append(read.centred)
        rows = zip(*(block.tolist() for block in blocks), strict=True)
        return arb_mat([[x for part in row for x in part] for row in rows])

    def _same_outputs(self, label: int) -> set[int]:
        """Outputs with the same weights and bias are the same number."""
        columns = self.weights["unembed.W_U"].astype(np.float64)
        if self.config.biases:
            bias = np.asarray(self.weights["unembed.b_U"], dtype=np.float64)
            columns = np.concatenate([columns, bias[None]])
        if self.config.n_outputs == 1:
            columns = np.concatenate([np.zeros_like(columns), columns], axis=1)
        return set(np.flatnonzero((columns == columns[:, [label]]).all(0)).tolist())

    # -- keys ------------------------------------------------------------------------------------

    def _base(self, reader: Spot) -> Any:
        held = self.embedded([reader])
        if not self.config.has_attention:
            return held
        return held + self.bias("blocks.0.attn.b_O", self.config.d_model)

    def _keys(self, length: int, reader: Spot) -> Keys:
        config = self.config
        width = self._directions.ncols() + 2
        balls = config.n_heads * length * config.n_letters * width
        key = ("keys", length, reader)
        return self._kept.get(key, balls, lambda: self._make_keys(length, reader))  # type: ignore[no-any-return]

    def _make_keys(self, length: int, reader: Spot) -> Keys:
        config, first = self.config, int(self.config.reads == "first")
        letters = config.n_letters
        spots = [
            (FIRST_LETTER + letter, place + first)
            for place in range(length)
            for letter in range(letters)
        ]
        own = config.attend_cls and config.reads != "last_letter"
        weights, ends, own_ends = [], [], []
        for head in range(config.n_heads):
            self.pay()
            scores, held = self.heard(head, [reader], [*spots, *([reader] * own)], length)
            row = scores.tolist()[0]
            # Any number may be subtracted from all scores; with the largest nothing overflows.
            most = arb(max(float(score.mid()) for score in row))
            low, high = _ends([[kernel.hull(kernel.exp_range(score - most)) for score in row]])
            low = np.maximum(low, 0.0)
            of_reader = (float(low[0, -1]), float(high[0, -1])) if own else None
            n = length * letters
            weights.append(
                Weights(
                    low[0, :n].reshape(length, letters),
                    high[0, :n].reshape(length, letters),
                    of_reader,
                )
            )
            low, high = _ends((held * self._directions).tolist())
            shape = (low.shape[1], length, letters)
            ends.append((low[:n].T.reshape(shape), high[:n].T.reshape(shape)))
            nothing = np.zeros(shape[0])
            own_ends.append((low[-1], high[-1]) if own else (nothing, nothing))
        return Keys(tuple(weights), tuple(ends), tuple(own_ends), self._base(reader))


def _wins(label: int, other: int, gap: Ball) -> bool:
    """Whether a margin is won: of equal outputs the one with the lower index is the answer."""
    return kernel.is_positive(gap) or (label < other and kernel.is_not_positive(-gap))


def _scaled(scale: Row, matrix: Any) -> Any:
    rows = zip(scale, matrix.tolist(), strict=True)
    return arb_mat([[w * x for x in row] for w, row in rows])


def _ends(rows: Sequence[Sequence[Ball]]) -> tuple[Floats, Floats]:
    """Balls as floats below and above them; NaN for what is not finite."""
    low = np.array([[_float(ball.lower()) for ball in row] for row in rows], dtype=np.float64)
    high = np.array([[_float(ball.upper()) for ball in row] for row in rows], dtype=np.float64)
    # Twice, for whichever way `float` has rounded.
    return (
        np.nextafter(np.nextafter(low, -np.inf), -np.inf),
        np.nextafter(np.nextafter(high, np.inf), np.inf),
    )


def _float(ball: Ball) -> float:
    return float(ball) if ball.is_finite() else float("nan")


def _hull(
    low: Floats, high: Floats, own_low: Floats, own_high: Floats
) -> list[tuple[float, float]]:
    """Between the lowest and the highest of all keys, with the reader's own (or zero)."""
    d = len(low)
    lows = np.minimum(low.reshape(d, -1).min(1), own_low)
    highs = np.maximum(high.reshape(d, -1).max(1), own_high)
    return list(zip(lows.tolist(), highs.tolist(), strict=True))


def _against(rows: Floats, low: Floats, high: Floats) -> Floats:
    """Above -(row · v) for v between `low [d ...]` and `high`, for each row of exact numbers."""
    total = np.zeros((len(rows), *low.shape[1:]))
    for i in range(rows.shape[1]):
        weight = -rows[:, i].reshape(-1, *[1] * (low.ndim - 1))
        term = np.nextafter(weight * np.where(weight >= 0, high[i], low[i]), np.inf)
        total = np.nextafter(total + term, np.inf)
    return total
