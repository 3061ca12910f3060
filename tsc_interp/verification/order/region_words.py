"""Wrong regions in words: which letters stand where in all of their inputs."""

from __future__ import annotations

from collections.abc import Callable

from tsc_interp.tasks.regions import Regions
from tsc_interp.verification.order.parts import Part

_MOST = 5
_FEW = 3


def largest_regions(part: Part, name: Callable[[int], str]) -> list[tuple[int, str]]:
    """The largest wrong regions of a part: how many inputs, and what they have in common."""
    found: list[tuple[int, str]] = []
    for group in part.groups:
        for regions, instead in group.wrong:
            counts = regions.counts()
            order = sorted(range(len(counts)), key=lambda i: -counts[i])[:_MOST]
            for i in order:
                words = described(regions, i, name)
                found.append((counts[i], f"{words}: class {int(instead[i])} wins"))
    return sorted(found, reverse=True)[:_MOST]


def described(regions: Regions, number: int, name: Callable[[int], str]) -> str:
    """For each place where not every letter may stand, those that may (or those that may not)."""
    words = []
    for place in range(regions.trellis.length):
        if place not in regions.trellis.place_of:
            continue
        stage, column = regions.trellis.place_of[place]
        letters = regions.trellis.stages[stage].letters[:, column]
        every = set(letters.tolist())
        here = set(letters[regions.masks[stage][number]].tolist())
        if here == every:
            continue
        if len(here) <= _FEW or len(every) - len(here) > _FEW:
            said = " or ".join(name(letter) for letter in sorted(here))
            words.append(f"place {place} is {said}")
        else:
            said = " or ".join(name(letter) for letter in sorted(every - here))
            words.append(f"place {place} is not {said}")
    return ", ".join(words) or "any input"
