"""A report: one model, or two side by side, as data with many forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from tsc_interp.files import slug
from tsc_interp.report.content import ReportContent
from tsc_interp.report.model_report import DrawnWhenAsked, ModelReport, section_of
from tsc_interp.report.saved import SavedReport
from tsc_interp.results.base import Finding
from tsc_interp.verification.counting.differences import Difference


@dataclass(frozen=True, repr=False)
class Report(ReportContent, SavedReport):
    """What the probes found. `show()` prints it, `save()` writes it, notebooks display it.

    A notebook shows what matters first, as text; `report.figures["margin"]` draws.

    Attributes:
        models: What was found of each model.
        difference: Of two models: the strings on which they answer differently.

    Example:
        >>> import tsc_interp as tsc
        >>> report = tsc.analyze("walkthrough", "aab", probes="specialization")
        >>> report.title, report.probe_names()
        ('walkthrough', ['specialization'])
    """

    schema: ClassVar[str] = "tsc-interp/report/2"

    @property
    def findings(self) -> list[Finding]:
        """All findings, the verdict first, then worst first."""
        return [finding for model in self.models for _, finding in model.findings()]

    def __getitem__(self, probe: str) -> Any:
        """The first model's result of a probe: `report["margin"]`."""
        return section_of(self.models[0].sections, probe).result

    @property
    def figures(self) -> DrawnWhenAsked:
        """The first model's figures by probe: `report.figures["margin"]`, drawn when asked for."""
        return self.models[0].figures

    def show(self, *, tables: bool = False) -> None:
        """What matters first, on the terminal; with `tables`, every finding and every table."""
        from tsc_interp.output.console import SafeConsole
        from tsc_interp.report.terminal import print_report

        print_report(self, SafeConsole(), tables=tables)

    @property
    def default_directory(self) -> Path:
        """`tsc-report/<model>`, or `tsc-report/<model>-and-<other>`."""
        return Path("tsc-report") / "-and-".join(slug(model.card.name) for model in self.models)

    def to_html(self, *, plotlyjs: str = "inline") -> str:
        """Return the page, with the model to try out if the report still knows it."""
        from tsc_interp.report.html import render_html

        return render_html(self, plotlyjs=plotlyjs)

    def to_markdown(self) -> str:
        """Return the findings and tables; figures are links to the page."""
        from tsc_interp.report.markdown import render_markdown

        return render_markdown(self)

    def content(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        return {
            "models": [model.to_dict() for model in self.models],
            **({"difference": self.difference.to_dict()} if self.difference is not None else {}),
        }

    @classmethod
    def from_content(cls, data: Mapping[str, Any]) -> Self:
        """Read back what `content` returned."""
        difference = data.get("difference")
        return cls(
            tuple(ModelReport.from_dict(model) for model in data["models"]),
            None if difference is None else Difference.from_dict(difference),
        )

    def _facts(self) -> list[str]:
        return [self.title, f"probes {' '.join(self.probe_names())}"]

    def _lines(self) -> list[tuple[str, str]]:
        first = [("note", sentence) for sentence in self.comparison]
        return first + [line for model in self.models for line in model._lines()]
