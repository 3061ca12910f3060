"""The report of a laboratory: `lab` runs one, and what it found has the faces a report has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self, cast

from tsc_interp._version import __version__
from tsc_interp.errors import TscError
from tsc_interp.laboratories.base import Finding, LabResult, Progress, silent
from tsc_interp.laboratories.registry import Laboratory, find_laboratory
from tsc_interp.output.display import Displayed, Grid
from tsc_interp.output.json_form import to_json
from tsc_interp.plots.figure import Figure, Figures
from tsc_interp.report.model_report import Section

SCHEMA = "tsc-interp/laboratory/1"


def lab(
    name: str, *, quick: bool = False, progress: Progress = silent, **options: Any
) -> LabReport:
    """Run a laboratory: `tsc.lab("attention", quick=True)`; `tsc-interp lab` lists them.

    `quick` makes the defaults smaller, `options` are the laboratory's own (`tsc-interp lab NAME
    --help`), and `progress` is called with what is being done.
    """
    return LabReport(find_laboratory(name).run(quick=quick, progress=progress, **options))


@dataclass(frozen=True, repr=False)
class LabReport(Displayed):
    """What a laboratory found. `show()` prints it, `save()` writes it, notebooks display it."""

    result: LabResult

    @property
    def laboratory(self) -> Laboratory:
        return find_laboratory(self.result.probe)

    @cached_property
    def section(self) -> Section:
        return Section(self.laboratory, self.result)

    @property
    def title(self) -> str:
        return self.laboratory.title

    @property
    def findings(self) -> Sequence[Finding]:
        return self.result.findings

    @property
    def figures(self) -> Figures:
        """By place or by name, the most important first; drawn when first asked for."""
        return self.section.figures

    def show(self, *, tables: bool = False) -> None:
        """What was found, on the terminal; with `tables`, every table."""
        from tsc_interp.output.console import SafeConsole
        from tsc_interp.report.terminal import print_lab

        print_lab(self, SafeConsole(), tables=tables)

    def save(
        self,
        directory: str | PathLike[str] | None = None,
        *,
        formats: Sequence[str] = ("html", "md", "json"),
        plotlyjs: str = "inline",
        images: str | None = None,
        force: bool = False,
    ) -> Path:
        """Write the page and its data, all or nothing; by default in `tsc-report/lab-NAME`."""
        from tsc_interp.report.files import save

        place = self.default_directory if directory is None else Path(directory)
        return save(self, place, formats=formats, plotlyjs=plotlyjs, images=images, force=force)

    @property
    def default_directory(self) -> Path:
        return Path("tsc-report") / f"lab-{self.laboratory.name}"

    def to_page(self, *, plotlyjs: str = "inline") -> str:
        from tsc_interp.report.html import part_of, render_page
        from tsc_interp.report.reproduce import lab_command, lab_python

        name = self.laboratory.name
        return render_page(
            "lab.html",
            plotlyjs,
            lab=self.laboratory,
            first=self.findings[0],
            findings=self.findings[1:],
            figures=[part_of(figure, 0, name) for figure in self.figures],
            result=self.result,
            options=self.result.options.model_dump(),
            command=lab_command(self.result),
            python=lab_python(self.result),
        )

    def to_markdown(self, *, images: Mapping[str, str] | None = None) -> str:
        """`images` maps a figure's anchor to the file that shows it."""
        from tsc_interp.report.markdown import GENERATOR, again, plain, section_lines
        from tsc_interp.report.reproduce import lab_command, lab_python

        lines = [GENERATOR, f"# {plain(self.title)}", "", f"*{self.laboratory.question}*", ""]
        lines += [f"From {plain(self.laboratory.source)}.", ""]
        lines += section_lines(self.section, images or {})
        lines += again(lab_command(self.result), lab_python(self.result))
        return "\n".join(lines).rstrip() + "\n"

    def drawings(self) -> dict[str, Figure]:
        """Every figure by its anchor in the page."""
        from tsc_interp.report.markdown import anchor

        return {anchor(0, self.laboratory.name, figure.name): figure for figure in self.figures}

    def to_dict(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "version": __version__, "result": self.result.to_dict()}

    def to_json(self) -> str:
        """Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity"."""
        return to_json(self.to_dict(), indent=1)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        if data.get("schema") != SCHEMA:
            raise TscError(
                f"not a laboratory's report: schema {data.get('schema')!r}, expected {SCHEMA!r}"
            )
        result = data["result"]
        kind = find_laboratory(result["laboratory"]).result_type
        return cls(cast(LabResult, kind.from_dict(result)))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_dict(json.loads(text))

    def _facts(self) -> list[str]:
        return [self.laboratory.name, self.title]

    def _lines(self) -> list[tuple[str, str]]:
        return [(finding.severity, finding.text) for finding in self.findings]

    def _grids(self) -> list[Grid]:
        return self.result._grids()
