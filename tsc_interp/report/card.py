"""Who a model is, exactly, and the first thing to know about it.

A card is of a classifier or of any model of TransformerLens. It holds whatever evidence there is:
test strings, how far it is proved right, every input decided, a search for wrong inputs, or only
the rows of token ids that it was asked about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tsc_interp.checkpoints.checkpoint import SUFFIX
from tsc_interp.checkpoints.run_directory import run_of
from tsc_interp.falsification.result import Falsification
from tsc_interp.falsification.words import verdict
from tsc_interp.output.numbers import counted
from tsc_interp.report.asked import Asked
from tsc_interp.report.order import OrderSummary
from tsc_interp.report.reach import Reach, n_letters, written_out
from tsc_interp.report.scoring import TestScore
from tsc_interp.results.arrays import Stored
from tsc_interp.results.base import Cell, Finding, Severity
from tsc_interp.source_report import TEST_LENGTH

NOT_TESTED = "Not tested: no label was given, so nothing here is known to be right or wrong."


@dataclass(frozen=True)
class ModelCard(Stored):
    """Which model this is, exactly: the weight hash tells apart what the name cannot."""

    name: str
    source: str
    """What to type to get it again: a bundled name, a file."""
    task: str
    parameters: int
    weight_hash: str
    config: Mapping[str, Any]
    """Options of a classifier; of another model its layers, heads, widths, norm, ..."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    test: TestScore | None = None
    reach: Reach | None = None
    order: OrderSummary | None = None
    """Of an order-sensitive model: every input, decided."""
    tested: Falsification | None = None
    """What a search for wrong inputs said."""
    asked: Asked | None = None
    """Of a model that is not asked in strings: the rows of token ids."""
    kind: str = ""
    """The class of a model of TransformerLens."""

    @property
    def token_names(self) -> tuple[str, ...]:
        """What the model's letters stand for, in their order; empty where they have no names."""
        return tuple(self.config.get("token_names", ()))

    def facts(self) -> list[tuple[str, str]]:
        """Configuration and provenance as rows of a table: ("train max length", "10")."""
        config = {name: value for name, value in self.config.items() if name != "task"}
        kind = {"kind": self.kind} if self.kind else {}
        return [*_rows({**kind, **config}), *_rows(self.provenance)]

    def first_facts(self) -> list[tuple[str, str]]:
        """What it is, line by line; empty lines are left out."""
        lines = [("Checkpoint", self.typed), ("Task", self.task),
                 ("Parameters", f"{self.parameters:,}")]  # fmt: skip
        lines += [] if self.asked is None else self.asked.facts()
        return [(name, text) for name, text in lines if text]

    @property
    def typed(self) -> str:
        """What to type for it; nothing for a model that was imported and not saved."""
        saved = "imported_from" not in self.provenance or self.source.endswith(SUFFIX)
        return self.source if saved else ""

    def verdict(self) -> Finding:
        """The first things to know: does it fail, how often, from which length on, on what."""
        name = self.name.replace("`", "'")  # a sentence sets what is between backticks as code
        if self.asked is not None:
            return self._of_rows(name, self.asked)
        sentences = [f"{name} answers “{self.task}?” with {self.parameters:,} parameters."]
        numbers: dict[str, Cell] = {}
        if self.test is not None:
            trained_here = bool({"training", "trained_by"} & self.provenance.keys())
            sentences.append(self.test.sentence(trained_here=trained_here))
            numbers |= self.test.numbers()
        if self.reach is not None:
            sentences.append(self.reach.sentence())
            numbers["verified length"] = self.reach.verified_length
        if self.order is not None:
            sentences.append(self.order.sentence())
            numbers["right share"] = 1 - (self.order.wrong + self.order.undecided) / (
                self.order.inputs
            )
        if self.test is None and self.reach is None and self.order is None:
            sentences.append(self._untested())
        return Finding.of(" ".join(sentences), numbers, self._severity())

    def _of_rows(self, name: str, asked: Asked) -> Finding:
        """What a search for errors said, what the model is, and what was asked."""
        layers, heads = self.config["layers"], self.config["heads"]
        of_each = f"of {counted(heads, 'head')}" + (" each" if layers > 1 else "")
        judged = Finding.of(NOT_TESTED) if self.tested is None else verdict(self.tested)
        asks = f" and answers “{self.task}?”" if self.task else ""
        if name.startswith(f"{layers}-layer "):  # nobody named it, and it has its size for a name
            name = "The model"
        text = (
            f"{judged.text} {name} has {counted(layers, 'layer')} {of_each} and "
            f"{counted(self.parameters, 'parameter')}{asks}. {asked.sentence()}"
        )
        numbers: dict[str, Cell] = {
            "layers": layers, "heads": heads, "parameters": self.parameters,
        }  # fmt: skip
        return Finding.of(text, numbers, judged.severity)

    def lesson(self) -> str | None:
        """The one sentence to remember: how far the model is right, and where it first is not."""
        if self.reach is None or not self.reach.errors():
            return None
        first, _ = self.reach.errors()[0]
        before = ""
        if self.test is not None and not self.test.errors:
            before = f"No error on {self.test.strings:,} test strings, but "
        shorter = self.reach.exact and n_letters(first) > 1
        proved = "; every shorter string is proved right" if shorter else ""
        name = self.name.replace("`", "'")
        return f"{before}{name} is wrong on `{first}` ({written_out(first)}){proved}."

    def _untested(self) -> str:
        read, places = self.config.get("reads", "first"), self.config.get("n_positions", 0)
        layers = self.config.get("n_layers", 1)
        if not places and read != "last_letter" and (read != "last" or layers == 1):
            return "There is no test set for its task."
        decided = "`tsc-interp falsify` searches for wrong inputs."
        if layers == 1:
            decided = "`tsc-interp verify` says why its inputs cannot be decided."
        return (
            "Its answers depend on the order of letters, so the test strings and the horizon do "
            f"not apply; {decided}"
        )

    def _severity(self) -> Severity:
        """An error no longer than test strings are is a failure, tested or not.

        Without one, good is what the test set or a proof speaks for; silence is not.
        """
        if self.order is not None:
            return self.order.severity
        shortest = None if self.reach is None else self.reach.shortest_error()
        if (self.test and self.test.errors) or (shortest and shortest <= TEST_LENGTH):
            return "failure"
        proved = self.reach is not None and self.reach.verified_length >= TEST_LENGTH
        return "good" if self.test is not None or proved else "note"


def _rows(known: Mapping[str, Any], *above: str) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in known.items():
        path = (*above, name.replace("_", " "))
        if isinstance(value, Mapping):
            rows += _rows(value, *path)
        else:
            rows.append((" ".join(path), _cell(value)))
    return rows


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    return "none" if value is None else str(value)


def short_name(source: str) -> str:
    """A file by its name; a run's checkpoint by experiment, seed and epoch."""
    path = Path(source)
    if path.suffix != SUFFIX:
        return source
    if (run_and_epoch := run_of(path)) is None:
        return path.stem
    run, epoch = run_and_epoch
    return f"{run.parent.parent.name} {run.name} epoch={epoch}".strip()
