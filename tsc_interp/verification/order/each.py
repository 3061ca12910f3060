"""Every input of a model of several layers, decided one by one: `verify` where inputs are few.

The same enumeration as `tsc.falsify(exhaustive=True)`: float64 with a rounding bound, ball
arithmetic for near ties. Inputs of equal beginnings are decided together, so that a causal model
runs these once. What is left when the time is spent is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from time import monotonic
from typing import Any

import numpy as np
import torch

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.enumeration.deciding import LATE, OPEN, WRONG, Deciding, OutOfTime
from tsc_interp.enumeration.network import of_checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.threads import one_thread
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.tasks.audit import inputs_of
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.trellis import Index, Trellis
from tsc_interp.verification.order import found as outcomes
from tsc_interp.verification.order.found import Found
from tsc_interp.verification.order.parts import Part

MOST = 20_000_000
"""Inputs of all parts together."""
_AT_ONCE = 1 << 15


class Each:
    """One model.

    Raises:
        UnsupportedError: The model has a part that has no bounds.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.config, self.deadline = checkpoint.config, inf
        self.deciding = Deciding(of_checkpoint(checkpoint), self._check)

    def _check(self) -> None:
        if monotonic() > self.deadline:
            raise OutOfTime

    def parts(
        self, task: Any, asked: Sequence[tuple[int, int | None]], deadline: float,
        progress: Callable[[float], None] | None = None,
    ) -> list[Part]:  # fmt: skip
        """Decide every (length, step) until then.

        Raises:
            UnsupportedError: There are too many inputs.
        """
        self.deadline = deadline
        trellises = [
            inputs_of(task, self.config.n_letters, length if step is None else step)
            for length, step in asked
        ]
        inputs = [Regions.whole(trellis).counts()[0] for trellis in trellises]
        if sum(inputs) > MOST:
            raise UnsupportedError(
                f"a model of {self.config.n_layers} layers is verified input by input, up to "
                f"{MOST:,} of them, and these are {sum(inputs):,}; tsc.falsify searches models of "
                "any depth for wrong inputs"
            )
        decided, parts = 0, []
        with one_thread():
            for (length, step), trellis, count in zip(asked, trellises, inputs, strict=True):
                groups = []
                for label in trellis.labels:
                    groups.append(Found(trellis.of_label(label)))
                    for many in self._decided(groups[-1], label):
                        decided += many
                        if progress is not None:
                            progress(decided / sum(inputs))
                parts.append(Part(length, step, count, groups))
        return parts

    def _decided(self, found: Found, label: int) -> Iterator[int]:
        """Decide the inputs of one label, block by block; yields the numbers decided."""
        for node, letters in _blocks(found):
            rows, read = self._rows(letters)
            wanted = np.full((len(rows), 1), label)
            try:
                state, _ = self.deciding(rows, (read,), wanted, lambda most: most)
            except OutOfTime:
                return
            wrong, open_ = state == WRONG, (state == OPEN) | (state == LATE)
            if wrong.any():
                instead = self._answers(rows[wrong], read, label)
                found.wrong_inputs.append((letters[wrong].astype(np.int16), instead))
            if open_.any():
                found.undecided_inputs.append(letters[open_].astype(np.int16))
            found.close(np.array([node]), np.array([outcomes.SINGLY]))
            yield len(rows)

    def _rows(self, letters: Index) -> tuple[Index, int]:
        """Rows of tokens, and the position read."""
        rows, cls = letters + FIRST_LETTER, np.full((len(letters), 1), CLS)
        if self.config.reads == "last_letter":
            return rows, letters.shape[1] - 1
        first = self.config.reads == "first"
        return np.hstack([cls, rows] if first else [rows, cls]), 0 if first else rows.shape[1]

    def _answers(self, rows: Index, read: int, label: int | None = None) -> Index:
        """The largest output of each, other than the label's; the lowest of equals."""
        outputs, _ = self.deciding.runner(torch.from_numpy(rows), (read,))
        if label is not None:
            outputs[..., label] = -torch.inf
        answers: Index = outputs[:, 0].argmax(-1).numpy()
        return answers

    def answer(self, string: Sequence[int]) -> int:
        """What the model answers to one string."""
        return int(self._answers(*self._rows(np.array([string], dtype=np.int64)))[0])


def _blocks(found: Found) -> Iterator[tuple[int, Index]]:
    """Nodes of some thousand inputs each, in the order of a dictionary: cuts by letters."""
    waiting = [(0, Regions.whole(found.trellis), 0)]
    while waiting:
        node, region, place = waiting.pop()
        if region.counts()[0] <= _AT_ONCE:
            yield node, _sorted(region.strings()[1])
            continue
        letter = None
        if place in found.trellis.place_of:
            letter = region.least_letter(place)
        inside = None if letter is None else _with(found.trellis, region, place, letter)
        if inside is None:
            waiting.append((node, region, place + 1))
            continue
        stage, column = found.trellis.place_of[place]
        part = found.trellis.stages[stage].letters[:, column] == letter
        masks = list(region.masks)
        masks[stage] = masks[stage] & ~part
        outside = region.with_masks(masks).pruned()[0]
        first, second = found.cut(np.array([node]), np.array([stage]), part[None])[:, 0].tolist()
        waiting += [(second, outside, place), (first, inside, place + 1)]


def _with(trellis: Trellis, region: Regions, place: int, letter: int) -> Regions | None:
    """The inputs with a letter at a place, or None if these are all."""
    stage, column = trellis.place_of[place]
    letters = trellis.stages[stage].letters[:, column]
    if (letters[region.masks[stage][0]] == letter).all():
        return None
    return region.with_letter(place, letter)


def _sorted(rows: Index) -> Index:
    return rows[np.lexsort(rows.T[::-1])]
