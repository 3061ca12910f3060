"""Bounds the float32 errors after attention, in a model of one layer, for many sets at once.

The assumptions are those of float32.py. margins.py bounds margins for what float32 has of the
residual stream after attention (float_attention.py) and adds these errors where they are made:
so each counts only as far as the margin depends on it. With γ(k) = k u / (1 - k u), u = 2^-24:

    a vector whose mean is taken out      γ(d + 3) (|x_i| + the mean of |x|)
    a norm and a linear map               γ(2d + 16) Σ_i (|n_i scale_i| + |shift_i|) |W_ij|, n the
                                          normalised vector: mean square γ(d + 3), its root (which
                                          halves that) 2, division 3, scale and shift 2, and a sum
                                          of d products with a bias γ(d + 2)
    an activation                         a few u of its argument
    W_out, its bias, the residual stream  γ(n + 4) of all sizes in that sum

Arguments and results are sizes in float64, `[region ...]`, none below zero: their rounding is far
below `_SLACK`. A NaN, or what may overflow, stays NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tsc_interp.trusted.float32 import ACTIVATION_UNITS, LEAST_EPS
from tsc_interp.trusted.float_attention import AttentionErrors
from tsc_interp.trusted.forward import Forward
from tsc_interp.trusted.spans import Floats

_U = 2.0**-24
_TINY = 2.0**-110
"""More than all that underflows in one sum, with weights and scales of 1."""
_LARGEST = 2.0**126
_SLACK = 1 + 2.0**-20


class LinearMap:
    """A linear map that reads the residual stream, through a norm or not.

    gain [d out]: |scale| |W|; added [out]: |shift| |W| + |bias|; lost [out]: what underflow counts
    """

    def __init__(self, forward: Forward, norm: str | None, matrix: str, bias: str | None) -> None:
        spec, weights = forward.spec, forward.weights
        wide = np.abs(weights[matrix].astype(np.float64))
        self.d = len(wide)
        scale, shift = np.ones(self.d), np.zeros(self.d)
        if norm is not None and spec.learned_norm:
            scale = np.abs(weights[f"{norm}.w"].astype(np.float64))
            if spec.centred_norm:
                shift = np.abs(weights[f"{norm}.b"].astype(np.float64))
        self.gain, self.added = scale[:, None] * wide, shift @ wide
        if bias is not None and spec.biases:
            self.added = self.added + np.abs(np.asarray(weights[bias], dtype=np.float64))
        self.lost = self.d + (2 + scale) @ wide
        most = np.sqrt(self.d) * self.gain.sum(0) + self.added
        fits = spec.norm_eps > LEAST_EPS and bool((most < _LARGEST).all())
        self.safe = 1.0 if norm is None or fits else np.nan

    def carried(self, errors: Floats) -> Floats:
        """What errors of the normalised vector become, before the division: `[region out]`."""
        return np.asarray(errors @ self.gain * _SLACK)

    def off(self, read: Floats, times: Floats | float = 1.0) -> Floats:
        """`[region out]`: what is rounded; `read [region d]` what the norm divides, or has divided.

        Args:
            read: Sizes of what is read, before scale and shift.
            times: What everything is multiplied by.
        """
        reach = read @ self.gain + times * self.added
        reach = np.where(reach < _LARGEST, reach, np.nan) * self.safe
        return np.asarray((gamma(2 * self.d + 16) * reach + _TINY * times * self.lost) * _SLACK)


class Rounded:
    """What float32 makes of some regions of inputs.

    sizes [region d]: at least what float32 has of the residual stream after attention
    """

    def __init__(self, errors: Sequence[AttentionErrors]) -> None:
        """`errors` of each region; many share one."""
        self._errors = errors
        self.sizes = np.stack([one.sizes for one in errors])

    def along(self, q: Floats) -> Floats:
        """What the residual stream is off by along directions `[region row d]`, or `[1 row d]`."""
        off = np.zeros((len(self._errors), q.shape[1]))
        for one in {id(one): one for one in self._errors}.values():
            at = np.array([other is one for other in self._errors])
            off[at] = one.along(q if len(q) == 1 else q[at])
        return off


class Ends(NamedTuple):
    """After the activations, `[region d]`.

    added: rounded in W_out's sums and the last addition
    sizes: of the residual stream then
    taken: of what the final norm divides, rounded when the mean is taken out
    state: all that this is off by
    """

    added: Floats
    sizes: Floats
    taken: Floats
    state: Floats

    def outputs(self, outer: LinearMap, read: Floats, scale: Floats) -> Floats:
        """What each output is off by, times the final norm's scale, by which `read` is divided."""
        return outer.off(read, scale) + outer.carried(self.taken)


class LayerErrors:
    """All of one model."""

    def __init__(self, forward: Forward) -> None:
        self.spec = spec = forward.spec
        mlp, gates = "blocks.0.mlp", None
        if spec.d_mlp:
            norm = "blocks.0.ln2" if spec.has_norm else None
            late = spec.gated_mlp
            self.inner = LinearMap(forward, norm, f"{mlp}.W_in", None if late else f"{mlp}.b_in")
            gates = LinearMap(forward, norm, f"{mlp}.W_gate", None) if late else None
            self._out = np.abs(forward.weights[f"{mlp}.W_out"].astype(np.float64))
            self._bias = np.zeros(spec.d_model)
            if spec.biases:
                self._bias = np.abs(forward.weights[f"{mlp}.b_out"].astype(np.float64))
        self.gates = gates
        norm = "ln_final" if spec.final_norm else None
        self.outer = LinearMap(forward, norm, "unembed.W_U", "unembed.b_U")

    def centred(self, sizes: Floats) -> Floats:
        """What taking the mean out rounds, where norms do that: `[region d]`."""
        d = self.spec.d_model
        reach = (sizes + sizes.mean(-1, keepdims=True)) * _SLACK
        reach = np.where(reach < np.sqrt(_LARGEST / d), reach, np.nan)  # squares are added up
        off = (gamma(d + 3) * reach + _TINY) * _SLACK
        return np.asarray(off * float(self.spec.centred_norm))

    def divided(self, sizes: Floats, most: Floats) -> Floats:
        """Sizes after a norm that multiplies by `most [region 1]` at most: `[region d]`."""
        return np.asarray(np.minimum(sizes * most, np.sqrt(self.spec.d_model)) * _SLACK)

    def activated(self, arguments: Floats) -> Floats:
        units = ACTIVATION_UNITS[self.spec.act_fn]
        return np.asarray((units * _U * arguments + _TINY) * _SLACK)

    def opened(self, sizes: Floats) -> Floats:
        """A gate times what it lets through, and a bias: at most so large together."""
        reach = np.where(sizes < _LARGEST, sizes, np.nan)
        return np.asarray((gamma(3) * reach + _TINY) * _SLACK)

    def ends(self, rounded: Rounded, posts: Floats | None) -> Ends:
        """What is rounded after the activations, whose sizes are `posts [region neuron]`."""
        sizes, added = rounded.sizes, np.zeros_like(rounded.sizes)
        if posts is not None:
            reach = (sizes + posts @ self._out + self._bias) * _SLACK
            reach = np.where(reach < _LARGEST, reach, np.nan)
            added = (gamma(len(self._out) + 4) * reach + len(self._out) * _TINY) * _SLACK
            sizes = reach + added
        if not self.spec.final_norm:
            return Ends(added, sizes, np.zeros_like(sizes), np.zeros_like(sizes))
        taken = self.centred(sizes)
        mean = added.mean(-1, keepdims=True) * float(self.spec.centred_norm)
        return Ends(added, sizes, taken, (added + mean + taken) * _SLACK)


def gamma(terms: int) -> float:
    """What a sum of so many terms may be off by, relative to the sum of their sizes."""
    reach = terms * _U
    return reach / (1 - reach) * _SLACK if reach < 0.25 else np.nan
