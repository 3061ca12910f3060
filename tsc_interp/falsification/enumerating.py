"""Every input of a frame, decided: float64 with a rounding bound, ball arithmetic for near ties."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from tsc_interp.errors import UsageError
from tsc_interp.falsification.exact import Exact
from tsc_interp.falsification.network import Network
from tsc_interp.falsification.question import Question
from tsc_interp.falsification.result import Enumerated
from tsc_interp.falsification.running import Runner
from tsc_interp.falsification.searching import Progress, Word, simplicity
from tsc_interp.frames.frame import Letters
from tsc_interp.model.threads import one_thread

MOST = 2_000_000_000
_CHUNK = 16_384


@dataclass(frozen=True)
class Decided:
    """A chunk of inputs: the simplest wrong one, counts, and the inputs rounding leaves open."""

    inputs: int
    wrong: int
    simplest: Word | None
    open: list[tuple[Word, tuple[int, ...]]]
    """Letters with their labels."""


def enumerate_all(
    question: Question, network: Network, deadline: float, progress: Progress
) -> tuple[Enumerated, Word | None]:
    """Decide every input of the frame.

    Args:
        question: The frame and the label.
        network: The model.
        deadline: When to stop, by `time.monotonic`; the counts are then about the inputs so far.
        progress: Told what has been done.

    Returns:
        Exact counts, and the simplest of all wrong inputs.

    Raises:
        UsageError: The frame has more than two thousand million inputs.
    """
    frame, total = question.frame, question.frame.count()
    if total > MOST:
        raise UsageError(f"the frame has {total:,} inputs; up to {MOST:,} can be enumerated")
    runner, exact = Runner(network, torch.float64, bounded=True), Exact(network)
    inputs = wrong = undecided = in_balls = 0
    simplest: Word | None = None
    complete = True
    workers = min(os.cpu_count() or 1, 8)
    with one_thread(), ThreadPoolExecutor(workers) as pool:
        chunks = _chunks(question)
        while batch := [one for _, one in zip(range(4 * workers), chunks, strict=False)]:
            for part in pool.map(lambda one: _decided(question, runner, *one), batch):
                inputs, wrong = inputs + part.inputs, wrong + part.wrong
                words = [] if part.simplest is None else [part.simplest]
                for word, label in part.open:
                    right = _in_balls(question, exact, word, label)
                    in_balls += right is not None
                    undecided += right is None
                    if right is False:
                        wrong += 1
                        words.append(word)
                words += [] if simplest is None else [simplest]
                simplest = min(words, key=lambda one: simplicity(frame, one), default=None)
            progress(f"enumerated {inputs:,} of {total:,} inputs, {wrong:,} wrong")
            if time.monotonic() > deadline:
                complete = inputs == total
                break
    question.tried += inputs
    return (
        Enumerated(
            inputs=inputs,
            wrong=wrong,
            undecided=undecided,
            in_float64=inputs - in_balls - undecided,
            in_balls=in_balls,
            complete=complete,
        ),
        simplest,
    )


def _chunks(question: Question) -> Iterator[tuple[int, int, int]]:
    """(letters, first input, past the last), the shortest inputs first."""
    frame = question.frame
    for n in frame.lengths:
        total = frame.count(n)
        for start in range(0, total, _CHUNK):
            yield n, start, min(start + _CHUNK, total)


def _decided(question: Question, runner: Runner, n: int, start: int, stop: int) -> Decided:
    frame = question.frame
    letters = frame.listed(n, start, stop)
    rows = frame.rows(letters)
    labels = question.labels(rows)
    wanted = torch.from_numpy(question.wanted(labels))[..., None]
    given = torch.from_numpy(question.written(rows, labels))
    step = runner.rows_at_once(given.shape[1])
    state = np.empty(len(rows), dtype=np.int8)
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        outputs, bound = runner(given[part], frame.reads(n))
        assert bound is not None
        own = outputs.gather(-1, wanted[part])
        gap = own[..., 0] - outputs.scatter(-1, wanted[part], -torch.inf).amax(-1)
        # Twice the bound, as two outputs are compared, and a little for the subtraction.
        room = 2.01 * bound + 1e-15 * outputs.abs().amax(dim=(-1, -2))
        found = torch.where((gap < -room[:, None]).any(-1), -1, 0)
        state[part] = torch.where((gap > room[:, None]).all(-1), 1, found).numpy()
    bad, near = np.flatnonzero(state == -1), np.flatnonzero(state == 0)
    words = [tuple(letters[i].tolist()) for i in _first_simplest(letters, bad)]
    simplest = min(words, key=lambda one: simplicity(frame, one), default=None)
    left = [(tuple(letters[i].tolist()), tuple(labels[i].tolist())) for i in near]
    return Decided(len(rows), len(bad), simplest, left)


def _first_simplest(letters: Letters, bad: Letters) -> Letters:
    """Of many wrong inputs of one length, those with the fewest letters and runs."""
    if not len(bad):
        return bad
    own = letters[bad]
    different = (np.diff(np.sort(own, axis=1), axis=1) != 0).sum(axis=1)
    runs = (np.diff(own, axis=1) != 0).sum(axis=1)
    order = np.lexsort((runs, different))
    first = order[0]
    return np.asarray(bad[(different == different[first]) & (runs == runs[first])])


def _in_balls(question: Question, exact: Exact, word: Word, label: tuple[int, ...]) -> bool | None:
    """Whether an input that rounding leaves open is right; None: undecided."""
    rows = question.frame.rows([word])
    labels = np.array([label], dtype=np.int64)
    given = question.written(rows, labels)[0].tolist()
    wanted = question.wanted(labels)[0].tolist()
    return exact.right(given, question.frame.reads(len(word)), wanted)
