"""Sets of inputs as paths of a trellis, and the largest mean of a head over all of them.

A head's output along one direction is Σ w y / Σ w over the keys of a path, with weights w > 0. A
number λ is above it on every path exactly if Σ w (y - λ) is at most zero on every path, and the
largest such sum is found by one sweep over the stages. `largest_means` looks for the smallest λ it
can show this of. The search for λ need not be right: what it ends with is a sweep that shows it.

Sweeps are in float64. What a key adds is rounded up, and a sum of n such numbers is off by at most
n units in the last place of the sum of their sizes, which is added at the end: so the sum that is
found is never smaller than the real one. That rests on additions and multiplications of single
numbers being rounded correctly, as IEEE 754 demands. A NaN survives every maximum, so it can only
fail to show something.

Part of the checker (trellis.py): nothing here is taken from the search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.tasks.trellis import Index, Trellis

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_ROUNDS = 80
"""Steps of the search for λ; it takes fewer than ten."""


def up(x: Floats) -> Floats:
    return np.asarray(np.nextafter(x, np.inf))


@dataclass(frozen=True)
class Step:
    """The edges of one stage that lie on a path, in order of the states they lead to."""

    edges: Index
    source: Index
    """Where each comes from, by the order of the states that the last step leads to."""
    starts: Index
    """Where the edges to a new state begin."""


class Paths:
    """The paths through some edges of every stage."""

    def __init__(self, trellis: Trellis, masks: Sequence[Mask]) -> None:
        self.trellis = trellis
        self.masks = _on_paths(trellis, masks)

    @property
    def is_empty(self) -> bool:
        return not self.masks[0].any()

    @cached_property
    def steps(self) -> list[Step]:
        found, before = [], np.zeros(1, dtype=np.int64)
        for stage, mask in zip(self.trellis.stages, self.masks, strict=True):
            edges = np.flatnonzero(mask)
            edges = edges[np.argsort(stage.target[edges], kind="stable")]
            source = np.searchsorted(before, stage.source[edges])
            starts = np.flatnonzero(np.diff(stage.target[edges], prepend=-1))
            found.append(Step(edges, source, starts))
            before = stage.target[edges][starts]
        return found

    def count(self) -> int:
        """How many paths there are."""
        ways: NDArray[Any] = np.ones(1, dtype=object)
        for step in self.steps:
            ways = np.add.reduceat(ways[step.source], step.starts)
        return int(ways.sum())

    def letters_at(self, place: int) -> list[int]:
        """The letters that some path has at a place."""
        for at, letter in self.trellis.fixed:
            if at == place:
                return [letter]
        number, column = self.trellis.place_of[place]
        letters = self.trellis.stages[number].letters[self.masks[number], column]
        return [int(letter) for letter in np.unique(letters)]

    def labels(self) -> list[int]:
        """The labels that some path has."""
        found = self.trellis.label[self.masks[self.trellis.label_stage]]
        return [int(label) for label in np.unique(found)]

    def parted(self, stage: int, chosen: Mask) -> tuple[Paths, Paths]:
        """The paths through the chosen edges of a stage, and the others."""
        inside, outside = list(self.masks), list(self.masks)
        inside[stage], outside[stage] = inside[stage] & chosen, outside[stage] & ~chosen
        return Paths(self.trellis, inside), Paths(self.trellis, outside)

    def strings(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Every path as its letters, and its label."""
        row = dict(self.trellis.fixed)

        def walk(number: int, state: int, label: int) -> Iterator[tuple[tuple[int, ...], int]]:
            if number == len(self.trellis.stages):
                yield tuple(row[place] for place in range(self.trellis.length)), label
                return
            stage = self.trellis.stages[number]
            for edge in np.flatnonzero(self.masks[number] & (stage.source == state)).tolist():
                row.update(zip(stage.places, stage.letters[edge].tolist(), strict=True))
                said = self.trellis.label[edge] if number == self.trellis.label_stage else label
                yield from walk(number + 1, int(stage.target[edge]), int(said))

        yield from walk(0, 0, -1)

    def first(self) -> tuple[int, ...]:
        """The first path in the order of the alphabet."""
        left, found = self, dict(self.trellis.fixed)
        for place in range(self.trellis.length):
            if place in found:
                continue
            number, column = self.trellis.place_of[place]
            letter = found[place] = left.letters_at(place)[0]
            left, _ = left.parted(number, self.trellis.stages[number].letters[:, column] == letter)
        return tuple(found[place] for place in range(self.trellis.length))


def _on_paths(trellis: Trellis, masks: Sequence[Mask]) -> list[Mask]:
    """The edges that lie on a path of chosen edges from the first stage to the last."""
    kept = [np.array(mask, dtype=bool) for mask in masks]
    reached = np.ones(1, dtype=bool)
    for number, stage in enumerate(trellis.stages):
        kept[number] &= reached[stage.source]
        reached = np.zeros(trellis.sizes[number + 1], dtype=bool)
        reached[stage.target[kept[number]]] = True
    for number, stage in reversed(list(enumerate(trellis.stages))):
        kept[number] &= reached[stage.target]
        reached = np.zeros(trellis.sizes[number], dtype=bool)
        reached[stage.source[kept[number]]] = True
    return kept


@dataclass(frozen=True)
class Weights:
    """Ends of one head's weights: of each letter at each place, and of the reader itself.

    `low, high [place letter]`; `own` are both ends for the reader where it attends to itself.
    """

    low: Floats
    high: Floats
    own: tuple[float, float] | None


def largest_means(paths: Paths, weights: Weights, y: Floats, own: Floats) -> Floats:
    """For each row of `y [row place letter]` a number that no path's mean Σ w y / Σ w exceeds.

    Args:
        paths: The inputs.
        weights: The weights of one head.
        y: The highest that values can be.
        own: `[row]` the same for the reader itself; not read where it does not attend to itself.

    Returns:
        A bound per row, NaN where none could be shown.
    """
    bound = np.full(len(y), np.nan)
    used = _used(paths, y)
    trial = used.min(axis=1) if weights.own is None else np.minimum(used.min(axis=1), own)
    scale = np.abs(used).max(axis=1) if weights.own is None else np.abs(used).max(axis=1) + abs(own)
    nudge = 2.0**-50 * scale + 1e-300
    left = np.flatnonzero(np.isfinite(trial) & np.isfinite(used).all(1))
    for _ in range(_ROUNDS):
        if not len(left):
            break
        excess, weight = _sweep(paths, weights, y[left], own[left], trial[left])
        shown = excess <= 0
        bound[left[shown]] = trial[left[shown]]
        with np.errstate(all="ignore"):
            stride = excess[~shown] / weight[~shown]
        left = left[~shown]
        # A little more than Newton's step, so that the last one ends beyond the rounding.
        trial[left] += stride + nudge[left]
        nudge *= 1.5
        left = left[np.isfinite(trial[left])]
    return bound


def _used(paths: Paths, y: Floats) -> Floats:
    """`[row key]`: the values of the keys that some path has."""
    keys: list[Floats] = [y[:, place, letter, None] for place, letter in paths.trellis.fixed]
    for stage, mask in zip(paths.trellis.stages, paths.masks, strict=True):
        letters = stage.letters[mask]
        keys += [
            y[:, place, np.unique(letters[:, column])] for column, place in enumerate(stage.places)
        ]
    return np.concatenate(keys, axis=1)


def _sweep(
    paths: Paths, weights: Weights, y: Floats, own: Floats, level: Floats
) -> tuple[Floats, Floats]:
    """Above the largest Σ w (y - level) of all paths, and about the Σ w of a path that has it."""
    over = up(y - level[:, None, None])
    # Weights are not negative: what is above the level weighs most, what is below least.
    adds = up(np.where(over >= 0, weights.high, weights.low) * over)
    total, mass = np.zeros(len(y)), np.zeros(len(y))
    size = np.abs(adds).max(2).sum(1)
    if weights.own is not None:
        low, high = weights.own
        alone = up(own - level)
        total, mass = up(np.where(alone >= 0, high, low) * alone), mass + high
        size = size + np.abs(total)
    for place, letter in paths.trellis.fixed:
        total, mass = total + adds[:, place, letter], mass + weights.high[place, letter]
    best, heavy = total[:, None], mass[:, None]
    for stage, step in zip(paths.trellis.stages, paths.steps, strict=True):
        letters = stage.letters[step.edges]
        best, heavy = best[:, step.source], heavy[:, step.source]
        for column, place in enumerate(stage.places):
            best = best + adds[:, place, letters[:, column]]
            heavy = heavy + weights.high[place, letters[:, column]]
        highest = np.maximum.reduceat(best, step.starts, axis=1)
        spread = np.repeat(highest, np.diff(np.append(step.starts, len(step.edges))), axis=1)
        heavy = np.maximum.reduceat(np.where(best == spread, heavy, 0.0), step.starts, axis=1)
        best = highest
    last = best.argmax(1)
    # A path has one key per place and perhaps the reader's; twice as much covers this sum, too.
    room = size * (2 * (paths.trellis.length + 1) * 2.0**-52)
    return up(best.max(1) + room), heavy[np.arange(len(y)), last]
