"""The exact half: edited models, their wrong strings up to a length, and their first errors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.interventions.changes import Change
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Part
from tsc_interp.interventions.weights import edit
from tsc_interp.probes.ablation.result import Ablated, AblationResult, Exact, TestErrors
from tsc_interp.strings import Counts
from tsc_interp.verification.bounds.exact import checkpoint_of
from tsc_interp.verification.bounds.labels import labels_of
from tsc_interp.verification.bounds.supports import Supports
from tsc_interp.verification.counting.differences import difference
from tsc_interp.verification.horizons import horizon
from tsc_interp.verification.search.search import RIGHT, TaskJudge
from tsc_interp.verification.verdict import verify_counts

BUDGET = 20_000
"""Boxes per set of letters, as an atlas has it."""


def judge(checkpoint: Checkpoint, length: int) -> Exact:
    """Counted string by string; the horizon is searched for, and not proved."""
    tally = verify_counts(checkpoint, length).tally
    reach = horizon(checkpoint, boxes=BUDGET, prove=False)
    return Exact(
        false_positives=tally.false_positives.total_strings,
        false_negatives=tally.false_negatives.total_strings,
        undecided=tally.undecided.total_strings,
        first_error=reach.shortest.string if reach.shortest else None,
        horizon=reach.length if reach.complete else None,
    )


def prove(checkpoint: Checkpoint, known: Exact) -> Exact:
    """The same with the horizon the checker derives, if it is the one that was found."""
    reach = horizon(checkpoint, boxes=BUDGET)
    agrees = reach.shortest is not None and reach.shortest.string == known.first_error
    return known.model_copy(update={"proved": reach.proved and agrees})


def test_errors(checkpoint: Checkpoint, counts: Counts) -> TestErrors:
    """Over real numbers, as everything exact is."""
    supports = Supports(checkpoint)
    vectors, copies = np.unique(counts, axis=0, return_counts=True)
    wrong = {False: 0, True: 0}
    present, member = np.unique(vectors > 0, axis=0, return_inverse=True)
    for index, occurs in enumerate(present):
        own = member.ravel() == index
        letters = tuple(np.flatnonzero(occurs).tolist())
        inside = vectors[own][:, list(letters)]
        missed = TaskJudge(supports).corners(letters, inside) != RIGHT
        labels = labels_of(checkpoint.config, letters, inside)
        for label in wrong:
            wrong[label] += int(copies[own][missed & (labels == label)].sum())
    return TestErrors(false_positives=wrong[False], false_negatives=wrong[True])


class ExactHalf:
    """Each part replaced in the weights, each model so made judged once."""

    def __init__(
        self,
        model: Any,
        config: ClassifierConfig,
        counts: Counts | None,
        changes: Mapping[str, Change],
        chosen: Collection[Part],
        length: int,
    ) -> None:
        self.counts, self.changes, self.chosen = counts, changes, chosen
        self.length = length if chosen else None
        # With positions there are no weights to edit, and the test set is not one of counts.
        self.checkpoint = None if config.has_positions else checkpoint_of(model)
        self.standing, self.standing_test = self._judged(self.checkpoint, exactly=bool(chosen))

    def ablated(self, parts: Mapping[Part, str]) -> Iterator[Ablated]:
        for part, name in parts.items():
            for change, how in self.changes.items():
                edited = self._edited(Intervention(part, how))
                exact, test = self._judged(edited, exactly=part in self.chosen)
                yield Ablated(
                    part=str(part),
                    name=name,
                    change=change,
                    whole=part.kind != "value",
                    test=test,
                    exact=exact,
                    same_answers=self._same_answers(edited, exact),
                )

    def proved(self, result: AblationResult, named: Collection[Ablated]) -> AblationResult:
        """The result with the model and the parts that findings name checked."""
        if self.checkpoint is None or result.exact is None:
            return result
        ablated = []
        for part in result.ablated:
            if part in named and part.exact is not None:
                change = Intervention(Part.parse(part.part), self.changes[part.change])
                proved = prove(edit(self.checkpoint, change), part.exact)
                part = part.model_copy(update={"exact": proved})
            ablated.append(part)
        standing = prove(self.checkpoint, result.exact)
        return result.model_copy(update={"exact": standing, "ablated": tuple(ablated)})

    def _edited(self, wanted: Intervention) -> Checkpoint | None:
        with suppress(UnsupportedError):  # said once for all parts: see run.py
            return None if self.checkpoint is None else edit(self.checkpoint, wanted)
        return None

    def _judged(
        self, checkpoint: Checkpoint | None, *, exactly: bool
    ) -> tuple[Exact | None, TestErrors | None]:
        if checkpoint is None:
            return None, None
        exact = judge(checkpoint, self.length) if exactly and self.length else None
        test = None if self.counts is None else test_errors(checkpoint, self.counts)
        return exact, test

    def _same_answers(self, edited: Checkpoint | None, after: Exact | None) -> bool | None:
        """Whether no string up to the length changes its answer: equal counts are not enough."""
        if edited is None or after is None or self.standing is None or self.checkpoint is None:
            return None
        kinds = ("false_positives", "false_negatives", "undecided")
        if after.undecided or any(getattr(after, k) != getattr(self.standing, k) for k in kinds):
            return False
        if not after.errors:
            return True  # both right everywhere
        apart = difference(self.checkpoint, edited, self.length)
        return not apart.differing and not apart.undecided
