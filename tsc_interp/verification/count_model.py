"""A classifier that reads how often each letter occurs, and what the trusted base shows of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from flint import ctx

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import as_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.trusted.boxes import Boxes
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.judge import PRECISIONS, Judge, rounded_up
from tsc_interp.verification.documents import model_of
from tsc_interp.verification.guess import Array, Guess, Integers, Support
from tsc_interp.verification.labels import Flags, full_counts

Form = Literal["tokens", "compressed"]
"""How strings are given to a float32 model: one key per letter, or one per kind of letter."""
EXACT_WORK = 60_000_000
"""For all single inputs that are decided in balls, in microseconds as estimated: a minute."""
_FEW = 2
"""So many vectors are as soon decided in balls."""
_ALL_PRECISIONS = 8
"""How much longer an input takes that no precision decides than one that the first one decides."""


def require_two_classes(config: ClassifierConfig) -> None:
    """Refuse a model that has no single logit."""
    if config.n_outputs > 2:
        raise UnsupportedError(
            f"this model has {config.n_outputs} outputs, and what is asked here needs a model of "
            "two classes. The difference of two outputs is one logit: "
            "tsc.from_transformer_lens(model, classes=(0, 1))"
        )


def checkpoint_of(model: Any) -> Checkpoint:
    """The weights to verify, of whatever stands for a model."""
    checkpoint = as_checkpoint(model)
    config = checkpoint.config
    if config.has_positions:
        raise UnsupportedError(
            "this model has positions, so its logit depends on the order of the letters and not on "
            "their counts alone; exact verification of counts needs a model with n_positions = 0. "
            + _instead(config)
        )
    if config.needs_order:
        raise UnsupportedError(
            "this model's attention is causal and what it reads depends on the order of the "
            "letters; exact verification of counts needs attention both ways, or one causal layer "
            "read at a token of its own. " + _instead(config)
        )
    if config.beyond_counts:
        raise UnsupportedError(
            f"this model has {', '.join(config.beyond_counts)}: there are no bounds over "
            "boxes of strings for that, so nothing can be searched or proved; tsc.evaluate "
            "answers for single strings"
        )
    return checkpoint


def _instead(config: ClassifierConfig) -> str:
    """What can be asked of a model that sees order."""
    if config.n_layers == 1:
        return "tsc.verify decides this model length by length"
    return (
        f"order is verified for one layer, and this model has {config.n_layers}; tsc.falsify "
        "searches for wrong inputs at any depth"
    )


class CountModel:
    """One classifier: what float64 guesses of it (`guess`), and what is shown (`judge`)."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint, self.config = checkpoint, checkpoint.config
        budget = Budget(math.inf)
        budget.restart()
        try:
            self.read = model_of(checkpoint)
            self.judge = Judge(self.read, budget)
            self.guess = Guess(self.read, self.judge.counts)
        except NotProved as error:
            raise UnsupportedError(str(error).removeprefix("rejected: ")) from None
        self.n_classes, self.exact_work = self.judge.n_classes, EXACT_WORK

    @property
    def multiclass(self) -> bool:
        """Whether there are more than two classes: two are the sign of one logit."""
        return self.n_classes > 2

    def cost(self, letters: Support) -> int:
        """About how many microseconds a box of these letters takes; the same on every machine."""
        spec, keys = self.judge.spec, 1 + len(letters)
        deeper = (spec.n_layers - 1) * keys * 2 * spec.d_model
        rows = self.judge.margins.rows / 4 + deeper
        return int(20 + (spec.n_heads * keys + spec.d_model / 4) * rows)

    # -- shown by the trusted base ---------------------------------------------------------------

    def shown(
        self, letters: Support, low: Integers, high: Integers, winner: Integers, wanted: Flags,
        form: str | None = None, group: Integers | None = None,
    ) -> Flags:  # fmt: skip
        """In which boxes a class beats each wanted one, throughout.

        Args:
            letters: The support.
            low: `[box letter]` the fewest.
            high: `[box letter]` the most.
            winner: `[box]` the class.
            wanted: `[box class]` those it is to beat.
            form: Ask of the float32 model, which is given strings so.
            group: `[box]` where boxes are single vectors: those of a group are neighbours.
        """
        gaps = self.gaps(letters, low, high, winner, wanted, form, group)
        return np.asarray((self.judge.margins.won(gaps, winner) | ~wanted).all(1))

    def gaps(
        self, letters: Support, low: Integers, high: Integers, winner: Integers, wanted: Flags,
        form: str | None = None, group: Integers | None = None,
    ) -> Array:  # fmt: skip
        """`[box class]`: below the winner's output minus each wanted one's; NaN if unknown."""
        gaps = np.full((len(low), self.n_classes), np.nan)
        longest = high.sum(1)
        reach = np.zeros_like(longest)
        if form is not None:
            reach = np.array([rounded_up(int(n)) for n in longest], dtype=np.int64)
        try:
            for length in np.unique(reach).tolist():
                at = np.flatnonzero(reach == length)
                if group is not None and self.config.n_layers == 1:
                    gaps[at] = self.judge.gaps_at_vectors(
                        letters, low[at].astype(float), group[at], winner[at], wanted[at], form,
                        length,
                    )  # fmt: skip
                    continue
                most = int(longest[at].max(initial=0))
                ends = low[at].astype(float), high[at].astype(float)
                boxes = Boxes.of_counts(*ends, self.config.attend_cls, most)
                gaps[at] = self.judge.gaps_in_boxes(
                    letters, boxes, winner[at], wanted[at], form, length
                )
        except NotProved as error:
            raise UnsupportedError(str(error).removeprefix("rejected: ")) from None
        return gaps

    def others(self, winner: Integers) -> Flags:
        """`[box class]`: all but the winner."""
        return np.asarray(np.arange(self.n_classes) != winner[:, None])

    def answers(self, letters: Support, vectors: Integers) -> Integers:
        """The class that each count vector is answered with; -1 where it cannot be told."""
        answers = self.guess.answers(letters, vectors)
        sure = np.zeros(len(vectors), dtype=bool)
        if len(vectors) > _FEW:
            sure = self.shown(letters, vectors, vectors, answers, self.others(answers))
        for i in np.flatnonzero(~sure).tolist():
            answer = self.answer(full_counts(self.config, letters, vectors[i]).tolist())
            answers[i] = -1 if answer is None else answer
        return answers

    def answer(self, counts: Sequence[int]) -> int | None:
        """The class of one vector of all letters, in balls; None if no precision tells, or no work
        is left for it.
        """
        if self.exact_work <= 0:
            return None
        support = tuple(i for i, n in enumerate(counts) if n)
        answer = self.judge.answer_to_counts(support, [int(counts[i]) for i in support])
        tried = _ALL_PRECISIONS if answer is None else 1
        self.exact_work -= self._exact_cost(len(support)) * tried
        return answer

    def _exact_cost(self, letters: int) -> int:
        """About how many microseconds one input takes in balls."""
        spec, tokens = self.judge.spec, 1 + letters
        head = spec.d_model * spec.d_head * 4 + tokens * (spec.d_head + spec.d_model)
        products = tokens * (spec.n_heads * head + 2 * spec.d_model * spec.d_mlp)
        functions = tokens * (spec.n_heads * tokens + spec.d_mlp)
        return 100 + spec.n_layers * (products // 20 + 4 * functions)

    # -- numbers to report -----------------------------------------------------------------------

    def outputs(self, counts: Sequence[int]) -> list[Any]:
        """Balls around the outputs for one vector of all letters, at the precision that is set."""
        forward = self.judge.forward
        support = [i for i, n in enumerate(counts) if n]
        reader = forward.reader(0, 0)
        letters = [(FIRST_LETTER + letter, 0) for letter in support]
        keys = forward.keys(letters, reader)
        copies = [*(int(counts[i]) for i in support), *[1] * (len(keys) - len(letters))]
        return forward.outputs(keys, copies, reader)

    def margin(self, counts: Sequence[int], label: int) -> float:
        """A class's output minus the largest other one, rounded to float64."""
        for precision in PRECISIONS:
            with ctx.workprec(precision):
                outputs = self.outputs(counts)
                gaps = [outputs[label] - x for j, x in enumerate(outputs) if j != label]
            if all(gap.rel_accuracy_bits() > 60 or gap.is_zero() for gap in gaps):
                break
        return min(map(float, gaps))

    def logit(self, counts: Sequence[int]) -> float:
        """Of two classes: the second output minus the first, rounded to float64."""
        require_two_classes(self.config)
        return self.margin(counts, 1)

    def reported(self, counts: Sequence[int], label: int) -> float:
        """What is reported of a string of this class: of two the logit, of more the margin."""
        margin = self.margin(counts, label)
        return margin if label or self.multiclass else -margin
