"""Run the scripts behind the pages; write what they printed and drew.

`make test` runs every script too. What a script left is kept in `docs/_cache` under a digest of all
code, so a build of the same code copies it instead of running the script again.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docs.build.figures import fragment
from docs.build.sections import Finished, run
from tsc_interp.plots.style import Figure
from tsc_interp.report import Report
from tsc_interp.report.laboratory import LabReport

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "docs" / "_cache"
_CODE = ("tsc_interp", "studies", "examples", "checker", "docs/build", "constraints.txt")


def scripts() -> dict[str, Path]:
    """Every script behind a page, by the folder its output goes to, such as `studies/heads`."""
    found = {f"studies/{page.parent.name}": page for page in ROOT.glob("studies/*/page.py")}
    for folder, place in (("studies/theory", "theory"), ("examples", "examples")):
        of_folder = (ROOT / folder).glob("[a-z]*.py")  # without __init__
        found |= {f"{place}/{script.stem}": script for script in of_folder}
    return dict(sorted(found.items()))


def write_script(place: str, folder: Path) -> None:
    """Write what a script prints and draws."""
    shutil.copytree(kept(place), folder, dirs_exist_ok=True)


def kept(place: str) -> Path:
    """Return the folder with what a script left, and run it if the code has changed since."""
    folder = KEPT / digest() / place
    if not folder.is_dir():
        run_and_keep(place)
    return folder


def run_and_keep(place: str) -> Finished:
    """Run a script; keep what sections printed (.txt), its figures (.html) and reports (.json)."""
    finished, folder = run(scripts()[place]), KEPT / digest() / place
    for old in KEPT.glob("*"):
        if old.name != digest():
            shutil.rmtree(old, ignore_errors=True)
    partly = folder.with_name(f"{folder.name}.partly")
    shutil.rmtree(partly, ignore_errors=True)
    partly.mkdir(parents=True)
    for section, text in finished.printed.items():
        (partly / f"{section or 'all'}.txt").write_text(text.rstrip() + "\n", encoding="utf-8")
    for name, figure in drawn(finished.variables):
        (partly / f"{name}.html").write_text(fragment(figure), encoding="utf-8")
    for name, value in finished.variables.items():
        if isinstance(value, LabReport):
            (partly / f"{name}.json").write_text(value.to_json(), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partly.rename(folder)
    return finished


@cache
def digest() -> str:
    """Of all code and stored results that a script could read, and of Python's version."""
    found = hashlib.sha256(sys.version.encode())
    for place in _CODE:
        inside = [path for path in (ROOT / place).rglob("*") if "__pycache__" not in path.parts]
        for path in sorted([*inside, ROOT / place]):
            if path.is_file():
                found.update(path.relative_to(ROOT).as_posix().encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


def drawn(variables: dict[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Every figure a script is left with, named after the variable that holds it."""
    for name, value in variables.items():
        if isinstance(value, Figure):
            yield name, value
        elif isinstance(value, Report):
            for number, model in enumerate(value.models):
                for probe, section in model.sections.items():
                    for figure in section.figures:
                        suffix = f"-{number + 1}" if len(value.models) > 1 else ""
                        yield f"{name}-{probe}-{figure.name}{suffix}", figure
