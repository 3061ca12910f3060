"""One model under examination: who it is, what was asked of it, what the probes answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.plots.registry import figures
from tsc_interp.plots.style import Figure
from tsc_interp.probes.base import Cell, Finding, ProbeResult
from tsc_interp.probes.registry import Probe, find_probe
from tsc_interp.report.strings import TestScore

SEVERITIES = ("failure", "warning", "note", "good")


@dataclass(frozen=True)
class ModelCard:
    """Which model this is, exactly: the weight hash tells apart what the name cannot."""

    name: str
    task: str
    parameters: int
    weight_hash: str
    config: Mapping[str, Any]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    test: TestScore | None = None

    @classmethod
    def of(
        cls, model: HookedClassifier, provenance: Mapping[str, Any], test: TestScore | None
    ) -> ModelCard:
        checkpoint = model.to_checkpoint()
        return cls(
            name=str(model.cfg.model_name),
            task=model.config.task.describe(),
            parameters=checkpoint.n_parameters,
            weight_hash=checkpoint.weight_hash(),
            config=model.config.to_dict(),
            provenance=dict(provenance),
            test=test,
        )

    def verdict(self) -> Finding:
        """The first thing to know: does it fail, how often, on what."""
        size = f"{self.name} answers “{self.task}?” with {self.parameters:,} parameters."
        if self.test is None:
            return Finding(severity="note", text=f"{size} There is no test set for its task.")
        worst = " and ".join(f"`{string}`" for string in self.test.worst)
        numbers: dict[str, Cell] = {
            "test strings": self.test.strings,
            "false positives": self.test.false_positives,
            "false negatives": self.test.false_negatives,
        }
        if not self.test.errors:
            text = (
                f"{size} It makes no error on the {self.test.strings:,} test strings (up to 200 "
                f"letters); it comes nearest to one on {worst}."
            )
            return Finding(severity="good", text=text, numbers=numbers)
        text = (
            f"{size} It is wrong on {self.test.errors:,} of the {self.test.strings:,} test strings "
            f"(up to 200 letters): {self.test.false_positives:,} false positives and "
            f"{self.test.false_negatives:,} false negatives, the worst being {worst}."
        )
        return Finding(severity="failure", text=text, numbers=numbers)


@dataclass(frozen=True)
class Section:
    """A probe's answer with its figures."""

    probe: Probe
    result: ProbeResult

    @cached_property
    def figures(self) -> list[Figure]:
        return figures(self.result)


@dataclass(frozen=True)
class ModelReport:
    card: ModelCard
    strings: tuple[str, ...]
    results: tuple[ProbeResult, ...]
    not_run: Mapping[str, str] = field(default_factory=dict)
    """Probes this model cannot be asked, each with the reason."""

    @cached_property
    def sections(self) -> dict[str, Section]:
        found = [Section(find_probe(result.probe), result) for result in self.results]
        return {section.probe.name: section for section in found}

    def findings(self) -> list[tuple[str, Finding]]:
        """(probe name, finding): the verdict, then worst first, in the order of the probes."""
        told = [(result.probe, finding) for result in self.results for finding in result.findings]
        told.sort(key=lambda pair: SEVERITIES.index(pair[1].severity))
        return [("", self.card.verdict()), *told]

    def to_dict(self) -> dict[str, Any]:
        test = self.card.test
        card = {**vars(self.card), "config": dict(self.card.config)}
        card["provenance"] = dict(self.card.provenance)
        card["test"] = None if test is None else {**vars(test), "worst": list(test.worst)}
        return {
            "model": card,
            "strings": list(self.strings),
            "verdict": self.card.verdict().model_dump(mode="json"),
            "results": [result.to_dict() for result in self.results],
            "not_run": dict(self.not_run),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ModelReport:
        card = dict(data["model"])
        if card["test"] is not None:
            card["test"] = TestScore(**{**card["test"], "worst": tuple(card["test"]["worst"])})
        return cls(
            card=ModelCard(**card),
            strings=tuple(data["strings"]),
            results=tuple(find_probe(r["probe"]).result_type.from_dict(r) for r in data["results"]),
            not_run=dict(data["not_run"]),
        )
