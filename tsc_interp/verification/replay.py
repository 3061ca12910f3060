"""The float32 claim: what the model itself, not its real-number idealisation, says of a string.

A proof here is about real numbers. Rounding in the float32 model can flip a logit that is closer to
zero than its own error, so each counterexample is also put to the model: token by token
when it is short enough to write out, in compressed form otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.verification.horizons import Counterexample

MAX_REPLAY_TOKENS = 1000


@dataclass(frozen=True)
class Replay:
    """One counterexample put to the float32 model."""

    string: str
    form: str
    logit: float
    label: int
    also_wrong: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def replay_all(model: ModelLike, found: Iterable[Counterexample]) -> tuple[Replay, ...]:
    """Each counterexample once, through the model itself."""
    import torch

    from tsc_interp.model.classifier import open_classifier

    classifier = open_classifier(model)
    replays = []
    for one in dict.fromkeys(found):
        short = one.length <= MAX_REPLAY_TOKENS
        given = classifier.tokens(one.string) if short else classifier.compressed(one.string)
        with torch.no_grad():
            outputs = np.atleast_1d(classifier(given)[0].numpy())
        form = "tokens" if short else "compressed"
        logit, answer = _answered(outputs, one)
        replays.append(Replay(one.string, form, logit, one.label, answer != one.label))
    return tuple(replays)


def _answered(outputs: NDArray[np.float32], one: Counterexample) -> tuple[float, int]:
    """The logit (of several classes the right one's margin) and the class it says."""
    if one.several:
        others = np.delete(outputs, one.label)
        return float(outputs[one.label] - others.max()), int(outputs.argmax())
    logit = float(outputs[-1] - outputs[0]) if len(outputs) == 2 else float(outputs[0])
    return logit, int(logit > 0)
