"""Ask a model every question: `analyze` runs probes and gathers a `Report`.

Classifiers are asked in strings, other models of TransformerLens in rows of token ids. What differs
between the two is in `StringSubject` and `RowSubject`; both are examined alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.resolve import HoldsWeights, ModelLike, run_path
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.framing import FrameLike, with_frame
from tsc_interp.model.threads import one_thread
from tsc_interp.probes.probe import Probe
from tsc_interp.probes.token_rows import Query, TokenNames
from tsc_interp.report.asking import ask_each, chosen_probes
from tsc_interp.report.model_report import ModelReport
from tsc_interp.report.report import Report
from tsc_interp.report.row_subject import RowSubject
from tsc_interp.report.scoring import sensible_strings
from tsc_interp.report.string_subject import StringSubject
from tsc_interp.strings import as_strings
from tsc_interp.telling import Progress, say
from tsc_interp.verification.counting.differences import Difference, difference

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor

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
    query: Query | None = None,
    token_names: TokenNames | None = None,
    direction: ArrayLike | Tensor | None = None,
    attention_mask: ArrayLike | Tensor | None = None,
    answer: int | Sequence[int] | None = None,
    found: Any = None,
    name: str | None = None,
    progress: Progress | bool | None = None,
) -> Report:
    """Run probes on a model, or on two side by side, and gather their findings.

    A TransformerLens model that was not imported is analysed on token ids instead of strings. The
    options from `query` to `found` are for such a model only.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run; or any model of
            TransformerLens.
        strings: In run-length notation. By default a few that exercise the task, and the model's
            shortest errors and worst test strings. Of a TransformerLens model token ids
            `[batch pos]`, by default the examples of `found`.
        probes: Names of probes. By default every probe that applies, except those that intervene;
            a probe named here that the model does not support is an error.
        compare: A second model, such as `"RUN@3"` (a run at epoch 3) or `"@3"` (the same run).
        epoch: The epoch of a run, by default the chosen one.
        frame: What inputs look like, for a model that was not imported with a frame (`tsc.Frame`).
        seconds: For order-sensitive models: stop the search over all inputs after so many seconds,
            by default 60. Inputs that are left are reported as undecided.
        query: The position that reads: one for all rows, or one per row. By default where `found`
            is wrong, or each row's last token.
        token_names: What tokens are called: a list by token id, or a dictionary. By default what
            the frame of `found` or the model's tokenizer says.
        direction: A vector in the residual stream; attribution takes apart the read-out along it.
            By default it takes apart the answer's logit less the next largest.
        attention_mask: `[batch pos]`, 1 for tokens and 0 for padding.
        answer: The output to account for, one for all rows or one for each. By default what the
            model answers.
        found: What `tsc.falsify` returned: the verdict, and the wrong input as the first row.
        name: What the page calls the model.
        progress: True prints the current step; a function is called with a few words about it.

    Returns:
        The findings, tables and figures; `show()` prints them and `save()` writes a page.

    Raises:
        UsageError: No such probe, no token ids, or an option that does not fit the model.
        UnsupportedError: A named probe does not support this model.

    Example:
        >>> report = analyze("generalization-errors", "ab{100}", probes="margin")
        >>> report["margin"].probe
        'margin'
        >>> report.findings[0].severity
        'failure'
    """
    chosen, model = chosen_probes(probes), with_frame(model, frame)
    options = {
        "query": query, "token_names": token_names, "direction": direction,
        "attention_mask": attention_mask, "answer": answer, "found": found,
    }  # fmt: skip
    if _of_transformer_lens(model):
        if compare is not None or epoch is not None:
            raise UsageError(
                f"a {type(model).__name__} has no epochs, and is not compared with another model; "
                "compare and epoch are for classifiers"
            )
        return Report((_examine(RowSubject(model, strings, name=name, **options), chosen),))
    if given := [option for option, value in options.items() if value is not None]:
        raise UsageError(
            f"{', '.join(given)}: for models of TransformerLens, analysed on token ids; a "
            "classifier knows where it reads, and along what"
        )
    say("loading")
    subjects = [StringSubject(model, epoch, seconds, name)]
    if compare is not None:
        subjects.append(_other(model, compare, seconds))
        if subjects[1].run_directory == subjects[0].run_directory:
            subjects[1].run_directory = None  # its training is told once
    if any(subject.config.needs_order for subject in subjects):
        say("deciding every input in its order")
    elif seconds is not None:
        raise UsageError("seconds is for order-sensitive models only")
    first = subjects[0]
    asked_nothing = chosen is None and strings is None and compare is None
    if asked_nothing and first.config.needs_order and first.order is None:
        searched = RowSubject.searched(first.checkpoint, first.seconds, first.name)
        return Report((_examine(searched, None),))
    texts = _strings(strings, subjects)
    for subject in subjects:
        subject.strings = texts
    small = all(subject.checkpoint.n_parameters <= _SMALL for subject in subjects)
    with one_thread() if small else nullcontext():
        examined = tuple(_examine(subject, chosen) for subject in subjects)
        return Report(examined, _difference(subjects))


def _of_transformer_lens(model: Any) -> bool:
    ours = isinstance(model, HoldsWeights | type)
    return not ours and hasattr(model, "run_with_cache") and hasattr(model, "cfg")


def _examine(subject: StringSubject | RowSubject, chosen: list[Probe] | None) -> ModelReport:
    named = chosen is not None
    results, not_run = ask_each(
        chosen or subject.probes(), lambda probe: subject.ask(probe, named=named), say, named=named
    )
    return subject.report({"results": results, "not_run": not_run})


def _other(model: ModelLike, compare: ModelLike, seconds: float | None) -> StringSubject:
    """What to compare with; `@3` is epoch 3 of the same run."""
    if isinstance(compare, str) and re.fullmatch(r"@\d{1,6}", compare):
        if (run := run_path(model)) is None:
            raise UsageError(f"{compare} is an epoch of the first model's run, but it is not a run")
        return StringSubject(run, int(compare[1:]), seconds)
    return StringSubject(compare, None, seconds)


def _strings(strings: Any, subjects: Sequence[StringSubject]) -> tuple[str, ...]:
    """Canonical, each once; the defaults keep only what every model can read."""
    config = subjects[0].config
    smallest = min((s.config.alphabet for s in subjects), key=lambda alphabet: alphabet.size)
    texts = [] if strings is None else config.filled(as_strings(strings))
    if not texts:
        texts = [text for subject in subjects for text in subject.first_errors()]
        if not (texts and any(s.order is not None and s.order.writes for s in subjects)):
            texts += config.filled(sensible_strings(config))  # no inputs of a task that writes
        texts += [text for s in subjects if s.test is not None for text in s.test.worst]
        readable = set(smallest.letters + "{}0123456789")
        texts = [text for text in texts if set(text) <= readable] or [smallest.letters]
    return tuple(dict.fromkeys(smallest.canonical(text) for text in texts))


def _difference(subjects: Sequence[StringSubject]) -> Difference | None:
    """None of one model, and of two that cannot be compared string by string."""
    if len(subjects) < 2:
        return None
    say("which strings the two answer differently")
    try:
        return difference(subjects[0].model, subjects[1].model)
    except UnsupportedError:
        return None
