"""What attention sees of every letter at every place: weights and values, with error bounds.

For one reading token, head h gives the letter t at place p the weight w[h p t] and adds
Σ w v / Σ w to the residual stream, v[h p t] being vectors of the residual stream. Norms before
attention and positions of any kind only change these finite tables. They are computed in `arb` and
rounded once. `Maps` are the linear maps between the residual stream and the outputs, rounded too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb_mat, ctx
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.tasks.trellis import Trellis
from tsc_interp.verification.bounds.intervals import UNIT, Array
from tsc_interp.verification.order.exact import OrderedExact, letter_places, scaled

_PRECISIONS = (128, 512, 2048)
_SCORE_RADIUS = 2.0**-100

WEIGHT_UNITS = 4
"""Weights are off by fewer units than this, relatively (what underflows: by 2^-1074)."""


@dataclass(frozen=True)
class Rounded:
    """Float64 numbers and how far each may be from the real one."""

    values: Array
    errors: Array

    def __getitem__(self, chosen: Any) -> Rounded:
        return Rounded(self.values[chosen], self.errors[chosen])

    @property
    def size(self) -> Array:
        """Of every entry, not much below the largest: a map's entry is off by a unit of it.

        Entries that cancel to nothing are off by more than a unit of themselves.
        """
        values = np.abs(self.values)
        values = values + 1e-9 * values.max(initial=0.0)
        return np.asarray(np.maximum(values, self.errors / UNIT))


@dataclass(frozen=True)
class Maps:
    """From the residual stream x before the MLP to the outputs; None where there is no such part.

    outer [d class], after [class]: what is read of x itself, and of the MLP's own bias
    inner [d neuron], inner_shift [neuron]: arguments of the activation
    gate [d neuron], gate_shift [neuron]: the same of a gated MLP, where inner is multiplied by it
    added [neuron class]: what an activation adds to the outputs
    state [d d]: what the norm before the MLP divides by the root mean square of (centred x)
    final [d d], added_state [neuron d], after_state [d]: the same for the final norm
    shift [class]: what is added to the outputs after the final norm's division
    """

    outer: Rounded
    after: Rounded
    shift: Rounded
    same: NDArray[np.bool_]
    """`[class class]`: their outputs are the same whatever is read."""
    inner: Rounded | None = None
    inner_shift: Rounded | None = None
    gate: Rounded | None = None
    gate_shift: Rounded | None = None
    added: Rounded | None = None
    state: Rounded | None = None
    final: Rounded | None = None
    added_state: Rounded | None = None
    after_state: Rounded | None = None

    @property
    def needs_scale(self) -> bool:
        """Whether something is added after the final norm, so that its scale matters."""
        return bool(self.final is not None and self.shift.values.any())

    @property
    def constant(self) -> Array:
        """What is added to the outputs whatever is read, the final norm's division left out."""
        # Without a final norm nothing is divided, and a shift is added like any other constant.
        return self.after.values + (self.shift.values if self.final is None else 0.0)

    @property
    def parts(self) -> Array:
        """At least the size of what is added to each output."""
        return np.asarray(np.abs(self.after.values) + np.abs(self.shift.values))


@dataclass(frozen=True)
class Keys:
    """Everything about the inputs of one trellis.

    weights     [reader head place letter], 0 for letters that never stand at a place
    values      [head place letter d]
    own_weights [reader head], own_values [head reader d]: the key of a CLS that reads, weight 0
                unless it is attended to
    constant    [reader d]: the residual stream of the reading token before attention adds to it
    """

    weights: Array
    values: Rounded
    own_weights: Array
    own_values: Rounded
    constant: Rounded
    maps: Maps


def keys_of(exact: OrderedExact, trellis: Trellis) -> Keys:
    """The precision is raised until scores are known to 100 bits after the point."""
    for precision in _PRECISIONS:
        with ctx.workprec(precision):
            scores = _Scores(exact, trellis)
            if scores.precise():
                return _keys(exact, scores)
    raise UnsupportedError(
        f"{_PRECISIONS[-1]} bits do not tell the attention scores of this model: its weights are "
        "too large; exact verification needs smaller ones"
    )


def used_letters(trellis: Trellis, n_letters: int) -> NDArray[np.bool_]:
    """`[place letter]`: which letters stand where, in any input."""
    used = np.zeros((trellis.length, n_letters), dtype=bool)
    for place, letter in trellis.fixed:
        used[place, letter] = True
    for stage in trellis.stages:
        for column, place in enumerate(stage.places):
            used[place, stage.letters[:, column]] = True
    return used


class _Scores:
    """Of every reading token on every letter that may stand at a place, `[head][reader][key]`."""

    def __init__(self, exact: OrderedExact, trellis: Trellis) -> None:
        config, length = exact.config, trellis.length
        self.used = used_letters(trellis, config.n_letters)
        places = letter_places(config, length)
        self.spots = np.argwhere(self.used)
        keys = [(FIRST_LETTER + int(letter), places[int(at)]) for at, letter in self.spots]
        readers = exact.reading_tokens(length)
        self.reads_last = config.reads == "last_letter"
        self.reading = exact.embed_at(readers)
        self.on_keys: list[Any] = []
        self.on_itself: list[Any] = []
        self.values: list[Any] = []
        self.own_values: list[Any] = []
        own = readers if config.attend_cls and not self.reads_last else []
        for head in range(config.n_heads):
            scores, values = exact.heard(head, readers, [*keys, *own], length)
            rows, values = scores.tolist(), values.tolist()
            self.on_keys.append([row[: len(keys)] for row in rows])
            self.on_itself.append([row[len(keys) + i] for i, row in enumerate(rows) if own])
            self.values.append(values[: len(keys)])
            self.own_values.append(values[len(keys) :])

    def precise(self) -> bool:
        rows = [row for head in self.on_keys for row in head] + self.on_itself
        return all(score.rad() < _SCORE_RADIUS for row in rows for score in row)


def _keys(exact: OrderedExact, scores: _Scores) -> Keys:
    config = exact.config
    (places, letters), heads = scores.used.shape, config.n_heads
    readers, d = scores.reading.nrows(), config.d_model
    weights = np.zeros((readers, heads, places, letters))
    own_weights = np.zeros((readers, heads))
    values = Rounded(*np.zeros((2, heads, places, letters, d)))
    own_values = Rounded(*np.zeros((2, heads, readers, d)))
    at, letter = scores.spots.T
    for head in range(heads):
        for reader in range(readers):
            # At the place that reads, a key is the letter that reads.
            kept = np.ones(len(at), dtype=bool)
            if scores.reads_last:
                kept = (at < places - 1) | (letter == reader)
            row = [s for s, k in zip(scores.on_keys[head][reader], kept, strict=True) if k]
            row += scores.on_itself[head][reader : reader + 1]
            # Nothing is lost relative to the largest: attention sees differences only.
            largest = max(row, key=lambda score: score.mid())
            key_weights = np.array([float((score - largest).exp()) for score in row])
            if scores.on_itself[head]:
                own_weights[reader, head], key_weights = key_weights[-1], key_weights[:-1]
            weights[reader, head, at[kept], letter[kept]] = key_weights
        held = _rounded(scores.values[head], d)
        values.values[head, at, letter], values.errors[head, at, letter] = held.values, held.errors
        if scores.own_values[head]:
            own = _rounded(scores.own_values[head], d)
            own_values.values[head], own_values.errors[head] = own.values, own.errors
    constant = rounded(exact.residual(scores.reading))
    return Keys(weights, values, own_weights, own_values, constant, _maps(exact))


def _maps(exact: OrderedExact) -> Maps:
    config, mlp_constant = exact.config, exact.mlp_constant()
    outer, shift = exact.unembedding()
    balls: dict[str, Any] = {}
    if config.final_norm:
        scale, shifted = exact.norm_weights("ln_final")
        shift = shift + arb_mat([shifted]) * outer
        balls["final"] = exact.centring()
        balls["after_state"] = mlp_constant * balls["final"]
        outer = balls["final"] * scaled(scale, outer)
    if config.has_mlp:
        balls["state"] = exact.centring() if config.has_norm else None
        balls["inner"], balls["inner_shift"] = exact.read_by_neurons("W_in", balls["state"])
        if config.gated_mlp:
            balls["gate"], balls["gate_shift"] = exact.read_by_neurons("W_gate", balls["state"])
        else:
            balls["inner_shift"] += exact.bias("blocks.0.mlp.b_in", config.d_mlp)
        out = exact.matrix("blocks.0.mlp.W_out")
        balls["added"] = out * outer
        balls["added_state"] = out * balls["final"] if config.final_norm else None
    balls |= {"outer": outer, "after": mlp_constant * outer, "shift": shift}
    maps = {name: rounded(matrix) for name, matrix in balls.items() if matrix is not None}
    for name in maps.keys() & {"after", "shift", "inner_shift", "gate_shift", "after_state"}:
        maps[name] = maps[name][0]
    return Maps(**maps, same=_same_outputs(exact))


def rounded(matrix: Any) -> Rounded:
    """A matrix of balls as float64 and errors."""
    return _rounded(matrix.tolist(), matrix.ncols())


def _rounded(rows: list[list[Any]], columns: int) -> Rounded:
    shape = (-1, columns)
    values = np.reshape([[float(x) for x in row] for row in rows], shape)
    radii = np.reshape([[_radius(x) for x in row] for row in rows], shape)
    return Rounded(values, radii + UNIT * np.abs(values))


def _radius(ball: Any) -> float:
    """Rounded up, and zero only for a number that is exactly zero."""
    return 0.0 if ball.is_zero() else float(ball.rad()) * (1 + 1e-9) + 1e-300


def _same_outputs(exact: OrderedExact) -> NDArray[np.bool_]:
    """Which pairs of outputs have equal weights, and so are equal on every input."""
    columns, bias = exact.unembedding()
    rows = [*columns.tolist(), bias.tolist()[0]]
    table = np.array([[float(x) for x in row] for row in rows])  # float32 weights: exact
    return np.asarray((table[:, :, None] == table[:, None, :]).all(0))
