"""What is asked of a model: a frame, a label for every input, and a quick answer for many at once.

`Question.ask(letters)` is the one place where inputs meet the model. It counts them, and its
margins say how wrong an answer is: the labelled output minus the largest other one, the least over
all positions read. Below zero is wrong.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tsc_interp.enumeration.deciding import OutOfTime
from tsc_interp.enumeration.network import Network
from tsc_interp.enumeration.running import Runner
from tsc_interp.errors import UsageError, shorten
from tsc_interp.falsification.state import State, key_of
from tsc_interp.frames.frame import Frame, Letters
from tsc_interp.strings import MAX_LETTERS
from tsc_interp.tasks.base import Task, given_task
from tsc_interp.tasks.function import Labels, is_function
from tsc_interp.tasks.transducer import Writing

Floats = NDArray[np.float64]
Label = Callable[[Any], Any]
Outputs = Callable[[Tensor, tuple[int, ...]], Tensor]
"""Rows and the positions read to outputs `[row, read, output]`."""
_MOST_ROWS = 4096
_PRODUCTS = 10**9
"""Multiplications of one batch, about: some tenths of a second."""


@dataclass(frozen=True)
class Answers:
    """Inputs of one length with what the label and the model say of them."""

    letters: Letters
    labels: Letters
    """`[input read]`: classes."""
    margins: Floats

    """Infinite where the label has no opinion."""

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where the label has an opinion."""
        return self.margins < np.inf

    @property
    def wrong(self) -> NDArray[np.bool_]:
        return self.margins < 0

    def at(self, which: Any) -> Answers:
        """Some of them."""
        return Answers(self.letters[which], self.labels[which], self.margins[which])


def labelled(
    label: Label | Task | str | Mapping[str, Any], frame: Frame, first: int | None = None
) -> Label:
    """A function of token rows that gives classes, whatever the label was given as.

    Args:
        label: A function, or a task.
        frame: The frame of the inputs.
        first: The token of a task's letter a, b, ... is this and those after it, for a task that
            writes; None: the tokens of the frame in their order, which are outputs as well.
    """
    if isinstance(label, str | Mapping):
        label = given_task(label)
    if isinstance(label, Writing):
        return _of_writing(label, frame, first)
    if isinstance(label, Task):
        return _of_task(label, frame)
    if not is_function(label):
        raise UsageError(
            "label is a function of one input's tokens that returns its class, or of token rows "
            f"[row, position] that returns classes, or one of tsc.tasks; got {shorten(label)}"
        )
    n = frame.lengths[-1]
    drawn = frame.sample(64, np.random.default_rng(0), n)
    return Labels(label, frame.rows(drawn), len(frame.reads(n)))


def _of_writing(task: Writing, frame: Frame, first: int | None) -> Label:
    """The letters that a task writes after the prompts of a frame."""
    tokens = np.array(frame.tokens) if first is None else np.arange(first, first + MAX_LETTERS)
    letter = np.full(int(tokens.max()) + 1, -1)
    letter[tokens] = np.arange(len(tokens))
    size = frame.length(frame.places[1])
    if (frame.writes, size) != (task.n_steps, task.prompt_length):
        raise UsageError(
            f"the task writes {task.n_steps} letters after {task.prompt_length}; the frame has "
            f"{size} tokens and writes={frame.writes}"
        )

    def label(rows: Any) -> Any:
        written = task.answers(letter[np.asarray(rows)])
        return tokens[written] if first is None else written

    return label


def _of_task(task: Task, frame: Frame) -> Label:
    """One of our tasks, whose letters are a, b, c, ...: the frame's letters in their order."""
    alphabet = frame.alphabet
    if frame.writes or len(frame.read) > 1:
        raise UsageError(
            "one of tsc.tasks labels inputs that are read at one position; give a function of "
            "token rows for other frames"
        )
    if misfit := task.misfit(len(alphabet)):
        raise UsageError(misfit)
    number = np.zeros(max(alphabet) + 1, dtype=np.int64)
    number[list(alphabet)] = np.arange(len(alphabet))

    def label(rows: Any) -> Any:
        tokens = np.asarray(rows)
        _, at = frame.template(tokens.shape[1] - frame.length(0))
        letters = number[tokens[:, at]]
        if task.ordered:
            return task.classes(letters)
        counts = (letters[:, :, None] == np.arange(len(alphabet))).sum(axis=1)
        return task.classes(counts)

    return label


@dataclass
class Question:
    """A model, its frame and its label.

    Args:
        outputs: The model's outputs for rows, quickly.
        n_outputs: How many there are.
        frame: What inputs look like.
        label: From `labelled`.
    """

    outputs: Outputs
    n_outputs: int
    frame: Frame
    label: Label
    first: int = 0
    """The token that is written for output 0."""
    weights: int = 0
    """The number of the model's weights: what a batch costs."""
    deadline: float = math.inf
    """When to end, by the clock."""
    clock: Callable[[], float] = monotonic
    tried: int = 0
    state: State = field(default_factory=lambda: State(None, {}), repr=False)
    """What is known already of a search that goes on."""

    def ask(self, letters: Letters) -> Answers:
        """Answer inputs of one length, batch by batch.

        Raises:
            OutOfTime: The time is over before all are answered.
        """
        step = self.rows_at_once(letters.shape[1])
        parts = [self._asked(letters[i : i + step]) for i in range(0, len(letters), step)]
        if len(parts) <= 1:
            return parts[0] if parts else self._asked(letters)
        return Answers(
            letters,
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.margins for part in parts]),
        )

    def rows_at_once(self, n: int) -> int:
        """So many inputs of `n` letters take some tenths of a second at most."""
        length = self.frame.length(n) + self.frame.writes
        return max(1, min(_MOST_ROWS, _PRODUCTS // (length * (self.weights + 100 * length))))

    def check(self) -> None:
        """End here if the time is over."""
        if self.clock() > self.deadline:
            raise OutOfTime

    def _asked(self, letters: Letters) -> Answers:
        self.check()
        rows = self.frame.rows(letters)
        labels = self.labels(rows)
        known = self.known(labels)
        self.tried += int(known.sum())
        margins = np.full(len(rows), np.inf)
        if known.any():
            margins[known] = self._margins(rows[known], labels[known])
        return Answers(letters, labels, margins)

    def known(self, labels: Letters) -> NDArray[np.bool_]:
        """Of which inputs the label says something, or all that the model should write."""
        said = labels >= 0
        return np.asarray(said.all(1) if self.frame.writes else said.any(1))

    def _margins(self, rows: Letters, labels: Letters) -> Floats:
        if self.state.path is None:
            return self._computed(rows, labels)
        key = key_of(rows, labels)
        kept = self.state.get(key)
        if kept is None:
            kept = _encoded(self._computed(rows, labels))
            self.state.keep(key, kept)
        return _decoded(kept)

    def _computed(self, rows: Letters, labels: Letters) -> Floats:
        wanted = torch.from_numpy(np.maximum(self.wanted(labels), 0))[..., None]
        reads = self.frame.reads(rows.shape[1] - self.frame.length(0))
        outputs = self.outputs(torch.from_numpy(self.written(rows, labels)), reads)
        largest_other = outputs.scatter(-1, wanted, -torch.inf).amax(-1)
        margins = outputs.gather(-1, wanted)[..., 0] - largest_other
        margins = margins.masked_fill(torch.from_numpy(labels < 0), torch.inf)
        least: Floats = margins.amin(-1).double().numpy()
        return least

    def answer(self, row: Sequence[int]) -> tuple[int, ...]:
        """The class the model says, at each position read, of a row without what it writes."""
        rows = np.array([row], dtype=np.int64)
        labels = self.labels(rows)
        written = torch.from_numpy(self.written(rows, labels))
        outputs = self.outputs(written, self.frame.reads(len(row) - self.frame.length(0)))
        return tuple(self.class_of(int(output)) for output in outputs[0].argmax(-1))

    def class_of(self, output: int) -> int:
        """Of an output; -1 for an output that stands for no class."""
        classes = self.frame.classes
        if classes is None:
            return output
        return classes.index(output) if output in classes else -1

    def written(self, rows: Letters, labels: Letters) -> Letters:
        """Rows with what the model should have written so far."""
        return np.hstack([rows, labels[:, :-1] + self.first]) if self.frame.writes else rows

    def labels(self, rows: Letters) -> Letters:
        """Classes `[row read]`; -1 where the label has no opinion."""
        reads = len(self.frame.reads(rows.shape[1] - self.frame.length(0)))
        return np.asarray(self.label(rows), dtype=np.int64).reshape(len(rows), reads)

    def wanted(self, labels: Letters) -> Letters:
        """Classes as outputs; -1 where the label has no opinion."""
        classes = self.frame.classes
        most = self.n_outputs if classes is None else len(classes)
        if labels.size and not -1 <= labels.min() <= labels.max() < most:
            raise UsageError(
                f"labels lie in 0 to {most - 1} for this model and frame; got {labels.min()} to "
                f"{labels.max()} (which output stands for which class: Frame(classes=...))"
            )
        return labels if classes is None else np.array([*classes, -1], dtype=np.int64)[labels]


def _encoded(margins: Floats) -> str:
    """Differences of float32 outputs, exactly."""
    return base64.b64encode(margins.astype("<f4").tobytes()).decode()


def _decoded(text: str) -> Floats:
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64)


def in_batches(network: Network) -> Outputs:
    """Outputs in float32, in batches that fit the caches."""
    runner = Runner(network, torch.float32, bounded=False)

    def outputs(rows: Tensor, reads: tuple[int, ...]) -> Tensor:
        step = runner.rows_at_once(rows.shape[1])
        return torch.cat([runner(batch, reads)[0] for batch in torch.split(rows, step)])

    return outputs


def by_its_own_forward(model: Any) -> Outputs:
    """Outputs of the model's own code, for a model that its weights alone do not determine."""

    @torch.no_grad()
    def outputs(rows: Tensor, reads: tuple[int, ...]) -> Tensor:
        logits: Tensor = model(rows)[:, list(reads)].float().cpu()
        return logits

    return outputs


def by_classifier(model: Any) -> Outputs:
    """The same for one of our classifiers, which reads one position and may have one output."""

    @torch.no_grad()
    def outputs(rows: Tensor, reads: tuple[int, ...]) -> Tensor:
        if len(reads) > 1:  # it reads the last token: what is written is run step by step
            return torch.cat([outputs(rows[:, : at + 1], (at,)) for at in reads], dim=1)
        logits: Tensor = model(rows)
        if logits.ndim == 1:
            logits = torch.stack([torch.zeros_like(logits), logits], dim=-1)
        return logits[:, None]

    return outputs
