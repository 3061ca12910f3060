"""One model under examination: who it is, what was asked of it, what the probes answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UsageError
from tsc_interp.output.display import Displayed
from tsc_interp.plots.figure import Figures
from tsc_interp.probes.probe import Probe, Question
from tsc_interp.probes.registry import find_probe
from tsc_interp.report.card import ModelCard
from tsc_interp.report.cause import Confirmation
from tsc_interp.results.base import Finding, ProbeResult, worst_first

R = TypeVar("R", bound=ProbeResult)
_CAUSES = {"superposition", "cone", "margin"}
"""The probes that say why a string is wrong; the others say that it is, or how much."""

__all__ = ["DrawnWhenAsked", "ModelCard", "ModelReport", "Section", "section_of"]


def _result(data: Mapping[str, Any]) -> ProbeResult:
    """A result from its JSON, of whichever probe it is; another package's has to be installed."""
    try:
        probe = find_probe(data["probe"])
    except UsageError as error:
        raise UsageError(f"a result of a probe that is not installed here: {error}") from None
    return probe.result_type.from_dict(dict(data))


@dataclass(frozen=True)
class Section:
    """A probe's or a laboratory's answer with its figures."""

    probe: Question
    result: ProbeResult

    @cached_property
    def figures(self) -> Figures:
        return self.probe.figures(self.result)


class DrawnWhenAsked(Mapping[str, Figures]):
    """Probe names to figures: `report.figures["margin"]["flips"]`."""

    def __init__(self, sections: Mapping[str, Section]) -> None:
        self._sections = sections

    def __getitem__(self, probe: str) -> Figures:
        return section_of(self._sections, probe).figures

    def __contains__(self, probe: object) -> bool:
        return probe in self._sections

    def __iter__(self) -> Iterator[str]:
        return iter(self._sections)

    def __len__(self) -> int:
        return len(self._sections)

    def __repr__(self) -> str:
        return f"<figures of {', '.join(self._sections)}>"


def section_of(sections: Mapping[str, Section], probe: str) -> Section:
    if probe not in sections:
        raise UsageError(f"no probe {probe!r} in this report; it has {', '.join(sections)}")
    return sections[probe]


@dataclass(frozen=True, repr=False)
class ModelReport(Displayed):
    card: ModelCard
    strings: tuple[str, ...]
    results: tuple[ProbeResult, ...]
    not_run: Mapping[str, str] = field(default_factory=dict)
    """Probes this model cannot be asked, each with the reason."""
    checkpoint: Checkpoint | None = field(default=None, compare=False, repr=False)
    """The model itself, for a page to try it out in; not part of the JSON."""
    confirmation: Confirmation | None = None
    """Of a wrong string that is taken apart: the intervention that confirms its cause."""

    @cached_property
    def sections(self) -> dict[str, Section]:
        sections = [Section(self.probe(result.probe), result) for result in self.results]
        return {section.probe.name: section for section in sections}

    def probe(self, name: str) -> Probe:
        """A probe, in the words of this model: letters, or tokens where there is no task."""
        probe = find_probe(name)
        return probe if self.card.asked is None else probe.of_tokens()

    def result(self, probe: str, kind: type[R]) -> R | None:
        """What a probe answered, if it was asked."""
        section = self.sections.get(probe)
        result = None if section is None else section.result
        return result if isinstance(result, kind) else None

    @property
    def figures(self) -> DrawnWhenAsked:
        return DrawnWhenAsked(self.sections)

    def findings(self) -> list[tuple[str, Finding]]:
        """(probe name, finding): the verdict, then worst first, in the order of the probes."""
        pairs = [(result.probe, finding) for result in self.results for finding in result.findings]
        pairs.sort(key=lambda pair: worst_first(pair[1]))
        return [("", self.card.verdict()), *pairs]

    def highlights(self) -> list[tuple[str, Finding]]:
        """What to read first: the verdict, and from each probe the worst of what matters.

        That is a failure or a warning; of a model that has neither, what is good about it. Of a
        model without a task it is what each probe says first.
        """
        verdict, *others = self.findings()
        serious = [pair for pair in others if pair[1].severity in ("failure", "warning")]
        reassuring = [pair for pair in others if pair[1].severity == "good"]
        chosen = others if self.card.asked else serious or reassuring or others
        first = dict(reversed(chosen))  # the last one written stays
        if self.card.asked is None:
            first = self._one_line_each(first)
        return [verdict, *((name, first[name]) for name in self.sections if name in first)]

    def _one_line_each(self, first: Mapping[str, Finding]) -> dict[str, Finding]:
        """One cause, one line: what only repeats which string is wrong is left to its card.

        The verdict has the horizon already, and how many strings are wrong.
        """
        said_already: set[str] = set()
        if "trace" in first and first["trace"].severity == "failure" and _CAUSES & first.keys():
            said_already.add("trace")
        causes = [finding for name, finding in first.items() if name in _CAUSES]
        explained = {string for finding in causes for string in finding.strings}
        return {
            name: finding
            for name, finding in first.items()
            if name not in said_already
            and (name in _CAUSES or not explained.intersection(finding.strings))
        }

    def _facts(self) -> list[str]:
        return [self.card.name, *self.sections]

    def _lines(self) -> list[tuple[str, str]]:
        return [(finding.severity, finding.text) for _, finding in self.highlights()]

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.card.to_dict(),
            "strings": list(self.strings),
            "verdict": self.card.verdict().model_dump(mode="json"),
            "results": [result.to_dict() for result in self.results],
            "not_run": dict(self.not_run),
            "confirmation": None if self.confirmation is None else self.confirmation.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ModelReport:
        confirmation = data.get("confirmation")  # reports from before had none
        return cls(
            card=ModelCard.from_dict(data["model"]),
            strings=tuple(data["strings"]),
            results=tuple(_result(result) for result in data["results"]),
            not_run=dict(data["not_run"]),
            confirmation=None if confirmation is None else Confirmation.from_dict(confirmation),
        )
