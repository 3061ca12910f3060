"""What the patterns probe measures: attention weights, string by string and on average."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.results.base import LabeledArray, ProbeResult, Record, Table, named_heads

HABITS = {
    "itself": "itself",
    "previous": "the previous position",
    "first": "the first position",
    "same": "other places with the same token",
    "after same": "the place after an earlier copy of its token",
    "mirror": "the place as far from the end as it is from the start",
}
"""Places a head may attend to, by what they have to do with the place it attends from."""
UNIFORM = 0.02
"""A head whose weights are nearer than this to equal ones, on average, prefers nothing."""


class StringPattern(Record):
    """One string (or row of token ids), and every head's weights in it."""

    name: str
    tokens: tuple[str, ...]
    reads: int
    """The position whose state becomes the answer."""
    weights: LabeledArray
    """`[layer head query key]`: from each position to each position, in five decimals."""


class PatternsResult(ProbeResult):
    probe: ClassVar[str] = "patterns"

    n_layers: int
    rows: int
    """How many strings the averages are over."""
    strings: tuple[StringPattern, ...]
    """The strings kept one by one."""
    by_token: LabeledArray
    """`[layer head from to]`: the mean weight a token gives all copies of another."""
    by_position: LabeledArray | None
    """`[layer head query key]`: the mean over the strings that have both positions."""
    focus: LabeledArray
    """`[layer head]`: how far weights are from equal ones, 0 (equal) to 1 (all on one of many)."""
    habits: LabeledArray | None
    """`[layer head habit]`: the mean weight on the places that HABITS describes."""
    by_chance: LabeledArray | None
    """`[habit]`: the same of equal weights; 0 where no position has such a place."""

    @property
    def heads(self) -> list[tuple[int, int, str]]:
        """Of every head its place in the arrays, layer first, and its name."""
        return named_heads(self.n_layers, self.focus)

    def uniform(self, i: int, h: int) -> bool:
        return bool(self.focus.array[i, h] < UNIFORM)

    def habit(self, i: int, h: int) -> tuple[str, float, float] | None:
        """The habit that explains most of a head's weight, the share, and what equal weights give.

        None unless it explains at least half, and half as much again as equal weights do.
        """
        if self.habits is None or self.by_chance is None:
            return None
        shares, chance = self.habits.array[i, h], self.by_chance.array
        best = int(np.argmax(shares - chance))
        share, even = float(shares[best]), float(chance[best])
        if share < 0.5 or share < 1.5 * even:
            return None
        return self.habits.labels["habit"][best], share, even

    def string(self, name: str) -> StringPattern:
        return next(string for string in self.strings if string.name == name)

    def mean(self, i: int, h: int) -> NDArray[np.float64] | None:
        return None if self.by_position is None else self.by_position.array[i, h]

    def tables(self) -> tuple[Table, ...]:
        names = self.habits.labels["habit"] if self.habits is not None else ()
        shares = self.habits.array if self.habits is not None else np.empty((*self.focus.shape, 0))
        rows = [
            (name, float(self.focus.array[i, h]), *shares[i, h].tolist())
            for i, h, name in self.heads
        ]
        habits = (f"weight on {HABITS[name]}" for name in names)
        columns = ("head", "distance from equal weights", *habits)
        averages = Table.from_rows("Where each head attends, on average", columns, rows)
        labels = self.by_token.labels
        tokens = tuple(
            (name, token, *self.by_token.array[i, h, t].tolist())
            for i, h, name in self.heads
            for t, token in enumerate(labels["from"])
        )
        columns = ("head", "from", *(f"to {token}" for token in labels["to"]))
        return averages, Table.from_rows("Mean weight from token to token", columns, tokens)
