"""The margin as a linear function of the residual stream plus a remainder, over a region.

Between attention and the outputs stand an activation and up to two norms. On the ranges of their
arguments each is a linear function up to a bounded remainder:

    activation   α q + [β, γ], α the slope of the chord
    square       x² = (l + u) x - l u - [0, (u - l)²/4]
    1/√s         κ s + [β, γ], κ the slope of the chord
    product      z t = z₀ t + t₀ z - z₀ t₀ ± rad(z) rad(t)

So the label's output minus another's, times the final norm's scale, is L · x + [low, high]. The
remainder shrinks with the square of the ranges, and L · x is maximised exactly by the sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.trellis import Index
from tsc_interp.verification.bounds import intervals
from tsc_interp.verification.bounds.activations import ACTIVATIONS
from tsc_interp.verification.bounds.intervals import UNIT, Array, Interval
from tsc_interp.verification.order.keys import Maps, Rounded

_GRID = 8
_CURVATURE = {"gelu": (0.80, 0.11), "gelu_new": (0.81, 0.12), "silu": (0.51, 0.10)}
"""More than the largest second derivative, and than the largest of its negative."""
_UNITS = 4096 * UNIT
"""More than an activation, its slope and its argument round, per unit of their sizes."""
_FLAT = 1e-9
"""Ranges narrower than this have no slope that float64 can tell; 0 does as well."""


@dataclass(frozen=True)
class Forms:
    """`slope [region class d]`, `low` and `high [region class]`: margin in slope · x + [low, high].

    Where outputs have the same weights both ends are infinite: +inf where the label wins a tie.
    """

    slope: Array
    low: Array
    high: Array


def chord(name: str, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """α, β and γ with β ≤ act(q) - α q ≤ γ for all q in [low, high]."""
    if name == "relu":
        crossing = (low < 0) & (high > 0)
        with np.errstate(all="ignore"):
            alpha = np.where(crossing, high / (high - low), (low >= 0).astype(float))
        top = np.where(crossing, -alpha * low, 0.0)
        slack = 8 * UNIT * (np.abs(low) + np.abs(high))
        return alpha, -slack, top + slack
    value = ACTIVATIONS[name].value
    width = high - low
    q = low[..., None] + width[..., None] * (np.arange(_GRID + 1) / _GRID)
    held = value(np.maximum(q, ACTIVATIONS[name].gone))
    flat = width < _FLAT
    with np.errstate(all="ignore"):
        alpha = np.where(flat, 0.0, (held[..., -1] - held[..., 0]) / np.where(flat, 1.0, width))
    gap = held - alpha[..., None] * q
    up, down = _CURVATURE[name]
    bend = (width / _GRID) ** 2 / 8
    slack = _UNITS * (1 + np.abs(low) + np.abs(high))
    return alpha, gap.min(-1) - up * bend - slack, gap.max(-1) + down * bend + slack


def inverse_root(low: Array, high: Array) -> tuple[Array, Array, Array]:
    """κ, β and γ with β ≤ 1/√s - κ s ≤ γ for all s in [low, high], low > 0."""
    ends = 1 / np.sqrt(low), 1 / np.sqrt(high)
    flat = high - low <= 1e-9 * high
    with np.errstate(all="ignore"):
        kappa = np.where(flat, 0.0, (ends[1] - ends[0]) / np.where(flat, 1.0, high - low))
        at = np.where(flat, high, (-2 * kappa) ** (-2 / 3))  # the tangent's point
    least = 1 / np.sqrt(at) - kappa * at
    most = np.maximum(ends[0] - kappa * low, ends[1] - kappa * high)
    slack = 64 * UNIT * (ends[0] + np.abs(kappa) * high)
    return kappa, np.minimum(least, most) - slack, most + slack


class Relaxation:
    """Everything between the residual stream and the outputs of one model."""

    def __init__(self, config: ClassifierConfig, maps: Maps, largest: Array) -> None:
        """`largest [d]` bounds |x| over all inputs."""
        self.config, self.maps, self.largest = config, maps, largest
        self.directions = self._directions()
        for part in vars(maps).values():
            if isinstance(part, Rounded):
                # Rounded once from balls far narrower: what follows counts on it.
                assert (part.errors <= 2 * UNIT * _size(part)).all()

    def _directions(self) -> Array:
        """The channels whose ranges `forms` needs, `[channel d]`: neurons, then states."""
        parts = [self.maps.inner, self.maps.state if self.maps.inner is not None else None]
        parts.append(self.maps.final if self.needs_scale else None)
        rows = [part.values.T for part in parts if part is not None]
        return np.concatenate(rows) if rows else np.zeros((0, len(self.largest)))

    @property
    def needs_scale(self) -> bool:
        """Whether something is added after the final norm, so that its scale matters."""
        return bool(self.config.final_norm and self.maps.shift.values.any())

    def forms(self, low: Array, high: Array, label: Index) -> Forms:
        """`low` and `high` `[region channel]` of `directions`; `label [region]`."""
        maps = self.maps
        columns = maps.outer.values.T
        slope = columns[label][:, None] - columns
        sizes = _size(maps.outer).T
        size = (sizes[label][:, None] + sizes) @ self.largest
        # Without a final norm nothing is divided, and a shift is added like any other constant.
        own = maps.after.values if self.config.final_norm else maps.after.values + maps.shift.values
        least = own[label][:, None] - own
        parts = np.abs(maps.after.values) + np.abs(maps.shift.values)
        size += parts[label][:, None] + parts
        most = least.copy()
        pre = None if maps.inner is None else self._arguments(low, high)
        gain = None
        if pre is not None:
            assert maps.added is not None
            gain = maps.added.values.T[label][:, None] - maps.added.values.T
        if self.needs_scale:
            shift = maps.shift.values[label][:, None] - maps.shift.values
            scale = self._scale(low, high, pre)
            slope = slope + (shift * scale.slope[:, None])[:, :, None] * scale.on_x[:, None]
            if gain is not None and scale.on_post is not None:
                gain = gain + (shift * scale.slope[:, None])[:, :, None] * scale.on_post[:, None]
            ends = shift * scale.least[:, None], shift * scale.most[:, None]
            least, most = least + np.minimum(*ends), most + np.maximum(*ends)
            shifts = np.abs(maps.shift.values)
            size += (shifts[label][:, None] + shifts) * scale.size[:, None]
        if pre is not None and gain is not None:
            alpha, beta, gamma = chord(self.config.act_fn, *pre.range)
            ends = np.maximum(gain, 0), np.minimum(gain, 0)
            least = least + np.einsum("rjn,rn->rj", ends[0], beta)
            least = least + np.einsum("rjn,rn->rj", ends[1], gamma)
            most = most + np.einsum("rjn,rn->rj", ends[0], gamma)
            most = most + np.einsum("rjn,rn->rj", ends[1], beta)
            more, low_more, high_more = pre.times(gain * alpha[:, None])
            slope, least, most = slope + more, least + low_more, most + high_more
            assert maps.added is not None
            weights = _size(maps.added).T
            weights = weights[label][:, None] + weights + np.abs(gain)
            reach = np.abs(alpha) * pre.size + np.maximum(np.abs(beta), np.abs(gamma))
            size += np.einsum("rjn,rn->rj", weights, reach) * gain.shape[2]
        slack = 64 * (len(self.largest) + 8) * UNIT * size + 1e-290
        least, most = least - slack, most + slack
        settled = np.where(np.arange(slope.shape[1]) >= label[:, None], np.inf, -np.inf)
        same = maps.same[label]
        return Forms(slope, np.where(same, settled, least), np.where(same, settled, most))

    def single(self, x: Array, off: Array, label: Index) -> Interval:
        """Margins of single residual streams `x [input d]`, each off by at most `off [d]`."""
        outputs, errors = self._outputs(x, off)
        errors = errors + 8 * UNIT * np.abs(outputs)
        rows = np.arange(len(x))
        margins = outputs[rows, label][:, None] - outputs
        room = errors[rows, label][:, None] + errors
        settled = np.where(np.arange(outputs.shape[1]) >= label[:, None], np.inf, -np.inf)
        same = self.maps.same[label]
        return np.where(same, settled, margins - room), np.where(same, settled, margins + room)

    def _outputs(self, x: Array, off: Array) -> tuple[Array, Array]:
        """Every output, times the final norm's scale, and how far it may be off."""
        maps = self.maps
        size = np.abs(x)
        outputs, errors = _times((x, np.broadcast_to(off, x.shape)), maps.outer)
        constant = (
            maps.after.values if self.config.final_norm else maps.after.values + maps.shift.values
        )
        errors = errors + 8 * UNIT * (np.abs(maps.after.values) + np.abs(maps.shift.values))
        active: tuple[Array, Array] | None = None
        if maps.inner is not None:
            assert maps.added is not None
            active = self._activations(x, off)
            more, room = _times(active, maps.added)
            outputs, errors = outputs + more, errors + room
        outputs = outputs + constant
        if self.needs_scale:
            assert maps.final is not None
            assert maps.after_state is not None
            state, room = _times((x, np.broadcast_to(off, x.shape)), maps.final)
            if active is not None:
                assert maps.added_state is not None
                more, extra = _times(active, maps.added_state)
                state, room = state + more, room + extra
            state = state + maps.after_state.values
            room = room + 8 * UNIT * (np.abs(state) + np.abs(maps.after_state.values) + size.max())
            square, share = _mean_square(state, room, self.config.norm_eps)
            scale = np.sqrt(square)[:, None]
            outputs = outputs + maps.shift.values * scale
            room = np.abs(maps.shift.values) * scale * (share[:, None] + 16 * UNIT)
            errors = errors + room + 4 * UNIT * np.abs(outputs)
        return outputs, errors

    def _activations(self, x: Array, off: Array) -> tuple[Array, Array]:
        maps = self.maps
        assert maps.inner is not None
        assert maps.inner_shift is not None
        shift = maps.inner_shift.values
        z, room = _times((x, np.broadcast_to(off, x.shape)), maps.inner)
        if maps.state is not None:
            state, around = _times((x, np.broadcast_to(off, x.shape)), maps.state)
            square, share = _mean_square(state, around, self.config.norm_eps)
            t = 1 / np.sqrt(square)[:, None]
            # 1/√s is off by less than its share of s, where that is below a half.
            room = room * t * (1 + share[:, None]) + np.abs(z) * t * (share[:, None] + 8 * UNIT)
            z = z * t
        pre = z + shift
        room = room + 8 * UNIT * (np.abs(z) + np.abs(shift))
        kind = ACTIVATIONS[self.config.act_fn]
        # No activation of the family is steeper than 1.13.
        return kind.value(np.maximum(pre, kind.gone)), 1.2 * room + _UNITS * (1 + np.abs(pre))

    def _arguments(self, low: Array, high: Array) -> _Arguments:
        maps = self.maps
        assert maps.inner is not None
        assert maps.inner_shift is not None
        count = maps.inner.values.shape[1]
        z = low[:, :count], high[:, :count]
        u = maps.inner.values.T
        size = _size(maps.inner).T @ self.largest + np.abs(maps.inner_shift.values)
        if maps.state is None:
            return _Plain(u, maps.inner_shift.values, z, size)
        d = len(self.largest)
        x = low[:, count : count + d], high[:, count : count + d]
        return _Normed(u, maps.inner_shift.values, z, size, x, maps.state.values, self.config)

    def _scale(self, low: Array, high: Array, pre: _Arguments | None) -> _Scale:
        """The final norm's √(mean square + ε), from the ranges of states and activations."""
        maps, d = self.maps, len(self.largest)
        x = low[:, -d:], high[:, -d:]
        assert maps.final is not None
        assert maps.after_state is not None
        x = intervals.outward(x[0] + maps.after_state.values, x[1] + maps.after_state.values, 4)
        added, parts = None, self.largest @ _size(maps.final) + np.abs(maps.after_state.values)
        if pre is not None:
            assert maps.added_state is not None
            added = maps.added_state.values
            active = ACTIVATIONS[self.config.act_fn].bounds(*pre.range)
            more = intervals.times_matrix(active, added)
            x = intervals.outward(x[0] + more[0], x[1] + more[1], 4)
            parts = parts + np.maximum(*np.abs(active)) @ _size(maps.added_state)
        after, eps = maps.after_state.values, self.config.norm_eps
        return _Scale(x, maps.final.values, added, after, eps, parts)


class _Scale:
    """√s of the final norm: slope (on_x · x + on_post · activations) + [least, most].

    s = Σ ((l + u) c - l u) / d + ε - [0, Σ (u - l)² / 4d] for the states c in [l, u], and
    √s = κ s + [β, γ] with κ the slope of the chord. `parts [... d]` bounds what c is a sum of.
    """

    def __init__(
        self,
        c: Interval,
        final: Array,
        added: Array | None,
        after: Array,
        eps: float,
        parts: Array,
    ) -> None:
        low, high = mean_square(c, eps)
        ends = np.sqrt(low), np.sqrt(high)
        flat = high - low <= 1e-9 * high
        with np.errstate(all="ignore"):
            kappa = np.where(flat, 0.0, (ends[1] - ends[0]) / np.where(flat, 1.0, high - low))
            at = np.where(flat, high, 1 / (2 * kappa) ** 2)  # the tangent's point
        beta = np.minimum(ends[0] - kappa * low, ends[1] - kappa * high)
        gamma = np.maximum(np.sqrt(at) - kappa * at, beta)
        toward = (c[0] + c[1]) / c[0].shape[1]
        self.slope = kappa
        self.on_x = toward @ final.T
        self.on_post = None if added is None else toward @ added.T
        constant = kappa * (toward @ after + eps - (c[0] * c[1]).mean(1))
        bend = kappa * np.square(c[1] - c[0]).mean(1) / 4
        self.size = 2 * ends[1] + kappa * ((np.abs(toward) * parts).sum(1) + 2 * high)
        slack = 64 * (c[0].shape[1] + 8) * UNIT * self.size
        self.least, self.most = constant - bend + beta - slack, constant + gamma + slack


def mean_square(x: Interval, eps: float) -> Interval:
    """Of the rows' ranges, epsilon added: at least epsilon, less a rounding."""
    ends = np.abs(x[0]), np.abs(x[1])
    most = np.maximum(*ends) ** 2
    least = np.where((x[0] <= 0) & (x[1] >= 0), 0.0, np.minimum(*ends) ** 2)
    slack = (most.shape[1] + 16) * UNIT
    low = least.mean(1) * (1 - slack) + eps * (1 - 4 * UNIT)
    return low, most.mean(1) * (1 + slack) + eps * (1 + 4 * UNIT)


class _Arguments:
    """Arguments of the activation: their `range`, a bound `size` on them, and linear forms."""

    range: Interval
    size: Array

    def times(self, weights: Array) -> tuple[Array, Array, Array]:
        """Σ_n weights[r j n] pre_n as slope · x + [low, high]."""
        raise NotImplementedError


class _Plain(_Arguments):
    """pre = u · x + shift."""

    def __init__(self, u: Array, shift: Array, z: Interval, size: Array) -> None:
        self.u, self.shift, self.size = u, shift, size[None]
        off = 8 * UNIT * self.size
        self.range = z[0] + shift - off, z[1] + shift + off

    def times(self, weights: Array) -> tuple[Array, Array, Array]:
        constant = weights @ self.shift
        return weights @ self.u, constant, constant


class _Normed(_Arguments):
    """pre = (u · x) t + shift with t = 1 / √(mean square of the state + ε)."""

    def __init__(
        self,
        u: Array,
        shift: Array,
        z: Interval,
        size: Array,
        x: Interval,
        state: Array,
        config: ClassifierConfig,
    ) -> None:
        self.u, self.shift, self.state, self.x = u, shift, state, x
        square = mean_square(x, config.norm_eps)
        self.kappa, self.least, self.most = inverse_root(*square)
        root = np.sqrt(square[1]), np.sqrt(square[0])
        t = (1 - 8 * UNIT) / root[0], (1 + 8 * UNIT) / root[1]
        self.z0, self.t0 = (z[0] + z[1]) / 2, (t[0] + t[1]) / 2
        self.rad_z, self.rad_t = (z[1] - z[0]) / 2, (t[1] - t[0]) / 2
        ends = [a * b[:, None] for a in z for b in t]
        self.size = size * t[1][:, None] + np.abs(shift)
        off = 16 * UNIT * self.size
        self.range = (
            np.minimum.reduce(ends) + shift - off,
            np.maximum.reduce(ends) + shift + off,
        )
        self.eps = config.norm_eps

    def times(self, weights: Array) -> tuple[Array, Array, Array]:
        low, high = self.x
        d = low.shape[1]
        on_t = np.einsum("rjn,rn->rj", weights, self.z0)
        # t = κ s + [least, most], and s = Σ ((l + u) x - l u)/d + ε - [0, Σ (u - l)²/4d].
        on_s = on_t * self.kappa[:, None]
        slope = np.einsum("rjn,r,nd->rjd", weights, self.t0, self.u, optimize=True)
        toward = ((low + high) / d) @ self.state.T
        slope = slope + on_s[:, :, None] * toward[:, None]
        constant = weights @ self.shift - on_t * self.t0[:, None]
        constant = constant + on_s * (self.eps - (low * high).mean(1))[:, None]
        bend = ((high - low) ** 2).mean(1)[:, None] / 4
        product = np.einsum("rjn,rn->rj", np.abs(weights), self.rad_z) * self.rad_t[:, None]
        ends = on_t * self.least[:, None], on_t * self.most[:, None]
        least = constant + np.minimum(*ends) - np.maximum(on_s, 0) * bend - product
        most = constant + np.maximum(*ends) - np.minimum(on_s, 0) * bend + product
        size = (
            np.abs(on_s)
            * (self.eps + (np.maximum(np.abs(low), np.abs(high)) ** 2).mean(1))[:, None]
            + np.abs(on_t) * self.t0[:, None]
        )
        slack = 64 * (d + 8) * UNIT * size
        return slope, least - slack, most + slack


def _times(x: tuple[Array, Array], matrix: Rounded) -> tuple[Array, Array]:
    """Numbers with errors times a rounded matrix, with errors."""
    value, room = x
    size = _size(matrix)
    units = 4 * (len(size) + 8) * UNIT
    return value @ matrix.values, (room + units * (np.abs(value) + room)) @ size


def _mean_square(state: Array, room: Array, eps: float) -> tuple[Array, Array]:
    """The mean square plus epsilon, and the share of it by which it may be off (inf: no bound)."""
    square = np.square(state).mean(1) + eps
    off = (2 * np.abs(state) * room + np.square(room)).mean(1)
    share = off / square + 4 * (state.shape[1] + 8) * UNIT
    return square, np.where(share < 0.5, share, np.inf)


def _size(part: Rounded) -> Array:
    """The size of entries, not much below the largest: what an entry is off by is a unit of it."""
    values = np.abs(part.values)
    return np.asarray(values + 1e-9 * values.max(initial=0.0))
