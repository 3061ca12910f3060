"""The checker's own forward pass over boxes of strings in their order, in `arb` balls.

One token reads (CLS, or the letter at the last place), so a letter at a place has one score and one
value per head, computed here; what they amount to over a box is ordered_checker_boxes.py's.

Differences of outputs are bounded, not outputs: what all have in common cancels. Where a final norm
divides them by its scale, they are bounded times that scale, which is positive.

Part of the checker (ordered_checker.py): nothing here is taken from the search. No ball is compared
here: every judgement is the kernel's, so what is not known cannot prove.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.model.positions import sinusoidal
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.verification import kernel
from tsc_interp.verification.kernel import Ball
from tsc_interp.verification.ordered_checker_boxes import Box, Keys, Row, Sets

_PRECISIONS = (128, 1024, 8192)


@dataclass(frozen=True)
class Channels:
    """What is read of the residual stream, as columns, and what is done with it.

    outputs first, then the neurons' arguments, then the states whose norms divide them.
    """

    columns: Any
    outputs: range
    neurons: range
    inner_state: range
    outer_state: range
    added: Any
    """What a neuron adds to outputs and outer state, `[neuron channel]`."""
    inner_shift: Row
    outer_shift: Row
    after_mlp: Any
    """The MLP's own bias, as a row."""


class OrderedBoxModel:
    """Enclosures of differences of outputs of one classifier of one layer."""

    def __init__(self, checkpoint: Checkpoint, pay: Callable[[], None] = lambda: None) -> None:
        self.config, self.pay = checkpoint.config, pay
        self.weights = checkpoint.weights
        self._kept: dict[Any, Any] = {}

    # -- what the checker asks -------------------------------------------------------------------

    def is_right(self, sets: Sets, label: int) -> bool:
        """Whether the label's output wins in every string: a tie goes to the lower index."""
        others = [j for j in range(self.n_classes) if j != label]
        later = range(label + 1, self.n_classes)

        def wins(gaps: dict[int, Ball]) -> bool:
            return all(
                kernel.is_positive(gap) or (j in later and kernel.is_not_positive(-gap))
                for j, gap in gaps.items()
            )

        return self._shown(sets, label, others, False, wins)

    def is_beaten(self, sets: Sets, label: int, by: int) -> bool:
        """Whether one other output beats the label's in every string."""

        def loses(gaps: dict[int, Ball]) -> bool:
            gap = gaps[by]
            return kernel.is_positive(-gap) or (by in range(label) and kernel.is_not_positive(gap))

        return by != label and self._shown(sets, label, [by], True, loses)

    def _shown(
        self,
        sets: Sets,
        label: int,
        others: Sequence[int],
        largest: bool,
        holds: Callable[[Any], bool],
    ) -> bool:
        """With more precision for single strings, which nothing else can make smaller."""
        single = all(len(one) == 1 for one in sets)
        for precision in _PRECISIONS if single else _PRECISIONS[:1]:
            self.pay()
            with ctx.workprec(precision):
                if holds(self._differences(sets, label, others, largest)):
                    return True
        return False

    @property
    def n_classes(self) -> int:
        """One output is as good as two, of which the first is always zero."""
        return 2 if self.config.n_outputs == 1 else self.config.n_outputs

    # -- weights -------------------------------------------------------------------------------

    def _matrix(self, name: str, head: int | None = None) -> Any:
        weight = self.weights[name] if head is None else self.weights[name][head]
        return arb_mat(np.atleast_2d(weight).astype(np.float64).tolist())

    def _bias(self, name: str, width: int, head: int | None = None) -> Any:
        return self._matrix(name, head) if self.config.biases else arb_mat(1, width)

    def _norm_weights(self, name: str) -> tuple[Row, Row]:
        config = self.config
        ones, zeros = [arb(1)] * config.d_model, [arb(0)] * config.d_model
        if not config.learned_norm:
            return ones, zeros
        shift = self._matrix(f"{name}.b").tolist()[0] if config.centred_norm else zeros
        return self._matrix(f"{name}.w").tolist()[0], shift

    def _centring(self) -> Any:
        d = self.config.d_model
        mean = 1 / arb(d) if self.config.centred_norm else arb(0)
        return arb_mat([[arb(int(i == j)) - mean for j in range(d)] for i in range(d)])

    def _channels(self) -> Channels:
        key = ("channels", ctx.prec)
        if key not in self._kept:
            self._kept[key] = self._make_channels()
        return self._kept[key]  # type: ignore[no-any-return]

    def _make_channels(self) -> Channels:
        config, d = self.config, self.config.d_model
        outputs = self._matrix("unembed.W_U")
        shift = self._bias("unembed.b_U", config.n_outputs)
        if config.n_outputs == 1:
            outputs = arb_mat([[arb(0), *row] for row in outputs.tolist()])
            shift = arb_mat([[arb(0), *shift.tolist()[0]]])
        blocks = [outputs]
        inner_shift: Row = []
        neurons = inner_states = outer_states = 0
        if config.final_norm:
            scale, shifted = self._norm_weights("ln_final")
            shift = shift + arb_mat([shifted]) * outputs
            blocks = [self._centring() * _rows_times(scale, outputs)]
        if config.has_mlp:
            neurons = config.d_mlp
            inner = self._matrix("blocks.0.mlp.W_in")
            inner_bias = self._bias("blocks.0.mlp.b_in", neurons)
            if config.has_norm:
                scale, shifted = self._norm_weights("blocks.0.ln2")
                inner_bias = inner_bias + arb_mat([shifted]) * inner
                inner = self._centring() * _rows_times(scale, inner)
            inner_shift = inner_bias.tolist()[0]
            blocks.append(inner)
            if config.has_norm:
                inner_states = d
                blocks.append(self._centring())
        if config.final_norm:
            outer_states = d
            blocks.append(self._centring())
        ends = np.cumsum([0, self.n_classes, neurons, inner_states, outer_states]).tolist()
        ranges = [range(a, b) for a, b in pairwise(ends)]
        columns = _beside(blocks)
        return Channels(
            columns=columns,
            outputs=ranges[0],
            neurons=ranges[1],
            inner_state=ranges[2],
            outer_state=ranges[3],
            added=self._matrix("blocks.0.mlp.W_out") * columns if neurons else None,
            inner_shift=inner_shift,
            outer_shift=shift.tolist()[0],
            after_mlp=self._bias("blocks.0.mlp.b_out", d) if neurons else arb_mat(1, d),
        )

    # -- keys ----------------------------------------------------------------------------------

    def _embed(self, tokens: Sequence[tuple[int, int]]) -> Any:
        rows = self.weights["embed.W_E"][[token for token, _ in tokens]].astype(np.float64)
        embedded = arb_mat(rows.tolist())
        config = self.config
        if not config.has_positions:
            return embedded
        learned = config.positions == "learned"
        table = (
            self.weights["pos_embed.W_pos"]
            if learned
            else sinusoidal(config.n_positions, config.d_model)
        )
        places = table[[place for _, place in tokens]].astype(np.float64)
        return embedded + arb_mat(places.tolist())

    def _normed(self, name: str, x: Any) -> Any:
        if not self.config.has_norm:
            return x
        scale, shift = self._norm_weights(name)
        rows = []
        for row in (x * self._centring()).tolist():
            divisor = self._divisor(row)
            found = zip(row, scale, shift, strict=True)
            rows.append([value / divisor * w + b for value, w, b in found])
        return arb_mat(rows)

    def _divisor(self, state: Sequence[Ball]) -> Ball:
        square = sum((kernel.square(value) for value in state), arb(0)) / len(state)
        return kernel.root(square + arb(self.config.norm_eps))

    def _keys(self, length: int) -> Keys:
        key = ("keys", length, ctx.prec)
        if key not in self._kept:
            self._kept[key] = self._make_keys(length)
        return self._kept[key]  # type: ignore[no-any-return]

    def _make_keys(self, length: int) -> Keys:
        config, channels = self.config, self._channels()
        letters, first = config.n_letters, int(config.reads == "first")
        spots = [
            (FIRST_LETTER + letter, place + first)
            for place in range(length)
            for letter in range(letters)
        ]
        if config.reads == "last_letter":
            readers = spots[-letters:]
        else:
            readers = [(CLS, 0 if first else length)]
        x, reading = self._embed(spots), self._embed(readers)
        scores, own_scores, values, own_values = [], [], [], []
        for head in range(config.n_heads):
            self.pay()
            found = self._head(head, x, reading, length)
            asked, own, held, own_held = found
            scores.append([_by_place(row, letters) for row in asked.tolist()])
            own_scores.append([own[i, i] for i in range(len(readers))])
            values.append(_by_place((held * channels.columns).tolist(), letters))
            own_values.append((own_held * channels.columns).tolist())
        if config.has_attention:
            reading = reading + _repeat(self._bias("blocks.0.attn.b_O", config.d_model), reading)
        constant = (reading * channels.columns).tolist()
        later = (channels.after_mlp * channels.columns).tolist()[0]
        for row in constant:
            for k in (*channels.outputs, *channels.outer_state):
                row[k] = row[k] + later[k]
        return Keys(scores, own_scores, values, own_values, constant)

    def _head(self, head: int, x: Any, reading: Any, length: int) -> tuple[Any, Any, Any, Any]:
        name, width = "blocks.0.attn", self.config.d_head
        read, asking = (self._normed("blocks.0.ln1", rows) for rows in (x, reading))

        def part(letter: str, rows: Any) -> Any:
            bias = self._bias(f"{name}.b_{letter}", width, head)
            return rows * self._matrix(f"{name}.W_{letter}", head) + _repeat(bias, rows)

        stretch = 1 / arb(width).sqrt()
        if self.config.log_n:
            stretch = stretch * arb(length + self.config.cls_counted).log()
        query, out = part("Q", asking), self._matrix(f"{name}.W_O", head)
        asked, own = (query * part("K", rows).transpose() * stretch for rows in (read, asking))
        return asked, own, part("V", read) * out, part("V", asking) * out

    # -- boxes ---------------------------------------------------------------------------------

    def _differences(
        self, sets: Sets, label: int, others: Sequence[int], largest: bool
    ) -> dict[int, Ball]:
        """The label's output minus another's, times the final norm's scale: balls around both ends,
        or just around the smallest (`largest`: the largest)."""
        config, channels = self.config, self._channels()
        keys, reads_last = self._keys(len(sets)), config.reads == "last_letter"
        reader = sets[-1][0] if reads_last else 0
        free = sets[:-1] if reads_last else sets
        if reads_last and len(sets[-1]) != 1:
            return dict.fromkeys(others, kernel.UNKNOWN)
        box = Box(keys, reader, free, config.attend_cls, self._kept)
        equal = self._equal_outputs(label)
        plain = config.n_heads == 1 and not config.has_mlp and not config.final_norm
        shift = channels.outer_shift
        gaps: dict[int, Ball] = {}
        if plain:
            gaps = box.signs(label, others, shift, largest)
        else:
            neurons = self._neurons(box) if config.has_mlp else []
            scale = self._outer_scale(box, neurons) if config.final_norm else arb(1)
            for j in others:
                gap = box.range(label, j) + (shift[label] - shift[j]) * scale
                for row, value in zip(_rows(channels.added), neurons, strict=True):
                    gap = gap + value * (row[label] - row[j])
                gaps[j] = gap
        # Outputs with the same weights are the same number.
        return {j: arb(0) if j in equal else gap for j, gap in gaps.items()}

    def _equal_outputs(self, label: int) -> set[int]:
        columns = self.weights["unembed.W_U"].astype(np.float64)
        bias = self.weights.get("unembed.b_U") if self.config.biases else None
        if bias is not None:
            columns = np.concatenate([columns, np.asarray(bias, dtype=np.float64)[None]])
        if self.config.n_outputs == 1:
            columns = np.concatenate([np.zeros_like(columns), columns], axis=1)
        same = (columns == columns[:, [label]]).all(0)
        return set(np.flatnonzero(same).tolist())

    def _neurons(self, box: Box) -> Row:
        channels = self._channels()
        found = [box.range(k, None) for k in channels.neurons]
        if self.config.has_norm:
            divisor = self._divisor([box.range(k, None) for k in channels.inner_state])
            found = [value / divisor for value in found]
        return [
            kernel.activation(self.config.act_fn, value + shift)
            for value, shift in zip(found, channels.inner_shift, strict=True)
        ]

    def _outer_scale(self, box: Box, neurons: Row) -> Ball:
        channels = self._channels()
        state = []
        for k in channels.outer_state:
            value = box.range(k, None)
            for row, neuron in zip(_rows(channels.added), neurons, strict=True):
                value = value + neuron * row[k]
            state.append(value)
        return self._divisor(state)


def _by_place(rows: list[Any], letters: int) -> list[list[Any]]:
    return [rows[start : start + letters] for start in range(0, len(rows), letters)]


def _rows(matrix: Any) -> list[Row]:
    return [] if matrix is None else matrix.tolist()


def _rows_times(scale: Row, matrix: Any) -> Any:
    return arb_mat([[w * x for x in row] for w, row in zip(scale, matrix.tolist(), strict=True)])


def _beside(blocks: Sequence[Any]) -> Any:
    rows = zip(*(block.tolist() for block in blocks), strict=True)
    return arb_mat([[x for part in row for x in part] for row in rows])


def _repeat(row: Any, like: Any) -> Any:
    return arb_mat(row.tolist() * like.nrows())
