"""One model under examination: who it is, what was asked of it, what the probes answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsc_interp.checkpoints.format import SUFFIX, Checkpoint
from tsc_interp.checkpoints.run_directory import run_of
from tsc_interp.errors import UsageError
from tsc_interp.output.display import Displayed
from tsc_interp.plots.figure import Figures
from tsc_interp.probes.base import SEVERITIES, Cell, Finding, ProbeResult, Severity
from tsc_interp.probes.registry import Question, find_probe
from tsc_interp.report.cause import Confirmation
from tsc_interp.report.reach import Reach
from tsc_interp.report.strings import TestScore
from tsc_interp.source_report import TEST_LENGTH

if TYPE_CHECKING:
    from tsc_interp.model.classifier import Classifier


@dataclass(frozen=True)
class ModelCard:
    """Which model this is, exactly: the weight hash tells apart what the name cannot."""

    name: str
    source: str
    """What to type to get it again: a bundled name, a file."""
    task: str
    parameters: int
    weight_hash: str
    config: Mapping[str, Any]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    test: TestScore | None = None
    reach: Reach | None = None

    @classmethod
    def of(
        cls,
        model: Classifier,
        provenance: Mapping[str, Any],
        test: TestScore | None,
        reach: Reach | None,
    ) -> ModelCard:
        checkpoint = model.to_checkpoint()
        return cls(
            name=_short_name(model.source),
            source=model.source,
            task=model.config.question,
            parameters=checkpoint.n_parameters,
            weight_hash=checkpoint.weight_hash(),
            config=model.config.to_dict(),
            provenance=dict(provenance),
            test=test,
            reach=reach,
        )

    def verdict(self) -> Finding:
        """The first things to know: does it fail, how often, from which length on, on what."""
        name = self.name.replace("`", "'")  # a sentence sets what is between backticks as code
        sentences = [f"{name} answers “{self.task}?” with {self.parameters:,} parameters."]
        numbers: dict[str, Cell] = {}
        if self.test is not None:
            sentences.append(self.test.sentence())
            numbers |= {
                "test strings": self.test.strings,
                "false positives": self.test.false_positives,
                "false negatives": self.test.false_negatives,
            }
        if self.reach is not None:
            sentences.append(self.reach.sentence())
            numbers["right through length"] = self.reach.right_through
        if self.test is None and self.reach is None:
            sentences.append("There is no test set for its task.")
        return Finding(severity=self._severity(), text=" ".join(sentences), numbers=numbers)

    def _severity(self) -> Severity:
        """An error no longer than test strings are is a failure, tested or not.

        Without one, good is what the test set or a proof speaks for; silence is not.
        """
        tested = self.test is not None
        errors = self.test.errors if self.test is not None else 0
        proved, shortest = 0, None
        if self.reach is not None:
            proved, shortest = self.reach.right_through, self.reach.shortest_error()
        if errors or (shortest is not None and shortest <= TEST_LENGTH):
            return "failure"
        return "good" if tested or proved >= TEST_LENGTH else "note"


def _short_name(source: str) -> str:
    """A file by its name; a run's checkpoint by experiment, seed and epoch."""
    path = Path(source)
    if path.suffix != SUFFIX:
        return source
    found = run_of(path)
    if found is None:
        return path.stem
    run, epoch = found
    return f"{run.parent.parent.name} {run.name} epoch={epoch}".strip()


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
        found = [Section(find_probe(result.probe), result) for result in self.results]
        return {section.probe.name: section for section in found}

    @property
    def figures(self) -> DrawnWhenAsked:
        return DrawnWhenAsked(self.sections)

    def findings(self) -> list[tuple[str, Finding]]:
        """(probe name, finding): the verdict, then worst first, in the order of the probes."""
        told = [(result.probe, finding) for result in self.results for finding in result.findings]
        told.sort(key=lambda pair: SEVERITIES.index(pair[1].severity))
        return [("", self.card.verdict()), *told]

    def highlights(self) -> list[tuple[str, Finding]]:
        """What to read first: the verdict, and from each probe the worst of what matters.

        That is a failure or a warning; of a model that has neither, what is good about it.
        """
        verdict, *told = self.findings()
        serious = [pair for pair in told if pair[1].severity in ("failure", "warning")]
        reassuring = [pair for pair in told if pair[1].severity == "good"]
        first = dict(reversed(serious or reassuring or told))  # the last one written stays
        return [verdict, *((name, first[name]) for name in self.sections if name in first)]

    def _facts(self) -> list[str]:
        return [self.card.name, *self.sections]

    def _lines(self) -> list[tuple[str, str]]:
        return [(finding.severity, finding.text) for _, finding in self.highlights()]

    def to_dict(self) -> dict[str, Any]:
        test = self.card.test
        card = {**vars(self.card), "config": dict(self.card.config)}
        card["provenance"] = dict(self.card.provenance)
        card["test"] = None if test is None else {**vars(test), "worst": list(test.worst)}
        card["reach"] = None if self.card.reach is None else dict(vars(self.card.reach))
        return {
            "model": card,
            "strings": list(self.strings),
            "verdict": self.card.verdict().model_dump(mode="json"),
            "results": [result.to_dict() for result in self.results],
            "not_run": dict(self.not_run),
            "confirmation": None if self.confirmation is None else self.confirmation.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ModelReport:
        card = dict(data["model"])
        if card["test"] is not None:
            card["test"] = TestScore(**{**card["test"], "worst": tuple(card["test"]["worst"])})
        if card["reach"] is not None:
            card["reach"] = Reach(**card["reach"])
        told = data.get("confirmation")  # reports from before had none
        return cls(
            card=ModelCard(**card),
            strings=tuple(data["strings"]),
            results=tuple(find_probe(r["probe"]).result_type.from_dict(r) for r in data["results"]),
            not_run=dict(data["not_run"]),
            confirmation=None if told is None else Confirmation.from_dict(told),
        )
