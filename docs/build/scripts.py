"""Run the example scripts and the numerical checks; write what they printed and drew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.build.figures import fragment
from docs.build.sections import Finished, run
from tsc_interp.plots.style import Figure
from tsc_interp.report import Report


def run_and_write(script: Path, folder: Path) -> Finished:
    """`folder/SCRIPT/SECTION.txt` for what a section printed, `VARIABLE.html` for what it drew."""
    finished = run(script)
    place = folder / finished.name
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
