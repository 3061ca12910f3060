"""A task whose inputs have a frame: fixed letters, letters per place, exact lengths.

    Framed(frame="[START] x{20} [END]; x=0..30; START=31; END=32", task="palindrome")

The frame's tokens are letters of the model by index, and an input is its whole row of them; what is
decided is another task, of the letters at the places alone. In the trellis of a length (the number
of places) the fixed tokens are fixed letters and every place has the edges of its own letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import field_validator, model_validator

from tsc_interp.errors import UsageError
from tsc_interp.frames.frame import Frame
from tsc_interp.strings import LETTERS
from tsc_interp.tasks.base import Classes, GivenTask, Task, trellis_of
from tsc_interp.tasks.layers import MOST_STATES
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.trellis import Stage, Trellis, edge_order


class _HasFrame(Task):
    """What both kinds share: the frame in its notation, and the task inside."""

    ordered: ClassVar[bool] = True

    frame: str
    task: GivenTask

    @field_validator("frame", mode="before")
    @classmethod
    def _notation(cls, frame: object) -> object:
        return str(frame) if isinstance(frame, Frame) else frame

    @cached_property
    def layout(self) -> Frame:
        """The frame; its tokens are letters by index."""
        return Frame.parse(self.frame)

    @property
    def partial(self) -> bool:
        return self.task.partial

    @property
    def n_places(self) -> int:
        """How many letters may stand at places: the alphabet of the task inside."""
        return 1 + max(map(max, self.layout.letters))

    def describe(self) -> str:
        """Return the question in words, and what its inputs look like."""
        return f"{self.task.describe()}, of {self.frame.partition(';')[0]}"

    def row(self, letters: Sequence[int]) -> tuple[int, ...]:
        """The whole row of an input, of which the letters at its places may be given alone.

        Raises:
            UsageError: It is no input of the frame.
        """
        given = list(letters)
        if len(given) in self.layout.lengths:
            row = self.layout.rows([given])[0].tolist()
            if row in self.layout:
                return tuple(row)
        written = self.layout.writes and len(given) >= self.layout.length(self.layout.places[1])
        if given in self.layout or written:
            return tuple(given)
        raise UsageError(
            f"{self.layout.text(given)} is no input of the frame {self.frame}: "
            f"{self.layout.fault(given)}"
        )


class Framed(_HasFrame, shipped=True):
    """A task of the letters at the places of a frame.

    Args:
        frame: What inputs look like, in the notation of `tsc.Frame`; tokens are letters by index.
        task: What is decided of the letters at the places; its letter a is letter 0.

    Example:
        >>> from tsc_interp.tasks import Framed, trellis_of
        >>> task = Framed(frame="[2] x{3} [3]; x=0..1", task="palindrome")
        >>> task.labels(np.array([[2, 0, 1, 0, 3], [2, 0, 1, 1, 3]])).tolist()
        [1, 0]
        >>> trellis_of(task, n_letters=4, length=3).fixed
        ((0, 2), (4, 3))
    """

    kind: Literal["framed"] = "framed"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        inside: Any = self.task
        if isinstance(inside, Writing) or self.layout.writes:
            raise ValueError("a frame of what a model writes goes with a task that writes")
        if isinstance(inside, _HasFrame):
            raise ValueError("a task has one frame, and this one has one already")
        if len(self.layout.read) > 1:
            raise ValueError(
                "an answer at every position is one answer for each length: write x{1..20} instead "
                "of x{20}; read=0..19"
            )
        places = {letter for letters in self.layout.letters for letter in letters}
        if places != set(range(self.n_places)):
            raise ValueError(
                f"letters at places are 0 to {self.n_places - 1}, each at some place; got "
                f"{sorted(places)}"
            )
        if misfit := inside.misfit(self.n_places):
            raise ValueError(misfit)
        if len(self.layout.lengths) > 1 and places & set(self.layout.fixed):
            raise ValueError(
                "a fixed token that is a letter as well needs inputs of one length: else nobody "
                "could tell the letters of one input from the row of another"
            )
        return self

    @property
    def needs(self) -> str:
        return LETTERS[: max(self.layout.tokens) + 1]

    def n_classes(self, n_letters: int) -> int:
        return self.task.n_classes(self.n_places)

    def labels(self, letters: Classes) -> Classes:
        """Return the class of each whole row of letters; -1 stands behind the end of a row."""
        classes = np.zeros(len(letters), dtype=np.int64)
        sizes = (letters >= 0).sum(1)
        for size in np.unique(sizes).tolist():
            rows = letters[sizes == size][:, :size]
            for row in rows.tolist():
                if row not in self.layout:
                    self.row(row)  # says why
            _, at = self.layout.template(size - self.layout.length(0))
            inside = rows[:, at]
            if not self.task.ordered:
                inside = (inside[:, :, None] == np.arange(self.n_places)).sum(1)
            classes[sizes == size] = self.task.classes(inside)
        return classes

    def trellis(self, n_letters: int, length: int) -> Trellis:
        """Return every input with so many letters at places."""
        frame = self.layout
        if length not in frame.lengths:
            raise UsageError(f"the frame {self.frame} has no inputs of {length} letters")
        inner = trellis_of(self.task, self.n_places, length)
        kept = [_allowed(stage, frame.letters) for stage in inner.stages]
        inner = inner.where(kept)
        if frame.distinct or frame.equal:
            inner = _remembering(inner, frame)
        row, at = frame.template(length)
        fixed = tuple((i, int(row[i])) for i in range(len(row)) if i not in at)
        stages = tuple(
            Stage(
                tuple(int(at[place]) for place in old.places), old.source, old.target, old.letters
            )
            for old in inner.stages
        )
        return Trellis(len(row), fixed, stages, inner.label_stage, inner.label)


class FramedWriting(_HasFrame, Writing, shipped=True):
    """A task that writes, of the prompts in a frame only.

    Args:
        frame: What prompts look like; its fixed tokens are those of the task.
        task: One of the tasks that write.

    Example:
        >>> from tsc_interp.tasks import FramedWriting
        >>> frame = "x y [10] x y [11]; x=0..4; y=0..9; writes=3"
        >>> task = FramedWriting(frame=frame, task={"kind": "addition", "digits": 2})
        >>> task.n_steps, task.whole().place_of[0]
        (3, (1, 0))
    """

    kind: Literal["framed_writing"] = "framed_writing"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        task: Any = self.task
        if not isinstance(task, Writing) or isinstance(task, _HasFrame):
            raise ValueError("a frame of what a model writes goes with a task that writes")
        frame, fixed = self.layout, dict(task.whole().fixed)
        row, at = frame.template(frame.places[1])
        own = {i: int(row[i]) for i in range(len(row)) if i not in at}
        wanted = {i: letter for i, letter in fixed.items() if i < task.prompt_length}
        if len(frame.lengths) > 1 or len(row) != task.prompt_length or own != wanted:
            raise ValueError(
                f"the prompts of the task have {task.prompt_length} letters and the fixed ones "
                f"{wanted} (by position); the frame has {len(row)} and {own}"
            )
        if frame.writes != task.n_steps or frame.distinct or frame.equal:
            raise ValueError(f"the task writes {task.n_steps} letters: writes={task.n_steps}")
        return self

    @property
    def _inside(self) -> Writing:
        assert isinstance(self.task, Writing)
        return self.task

    @property
    def written(self) -> tuple[int, ...]:
        return self._inside.written

    def place_name(self, place: int) -> str:
        return self._inside.place_name(place)

    def whole(self) -> Trellis:
        """Return the trellis of the prompts in the frame with their right outputs."""
        _, at = self.layout.template(self.layout.places[1])
        letters = dict(zip(at.tolist(), self.layout.letters, strict=True))
        whole = self._inside.whole()
        return whole.where([_allowed(stage, letters) for stage in whole.stages])


def framed(task: Any, frame: Frame) -> Any:
    """A task with this frame."""
    kind = FramedWriting if isinstance(task, Writing) or frame.writes else Framed
    return kind(frame=str(frame), task=task)


def _allowed(stage: Stage, letters: Any) -> Any:
    """Which edges place letters that may stand there."""
    kept = np.ones(len(stage), dtype=bool)
    for column, place in enumerate(stage.places):
        if isinstance(letters, tuple) or place in letters:
            kept &= np.isin(stage.letters[:, column], letters[place])
    return kept


Memory = tuple[frozenset[tuple[int, int]], frozenset[int]]
"""Letters that other places repeat, by place; and the letters that may not occur again."""


def _remembering(trellis: Trellis, frame: Frame) -> Trellis:
    """The paths that are as `equal` and `distinct` say: states also remember letters."""
    source_of = {place - 1: source - 1 for place, source in frame.equal}
    source_of |= {source: source for source in source_of.values()}

    def after(memory: Memory, places: Sequence[int], letters: Sequence[int]) -> Memory | None:
        repeated, used = dict(memory[0]), memory[1]
        for place, letter in zip(places, letters, strict=True):
            source = source_of.get(place)
            if source is not None and repeated.setdefault(source, letter) != letter:
                return None
            if frame.distinct and source in (None, place):
                if letter in used:
                    return None
                used = used | {letter}
        return frozenset(repeated.items()), used

    states: dict[tuple[int, Memory], int] = {(0, (frozenset(), frozenset())): 0}
    ahead, edges_of, sizes = set(source_of), [], []
    for stage in trellis.stages:
        ahead -= set(stage.places)
        wanted = {source_of[place] for place in ahead}
        targets: dict[tuple[int, Memory], int] = {}
        edges = []
        for (state, memory), source in states.items():
            for edge in np.flatnonzero(stage.source == state).tolist():
                new = after(memory, stage.places, stage.letters[edge].tolist())
                if new is None:
                    continue
                new = frozenset(item for item in new[0] if item[0] in wanted), new[1]
                target = targets.setdefault((int(stage.target[edge]), new), len(targets))
                edges.append((source, target, edge))
            if len(targets) > MOST_STATES:
                raise UsageError(
                    "the letters that `distinct` or `equal` compares need more than "
                    f"{MOST_STATES:,} states; tsc.falsify takes such a frame"
                )
        sizes.append(len(states))
        edges_of.append(np.array(edges, dtype=np.int64).reshape(-1, 3))
        states = targets
    stages: list[Stage] = []
    labels, alive = trellis.label, np.ones(len(states), dtype=bool)
    for number in reversed(range(len(edges_of))):
        stage, kept = trellis.stages[number], edges_of[number]
        source, target, edge = kept[alive[kept[:, 1]]].T
        target = (np.cumsum(alive) - 1)[target]
        alive = np.bincount(source, minlength=sizes[number]) > 0
        source = (np.cumsum(alive) - 1)[source]
        order = edge_order(source, target, stage.letters[edge])
        if not len(order):
            raise UsageError("no input of the frame has a label")
        stages.insert(0, Stage(stage.places, source[order], target[order],
                               stage.letters[edge[order]]))  # fmt: skip
        if number == trellis.label_stage:
            labels = labels[edge[order]]
    return Trellis(trellis.length, trellis.fixed, tuple(stages), trellis.label_stage, labels)
