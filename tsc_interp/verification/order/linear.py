"""Parts between attention and the outputs as linear functions up to a bounded remainder.

On the ranges of their arguments:

    activation   α q + [β, γ], α the slope of the chord
    square       x² = (l + u) x - l u - [0, (u - l)²/4]
    1/√s, √s     κ s + [β, γ], κ the slope of the chord
    product      z t = z₀ t + t₀ z - z₀ t₀ ± rad(z) rad(t)
"""

from __future__ import annotations

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.verification.bounds import intervals
from tsc_interp.verification.bounds.activations import ACTIVATIONS
from tsc_interp.verification.bounds.intervals import UNIT, Array, Interval

_GRID = 8
_CURVATURE = {"gelu": (0.80, 0.11), "gelu_new": (0.81, 0.12), "silu": (0.51, 0.10)}
"""More than the largest second derivative, and than the largest of its negative."""
UNITS = 4096 * UNIT
"""More than an activation, its slope and its argument round, per unit of their sizes."""
_FLAT = 1e-9
"""Ranges narrower than this have no slope that float64 can tell; 0 does as well."""


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
    act = value(np.maximum(q, ACTIVATIONS[name].gone))
    flat = width < _FLAT
    with np.errstate(all="ignore"):
        alpha = np.where(flat, 0.0, (act[..., -1] - act[..., 0]) / np.where(flat, 1.0, width))
    gap = act - alpha[..., None] * q
    up, down = _CURVATURE[name]
    bend = (width / _GRID) ** 2 / 8
    slack = UNITS * (1 + np.abs(low) + np.abs(high))
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


def mean_square(x: Interval, eps: float) -> Interval:
    """Of the rows' ranges, epsilon added: at least epsilon, less a rounding."""
    least, most = intervals.square(x)
    slack = (most.shape[1] + 16) * UNIT
    low = least.mean(1) * (1 - slack) + eps * (1 - 4 * UNIT)
    return low, most.mean(1) * (1 + slack) + eps * (1 + 4 * UNIT)


class Plain:
    """Arguments of the activation, pre = u · x + shift, with their `range` and largest `size`."""

    def __init__(self, u: Array, shift: Array, z: Interval, size: Array) -> None:
        self.u, self.shift, self.size = u, shift, size[None]
        off = 8 * UNIT * self.size
        self.range = z[0] + shift - off, z[1] + shift + off

    def times(self, weights: Array) -> tuple[Array, Array, Array]:
        """Σ_n weights[r j n] pre_n as slope · x + [low, high]."""
        constant = weights @ self.shift
        return weights @ self.u, constant, constant


class Normed:
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


Arguments = Plain | Normed


class Active:
    """Activations: their ranges `bounds`, a bound `size` on the parts of a form, and forms."""

    def __init__(self, name: str, pre: Arguments) -> None:
        self.pre = pre
        self.alpha, self.beta, self.gamma = chord(name, *pre.range)
        self.bounds: Interval = ACTIVATIONS[name].bounds(*pre.range)
        self.size = np.abs(self.alpha) * pre.size
        self.size = self.size + np.maximum(np.abs(self.beta), np.abs(self.gamma))

    def times(self, weights: Array) -> tuple[Array, Array, Array]:
        """Σ_n weights[r j n] act_n as slope · x + [low, high]."""
        slope, least, most = self.pre.times(weights * self.alpha[:, None])
        up, down = np.maximum(weights, 0), np.minimum(weights, 0)
        beta, gamma = self.beta[:, :, None], self.gamma[:, :, None]
        least = least + (up @ beta + down @ gamma)[:, :, 0]
        return slope, least, most + (up @ gamma + down @ beta)[:, :, 0]


class Gated(Active):
    """Activations of a gated MLP: act(gate) times another argument, both linear forms."""

    def __init__(self, name: str, gate: Arguments, pre: Arguments) -> None:
        self.opened, self.pre = Active(name, gate), pre
        (self.a, rad_a), (self.p, rad_p) = _middle(self.opened.bounds), _middle(pre.range)
        self.apart = rad_a * rad_p * (1 + 16 * UNIT)
        self.bounds = intervals.multiply(self.opened.bounds, pre.range)
        self.size = np.abs(self.a) * pre.size + np.abs(self.p) * self.opened.size
        self.size = self.size + 2 * np.abs(self.a * self.p) + self.apart

    def times(self, weights: Array) -> tuple[Array, Array, Array]:
        plain = self.pre.times(weights * self.a[:, None])
        opened = self.opened.times(weights * self.p[:, None])
        constant = (weights @ (self.a * self.p)[:, :, None])[:, :, 0]
        room = (np.abs(weights) @ self.apart[:, :, None])[:, :, 0]
        slope, least, most = (one + other for one, other in zip(plain, opened, strict=True))
        return slope, least - constant - room, most - constant + room


def _middle(ends: Interval) -> tuple[Array, Array]:
    """The middle of a range, and how far its ends are away."""
    middle = (ends[0] + ends[1]) / 2
    return middle, np.maximum(ends[1] - middle, middle - ends[0]) * (1 + 4 * UNIT)


class Scale:
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
