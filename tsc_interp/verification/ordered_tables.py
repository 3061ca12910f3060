"""Scores and read-outs of every letter at every place, computed in `arb` and rounded once.

For one length and one reading token, head h gives the letter l at place p the weight w[h p l], and
channel k of the residual stream is c_k + Σ_h (Σ_p w v_k) / (Σ_p w), v[h p l k] being constants too.
Each table comes with a bound on how far its numbers are from the real ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import ctx
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.verification.intervals import UNIT, Array
from tsc_interp.verification.ordered_exact import OrderedExact, letter_places

_PRECISIONS = (128, 512, 2048)
_SCORE_RADIUS = 2.0**-100

WEIGHT_UNITS = 4
"""Weights are off by fewer units than this, relatively (what underflows: by 2^-1074)."""


@dataclass(frozen=True)
class Rounded:
    """Float64 numbers and how far each may be from the real one."""

    values: Array
    errors: Array


@dataclass(frozen=True)
class OrderedTables:
    """Everything about strings of one length; `reading` is CLS or the letter at the last place.

    weights       [reading head place letter]
    values        [head place letter channel]
    fixed_weights [reading head], the reading token's own key (0 unless it `attends_itself`)
    fixed_values  [reading head channel]
    constant      [reading channel]

    `place` are the places whose letter is free: the last is not where the last letter reads.
    Channels are `outer`, `inner`, `inner_state`, `outer_state`, as far as there are (Readout).
    """

    length: int
    reads_last: bool
    attends_itself: bool
    weights: Array
    values: Rounded
    fixed_weights: Array
    fixed_values: Rounded
    constant: Rounded
    slices: dict[str, slice]
    matrices: dict[str, Rounded]
    same: NDArray[np.bool_]
    """`[class class]`: their outputs are the same whatever is read."""

    @property
    def free(self) -> int:
        return int(self.weights.shape[2])

    @property
    def letters(self) -> int:
        return int(self.weights.shape[3])

    @property
    def classes(self) -> int:
        part = self.slices["outer"]
        return int(part.stop - part.start)


def ordered_tables(exact: OrderedExact, length: int) -> OrderedTables:
    """The precision is raised until scores are known to 100 bits after the point."""
    for precision in _PRECISIONS:
        with ctx.workprec(precision):
            scores = _Scores(exact, length)
            if scores.settled():
                return _tables(exact, length, scores)
    raise UnsupportedError(
        f"{_PRECISIONS[-1]} bits do not settle the attention scores of this model: its weights are "
        "too large; exact verification needs smaller ones"
    )


class _Scores:
    """Of every reading token on every letter at every place, `[head reading (place letter)]`."""

    def __init__(self, exact: OrderedExact, length: int) -> None:
        config = exact.config
        self.keys = exact.embed_at(
            [
                (FIRST_LETTER + letter, place)
                for place in letter_places(config, length)
                for letter in range(config.n_letters)
            ]
        )
        self.reading = exact.embed_at(exact.reading_tokens(length))
        self.on_letters, self.on_itself = [], []
        if config.has_attention:
            self.keys_read = exact.norm("blocks.0.ln1", self.keys)
            self.reading_read = exact.norm("blocks.0.ln1", self.reading)
        for head in range(config.n_heads):
            asked = exact.asked(head, self.reading_read, self.keys_read, length)
            self.on_letters.append(asked.tolist())
            itself = exact.asked(head, self.reading_read, self.reading_read, length)
            self.on_itself.append([itself[i, i] for i in range(itself.nrows())])

    def settled(self) -> bool:
        rows = [row for head in self.on_letters for row in head] + self.on_itself
        return all(score.rad() < _SCORE_RADIUS for row in rows for score in row)


def _tables(exact: OrderedExact, length: int, scores: _Scores) -> OrderedTables:
    config, read = exact.config, exact.readout()
    parts = {
        "outer": read.outer,
        "inner": read.inner,
        "inner_state": read.inner_state,
        "outer_state": read.outer_state,
    }
    columns = [part for part in parts.values() if part is not None]
    slices, start = {}, 0
    for name, part in parts.items():
        if part is not None:
            slices[name] = slice(start, start + part.ncols())
            start += part.ncols()
    reads_last = config.reads == "last_letter"
    free = length - 1 if reads_last else length
    letters, heads, readers = config.n_letters, config.n_heads, scores.reading.nrows()
    weights = np.zeros((readers, heads, free, letters))
    fixed = np.zeros((readers, heads))
    values, fixed_values = [], []
    for head in range(heads):
        for reader in range(readers):
            row = scores.on_letters[head][reader][: free * letters]
            itself = [scores.on_itself[head][reader]] if config.attend_cls else []
            largest = max((s for s in [*row, *itself]), key=lambda score: score.mid())
            # Nothing is lost relative to the largest: attention sees differences only.
            relative = [float((score - largest).exp()) for score in [*row, *itself]]
            weights[reader, head] = np.reshape(relative[: len(row)], (free, letters))
            fixed[reader, head] = relative[-1] if itself else 0.0
        values.append(_rounded(exact.values(0, head, scores.keys_read), columns))
        fixed_values.append(_rounded(exact.values(0, head, scores.reading_read), columns))
    constant = _constant(exact, read, scores, columns, slices)
    shape = (heads, length, letters, start)
    return OrderedTables(
        length,
        reads_last,
        config.attend_cls,
        weights,
        _stacked(values, shape, free),
        fixed,
        _stacked(fixed_values, (heads, readers, start), None),
        constant,
        slices,
        _matrices(read),
        _same_outputs(exact),
    )


def _constant(
    exact: OrderedExact, read: Any, scores: _Scores, columns: list[Any], slices: dict[str, slice]
) -> Rounded:
    """What a channel holds whatever the letters; shifts are in it where no division comes first."""
    config = exact.config
    base = _rounded(exact.residual(scores.reading), columns)
    biases = _rounded(exact.mlp_bias(), columns)
    total, errors = base.values, base.errors
    width = total.shape[1]
    for name in ("outer", "outer_state"):
        if name in slices:
            part = slices[name]
            chosen = np.zeros(width)
            chosen[part] = 1.0
            total = total + chosen * biases.values
            errors = errors + chosen * biases.errors
    shifts = {"outer": (read.outer_shift, config.final_norm)}
    shifts["inner"] = (read.inner_shift, config.has_norm)
    for name, (shift, divided_first) in shifts.items():
        if shift is not None and not divided_first:
            rounded = _rounded(shift, None)
            total[:, slices[name]] += rounded.values
            errors[:, slices[name]] += rounded.errors
    # Three sums: what they round is below four units of what is added up.
    sizes = np.abs(base.values) + np.abs(biases.values) + np.abs(total)
    return Rounded(total, errors + 4 * UNIT * sizes)


def _stacked(parts: list[Rounded], shape: tuple[int, ...], free: int | None) -> Rounded:
    values = np.reshape([part.values for part in parts], shape)
    errors = np.reshape([part.errors for part in parts], shape)
    if free is None:
        return Rounded(values.swapaxes(0, 1), errors.swapaxes(0, 1))
    return Rounded(values[:, :free], errors[:, :free])


def _matrices(read: Any) -> dict[str, Rounded]:
    named = {
        "added_outer": read.added_outer,
        "added_state": read.added_state,
        "outer_shift": read.outer_shift,
        "inner_shift": read.inner_shift,
    }
    return {name: _rounded(matrix, None) for name, matrix in named.items() if matrix is not None}


def _rounded(matrix: Any, columns: list[Any] | None) -> Rounded:
    """Rows (times each block of columns) as float64 and errors."""
    blocks = [matrix] if columns is None else [matrix * block for block in columns]
    values, errors = [], []
    for block in blocks:
        rows = block.tolist()
        found = np.reshape([[float(x) for x in row] for row in rows], (-1, block.ncols()))
        radii = np.reshape([[_radius(x) for x in row] for row in rows], (-1, block.ncols()))
        values.append(found)
        errors.append(radii + UNIT * np.abs(found))
    return Rounded(np.concatenate(values, axis=1), np.concatenate(errors, axis=1))


def _radius(ball: Any) -> float:
    """Rounded up, and zero only for a number that is exactly zero."""
    return 0.0 if ball.is_zero() else float(ball.rad()) * (1 + 1e-9) + 1e-300


def _same_outputs(exact: OrderedExact) -> NDArray[np.bool_]:
    """Which pairs of outputs have equal weights, and so are equal on every string."""
    columns, bias = exact.unembedding()
    rows = [*columns.tolist(), bias.tolist()[0]]
    table = np.array([[float(x) for x in row] for row in rows])  # float32 weights: exact
    return np.asarray((table[:, :, None] == table[:, None, :]).all(0))
