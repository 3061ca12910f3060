"""Figures, alternative texts and tables from what a result's fields declare (`views.py`).

field + view -> slices, one for each entry of the axes `per` -> rows and columns -> figure
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.errors import TscError
from tsc_interp.plots.colours import (
    INK,
    MUTED,
    NEGATIVE,
    POSITIVE,
    SHARE,
    WRONG,
    Look,
    diverging,
    token_style,
)
from tsc_interp.plots.figure import Figure
from tsc_interp.plots.heat import Panel, heat, panels
from tsc_interp.plots.number_line import number_line
from tsc_interp.plots.series import add_series, each, ends, log_axis, name_rows, signed_bars
from tsc_interp.plots.style import new_figure
from tsc_interp.plots.vectors import plane, vector_words, view
from tsc_interp.results.arrays import LabeledArray, largest
from tsc_interp.results.views import (
    Bars,
    Drawing,
    Each,
    Heat,
    Lines,
    NumberLine,
    Scatter,
    Stack,
    View,
    views,
)

MOST_FIGURES = 8
"""Figures that one field may get; the rest is in the numbers."""
MOST_PANELS = 12
MOST_STACKED = 6
STRIPES = ("", "/", "\\", "x", "-", "|")
OVERLAY = {"fillmode": "overlay", "fgcolor": "rgba(255,255,255,0.45)", "solidity": 0.15}
_SAID = 8
_TICKS = 12

Floats = NDArray[np.float64]
Drawn = tuple[Any, str] | tuple[Any, str, str]
"""A plotly figure, its alternative text, and what its caption should add."""


def declared_figures(result: Any) -> list[Figure]:
    """Return a figure, or several, for every field that declares one and is not empty."""
    figures: list[Figure] = []
    for field, how in views(type(result)):
        value: Any = getattr(result, field) if how.figure else None
        if isinstance(how, Each):
            for number, record in enumerate(value, start=1):
                mark = f"-{number}" if number > 1 else ""
                figures += [replace(one, name=f"{one.name}{mark}") for one in record.drawn()]
        elif isinstance(how, Drawing) and value is not None:
            figures.append(_figure(how, field, result, *value))
        elif isinstance(value, LabeledArray) and (part := result.to_show(value)) is not None:
            figures += draw(part, how, field, result)
    return figures


def _figure(
    how: View, field: str, result: Any, figure: Any, alt: str, remark: str = "",
    entry: str = "", place: int = 0,
) -> Figure:  # fmt: skip
    """Put a title and a caption to a drawing."""
    title, caption = (text.format(result=result) for text in (how.title, how.caption))
    slug = how.name or field.replace("_", "-")
    named = f"{title}: {entry}" if entry else title
    return Figure(
        f"{slug}-{place}" if place else slug, named, figure, f"{caption} {remark}".strip(), alt
    )


def draw(numbers: LabeledArray, how: View, field: str, result: Any = None) -> list[Figure]:
    """Draw one array as a view says.

    Args:
        numbers: The array.
        how: Its view.
        field: The name of the field, of which the figure's slug is made.
        result: What titles and captions may name attributes of.
    """
    if not numbers.flat:
        return []
    figures = []
    per = tuple(dim for dim in how.per if dim in numbers.dims)
    for place, (entry, part) in enumerate(_slices(numbers, per)):
        if place == MOST_FIGURES:
            break
        part, left_out = _largest(part, how)
        drawing, said, *remark = _draw(part, how)
        left_out = " ".join(filter(None, (*remark, left_out)))
        figure = _figure(how, field, result, drawing, said, left_out, entry, place)
        figures.append(replace(figure, alt=f"{figure.title}. {said}."))
    return figures


def _slices(numbers: LabeledArray, per: tuple[str, ...]) -> Iterator[tuple[str, LabeledArray]]:
    """The parts of an array that get a figure each, and what to call them."""
    kept = {dim: numbers.labels[dim] for dim in numbers.dims if dim not in per}
    for labels in product(*(numbers.labels[dim] for dim in per)):
        entry = called(numbers, dict(zip(per, labels, strict=True)))
        yield entry, LabeledArray.of(numbers.at(**dict(zip(per, labels, strict=True))), **kept)


def _largest(numbers: LabeledArray, how: View) -> tuple[LabeledArray, str]:
    """Of more rows, bars or panels than there is room for the largest; and how many those are."""
    across = isinstance(how, Heat) and (how.across or numbers.dims[-1])
    down = [dim for dim in numbers.dims if dim != across]
    most, kind = how.most, "bars" if isinstance(how, Bars) else "rows"
    if isinstance(how, Heat) and how.panels:
        down, most, kind = list(how.panels), MOST_PANELS, "panels"
    elif not isinstance(how, Heat | Bars):
        return numbers, ""
    count = prod(len(numbers.labels[dim]) for dim in down)
    if count <= most:
        return numbers, ""
    others = [dim for dim in numbers.dims if dim not in down]
    order = [numbers.dims.index(dim) for dim in (*down, *others)]
    rest = {dim: numbers.labels[dim] for dim in others}
    cells = numbers.array.transpose(order).reshape(count, *map(len, rest.values()))
    kept = largest(np.nan_to_num(np.abs(cells)).reshape(count, -1).max(1), most)
    entries = list(product(*(numbers.labels[dim] for dim in down)))
    names = [called(numbers, dict(zip(down, entries[place], strict=True))) for place in kept]
    shown = LabeledArray.of(cells[kept], **{" ".join(down): names}, **rest)
    return shown, f"Of {count:,} {kind}, the {most} with the largest numbers."


def called(numbers: LabeledArray, entry: dict[str, str]) -> str:
    """Name an entry by its labels: `layer 0 head 1`, `b`; axes of one label are left out."""
    told = [
        f"{dim} {label}" if label.isdigit() else label
        for dim, label in entry.items()
        if len(numbers.labels[dim]) > 1
    ]
    return " ".join(told)


def rows_and_columns(
    numbers: LabeledArray, across: str = ""
) -> tuple[Floats, list[str], tuple[str, ...]]:
    """An array as cells `[row column]`: one axis across, the last if none is named, others down."""
    across = across or numbers.dims[-1]
    down = [dim for dim in numbers.dims if dim != across]
    order = [numbers.dims.index(dim) for dim in (*down, across)]
    cells = numbers.array.transpose(order).reshape(-1, len(numbers.labels[across]))
    entries = product(*(numbers.labels[dim] for dim in down))
    names = [called(numbers, dict(zip(down, entry, strict=True))) for entry in entries]
    if len(names) == 1 and down:
        only = numbers.labels[down[-1]][0]
        names = [f"{down[-1]} {only}" if only.isdigit() else only]
    return cells, names, numbers.labels[across]


# -- one function for each kind of view ------------------------------------------------------------


def _draw(numbers: LabeledArray, how: View) -> Drawn:
    for kind, function in _KINDS.items():
        if isinstance(how, kind):
            return function(numbers, how)
    raise TscError(f"no way to draw a {type(how).__name__}")


def _heat(numbers: LabeledArray, how: Heat) -> Drawn:
    if how.panels:
        return _panels(numbers, how)
    cells, rows, columns = rows_and_columns(numbers, how.across)
    words = [[how.missing if np.isnan(cell) else "" for cell in line] for line in cells]
    figure = heat(
        np.nan_to_num(cells) if how.missing else cells, rows, columns, show=how.form,
        hover=how.form, most_written=how.most_written, words=words if how.missing else None,
        colours=SHARE if how.share else None,
    )  # fmt: skip
    if how.share:  # what a row is most
        top = [(row, int(np.nan_to_num(line, nan=-1).argmax())) for row, line in enumerate(cells)]
        spoken = top[:_SAID]
    else:
        chosen = largest(np.nan_to_num(np.abs(cells)).ravel(), _SAID)
        spoken = [divmod(place, len(columns)) for place in chosen]
    said = (f"{rows[r]}, {columns[c]}: {cells[r, c]:{how.form}}".lstrip(", ") for r, c in spoken)
    return figure, f"The largest: {'; '.join(said)}"


def _panels(numbers: LabeledArray, how: Heat) -> Drawn:
    down, across = numbers.dims[-2:]
    outer = numbers.dims[:-2]
    parts = [
        Panel(entry or f"{outer[-1]} {numbers.labels[outer[-1]][0]}", part.array)
        for entry, part in _slices(numbers, outer)
    ]
    rows, columns = numbers.labels[down], numbers.labels[across]
    figure = panels(
        parts, rows, columns, x=across, y=down, hover=how.form,
        colours=SHARE if how.share else diverging(numbers.array),
    )  # fmt: skip
    said = []
    for part in parts[:_SAID]:
        r, c = np.unravel_index(int(np.nan_to_num(np.abs(part.cells)).argmax()), part.cells.shape)
        entry = f"{down} {rows[r]}, {across} {columns[c]}"
        said.append(f"{part.title}, {entry}: {part.cells[r, c]:{how.form}}")
    return figure, f"The largest of each: {'; '.join(said)}"


def _bars(numbers: LabeledArray, how: Bars) -> Drawn:
    entries = product(*(numbers.labels[dim] for dim in numbers.dims))
    names = [called(numbers, dict(zip(numbers.dims, entry, strict=True))) for entry in entries]
    values = numbers.array.ravel().tolist()
    figure = signed_bars(
        values, names, x=how.x,
        colours=[(WRONG if how.wrong else POSITIVE) if x > 0 else NEGATIVE for x in values],
        hatched=[how.wrong and x > 0 for x in values], notes=[""] * len(values),
        hover=[f"{name}: {x:{how.form}}" for name, x in zip(names, values, strict=True)],
    )  # fmt: skip
    chosen = largest(np.nan_to_num(np.abs(values)), _SAID)
    return figure, "; ".join(f"{names[i]}: {values[i]:{how.form}}" for i in chosen)


def _stack(numbers: LabeledArray, how: Stack) -> Drawn:
    cells, rows, columns = rows_and_columns(numbers)
    totals, names = cells.sum(1), list(columns)
    if len(names) > MOST_STACKED:
        kept = largest(np.abs(cells).mean(0), MOST_STACKED - 1)
        rest = totals - cells[:, kept].sum(1)
        cells = np.concatenate([cells[:, kept], rest[:, None]], axis=1)
        names = [*(names[k] for k in kept), f"{len(names) - len(kept)} others"]
    figure = new_figure(how.x, height=150 + 36 * len(rows), legend=True)
    places = list(range(len(rows)))
    for c, name in enumerate(names):
        figure.add_bar(
            x=cells[:, c], y=places, orientation="h", width=0.6, name=name,
            hovertemplate=f"{name}: %{{x:{how.form}}}<extra></extra>",
            marker={"color": MUTED[c % len(MUTED)],
                    "pattern": {"shape": STRIPES[c % len(STRIPES)], **OVERLAY}},
        )  # fmt: skip
    add_series(figure, totals, places, "the sum", f"%{{customdata}}: %{{x:{how.form}}}",
               mode="markers", colour=INK, symbol="diamond", size=11,
               marker={"line": {"width": 2}}, customdata=rows)  # fmt: skip
    figure.update_layout(barmode="relative", margin_t=30)
    name_rows(figure, rows, showgrid=False)
    said = (
        f"{row} {total:{how.form}} = " + each("{} {:+.2f}", names, line, between=", ")
        for row, total, line in zip(rows[:_SAID], totals, cells, strict=False)
    )
    return figure, "; ".join(said)


def _lines(numbers: LabeledArray, how: Lines) -> Drawn:
    cells, rows, columns = rows_and_columns(numbers, how.along)
    x = [float(label) for label in columns]
    figure = new_figure(how.x or how.along or numbers.dims[-1], how.y, legend=len(rows) > 1)
    mode = "lines+markers" if how.marks else "lines"
    for place, (name, line) in enumerate(zip(rows, cells, strict=True)):
        look = _look(name.rpartition(" ")[2])  # a letter's own colour
        add_series(
            figure, x, line, name, f"%{{x}}: %{{y:{how.form}}}", place=place, mode=mode,
            colour=None if look.colour == INK else look.colour,
        )  # fmt: skip
    if how.log_x:
        log_axis(figure, "x", x if len(x) <= _TICKS else _written(x))
    if how.log_y:
        log_axis(figure, "y", _written(cells))
    said = []
    for row, line in zip(rows, cells, strict=True):
        known = np.isfinite(line)
        if known.any():
            told = ends(row, np.array(x)[known].tolist(), line[known], how.form)
            said.append(told.removeprefix(": "))
    return figure, "; ".join(said[:_SAID])


def _written(numbers: Any) -> list[float]:
    """Ticks written out where there are few decades; plotly's own say 5 where 0.5 is meant."""
    finite = np.asarray(numbers, dtype=np.float64)
    finite = finite[np.isfinite(finite) & (finite > 0)]
    if not len(finite):
        return []
    low, high = np.floor(np.log10([finite.min(), finite.max()])).astype(int)
    steps = (1, 2, 5) if high - low < 3 else (1,)
    return [float(f"{digit}e{power}") for power in range(low, high + 2) for digit in steps]


def _scatter(numbers: LabeledArray, how: Scatter) -> Drawn:
    points, rows, _ = rows_and_columns(numbers)
    seen = view(points)
    letters = [name.rpartition(" ")[2] for name in rows]
    figure = plane(seen, letters, [_look(name) for name in letters])
    return figure, vector_words(rows, points), seen.remark


def _number_line(numbers: LabeledArray, how: NumberLine) -> Drawn:
    cells, rows, columns = rows_and_columns(numbers)
    points = [(row, list(zip(columns, line, strict=True))) for row, line in
              zip(rows, cells.tolist(), strict=True)]  # fmt: skip
    said = (
        f"{row}: {', '.join(f'{name} {value:{how.form}}' for name, value in line)}"
        for row, line in points[:_SAID]
    )
    return number_line(points, x=how.x), "; ".join(said)


def _look(name: str) -> Look:
    token = name in ("CLS", "PAD") or (len(name) == 1 and "a" <= name <= "z")
    return token_style(name) if token else Look(INK, "circle")


_KINDS: dict[type[View], Callable[[LabeledArray, Any], Drawn]] = {
    Heat: _heat,
    Bars: _bars,
    Stack: _stack,
    Lines: _lines,
    Scatter: _scatter,
    NumberLine: _number_line,
}
