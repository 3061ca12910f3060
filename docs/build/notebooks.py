"""Run a notebook's cells, and write it executed: as a notebook to download, and as a page's text.

A notebook in `examples/` is plain Python and Markdown, without magics, so that no Jupyter is needed
to run it: cells share one namespace, what they print is caught, and the value of a last expression
is shown, as Jupyter does. `python -m docs.build.notebooks` also stores the outputs in `examples/`,
for those who read it there.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docs.build.figures import fragment
from docs.build.sections import inside
from tsc_interp.plots.style import Figure

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True)
class Cell:
    kind: str
    """`markdown` or `code`."""
    source: str
    printed: str = ""
    value: Any = field(default=None, compare=False)


def read(path: Path) -> list[Cell]:
    document = json.loads(path.read_text(encoding="utf-8"))
    return [Cell(cell["cell_type"], "".join(cell["source"])) for cell in document["cells"]]


def execute(cells: list[Cell]) -> list[Cell]:
    """Every code cell in order, in one namespace and an empty directory."""
    space: dict[str, Any] = {"__name__": "__main__"}
    with inside():
        return [_run(cell, number, space) for number, cell in enumerate(cells, start=1)]


def _run(cell: Cell, number: int, space: dict[str, Any]) -> Cell:
    if cell.kind != "code":
        return cell
    tree = ast.parse(cell.source, f"cell {number}")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    caught, value = io.StringIO(), None
    with contextlib.redirect_stdout(caught):
        exec(compile(tree, f"cell {number}", "exec"), space)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), space)
    return Cell(cell.kind, cell.source, caught.getvalue(), value)


# -- as a notebook -----------------------------------------------------------------------------


def as_notebook(cells: list[Cell]) -> str:
    written = [_cell(cell, number) for number, cell in enumerate(cells, start=1)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": written,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _cell(cell: Cell, number: int) -> dict[str, Any]:
    common = {"id": f"cell-{number}", "metadata": {}, "source": cell.source.splitlines(True)}
    if cell.kind != "code":
        return {"cell_type": cell.kind, **common}
    outputs: list[dict[str, Any]] = []
    if cell.printed:
        text = cell.printed.splitlines(True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if cell.value is not None:
        data = {"text/plain": repr(cell.value).splitlines(True)}
        if markup := _markup(cell.value):
            data["text/html"] = markup.splitlines(True)
        if isinstance(cell.value, Figure):
            data["application/vnd.plotly.v1+json"] = json.loads(cell.value.titled().to_json())
        outputs.append(
            {"output_type": "execute_result", "execution_count": number, "metadata": {},
             "data": data}
        )  # fmt: skip
    return {"cell_type": "code", "execution_count": number, **common, "outputs": outputs}


def _markup(value: Any) -> str:
    """What Jupyter would show of a value instead of its text."""
    shown = getattr(value, "_repr_html_", None)
    return "" if shown is None or isinstance(value, Figure) else str(shown())


# -- as a page ---------------------------------------------------------------------------------


def as_page(cells: list[Cell]) -> str:
    """Markdown: text as it is, code in a block, what came of it in another, figures drawn."""
    parts = []
    for cell in cells:
        if cell.kind != "code":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        drawn, markup = isinstance(cell.value, Figure), _markup(cell.value)
        silent = drawn or cell.value is None or markup
        said = cell.printed + ("" if silent else repr(cell.value))
        if said.strip():
            block = f"```text\n{said.rstrip()}\n```"
            parts.append(f'<div class="printed" markdown>\n{block}\n</div>')
        if markup:
            parts.append(f'<div class="notebook-value">{markup}</div>')
        if drawn:
            parts.append(fragment(cell.value))
    return "\n\n".join(parts) + "\n"


def write_notebook(path: Path, included: Path, served: Path) -> None:
    for folder in (included, served):
        folder.mkdir(parents=True, exist_ok=True)
    cells = execute(read(path))
    (served / path.name).write_text(as_notebook(cells), encoding="utf-8")
    (included / f"{path.stem}.txt").write_text(as_page(cells), encoding="utf-8")


def main() -> None:
    """Store the outputs where the notebooks are."""
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        path.write_text(as_notebook(execute(read(path))), encoding="utf-8")
        print(path.name)


if __name__ == "__main__":
    main()
