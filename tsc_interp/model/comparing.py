"""Whether a model taken over says what the original says: both run on the same random strings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_tokens
from tsc_interp.strings import CLS, FIRST_LETTER

_TOLERANCE = 3e-5
"""Of the largest logit: many roundings of float32, far less than another function."""

Reads = Literal["first", "last", "last_letter"]


@dataclass(frozen=True)
class Reading:
    """Which of a model's tokens are letters, where its answer is read, and what it is."""

    ids: tuple[int, ...]
    """Token ids, in the order of our letters."""
    names: tuple[str, ...]
    """What they are called; empty where that is a, b, c, ..."""
    query: int | None
    reads: Reads
    classes: tuple[int, int] | None

    def rows(self, letters: Tensor) -> Tensor:
        """Letters `[batch pos]` as the original's tokens."""
        ids = torch.tensor(self.ids)[letters]
        if self.query is None:
            return ids
        query = torch.full((len(ids), 1), self.query)
        return torch.cat([query, ids] if self.reads == "first" else [ids, query], dim=1)


def compare(
    checkpoint: Checkpoint,
    reading: Reading,
    original: Callable[[Tensor], Tensor],
    samples: int,
    seed: int,
    room: int | None = None,
) -> None:
    """That both say the same of random strings of one to sixteen letters, if there is room.

    `original` takes letters `[batch pos]` and gives outputs `[batch out]`; `room` is how many
    tokens it reads at most, where that is not the number of its positions.
    """
    config = checkpoint.config
    room = config.n_positions or room
    longest = 16 if room is None else max(1, min(16, room - int(config.has_cls)))
    weights = {name: torch.from_numpy(array) for name, array in checkpoint.weights.items()}
    generator = torch.Generator().manual_seed(seed)
    worst, largest = 0.0, 0.0
    for length in range(1, longest + 1):
        shape = (max(1, samples // longest), length)
        letters = torch.randint(0, config.n_letters, shape, generator=generator)
        with torch.no_grad():
            theirs = original(letters)
            ours = forward(config, weights, from_tokens(config, own_rows(config, letters)))
        if reading.classes:
            no, yes = reading.classes
            theirs = theirs[:, yes] - theirs[:, no]
        elif theirs.shape[-1] == 1:
            theirs = theirs[:, 0]
        gap = (ours - theirs).abs().max()
        worst = max(worst, math.inf if bool(gap.isnan()) else float(gap))
        largest = max(largest, float(theirs.abs().max()))
    if not worst <= _TOLERANCE * (1 + largest):
        raise UnsupportedError(
            f"taken over, the model does not compute what the original does: logits differ by "
            f"{worst:.3g} (the largest is {largest:.3g}). Something about it has no counterpart "
            "here, or tokens, query or classes are not what it was trained with"
        )


def own_rows(config: ClassifierConfig, letters: Tensor) -> Tensor:
    """Letters `[batch pos]` as rows of our tokens."""
    rows, cls = letters + FIRST_LETTER, torch.full((len(letters), 1), CLS)
    if config.reads == "first":
        return torch.cat([cls, rows], dim=1)
    return torch.cat([rows, cls], dim=1) if config.reads == "last" else rows
