"""`tsc.verify`: everything a model gets wrong, as exact whole numbers.

What a model reads decides how. Where only the counts of letters matter, all strings up to a length
are counted by their count vectors (verdict.py). Where their order matters, a task is a finite
automaton, and its inputs are decided length by length or step by step (order/).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import HoldsWeights, ModelLike, as_checkpoint
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.frames.frame import Frame
from tsc_interp.model.framing import FrameLike, is_external, task_of, with_frame
from tsc_interp.source_report import TEST_LENGTH
from tsc_interp.telling import Progress, say
from tsc_interp.verification import verdict
from tsc_interp.verification.certificates import Certificate, certify_counts
from tsc_interp.verification.count_model import Form
from tsc_interp.verification.order.certificate_result import OrderedCertificate
from tsc_interp.verification.order.certificates import SEARCHED, certify_order
from tsc_interp.verification.order.verdict import OrderedVerdict
from tsc_interp.verification.order.verify import SECONDS, longest_string, task_for, verify_order
from tsc_interp.verification.verdict import Verdict

Decided = Callable[[Any], None]
"""Called with numbers, which `verify` documents."""


@checked
def verify(
    model: ModelLike,
    max_length: int | None = None,
    *,
    lengths: Sequence[int] | None = None,
    seconds: float | None = None,
    task: Any = None,
    frame: FrameLike | None = None,
    horizon: bool = False,
    certify: bool = False,
    float32: Form | bool | None = None,
    replay: bool | None = None,
    resume: str | os.PathLike[str] | None = None,
    progress: Decided | bool | None = None,
    announce: Callable[[str], None] | None = None,
) -> Verdict | OrderedVerdict:
    """Count exactly how many inputs a model gets wrong.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        max_length: The length of the longest strings. By default that of the model's frame; without
            a frame, 200 if only counts matter, and the number of positions if order matters.
        lengths: Order-sensitive models: decide only these lengths.
        seconds: Order-sensitive models: the time limit of the whole call, certificate included;
            what is not decided or not certified by then is counted as such.
        task: Order-sensitive models: a task other than the model's own.
        frame: The format of the inputs (`tsc.Frame`), for a model that was imported without one.
        horizon: Models of counts: also find the length up to which no string is wrong.
        certify: Also make a certificate: about every length for models of counts, about these
            inputs for order-sensitive models.
        float32: Models of counts: `"tokens"` or `"compressed"`, the form in which the float32 model
            reads strings; also find the length up to which it is right, proved with `certify`.
            Order-sensitive models: True makes a certificate that also counts the inputs that the
            float32 model answers right or wrong whatever the order of its sums (`verdict.float32`).
        replay: Models of counts: run the float32 model on the counterexamples; by default if
            `model` is a hooked model.
        resume: Order-sensitive models: a folder that stores the search, so that the same call
            continues it, even after its process was killed.
        progress: True prints what is decided. A function is called: for models of counts with the
            number of count vectors decided since the last call, for order-sensitive models with the
            share of inputs decided, on average over lengths or steps.
        announce: Models of counts: called with the expected cost of a long count before it starts.

    Returns:
        A `Verdict`, or an `OrderedVerdict` for a model that sees the order of letters, with
        `right`, `wrong` and `undecided` as whole numbers.

    Raises:
        UsageError: An option does not apply to this kind of model.
        UnsupportedError: This kind of model cannot be decided, or it would take too long.

    Example:
        >>> import tsc_interp as tsc
        >>> tsc.verify("walkthrough", 20).correct
        True
    """
    if frame is not None:
        model, task = with_frame(model, frame, task=task), None if is_external(model) else task
    checkpoint = as_checkpoint(model)
    if not checkpoint.config.needs_order:
        if any(option is not None for option in (lengths, seconds, task, resume)):
            raise UsageError(
                "lengths, seconds, task and resume are for order-sensitive models only; "
                "this one sees their counts, all of which are decided up to max_length"
            )
        return verdict.verify_counts(
            checkpoint,
            default_length(checkpoint) if max_length is None else max_length,
            horizon=horizon,
            certify=certify,
            float32=_form(float32),
            replay=isinstance(model, HoldsWeights) if replay is None else replay,
            progress=_vectors() if progress is True else progress or None,
            announce=announce,
        )
    if horizon or replay:
        raise UsageError(
            "this model sees the order of letters: inputs are decided length by length, without "
            "horizon and replay"
        )
    lengths = _lengths(checkpoint.config.frame, max_length, lengths)
    return _ordered(
        checkpoint,
        lengths,
        seconds=seconds,
        task=task,
        certify=certify,
        float32=_in_float32(float32),
        progress=_share if progress is True else progress or None,
        resume=resume,
    )


def _share(done: float) -> None:
    say(f"{done:.0%} of all inputs decided")


def _vectors() -> Decided:
    total = 0

    def more(vectors: int) -> None:
        nonlocal total
        total += vectors
        say(f"{total:,} count vectors decided")

    return more


def _ordered(
    checkpoint: Checkpoint,
    lengths: Sequence[int] | None,
    *,
    seconds: float | None,
    task: Any,
    certify: bool,
    float32: bool = False,
    **options: Any,
) -> OrderedVerdict:
    limit = SECONDS if seconds is None else seconds
    task = None if task is None else task_of(checkpoint, task)
    deadline, proves = monotonic() + limit, certify or float32
    if proves and checkpoint.config.n_layers > 1:
        raise UnsupportedError(
            "a model of several layers is verified input by input, of which there is no "
            "certificate: leave out certify and float32"
        )
    searched = SEARCHED * limit if proves else limit
    answer = verify_order(
        checkpoint, lengths, seconds=searched, task=task, float32=float32, **options
    )
    if not proves:
        return answer
    if task is not None and task_for(checkpoint.config, task) != checkpoint.config.task:
        raise UsageError(
            "a certificate is about the model's own task: put the task into its config"
        )
    certificate = certify_order(
        checkpoint,
        seconds=max(deadline - monotonic(), 0.0),
        parts=answer.parts,
        float32=float32,
    )
    return replace(answer, certificate=certificate)


@checked
def verify_ordered(
    model: ModelLike,
    max_length: int | None = None,
    *,
    min_length: int = 1,
    task: Any = None,
    certify: bool = False,
    seconds: float | None = None,
) -> OrderedVerdict:
    """Verify lengths `min_length` to `max_length` of any one-layer model, order-sensitive or not.

    If only counts matter, `verify` is faster, because it does not look at the order.
    """
    checkpoint = as_checkpoint(model)
    fits = longest_string(checkpoint.config)
    longest = fits if max_length is None else max_length
    if longest is None:
        raise UsageError("this model has no positions to run out of: say max_length")
    if type(min_length) is not int or type(longest) is not int or not 1 <= min_length <= longest:
        raise UsageError(
            f"lengths are whole numbers from 1, the shortest first; got {min_length!r} to "
            f"{longest!r}"
        )
    lengths = range(min_length, longest + 1)
    return _ordered(checkpoint, lengths, seconds=seconds, task=task, certify=certify)


@checked
def certify(
    model: ModelLike,
    *,
    limit: int | None = None,
    lengths: Sequence[int] | None = None,
    seconds: float = SECONDS,
    boxes: int | None = None,
    float32: Form | bool | None = None,
    frame: FrameLike | None = None,
    progress: Progress | bool | None = None,
) -> Certificate | OrderedCertificate:
    """Prove claims about a model, and return them as a certificate that `tsc.check` verifies.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        limit: Models of counts: the length up to which a first error is searched, by default a
            million letters.
        lengths: Order-sensitive models: the lengths to decide; by default all that positions allow.
        seconds: The time limit of the whole call. For models of counts it is estimated, so that a
            certificate is the same on every machine.
        boxes: Models of counts: the number of boxes to examine for each set of letters.
        float32: Models of counts: `"tokens"` or `"compressed"` also proves up to which length the
            float32 model is right when it reads strings in this form, whatever the order of its
            sums. Order-sensitive models: True also proves, for as many inputs as possible, that the
            float32 model gives the same answer.
        frame: The format of the inputs (`tsc.Frame`), for a model that was imported without one.
        progress: True prints the current step; a function is called with a few words about it.

    Returns:
        The certificate, with its `document` and the claims that are `proved`.

    Raises:
        UsageError: An option does not apply to this kind of model.
        UnsupportedError: This kind of model cannot be certified.

    Example:
        >>> certificate = certify("walkthrough", limit=50)
        >>> certificate.document["schema"]
        'tsc-interp/proof/1'
    """
    checkpoint = as_checkpoint(with_frame(model, frame))
    of_counts: dict[str, Any] = {"limit": limit, "boxes": boxes}
    options = {name: value for name, value in of_counts.items() if value is not None}
    if checkpoint.config.needs_order:
        if options:
            raise UsageError(f"{', '.join(options)}: not for order-sensitive models")
        sure = _in_float32(float32)
        return certify_order(checkpoint, lengths, seconds=seconds, float32=sure)
    if lengths is not None:
        raise UsageError(
            "lengths is for order-sensitive models only; what is proved of this one holds "
            "at every length"
        )
    return certify_counts(checkpoint, seconds=seconds, float32=_form(float32), **options)


def default_length(checkpoint: Checkpoint) -> int:
    """Of a model of counts: the longest input of the frame it was imported with, if with one."""
    frame = checkpoint.provenance.get("frame")
    return TEST_LENGTH if frame is None else Frame.parse(str(frame)).places[1]


def _form(float32: Form | bool | None) -> Form | None:
    """For models of counts: a form, of which True is the first."""
    return ("tokens" if float32 else None) if isinstance(float32, bool) else float32


def _in_float32(float32: Form | bool | None) -> bool:
    """For models of order, which read tokens only."""
    if float32 not in (None, False, True, "tokens"):
        raise UsageError(
            "this model sees the order of letters, so it reads tokens: float32 is True, not "
            f"{float32!r}"
        )
    return bool(float32)


def _lengths(
    frame: Frame | None, max_length: int | None, lengths: Sequence[int] | None
) -> Sequence[int] | None:
    if max_length is None:
        return lengths
    if lengths is not None or type(max_length) is not int or max_length < 1:
        raise UsageError("say max_length, a whole number from 1, or lengths, and not both")
    first = 1 if frame is None else min(frame.lengths[0], max_length)
    return range(first, max_length + 1)
