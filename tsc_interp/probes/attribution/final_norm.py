"""The read-out as the residual stream meets it, through the final norm if there is one.

A norm divides a row by its scale s, after taking out the row's mean if it is a LayerNorm, and then
multiplies by a gain g and adds a shift b. With s as it was in the forward pass, what a direction w
reads of a part x is therefore linear: u·x / s with u = g w, less its mean for a LayerNorm; and w·b
is read whatever stands there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tsc_interp.errors import UnsupportedError
from tsc_interp.interventions.norms import norm_weights
from tsc_interp.probes.running import Floats, Pass, as_array

TOLERANCE = 1e-4
CHECKED = 16
"""Outputs of the model that are recomputed to see that the norm was understood."""


@dataclass(frozen=True)
class ReadOut:
    """A read-out direction, as the residual stream before the norm meets it."""

    direction: Floats
    """`[row d_model]`."""
    scale: Floats | None = None
    """`[row]`: what the norm divided each row by; None without a norm."""
    shift: Floats | None = None
    """`[row]`: what the norm's shift adds."""

    def scaled(self, x: Floats) -> Floats:
        """`[row ...]` divided by the row's scale."""
        return x if self.scale is None else x / self.scale.reshape(-1, *[1] * (x.ndim - 1))

    def of(self, x: Floats) -> Floats:
        """`[row]`: what is read of a vector `[row d_model]`."""
        return self.scaled((x * self.direction).sum(-1))


def through_final_norm(model: Any, run: Pass, w: Floats) -> ReadOut:
    """`w`, a direction for each row, as it is where the model has no final norm."""
    if "ln_final.hook_scale" not in run.cache:
        if run.config is None and getattr(model.cfg, "normalization_type", None):
            raise UnsupportedError(
                "this model has norms but shows no ln_final.hook_scale, so the final norm's effect "
                "on the read-out is not known; layer=N reads the residual stream after layer N"
            )
        return ReadOut(w)
    last = run.at_query(f"blocks.{model.cfg.n_layers - 1}.hook_resid_post")
    scale = run.at_query("ln_final.hook_scale").reshape(len(last))
    *weights, offset = norm_weights(getattr(model, "ln_final", None))
    gain, shift = (None if weight is None else as_array(weight) for weight in weights)
    centred = _centred(model, run, last, scale)

    def fold(w: Floats) -> Floats:
        u = w if gain is None else (gain + offset) * w
        return np.asarray(u - u.mean(axis=-1, keepdims=True) if centred else u)

    _check(model, run, last, fold, scale, shift)
    return ReadOut(fold(w), scale, None if shift is None else w @ shift)


def _centred(model: Any, run: Pass, last: Floats, scale: Floats) -> bool:
    """Which norm it is: the one that has this scale."""
    eps = float(getattr(model.cfg, "eps", 1e-5))
    allowed = max(TOLERANCE, 8 * run.epsilon(f"blocks.{model.cfg.n_layers - 1}.hook_resid_post"))
    for centred in (True, False):
        x = last - last.mean(axis=1, keepdims=True) if centred else last
        if np.allclose(np.sqrt((x * x).mean(axis=1) + eps), scale, rtol=allowed):
            return centred
    raise UnsupportedError(
        "the final norm's scale is neither a LayerNorm's nor an RMS norm's of the residual stream "
        "after the last layer, so the read-out cannot be divided into parts"
    )


def _check(
    model: Any, run: Pass, last: Floats, fold: Any, scale: Floats, shift: Floats | None
) -> None:
    """Recompute a few of the model's own logits: was the norm understood?"""
    unembedding, logits = getattr(model, "W_U", None), run.logits
    capped = float(getattr(model.cfg, "output_logits_soft_cap", None) or -1.0) > 0
    if run.config is not None or capped or unembedding is None or logits is None:
        return
    columns = as_array(unembedding[:, :CHECKED])
    bias = getattr(model, "b_U", None)
    constant = 0.0 if bias is None else as_array(bias)[:CHECKED]
    constant = constant + (0.0 if shift is None else shift @ columns)
    ours = last @ fold(columns.T).T / scale[:, None] + constant
    actual = as_array(logits[:, : columns.shape[1]])
    allowed = max(TOLERANCE, 16 * run.epsilon(f"blocks.{model.cfg.n_layers - 1}.hook_resid_post"))
    worst = float(np.abs(ours - actual).max())
    if not worst <= allowed * max(1.0, float(np.abs(actual).max()), np.abs(last).max()):
        raise UnsupportedError(
            f"the final norm and W_U give logits that differ by {worst:.3g} from the model's, so "
            "something else stands between the residual stream and the logits"
        )
