"""A report: one model, or two side by side, as data with many faces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

from tsc_interp._version import __version__
from tsc_interp.errors import TscError
from tsc_interp.output.display import Displayed
from tsc_interp.output.json_form import to_json
from tsc_interp.plots.figure import Figure
from tsc_interp.probes.base import Finding
from tsc_interp.report.changes import apart, changes
from tsc_interp.report.model_report import DrawnWhenAsked, ModelCard, ModelReport, section_of
from tsc_interp.verification.differences import Difference

SCHEMA = "tsc-interp/report/1"


@dataclass(frozen=True, repr=False)
class Report(Displayed):
    """What the probes found. `show()` prints it, `save()` writes it, notebooks display it.

    A notebook shows what matters first, as text; `report.figures["margin"]` draws.
    """

    models: tuple[ModelReport, ...]
    difference: Difference | None = None
    """Of two models: the strings on which they answer differently."""

    @property
    def difference_sentence(self) -> str | None:
        if self.difference is None:
            return None
        return self.difference.sentence(*self.short_names)

    @property
    def short_names(self) -> list[str]:
        """The models by what tells them apart: `epoch=1` and `epoch=8` of one run."""
        return apart([model.card.name for model in self.models])

    @property
    def comparison(self) -> list[str]:
        """Of two models: what changed from the first to the second, and where they differ."""
        cards = [model.card for model in self.models if isinstance(model.card, ModelCard)]
        if len(cards) != 2:
            return []
        told = [changes(cards[0], cards[1], self.short_names), self.difference_sentence]
        return [sentence for sentence in told if sentence is not None]

    @property
    def title(self) -> str:
        return " and ".join(model.card.name for model in self.models)

    @property
    def findings(self) -> list[Finding]:
        return [finding for model in self.models for _, finding in model.findings()]

    def probe_names(self) -> list[str]:
        """The probes that have something to show, in the order they were asked."""
        names = [name for model in self.models for name in (*model.sections, *model.not_run)]
        return list(dict.fromkeys(names))

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

    def save(
        self,
        directory: str | PathLike[str],
        *,
        formats: Sequence[str] = ("html", "md", "json"),
        plotlyjs: str = "inline",
        images: str | None = None,
        force: bool = False,
    ) -> Path:
        """Write the report, all of it or nothing, and return the page (or the first file)."""
        from tsc_interp.report.files import save

        return save(
            self, Path(directory), formats=formats, plotlyjs=plotlyjs, images=images, force=force
        )

    def to_html(self, *, plotlyjs: str = "inline") -> str:
        from tsc_interp.report.html import render_html

        return render_html(self, plotlyjs=plotlyjs)

    def to_page(self, *, plotlyjs: str) -> str:
        """As it is saved: with the model to try out, if the report still knows it."""
        from tsc_interp.report.extras import playground
        from tsc_interp.report.html import render_html

        return render_html(self, plotlyjs=plotlyjs, extras=playground(self))

    def to_markdown(self, *, images: Mapping[str, str] | None = None) -> str:
        """`images` maps a figure's anchor to the file that shows it."""
        from tsc_interp.report.markdown import render_markdown

        return render_markdown(self, images=images)

    def drawings(self) -> dict[str, Figure]:
        """Every figure of every model, by its anchor in the page."""
        from tsc_interp.report.markdown import anchor

        return {
            anchor(index, name, figure.name): figure
            for index, model in enumerate(self.models)
            for name, section in model.sections.items()
            for figure in section.figures
        }

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "version": __version__,
            "models": [model.to_dict() for model in self.models],
            **({"difference": self.difference.to_dict()} if self.difference is not None else {}),
        }

    def to_json(self) -> str:
        """Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity"."""
        return to_json(self.to_dict(), indent=1)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        if data.get("schema") != SCHEMA:
            raise TscError(f"not a report: schema {data.get('schema')!r}, expected {SCHEMA!r}")
        told = data.get("difference")
        return cls(
            tuple(ModelReport.from_dict(model) for model in data["models"]),
            None if told is None else Difference.from_dict(told),
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_dict(json.loads(text))

    def _facts(self) -> list[str]:
        return [self.title, f"probes {' '.join(self.probe_names())}"]

    def _lines(self) -> list[tuple[str, str]]:
        first = [("note", sentence) for sentence in self.comparison]
        return first + [line for model in self.models for line in model._lines()]
