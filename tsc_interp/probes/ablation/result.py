"""What the ablation probe measures: the model as it is, and without each of its parts."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, PlainSerializer

from tsc_interp.probes.wording import number
from tsc_interp.results.base import Cell, LabeledArray, ProbeResult, Record, Table

EXACT_IN_JSON = 2**53

Whole = Annotated[
    int,
    BeforeValidator(lambda given: int(given) if isinstance(given, str) else given),
    PlainSerializer(lambda n: n if n <= EXACT_IN_JSON else str(n), when_used="json"),
]
"""A count without limit: JSON has it as digits where its readers would round it."""


class Exact(Record):
    """Every string up to the result's length judged, and the search for the first error."""

    false_positives: Whole
    false_negatives: Whole
    undecided: Whole
    first_error: str | None
    horizon: int | None
    """The length before that of the first error; None if none was found."""
    proved: bool = False
    """Whether the checker derived the horizon again."""

    @property
    def errors(self) -> int:
        return self.false_positives + self.false_negatives + self.undecided

    @property
    def reach(self) -> float:
        """The horizon as a number that can be compared."""
        return float("inf") if self.horizon is None else float(self.horizon)


class TestErrors(Record):
    __test__: ClassVar[bool] = False  # not a test case, whatever pytest thinks of the name

    false_positives: int
    false_negatives: int

    @property
    def errors(self) -> int:
        return self.false_positives + self.false_negatives


class Ablated(Record):
    """The model without a part: what is put in its place is the change."""

    part: str
    """As interventions write it, such as `head0.value[c]`."""
    name: str
    """In words, such as ``head 0`` or `` `c`'s value in head 0 ``."""
    change: str
    """zero, mean or resample."""
    whole: bool
    """A head, a neuron or an MLP; otherwise one letter's value in a head."""
    test: TestErrors | None = None
    exact: Exact | None = None
    same_answers: bool | None = None
    """Whether every string up to the length is answered as before; None if that was not asked."""


class Answers(Record):
    """Of a model of any outputs: what it answers without each part."""

    rows: int
    before: LabeledArray
    """`[string]`: the output with the largest logit; of one output, 1 where it is positive."""
    after: LabeledArray
    """`[change part string]`."""
    changed: LabeledArray
    """`[change part]`: how many of all rows get another answer."""
    mean_effect: LabeledArray
    """`[change part]`: the mean change of the answer's lead, over all rows."""
    names: dict[str, str]
    """What the outputs that occur are called."""

    def most_needed(self, change: str = "mean", heads: bool = False) -> int:
        """The place of the part that changes most answers; among equals, lowers the lead most."""
        c = self.changed.labels["change"].index(change)
        parts = self.changed.labels["part"]
        asked = [p for p, part in enumerate(parts) if not heads or "head" in part]
        return max(
            asked, key=lambda p: (self.changed.array[c, p], -self.mean_effect.array[c, p])
        )  # fmt: skip


class AblationResult(ProbeResult):
    probe: ClassVar[str] = "ablation"

    length: int | None = None
    """Up to which strings are judged exactly; None if none are."""
    strings: Whole = 0
    """How many strings there are up to that length."""
    mean_over: str
    """Which strings a mean is taken over, in words."""
    test_strings: int = 0
    resampled_strings: int = 0
    """Of the test strings, those that resampling is measured on."""
    logits: LabeledArray
    """`[string]`: of the model as it is."""
    effects: LabeledArray
    """`[change part string]`: what the change adds to the logit."""
    test: TestErrors | None = None
    resampled_test: TestErrors | None = None
    """The model as it is on the strings that resampling is measured on."""
    exact: Exact | None = None
    ablated: tuple[Ablated, ...] = ()
    answers: Answers | None = None
    """Of a model without a task: rows are measured by the lead of their answers."""

    def of(self, change: str, *, exact: bool = False) -> list[Ablated]:
        """Every part under one change; with `exact`, those judged exactly."""
        chosen = [ablation for ablation in self.ablated if ablation.change == change]
        return [ablation for ablation in chosen if ablation.exact is not None] if exact else chosen

    def tables(self) -> tuple[Table, ...]:
        if self.answers is not None:
            return (_answers(self.answers), self._moves())
        rows = [_row("as it is", "", self.test, self.exact)] if self.test or self.exact else []
        rows += [
            _row(ablation.part, ablation.change, ablation.test, ablation.exact)
            for ablation in self.ablated
        ]
        columns = ("part", "put in its place", "test errors", "false positives", "false negatives",
                   "first error", "horizon", "proved")  # fmt: skip
        counted = Table.from_rows("Errors without each part", columns, rows)
        return (counted, self._moves())

    def _moves(self) -> Table:
        names = ("part", "put in its place")
        title = "What each change adds to the logits"
        return Table.of(title, self.effects, "part", "change", names=names)


def _answers(answers: Answers) -> Table:
    labels = answers.changed.labels
    rows = tuple(
        (part, change, int(answers.changed.array[c, p]), float(answers.mean_effect.array[c, p]))
        for p, part in enumerate(labels["part"])
        for c, change in enumerate(labels["change"])
    )
    columns = ("part", "put in its place", f"of {answers.rows} answers changed",
               "mean change of the answer's lead")  # fmt: skip
    return Table.from_rows("Answers without each part", columns, rows)


def _row(part: str, change: str, test: TestErrors | None, exact: Exact | None) -> tuple[Cell, ...]:
    errors: Any = None if test is None else test.errors
    if exact is None:
        return (part, change, errors, None, None, None, None, None)
    return (part, change, errors, number(exact.false_positives), number(exact.false_negatives),
            exact.first_error, exact.horizon, exact.proved)  # fmt: skip
