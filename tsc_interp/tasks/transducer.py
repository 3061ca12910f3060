"""Tasks of models that write: after a prompt, one letter per step.

A transducer is one trellis over the prompt and everything written after it. Its stages place the
letters of the prompt together with the letters that must be written because of them. A model is
right on a prompt exactly if at every step it writes the right letter after the right letters so
far. So each step is a classification of its own, whose inputs are the prompt and what has been
written before (`step_trellis`). An input counts as wrong once: at its first wrong step.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from tsc_interp.errors import UsageError
from tsc_interp.frozen import Frozen
from tsc_interp.strings import LETTERS
from tsc_interp.tasks.base import Classes, LetterIndex, Task, Whole
from tsc_interp.tasks.trellis import Index, Stage, Trellis, edge_order, make_stage

MOST_PLACES = 10_000
"""Letters of a prompt and of what is written after it."""


class Writing(Task):
    """The base of tasks that write letters: a subclass makes `whole()` and `written`."""

    ordered: ClassVar[bool] = True

    @property
    def written(self) -> tuple[int, ...]:
        """The places of the letters to write, in the order they are written: the last places."""
        raise NotImplementedError

    def whole(self) -> Trellis:
        """Prompts with all that is written after them; labels are not used."""
        raise NotImplementedError

    @property
    def n_prompts(self) -> int | None:
        """The number of prompts, found without the trellis; None where that is all there is."""
        return None

    @property
    def n_steps(self) -> int:
        return len(self.written)

    @property
    def prompt_length(self) -> int:
        return min(self.written)

    def place_name(self, place: int) -> str:
        """What a place is called where inputs are described."""
        return f"place {place}"

    @cached_property
    def _kept(self) -> Trellis:
        return self.whole()

    @property
    def needs(self) -> str:
        trellis = self._kept
        used = {letter for _, letter in trellis.fixed}
        used |= {int(x) for stage in trellis.stages for x in np.unique(stage.letters)}
        return LETTERS[: max(used) + 1]

    def n_classes(self, n_letters: int) -> int:
        trellis = self._kept
        spots = [trellis.place_of[place] for place in self.written]
        most = max(int(trellis.stages[s].letters[:, c].max()) for s, c in spots)
        return max(most + 1, 2)

    def step_trellis(self, step: int) -> Trellis:
        """The inputs of one step: prompt and letters written so far; the next is the label.

        Two paths of the whole trellis that differ only in what is written later would be one
        input, but what is written is a function of the prompt.
        """
        if not 0 <= step < self.n_steps:
            raise UsageError(f"this task has the steps 0 to {self.n_steps - 1}, got {step}")
        whole, place = self._kept, self.prompt_length + step
        label_stage, column = whole.place_of[place]
        stages = []
        for number, stage in enumerate(whole.stages):
            seen = [i for i, at in enumerate(stage.places) if at < place]
            if not seen:
                raise UsageError(f"stage {number} places nothing that step {step} can read")
            label = stage.letters[:, column] if number == label_stage else None
            restricted = _restricted(stage, seen, label)
            stages.append(restricted[0])
            if restricted[1] is not None:
                labels = restricted[1]
        fixed = tuple((at, letter) for at, letter in whole.fixed if at < place)
        return Trellis(place, fixed, tuple(stages), label_stage, labels)

    def labels(self, letters: Classes) -> Classes:
        """The letter to write next, for rows that are a prompt and what was written so far."""
        step = (letters >= 0).sum(1) - self.prompt_length
        if len(step) and not 0 <= step.min() <= step.max() < self.n_steps:
            wrong = int(step.min() if step.min() < 0 else step.max())
            raise UsageError(f"this task has the steps 0 to {self.n_steps - 1}, got {wrong}")
        written = self.answers(letters[:, : self.prompt_length])
        so_far = letters[:, self.prompt_length :][:, : self.n_steps]
        differs = (so_far >= 0) & (so_far != written[:, : so_far.shape[1]])
        if differs.any():
            row = letters[differs.any(1).argmax()]
            raise UsageError(f"{row[row >= 0].tolist()} is no input of this task")
        return np.asarray(written[np.arange(len(letters)), step])

    def answers(self, prompts: Classes) -> Classes:
        """All letters to write, `[row step]`, after prompts `[row place]`."""
        whole, size = self._kept, self.prompt_length
        row, state = np.arange(len(prompts)), np.zeros(len(prompts), dtype=np.int64)
        for place, letter in whole.fixed:
            row = row[prompts[row, place] == letter] if place < size else row
        state = state[row]
        written = np.zeros((len(row), self.n_steps), dtype=np.int64)
        for stage in whole.stages:
            seen = [i for i, place in enumerate(stage.places) if place < size]
            new = [i for i, place in enumerate(stage.places) if place >= size]
            read = prompts[row][:, [stage.places[i] for i in seen]]
            # Where the prompt leaves several edges, all are followed: later stages choose.
            of_row, edge = _joined(
                np.column_stack([state, read]),
                np.column_stack([stage.source, stage.letters[:, seen]]),
            )
            row, state, written = row[of_row], stage.target[edge], written[of_row]
            written[:, [stage.places[i] - size for i in new]] = stage.letters[edge][:, new]
        for place, letter in whole.fixed:
            if place >= size:
                written[:, place - size] = letter
        once = np.bincount(row, minlength=len(prompts))
        if (once != 1).any():
            prompt = prompts[(once != 1).argmax()]
            raise UsageError(f"{prompt.tolist()} is no prompt of this task")
        return np.asarray(written[np.argsort(row)])


def _joined(rows: Index, table: Index) -> tuple[Index, Index]:
    """All pairs of a row and an equal row of the table, by their numbers, in the rows' order."""
    _, numbers = np.unique(np.concatenate([table, rows]), axis=0, return_inverse=True)
    of_table, of_rows = numbers.reshape(-1)[: len(table)], numbers.reshape(-1)[len(table) :]
    order = np.argsort(of_table, kind="stable")
    first = np.searchsorted(of_table[order], of_rows)
    count = np.searchsorted(of_table[order], of_rows, side="right") - first
    row = np.repeat(np.arange(len(rows)), count)
    behind = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return row, order[np.repeat(first, count) + behind]


def _restricted(stage: Stage, seen: list[int], label: Index | None) -> tuple[Stage, Index | None]:
    """A stage with some of its places only, and the labels of its edges in their new order."""
    places = tuple(stage.places[i] for i in seen)
    restricted = make_stage(places, stage.source, stage.target, stage.letters[:, seen])
    if label is None:
        return restricted, None
    return restricted, label[edge_order(stage.source, stage.target, stage.letters[:, seen])]


class StageData(Frozen):
    """One stage of a transducer, as JSON."""

    places: tuple[Whole, ...]
    edges: tuple[tuple[Whole, ...], ...]

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        width = len(self.places) + 2
        for edge in self.edges:
            if len(edge) != width:
                raise ValueError(
                    f"an edge of {len(self.places)} places has {width} numbers: the state before, "
                    f"the letters, the state after; got {list(edge)}"
                )
            wrong = [letter for letter in edge[1:-1] if not 0 <= letter < len(LETTERS)]
            if wrong or min(edge) < 0:
                raise ValueError(
                    f"letters are indices from 0 to {len(LETTERS) - 1}, states numbers from 0; "
                    f"got {list(edge)}"
                )
        if not self.edges:
            raise ValueError("a stage has one edge or more")
        return self


class Transducer(Writing, shipped=True):
    """A task of your own for a model that writes letters, as a table of stages.

    Args:
        length: The number of letters of the prompt and the output together.
        write: The number of letters at the end that the model writes.
        fixed: (place, letter index) of letters that are always the same.
        stages: For each stage its `places` and its `edges`: rows of the state before, the letters
            at those places, and the state after. State 0 is before the first stage.

    Example:
        >>> from tsc_interp.tasks import Transducer
        >>> double = Transducer(length=2, write=1, fixed=(), stages=(
        ...     {"places": (0, 1), "edges": ((0, 0, 0, 0), (0, 1, 1, 0))},
        ... ))
        >>> double.n_steps, double.step_trellis(0).labels
        (1, (0, 1))
    """

    kind: Literal["transducer"] = "transducer"
    length: Whole = Field(ge=1, le=MOST_PLACES)
    write: Whole = Field(ge=1)
    fixed: tuple[tuple[Whole, LetterIndex], ...] = ()
    stages: tuple[StageData, ...] = Field(min_length=1)
    name: str = ""

    @field_validator("fixed", "stages", mode="before")
    @classmethod
    def _are_tuples(cls, given: Any) -> Any:
        return _tuples(given)

    @model_validator(mode="after")
    def _is_one(self) -> Transducer:
        if self.write > self.length:
            raise ValueError(f"of {self.length} letters, {self.write} cannot be written")
        try:
            for step in range(self.n_steps):
                self.step_trellis(step)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def written(self) -> tuple[int, ...]:
        return tuple(range(self.length - self.write, self.length))

    def whole(self) -> Trellis:
        made = []
        for stage in self.stages:
            rows = np.array(stage.edges, dtype=np.int64)
            made.append(make_stage(stage.places, rows[:, 0], rows[:, -1], rows[:, 1:-1]))
        return Trellis(self.length, self.fixed, tuple(made), 0, np.zeros(len(made[0]), np.int64))

    def describe(self) -> str:
        return self.name or f"writes {self.write} letters after {self.prompt_length}"


def _tuples(given: Any) -> Any:
    if isinstance(given, list | tuple):
        return tuple(map(_tuples, given))
    if isinstance(given, dict):
        return {name: _tuples(value) for name, value in given.items()}
    return given
