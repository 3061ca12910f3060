"""Ask a model every question: `analyze` runs probes and gathers a `Report`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tsc_interp.arguments import checked, no_argument
from tsc_interp.checkpoints.resolve import HoldsWeights, ModelLike, as_checkpoint, run_path
from tsc_interp.errors import CallError, UnsupportedError, UsageError
from tsc_interp.model.classifier import Classifier
from tsc_interp.model.framing import FrameLike, with_frame
from tsc_interp.model.threads import one_thread
from tsc_interp.probes.cone import ConeResult
from tsc_interp.probes.inputs import Inputs
from tsc_interp.probes.probe import Probe
from tsc_interp.probes.registry import PROBES
from tsc_interp.report.asking import EXACT, ask, ask_each, chosen_probes, left_out
from tsc_interp.report.cause import confirm
from tsc_interp.report.dissection import choose, lost_head
from tsc_interp.report.model_report import ModelCard, ModelReport
from tsc_interp.report.order import SECONDS, OrderSummary, order_summary
from tsc_interp.report.reach import Reach, first_errors, reach, reach_of_cone
from tsc_interp.report.report import Report
from tsc_interp.report.scoring import TestScore, score_test_set, sensible_strings
from tsc_interp.report.transformer_lens import parameters_of
from tsc_interp.results.base import ProbeResult
from tsc_interp.strings import as_strings
from tsc_interp.telling import Progress, say
from tsc_interp.verification.counting.differences import Difference, difference

if TYPE_CHECKING:
    from torch import Tensor

TOKEN_OPTIONS = {
    "query", "token_names", "direction", "attention_mask", "answer", "found", "name",
}  # fmt: skip
_SMALL = 250_000
"""Parameters up to which a second thread only costs time."""


@checked
def analyze(
    model: ModelLike | Any = "walkthrough",
    strings: str | Sequence[str] | Tensor | None = None,
    *,
    probes: str | Sequence[str] | None = None,
    compare: ModelLike | None = None,
    epoch: int | None = None,
    frame: FrameLike | None = None,
    seconds: float | None = None,
    progress: Progress | bool | None = None,
    **token_options: Any,
) -> Report:
    """Run probes on a model, or on two side by side, and gather their findings.

    A TransformerLens model that was not imported is analysed on token ids instead of strings: this
    is then the same as `analyze_tokens`, which documents the options of that case.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        strings: In run-length notation. By default a few that exercise the task, and the model's
            shortest errors and worst test strings.
        probes: Names of probes. By default every probe that applies, except those that intervene;
            a probe named here that the model does not support is an error.
        compare: A second model, such as `"RUN@3"` (a run at epoch 3) or `"@3"` (the same run).
        epoch: The epoch of a run, by default the chosen one.
        frame: What inputs look like, for a model that was not imported with a frame (`tsc.Frame`).
        seconds: For order-sensitive models: stop the search over all inputs after so many seconds,
            by default 60. Inputs that are left are reported as undecided.
        progress: True prints the current step; a function is called with a few words about it.
        token_options: Options of `analyze_tokens`, for a TransformerLens model only.

    Returns:
        The findings, tables and figures; `show()` prints them and `save()` writes a page.

    Raises:
        UsageError: No such probe, or an option that does not fit the model.
        UnsupportedError: A named probe does not support this model.

    Example:
        >>> report = analyze("generalization-errors", "ab{100}", probes="margin")
        >>> report["margin"].probe
        'margin'
        >>> report.findings[0].severity
        'failure'
    """
    chosen, model = chosen_probes(probes), with_frame(model, frame)
    ours = isinstance(model, HoldsWeights | type)
    if not ours and hasattr(model, "run_with_cache") and hasattr(model, "cfg"):
        if compare is not None or epoch is not None:
            raise UsageError(
                f"a {type(model).__name__} has no epochs, and is not compared with another model; "
                "compare and epoch are for classifiers"
            )
        from tsc_interp.report.tokens import analyze_tokens

        return analyze_tokens(model, strings, probes=probes, **token_options)
    if unknown := sorted(token_options.keys() - TOKEN_OPTIONS):
        known = [*inspect.signature(analyze).parameters][:-1]
        raise CallError(no_argument("analyze", unknown[0], known))
    if given_options := [name for name, value in token_options.items() if value is not None]:
        raise UsageError(
            f"{', '.join(given_options)}: for models of TransformerLens, analysed on token ids; a "
            "classifier knows where it reads, and along what"
        )
    say("loading")
    allowed = SECONDS if seconds is None else seconds
    subjects = [_Subject(model, epoch, allowed)]
    if compare is not None:
        subjects.append(_other(model, compare, allowed))
        if subjects[1].run_directory == subjects[0].run_directory:
            subjects[1].run_directory = None  # its training is told once
    if any(subject.model.config.needs_order for subject in subjects):
        say("deciding every input in its order")
    elif seconds is not None:
        raise UsageError("seconds is for order-sensitive models only")
    first = subjects[0]
    asked_nothing = chosen is None and strings is None and compare is None
    if asked_nothing and first.model.config.needs_order and first.order is None:
        from tsc_interp.report.tokens import analyze_searched

        checkpoint = first.model.to_checkpoint(first.provenance)
        return analyze_searched(checkpoint, seconds=allowed)
    texts = _strings(strings, subjects)
    small = all(parameters_of(subject.model) <= _SMALL for subject in subjects)
    with one_thread() if small else nullcontext():
        examined = tuple(_examine(subject, texts, chosen) for subject in subjects)
        return Report(examined, _difference(subjects))


class _Subject:
    """A model to examine, its test score, and its run directory if it comes from one."""

    def __init__(self, model: ModelLike, epoch: int | None, seconds: float) -> None:
        self.seconds = seconds
        checkpoint = as_checkpoint(model, epoch=epoch)
        self.provenance = checkpoint.provenance
        self.run_directory = run_path(model)
        # A model with hooks is examined with them; nothing else needs TransformerLens.
        self.model = (
            model if isinstance(model, Classifier) else Classifier.from_checkpoint(checkpoint)
        )
        self.test: TestScore | None = score_test_set(self.model)

    @cached_property
    def order(self) -> OrderSummary | None:
        """Every input of a model that sees order, unless it is too large to be searched."""
        config = self.model.config
        if not config.needs_order or EXACT.exceeded(config, parameters_of(self.model)):
            return None
        return order_summary(self.model, self.seconds)


def _other(model: ModelLike, compare: ModelLike, seconds: float) -> _Subject:
    """What to compare with; `@3` is epoch 3 of the same run."""
    if isinstance(compare, str) and re.fullmatch(r"@\d{1,6}", compare):
        if (run := run_path(model)) is None:
            raise UsageError(f"{compare} is an epoch of the first model's run, but it is not a run")
        return _Subject(run, int(compare[1:]), seconds)
    return _Subject(compare, None, seconds)


def _strings(strings: Any, subjects: Sequence[_Subject]) -> tuple[str, ...]:
    """Canonical, each once; the defaults keep only what every model can read."""
    alphabets = [subject.model.config.alphabet for subject in subjects]
    smallest = min(alphabets, key=lambda alphabet: alphabet.size)
    texts = [] if strings is None else subjects[0].model.config.filled(as_strings(strings))
    if not texts:
        texts = [text for s in subjects for text in _first_errors(s)]
        if not (texts and any(s.order is not None and s.order.writes for s in subjects)):
            config = subjects[0].model.config  # no inputs of a task that writes
            texts += config.filled(sensible_strings(config))
        texts += [text for s in subjects if s.test is not None for text in s.test.worst]
        readable = set(smallest.letters + "{}0123456789")
        texts = [text for text in texts if set(text) <= readable] or [smallest.letters]
    return tuple(dict.fromkeys(smallest.canonical(text) for text in texts))


def _first_errors(subject: _Subject) -> list[str]:
    """What the report takes apart, unless a model is too large to search for it."""
    if subject.model.config.needs_order:
        known = subject.order
        if known is None or not (known.first or known.writes):
            return []
        config = subject.model.config
        names = config.token_names or tuple(config.alphabet.letters)
        letters = (names.index(letter.letter) for letter in known.apart.letters)
        return [config.alphabet.canonical("".join(config.alphabet.letters[i] for i in letters))]
    checkpoint = subject.model.to_checkpoint()
    if EXACT.exceeded(checkpoint.config, checkpoint.n_parameters):
        return []
    return first_errors(checkpoint)


def _difference(subjects: Sequence[_Subject]) -> Difference | None:
    """None of one model, and of two that cannot be compared string by string."""
    if len(subjects) < 2:
        return None
    say("which strings the two answer differently")
    try:
        return difference(subjects[0].model, subjects[1].model)
    except UnsupportedError:
        return None


def _examine(
    subject: _Subject, strings: tuple[str, ...], chosen: list[Probe] | None
) -> ModelReport:
    checkpoint = subject.model.to_checkpoint(subject.provenance)
    probes = chosen or [
        p
        for p in PROBES
        if (not p.on_request or (p.name == "patterns" and subject.model.config.needs_order))
        and (not p.needs_run or subject.run_directory is not None)
    ]

    inputs = Inputs(subject.model, strings)

    def run(probe: Probe) -> ProbeResult:
        reason = None
        if probe.name == "init-norm" and "imported_from" in subject.provenance:
            reason = "it was trained elsewhere, and how it was initialised is not known"
        reason = reason or left_out(probe.name, checkpoint.config, checkpoint.n_parameters)
        if reason is not None and not chosen:
            raise UnsupportedError(reason)
        options = {"run_directory": subject.run_directory} if probe.needs_run else {}
        return ask(probe, inputs, **options)

    results, not_run = ask_each(probes, run, say, named=chosen is not None)
    card = ModelCard.of(
        subject.model, subject.provenance, subject.test, _reach(subject, results), subject.order
    )
    report = ModelReport(card, strings, results, not_run, checkpoint)
    taken_apart = choose(report)
    if taken_apart is None or taken_apart.right:
        return report
    string = taken_apart.string
    say(f"which intervention confirms why {string} is wrong")
    return replace(report, confirmation=confirm(subject.model, string, lost_head(report, string)))


def _reach(subject: _Subject, results: Sequence[ProbeResult]) -> Reach | None:
    """The cone probe has searched for it already; without it, it is searched for here."""
    for result in results:
        if isinstance(result, ConeResult):
            return reach_of_cone(result)
    checkpoint = subject.model.to_checkpoint()
    if EXACT.exceeded(checkpoint.config, checkpoint.n_parameters):
        return None
    return reach(subject.model)
