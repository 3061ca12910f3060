"""What probes share: findings, arrays with labels, tables, and the shape of a result.

A result is frozen data: it never sees a model again, checks itself when made, and survives a trip
through JSON unchanged. Plots and reports are made from results alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from tsc_interp.errors import UsageError, needed
from tsc_interp.output.display import Displayed, Grid
from tsc_interp.output.json_form import from_json
from tsc_interp.output.numbers import Cell
from tsc_interp.results.arrays import LabeledArray, Number, Record, largest
from tsc_interp.results.views import Each, View, views

if TYPE_CHECKING:
    from pandas import DataFrame

    from tsc_interp.plots.figure import Figure, Figures

__all__ = [
    "SEVERITIES", "Cell", "Finding", "HeadsResult", "LabeledArray", "Number",
    "ProbeResult", "Record", "Severity", "Table", "head_name", "largest", "largest_heads",
    "named_heads", "that_hold", "unknown", "worst_first",
]  # fmt: skip

Severity = Literal["good", "note", "warning", "failure"]
SEVERITIES: tuple[Severity, ...] = ("failure", "warning", "note", "good")
"""The worst first."""


def worst_first(finding: Finding) -> int:
    """A key to sort findings by."""
    return SEVERITIES.index(finding.severity)


class Finding(Record):
    """A sentence that a probe reports, with its severity and the numbers behind it."""

    severity: Severity
    text: str
    numbers: dict[str, Annotated[Cell, BeforeValidator(from_json)]] = Field(default_factory=dict)
    about: dict[str, Annotated[Cell, BeforeValidator(from_json)] | tuple[str, ...]] = Field(
        default_factory=dict
    )
    """What the sentence is about, so that nobody has to read it: `string` (one or several),
    `letter`, `head`, `layer`, `family`."""

    @property
    def strings(self) -> tuple[str, ...]:
        """The strings it is about."""
        known = self.about.get("string", ())
        return known if isinstance(known, tuple) else (str(known),)

    def concerns(self, **about: Cell) -> bool:
        """Whether this is about one of these: `finding.concerns(string="aac", letter="b")`."""
        return any(
            value in known if isinstance(known := self.about.get(key), tuple) else value == known
            for key, value in about.items()
        )

    @classmethod
    def of(
        cls,
        text: str,
        numbers: Mapping[str, Cell] | None = None,
        severity: Severity = "note",
        **about: Cell | tuple[str, ...],
    ) -> Self:
        """Return a note, unless another severity is given.

        Example:
            >>> finding = Finding.of("`aac` is wrong.", {"logit": 0.5}, "failure", string="aac")
            >>> finding.concerns(string="aac")
            True
        """
        return cls(severity=severity, text=text, numbers=dict(numbers or {}), about=about)


class Table(Displayed, Record):
    """Rows under named columns: the numbers behind a figure."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @model_validator(mode="after")
    def _rows_fit(self) -> Self:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {len(row)} cells under {len(self.columns)} columns")
        return self

    @classmethod
    def from_rows(cls, title: str, columns: Iterable[str], rows: Iterable[Iterable[Cell]]) -> Self:
        """Return a table of rows as they are."""
        return cls(title=title, columns=tuple(columns), rows=tuple(map(tuple, rows)))

    @classmethod
    def of(
        cls,
        title: str,
        numbers: LabeledArray,
        *down: str,
        names: Sequence[str] = (),
        across: Callable[[str], str] = str,
        whole: bool = False,
    ) -> Self:
        """Return a table with a row for each label along `down`, and a column for each other.

        Args:
            title: The title of the table.
            numbers: An array with one axis more than `down` names.
            down: Axes whose labels stand in the first columns.
            names: Headings of these columns, by default the names of the axes.
            across: A function that returns the heading of a column from its label.
            whole: Whether the numbers are whole numbers, and shown as such.

        Example:
            >>> parity = LabeledArray.of([[2, 3]], heads=[1], kind=["built", "trained"])
            >>> Table.of("Parity", parity, "heads", across="{} model".format).columns
            ('heads', 'built model', 'trained model')
        """
        kind = int if whole else float
        (other,) = (dim for dim in numbers.dims if dim not in down)
        cells = numbers.array.transpose([numbers.dims.index(dim) for dim in (*down, other)])
        keys = product(*([_number_or_text(label) for label in numbers.labels[dim]] for dim in down))
        rows = zip(keys, cells.reshape(-1, cells.shape[-1]), strict=True)
        columns = (*(names or down), *map(across, numbers.labels[other]))
        return cls.from_rows(title, columns, ((*key, *map(kind, row)) for key, row in rows))

    def to_pandas(self) -> DataFrame:
        """Return the table as a pandas DataFrame."""
        return needed("pandas").DataFrame(list(self.rows), columns=list(self.columns))

    def _facts(self) -> list[str]:
        return [self.title, f"{len(self.rows)} rows of {', '.join(self.columns)}"]

    def _grids(self) -> list[Grid]:
        return [Grid(self.title, self.columns, self.rows)]


def _number_or_text(label: str) -> Cell:
    """A label as it was before it became text."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(label)
    return label


class Shown(Record):
    """A record whose fields declare how they are shown."""

    def to_show(self, numbers: LabeledArray) -> LabeledArray | None:
        """Return the part of an array that figures and tables have room for, by default all."""
        return numbers

    def tables(self) -> tuple[Table, ...]:
        """Return the numbers that the fields declare as tables."""
        tables: list[Table] = []
        for field, view in views(type(self)):
            value: Any = getattr(self, field) if view.table else None
            if isinstance(view, Each):
                tables += [table for record in value for table in record.tables()]
            elif view.table and (table := _table(view, value, self)) is not None:
                tables.append(table)
        return tuple(tables)

    def drawn(self) -> Sequence[Figure]:
        """Return the figures that the fields declare."""
        from tsc_interp.results.drawing import declared_figures

        return declared_figures(self)


class ProbeResult(Displayed, Shown):
    """The base of every probe's result, and of every laboratory's."""

    kind: ClassVar[str] = "probe"
    """What `probe` is the name of."""
    probe: ClassVar[str]
    """The probe's name, as `--probe` takes it."""

    findings: tuple[Finding, ...] = ()
    not_applicable: tuple[str, ...] = ()
    """What could not be said of this model, each with its reason."""

    def conclude(self) -> Iterable[Finding]:
        """Return what the numbers say in sentences; they are stored as `findings`."""
        return ()

    def drawn(self) -> Sequence[Figure]:
        """Return the figures that the fields declare."""
        package, _, module = type(self).__module__.rpartition(".")
        if module == "result":  # not converted yet: figures stand in a file beside it
            return cast("Sequence[Figure]", import_module(f"{package}.figures").figures(self))
        return super().drawn()

    @property
    def figures(self) -> Figures:
        """The figures of this result, in reading order: `result.figures["flips"].show()`."""
        from tsc_interp.plots.figure import Figures

        return Figures(self.drawn())

    def concluded(self) -> Self:
        """Return a copy with its findings."""
        return self.with_findings(tuple(self.conclude()))

    def with_findings(self, findings: tuple[Finding, ...]) -> Self:
        """Return a copy with these findings."""
        return self.model_copy(update={"findings": findings})

    def to_pandas(self, table: int | str = 0) -> DataFrame:
        """Return one of the tables, by index or title, as a pandas data frame."""
        tables = self.tables()
        titles = [one.title for one in tables]
        if isinstance(table, str) and table in titles:
            return tables[titles.index(table)].to_pandas()
        if isinstance(table, int) and -len(tables) <= table < len(tables):
            return tables[table].to_pandas()
        known = "; ".join(f"{place}: {title}" for place, title in enumerate(titles)) or "none"
        raise UsageError(f"{self.probe} has no table {table!r}; its tables are {known}")

    def _facts(self) -> list[str]:
        times = Counter(finding.severity for finding in self.findings)
        counted = [
            f"{times[severity]} {severity}{'s' * (times[severity] > 1 and severity != 'good')}"
            for severity in SEVERITIES
            if times[severity]
        ]
        fields = type(self).model_fields
        arrays = [name for name in fields if isinstance(getattr(self, name), LabeledArray)]
        return [*counted, f"arrays {' '.join(arrays)}"] if arrays else counted

    def _lines(self) -> list[tuple[str, str]]:
        return [(finding.severity, finding.text) for finding in self.findings]

    def _grids(self) -> list[Grid]:
        return [Grid(table.title, table.columns, table.rows) for table in self.tables()]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {self.kind: self.probe, **self.model_dump(mode="json")}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the result that `to_dict` wrote."""
        if data.get(cls.kind) != cls.probe:
            kind = data.get(cls.kind)
            raise ValueError(f"a result of {cls.kind} {kind!r}, expected {cls.probe!r}")
        return cls.model_validate({key: value for key, value in data.items() if key != cls.kind})


def _table(view: View, shown: Any, result: Shown) -> Table | None:
    """What one field declares as a table: an array, a tuple of records, or nothing."""
    title = view.title.format(result=result)
    if isinstance(shown, Table):
        return shown if shown.rows else None
    if isinstance(shown, LabeledArray):
        shown = result.to_show(shown)
    if isinstance(shown, LabeledArray) and shown.flat:
        kept = _without_single_labels(shown)
        if len(kept.dims) == 1:
            pairs = zip(kept.labels[kept.dims[0]], kept.array.tolist(), strict=True)
            return Table.from_rows(title, (kept.dims[0], "value"), pairs)
        return Table.of(title, kept, *kept.dims[:-1])
    if isinstance(shown, tuple) and shown:
        headings = getattr(view, "headings", None) or {
            name: name.replace("_", " ") for name in type(shown[0]).model_fields
        }
        rows = ([_cell(getattr(record, name)) for name in headings] for record in shown)
        return Table.from_rows(title, headings.values(), rows)
    return None


def _dims(array: LabeledArray) -> tuple[str, ...]:
    """The axes with more than one label, and the last in any case."""
    return tuple(d for d in array.dims if len(array.labels[d]) > 1 or d == array.dims[-1])


def _without_single_labels(array: LabeledArray) -> LabeledArray:
    labels = {dim: array.labels[dim] for dim in _dims(array)}
    return LabeledArray.of(array.array.reshape([len(x) for x in labels.values()]), **labels)


def _cell(value: Any) -> Cell:
    """A field of a record as a cell of a table."""
    if isinstance(value, tuple | list):
        return ", ".join(str(_cell(part)) for part in value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def that_hold(notes: Mapping[str, object]) -> tuple[str, ...]:
    """The notes whose condition is true."""
    return tuple(note for note, holds in notes.items() if holds)


def unknown(kind: str, name: str, known: Sequence[str]) -> UsageError:
    """For what a result is asked for by name and does not have."""
    return UsageError(f"no {kind} {name!r}; there are {', '.join(known)}")


def head_name(n_layers: int, layer: object, head: object) -> str:
    """Return "head 0", or "layer 1 head 0" in a deeper model."""
    return f"head {head}" if n_layers == 1 else f"layer {layer} head {head}"


def named_heads(n_layers: int, array: LabeledArray) -> list[tuple[int, int, str]]:
    """Of every head its place in an array `[layer head ...]`, and its name."""
    return [
        (i, h, head_name(n_layers, layer, head))
        for i, layer in enumerate(array.labels["layer"])
        for h, head in enumerate(array.labels["head"])
    ]


def largest_heads(
    heads: Sequence[tuple[int, int, str]], sizes: NDArray[np.float64], most: int
) -> tuple[list[tuple[int, int, str]], str]:
    """The heads with the largest sizes `[layer head]`, and ` (12 of 48 heads)` if not all."""
    kept = largest([sizes[i, h] for i, h, _ in heads], most)
    of_all = f" ({most} of {len(heads)} heads)" if len(heads) > most else ""
    return [heads[place] for place in kept], of_all


MOST_SHOWN = 24
"""Heads of a model without a task that tables and figures have room for."""
MOST_LAYERS = 4
"""Layers that get figures of their own."""


class HeadsResult(ProbeResult):
    """The base of results about heads, of all layers or of one that was asked for."""

    n_layers: int = 1
    """Of the model, whichever of them the result is about."""
    needs: str | None = None
    """The letters the task names; None for a model without a task."""
    lead: LabeledArray | None = None
    """`[layer head]`: the highest score less the next, where a token's occurrences differ."""
    doubt: LabeledArray | None = None
    """`[layer head]`: by how much one occurrence of these two tokens departs from its average."""
    chance: tuple[Number, ...] | None = None
    """The leads of heads with shuffled weights, for a model without a task."""

    @property
    def unit(self) -> str:
        """The name of the units of an input, such as "letter"."""
        return "token" if self.needs is None else "letter"

    def ahead(self, i: int, h: int) -> bool:
        """Whether a head's lead is larger than that of every shuffled head."""
        chance = self.chance or ()
        return self.lead is None or all(self.lead.array[i, h] > other for other in chance)

    def stands_out(self, i: int, h: int) -> bool:
        """Whether a head's top token is ahead of chance, and by more than its score varies."""
        if self.lead is None or self.doubt is None:
            return True
        return self.ahead(i, h) and bool(self.lead.array[i, h] > self.doubt.array[i, h])

    def heads_to_show(self) -> list[tuple[int, int]]:
        """`(layer, head)` places for tables and figures: all, or of many those that stand out.

        Those of which nothing can be said come after them, as far as there is room.
        """
        if self.lead is None:
            raise UsageError("every head of this result is shown")
        lead = self.lead.array
        order = sorted(
            np.ndindex(lead.shape), key=lambda at: (not self.stands_out(*at), -float(lead[at]))
        )
        return [(i, h) for i, h in order[:MOST_SHOWN]]

    def shown_by_name(self, most: int = MOST_SHOWN) -> list[tuple[int, int, str]]:
        """The first of these heads with their names, in the order of the model."""
        assert self.lead is not None
        layers = self.lead.labels["layer"]
        return [
            (i, h, f"layer {layers[i]} head {h}") for i, h in sorted(self.heads_to_show()[:most])
        ]

    @property
    def many_heads(self) -> bool:
        """Whether a model without a task has more heads or layers than are shown one by one."""
        if self.needs is not None or self.lead is None:
            return False
        return self.lead.array.size > MOST_SHOWN or len(self.lead.array) > MOST_LAYERS

    def to_show(self, numbers: LabeledArray) -> LabeledArray | None:
        """Return the array, or of many heads those that stand out; no pairs of so many."""
        outer = ("layer", "head")
        if not self.many_heads or numbers.dims == outer or not set(outer) <= set(numbers.dims):
            return numbers
        if "other" in numbers.dims:
            return None
        heads = self.shown_by_name()
        rest = {dim: numbers.labels[dim] for dim in numbers.dims if dim not in outer}
        cells = np.moveaxis(numbers.array, [numbers.dims.index(dim) for dim in outer], [0, 1])
        kept = np.stack([cells[i, h] for i, h, _ in heads])
        return LabeledArray.of(kept, head=[name for _, _, name in heads], **rest)

    def of_all_heads(self) -> str:
        """` (24 of 144 heads)`, for titles; empty where all are shown."""
        if not self.many_heads or self.lead is None:
            return ""
        count = self.lead.array.size
        return f" ({MOST_SHOWN} of {count} heads)" if count > MOST_SHOWN else ""

    def needs_among(self, letters: Sequence[str]) -> str:
        """The letters the task names, if all of them are among these and there is one layer."""
        seen = self.n_layers == 1 and set(self.needs or "") <= set(letters)
        return (self.needs or "") if seen else ""

    def head_name(self, layer: str, head: int) -> str:
        """Return "head 0", or "layer 1 head 0" in a deeper model."""
        return head_name(self.n_layers, layer, head)
