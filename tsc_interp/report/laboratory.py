"""The report of a laboratory: `lab` runs one, and what it found has the forms a report has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from tsc_interp.arguments import checked
from tsc_interp.laboratories.base import Finding, LabResult
from tsc_interp.laboratories.registry import Laboratory, find_laboratory
from tsc_interp.output.display import Grid
from tsc_interp.plots.figure import Figures
from tsc_interp.report.model_report import Section
from tsc_interp.report.saved import SavedReport
from tsc_interp.telling import Progress, say


@checked
def lab(
    name: str, *, quick: bool = False, progress: Progress | bool | None = None, **options: Any
) -> LabReport:
    """Run a laboratory: an experiment from one of the other sources.

    Args:
        name: Of the laboratory; `tsc-interp lab` lists them.
        quick: Whether the defaults of its options are small ones.
        progress: Called with a line of text whenever something begins.
        options: The laboratory's own, as `tsc-interp lab NAME --help` lists them.

    Returns:
        The findings, tables and figures; `show()` prints them and `save()` writes a page.

    Raises:
        UsageError: No such laboratory, or an unknown option.

    Example:
        >>> report = lab("bounds", quick=True)
        >>> report.title
        'What a validation set can say'
    """
    return LabReport(find_laboratory(name).run(quick=quick, progress=say, **options))


@dataclass(frozen=True, repr=False)
class LabReport(SavedReport):
    """What a laboratory found. `show()` prints it, `save()` writes it, notebooks display it."""

    schema: ClassVar[str] = "tsc-interp/laboratory/2"

    result: LabResult

    @property
    def laboratory(self) -> Laboratory:
        """The laboratory that was run."""
        return find_laboratory(self.result.probe)

    @cached_property
    def section(self) -> Section:
        """Its result with figures and tables."""
        return Section(self.laboratory, self.result)

    @property
    def title(self) -> str:
        """The title of the laboratory."""
        return self.laboratory.title

    @property
    def findings(self) -> Sequence[Finding]:
        """The findings, the most important first."""
        return self.result.findings

    @property
    def figures(self) -> Figures:
        """By place or by name, the most important first; drawn when first asked for."""
        return self.section.figures

    def show(self, *, tables: bool = False) -> None:
        """What was found, on the terminal; with `tables`, every table."""
        from tsc_interp.output.console import SafeConsole
        from tsc_interp.report.terminal import print_section

        print_section(self.section, SafeConsole(), tables=tables)

    @property
    def default_directory(self) -> Path:
        """Return the directory that `save` writes to by default."""
        return Path("tsc-report") / f"lab-{self.laboratory.name}"

    def to_html(self, *, plotlyjs: str = "inline") -> str:
        """Return the page as HTML."""
        from tsc_interp.report.commands import lab_command, lab_python
        from tsc_interp.report.html import part_of, render_page

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

    def to_markdown(self) -> str:
        """Return the findings and tables; figures are links to the page."""
        from tsc_interp.report.commands import lab_command, lab_python
        from tsc_interp.report.markdown import GENERATOR, again, plain, section_lines

        lines = [GENERATOR, f"# {plain(self.title)}", "", f"*{self.laboratory.question}*", ""]
        lines += [f"From {plain(self.laboratory.source)}.", ""]
        lines += section_lines(self.section)
        lines += again(lab_command(self.result), lab_python(self.result))
        return "\n".join(lines).rstrip() + "\n"

    def content(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        return {"result": self.result.to_dict()}

    @classmethod
    def from_content(cls, data: Mapping[str, Any]) -> Self:
        """Read back what `content` returned."""
        result = data["result"]
        kind = find_laboratory(result["laboratory"]).result_type
        return cls(kind.from_dict(result))

    def _facts(self) -> list[str]:
        return [self.laboratory.name, self.title]

    def _lines(self) -> list[tuple[str, str]]:
        return [(finding.severity, finding.text) for finding in self.findings]

    def _grids(self) -> list[Grid]:
        return self.result._grids()
