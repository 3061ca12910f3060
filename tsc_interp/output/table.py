"""Tables that stay readable: in a wide terminal, in 60 columns, through a pipe.

A number, a name, anything without a space is never split. Where the columns do not fit beside each
other, each row becomes a few lines of its own; a pipe gets plain aligned columns without a frame.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tsc_interp.output.visible import visible

Cell = str | int | Text

_WIDEST_WORD = 40
"""A longer word (a path, a hash) may be folded: otherwise one of them would stretch any table."""


def print_table(
    console: Console,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    title: str = "",
    right: Sequence[int] = (),
) -> None:
    """`right` are the columns that hold numbers; without any heading no head is shown."""
    cells = [[_text(cell) for cell in row] for row in rows]
    if title:
        console.print(Text(visible(title), style="bold"))
    if not console.is_terminal and console.width > 1000:
        _print_plain(console, columns, cells, right)
        return
    least = _narrowest(columns, cells)
    # Rich measures only as far as the console is wide, so it is asked as if there were room.
    roomy = console.options.update_width(10_000)
    frame = Measurement.get(console, roomy, _rich_table(columns, cells, right, least)).minimum
    frame -= sum(least)
    if frame + sum(least) <= console.width:
        widths = _widths(least, _widest(columns, cells), console.width - frame)
        console.print(_rich_table(columns, cells, right, widths))
    else:
        _print_records(console, columns, cells)


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(visible(cell))


def _narrowest(columns: Sequence[str], cells: list[list[Text]]) -> list[int]:
    """How narrow each column can get without splitting a word."""
    widths = []
    for index, heading in enumerate(columns):
        words = [word for row in cells for word in row[index].plain.split()]
        widths.append(max(min(_WIDEST_WORD, cell_len(w)) for w in [*words, *heading.split(), "-"]))
    return widths


def _widest(columns: Sequence[str], cells: list[list[Text]]) -> list[int]:
    """How wide each column is with nothing folded."""
    lines = [[Text(heading) for heading in columns], *cells]
    return [max(row[index].cell_len for row in lines) for index in range(len(columns))]


def _widths(least: list[int], most: list[int], room: int) -> list[int]:
    """The room shared out evenly among the columns that want more. (Rich splits words for it.)"""
    widths = list(least)
    while sum(widths) < room and any(a < b for a, b in zip(widths, most, strict=True)):
        for index, wanted in enumerate(most):
            if widths[index] < wanted and sum(widths) < room:
                widths[index] += 1
    return widths


def _rich_table(
    columns: Sequence[str], cells: list[list[Text]], right: Sequence[int], widths: list[int]
) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD if any(columns) else None,
        show_header=any(columns),
        show_edge=False,
        pad_edge=False,
        padding=(0, 1 if any(columns) else 2, 0, 0),
    )
    for index, (heading, width) in enumerate(zip(columns, widths, strict=True)):
        table.add_column(
            Text(heading),
            justify="right" if index in right else "left",
            width=width,
            overflow="fold",
        )
    for row in cells:
        table.add_row(*row)
    return table


def _print_plain(
    console: Console, columns: Sequence[str], cells: list[list[Text]], right: Sequence[int]
) -> None:
    head = [[Text(heading) for heading in columns]] if any(columns) else []
    lines = [*head, *cells]
    widths = [max(row[i].cell_len for row in lines) for i in range(len(columns))] if lines else []
    for row in lines:
        parts = []
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            gap = " " * (width - cell.cell_len)
            parts.append(gap + cell.plain if index in right else cell.plain + gap)
        console.print(Text("  ".join(parts).rstrip()), soft_wrap=True)


def _print_records(console: Console, columns: Sequence[str], cells: list[list[Text]]) -> None:
    """One record after the other; a first cell that tells them apart stands on its own line."""
    titled = len({row[0].plain for row in cells}) == len(cells)
    for row in cells:
        if titled:
            console.print(row[0])
        facts = [
            Text.assemble((heading, "dim"), ": " if heading else "", cell)
            for heading, cell in list(zip(columns, row, strict=True))[titled:]
            if cell.plain
        ]
        for line in _packed(facts, console.width - 2 * titled):
            console.print(Padding(line, (0, 0, 0, 2 * titled), expand=False))


def _packed(facts: list[Text], width: int) -> list[Text]:
    """As many facts on a line as fit, none of them broken if it can be helped."""
    lines: list[Text] = []
    for fact in facts:
        if lines and lines[-1].cell_len + 3 + fact.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], "   ", fact)
        else:
            lines.append(fact)
    return lines
