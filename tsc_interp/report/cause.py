"""The intervention that confirms why a string is wrong: one letter's key or value, changed.

A cause that a probe names is a reading of the model. It is confirmed when the model, changed in one
place, gets the string right, and errors of its kind go away. What is tried are the changes of one
letter's key or value in one head: to zero, or to that of another letter. All are judged by hooks on
the string and on some test strings, wrong and right ones; the best two are written as weights, and
every string up to 200 letters, or up to the wrong string's length, is counted before and after. A
change that makes the model answer everything alike does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import PlainSerializer

from tsc_interp.config import ClassifierConfig
from tsc_interp.data import source_test_set
from tsc_interp.errors import ConfigError
from tsc_interp.interventions.changes import Like
from tsc_interp.interventions.parts import Part
from tsc_interp.output.numbers import number
from tsc_interp.report.reach import n_letters
from tsc_interp.results.arrays import Stored
from tsc_interp.source_report import TEST_LENGTH
from tsc_interp.strings import Counts

if TYPE_CHECKING:
    from tsc_interp.interventions.intervention import Intervention
    from tsc_interp.model.classifier import Classifier

MOST_HEADS = 16
MOST_LETTERS = 3
_JUDGED_ON = 192
_COUNTED = 2
_FARTHEST = 5_000
"""Letters up to which strings are counted in well under a second."""
Digits = Annotated[int, PlainSerializer(str, when_used="json")]
"""A count that is exact, and larger than JSON's numbers."""


@dataclass(frozen=True)
class Confirmation(Stored):
    """What changes with the intervention; without one, the reason why there is none."""

    string: str
    reason: str | None = None
    intervention: str = ""
    words: str = ""
    label: bool = False
    logit: float = 0.0
    """Of the string, after the change."""
    length: int = TEST_LENGTH
    false_positives: tuple[Digits, Digits] = (0, 0)
    """Strings up to the length, before and after."""
    false_negatives: tuple[Digits, Digits] = (0, 0)

    def sentence(self) -> str:
        if self.reason is not None:
            return f"No intervention confirms it: {self.reason}."
        kind, (before, after) = "false positives", self.false_positives
        other_kind, (was, now) = "false negatives", self.false_negatives
        if self.label:
            kind, before, after, other_kind, was, now = other_kind, was, now, kind, before, after
        text = f"With {self.words}, `{self.string}` is right (logit {self.logit:+.4f})."
        if not (before or after or was or now):
            counted = "there is no error before or after the change"
        elif before and not after:
            counted = f"all {number(before)} {kind} disappear, and {other_kind} {_course(was, now)}"
        else:
            counted = f"{kind} {_course(before, after)}, and {other_kind} {_course(was, now)}"
        return (
            f"{text} Counted exactly up to {self.length:,} letters, {counted} "
            f"(`{self.intervention}`).{self._beyond()}"
        )

    def _beyond(self) -> str:
        if n_letters(self.string) <= self.length:
            return ""
        return " The string itself is longer, and strings of its length were not counted."

    def tested(self) -> str:
        """The sentence, and which string it is about."""
        return f"`{self.string}` tested: {self.sentence()}"


def _course(was: int, now: int) -> str:
    if was == now:
        return f"stay at {number(was)}"
    if number(was) == number(now):
        return f"stay at about {number(was)}"
    return f"{'rise' if now > was else 'fall'} from {number(was)} to {number(now)}"


def confirm(model: Classifier, string: str, head: int | None = None) -> Confirmation:
    """The change of one key or value that makes a wrong string right and cures most of its kind.

    Where a change in `head`, the blamed one, does so, no other head is looked at.
    """
    config = model.config
    reason = _cannot(config)
    if reason is not None:
        return Confirmation(string, reason)
    interventions = list(_candidates(config, string))
    cures = _judged(model, config, string, interventions)
    if not cures:
        nothing = (
            f"none of the {len(interventions)} changes of one key or value makes the string right, "
            "except by making every answer the same"
        )
        return Confirmation(string, nothing)
    label = bool(config.task.labels(config.alphabet.counts(string)[None])[0])
    letters = n_letters(string)
    length = max(TEST_LENGTH, letters) if letters <= _FARTHEST else TEST_LENGTH
    before = _counts(model, length)
    for tried in ([cure for cure in cures if _part(cure[0]).index == head], cures):
        counted = [
            (_counts(model, length, change), change, logit) for change, logit in tried[:_COUNTED]
        ]
        if not counted:
            continue
        after, best, logit = min(counted, key=lambda cure: (cure[0][label], sum(cure[0])))
        if not before[label] or after[label] < before[label]:
            part, like = _part(best), isinstance(best.change, Like) and best.change.letter
            to = f"moved to `{like}`'s" if like else "set to zero"
            return Confirmation(
                string,
                intervention=str(best),
                words=f"`{part.letter}`'s {part.kind} in head {part.index} {to}",
                label=label,
                logit=logit,
                length=length,
                false_positives=(before[0], after[0]),
                false_negatives=(before[1], after[1]),
            )
    return Confirmation(string, "the changes that make it right cure no other string")


def _cannot(config: ClassifierConfig) -> str | None:
    if config.needs_order:
        return "with positions, a letter has no one key and value"
    if config.has_norm or config.n_layers > 1:
        return "with norms or several layers, the changed model is not counted in a report"
    if config.beyond_report:
        return f"with {', '.join(config.beyond_report)}, weights are not changed here"
    if config.n_letters > MOST_LETTERS or config.n_heads > MOST_HEADS:
        return (
            f"it is searched for up to {MOST_HEADS} heads and {MOST_LETTERS} letters, and this "
            f"model has {config.n_heads} and {config.n_letters}"
        )
    return None if config.has_attention else "the model has no attention"


def _candidates(config: ClassifierConfig, string: str) -> Iterator[Intervention]:
    from tsc_interp.interventions.intervention import Intervention

    letters = config.alphabet.letters
    for head in range(config.n_heads):
        for letter in (letter for letter in letters if letter in string):
            changes = ["zero", *(f"like({other})" for other in letters if other != letter)]
            for kind in ("value", "key"):
                place = f"head{head}.{kind}[{letter}]"
                yield from (Intervention.of(place, change) for change in changes)


def _judged(
    model: Classifier, config: ClassifierConfig, string: str, interventions: list[Intervention]
) -> list[tuple[Intervention, float]]:
    """The changes that make the string right: those that cure most, then those that break least."""
    from tsc_interp.interventions.hooks import Hooks
    from tsc_interp.probes.inputs import as_array, logits_of

    own = config.alphabet.counts(string)[None]
    counts = np.concatenate([own, _sample(config, model)])
    labels = config.task.labels(counts)
    wrong = (logits_of(model, counts.astype(float)) > 0) != labels
    alike = wrong & (labels == labels[0])
    inputs = model.counts(counts)
    judged = []
    for intervention in interventions:
        hooks = Hooks(model, inputs, intervention)
        after = as_array(model.run_with_hooks(inputs, fwd_hooks=hooks.fwd_hooks))
        answers = after > 0
        missed = answers != labels
        # A model that answers everything alike is right by accident, and explains nothing.
        if not missed[0] and answers.any() and not answers.all():
            cured, broken = (~missed)[alike].mean(), missed[~wrong].mean()
            judged.append((round(float(cured), 1), -float(broken), intervention, float(after[0])))
    judged.sort(key=lambda entry: entry[:2], reverse=True)
    return [(intervention, logit) for *_, intervention, logit in judged]


def _sample(config: ClassifierConfig, model: Classifier) -> Counts:
    """Test strings, half of them wrong ones if there are as many."""
    from tsc_interp.probes.inputs import logits_of

    try:
        every = source_test_set(config)[::4]
    except ConfigError:
        return np.eye(config.n_letters, dtype=np.int64)
    wrong = (logits_of(model, every.astype(float)) > 0) != config.task.labels(every)
    chosen = []
    for rows in (np.flatnonzero(wrong), np.flatnonzero(~wrong)):
        places = np.linspace(0, len(rows) - 1, min(len(rows), _JUDGED_ON // 2))
        chosen.append(rows[places.astype(np.int64)])
    return np.asarray(every[np.concatenate(chosen)])


def _counts(model: Classifier, length: int, change: Intervention | None = None) -> tuple[int, int]:
    """False positives and false negatives up to a length; undecided strings are in both."""
    from tsc_interp.interventions.weights import edit
    from tsc_interp.verification.verdict import verify_counts

    checkpoint = model.to_checkpoint()
    if change is not None:
        checkpoint = edit(checkpoint, change)
    tally = verify_counts(checkpoint, length).tally
    # What cannot be told from zero counts as wrong both ways: nothing is called cured too early.
    open_ = tally.undecided.total_strings
    return tally.false_positives.total_strings + open_, tally.false_negatives.total_strings + open_


def _part(change: Intervention) -> Part:
    assert isinstance(change.place, Part)
    return change.place
