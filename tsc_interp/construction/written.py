"""A classifier that is written down: its checkpoint, and what is promised of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.output.display import Displayed
from tsc_interp.output.numbers import counted
from tsc_interp.strings import LETTERS, MAX_LETTERS
from tsc_interp.tasks.base import Task

LONGEST = 100_000
"""Beyond it the step from one length to the next is lost in the rounding of float32 weights."""

_NAMES = {
    "W_E": "embed.W_E",
    **{f"W_{part}": f"blocks.0.attn.W_{part}" for part in "QKVO"},
    "W_in": "blocks.0.mlp.W_in",
    "W_out": "blocks.0.mlp.W_out",
    "W_U": "unembed.W_U",
}


@dataclass(frozen=True, repr=False)
class Construction(Displayed):
    """It stands for its model wherever one is expected: `tsc.certify(tsc.construct(...))`."""

    checkpoint: Checkpoint
    how: str
    """The idea, in a sentence."""
    length: int | None
    """Right up to this length; None: at every length."""
    exactly: bool
    """Whether a string of the next length is wrong, so that `length` is the horizon."""

    def to_checkpoint(self) -> Checkpoint:
        """Return the classifier as a checkpoint."""
        return self.checkpoint

    @property
    def promise(self) -> str:
        """The claim that the certificate proves, as a sentence."""
        if self.length is None:
            return "right on every string of every length"
        word = "exactly" if self.exactly else "at least"
        return f"right on every string up to {word} {self.length:,} letters"

    def shape(self) -> str:
        """`1 dimension, 1 head, 1 neuron, 12 weights, the largest 22`."""
        config, largest = self.checkpoint.config, self.largest_weight
        neurons = f", {counted(config.d_mlp, 'neuron')}" if config.has_mlp else ""
        return (
            f"{counted(config.d_model, 'dimension')}, {counted(config.n_heads, 'head')}"
            f"{neurons}, {self.checkpoint.n_parameters} weights, the largest {largest:.3g}"
        )

    @property
    def largest_weight(self) -> float:
        """The largest weight in absolute value."""
        return max(float(np.abs(weight).max()) for weight in self.checkpoint.weights.values())

    def _facts(self) -> list[str]:
        return [self.checkpoint.config.task.describe(), self.shape(), self.promise]

    def to_dict(self) -> dict[str, Any]:
        """Return the construction as JSON types."""
        return {
            "config": self.checkpoint.config.model_dump(mode="json"),
            "how": self.how,
            "promise": self.promise,
            "length": self.length,
            "exactly": self.exactly,
            "parameters": self.checkpoint.n_parameters,
            "largest_weight": self.largest_weight,
            "weight_hash": self.checkpoint.weight_hash(),
        }


def one_head(task: Task, n_letters: int, **options: Any) -> ClassifierConfig:
    """One dimension, one head of size one and no MLP, unless the options say otherwise."""
    small = {"d_model": 1, "n_heads": 1, "d_head": 1, "d_mlp": 0}
    return ClassifierConfig(n_letters=n_letters, task=task, **{**small, **options})


def written(
    config: ClassifierConfig,
    weights: Mapping[str, ArrayLike],
    how: str,
    length: int | None,
    exactly: bool = False,
) -> Construction:
    """Weights by their short names, rounded to float32; those not named are zero."""
    shapes = config.weight_shapes()
    full = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    for short, given in weights.items():
        name = _NAMES[short]
        full[name] = np.asarray(given, dtype=np.float32).reshape(shapes[name])
    provenance = {"constructed": how}
    return Construction(Checkpoint(config, full, provenance, "constructed"), how, length, exactly)


def embedding(config: ClassifierConfig, cls: ArrayLike, letters: Mapping[str, ArrayLike]) -> Any:
    """Rows for CLS and for some letters; PAD and all the others are zero."""
    rows = np.zeros((config.alphabet.vocab_size, config.d_model))
    rows[0] = cls
    for letter, row in letters.items():
        rows[2 + config.alphabet.index(letter)] = row
    return rows


def checked_length(length: object, shortest: int) -> int:
    if type(length) is not int or not shortest <= length <= LONGEST:
        raise UsageError(
            f"a model can be written for lengths from {shortest} to {LONGEST:,}, not {length!r}"
        )
    return length


def checked_letters(n_letters: int | None, letters: str) -> int:
    """The size of the alphabet: by default three, or as many as it takes to have these letters."""
    least = 1 + max(LETTERS.index(letter) for letter in letters)
    if n_letters is None:
        return max(least, 3)
    if type(n_letters) is not int or not least <= n_letters <= MAX_LETTERS:
        raise UsageError(
            f"this task needs an alphabet of {least} to {MAX_LETTERS} letters, not {n_letters!r}"
        )
    return n_letters
