"""What the circuit probe finds: how small a part of the model does what the model does."""

from __future__ import annotations

from typing import ClassVar

from tsc_interp.results.base import LabeledArray, ProbeResult, Record, Table


class Choice(Record):
    """The best circuit found of one size."""

    size: int
    kept: tuple[str, ...]
    vectors: int
    """How many count vectors up to `max_length` it answers differently than the model; exact."""
    differing: str
    """How many strings those are; exact."""
    first: str | None
    """The shortest of them."""


class Circuit(Record):
    """The smallest choice that answers every string up to `max_length` as the model does."""

    kept: tuple[str, ...]
    removed: tuple[str, ...]
    agree_through: int | None = 0
    """Proved by the checker: alike on every string up to this length; None is every length."""
    first_difference: str | None = None
    """The first string they answer differently, where that is proved to be the first."""
    statements: tuple[str, ...] = ()
    verified_length: int = 0
    """The circuit's own horizon, as far as the search went."""
    model_verified_length: int = 0
    weight_hash: str = ""


class CircuitResult(ProbeResult):
    probe: ClassVar[str] = "circuit"

    graph: str
    """`edges`, `nodes`, or `values` (of a letter in a head, and neurons)."""
    fill: str
    """What is put in a removed part's place: `zero`, or the mean over which strings."""
    search: str
    """How choices were found: `all of 2,048` or `one at a time`."""
    max_length: int
    strings: str
    """How many strings there are up to that length."""
    vectors: int
    """How many count vectors those are: strings that differ only in order are one."""
    rows: int | None = None
    """On how many rows of tokens it was measured, of a model whose strings cannot all be decided;
    choices then count rows instead of count vectors, and nothing is proved."""
    parts: tuple[str, ...]
    front: tuple[Choice, ...]
    """Larger first; each answers fewer strings differently than any smaller one."""
    circuit: Circuit | None
    scores: LabeledArray
    """`[method part]`: how much each way of ranking thinks of each part."""
    auc: LabeledArray
    """`[method]`: how well the ranking tells the circuit's parts from the others; 0.5 is chance."""
    effects: LabeledArray
    """`[part]`: mean change of the logit when the part alone is removed."""

    @property
    def kinds(self) -> str:
        """What the parts are, in words."""
        return "values and neurons" if self.graph == "values" else self.graph

    @property
    def counted(self) -> str:
        """What answers are counted over."""
        return "count vectors" if self.rows is None else "rows"

    @property
    def over(self) -> str:
        """The same, with how far they go."""
        return self.counted + ("" if self.rows else f" up to {self.max_length} letters")

    def tables(self) -> tuple[Table, ...]:
        front = Table.from_rows(
            "The smallest parts that do what the model does",
            ("size", self.counted, "strings", "the first", "kept"),
            (
                (c.size, c.vectors, c.differing, c.first or "none", ", ".join(c.kept) or "nothing")
                for c in self.front
            ),
        )
        inside = set(self.circuit.kept) if self.circuit else set()
        methods = self.scores.labels["method"]
        ranking = Table.from_rows(
            "How each method ranks the parts",
            ("part", "in the circuit", *methods),
            (
                (part, "yes" if part in inside else "no", *self.scores.array[:, i].tolist())
                for i, part in enumerate(self.parts)
            ),
        )
        return front, ranking


def listed(parts: tuple[str, ...]) -> str:
    """The first few of them by name."""
    shown = ", ".join(parts[:8])
    return shown if len(parts) <= 8 else f"{shown} and {len(parts) - 8} more"
