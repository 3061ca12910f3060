"""Which file of a probe may import what; and that drawing needs no torch.

Data flows in one direction: `run` asks a model and fills a `result`, `words` and `figures` are made
from the result alone. So a saved report can be read, told and drawn where no model can be run.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tsc_interp as tsc
from tests.probes.test_contract import CHEAP
from tests.sizes import THOROUGH
from tsc_interp.probes import registry
from tsc_interp.probes.registry import run_probe
from tsc_interp.report import Report

ROOT = Path(__file__).parents[2]
PROBES = sorted(path.parent for path in (ROOT / "tsc_interp" / "probes").glob("*/run.py"))
ONE_FILE = [Path(str(sys.modules[probe.function.__module__].__file__)) for probe in registry.PROBES
            if probe.function is not None]  # fmt: skip
FOLDERS = PROBES
BASE = {
    "tsc_interp.results.base",
    "tsc_interp.results.intervals",
    "tsc_interp.probes.standing_out",  # words that several probes share
    "tsc_interp.probes.wording",
    "tsc_interp.source_report",
}
MODELS = {"torch", "transformer_lens"}


def imported(path: Path) -> set[str]:
    """Every module a file imports, also within functions and for type checking only."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written out in full"
            found.add(node.module or "")
    return found


def ours(path: Path) -> set[str]:
    return {name for name in imported(path) if name.startswith("tsc_interp")}


def own(folder: Path, part: str) -> str:
    return f"tsc_interp.{folder.parent.name}.{folder.name}.{part}"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_result_imports_the_base_only(folder):
    assert ours(folder / "result.py") <= BASE
    assert not imported(folder / "result.py") & (MODELS | {"plotly"})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_words_are_made_from_the_result(folder):
    assert ours(folder / "words.py") <= BASE | {own(folder, "result")}
    assert not imported(folder / "words.py") & (MODELS | {"plotly"})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_figures_are_made_from_the_result_with_shared_helpers(folder):
    for path in folder.glob("figures*.py"):
        siblings = {own(folder, other.stem) for other in folder.glob("figures*.py")}
        allowed = BASE | siblings | {own(folder, "result"), "tsc_interp.strings"}
        allowed |= {"tsc_interp.interventions.parts"}  # names of parts, nothing that runs
        helpers = {name for name in ours(path) if name.startswith("tsc_interp.plots.")}
        assert ours(path) - helpers <= allowed, path.name


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_probe_knows_another_or_draws(folder):
    """And a run does not know how its result is drawn."""
    for path in folder.glob("*.py"):
        room = f"tsc_interp.{folder.parent.name}."
        others = {name for name in ours(path) if name.startswith(room)}
        others = {name for name in others if name.count(".") > 2}
        assert all(name.startswith(own(folder, "")) for name in others), path
        if not path.stem.startswith("figures"):
            assert not any("plots" in name or "figures" in name for name in ours(path)), path


@pytest.mark.parametrize("path", ONE_FILE, ids=lambda path: path.stem)
def test_a_probe_knows_no_other(path):
    others = {f"tsc_interp.probes.{other.stem}" for other in ONE_FILE if other != path}
    assert not ours(path) & {*others, "tsc_interp.probes.registry"}


def test_plot_helpers_know_no_probe():
    for path in (ROOT / "tsc_interp" / "plots").glob("*.py"):
        assert not any(name.startswith("tsc_interp.probes") for name in ours(path)), path.name


DRAW = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformer_lens"):
            raise ImportError(f"{name} must not be needed")

sys.meta_path.insert(0, Refuse())

from tsc_interp.report import Report

report = Report.from_json(open(sys.argv[1]).read())
drawn = {name: len(section.figures) for name, section in report.models[0].sections.items()}
assert len(report.to_html(plotlyjs="cdn")) > 10_000
assert report.to_markdown()
print(drawn)
"""


def test_a_saved_report_is_drawn_without_torch(tmp_path):
    """In a process in which importing torch or transformer_lens fails."""
    strings, model = ("aac", "ab{100}"), tsc.load("walkthrough")
    names = [probe.name for probe in registry.PROBES if not probe.needs_run]
    options = {"init-norm": {"seeds": 2, "widths": (2,)}} if THOROUGH else CHEAP
    results = tuple(run_probe(n, model, strings, **options.get(n, {})) for n in names)
    asked = tsc.analyze(model, list(strings), probes=["trace"])
    report = Report((replace(asked.models[0], results=results),))
    saved = tmp_path / "report.json"
    saved.write_text(report.to_json(), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", DRAW, str(saved)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    counts = {name: len(section.figures) for name, section in report.models[0].sections.items()}
    assert json.loads(done.stdout.replace("'", '"')) == counts
