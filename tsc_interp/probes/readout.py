"""What is read from the residual stream: along which direction, and through the final norm.

A norm divides a row by its scale s, after taking out the row's mean if it is a LayerNorm, and then
multiplies by a gain g and adds a shift b. With s as it was in the forward pass, what a direction w
reads of a part x is therefore linear: u·x / s with u = g w, less its mean for a LayerNorm; and w·b
is read whatever stands there.

With three outputs or more a logit by itself says little, because only differences decide. The
answer's logit less the largest of the others is positive exactly where the answer is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.probes.inputs import (
    Floats,
    Inputs,
    Pass,
    as_array,
    readout_direction,
)
from tsc_interp.probes.token_rows import answers_of

if TYPE_CHECKING:
    from torch import Tensor

Answer = int | Sequence[int]
TOLERANCE = 1e-4
CHECKED = 16
"""Outputs of the model that are recomputed to see that the norm was understood."""


@dataclass(frozen=True)
class Target:
    """What is read: a direction that is given, one logit, or an answer's lead over the next."""

    direction: Floats
    """`[row d_model]`."""
    bias: Floats | None = None
    """`[row]`: what the output bias adds to it; None where a direction was given."""
    answers: tuple[str, ...] = ()
    """`7 over 3`, for each row, where it is an answer's lead."""


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


def readouts(inputs: Inputs) -> Floats:
    """`[row]`: what the last layer's residual stream says in the direction, norm included."""
    w, model = inputs.direction, inputs.model
    assert w is not None
    last = f"blocks.{model.cfg.n_layers - 1}.hook_resid_post"
    run = inputs.run(last, "ln_final.hook_scale")
    seen = through_final_norm(model, run, np.tile(w, (len(run.rows), 1)))
    readout = seen.of(run.at_query(last))
    return readout if seen.shift is None else readout + seen.shift


def target(
    model: Any, run: Pass, direction: ArrayLike | Tensor | None, answer: Answer | None
) -> Target:
    """By default of a multiclass classifier the right class, of another model what it answers."""
    rows = len(run.rows)
    if direction is not None and answer is not None:
        raise UsageError("a direction or an answer can be attributed; give one of them")
    given = readout_direction(model, direction)
    if given is not None and answer is None:
        alone = direction is None and run.config is not None and run.config.biases
        bias = np.full(rows, as_array(model.b_U)[0]) if alone else None
        return Target(np.tile(given, (rows, 1)), bias)
    columns = getattr(model, "W_U", None)
    if columns is None or run.logits is None:
        raise UsageError(
            "attribution needs a read-out direction, a vector of length d_model: this model has "
            "no W_U to take one from"
        )
    columns, logits = as_array(columns), as_array(run.logits).reshape(rows, -1)
    outputs = logits.shape[1]
    answers = logits.argmax(axis=1) if run.config is None else run.config.classes(run.rows)
    chosen = answers_of(answer, np.asarray(answers), outputs)
    b_U = getattr(model, "b_U", None)
    bias = np.zeros(outputs) if b_U is None else as_array(b_U)
    if outputs == 1:
        return Target(np.tile(columns[:, 0], (rows, 1)), bias[chosen])
    others = logits.copy()
    others[np.arange(rows), chosen] = -np.inf
    other = others.argmax(axis=1)
    are_tokens = run.config is None and outputs == getattr(model.cfg, "d_vocab", None)

    def named(output: int) -> str:
        return run.names([output])[0] if are_tokens else str(output)

    return Target(
        columns[:, chosen].T - columns[:, other].T,
        bias[chosen] - bias[other],
        tuple(f"{named(int(a))} over {named(int(b))}" for a, b in zip(chosen, other, strict=True)),
    )


def through_final_norm(model: Any, run: Pass, w: Floats) -> ReadOut:
    """`w`, a direction for each row, as it is where the model has no final norm."""
    if "ln_final.hook_scale" not in run.cache:
        if run.config is None and getattr(model.cfg, "normalization_type", None):
            raise UnsupportedError(
                "this model has norms but shows no ln_final.hook_scale, so the final norm's effect "
                "on the read-out is not known; layer=N reads the residual stream after layer N"
            )
        return ReadOut(w)
    from tsc_interp.interventions.norms import norm_weights

    name = f"blocks.{model.cfg.n_layers - 1}.hook_resid_post"
    last, rounding = run.at_query(name), run.epsilon(name)
    scale = run.at_query("ln_final.hook_scale").reshape(len(last))
    *weights, offset = norm_weights(getattr(model, "ln_final", None))
    gain, shift = (None if weight is None else as_array(weight) for weight in weights)
    centred = _centred(model, last, scale, max(TOLERANCE, 8 * rounding))

    def fold(w: Floats) -> Floats:
        u = w if gain is None else (gain + offset) * w
        return np.asarray(u - u.mean(axis=-1, keepdims=True) if centred else u)

    unembedding = getattr(model, "W_U", None)
    capped = float(getattr(model.cfg, "output_logits_soft_cap", None) or -1.0) > 0
    if run.config is None and not capped and unembedding is not None and run.logits is not None:
        columns = as_array(unembedding[:, :CHECKED])
        bias = getattr(model, "b_U", None)
        constant = 0.0 if bias is None else as_array(bias)[:CHECKED]
        constant = constant + (0.0 if shift is None else shift @ columns)
        ours = last @ fold(columns.T).T / scale[:, None] + constant
        actual = as_array(run.logits[:, : columns.shape[1]])
        worst, size = np.abs(ours - actual).max(), max(np.abs(actual).max(), np.abs(last).max())
        if not worst <= max(TOLERANCE, 16 * rounding) * max(1.0, float(size)):
            raise UnsupportedError(
                f"the final norm and W_U give logits that differ by {worst:.3g} from the model's, "
                "so something else stands between the residual stream and the logits"
            )
    return ReadOut(fold(w), scale, None if shift is None else w @ shift)


def _centred(model: Any, last: Floats, scale: Floats, allowed: float) -> bool:
    """Which norm it is: the one that has this scale."""
    eps = float(getattr(model.cfg, "eps", 1e-5))
    for centred in (True, False):
        x = last - last.mean(axis=1, keepdims=True) if centred else last
        if np.allclose(np.sqrt((x * x).mean(axis=1) + eps), scale, rtol=allowed):
            return centred
    raise UnsupportedError(
        "the final norm's scale is neither a LayerNorm's nor an RMS norm's of the residual stream "
        "after the last layer, so the read-out cannot be divided into parts"
    )
