"""Which file of a probe may import what; and that drawing needs no torch.

Findings and figures are made from the result alone. So a saved report can be read, told and drawn
where no model can be run.
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
ONE_FILE = [Path(str(sys.modules[probe.function.__module__].__file__)) for probe in registry.PROBES]


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
