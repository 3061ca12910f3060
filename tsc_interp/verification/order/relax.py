"""The margin as a linear function of the residual stream plus a remainder, over a region.

Between attention and the outputs stand an activation and up to two norms, each of them a linear
function up to a bounded remainder (linear.py). So the label's output minus another's, times the
final norm's scale, is L · x + [low, high]. The remainder shrinks with the square of the ranges, and
L · x is maximised exactly by the sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.trellis import Index
from tsc_interp.verification.bounds import intervals
from tsc_interp.verification.bounds.activations import ACTIVATIONS
from tsc_interp.verification.bounds.intervals import UNIT, Array, Interval
from tsc_interp.verification.order.keys import Maps, Rounded
from tsc_interp.verification.order.linear import (
    UNITS,
    Active,
    Arguments,
    Gated,
    Normed,
    Plain,
    Scale,
)


@dataclass(frozen=True)
class Forms:
    """`slope [region class d]`, `low` and `high [region class]`: margin in slope · x + [low, high].

    Where outputs have the same weights both ends are infinite: +inf where the label wins a tie.
    """

    slope: Array
    low: Array
    high: Array


class Relaxation:
    """Everything between the residual stream and the outputs of one model."""

    def __init__(self, config: ClassifierConfig, maps: Maps, largest: Array) -> None:
        """`largest [d]` bounds |x| over all inputs."""
        self.config, self.maps, self.largest = config, maps, largest
        self.room = 0.0
        """What margins of regions are to exceed, times the final norm's scale."""
        self.directions = self._directions()

    def _directions(self) -> Array:
        """The channels whose ranges `forms` needs, `[channel d]`: neurons, gates, states."""
        parts = [
            self.maps.inner,
            self.maps.gate,
            self.maps.state if self.maps.inner is not None else None,
        ]
        parts.append(self.maps.final if self.maps.needs_scale else None)
        rows = [part.values.T for part in parts if part is not None]
        return np.concatenate(rows) if rows else np.zeros((0, len(self.largest)))

    def forms(self, low: Array, high: Array, label: Index) -> Forms:
        """`low` and `high` `[region channel]` of `directions`; `label [region]`."""
        maps = self.maps
        columns = maps.outer.values.T
        slope = columns[label][:, None] - columns
        sizes = maps.outer.size.T
        size = (sizes[label][:, None] + sizes) @ self.largest
        least = maps.constant[label][:, None] - maps.constant
        size += maps.parts[label][:, None] + maps.parts
        most = least.copy()
        active, gain = self._active(low, high), None
        if active is not None:
            assert maps.added is not None
            gain = maps.added.values.T[label][:, None] - maps.added.values.T
        if self.maps.needs_scale:
            shift = maps.shift.values[label][:, None] - maps.shift.values
            scale = self._scale(low, high, active)
            slope = slope + (shift * scale.slope[:, None])[:, :, None] * scale.on_x[:, None]
            if gain is not None and scale.on_post is not None:
                gain = gain + (shift * scale.slope[:, None])[:, :, None] * scale.on_post[:, None]
            ends = shift * scale.least[:, None], shift * scale.most[:, None]
            least, most = least + np.minimum(*ends), most + np.maximum(*ends)
            shifts = np.abs(maps.shift.values)
            size += (shifts[label][:, None] + shifts) * scale.size[:, None]
        if active is not None and gain is not None:
            more, low_more, high_more = active.times(gain)
            slope, least, most = slope + more, least + low_more, most + high_more
            assert maps.added is not None
            weights = maps.added.size.T
            weights = weights[label][:, None] + weights + np.abs(gain)
            size += np.einsum("rjn,rn->rj", weights, active.size) * gain.shape[2]
        slack = 64 * (len(self.largest) + 8) * UNIT * size + 1e-290 + self.room
        least, most = least - slack, most + slack
        return Forms(slope, *settled(maps.same, label, least, most))

    def single(self, x: Array, off: Array, label: Index) -> Interval:
        """Margins of single residual streams `x [input d]`, each off by at most `off [d]`."""
        outputs, errors = self._outputs(Rounded(x, np.broadcast_to(off, x.shape)))
        errors = errors + 8 * UNIT * np.abs(outputs)
        rows = np.arange(len(x))
        margins = outputs[rows, label][:, None] - outputs
        room = errors[rows, label][:, None] + errors
        return settled(self.maps.same, label, margins - room, margins + room)

    def _outputs(self, x: Rounded) -> tuple[Array, Array]:
        """Every output, times the final norm's scale, and how far it may be off."""
        maps = self.maps
        outputs, errors = times(x, maps.outer)
        errors = errors + 8 * UNIT * maps.parts
        active: Rounded | None = None
        if maps.inner is not None:
            assert maps.added is not None
            active = self._activations(x)
            more, room = times(active, maps.added)
            outputs, errors = outputs + more, errors + room
        outputs = outputs + maps.constant
        if self.maps.needs_scale:
            assert maps.final is not None
            assert maps.after_state is not None
            state, room = times(x, maps.final)
            if active is not None:
                assert maps.added_state is not None
                more, extra = times(active, maps.added_state)
                state, room = state + more, room + extra
            state = state + maps.after_state.values
            room = room + 8 * UNIT * (
                np.abs(state) + np.abs(maps.after_state.values) + np.abs(x.values).max()
            )
            square, share = _mean_square(state, room, self.config.norm_eps)
            scale = np.sqrt(square)[:, None]
            outputs = outputs + maps.shift.values * scale
            room = np.abs(maps.shift.values) * scale * (share[:, None] + 16 * UNIT)
            errors = errors + room + 4 * UNIT * np.abs(outputs)
        return outputs, errors

    def _activations(self, x: Rounded) -> Rounded:
        maps, kind = self.maps, ACTIVATIONS[self.config.act_fn]
        pre, room = self._argument(x, maps.inner, maps.inner_shift)
        plain = pre, room
        if maps.gate is not None:
            pre, room = self._argument(x, maps.gate, maps.gate_shift)
        # No activation of the family is steeper than 1.13.
        value, room = kind.value(np.maximum(pre, kind.gone)), 1.2 * room + UNITS * (1 + np.abs(pre))
        if maps.gate is None:
            return Rounded(value, room)
        room = room * (np.abs(plain[0]) + plain[1]) + np.abs(value) * plain[1]
        return Rounded(value * plain[0], room + 8 * UNIT * np.abs(value * plain[0]))

    def _argument(
        self, x: Rounded, into: Rounded | None, shift: Rounded | None
    ) -> tuple[Array, Array]:
        """Arguments of single residual streams, and how far they may be off."""
        assert into is not None
        assert shift is not None
        z, room = times(x, into)
        if self.maps.state is not None:
            state, around = times(x, self.maps.state)
            square, share = _mean_square(state, around, self.config.norm_eps)
            t = 1 / np.sqrt(square)[:, None]
            # 1/√s is off by less than its share of s, where that is below a half.
            room = room * t * (1 + share[:, None]) + np.abs(z) * t * (share[:, None] + 8 * UNIT)
            z = z * t
        return z + shift.values, room + 8 * UNIT * (np.abs(z) + np.abs(shift.values))

    def _active(self, low: Array, high: Array) -> Active | None:
        """The neurons over the ranges of channels."""
        maps, name = self.maps, self.config.act_fn
        if maps.inner is None or maps.inner_shift is None:
            return None
        count, d = maps.inner.values.shape[1], len(self.largest)
        n_channels = count * (1 + (maps.gate is not None))
        x = low[:, n_channels : n_channels + d], high[:, n_channels : n_channels + d]

        def arguments(into: Rounded, shift: Rounded, start: int) -> Arguments:
            z = low[:, start : start + count], high[:, start : start + count]
            size = into.size.T @ self.largest + np.abs(shift.values)
            if maps.state is None:
                return Plain(into.values.T, shift.values, z, size)
            state = maps.state.values
            return Normed(into.values.T, shift.values, z, size, x, state, self.config)

        pre = arguments(maps.inner, maps.inner_shift, 0)
        if maps.gate is None or maps.gate_shift is None:
            return Active(name, pre)
        return Gated(name, arguments(maps.gate, maps.gate_shift, count), pre)

    def _scale(self, low: Array, high: Array, active: Active | None) -> Scale:
        """The final norm's √(mean square + ε), from the ranges of states and activations."""
        maps, d = self.maps, len(self.largest)
        x = low[:, -d:], high[:, -d:]
        assert maps.final is not None
        assert maps.after_state is not None
        x = intervals.outward(x[0] + maps.after_state.values, x[1] + maps.after_state.values, 4)
        added, parts = None, self.largest @ maps.final.size + np.abs(maps.after_state.values)
        if active is not None:
            assert maps.added_state is not None
            added = maps.added_state.values
            more = intervals.times_matrix(active.bounds, added)
            x = intervals.outward(x[0] + more[0], x[1] + more[1], 4)
            parts = parts + np.maximum(*np.abs(active.bounds)) @ maps.added_state.size
        after, eps = maps.after_state.values, self.config.norm_eps
        return Scale(x, maps.final.values, added, after, eps, parts)


def settled(
    same: NDArray[np.bool_], label: Index, low: Array, high: Array, which: Index | None = None
) -> Interval:
    """The ends of margins `[row class]`, of `which` classes or all.

    Where outputs are the same, both are +inf if the label wins the tie, and -inf if it loses it.
    """
    which = np.arange(len(same)) if which is None else which
    tied = same[label[:, None], which]
    tie = np.where(which >= label[:, None], np.inf, -np.inf)
    return np.where(tied, tie, low), np.where(tied, tie, high)


def times(x: Rounded, matrix: Rounded) -> tuple[Array, Array]:
    """Numbers with errors times a rounded matrix, with errors."""
    value, room = x.values, x.errors
    size = matrix.size
    units = 4 * (len(size) + 8) * UNIT
    return value @ matrix.values, (room + units * (np.abs(value) + room)) @ size


def _mean_square(state: Array, room: Array, eps: float) -> tuple[Array, Array]:
    """The mean square plus epsilon, and the share of it by which it may be off (inf: no bound)."""
    square = np.square(state).mean(1) + eps
    off = (2 * np.abs(state) * room + np.square(room)).mean(1)
    share = off / square + 4 * (state.shape[1] + 8) * UNIT
    return square, np.where(share < 0.5, share, np.inf)
