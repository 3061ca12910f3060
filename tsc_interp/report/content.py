"""What a report holds of its models, as data: every form of it is made from this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from tsc_interp.errors import TscError
from tsc_interp.output.numbers import number
from tsc_interp.plots.figure import Figure
from tsc_interp.plots.shared import share_scales
from tsc_interp.report.model_report import ModelCard, ModelReport
from tsc_interp.results.base import Table
from tsc_interp.verification.counting.differences import Difference


@dataclass(frozen=True, repr=False)
class ReportContent:
    """What was found of one model, or of two side by side."""

    models: tuple[ModelReport, ...]
    difference: Difference | None = None
    """Of two models: the strings on which they answer differently."""

    @property
    def short_names(self) -> list[str]:
        """The models by what tells them apart: `epoch=1` and `epoch=8` of one run."""
        return apart([model.card.name for model in self.models])

    @property
    def comparison(self) -> list[str]:
        """Of two models: what changed from the first to the second, and where they differ."""
        cards = [model.card for model in self.models if model.card.asked is None]
        if len(cards) != 2:
            return []
        changed = changes(cards[0], cards[1], self.short_names)
        sentences = [] if self.difference is None else [self.difference.sentence(*self.short_names)]
        return [changed, *sentences]

    @property
    def title(self) -> str:
        """The names of the models."""
        return " and ".join(model.card.name for model in self.models)

    def probe_names(self) -> list[str]:
        """The probes that have something to show, in the order they were asked."""
        names = [name for model in self.models for name in (*model.sections, *model.not_run)]
        return list(dict.fromkeys(names))


def anchor(index: int, probe: str, figure: str) -> str:
    """The name of a figure within a page."""
    return f"{probe}-{figure}" if index == 0 else f"{probe}-{figure}-{index + 1}"


def apart(names: Sequence[str]) -> list[str]:
    """Names without the first words they share, and without backticks, which mean code."""
    words = [name.replace("`", "'").split() for name in names]
    shared = 0
    while all(len(name) > shared + 1 and name[shared] == words[0][shared] for name in words):
        shared += 1
    return [" ".join(name[shared:]) for name in words]


def changes(first: ModelCard, second: ModelCard, names: Sequence[str]) -> str:
    """What is different in the second model: its settings, its errors, how far it is right."""
    results = []
    if first.test and second.test and first.test.strings == second.test.strings:
        before, after = first.test.errors, second.test.errors
        go = "stay" if before == after else f"go from {before:,} to"
        results.append(f"errors on the {first.test.strings:,} test strings {go} {after:,}")
    if first.reach and second.reach:
        before, after = first.reach.verified_length, second.reach.verified_length
        goes = "stays" if before == after else f"goes from {before:,} to"
        results.append(f"the length up to which every string is proved right {goes} {after:,}")
    settings = _settings(first, second)
    if not results:
        return settings
    return f"{settings} From {names[0]} to {names[1]}, {' and '.join(results)}."


def _settings(first: ModelCard, second: ModelCard) -> str:
    if first.weight_hash == second.weight_hash:
        return "The two have the same weights."
    options = dict.fromkeys([*first.config, *second.config])
    differing = [
        f"{option} ({first.config.get(option)} and {second.config.get(option)})"
        for option in options
        if first.config.get(option) != second.config.get(option)
    ]
    if not differing:
        return "The two have the same configuration and different weights."
    return f"They differ in {', '.join(differing)}."


# -- two models together: made from what the report holds of each ----------------------------------


_MOST_ROWS = 20


def side_by_side(report: ReportContent, probe: str) -> list[list[Figure | None]]:
    """A probe's figures, each with every model's beside it: one range per axis, one per colour."""
    sections = [model.sections.get(probe) for model in report.models]
    sides = [{f.name: f for f in section.figures} if section else {} for section in sections]
    names = dict.fromkeys(name for side in sides for name in side)
    return [_shared([side.get(name) for side in sides]) for name in names]


def _shared(row: list[Figure | None]) -> list[Figure | None]:
    present = [figure for figure in row if figure is not None]
    if len(present) < 2:
        return row
    drawings = iter(share_scales([figure.figure for figure in present]))
    return [figure and replace(figure, figure=next(drawings)) for figure in row]


def disagreements(report: ReportContent) -> Table | None:
    """The strings on which two models differ: by set of letters, the shortest of each."""
    if report.difference is None or not report.difference.differing:
        return None
    first, second = report.short_names
    names = {"first": first, "second": second, None: ""}
    rows = [
        (row.letters, row.shortest, *row.logits, names[row.right], number(row.strings))
        for row in report.difference.disagreements
    ]
    return Table.from_rows(
        "Strings they answer differently, by the letters that occur",
        ("letters", "shortest", first, second, "right is", "strings"),
        tuple(rows)[:_MOST_ROWS],
    )


def difference_picture(report: ReportContent) -> Markup | None:
    """The map of where they differ; None without the weights, or where there is no map."""
    known = [model.checkpoint for model in report.models if model.checkpoint is not None]
    if report.difference is None or len(known) < 2:
        return None
    from tsc_interp.playground.mapdifference import difference_map

    first, second = report.short_names
    try:
        return Markup(difference_map(known[0], known[1], names=(first, second))) or None
    except TscError:
        return None
