"""The float32 claim: what the model itself, not its real-number idealisation, says of a string.

A proof here is about real numbers. Rounding in the float32 model can flip a logit that is closer to
zero than its own error, so each counterexample is also given to the model: token by token
when it is short enough to write out, in compressed form otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.output.display import PLAIN, Line
from tsc_interp.verification.horizon_result import Counterexample

MAX_REPLAY_TOKENS = 1000


@dataclass(frozen=True)
class Replay:
    """One counterexample, answered by the float32 model."""

    string: str
    form: str
    logit: float
    label: int
    also_wrong: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def replay_lines(replays: tuple[Replay, ...]) -> Iterator[Line]:
    """How the float32 model answers, in sentences."""
    differing = [replay for replay in replays if not replay.also_wrong]
    yield (
        PLAIN,
        f"The float32 model gets {len(replays) - len(differing)} of these {len(replays)} "
        f"counterexamples wrong too.",
    )
    for replay in differing:
        yield PLAIN, f"  it differs on {replay.string}: float32 logit {replay.logit:+.4g}"


def replay_all(model: ModelLike, errors: Iterable[Counterexample]) -> tuple[Replay, ...]:
    """Each counterexample once, through the model itself."""
    import torch

    from tsc_interp.model.classifier import open_classifier

    classifier = open_classifier(model)
    replays = []
    for error in dict.fromkeys(errors):
        short = error.length <= MAX_REPLAY_TOKENS
        inputs = classifier.tokens(error.string) if short else classifier.compressed(error.string)
        with torch.no_grad():
            outputs = np.atleast_1d(classifier(inputs)[0].numpy())
        form = "tokens" if short else "compressed"
        logit, answer = _answered(outputs, error)
        replays.append(Replay(error.string, form, logit, error.label, answer != error.label))
    return tuple(replays)


def _answered(outputs: NDArray[np.float32], error: Counterexample) -> tuple[float, int]:
    """The logit (of more than two classes the right one's margin) and the class it says."""
    if error.multiclass:
        others = np.delete(outputs, error.label)
        return float(outputs[error.label] - others.max()), int(outputs.argmax())
    logit = float(outputs[-1] - outputs[0]) if len(outputs) == 2 else float(outputs[0])
    return logit, int(logit > 0)
