"""`tsc.falsify`: the simplest input a model gets wrong, of any depth and for any label.

frame, label ── Question ──> families ──> near misses ──> sample ──> coordinate search
                                 └───────────── hits ─────────────┘
                                                  v
                      shrink ──> the model's own forward pass ──> ball arithmetic
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import zip_longest
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.enumeration.deciding import Deciding, OutOfTime
from tsc_interp.enumeration.network import Network, of_checkpoint, of_transformer_lens
from tsc_interp.errors import TscError, UnsupportedError, UsageError
from tsc_interp.falsification.enumerating import enumerate_all
from tsc_interp.falsification.measuring import Draw, by_place, sampled
from tsc_interp.falsification.mechanism import mechanism
from tsc_interp.falsification.question import (
    Label,
    Outputs,
    Question,
    by_classifier,
    by_its_own_forward,
    in_batches,
    labelled,
)
from tsc_interp.falsification.result import Enumerated, Falsification, Rate, Tried
from tsc_interp.falsification.searching import Search, Word, simplicity
from tsc_interp.falsification.state import State, key_of
from tsc_interp.falsification.words import findings
from tsc_interp.frames.frame import Frame
from tsc_interp.model.framing import frame_of, is_external, task_of
from tsc_interp.model.importing import name_of
from tsc_interp.model.threads import one_thread
from tsc_interp.results.base import Finding
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.tasks.base import Task
from tsc_interp.tasks.function import is_function
from tsc_interp.telling import Progress, say

TRIES = 500_000
EXAMPLES = 64
Rates = list[Any]
"""Of all inputs drawn, and lists of them by class, by length and by place."""
_KEPT, _MOST_KEPT = 0.4, 10.0
"""The share of the time, and the seconds, that are kept to shrink, prove and explain a hit."""
_TO_PROVE = 0.4
"""The share of these that is left when shrinking ends."""
_TO_EXPLAIN, _TO_IMPORT = 1.0, 10.0
"""Seconds to find the part that makes an input wrong, and to import TransformerLens before that."""
_CONFIRMED = 12
"""Hits that are looked at again, until one is wrong by the model's own forward pass."""


class Subject(NamedTuple):
    """A model in the forms that are needed."""

    name: str
    own: Outputs
    """By its own code."""
    n_outputs: int
    weights: int
    """How many it has."""
    first: int
    """The token that is written for output 0."""
    network: Network | None
    why_not: str
    """Why there are no arrays of it."""
    fingerprint: str
    """A hash of its weights."""
    reads: int | None
    """The most tokens that it, or the original of an import, accepts."""
    model: Callable[[], Any]
    """The TransformerLens model, which probes run; None where there is none."""


@checked
def falsify(
    model: Any,
    label: Label | Task | str | Mapping[str, Any] | None = None,
    *,
    frame: Frame | str | None = None,
    seconds: float = 60,
    seed: int = 0,
    tries: int = TRIES,
    sample: Draw | None = None,
    exhaustive: bool = False,
    state: str | os.PathLike[str] | None = None,
    client: Any = None,
    progress: Progress | bool | None = None,
) -> Falsification:
    """Search for the simplest input that a model gets wrong, and prove that it is wrong.

    Args:
        model: A TransformerLens model of any depth, or a hooked model, a checkpoint, a bundled
            name, a path, or a run.
        label: The right answers: a function of one input's tokens that returns its class, or None
            for no opinion; a function of token rows `[row, position]` that returns a class for each
            row; either with a class for each position read; or one of `tsc.tasks`. By default the
            task of the model, if it is one of this package.
        frame: The format of the inputs (`tsc.Frame`, or its notation). By default that of the
            model, up to 100 letters or its positions.
        seconds: The time limit of the whole call, after the model is read.
        seed: Equal seeds give equal results unless time runs out.
        tries: The number of inputs for the coordinate search, which runs if nothing simpler finds a
            wrong input.
        sample: A function of a random generator and a count that returns token rows, for the error
            rate. By default every input of the frame is equally likely.
        exhaustive: Decide every input of the frame, with a sound bound on rounding, so that counts
            are exact. The frame may have at most two thousand million inputs.
        state: A file that stores the model's answers. The same call continues a search that was
            killed, and ends with the result of a search that was not.
        client: A `dask.distributed.Client` for `exhaustive`, whose workers share the inputs.
        progress: True prints the current step; a function is called with a few words about it.

    Returns:
        The simplest wrong input found, whether it is proved wrong, error rates, and the numbers of
        inputs tried. If nothing was found, wrong inputs may still exist.

    Raises:
        UsageError: The label, the frame and the model do not fit each other.
        UnsupportedError: `exhaustive`, for a model with parts that enumeration does not support.

    Example:
        >>> import tsc_interp as tsc
        >>> frame = "[CLS] x{66..74}; x=2..4; CLS=0; read=0"
        >>> found = tsc.falsify("generalization-errors", frame=frame)
        >>> len(found.tokens), found.label, found.answer, found.proved
        (68, 1, 0, True)
    """
    subject, label, frame = _read(model, label, frame)
    deadline = monotonic() + seconds  # the time to import libraries and read the model is its own
    _check(subject, frame)
    label = labelled(label, frame, subject.first or None)
    own = Question(subject.own, subject.n_outputs, frame, label, subject.first, subject.weights)
    quick = subject.own if subject.network is None else in_batches(subject.network)
    question = replace(own, outputs=quick, deadline=deadline, clock=monotonic)
    question.state = State(state, _about(question, subject) if state is not None else {})
    search = Search(question, np.random.default_rng(seed), say)
    search.kept = min(_KEPT * seconds, _MOST_KEPT)
    counts, simplest = None, None
    if exhaustive:
        if subject.network is None:
            raise UnsupportedError(f"this model cannot be enumerated: {subject.why_not}")
        counts, simplest = enumerate_all(question, subject.network, search.progress, client)
    with one_thread():
        if simplest is not None:
            search.hits = {simplest}
        rates, stopped = _searched(search, tries, sample, counts)
        return _result(subject, search, own, rates, stopped, seed, counts)


def _about(question: Question, subject: Subject) -> dict[str, str]:
    """What answers depend on: the model, the frame and the label, as far as a sample tells."""
    frame, rng = question.frame, np.random.default_rng(0)
    labels = [question.labels(frame.rows(frame.sample(64, rng, n))) for n in frame.lengths]
    return {"model": subject.fingerprint, "frame": str(frame), "label": key_of(*labels)}


def _searched(
    search: Search, tries: int, sample: Draw | None, counts: Enumerated | None
) -> tuple[Rates, str]:
    """Families, sample and, where these find nothing, the coordinate search; then the places."""
    rates: Rates = [Rate(of="inputs drawn uniformly from the frame", wrong=0, tried=0), [], [], []]
    try:
        if counts is None:
            search.systematic()
        rates[:3] = sampled(search, sample)
        if not search.hits and counts is None:
            search.climb(tries)
        rates[3] = by_place(search)
        return rates, "everything planned was tried"
    except OutOfTime:
        return rates, "time ran out"


def _result(
    subject: Subject, search: Search, own: Question,
    rates: Rates, stopped: str, seed: int, counts: Enumerated | None,
) -> Falsification:  # fmt: skip
    frame = own.frame
    search.progress("shrinking")
    word = _confirmed(search, own, shrink=counts is None)
    proved, why = False, None
    row: list[int] = []
    if word is not None:
        row = frame.rows([word])[0].tolist()
        proved, why = _proved(subject, search.question, row)
    labels = own.labels(np.array([row]))[0].tolist() if row else []
    result = Falsification(
        model=subject.name,
        frame=str(frame),
        tokens=tuple(row) or None,
        text=frame.text(row) if row else None,
        label=_one_or_all(labels) if row else None,
        answer=_one_or_all(own.answer(row)) if row else None,
        margin=None if word is None else float(own.ask(np.array([word])).margins[0]),
        original_reads=subject.reads,
        proved=proved,
        not_proved=why,
        tried=search.question.tried,
        families=tuple(
            Tried(name=name, tried=tried, wrong=wrong)
            for name, (tried, wrong) in search.families.items()
        ),
        error_rate=rates[0],
        by_class=tuple(rates[1]),
        by_length=tuple(rates[2]),
        by_place=tuple(rates[3]),
        enumerated=counts,
        mechanism=_mechanism(subject, search, own, row) if row else (),
        **_examples(search, own, word),
        stopped=stopped,
        seed=seed,
    )
    return result.model_copy(update={"findings": findings(result)})


def _examples(search: Search, own: Question, word: Word | None) -> dict[str, Any]:
    """Rows for probes: the wrong input, then hits and right inputs of each class in turn."""
    frame = own.frame
    n = max((n for n, _ in search.bases), default=frame.lengths[-1]) if word is None else len(word)
    kinds = [sorted(hit for hit in search.hits if len(hit) == n)]
    kinds += [words for (length, _), words in sorted(search.bases.items()) if length == n]
    turns = (example for turn in zip_longest(*kinds) for example in turn if example is not None)
    words = list(dict.fromkeys([*([] if word is None else [word]), *turns]))[:EXAMPLES]
    if not words:
        return {}
    rows = frame.rows(words)
    labels = own.labels(rows)
    wrong = np.array(own.answer(rows[0].tolist())) != labels[0]
    at = int(wrong.argmax()) if wrong.any() else -1
    written = own.written(rows, labels).tolist()
    return {"examples": tuple(map(tuple, written)), "position": frame.reads(n)[at]}


def _confirmed(search: Search, own: Question, *, shrink: bool) -> Word | None:
    """The simplest hit, made simpler, that the model's own forward pass gets wrong, too."""
    frame = own.frame
    for _ in range(_CONFIRMED):
        if not search.hits:
            return None
        simplest = word = min(search.hits, key=lambda hit: simplicity(frame, hit))
        if shrink:
            search.kept *= _TO_PROVE
            try:
                word = search.shrink(word)
            except OutOfTime:
                word = min(search.hits, key=lambda hit: simplicity(frame, hit))
        if bool(own.ask(np.array([word])).wrong[0]):
            return word
        search.hits -= {simplest, word}
    return None


def _mechanism(
    subject: Subject, search: Search, own: Question, row: list[int]
) -> tuple[Finding, ...]:
    left = search.question.deadline - monotonic()
    if left < (_TO_EXPLAIN if "transformer_lens" in sys.modules else _TO_IMPORT):
        text = "Which part makes it wrong was not looked at: time ran out."
        return (Finding(severity="note", text=text),)
    search.progress("which part makes it wrong")
    return mechanism(subject.model(), own, row)


def _proved(subject: Subject, question: Question, row: list[int]) -> tuple[bool, str | None]:
    """Whether ball arithmetic says that a row is wrong, and why not where it does not."""
    if subject.network is None:
        return False, subject.why_not
    rows = np.array([row])
    labels = question.labels(rows)
    reads = question.frame.reads(len(row) - question.frame.length(0))
    deciding = Deciding(subject.network, question.check)
    try:
        right = deciding.in_balls(
            question.written(rows, labels)[0], reads, question.wanted(labels)[0]
        )
    except OutOfTime:
        return False, "time ran out first; allow more seconds"
    if right is None:
        return False, "the outputs are equal, or too near to each other to be told apart"
    return not right, "it is right in exact arithmetic: its rounding makes it wrong" * right or None


def _one_or_all(values: Any) -> int | tuple[int, ...]:
    classes = tuple(int(value) for value in values)
    return classes[0] if len(classes) == 1 else classes


# -- what was given ----------------------------------------------------------------------------


def _read(model: Any, label: Any, frame: Frame | str | None) -> tuple[Subject, Any, Frame]:
    if is_external(model):
        if label is None or frame is None:
            raise UsageError("a TransformerLens model needs a label and a frame=tsc.Frame(...)")
        return _of_lens(model), label, Frame.of(frame)
    return _of_ours(model, label, frame)


def _arrays(read: Callable[[Any], Network], model: Any) -> tuple[Network | None, str]:
    """The model as arrays, or why there are none."""
    try:
        return read(model), ""
    except UnsupportedError as error:
        return None, str(error)


def _of_lens(model: Any) -> Subject:
    network, why = _arrays(of_transformer_lens, model)
    own = by_its_own_forward(model)
    weights = [w.detach().float().cpu().numpy() for _, w in sorted(model.state_dict().items())]
    plain = {n: v for n, v in vars(model.cfg).items() if isinstance(v, bool | int | float | str)}
    options = np.array([*repr(sorted(plain.items())).encode()])
    return Subject(
        name=name_of(model), own=own, n_outputs=int(model.W_U.shape[-1]),
        weights=sum(weight.size for weight in weights), first=0, network=network, why_not=why,
        fingerprint=key_of(options, *weights), reads=getattr(model.cfg, "n_ctx", None),
        model=lambda: model,
    )  # fmt: skip


def _of_ours(model: ModelLike, label: Any, frame: Any) -> tuple[Subject, Any, Frame]:
    from tsc_interp.model.hooked import load

    checkpoint = as_checkpoint(model)
    config = checkpoint.config
    if frame is None:
        frame = frame_of(config)
        label = getattr(config.task, "task", None) if label is None else label
        if is_function(label) and not frame.writes:
            label = task_of(checkpoint, label)
    frame = Frame.of(frame)
    network, why = _arrays(of_checkpoint, checkpoint)
    outputs = max(2, config.n_outputs)
    hooked = load(checkpoint)
    name = str(checkpoint.source or "a model in memory")

    def exported() -> Any:
        try:
            return hooked.to_transformer_lens(n_ctx=frame.length(frame.places[1]) + frame.writes)
        except TscError:
            return None

    subject = Subject(
        name=name, own=by_classifier(hooked), n_outputs=outputs, weights=checkpoint.n_parameters,
        first=FIRST_LETTER, network=network, why_not=why, fingerprint=checkpoint.weight_hash(),
        reads=checkpoint.original_reads, model=exported,
    )  # fmt: skip
    return subject, config.task if label is None else label, frame


def _check(subject: Subject, frame: Frame) -> None:
    """The frame's tokens, positions and classes exist in the model."""
    rows = frame.length(frame.places[1]) + max(frame.writes - 1, 0)
    if subject.network is not None:
        vocabulary, longest = len(subject.network.embed), subject.network.longest
        highest = max(frame.tokens)
        if highest >= vocabulary or (longest is not None and rows > longest):
            raise UsageError(
                f"the frame has tokens up to {highest} and rows of up to {rows}; the model has "
                f"tokens up to {vocabulary - 1} and {longest} positions"
            )
    if not subject.first and subject.reads is not None and rows > subject.reads:
        raise UsageError(
            f"the frame has rows of up to {rows} tokens; the model accepts {subject.reads} (n_ctx)"
            ": import it with tsc.from_transformer_lens to search longer rows"
        )
    if frame.classes is not None and max(frame.classes) >= subject.n_outputs:
        raise UsageError(f"the frame names output {max(frame.classes)} of {subject.n_outputs}")
    frame.reads(frame.lengths[0])
