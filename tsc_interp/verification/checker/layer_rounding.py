"""Bounds the float32 errors after attention, in a model of one layer, for many sets at once.

The assumptions are rounding.py's. trellis_model.py bounds margins for what float32 has of the
residual stream after attention (attention_rounding.py) and adds these errors where they are made:
so each counts only as far as the margin depends on it. With γ(k) = k u / (1 - k u), u = 2^-24:

    a vector whose mean is taken out      γ(d + 3) (|x_i| + the mean of |x|)
    a norm and a linear map               γ(2d + 16) Σ_i (|n_i scale_i| + |shift_i|) |W_ij|, n the
                                          normalised vector: mean square γ(d + 3), its root (which
                                          halves that) 2, division 3, scale and shift 2, and a sum
                                          of d products with a bias γ(d + 2)
    an activation                         a few u of its argument
    W_out, its bias, the residual stream  γ(n + 4) of all sizes in that sum

Arguments and results are sizes in float64, `[set ...]`, none below zero: their own rounding is far
below `_SLACK`. A NaN, or what may overflow, stays NaN. Part of the checker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.verification.checker.attention_rounding import Drift
from tsc_interp.verification.checker.norm_rounding import LEAST_EPS
from tsc_interp.verification.checker.readout import WholeModel
from tsc_interp.verification.checker.rounding import ACTIVATION_UNITS
from tsc_interp.verification.checker.sets import Mask
from tsc_interp.verification.checker.spans import Floats, Span

_U = 2.0**-24
_TINY = 2.0**-110
"""More than all that underflows in one sum, with weights and scales of 1."""
_LARGEST = 2.0**126
_SLACK = 1 + 2.0**-20


class LinearMap:
    """A linear map that reads the residual stream, through a norm or not.

    gain [d out]: |scale| |W|; added [out]: |shift| |W| + |bias|; lost [out]: what underflow counts
    """

    def __init__(self, model: WholeModel, norm: str | None, matrix: str, bias: str | None) -> None:
        config, weights = model.config, model.weights
        wide = np.abs(weights[matrix].astype(np.float64))
        self.d = len(wide)
        scale, shift = np.ones(self.d), np.zeros(self.d)
        if norm is not None and config.learned_norm:
            scale = np.abs(weights[f"{norm}.w"].astype(np.float64))
            if config.centred_norm:
                shift = np.abs(weights[f"{norm}.b"].astype(np.float64))
        self.gain, self.added = scale[:, None] * wide, shift @ wide
        if bias is not None and config.biases:
            self.added = self.added + np.abs(np.asarray(weights[bias], dtype=np.float64))
        self.lost = self.d + (2 + scale) @ wide
        most = np.sqrt(self.d) * self.gain.sum(0) + self.added
        fits = config.norm_eps > LEAST_EPS and bool((most < _LARGEST).all())
        self.safe = 1.0 if norm is None or fits else np.nan

    def heard(self, errors: Floats) -> Floats:
        """What errors of the normalised vector become, before the division: `[set out]`."""
        return np.asarray(errors @ self.gain * _SLACK)

    def off(self, read: Floats, times: Floats | float = 1.0) -> Floats:
        """`[set out]`: what is rounded; `read [set d]` what the norm divides, or has divided.

        Args:
            read: Sizes of what is read, before scale and shift.
            times: What everything is multiplied by.
        """
        reach = read @ self.gain + times * self.added
        reach = np.where(reach < _LARGEST, reach, np.nan) * self.safe
        return np.asarray((gamma(2 * self.d + 16) * reach + _TINY * times * self.lost) * _SLACK)


class Blur:
    """What float32 makes of some sets of inputs; nothing where only the reals are asked about.

    sizes [set d]: at least what float32 has of the residual stream after attention
    """

    def __init__(self, asked: Mask, drifts: Sequence[Drift]) -> None:
        self.asked, self._drifts = asked, drifts
        self.sizes = np.stack([drift.sizes for drift in drifts])

    def along(self, q: Floats) -> Floats:
        """What the residual stream is off by along directions `[set row d]`, or `[1 row d]`."""
        off = np.zeros((len(self.asked), q.shape[1]))
        for drift in {id(drift): drift for drift in self._drifts}.values():
            at = np.array([set_drift is drift for set_drift in self._drifts]) & self.asked
            off[at] = drift.along(q if len(q) == 1 else q[at])
        return off

    def span(self, off: Floats) -> Span:
        """Errors `[set item]` as intervals around zero."""
        off = np.where(self.asked[:, None], off, 0.0)
        return Span(-off, off)


class Ends(NamedTuple):
    """After the activations, `[set d]`.

    added: rounded in W_out's sums and the last addition
    sizes: of the residual stream then
    drift: of what the final norm divides, rounded when the mean is taken out
    state: all that this is off by
    """

    added: Floats
    sizes: Floats
    drift: Floats
    state: Floats

    def outputs(self, outer: LinearMap, read: Floats, scale: Floats) -> Floats:
        """What each output is off by, times the final norm's scale, by which `read` is divided."""
        return outer.off(read, scale) + outer.heard(self.drift)


class LayerRounding:
    """All of one model."""

    def __init__(self, model: WholeModel) -> None:
        self.config: ClassifierConfig = model.config
        config, mlp, gates = self.config, "blocks.0.mlp", None
        if config.has_mlp:
            norm = "blocks.0.ln2" if config.has_norm else None
            late = config.gated_mlp
            self.inner = LinearMap(model, norm, f"{mlp}.W_in", None if late else f"{mlp}.b_in")
            gates = LinearMap(model, norm, f"{mlp}.W_gate", None) if late else None
            self._out = np.abs(model.weights[f"{mlp}.W_out"].astype(np.float64))
            self._bias = np.zeros(config.d_model)
            if config.biases:
                self._bias = np.abs(model.weights[f"{mlp}.b_out"].astype(np.float64))
        self.gates = gates
        norm = "ln_final" if config.final_norm else None
        self.outer = LinearMap(model, norm, "unembed.W_U", "unembed.b_U")

    def centred(self, sizes: Floats) -> Floats:
        """What taking the mean out rounds, where norms do that: `[set d]`."""
        d = self.config.d_model
        reach = (sizes + sizes.mean(-1, keepdims=True)) * _SLACK
        reach = np.where(reach < np.sqrt(_LARGEST / d), reach, np.nan)  # squares are added up
        off = (gamma(d + 3) * reach + _TINY) * _SLACK
        return np.asarray(off * float(self.config.centred_norm))

    def divided(self, sizes: Floats, most: Floats) -> Floats:
        """Sizes after a norm that multiplies by `most [set 1]` at most: `[set d]`."""
        return np.asarray(np.minimum(sizes * most, np.sqrt(self.config.d_model)) * _SLACK)

    def activated(self, arguments: Floats) -> Floats:
        units = ACTIVATION_UNITS[self.config.act_fn]
        return np.asarray((units * _U * arguments + _TINY) * _SLACK)

    def opened(self, sizes: Floats) -> Floats:
        """A gate times what it lets through, and a bias: at most so large together."""
        reach = np.where(sizes < _LARGEST, sizes, np.nan)
        return np.asarray((gamma(3) * reach + _TINY) * _SLACK)

    def ends(self, blur: Blur, posts: Floats | None) -> Ends:
        """What is rounded after the activations, whose sizes are `posts [set neuron]`."""
        sizes, added = blur.sizes, np.zeros_like(blur.sizes)
        if posts is not None:
            reach = (sizes + posts @ self._out + self._bias) * _SLACK
            reach = np.where(reach < _LARGEST, reach, np.nan)
            added = (gamma(len(self._out) + 4) * reach + len(self._out) * _TINY) * _SLACK
            sizes = reach + added
        if not self.config.final_norm:
            return Ends(added, sizes, np.zeros_like(sizes), np.zeros_like(sizes))
        drift = self.centred(sizes)
        mean = added.mean(-1, keepdims=True) * float(self.config.centred_norm)
        return Ends(added, sizes, drift, (added + mean + drift) * _SLACK)


def gamma(terms: int) -> float:
    """What a sum of so many terms may be off by, relative to the sum of their sizes."""
    reach = terms * _U
    return reach / (1 - reach) * _SLACK if reach < 0.25 else np.nan
