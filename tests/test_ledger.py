"""Every quantitative sentence has a source, and a figure that cites a stored result equals it."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs.build import ledger, stored
from docs.build.cli_reference import commands
from docs.build.ledger import pages, sentences
from docs.build.stored import figures

PAGE = """# Title

<!-- source: the page's own -->

## One

Of 32 seeds 12 of 32 last. A margin of `3.5` and $x = 2.5$ are no measurements, nor is 2410.01104.

| what | seconds |
|---|---|
| this | 1.5 <!-- source: row --> |
| that | 2.5 |

`make bench` ran on Python 3.11.

## Two

<!-- source: before -->

It takes 3 s. With `tsc-interp lab x` it takes 4 s.

```python
half = 0.5
```

Later it takes 5 s.

## Three

It holds for 12 %: `tsc-interp/certificate/2` is no command.
"""


def test_a_sentence_has_the_nearest_source():
    found = [(one.line, one.text, one.source) for one in sentences("page.md", PAGE)]
    assert found == [
        (7, "Of 32 seeds 12 of 32 last.", "make bench"),
        (11, "| this | 1.5 |", "row"),
        (12, "| that | 2.5 |", "make bench"),
        (20, "It takes 3 s.", "tsc-interp lab x"),
        (20, "With `tsc-interp lab x` it takes 4 s.", "tsc-interp lab x"),
        (26, "Later it takes 5 s.", "before"),
        (30, "It holds for 12 %:", "the page's own"),
    ]


def test_without_a_source_the_command_fails(monkeypatch, tmp_path, capsys):
    bad = tmp_path / "README.md"
    bad.write_text("# T\n\nIt is right in 99.9 % of cases.\n")
    monkeypatch.setattr(ledger, "ROOT", tmp_path)
    monkeypatch.setattr(ledger, "pages", lambda: [bad])
    assert ledger.main(["--missing"]) == 1
    assert "README.md:3\tNO SOURCE\tIt is right in 99.9 % of cases." in capsys.readouterr().out
    bad.write_text("# T\n\nIt is right in 99.9 % of cases (`make bench`).\n")
    assert ledger.main([]) == 0
    assert "make bench" in capsys.readouterr().out


def test_every_quantitative_sentence_has_a_source():
    missing = [f"{one.page}:{one.line} {one.text}" for one in ledger.ledger() if not one.source]
    assert not missing, "\n".join(missing)


def test_every_command_that_is_named_as_a_source_exists():
    targets = re.findall(r"^([\w-]+):", (ledger.ROOT / "Makefile").read_text(), re.MULTILINE)
    known = {name.split()[0] for name in commands()}
    for source in {one.source for one in ledger.ledger() if one.source}:
        words = source.removeprefix("OMP_NUM_THREADS=1 ").split()
        if words[0] == "tsc-interp":
            assert words[1] in known, source
        elif words[0] == "make":
            assert words[1] in targets, source
        elif words[:2] == ["python", "-m"]:
            assert find_spec(words[2]), source
        elif words[0] == "python":
            assert (ledger.ROOT / words[1]).is_file(), source


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.parent.name + "/" + page.name)
def test_a_figure_equals_the_stored_result_it_cites(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("<!-- figure:") == len(list(figures(text))), "a figure without a number"
    for figure in figures(text):
        assert figure.holds(), f"{figure.number}, stored {stored.stored(figure.cited)}: {figure}"


def test_some_figures_are_cited():
    assert sum(page.read_text(encoding="utf-8").count("<!-- figure:") for page in pages()) > 20


@pytest.mark.parametrize(
    ("words", "holds"),
    [
        ("26 <!-- figure: a.json#rows.*.x|min+1 -->", True),
        ("27 <!-- figure: a.json#rows.*.x|min+1 -->", False),
        ("41.2 % <!-- figure: a.json#share -->", True),
        ("41 %** <!-- figure: a.json#share -->", True),
        ("42 % <!-- figure: a.json#share -->", False),
        ("0.41 <!-- figure: a.json#share -->", True),
        ("1,234.5 <!-- figure: a.json#rows.1.y -->", True),
        ("2 <!-- figure: a.json#rows.[kind=p]|count -->", True),
        ("1 <!-- figure: a.json#rows.[kind!=p,x=25]|count -->", True),
        ("3 <!-- figure: *.json#rows.*|count -->", True),
    ],
)
def test_a_figure_is_compared_in_the_digits_shown(words, holds, monkeypatch, tmp_path):
    rows = [{"x": 25, "kind": "q"}, {"x": 57, "y": 1234.49, "kind": "p"}, {"x": 30, "kind": "p"}]
    (tmp_path / "a.json").write_text(json.dumps({"share": 0.4119, "rows": rows}))
    monkeypatch.setattr(stored, "ROOT", tmp_path)
    (figure,) = figures(f"text {words} text")
    assert figure.holds() is holds


def test_a_citation_of_several_values_is_refused(monkeypatch, tmp_path):
    (tmp_path / "a.json").write_text("[1, 2]")
    monkeypatch.setattr(stored, "ROOT", tmp_path)
    with pytest.raises(ValueError, match="2 values"):
        stored.stored("a.json#*")
