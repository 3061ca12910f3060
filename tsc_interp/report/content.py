"""What a report holds of its models, as data: every form of it is made from this."""

from __future__ import annotations

from dataclasses import dataclass

from tsc_interp.plots.figure import Figure
from tsc_interp.report.changes import apart, changes
from tsc_interp.report.model_report import ModelCard, ModelReport
from tsc_interp.verification.counting.differences import Difference


@dataclass(frozen=True, repr=False)
class ReportContent:
    """What was found of one model, or of two side by side."""

    models: tuple[ModelReport, ...]
    difference: Difference | None = None
    """Of two models: the strings on which they answer differently."""

    @property
    def difference_sentence(self) -> str | None:
        """The sentence that says how often two models differ, or None."""
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
        sentences = [changes(cards[0], cards[1], self.short_names), self.difference_sentence]
        return [sentence for sentence in sentences if sentence is not None]

    @property
    def title(self) -> str:
        """The names of the models."""
        return " and ".join(model.card.name for model in self.models)

    def probe_names(self) -> list[str]:
        """The probes that have something to show, in the order they were asked."""
        names = [name for model in self.models for name in (*model.sections, *model.not_run)]
        return list(dict.fromkeys(names))

    def drawings(self) -> dict[str, Figure]:
        """Every figure of every model, by its anchor in the page."""
        return {
            anchor(index, name, figure.name): figure
            for index, model in enumerate(self.models)
            for name, section in model.sections.items()
            for figure in section.figures
        }


def anchor(index: int, probe: str, figure: str) -> str:
    """The name of a figure within a report: page anchor and file name."""
    return f"{probe}-{figure}" if index == 0 else f"{probe}-{figure}-{index + 1}"
