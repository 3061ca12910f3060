"""What is each part needed for? Remove it, and see which strings go wrong.

The probe removes every head, every neuron, each layer's MLP, and each letter's value in each head
of the first layer, one at a time. It replaces the part by one of three:

    zero       zero
    mean       its average over 128 of the test strings, evenly spaced among them
               (for a letter's value: the average value of all letters in them, counting copies)
    resample   for each string, its value on another test string, drawn with a seed

Effects on the logits of the given strings are read through hooks (`hook_z`, `hook_v`,
`mlp.hook_post`, `hook_mlp_out`). Zero and mean are constants, so the model without the part is
again a classifier (`tsc_interp.interventions.weights`). Its errors on the 9,984 test strings, and
on every string up to 200 letters, are counted exactly, and its first error is found by search.
First errors that a finding names are also given to the checker. Resampling differs from string to
string, so it is measured by hooks on 1,024 of the test strings, and only for whole parts, because a
letter's value is the same in every string.

Of any TransformerLens model every head and each layer's MLP are removed, by zero or by their mean
over the given rows at each position. Measured is the lead of the answer, its logit less the largest
other one, and whether the answer changes. The answer is what the model says as it is, or the one
that is given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from math import log10
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, PlainSerializer

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import source_test_set
from tsc_interp.errors import ConfigError, UnsupportedError, UsageError
from tsc_interp.interventions.changes import Change, Mean, Resample, Zero
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Part
from tsc_interp.model.threads import one_thread
from tsc_interp.probes.inputs import Floats, Inputs, as_array, need_classifier
from tsc_interp.probes.probe import probe
from tsc_interp.probes.token_rows import answers_of, device_of, name_of, need_method
from tsc_interp.probes.wording import capital, joined, number, write_share
from tsc_interp.results.base import (
    Cell,
    Finding,
    LabeledArray,
    ProbeResult,
    Record,
    Table,
    that_hold,
)
from tsc_interp.results.views import Drawing, Heat, Rows, shown
from tsc_interp.strings import PAD, Counts

MEAN_OVER = 128
RESAMPLED = 1024
EXACT_PARTS = 24
MOST_LETTERS = 3
"""With more, or with norms or layers, an edited model takes seconds, and there are dozens."""
BOXES = 20_000
"""Boxes per set of letters, as an atlas has it."""
MOST_WORK = 100_000_000_000
"""Parameters times tokens times passes: some 30 seconds of one processor core."""
MOST_ROWS = 24
MOST_NAMED = 2
"""Parts of a kind with a sentence of their own: each is checked, which takes a second."""
MOST_LISTED = 6
EXACT_IN_JSON = 2**53
ROW_ANSWERS = ("query", "token_names", "attention_mask", "answer")

Whole = Annotated[
    int,
    BeforeValidator(lambda given: int(given) if isinstance(given, str) else given),
    PlainSerializer(lambda n: n if n <= EXACT_IN_JSON else str(n), when_used="json"),
]
"""A count without limit: JSON has it as digits where its readers would round it."""


class TestErrors(Record):
    __test__: ClassVar[bool] = False  # not a test case, whatever pytest thinks of the name

    false_positives: int
    false_negatives: int

    @property
    def errors(self) -> int:
        return self.false_positives + self.false_negatives


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

    def improves(self, before: Exact) -> bool:
        """Fewer errors without an earlier one, or a later first error without more of them."""
        no_worse = self.errors <= before.errors and self.reach >= before.reach
        return no_worse and (self.errors, self.reach) != (before.errors, before.reach)

    def cures(self, before: Exact) -> bool:
        """One kind of error is gone, and not at the price of twice as many of the other."""
        was = (before.false_positives, before.false_negatives)
        now = (self.false_positives, self.false_negatives)
        return any(was[k] and not now[k] and now[1 - k] <= 2 * was[1 - k] for k in (0, 1))


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
    """The model as it is, and without each of its parts."""

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

    def of(self, change: str) -> list[Ablated]:
        """Every part under one change."""
        return [ablation for ablation in self.ablated if ablation.change == change]

    def judged(self, change: str) -> list[tuple[Ablated, Exact]]:
        """Every part under one change that was judged exactly."""
        return [(one, one.exact) for one in self.of(change) if one.exact is not None]

    @property
    def quantity(self) -> str:
        return "logit" if self.answers is None else "answer's lead"

    # -- figures and tables --

    @shown(
        Drawing(
            "How many strings go wrong without each part",
            "Every string of up to {result.length} letters, counted exactly. The dashed line is "
            "the model as it is; a point on it is a part that can be replaced without a change in "
            "the number of errors. The axis counts in powers of ten.",
        )
    )
    def errors(self) -> tuple[Any, str] | None:
        if self.exact is None:
            return None
        most = log10(self.strings)
        step = next(size for size in (1, 2, 5, 10, 20, 50, 100) if most / size < 5)
        ticks = {-0.07 * most: "none"}
        ticks |= {k: f"10<sup>{k}</sup>" for k in range(step, int(most) + 1, step)}
        figure = self._dots(
            self.exact,
            lambda exact: log10(exact.errors) if exact.errors else -0.07 * most,
            lambda exact: f"{number(exact.errors)} wrong",
            f"wrong strings up to {self.length}",
            ticks,
        )
        worst, after = max(self.judged("zero"), key=lambda one: one[1].errors)
        return figure, (
            f"As it is, {number(self.exact.errors)} strings are wrong; most go wrong without "
            f"{worst.part}, {number(after.errors)}."
        )

    @shown(
        Drawing(
            "Where the first error is without each part",
            "The length of the shortest string that is wrong. Left of the dashed line a part is "
            "needed; right of it, the model reaches further without the part than with it.",
        )
    )
    def first_errors(self) -> tuple[Any, str] | None:
        if self.exact is None:
            return None
        every = [self.exact, *(one.exact for one in self.ablated if one.exact is not None)]
        reached = [exact.horizon for exact in every if exact.horizon is not None]
        most = log10(max([10, *reached]) + 1) * 1.25
        ticks: dict[float, str] = {k: f"{10**k:,}" for k in range(int(most) + 1)}
        if len(reached) < len(every):
            ticks[most] = "none found"
        figure = self._dots(
            self.exact,
            lambda exact: most if exact.horizon is None else log10(exact.horizon + 1),
            lambda exact: exact.first_error or "no error found",
            "letters in the first error",
            ticks,
        )

        def letters(exact: Exact) -> str:
            return "no known" if exact.horizon is None else f"{exact.horizon + 1:,}"

        ranked = sorted(self.judged("zero"), key=lambda one: one[1].reach)
        (low, least), (high, furthest) = ranked[0], ranked[-1]
        return figure, (
            f"As it is, the first error has {letters(self.exact)} letters; without {low.part}, "
            f"{letters(least)}, and without {high.part}, {letters(furthest)}."
        )

    def _dots(
        self, before: Exact, place: Callable[[Exact], float], say: Callable[[Exact], str], x: str,
        ticks: Mapping[float, str],
    ) -> Any:  # fmt: skip
        """A row per part, a point per change, and a line where the model is as it is."""
        from tsc_interp.plots.colours import MUTED
        from tsc_interp.plots.series import add_series, name_rows
        from tsc_interp.plots.style import decision_line, new_figure

        rows = [part.part for part, _ in self.judged("zero")][:MOST_ROWS]
        figure = new_figure(x, height=110 + 26 * len(rows), legend=True)
        looks = {"zero": ("circle", MUTED[3]), "mean": ("diamond-open", MUTED[2])}
        for change, (symbol, colour) in looks.items():
            here = [(one.part, exact) for one, exact in self.judged(change) if one.part in rows]
            add_series(figure, [place(exact) for _, exact in here],
                       [rows.index(part) for part, _ in here], change,
                       "%{customdata}<extra></extra>", mode="markers", colour=colour,
                       symbol=symbol, size=11, marker={"line": {"width": 2}},
                       customdata=[f"{part}={change}: {say(exact)}" for part, exact in here],
                       )  # fmt: skip
        decision_line(figure, x=place(before))
        name_rows(figure, rows, range=[len(rows) - 0.5, -0.5], autorange=None)
        every = [before, *(one.exact for one in self.ablated if one.exact is not None)]
        low, high = min(ticks), max(*ticks, *map(place, every))
        pad = 0.07 * (high - low)
        figure.update_xaxes(
            tickvals=list(ticks), ticktext=list(ticks.values()), tickangle=0, zeroline=False,
            range=[low - pad, high + pad],
        )  # fmt: skip
        return figure

    @shown(
        Heat(
            "How many answers change without each part",
            "Each part in turn is replaced by zero, or by its mean over the rows.",
            form=".0f", most=MOST_ROWS, across="change", name="answers", table=False,
        )
    )  # fmt: skip
    def answers_changed(self) -> LabeledArray | None:
        """`[change part]`."""
        return None if self.answers is None else self.answers.changed

    @shown(
        Heat(
            "What happens to each {result.quantity} without each part",
            "The change of the {result.quantity} when the part is set to zero: vermillion upwards "
            "(towards yes, or in favour of the answer), blue downwards.",
            form="+.2f", most=MOST_ROWS, name="logits", table=False,
        )
    )  # fmt: skip
    def at_zero(self) -> LabeledArray:
        """`[part string]`."""
        labels = {dim: self.effects.labels[dim] for dim in ("part", "string")}
        return LabeledArray.of(self.effects.at(change="zero"), **labels)

    @shown(Rows("Errors without each part"))
    def counted(self) -> Table:
        if self.answers is not None:
            labels, changed = self.answers.changed.labels, self.answers.changed.array
            effect = self.answers.mean_effect.array
            named = ("part", "put in its place", f"of {self.answers.rows} answers changed",
                     "mean change of the answer's lead")  # fmt: skip
            rows: Any = (
                (part, change, int(changed[c, p]), float(effect[c, p]))
                for p, part in enumerate(labels["part"])
                for c, change in enumerate(labels["change"])
            )
            return Table.from_rows("Answers without each part", named, rows)
        columns = ("part", "put in its place", "test errors", "false positives",
                   "false negatives", "first error", "horizon", "proved")  # fmt: skip
        rows = [_row("as it is", "", self.test, self.exact)] if self.test or self.exact else []
        rows += [_row(one.part, one.change, one.test, one.exact) for one in self.ablated]
        return Table.from_rows("Errors without each part", columns, rows)

    @shown(Rows("What each change adds to the logits"))
    def moves(self) -> LabeledArray:
        return self.effects

    # -- in sentences --

    def conclude(self) -> Iterator[Finding]:
        if self.answers is not None:
            yield from self._of_answers(self.answers)
            return
        before, count = self.exact, 0
        if before is not None:
            text = f"As it is, the model gets {self._of_all(before.errors)} wrong"
            if before.first_error is not None:
                text += f"; its first error is `{before.first_error}`{_how_known(before)}"
            numbers: dict[str, Cell] = {
                "errors": _cell(before.errors), "horizon": before.horizon
            }  # fmt: skip
            yield Finding.of(f"{text}.", numbers)
            for part in self.named():
                yield self._changed(before, part)
            for whole in (True, False):
                yield from self._removable(before, whole)
            yield from self._mean_against_zero()
            count = 1
        resampled = {one.name: one.test.errors for one in self.of("resample") if one.test}
        if resampled and self.resampled_test is not None:
            yield self._resampled(resampled, self.resampled_test.errors)
        elif not count:
            size = np.abs(self.effects.array[0]).mean(axis=1)
            order = np.argsort(-size, kind="stable")[:3]
            parts = [f"`{self.effects.labels['part'][p]}` by {size[p]:.4f}" for p in order]
            text = (
                f"Set to zero, these parts move the given strings' logits most: {', '.join(parts)}."
            )
            yield Finding.of(text, {"largest": float(size[order[0]])})

    def named(self) -> list[Ablated]:
        """What a sentence of its own is about: the parts most needed, and those that do harm."""
        before = self.exact
        chosen: list[Ablated] = []
        for whole in (True, False) if before is not None else ():
            assert before is not None
            parts = [pair for pair in self.judged("zero") if pair[0].whole == whole]
            worse = [pair for pair in parts if pair[1].errors > before.errors]
            better = [pair for pair in parts if pair[1].improves(before)]
            worse.sort(key=lambda pair: (-pair[1].errors, pair[1].reach))
            better.sort(key=lambda pair: (pair[1].errors, -pair[1].reach))
            cures = [pair for pair in parts if pair not in better and pair[1].cures(before)]
            every = [*worse[: MOST_NAMED if whole else 1], *better[:1], *cures[:1]]
            chosen += [one for one, _ in every]
        return chosen

    def _of_answers(self, answers: Answers) -> Iterator[Finding]:
        """The parts that rows need, and the parts that they do not."""
        parts = answers.changed.labels["part"]
        for change in reversed(answers.changed.labels["change"]):
            changed = answers.changed.at(change=change)
            most = answers.most_needed(change)
            effect = float(answers.mean_effect.at(change=change)[most])
            idle, name = int((changed == 0).sum()), parts[most]
            instead = "zero" if change == "zero" else "its mean over the rows"
            text = (
                f"{capital(name)} matters most: if it is replaced by {instead}, "
                f"{int(changed[most])} of {answers.rows} answers change, and the answer's lead "
                f"changes by {effect:+.4f} on average. {idle} of {len(parts)} parts can be "
                "replaced in this way without changing an answer."
            )
            numbers = {"changed": int(changed[most]), "idle parts": idle}
            yield Finding.of(text, numbers, part=name, change=change)

    def _of_all(self, errors: int) -> str:
        share = errors / self.strings
        many = number(errors) + f" ({write_share(share)})" * (share > 0.01) if errors else "none"
        return f"{many} of the {number(self.strings)} strings up to {self.length} letters"

    def _changed(self, before: Exact, part: Ablated) -> Finding:
        after = part.exact
        assert after is not None
        better = after.improves(before)
        text = f"With {part.name} set to zero, the model gets {self._of_all(after.errors)} wrong"
        text += ", as before" if after.errors == before.errors else _by_kind(before, after)
        text += _first_error(before, after)
        if better:
            text += f". The model does better without {'it' if part.whole else 'this value'}"
        numbers: dict[str, Cell] = {
            "errors": _cell(after.errors),
            "before": _cell(before.errors),
            "horizon": after.horizon,
            "horizon before": before.horizon,
        }
        return Finding.of(
            f"{text}.", numbers, "warning" if better else "note", part=part.part, change="zero"
        )

    def _removable(self, before: Exact, whole: bool) -> Iterator[Finding]:
        """Parts without which every string up to the length is answered as before."""
        parts = [pair for pair in self.judged("zero") if pair[0].whole == whole]
        free = [pair for pair in parts if pair[0].same_answers]
        if not free:
            return
        kind = "heads, neurons and MLPs" if whole else "letters' values that were tried"
        names = joined([part.name for part, _ in free])
        if len(free) > MOST_LISTED:
            names = f"{len(free)} of {len(parts)} {kind} (such as {free[0][0].name})"
        text = (
            f"{capital(names)} can {'each alone ' if len(free) > 1 else ''}be set to zero without "
            f"changing the answer to any string of up to {self.length} letters"
        )
        known = sorted({exact.horizon for _, exact in free if exact.horizon is not None})
        if known and before.horizon is not None and known != [before.horizon]:
            span = f"{known[0]:,}" if len(known) == 1 else f"between {known[0]:,} and {known[-1]:,}"
            text += f". The horizon is then {span} instead of {before.horizon:,}"
        about = tuple(part.part for part, _ in free)
        yield Finding.of(
            f"{text}.", {"parts": len(free), "of": len(parts)}, "good", part=about, change="zero"
        )

    def _mean_against_zero(self) -> Iterator[Finding]:
        """Whether an average in the part's place gives another result than zero in its place."""
        means = {one.part: (one, exact) for one, exact in self.judged("mean")}
        pairs = [(zero, means[zero[0].part]) for zero in self.judged("zero")
                 if zero[0].part in means]  # fmt: skip
        over = f"(over {self.mean_over})"
        apart = [p for p in pairs if p[0][0].same_answers != p[1][0].same_answers]

        def short(one: Ablated, exact: Exact) -> str:
            wrong = f"{number(exact.errors) if exact.errors else 'no'} strings wrong"
            return "no answer changes" if one.same_answers else wrong

        if apart:
            told = [
                f"{zero[0].name}: {short(*zero)} at zero, {short(*mean)} at its mean"
                for zero, mean in sorted(apart, key=lambda pair: not pair[0][0].whole)[:3]
            ]
            more = f"; and {len(apart) - 3} more" if len(apart) > 3 else ""
            text = f"Mean ablation {over} differs from zero ablation for {'; '.join(told)}{more}."
            yield Finding.of(text, {"parts": len(apart)})
        elif pairs:
            text = f"Mean ablation {over} agrees with zero ablation on which parts can be removed."
            yield Finding.of(text, {"parts": len(pairs)})

    def _resampled(self, errors: Mapping[str, int], before: int) -> Finding:
        worst = sorted(errors, key=lambda name: -errors[name])[:3]
        text = (
            "Replacing a part by its value on another string (resampling) gives these errors on "
            f"{self.resampled_strings:,} test strings: "
            f"{', '.join(f'{name} {errors[name]:,}' for name in worst)}; the model itself makes "
            f"{before:,}"
        )
        if harmless := list(errors.values()).count(before):
            text += (
                f". {harmless} of {len(errors)} parts can be resampled without a new error there"
            )
        return Finding.of(f"{text}.", {"before": before, "most": errors[worst[0]]})


def _row(part: str, change: str, test: TestErrors | None, exact: Exact | None) -> tuple[Cell, ...]:
    errors = None if test is None else test.errors
    if exact is None:
        return (part, change, errors, None, None, None, None, None)
    return (part, change, errors, number(exact.false_positives), number(exact.false_negatives),
            exact.first_error, exact.horizon, exact.proved)  # fmt: skip


def _how_known(exact: Exact) -> str:
    return " (proved)" if exact.proved else ""


def _cell(count: int) -> Cell:
    """Exact as digits where a JSON reader would round it."""
    return count if count <= EXACT_IN_JSON else str(count)


def _by_kind(before: Exact, after: Exact) -> str:
    """How many were wrong before; where both kinds of error are in play, each by itself."""
    text = f" instead of {number(before.errors) if before.errors else 'none'}"
    if number(after.errors) == number(before.errors):
        text = ", nearly as before"
    kinds = (
        ("false positives", before.false_positives, after.false_positives),
        ("false negatives", before.false_negatives, after.false_negatives),
    )
    if not all(was or now for _, was, now in kinds):
        return text
    moved = [f"{name} {number(was)} before, {number(now)} after" for name, was, now in kinds]
    return f"{text} ({'; '.join(moved)})"


def _first_error(before: Exact, after: Exact) -> str:
    was, now = before.first_error, after.first_error
    if now is None:
        return "" if was is None else ". No error was found"
    if was == now:
        return f". Its first error stays `{now}`"
    instead = "" if was is None else f" instead of `{was}`{_how_known(before)}"
    return f". Its first error is then `{now}`{_how_known(after)}{instead}"


@probe(
    AblationResult,
    title="What is each part needed for?",
    question="Which strings go wrong without a head, a neuron or one letter's value?",
    chapter="2, 4",
    on_request=True,
    any_model=True,
    accepts=ROW_ANSWERS,
    token_question="Which answers change without a head or an MLP?",
)
@one_thread()
def ablation(
    inputs: Inputs, *, exact: int | None = None, length: int | None = None, seed: int = 0
) -> AblationResult:
    """`exact` is how many parts are judged exactly, whole ones first, then by effect.

    The default is 24 for a model of one layer and three letters without norm, else none. They are
    judged on every string up to `length`: 200, or less where that is too many. `seed` draws what
    resampling puts in a part's place.
    """
    model, own = inputs.model, inputs.config
    if own is None:
        return _of_rows(inputs)
    if given := [name for name in ROW_ANSWERS if getattr(inputs, name) is not None]:
        raise UsageError(f"{', '.join(given)}: for TransformerLens models, on token ids")
    if own.n_outputs > 1:
        return _of_rows(_exported(inputs, own))
    from tsc_interp.verification.counting.differences import affordable_length

    config, strings = need_classifier(model, "ablation"), tuple(inputs.given)
    parts = list(_parts(config))
    if not parts:
        raise UnsupportedError("this model has no head and no neuron, so nothing to remove")
    if length is not None and length < 1:
        raise UsageError(f"the length of strings to judge is a whole number from 1, got {length}")
    counts = None
    with suppress(ConfigError):  # the task names every letter
        counts = None if config.needs_order else source_test_set(config)
    changes: dict[str, Change] = {"zero": Zero()}
    if not config.needs_order:
        average = () if counts is None else map(config.alphabet.write, _spaced(counts, MEAN_OVER))
        changes["mean"] = Mean(tuple(average) or strings)
    effects = _effects(model, strings, parts, changes)
    chosen = _chosen(config, parts, effects, exact)
    work = _ExactHalf(
        model, config, counts, changes, chosen, length or affordable_length(config.n_letters)
    )
    result = AblationResult(
        not_applicable=_not_applicable(config, counts, parts, chosen),
        length=work.length,
        strings=sum(config.n_letters**n for n in range(1, (work.length or 0) + 1)),
        mean_over="the given strings" if counts is None else f"{MEAN_OVER} test strings",
        test_strings=0 if counts is None else len(counts),
        resampled_strings=0 if counts is None else len(_spaced(counts, RESAMPLED)),
        logits=LabeledArray.of(as_array(model(list(strings))), string=strings),
        effects=LabeledArray.of(effects, change=changes, part=parts, string=strings),
        test=work.standing_test,
        exact=work.standing,
        ablated=tuple(work.ablated({part: _name(part, config) for part in parts})),
    )
    if counts is not None:
        result = _resampled(model, config, result, parts, _spaced(counts, RESAMPLED), seed)
    return work.proved(result, result.named())


def _parts(config: ClassifierConfig) -> Iterator[Part]:
    """Whole parts first, then letters' values."""
    for layer in range(config.n_layers):
        yield from (Part("head", layer, head) for head in range(config.n_heads))
        yield from (Part("neuron", layer, neuron) for neuron in range(config.d_mlp))
        if config.d_mlp:
            yield Part("mlp", layer)
    for head in range(config.n_heads):
        yield from (Part("value", 0, head, letter) for letter in config.alphabet.letters)


def _name(part: Part, config: ClassifierConfig) -> str:
    where = f"layer {part.layer}'s " if config.n_layers > 1 else ""
    if part.kind == "mlp":
        return f"{where}MLP" if where else "the MLP"
    if part.kind == "value":
        return f"`{part.letter}`'s value in {where}head {part.index}"
    return f"{where}{part.kind} {part.index}"


def _spaced(counts: Counts, most: int) -> Counts:
    rows = np.linspace(0, len(counts) - 1, min(most, len(counts))).astype(np.int64)
    return np.asarray(counts[rows])


def _effects(
    model: Any, given: Sequence[str], parts: Sequence[Part], changes: dict[str, Change]
) -> Floats:
    """`[change part string]`, by hooks."""
    from tsc_interp.interventions.hooks import intervene

    effects = np.zeros((len(changes), len(parts), len(given)))
    for c, how in enumerate(changes.values()):
        for p, part in enumerate(parts):
            outcome = intervene(model, list(given), Intervention(part, how))
            effects[c, p] = as_array(outcome.after - outcome.before)
    return effects


def _chosen(
    config: ClassifierConfig, parts: Sequence[Part], effects: Floats, exact: int | None
) -> list[Part]:
    """The parts to judge exactly: whole ones first, each kind by its largest mean effect."""
    if config.needs_order:
        return []
    easy = config.n_letters <= MOST_LETTERS and config.n_layers == 1 and not config.has_norm
    most = exact if exact is not None else EXACT_PARTS if easy else 0
    size = np.abs(effects).mean(axis=2).max(axis=0)
    order = sorted(range(len(parts)), key=lambda p: (parts[p].kind == "value", -size[p]))
    kept = set(order[:most])
    return [part for p, part in enumerate(parts) if p in kept]


def _resampled(
    model: Any, config: ClassifierConfig, result: AblationResult,
    parts: Sequence[Part], counts: Counts, seed: int,
) -> AblationResult:  # fmt: skip
    import torch

    from tsc_interp.interventions.hooks import Hooks

    inputs, labels = model.counts(counts.copy()), config.task.labels(counts)

    def errors(logits: Any) -> TestErrors:
        wrong = (as_array(logits) > 0) != labels
        return TestErrors(
            false_positives=int((wrong & ~labels).sum()),
            false_negatives=int((wrong & labels).sum()),
        )

    ablated = []
    with torch.no_grad():
        standing = errors(model(inputs))
        for part in (part for part in parts if part.kind != "value"):
            hooks = Hooks(model, inputs, Intervention(part, Resample(seed)))
            after = model.run_with_hooks(inputs, fwd_hooks=hooks.fwd_hooks)
            hooks.remarks()
            name, test = _name(part, config), errors(after)
            ablated.append(
                Ablated(part=str(part), name=name, change="resample", whole=True, test=test)
            )
    update = {"resampled_test": standing, "ablated": (*result.ablated, *ablated)}
    return result.model_copy(update=update)


def _not_applicable(
    config: ClassifierConfig, counts: Counts | None, parts: Sequence[Part], chosen: Sequence[Part]
) -> tuple[str, ...]:
    if config.needs_order:
        return (
            "this model has positions: only zero, and only on the given strings; an edited model "
            "has no weights of the form that could be verified, and the test set is of counts",
        )
    tested = 0 if counts is None else min(RESAMPLED, len(counts))
    return that_hold({
        "the test set needs a letter the task does not name, so errors on it are not counted":
        counts is None,
        "with norms, only a whole part set to zero can be written as weights; the other changes "
        "are read from the logits of the given strings": config.has_norm,
        "letters' values are removed in the first layer only: later they vary with the string":
        config.n_layers > 1,
        "resampling differs from string to string, so it has no exact form: it is measured on "
        f"{tested:,} of the test strings, for whole parts": counts is not None,
        f"{len(chosen)} of {len(parts)} parts are judged exactly, to save time; in Python, "
        f"run_probe('ablation', model, strings, exact={len(parts)}) judges all":
        len(chosen) < len(parts),
    })  # fmt: skip


# -- the exact half: edited models, their wrong strings up to a length, and their first errors -----


def _judge(checkpoint: Checkpoint, length: int) -> Exact:
    """Counted string by string; the horizon is searched for, and not proved."""
    from tsc_interp.verification.horizons import horizon
    from tsc_interp.verification.verdict import verify_counts

    tally = verify_counts(checkpoint, length).tally
    reach = horizon(checkpoint, boxes=BOXES, prove=False)
    return Exact(
        false_positives=tally.false_positives.total_strings,
        false_negatives=tally.false_negatives.total_strings,
        undecided=tally.undecided.total_strings,
        first_error=reach.shortest.string if reach.shortest else None,
        horizon=reach.length if reach.complete else None,
    )


def _prove(checkpoint: Checkpoint, known: Exact) -> Exact:
    """The same with the horizon the checker derives, if it is the one that was found."""
    from tsc_interp.verification.horizons import horizon

    reach = horizon(checkpoint, boxes=BOXES)
    agrees = reach.shortest is not None and reach.shortest.string == known.first_error
    return known.model_copy(update={"proved": reach.proved and agrees})


def _test_errors(checkpoint: Checkpoint, counts: Counts) -> TestErrors:
    """Over real numbers, as everything exact is."""
    from tsc_interp.verification.bounds.labels import labels_of
    from tsc_interp.verification.bounds.supports import Supports
    from tsc_interp.verification.search.search import RIGHT, TaskJudge

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


class _ExactHalf:
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
        from tsc_interp.verification.bounds.exact import checkpoint_of

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
        from tsc_interp.interventions.weights import edit

        ablated = []
        for part in result.ablated:
            if part in named and part.exact is not None:
                change = Intervention(Part.parse(part.part), self.changes[part.change])
                proved = _prove(edit(self.checkpoint, change), part.exact)
                part = part.model_copy(update={"exact": proved})
            ablated.append(part)
        standing = _prove(self.checkpoint, result.exact)
        return result.model_copy(update={"exact": standing, "ablated": tuple(ablated)})

    def _edited(self, wanted: Intervention) -> Checkpoint | None:
        from tsc_interp.interventions.weights import edit

        with suppress(UnsupportedError):  # said once for all parts: `_not_applicable`
            return None if self.checkpoint is None else edit(self.checkpoint, wanted)
        return None

    def _judged(
        self, checkpoint: Checkpoint | None, *, exactly: bool
    ) -> tuple[Exact | None, TestErrors | None]:
        if checkpoint is None:
            return None, None
        exact = _judge(checkpoint, self.length) if exactly and self.length else None
        test = None if self.counts is None else _test_errors(checkpoint, self.counts)
        return exact, test

    def _same_answers(self, edited: Checkpoint | None, after: Exact | None) -> bool | None:
        """Whether no string up to the length changes its answer: equal counts are not enough."""
        if edited is None or after is None or self.standing is None or self.checkpoint is None:
            return None
        from tsc_interp.verification.counting.differences import difference

        kinds = ("false_positives", "false_negatives", "undecided")
        if after.undecided or any(getattr(after, k) != getattr(self.standing, k) for k in kinds):
            return False
        if not after.errors:
            return True  # both right everywhere
        apart = difference(self.checkpoint, edited, self.length)
        return not apart.differing and not apart.undecided


# -- any TransformerLens model, by hooks -----------------------------------------------------------


def _exported(inputs: Inputs, config: ClassifierConfig) -> Inputs:
    """A multiclass model in its TransformerLens form, on strings of one length."""
    from tsc_interp.model.hooked import load
    from tsc_interp.model.inputs import token_rows

    rows = token_rows(config, inputs.given)
    if (rows == PAD).any():
        raise UnsupportedError(
            f"this model has {config.n_outputs} outputs, and the ablation probe then needs strings "
            "of one length"
        )
    lens = load(inputs.model.to_checkpoint()).to_transformer_lens(n_ctx=rows.shape[1])
    at = 0 if config.reads == "first" else -1
    return Inputs(lens, rows, query=at, token_names=dict(enumerate(config.called)))


def _of_rows(inputs: Inputs) -> AblationResult:
    import torch

    model = inputs.model
    need_method(model, "run_with_hooks")
    given, cfg = inputs.rows, model.cfg
    thinks = bool(getattr(cfg, "d_mlp", None)) and not getattr(cfg, "attn_only", False)
    parts = []
    for layer in range(cfg.n_layers):
        parts += [Part("head", layer, head) for head in range(cfg.n_heads)]
        parts += [Part("mlp", layer)] if thinks else []
    _check_work(model, given.tokens.size, 1 + 2 * len(parts))
    ids = torch.from_numpy(given.tokens).to(device_of(model))
    kept = torch.from_numpy(given.kept).to(ids.device)
    options = {} if inputs.attention_mask is None else {"attention_mask": kept.long()}
    at = np.arange(len(ids)), given.query

    def logits(hook: Any) -> Floats:
        with torch.no_grad():
            out = model.run_with_hooks(ids, fwd_hooks=[hook] if hook else [], **options)
        return as_array(out[at]).reshape(len(ids), -1)

    before = logits(None)
    answers = before.argmax(1) if before.shape[1] > 1 else (before[:, 0] > 0).astype(np.int64)
    chosen = answers_of(inputs.answer, answers, max(2, before.shape[1]))
    names = tuple(f"row {row}" for row in range(len(ids)))
    effects = np.zeros((2, len(parts), len(ids)))
    after = np.zeros((2, len(parts), len(ids)))
    for c, mean in enumerate((False, True)):
        for p, part in enumerate(parts):
            changed = logits((part.hook, _without(part, kept if mean else None)))
            effects[c, p] = _lead(changed, chosen) - _lead(before, chosen)
            many_outputs = changed.shape[1] > 1
            after[c, p] = changed.argmax(1) if many_outputs else changed[:, 0] > 0
    called = [
        f"layer {part.layer} " * (cfg.n_layers > 1)
        + ("MLP" if part.index is None else f"head {part.index}")
        for part in parts
    ]
    axes: dict[str, Any] = {"change": ("zero", "mean"), "part": called}
    outputs = {int(output) for output in (*answers, *after.ravel(), *chosen)}
    tokens_out = before.shape[1] == getattr(cfg, "d_vocab", None)
    return AblationResult(
        mean_over="the given rows, position by position",
        logits=LabeledArray.of(_lead(before, chosen), string=names),
        effects=LabeledArray.of(effects, **axes, string=names),
        answers=Answers(
            rows=len(ids),
            before=LabeledArray.of(answers, string=names),
            after=LabeledArray.of(after, **axes, string=names),
            changed=LabeledArray.of((after != answers).sum(-1), **axes),
            mean_effect=LabeledArray.of(effects.mean(-1), **axes),
            names={str(o): name_of(inputs.token_names if tokens_out else None, o) for o in outputs},
        ),
    )


def _check_work(model: Any, tokens: int, passes: int) -> None:
    size = sum(parameter.numel() for parameter in model.parameters())
    if size * tokens * passes > MOST_WORK:
        fits = max(1, MOST_WORK // max(1, size * passes))
        raise UnsupportedError(
            f"removing each of {(passes - 1) // 2} parts takes {passes} passes over {tokens:,} "
            f"tokens, which is too much for a model of {size:,} parameters; {fits:,} tokens fit"
        )


def _without(part: Part, kept: Any) -> Any:
    """The hook that removes the part: zero, or the mean over the rows that have the position."""

    def remove(activation: Any, hook: Any) -> Any:
        changed = activation.clone()
        index = (slice(None), slice(None)) + (() if part.index is None else (part.index,))
        new = 0.0
        if kept is not None:
            share = kept[..., None].to(activation.dtype)
            new = (activation[index] * share).sum(0) / share.sum(0).clamp(min=1)
        changed[index] = new
        return changed

    return remove


def _lead(logits: Floats, chosen: Any) -> Floats:
    """The answer's logit less the largest of the others; of one output, towards the answer."""
    if logits.shape[1] == 1:
        return np.asarray(np.where(np.asarray(chosen) > 0, 1.0, -1.0) * logits[:, 0])
    rows = np.arange(len(logits))
    others = logits.copy()
    others[rows, chosen] = -np.inf
    return np.asarray(logits[rows, chosen] - others.max(1))
