"""What `tsc.falsify` returns: frozen data that never sees a model again.

Three words have three meanings. **Found**: a wrong input is known. **Enumerated**: every input of
the frame was decided, so the counts are exact. **Proved**: this one input is wrong in exact
arithmetic. A search that finds nothing says what it tried, and nothing about the rest.
"""

from __future__ import annotations

from typing import Any, Self

from tsc_interp.output.display import Displayed, Grid
from tsc_interp.results.arrays import LabeledArray, Number, Record
from tsc_interp.results.base import Finding, Table
from tsc_interp.results.intervals import share_interval, told_share
from tsc_interp.results.views import Bars


class Rate(Displayed, Record):
    """The share of wrong answers among random inputs, with Clopper and Pearson's 95 % interval.

    Example:
        >>> Rate(of="all inputs", wrong=3, tried=1000)
        <Rate: all inputs, 3 of 1,000 (0.30%, 95% CI 0.06% to 0.87%)>
    """

    of: str
    """Of which inputs."""
    wrong: int
    tried: int

    @property
    def share(self) -> float:
        """Wrong answers per input tried; NaN where none was."""
        return self.wrong / self.tried if self.tried else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """The interval's ends."""
        low, high = share_interval(self.wrong, self.tried)
        return low, high

    def __float__(self) -> float:
        return self.share

    def _facts(self) -> list[str]:
        return [self.of, told_share(self.wrong, self.tried, digits=2)]


class Tried(Record):
    """One kind of inputs: how many were tried, and how many of them were wrong."""

    name: str
    tried: int
    wrong: int


class Enumerated(Record):
    """Exact counts over every input of the frame.

    `in_float64` are decided by a float64 pass whose rounding bound is smaller than their margin,
    `in_balls` by ball arithmetic; `undecided` are ties, or too near to one.
    """

    inputs: int
    wrong: int
    undecided: int
    in_float64: int
    in_balls: int
    complete: bool
    """False where time ran out: then the counts are about the first `inputs` of the frame."""

    @property
    def proves_right(self) -> bool:
        """Whether every input of the frame is right."""
        return self.complete and not self.wrong and not self.undecided


class Falsification(Displayed, Record):
    """The simplest wrong input found, and what the search tried.

    Example:
        >>> import tsc_interp as tsc
        >>> found = tsc.falsify("walkthrough", frame="[0] x{1..9}; x=2..4; read=0", tries=0)
        >>> found.found, found.tokens, "proves nothing" in found.findings[0].text
        (False, None, True)
    """

    model: str
    frame: str
    """In its notation."""
    tokens: tuple[int, ...] | None
    """The simplest wrong input known, fixed tokens included; None where none was found."""
    text: str | None
    label: int | tuple[int, ...] | None
    answer: int | tuple[int, ...] | None
    """What the model says by its own forward pass."""
    margin: Number | None
    """The labelled output minus the largest other one, in float32."""
    original_reads: int | None = None
    """The most tokens that the model, or the original of an imported one, accepts, if known."""
    proved: bool
    """Whether ball arithmetic decided that this input is wrong."""
    not_proved: str | None
    """Why not, where an input was found and not proved."""
    tried: int
    families: tuple[Tried, ...]
    """In the order tried; an input may be tried twice."""
    error_rate: Rate
    by_class: tuple[Rate, ...]
    by_length: tuple[Rate, ...]
    by_place: tuple[Rate, ...]
    """One letter changed at this place so that the label changes: how often the answer is wrong.
    Made of inputs of every class, not drawn uniformly from the frame."""
    enumerated: Enumerated | None
    mechanism: tuple[Finding, ...] = ()
    """Which part of a TransformerLens model makes it wrong on `tokens`, by its probes."""
    examples: tuple[tuple[int, ...], ...] = ()
    """The input and others of every class, as long as it and as the model reads them, for probes.
    Where none was found: others alone."""
    position: int | None = None
    """Where the examples are read: the first position whose answer is wrong."""
    stopped: str
    """Why it ended."""
    seed: int
    findings: tuple[Finding, ...] = ()

    @property
    def original_accepts(self) -> bool | None:
        """Whether the original accepts the wrong input; None if that is not known."""
        if self.original_reads is None or self.tokens is None:
            return None
        return len(self.tokens) <= self.original_reads

    @property
    def found(self) -> bool:
        """Whether a wrong input is known."""
        return self.tokens is not None

    def tables(self) -> tuple[Table, ...]:
        """Return tables of what was tried and of the error rates."""
        columns = ("inputs", "wrong", "tried", "share", "95 % from", "to")
        tables = [
            Table(
                title="What was tried",
                columns=("kind of input", "tried", "wrong"),
                rows=tuple((family.name, family.tried, family.wrong) for family in self.families),
            )
        ]
        groups = {
            "Error rate": (self.error_rate, *self.by_class, *self.by_length),
            "One letter changed, so that the label changes": self.by_place,
        }
        for title, rates in groups.items():
            rows = tuple(
                (rate.of, rate.wrong, rate.tried, rate.share, *rate.interval)
                for rate in rates
                if rate.tried
            )
            if rows:
                tables.append(Table(title=title, columns=columns, rows=rows))
        return tuple(tables)

    def figures(self) -> Any:
        """Return bar charts of the error rates, by class, length and place."""
        from tsc_interp.plots.figure import Figures
        from tsc_interp.results.drawing import draw

        drawn = []
        for name, (title, rates) in {
            "by-place": (
                "Wrong where one letter changes the label",
                self.by_place,
            ),
            "by-class": ("Wrong answers by class", self.by_class),
            "by-length": ("Wrong answers by length", self.by_length),
        }.items():
            if measured := [rate for rate in rates if rate.tried]:
                shares = LabeledArray.of(
                    [rate.share for rate in measured], inputs=[rate.of for rate in measured]
                )
                how = Bars(title, x="share answered wrong", wrong=True, form=".0%", name=name)
                drawn += draw(shares, how, name)
        return Figures(drawn)

    def to_dict(self) -> dict[str, Any]:
        return {**self.model_dump(mode="json"), "original_accepts": self.original_accepts}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        known = {name: value for name, value in data.items() if name != "original_accepts"}
        return cls.model_validate(known)

    def _facts(self) -> list[str]:
        if self.enumerated is not None and self.enumerated.proves_right:
            return [f"proved: none of all {self.enumerated.inputs:,} inputs is wrong"]
        if not self.found:
            return [f"no wrong input among {self.tried:,} tried"]
        how = "proved" if self.proved else "not proved"
        return [f"{self.text}: label {self.label}, answer {self.answer} ({how})"]

    def _lines(self) -> list[tuple[str, str]]:
        return [(finding.severity, finding.text) for finding in self.findings]

    def _grids(self) -> list[Grid]:
        return [Grid(table.title, table.columns, table.rows) for table in self.tables()]
