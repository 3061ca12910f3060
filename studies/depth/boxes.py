"""Every input of a frame by boxes: bounds decide whole boxes, the others are cut or enumerated.

A box gives every place a set of letters. Where all its inputs have one label and the bounds of
`bounds/` show the sign of every margin, its inputs are decided at once. Else it is cut at the place
that the relaxed margin depends on most. A box is bounded only where that promises to be cheaper
than running its inputs: time and success are measured as the search goes.
"""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch

from studies.depth.bounds.first import Boxes
from studies.depth.bounds.margins import Bounder, Margins
from tsc_interp.errors import UnsupportedError
from tsc_interp.falsification.exact import Exact
from tsc_interp.falsification.network import Network
from tsc_interp.falsification.question import Question
from tsc_interp.falsification.running import Runner
from tsc_interp.falsification.searching import Progress, Word, simplicity
from tsc_interp.frames.frame import Frame, Letters
from tsc_interp.model.threads import one_thread

Sets = tuple[tuple[int, ...], ...]
"""The letters of each place."""
Run = tuple[Letters, Letters, Letters, Letters]
"""Letters, rows, the outputs wanted, and 1, -1 or 0 for right, wrong and open."""
OnBox = Callable[[Sets], "set[Any]"]
_LABELLED = 65_536
"""Boxes up to this size are labelled input by input, where the label cannot tell otherwise."""
_LEAF = 512
"""Boxes up to this size are run input by input where bounds do not pay."""
_ROWS = 8_192
_NUMBERS = 3e6
"""Of a batch of boxes, in its largest array."""


@dataclass
class Record:
    """Boxes of about one size: how often bounds were tried, and decided."""

    tried: int = 0
    won: int = 0
    seconds: float = 0.02
    """For one of them, as measured last."""


@dataclass
class Counts:
    """What is decided so far."""

    right: int = 0
    wrong: int = 0
    in_boxes: int = 0
    boxes: int = 0
    in_balls: int = 0
    undecided: int = 0
    """Ties."""
    left: int = 0
    """Undecided because time ran out."""
    simplest: Word | None = None

    @property
    def inputs(self) -> int:
        """That were looked at."""
        return self.right + self.wrong + self.undecided


@dataclass
class BoxSearch:
    """The boxes of a frame that are not decided yet."""

    question: Question
    network: Network
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        frame, net = self.question.frame, self.network
        if frame.distinct or frame.writes:
            raise UnsupportedError("boxes describe frames without distinct letters or writes=")
        if net.unseen is not None and any(net.unseen in one for one in frame.letters):
            raise UnsupportedError(f"token {net.unseen}, which no head sees, is among the letters")
        self.bounder, self.exact = Bounder(net), Exact(net)
        self.runner = Runner(net, torch.float64, bounded=True)
        self.waiting = [frame.letters[:n] for n in reversed(frame.lengths)]
        self.leaves: list[Sets] = []
        self.records: defaultdict[int, Record] = defaultdict(Record)
        self.row_seconds = 1e-4

    def run(self, deadline: float, progress: Progress) -> bool:
        """Until everything is decided, or time is up; whether the former."""
        workers = min(os.cpu_count() or 1, 8)
        total = self.question.frame.count()
        with one_thread(), ThreadPoolExecutor(workers) as pool:
            while self.waiting or self.leaves:
                if time.monotonic() > deadline:
                    return False
                for found in pool.map(lambda job: job(), list(islice(self._jobs(), workers))):
                    self._take(found)
                counts = self.counts
                progress(f"decided {counts.inputs:,} of {total:,} inputs, {counts.wrong:,} wrong, "
                         f"{counts.boxes:,} boxes")  # fmt: skip
        return True

    # -- what is done next ---------------------------------------------------------------------

    def _jobs(self) -> Iterator[Callable[[], Any]]:
        """Batches of inputs to run or of boxes to bound; boxes that neither suits are cut."""
        while self.waiting or self.leaves:
            if sum(map(_size, self.leaves)) >= _ROWS or (self.leaves and not self.waiting):
                some, self.leaves = self.leaves, []
                yield partial(self._enumerated, some)
                continue
            group: list[tuple[Sets, tuple[int, ...]]] = []
            while self.waiting and (not group or _fits(group, self.waiting[-1], self.network)):
                box = self.waiting.pop()
                size, label = _size(box), self._label(box)
                if label is not None and self._pays(size):
                    group.append((box, label))
                elif size <= _LEAF:
                    self.leaves.append(box)
                    if sum(map(_size, self.leaves)) >= _ROWS:
                        break
                else:
                    self.waiting += _cut(box, max(range(len(box)), key=lambda i: len(box[i])))
            if group:
                yield partial(self._bounded, group)

    def _pays(self, size: int) -> bool:
        record = self.records[size.bit_length()]
        share = (record.won + 1) / (record.tried + 2)
        return share * size * self.row_seconds > record.seconds

    def _label(self, box: Sets) -> tuple[int, ...] | None:
        """The outputs wanted of every input of a box, or None where they may differ."""
        question = self.question
        on_box: OnBox | None = getattr(question.label, "on_box", None)
        if on_box is not None and len(on_box(box)) > 1:
            return None
        if on_box is None and _size(box) > _LABELLED:
            return None
        letters = _listed(box) if on_box is None else np.array([[one[0] for one in box]])
        labels = question.labels(question.frame.rows(letters))
        if (labels != labels[0]).any():
            return None
        return tuple(question.wanted(labels[:1])[0].tolist())

    # -- doing it ------------------------------------------------------------------------------

    def _enumerated(self, boxes: list[Sets]) -> tuple[list[Run], float]:
        started = time.thread_time()
        found = [
            self._run(np.concatenate([_listed(box) for box in boxes if len(box) == n]))
            for n in {len(box) for box in boxes}
        ]
        return found, (time.thread_time() - started) / sum(map(_size, boxes))

    def _run(self, letters: Letters) -> Run:
        """Inputs of one length in float64, each against a bound on its rounding."""
        question, reads = self.question, self.question.frame.reads(letters.shape[1])
        rows = question.frame.rows(letters)
        wanted = torch.from_numpy(question.wanted(question.labels(rows)))[..., None]
        state = []
        step = self.runner.rows_at_once(rows.shape[1])
        for part, own in zip(torch.from_numpy(rows).split(step), wanted.split(step), strict=True):
            outputs, bound = self.runner(part, reads)
            assert bound is not None
            gap = outputs.gather(-1, own)[..., 0] - outputs.scatter(-1, own, -torch.inf).amax(-1)
            room = (2.01 * bound + 1e-15 * outputs.abs().amax((-1, -2)))[:, None]
            state.append((gap > room).all(-1).long() - (gap < -room).any(-1).long())
        return letters, rows, wanted[..., 0].numpy(), torch.cat(state).numpy()

    def _bounded(self, group: list[tuple[Sets, tuple[int, ...]]]) -> tuple[Any, Margins, float]:
        started, frame = time.thread_time(), self.question.frame
        boxes = as_boxes(frame, [box for box, _ in group])
        reads = frame.reads(len(group[0][0]))
        margins = self.bounder(boxes, reads, torch.tensor([wanted for _, wanted in group]))
        return (group, boxes), margins, (time.thread_time() - started) / len(group)

    def _take(self, found: Any) -> None:
        if len(found) == 2:
            self.row_seconds = found[1]
            for part in found[0]:
                self._take_rows(part)
            return
        (group, boxes), margins, seconds = found
        right = (margins.low > 0).all(-1).all(-1).tolist()
        wrong = (margins.high < 0).any(-1).any(-1).tolist()
        for i, (box, _) in enumerate(group):
            size = _size(box)
            record = self.records[size.bit_length()]
            record.tried += 1
            record.seconds = seconds
            self.counts.boxes += 1
            if not (right[i] or wrong[i]):
                self.waiting += _cut(box, *_where(box, boxes, margins, i))
                continue
            record.won += 1
            self.counts.in_boxes += size
            self.counts.right += size * right[i]
            self.counts.wrong += size * wrong[i]
            if wrong[i]:
                self._hit(tuple(one[0] for one in box))

    def _take_rows(self, part: Run) -> None:
        letters, rows, wanted, state = part
        reads = self.question.frame.reads(letters.shape[1])
        for i in np.flatnonzero(state == 0):
            right = self.exact.right(rows[i].tolist(), reads, wanted[i].tolist())
            self.counts.in_balls += right is not None
            state[i] = 0 if right is None else 1 if right else -1
        self.counts.undecided += int((state == 0).sum())
        self.counts.right += int((state == 1).sum())
        bad = np.flatnonzero(state == -1)
        self.counts.wrong += len(bad)
        for i in bad[:100]:
            self._hit(tuple(letters[i].tolist()))

    def _hit(self, word: Word) -> None:
        held = self.counts.simplest
        words = [word] if held is None else [held, word]
        frame = self.question.frame
        self.counts.simplest = min(words, key=lambda one: simplicity(frame, one))


def decide_by_boxes(
    question: Question, network: Network, deadline: float, progress: Progress
) -> Counts:
    """Decide the inputs of a frame of any size, as far as time allows.

    Args:
        question: The frame and the label. A label with `on_box(sets)`, which gives the classes that
            inputs with these letters at their places may have, is asked for large boxes; other
            labels are asked input by input, up to 65,536 at a time.
        network: The model.
        deadline: When to stop, by `time.monotonic`; what is left then is undecided.
        progress: Told what has been done.

    Returns:
        Counts, and a wrong input if there is one.

    Raises:
        UnsupportedError: The frame's inputs are no boxes, or the model cannot be bounded.
    """
    search = BoxSearch(question, network)
    search.run(deadline, progress)
    search.counts.left = question.frame.count() - search.counts.inputs
    return search.counts


# -- boxes as data -----------------------------------------------------------------------------


def _size(box: Sets) -> int:
    return math.prod(map(len, box))


def _free(box: Sets) -> list[int]:
    return [place for place, letters in enumerate(box) if len(letters) > 1]


def _listed(box: Sets) -> Letters:
    """Every input of a box."""
    grid = np.meshgrid(*(np.array(one, dtype=np.int64) for one in box), indexing="ij")
    return np.stack(grid, -1).reshape(-1, len(box))


def _cut(box: Sets, place: int, order: Sequence[int] | None = None) -> list[Sets]:
    """Two halves of a box, by the letters of one place in an order."""
    letters = tuple(order if order is not None else box[place])
    half = len(letters) // 2
    return [(*box[:place], part, *box[place + 1 :]) for part in (letters[:half], letters[half:])]


def _where(box: Sets, boxes: Boxes, margins: Margins, i: int) -> tuple[int, list[int]]:
    """The place to cut and its letters by what they add to the worst margin."""
    free = _free(box)
    other = int(margins.low[i].argmin())
    table = margins.table[i].flatten(2)[..., other]
    spread = table.amax(1) - table.amin(1)
    width = float((margins.high - margins.low)[i].flatten()[other])
    at = int(spread.argmax())
    if float(spread.sum()) < 0.1 * width:  # the relaxation has given up: tables say nothing
        at = max(range(len(free)), key=lambda f: len(box[free[f]]))
    adds = dict(zip(boxes.letters[i, at].tolist(), table[at].tolist(), strict=True))
    return free[at], sorted(adds, key=lambda letter: (adds[letter], letter))


def _fits(group: list[tuple[Sets, tuple[int, ...]]], box: Sets, network: Network) -> bool:
    """Whether a box has the shape of the others, and there is room for it."""
    first = group[0][0]
    if len(first) != len(box) or len(_free(first)) != len(_free(box)):
        return False
    slots = len(_free(box)) * max(map(len, (*first, *box)))
    numbers = slots * (len(box) + slots) * network.embed.shape[1]
    return (len(group) + 1) * numbers < _NUMBERS


def as_boxes(frame: Frame, boxes: Sequence[Sets]) -> Boxes:
    """Boxes of one length and equally many free places, in the form that bounds take."""
    _, at = frame.template(len(boxes[0]))
    most = max(len(one) for box in boxes for one in box)
    free = [_free(box) for box in boxes]
    letters = [[(*box[f], *[box[f][0]] * (most - len(box[f]))) for f in own]
               for box, own in zip(boxes, free, strict=True)]  # fmt: skip
    return Boxes(
        torch.from_numpy(frame.rows([[one[0] for one in box] for box in boxes])),
        torch.tensor([[int(at[f]) for f in own] for own in free]),
        torch.tensor(letters),
    )
