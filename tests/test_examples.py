"""Every example script and every numerical check of the documentation runs, by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docs.build.scripts import digest, run_and_keep, scripts, write_script
from docs.build.sections import pieces, run
from studies.__main__ import SCRIPTS

ROOT = Path(__file__).parents[1]
EXAMPLES = [place for place in scripts() if place.startswith("examples/")]
CHECKS = [place for place in scripts() if place.startswith("theory/")]
OF_MODELS = [f"studies/{name}" for name in SCRIPTS if name != "causes"]


@pytest.mark.parametrize("place", EXAMPLES)
def test_example_runs_and_says_something_in_every_section_that_prints(place: str) -> None:
    script, finished = scripts()[place], run_and_keep(place)
    sections = {name: code for name, code in pieces(script.read_text()) if name}
    assert sections
    for name, code in sections.items():
        # Definitions print nothing; a section with a call to print at its top level does.
        if any(line.startswith("print(") for line in code.splitlines()):
            assert finished.printed[name].strip(), name
    if script.stem == "probe_a_transformerlens_model":
        # What the page says about it in words.
        for head in (0, 1):
            assert f"Head {head} reads `X`" in finished.printed["probe"]
        assert finished.printed["neither"].strip() == "{'Y': 1000}"
    if script.stem.startswith("ch"):
        assert f"report: tsc-report/{script.stem[:3]}/index.html" in finished.printed["report"]


@pytest.mark.parametrize("place", CHECKS + OF_MODELS)
def test_numerical_check_holds(place: str) -> None:
    """Each check ends its sections with assertions about what it has just printed."""
    assert "assert " in scripts()[place].read_text()
    run_and_keep(place)


def test_the_docs_build_takes_what_the_tests_kept_of_the_same_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docs.build.scripts.KEPT", tmp_path / "kept")
    (tmp_path / "kept" / "of other code").mkdir(parents=True)
    finished = run_and_keep("theory/projective")
    (kept,) = (tmp_path / "kept").iterdir()
    assert kept.name == digest()
    monkeypatch.setattr("docs.build.scripts.run", lambda script: pytest.fail("it ran again"))
    write_script("theory/projective", tmp_path / "page")
    assert (tmp_path / "page" / "all.txt").read_text().rstrip() == finished.printed[""].rstrip()


def test_a_script_needs_nothing_but_the_package(tmp_path: Path) -> None:
    script = ROOT / "studies" / "theory" / "projective.py"
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "walkthrough" in done.stdout


def test_sections_are_run_apart_with_the_scripts_own_line_numbers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "x = 1\n# --8<-- [start:one]\nprint(x)\n# --8<-- [end:one]\nprint('outside')\n"
        "# --8<-- [start:two]\nx += 1\nprint(x)\nraise ValueError\n# --8<-- [end:two]\n"
    )
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        run(script)
    assert caught.traceback[-1].lineno + 1 == 9
    script.write_text(script.read_text().replace("raise ValueError", "pass"))
    finished = run(script)
    assert finished.printed == {"": "1\noutside\n2\n", "one": "1\n", "two": "2\n"}
    assert finished.variables["x"] == 2
