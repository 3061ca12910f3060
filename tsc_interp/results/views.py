"""How a result shows itself: what stands beside a field says how its numbers are drawn.

    class DistanceResult(ProbeResult):
        probe: ClassVar[str] = "distance"
        relative: Annotated[LabeledArray, Heat("How far letters are apart", "1 is the range.")]

        @shown(Bars("The nearest letter"))
        def nearest(self) -> LabeledArray: ...

Figures, their alternative texts and the tables of reports, terminals and notebooks follow
(`results/drawing.py`). This file only describes, so that a result loads no plotting library.

Titles and captions may name attributes of the result: `"What each {result.unit} adds"`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel


@dataclass(frozen=True)
class View:
    """How one field of a result is shown."""

    title: str
    caption: str = ""
    """How to read the figure, in a sentence or two."""

    figure: ClassVar[bool] = True
    """Whether this kind of view draws a figure, beside its table."""
    table: bool = field(default=True, kw_only=True)
    """Whether the numbers stand in a table too."""
    form: str = field(default=".3g", kw_only=True)
    """How a number is written in the figure and in its alternative text."""
    name: str = field(default="", kw_only=True)
    """A slug for files and anchors; empty for the name of the field."""
    per: tuple[str, ...] = field(default=(), kw_only=True)
    """Axes along which every entry gets a figure of its own."""
    most: int = field(default=32, kw_only=True)
    """Rows or bars that are drawn: of more, those with the largest numbers."""


@dataclass(frozen=True)
class Heat(View):
    """Cells with numbers: the last axis across, all others down. Signed, unless it is a share."""

    share: bool = field(default=False, kw_only=True)
    """Whether the numbers lie between 0 and 1: one colour rather than two."""
    across: str = field(default="", kw_only=True)
    """The axis across, if it is not the last."""
    most_written: int = field(default=9, kw_only=True)
    """With more columns than this, numbers are shown only where one points."""
    missing: str = field(default="", kw_only=True)
    """What stands in a cell that has no number."""
    panels: tuple[str, ...] = field(default=(), kw_only=True)
    """Axes along which every entry gets a panel, side by side in one figure on one scale."""


@dataclass(frozen=True)
class Bars(View):
    """A bar per number, from zero, with the number beside it."""

    x: str = field(default="", kw_only=True)
    wrong: bool = field(default=False, kw_only=True)
    """Whether numbers above zero are errors, hatched and in their colour."""


@dataclass(frozen=True)
class Stack(View):
    """A bar per row, the last axis stacked in it from zero to both sides; a mark is the sum."""

    x: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Lines(View):
    """A line per entry of all axes but one, whose labels are numbers along x."""

    along: str = field(default="", kw_only=True)
    """This axis, if it is not the last."""
    x: str = field(default="", kw_only=True)
    y: str = field(default="", kw_only=True)
    log_x: bool = field(default=False, kw_only=True)
    log_y: bool = field(default=False, kw_only=True)
    marks: bool = field(default=True, kw_only=True)
    """Whether points are marked on the lines; without marks for long series."""


@dataclass(frozen=True)
class Scatter(View):
    """A point per entry of all axes but the last, which holds its coordinates.

    More than two coordinates are shown as the two directions that carry most of the variance.
    """


@dataclass(frozen=True)
class NumberLine(View):
    """A line per entry of all axes but the last, whose labels name points on it."""

    x: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Drawing(View):
    """A figure that a method draws by hand: it returns the figure and its alternative text.

    A third part, if there is one, is added to the caption.
    """

    table: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Each(View):
    """The records of a tuple, each by the views of its own fields."""

    title: str = ""


@dataclass(frozen=True)
class Rows(View):
    """No figure, only a table: of an array, or of a tuple of records, a column for each field."""

    figure: ClassVar[bool] = False
    headings: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Fields of the records, in order, and what their columns are called; empty for all fields."""


class shown(property):
    """Declare how what a method computes from the result's fields is shown.

    The method becomes a property. It may return None where there is nothing to show.
    """

    view: View

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view

    def __call__(self, compute: Callable[[Any], Any]) -> shown:
        made = shown(self.view)
        property.__init__(made, compute, doc=compute.__doc__)
        return made


def views(result_type: type[BaseModel]) -> Iterator[tuple[str, View]]:
    """Yield the name of every shown field and its view: stored fields first, then computed ones."""
    for name, stored in result_type.model_fields.items():
        yield from ((name, view) for view in stored.metadata if isinstance(view, View))
    for base in reversed(result_type.__mro__):
        for name, found in vars(base).items():
            if isinstance(found, shown) and getattr(result_type, name) is found:
                yield name, found.view
