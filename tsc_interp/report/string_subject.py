"""A classifier and strings, as a report examines them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint, run_path
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.classifier import Classifier
from tsc_interp.probes.inputs import Inputs
from tsc_interp.probes.probe import Probe
from tsc_interp.probes.registry import PROBES
from tsc_interp.report.asking import EXACT, ask, left_out
from tsc_interp.report.card import ModelCard, short_name
from tsc_interp.report.cause import confirm
from tsc_interp.report.dissection import choose, lost_head
from tsc_interp.report.model_report import ModelReport
from tsc_interp.report.order import SECONDS, OrderSummary, order_summary
from tsc_interp.report.reach import Reach, reach
from tsc_interp.report.scoring import TestScore, score_test_set
from tsc_interp.results.base import ProbeResult
from tsc_interp.telling import say

MOST_NAMED = 5
"""Letters whose meaning fits into a verdict."""


class StringSubject:
    """A model, its strings, and whatever is known of it before any probe is asked.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        epoch: The epoch of a run, by default the chosen one.
        seconds: How long an order-sensitive model's inputs are searched.
        name: What the page calls the model, by default after its source.
    """

    strings: tuple[str, ...] = ()

    def __init__(
        self,
        model: ModelLike,
        epoch: int | None = None,
        seconds: float | None = None,
        name: str | None = None,
    ) -> None:
        checkpoint = as_checkpoint(model, epoch=epoch)
        self.seconds = SECONDS if seconds is None else seconds
        self.run_directory = run_path(model)
        # A model with hooks is examined with them; nothing else needs TransformerLens.
        self.model = (
            model if isinstance(model, Classifier) else Classifier.from_checkpoint(checkpoint)
        )
        self.name = short_name(self.model.source) if name is None else str(name)
        self.config = self.model.config
        self.checkpoint = self.model.to_checkpoint(checkpoint.provenance)
        self.test: TestScore | None = score_test_set(self.model)

    @cached_property
    def _exact(self) -> bool:
        return not EXACT.exceeded(self.config, self.checkpoint.n_parameters)

    @cached_property
    def order(self) -> OrderSummary | None:
        """Every input of a model that sees order, unless it is too large to be searched."""
        searched = self.config.needs_order and self._exact
        return order_summary(self.model, self.seconds) if searched else None

    @cached_property
    def reach(self) -> Reach | None:
        """Up to which length it is right, unless it is too large to be searched."""
        return reach(self.checkpoint) if self._exact else None

    def first_errors(self) -> list[str]:
        """What the report takes apart, in run-length notation."""
        if not self.config.needs_order:
            return [string for string, _ in self.reach.errors()] if self.reach else []
        if self.order is None or not (self.order.first or self.order.writes):
            return []
        alphabet = self.config.alphabet
        names = self.config.token_names or tuple(alphabet.letters)
        letters = (names.index(letter.letter) for letter in self.order.apart.letters)
        return [alphabet.canonical("".join(alphabet.letters[i] for i in letters))]

    @cached_property
    def inputs(self) -> Inputs:
        return Inputs(self.model, self.strings)

    def probes(self) -> list[Probe]:
        """What is asked if nobody names a probe."""
        return [
            p
            for p in PROBES
            if (not p.on_request or (p.name == "patterns" and self.config.needs_order))
            and (not p.needs_run or self.run_directory is not None)
        ]

    def ask(self, probe: Probe, *, named: bool) -> ProbeResult:
        """One probe's answer; one that was not named is asked only where it is worth its time."""
        reason = None
        if probe.name == "init-norm" and "imported_from" in self.checkpoint.provenance:
            reason = "it was trained elsewhere, and how it was initialised is not known"
        reason = reason or left_out(probe.name, self.config, self.checkpoint.n_parameters)
        if reason is not None and not named:
            raise UnsupportedError(reason)
        options = {"run_directory": self.run_directory} if probe.needs_run else {}
        return ask(probe, self.inputs, **options)

    def report(self, answers: dict[str, Any]) -> ModelReport:
        """The card, the answers, and what confirms the cause of the first error."""
        made = ModelReport(self._card(), self.strings, **answers, checkpoint=self.checkpoint)
        taken_apart = choose(made)
        if taken_apart is None or taken_apart.right:
            return made
        string = taken_apart.string
        say(f"which intervention confirms why {string} is wrong")
        return replace(made, confirmation=confirm(self.model, string, lost_head(made, string)))

    def _card(self) -> ModelCard:
        # Inputs are written with their tokens' own names, so a long legend of letters says little.
        plain = self.order is not None and self.config.n_letters > MOST_NAMED
        return ModelCard(
            name=self.name,
            source=self.model.source,
            task=self.config.task.describe() if plain else self.config.question,
            parameters=self.checkpoint.n_parameters,
            weight_hash=self.checkpoint.weight_hash(),
            config=self.config.to_dict(),
            provenance=dict(self.checkpoint.provenance),
            test=self.test,
            reach=self.reach,
            order=self.order,
        )
