"""Every quantitative sentence has a source, and a figure that cites a stored result equals it."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec

import pytest

from docs.build import ledger, stored
from docs.build.cli_reference import commands
from docs.build.ledger import pages, sentences
from docs.build.stored import figures

PAGE = """# Title

## One

Of 32 seeds 12 of 32 last. A margin of `3.5` and $x = 2.5$ are no measurements, nor is 2410.01104.

| what | seconds |
|---|---|
| this | 1.5 |
| that | 2.5 |

`make bench` ran on Python 3.11.

## Two

It takes 3 s. With `tsc-interp lab x` it takes 4 s.

```python
half = 0.5
```

Later it takes 5 s.

## Three

It holds for 12 %: `tsc-interp/certificate/2` is no command.
"""


def test_a_sentence_has_the_nearest_source():
    known = {"this | 1.5": "row", "holds for 12 %": "a definition"}
    found = [(one.line, one.text, one.source) for one in sentences("page.md", PAGE, known)]
    assert found == [
        (5, "Of 32 seeds 12 of 32 last.", "make bench"),
        (9, "| this | 1.5 |", "row"),
        (10, "| that | 2.5 |", "make bench"),
        (16, "It takes 3 s.", "tsc-interp lab x"),
        (16, "With `tsc-interp lab x` it takes 4 s.", "tsc-interp lab x"),
        (22, "Later it takes 5 s.", "tsc-interp lab x"),
        (26, "It holds for 12 %:", "a definition"),
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


@pytest.mark.parametrize("page", sorted(stored.sources()))
def test_a_phrase_stands_once_on_its_page_and_states_the_stored_result(page: str) -> None:
    text = (ledger.ROOT / page).read_text(encoding="utf-8")
    assert not [fault for figure in figures(page) if (fault := figure.fault(text))]


def test_no_page_has_comments_about_its_numbers():
    for page in pages():
        assert not re.search(r"<!-- (figure|source):", page.read_text(encoding="utf-8")), page


def test_some_figures_are_cited():
    cited = [source for of_page in stored.sources().values() for source in of_page.values()]
    assert sum("#" in source for source in cited) > 20


@pytest.mark.parametrize(
    ("phrase", "cited", "fault"),
    [
        ("wrong at 26", "a.json#rows.*.x|min+1", ""),
        ("wrong at 27", "a.json#rows.*.x|min+1", "is 26"),
        ("a share of 41.2 %", "a.json#share", ""),
        ("nearly 42 %", "a.json#share", "is 41"),
        ("or 0.41 then", "a.json#share", ""),
        ("and 1,234.5 here", "a.json#rows.1.y", ""),
        ("both 2 rows", "a.json#rows.[kind=p]|count", ""),
        ("just 1 row", "a.json#rows.[kind!=p,x=25]|count", ""),
        ("all 3 rows", "*.json#rows.*|count", ""),
        ("gone 3 rows", "*.json#rows.*|count", "occurs 0 times"),
        ("twice", "a definition", "occurs 2 times"),
        ("or 0.41 then and 1,234.5 here", "a.json#share", "holds 2 numbers"),
    ],
)
def test_a_figure_is_compared_in_the_digits_shown(phrase, cited, fault, monkeypatch, tmp_path):
    text = """It is wrong at 26, not wrong at 27, a share of 41.2 %, nearly 42 %, or 0.41
    then and 1,234.5 here, both 2 rows, just 1 row, all 3 rows, twice twice."""
    rows = [{"x": 25, "kind": "q"}, {"x": 57, "y": 1234.49, "kind": "p"}, {"x": 30, "kind": "p"}]
    (tmp_path / "a.json").write_text(json.dumps({"share": 0.4119, "rows": rows}))
    monkeypatch.setattr(stored, "ROOT", tmp_path)
    found = stored.Figure(phrase, cited).fault(text)
    assert fault in found
    assert bool(fault) == bool(found)


def test_a_citation_of_several_values_is_refused(monkeypatch, tmp_path):
    (tmp_path / "a.json").write_text("[1, 2]")
    monkeypatch.setattr(stored, "ROOT", tmp_path)
    with pytest.raises(ValueError, match="2 values"):
        stored.stored("a.json#*")
