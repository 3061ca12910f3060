"""Every input of a frame, decided: float64 with a rounding bound, ball arithmetic for near ties."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from time import time
from typing import Any

import numpy as np

from tsc_interp.enumeration.deciding import LATE, OPEN, WRONG, Deciding, OutOfTime
from tsc_interp.enumeration.network import Network
from tsc_interp.errors import UsageError
from tsc_interp.falsification.question import Question
from tsc_interp.falsification.result import Enumerated
from tsc_interp.falsification.searching import Word, simplest_rows, simplicity
from tsc_interp.falsification.state import State, key_of
from tsc_interp.frames.frame import Frame
from tsc_interp.model.threads import one_thread
from tsc_interp.telling import Progress

MOST = 2_000_000_000
_CHUNK = 16_384


Chunk = tuple[int, int, int]
"""(letters, first input, past the last)"""
Decided = tuple[str, bool, int, int, int, int, Word | None]
"""A hash of the labels, whether the time sufficed for near ties, numbers of inputs (`_decided`),
and the simplest wrong one."""


def enumerate_all(
    question: Question,
    network: Network,
    progress: Progress,
    client: Any = None,
) -> tuple[Enumerated, Word | None]:
    """Decide every input of the frame.

    Args:
        question: The frame, the label, and when to stop; the counts are then about the inputs so
            far.
        network: The model.
        progress: Called with a few words about what has been done.
        client: A `dask.distributed.Client`, whose workers decide; by default threads here.

    Returns:
        Exact counts, and the simplest of all wrong inputs.

    Raises:
        UsageError: The frame has more than two thousand million inputs.
    """
    frame, total, looked = question.frame, question.frame.count(), 0
    if total > MOST:
        raise UsageError(f"the frame has {total:,} inputs; up to {MOST:,} can be enumerated")
    counts, simplest = np.zeros(4, dtype=np.int64), None
    bare = replace(question, outputs=_unused, state=State(None, {}))
    if client is not None:  # by the clock on the wall, which other machines have, too
        bare.deadline, bare.clock = time() + question.deadline - question.clock(), time
    deciding = Deciding(network, bare.check) if client is None else None
    decide = partial(_in_time, bare, network, deciding)
    workers = min(os.cpu_count() or 1, 8) if client is None else sum(client.nthreads().values())
    with one_thread(), ThreadPoolExecutor(workers) as pool:
        chunks = chunks_of(frame)
        while batch := list(islice(chunks, 4 * workers)):
            asked = [(chunk, question.state.get(_key(chunk))) for chunk in batch]
            if client is None:
                answers = list(pool.map(decide, asked))
            else:
                answers = client.gather(client.map(decide, asked, pure=False))
            for (chunk, known), answer in zip(asked, answers, strict=True):
                if answer is None:
                    continue
                _, in_time, *numbers, wrong_word = answer
                if known is None and in_time:
                    question.state.keep(_key(chunk), answer)
                counts += numbers
                looked += (chunk[2] - chunk[1]) * in_time
                words = [tuple(word) for word in (wrong_word, simplest) if word is not None]
                simplest = min(words, key=lambda word: simplicity(frame, word), default=None)
            inputs, wrong, in_balls, undecided = counts.tolist()
            progress(f"enumerated {inputs:,} of {total:,} inputs, {wrong:,} wrong")
            if question.clock() > question.deadline:
                break
    question.tried += inputs
    return (
        Enumerated(
            inputs=inputs,
            wrong=wrong,
            undecided=undecided,
            in_float64=inputs - in_balls - undecided,
            in_balls=in_balls,
            complete=looked == total,
        ),
        simplest,
    )


def chunks_of(frame: Frame) -> Iterator[Chunk]:
    """Some thousand inputs each, the shortest first; a chunk ends where a run of letters ends."""
    for n in frame.lengths:
        total, size = frame.count(n), aligned(frame, n, _CHUNK)
        for start in range(0, total, size):
            yield n, start, min(start + size, total)


def aligned(frame: Frame, n: int, most: int) -> int:
    """At most so many inputs: a multiple of those that differ in the last few letters only.

    Then the inputs of a batch come in groups of one size with equal prefixes, which a causal model
    is run on once (`Runner`).
    """
    size, free = 1, frame.free(n)
    for column in reversed(range(len(free))):
        own = len(frame.letters[free[column]]) - (column if frame.distinct else 0)
        if size * own > most:
            break
        size *= own
    return most // size * size


def _key(chunk: Chunk) -> str:
    return "inputs {1} to {2} of {0} letters".format(*chunk)


def _unused(rows: Any, reads: Any) -> Any:
    raise AssertionError("an enumeration runs the arrays, not the model")


def _in_time(
    question: Question, network: Network, deciding: Deciding | None,
    asked: tuple[Chunk, Decided | None],
) -> Decided | None:  # fmt: skip
    """What `_decided` says, or None where the time ends first."""
    try:
        return _decided(question, deciding or Deciding(network, question.check), *asked)
    except OutOfTime:
        return None


def _decided(
    question: Question, deciding: Deciding, chunk: Chunk, known: Decided | None
) -> Decided:
    """Count a chunk's inputs: all, wrong, decided in balls, undecided; and its simplest wrong.

    What is known already is taken if it was found for the same labels.
    """
    question.check()
    frame, (n, start, stop) = question.frame, chunk
    letters = frame.listed(n, start, stop)
    rows = frame.rows(letters)
    labels = question.labels(rows)
    of_labels = key_of(labels)
    if known is not None:
        if known[0] != of_labels:
            raise UsageError(
                f"the state keeps counts for other labels of {_key(chunk)}; name another file, or "
                "delete it"
            )
        return known
    opinion = question.known(labels)
    letters, rows, labels = letters[opinion], rows[opinion], labels[opinion]
    state, n_near = deciding(
        question.written(rows, labels), frame.reads(n), question.wanted(labels),
        lambda most: aligned(frame, n, min(most, question.rows_at_once(n))),
    )  # fmt: skip
    late = bool((state == LATE).any())
    bad, open_ = np.flatnonzero(state == WRONG), int(((state == OPEN) | (state == LATE)).sum())
    first = letters[bad[simplest_rows(frame, letters[bad], 1)]].tolist()
    simplest = tuple(first[0]) if first else None
    return of_labels, not late, len(rows), len(bad), n_near - open_, open_, simplest
