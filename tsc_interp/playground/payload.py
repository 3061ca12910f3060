"""What the page is told about a model: its configuration, weights, and Python's own logits.

The reference logits are what this package computes for a fixed set of strings; the page computes
them again and shows the largest difference as a badge.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tsc_interp.checkpoints import Checkpoint, bundled_names
from tsc_interp.checkpoints.checkpoint import SUFFIX
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.checkpoints.run_directory import run_of
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.output.visible import visible
from tsc_interp.playground.circuits import circuit_payload
from tsc_interp.playground.examples import examples
from tsc_interp.playground.sequences import (
    no_map_reason,
    on_counts,
    sequence_examples,
    sequence_payload,
)
from tsc_interp.playground.sums import adds_numbers, decided, sums_payload

History = Mapping[int, Checkpoint]

MAX_PARAMETERS = 100_000
_RANDOM_REFERENCES = 34


def loaded(given: ModelLike) -> Checkpoint:
    """The checkpoint that is meant, if it fits into a page."""
    checkpoint = as_checkpoint(given)
    if checkpoint.n_parameters > MAX_PARAMETERS:
        raise UnsupportedError(
            f"{checkpoint.source} has {checkpoint.n_parameters} parameters; the playground carries "
            f"its model inside the page and takes up to {MAX_PARAMETERS}"
        )
    return checkpoint


def mapped(given: ModelLike) -> Checkpoint:
    """The checkpoint that is meant, if there is a failure map of it."""
    checkpoint = loaded(given)
    reason = no_map_reason(checkpoint.config)
    if reason is not None:
        raise UnsupportedError(reason)
    return checkpoint


def model_payload(
    checkpoint: Checkpoint,
    history: History | None = None,
    *,
    circuit: bool = False,
    seconds: float = 0.0,
    progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """What the page knows about one model.

    With `circuit`, one is searched for if none is known; with `seconds`, all pairs of a model that
    adds are decided.
    """
    strings = reference_strings(checkpoint.config)
    history = history or {}
    on_its_page: dict[str, Any]
    if on_counts(checkpoint.config):
        on_its_page = {"circuit": circuit_payload(checkpoint, search=circuit)}
    elif adds_numbers(checkpoint.config):
        verdict = decided(checkpoint, seconds, progress) if seconds else None
        on_its_page = {"sums": sums_payload(checkpoint.config, verdict)}
    else:
        on_its_page = sequence_payload(checkpoint.config)
    for epoch, version in history.items():
        if getattr(version, "config", None) != checkpoint.config:
            raise UsageError(
                f"epoch {epoch} of the history has another configuration than the model"
            )
    return {
        "name": page_name(checkpoint),
        "source": _source(checkpoint.source),
        "epoch": checkpoint.provenance.get("epoch"),
        # As text, which a checkpoint's file holds to the letter.
        "config": checkpoint.config.to_json(),
        "weights": encoded_weights(checkpoint),
        "examples": shown_examples(checkpoint.config),
        "strings": strings,
        "logits": _logits(checkpoint, strings),
        **on_its_page,
        "history": [
            {
                "epoch": epoch,
                "source": _source(version.source),
                "weights": encoded_weights(version),
                "logits": _logits(version, strings),
            }
            for epoch, version in sorted(history.items())
        ],
    }


def shown_examples(config: ClassifierConfig) -> list[str]:
    """Strings worth trying first, whichever page shows the model."""
    return examples(config) if on_counts(config) else sequence_examples(config)


def blank_payload() -> dict[str, Any]:
    """What the page trains a model of its own from: the source report's configuration."""
    config = ClassifierConfig()
    return {"config": config.to_json(), "examples": examples(config)}


def reference_strings(config: ClassifierConfig) -> list[str]:
    """What the badge is about: the examples, and counts from one to a million, always the same."""
    generator = np.random.default_rng(0)
    if config.needs_order:
        return sequence_examples(config, _RANDOM_REFERENCES)
    magnitudes = generator.uniform(0, 6, (_RANDOM_REFERENCES, config.n_letters))
    counts = np.floor(10**magnitudes).astype(np.int64)
    # Letters are left out at random too, as long as one remains.
    counts *= generator.random(counts.shape) < 0.7
    counts[:, 0] += counts.sum(axis=1) == 0
    return [*shown_examples(config), *(config.alphabet.write(row) for row in counts)]


def encoded_weights(checkpoint: Checkpoint) -> dict[str, str]:
    """The bits of the float32 numbers, in base64: exact, and half as long as decimals."""
    return {
        name: b64encode(np.ascontiguousarray(weight, dtype="<f4").tobytes()).decode()
        for name, weight in checkpoint.weights.items()
    }


def _logits(checkpoint: Checkpoint, strings: Sequence[str]) -> list[Any]:
    """In float64, as the page computes, so that float32 rounding is no part of the difference."""
    import torch

    from tsc_interp.model.forward import forward
    from tsc_interp.model.inputs import from_strings

    config = checkpoint.config
    weights = {name: torch.from_numpy(w).double() for name, w in checkpoint.weights.items()}
    with torch.no_grad():
        logits = forward(config, weights, from_strings(config, config.filled(strings)))
    if not logits.isfinite().all():
        raise UnsupportedError(
            f"{checkpoint.source} has weights so large that its logits are not finite numbers; the "
            "playground cannot show it"
        )
    values: list[Any] = logits.tolist()  # a list per string where there are several outputs
    return values


def page_name(checkpoint: Checkpoint) -> str:
    """What to call the model: a bundled name, a file's stem, or a run's experiment and seed."""
    if checkpoint.source == "memory":
        return "unsaved model"
    path = Path(checkpoint.source)
    if run_and_epoch := run_of(path):
        run = run_and_epoch[0].parts
        return visible("/".join([*run[-3:-2], run[-1]]))
    return visible(path.stem)


def _source(source: str) -> str:
    """What a command would name: a model that was imported is no file."""
    known = source.endswith(SUFFIX) or source in bundled_names() or Path(source).exists()
    return source if known else f"model{SUFFIX}"
