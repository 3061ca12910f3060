"""What is taken apart: a direction that is given, one logit, or an answer's lead over the next.

With three outputs or more a logit by itself says little, because only differences decide. The
answer's logit less the largest of the others is positive exactly where the answer is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tsc_interp.errors import UsageError
from tsc_interp.probes.rows import answers_of
from tsc_interp.probes.running import Floats, Pass, as_array, readout_direction

if TYPE_CHECKING:
    from torch import Tensor

Answer = int | Sequence[int]


@dataclass(frozen=True)
class Target:
    direction: Floats
    """`[row d_model]`."""
    bias: Floats | None = None
    """`[row]`: what the output bias adds to it; None where a direction was given."""
    answers: tuple[str, ...] = ()
    """`7 over 3`, for each row, where it is an answer's lead."""


def target(
    model: Any,
    run: Pass,
    direction: ArrayLike | Tensor | None,
    answer: Answer | None,
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
    return Target(
        columns[:, chosen].T - columns[:, other].T,
        bias[chosen] - bias[other],
        tuple(
            f"{_name(model, run, int(a), outputs)} over {_name(model, run, int(b), outputs)}"
            for a, b in zip(chosen, other, strict=True)
        ),
    )


def _name(model: Any, run: Pass, output: int, outputs: int) -> str:
    """A token's name where outputs are tokens, else its number."""
    if run.config is None and outputs == getattr(model.cfg, "d_vocab", None):
        return run.names([output])[0]
    return str(output)
