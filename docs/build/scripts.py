"""Run the scripts behind the pages; write what they printed and drew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.build.figures import fragment
from docs.build.sections import Finished, run
from tsc_interp.plots.style import Figure
from tsc_interp.report import Report

ROOT = Path(__file__).resolve().parents[2]


def scripts() -> dict[str, Path]:
    """Every script behind a page, by the folder its output goes to, such as `studies/heads`."""
    found = {f"studies/{page.parent.name}": page for page in ROOT.glob("studies/*/page.py")}
    for folder, place in (("studies/theory", "theory"), ("examples", "examples")):
        of_folder = (ROOT / folder).glob("[a-z]*.py")  # without __init__
        found |= {f"{place}/{script.stem}": script for script in of_folder}
    return dict(sorted(found.items()))


def run_and_write(script: Path, place: Path) -> Finished:
    """`place/SECTION.txt` for what a section printed, `VARIABLE.html` for what it drew."""
    finished = run(script)
    place.mkdir(parents=True, exist_ok=True)
    for section, text in finished.printed.items():
        (place / f"{section or 'all'}.txt").write_text(text.rstrip() + "\n", encoding="utf-8")
    for name, figure in drawn(finished.variables):
        (place / f"{name}.html").write_text(fragment(figure), encoding="utf-8")
    return finished


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
