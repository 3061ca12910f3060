"""Notebooks: run without Jupyter, written as it reads them. The docs build runs the real one."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from docs.build.notebooks import Cell, as_notebook, as_page, execute, read
from tsc_interp.plots.style import Figure, new_figure

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def test_cells_share_a_namespace_and_show_their_last_value() -> None:
    cells = [
        Cell("markdown", "# Title"),
        Cell("code", "x = 2\nprint('said')\nx + 1"),
        Cell("code", "y = x * 10"),
        Cell("code", "print(y); None"),
    ]
    done = execute(cells)
    assert [(cell.printed, cell.value) for cell in done] == [
        ("", None), ("said\n", 3), ("", None), ("20\n", None),
    ]  # fmt: skip
    page = as_page(done)
    assert "# Title" in page
    assert "```text\nsaid\n3\n```" in page
    with pytest.raises(ZeroDivisionError):
        execute([Cell("code", "1 / 0")])


def test_a_notebook_is_what_jupyter_reads(tmp_path: Path) -> None:
    figure = Figure("f", "F", new_figure("x", "y"), "caption", "alt")
    cells = [Cell("markdown", "a\nb"), Cell("code", "1", "p\n", 1), Cell("code", "f", "", figure)]
    document = json.loads(as_notebook(cells))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    text, code, drawn = document["cells"]
    assert text == {"cell_type": "markdown", "id": "cell-1", "metadata": {}, "source": ["a\n", "b"]}
    assert code["outputs"][0] == {"output_type": "stream", "name": "stdout", "text": ["p\n"]}
    assert code["outputs"][1]["data"]["text/plain"] == ["1"]
    assert "layout" in drawn["outputs"][0]["data"]["application/vnd.plotly.v1+json"]
    assert 'class="tsc-figure"' in as_page(cells)
    path = tmp_path / "n.ipynb"
    path.write_text(as_notebook(cells))
    assert [(c.kind, c.source) for c in read(path)] == [(c.kind, c.source) for c in cells]


SAID = {
    "first_failure": ["first error ab{66}", "margin of 3.7378 over `b`", "1 of 3 answers changed"],
    "from_training_to_certificate": ["right on 100.00% of 10,000", "the horizon is 22"],
    "max_of_four_decided": ["right on 100.0% of 1,000", "of 65,536 by running them all"],
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_one_is_executed_and_has_a_page(path: Path) -> None:
    cells = read(path)
    for cell in cells:
        if cell.kind == "code":
            ast.parse(cell.source)
    stored = json.loads(path.read_text())["cells"]
    said = "\n".join(
        "".join(output.get("text") or output["data"]["text/plain"])
        for cell in stored
        for output in cell.get("outputs", [])
    )
    for sentence in SAID[path.stem]:
        assert sentence in said
    pages = (EXAMPLES.parent / "docs" / "pages" / "how-to").glob("notebook*.md")
    text = "\n".join(page.read_text() for page in pages)
    assert f"notebooks/{path.stem}.txt" in text
    assert f"notebooks/{path.name}" in text


def test_a_value_with_markup_is_shown_as_jupyter_shows_it() -> None:
    [cell] = execute([Cell("code", "import tsc_interp as tsc\ntsc.evaluate('walkthrough', 'ab')")])
    shown = json.loads(as_notebook([cell]))["cells"][0]["outputs"][0]["data"]
    assert "<table>" in "".join(shown["text/html"])
    assert "<table>" in as_page([cell])


def test_a_figure_in_a_notebook_offers_no_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    import plotly.io

    monkeypatch.setattr(plotly.io.renderers, "default", "plotly_mimetype")
    bundle = Figure("f", "F", new_figure("x", "y"), "caption", "alt")._repr_mimebundle_()
    config = bundle["application/vnd.plotly.v1+json"]["config"]
    assert config["plotlyServerURL"] == ""
    assert config["showSendToCloud"] is False
