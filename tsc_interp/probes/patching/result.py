"""What the patching probe measures: for each pair, the effect of every patched activation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.results.base import LabeledArray, Pair, ProbeResult, Record, Table, unknown

MOST_ROWS = 60
NOTHING = 1e-6
"""An effect below this is rounding."""
SAME = 1e-5
"""So is a difference between two float32 activations."""


class Site(Record):
    """One kind of activation, patched everywhere it is, one place at a time."""

    name: str
    """TransformerLens's name of it: `resid_pre`, `z`, `pattern_by_pos`, ..."""
    effect: LabeledArray
    """`[layer pos]`, `[layer pos head]`, ...: (patched - corrupted) / (clean - corrupted)."""
    moved: LabeledArray
    """The same shape: by how much the activation itself differs between the two runs."""

    @property
    def same(self) -> NDArray[np.bool_]:
        """Where the activation is the same in both runs, so that there was nothing to patch."""
        return np.asarray((self.moved.array <= SAME) & ~self.changes)

    @property
    def changes(self) -> NDArray[np.bool_]:
        """Where the logit changes."""
        return np.asarray(np.abs(self.effect.array) > NOTHING)


class Patched(Record):
    """One pair, and what patching from its clean into its corrupted run does."""

    pair: Pair
    sites: tuple[Site, ...]

    def place(self, position: int) -> str:
        """What a position is called in this pair."""
        return self.pair.positions[position]

    def site(self, name: str) -> Site:
        for site in self.sites:
            if site.name == name:
                return site
        raise unknown("site", name, [site.name for site in self.sites])

    def has(self, name: str) -> bool:
        return any(site.name == name for site in self.sites)

    def patches(self) -> Iterator[tuple[str, dict[str, str], float]]:
        """Of every patch the site, where, and the effect."""
        for site in self.sites:
            labels = site.effect.labels
            for at in np.ndindex(site.effect.shape):
                where = {d: labels[d][i] for d, i in zip(site.effect.dims, at, strict=True)}
                yield site.name, where, float(site.effect.array[at])


class PatchingResult(ProbeResult):
    probe: ClassVar[str] = "patching"

    by: str
    """`letter` (a position is a kind of token) or `position` (a place in the string)."""
    n_layers: int
    query: int
    """The position the logit is read from; -1 is the last one of each pair."""
    pairs: tuple[Patched, ...]

    def tables(self) -> tuple[Table, ...]:
        return tuple(
            table for patched in self.pairs for table in (_effects(patched), _counts(patched))
        )


def _effects(patched: Patched) -> Table:
    """The largest effects first."""
    pair = patched.pair
    rows = [
        (name, " ".join(f"{dim} {label}" for dim, label in where.items()), effect,
         pair.patched_logit(effect))
        for name, where, effect in patched.patches()
        if abs(effect) > NOTHING
    ]  # fmt: skip
    rows.sort(key=lambda row: -abs(row[2]))
    most = "" if len(rows) <= MOST_ROWS else f", the largest {MOST_ROWS} of {len(rows)}"
    return Table.from_rows(
        f"Patches from {pair.clean} into {pair.corrupted} that change the logit{most}",
        ("activation", "where", "effect", "logit"),
        rows[:MOST_ROWS],
    )


def _counts(patched: Patched) -> Table:
    """Never a silent zero: how many patches did nothing, and why."""
    rows = []
    for site in patched.sites:
        unread = int((~site.changes & ~site.same).sum())
        largest = float(np.abs(site.effect.array).max())
        rows.append((site.name, int(site.same.size), int(site.same.sum()), unread, largest))
    pair = patched.pair
    columns = ("activation", "patches", "same in both runs", "different, but the logit is not",
               "largest effect")  # fmt: skip
    return Table.from_rows(
        f"What was patched from {pair.clean} into {pair.corrupted}", columns, rows
    )
