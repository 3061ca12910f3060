"""Wrong regions in words: which letters stand where in all of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest
from typing import Any

from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.writing import Addition
from tsc_interp.verification.order.parts import Part

_MOST = 5
_FEW = 3


def largest_regions(part: Part, task: Any, name: Callable[[int], str]) -> list[tuple[int, str]]:
    """The largest wrong regions of a part: how many inputs, and what they have in common."""
    found = [
        (count, number, regions, instead)
        for group in part.groups
        for regions, instead in group.wrong
        for number, count in enumerate(regions.counts())
    ]
    return [
        (count, f"{described(regions, number, task, name)}: class {int(instead[number])} wins")
        for count, number, regions, instead in nlargest(_MOST, found, key=lambda one: one[0])
    ]


def described(regions: Regions, number: int, task: Any, name: Callable[[int], str]) -> str:
    """For each place where not every letter may stand, those that may (or those that may not)."""
    chain = _carried(regions, number, task) if isinstance(task, Addition) else []
    words = []
    if chain:
        ends = f"digit {chain[0]}" if len(chain) == 1 else f"digits {chain[0]} to {chain[-1]}"
        words.append(f"a + b = {task.base - 1} at {ends} (a carry runs through)")
    for place in range(regions.trellis.length):
        if place not in regions.trellis.place_of:
            continue
        stage, column = regions.trellis.place_of[place]
        letters = regions.trellis.stages[stage].letters[:, column]
        every = set(letters.tolist())
        here = set(letters[regions.masks[stage][number]].tolist())
        if here == every or (stage in chain and len(here) > 1):
            continue
        at = task.place_name(place) if isinstance(task, Writing) else f"place {place}"
        if len(here) <= _FEW or len(every) - len(here) > _FEW:
            words.append(f"{at} is {' or '.join(name(letter) for letter in sorted(here))}")
        else:
            said = " or ".join(name(letter) for letter in sorted(every - here))
            words.append(f"{at} is not {said}")
    return ", ".join(words) or "any input"


def _carried(regions: Regions, number: int, task: Addition) -> list[int]:
    """The longest run of digits whose two operands always add up to one less than the base."""
    best: list[int] = []
    run: list[int] = []
    for digit, (stage, mask) in enumerate(zip(regions.trellis.stages, regions.masks, strict=True)):
        columns = [i for i, at in enumerate(stage.places) if task.place_name(at)[0] in "ab"]
        sums = stage.letters[mask[number]][:, columns].sum(1)
        run = [*run, digit] if (sums == task.base - 1).all() else []
        best = max(best, run, key=len)
    return best
