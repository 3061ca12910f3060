"""What do positions cost, and what do they make possible?

Attention without positions sees a string's letters but not their order: all orders of the same
letters have the same logit. With a vector added at each position it sees both. The laboratory
trains the same models without positions, with learned ones and with sinusoidal ones,

    p(2i) = sin(pos / 10000^(2i/d)),   p(2i+1) = cos(pos / 10000^(2i/d)),

on strings of up to `train_length` letters in any order. There are two tasks: *contains a and b*,
which needs no order, and *an a before any b*, which depends on order alone. Then it evaluates every
string of every length up to `max_length` in float64, so shares of wrong strings are counted.

For the task on order, a bound replaces the training of a model without positions. Of all orders of
n_a a's and n_b b's the share n_a / (n_a + n_b) is positive, so a model that gives all of them the
same answer is wrong on at least min(n_a, n_b) / (n_a + n_b) of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import permutations, product
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from tsc_interp.laboratories.base import (
    Cell,
    Finding,
    LabeledArray,
    LabOptions,
    LabResult,
    Progress,
    Record,
    option,
)
from tsc_interp.results.intervals import sign_test, told_share
from tsc_interp.results.views import Lines, Rows, shown

if TYPE_CHECKING:
    from tsc_interp.checkpoints.checkpoint import Checkpoint
    from tsc_interp.config import ClassifierConfig
    from tsc_interp.model.classifier import Classifier

Floats = NDArray[np.float64]
CONTAINS, BEFORE = "contains a and b", "an a before any b"
TASKS = (CONTAINS, BEFORE)
NONE, LEARNED, SINUSOIDAL = "none", "learned", "sinusoidal"
KINDS = (NONE, LEARNED, SINUSOIDAL)
ASKED = [pair for pair in product(TASKS, KINDS) if pair != (BEFORE, NONE)]
"""Order is not asked of models without positions."""


class PositionsOptions(LabOptions):
    # Of one model for each kind, a seed that shows what most do.
    QUICK: ClassVar = {"seeds": 1, "seed": 3, "max_length": 8, "batches": 80, "epochs": 8}

    seeds: int = option(8, "Models of each kind.", ge=1, le=64)
    seed: int = option(0, "The first of them.", ge=0)
    train_length: int = option(6, "Longest string trained on.", ge=2, le=11)
    max_length: int = option(10, "Longest string evaluated.", ge=3, le=12)
    d_model: int = option(8, "Width, and neurons of the MLP.", ge=2, le=64)
    batches: int = option(100, "Of 64 strings, per epoch.", ge=1, le=2000)
    epochs: int = option(12, "Of training, at most.", ge=1, le=200)

    @model_validator(mode="after")
    def _longer(self) -> Self:
        if self.max_length <= self.train_length:
            raise ValueError(
                f"max_length = {self.max_length} must be more than train_length = "
                f"{self.train_length}: the question is what happens beyond it"
            )
        if self.d_model % 2:
            raise ValueError(f"sinusoidal positions need an even d_model, got {self.d_model}")
        return self


class Model(Record):
    """One trained model, and every string decided."""

    task: str
    positions: str
    seed: int
    right_up_to: int
    first_wrong: str
    swing_by_order: float
    """The largest difference of logits between two orders of `aabc`."""


class PositionsResult(LabResult):
    probe: ClassVar[str] = "positions"

    options: PositionsOptions
    wrong: LabeledArray
    """`[task kind seed length]`: the share of all strings of the length that are wrong."""
    models: Annotated[
        tuple[Model, ...], Rows("Each model, up to {result.options.max_length} letters")
    ]
    closest: float
    """The smallest logit of all: where it is far above 1e-12, float64 decides every string."""

    @shown(Lines(
        "Strings wrong at each length",
        "Every string of each length; means over models, trained on up to "
        "{result.options.train_length} letters. No model without positions can be better at “an a "
        "before any b” than the line for it.",
        x="letters", y="share of strings wrong", form=".2%", name="wrong",
    ))  # fmt: skip
    def by_length(self) -> LabeledArray:
        lengths = self.wrong.labels["length"]
        lines = {
            f"{task}: {kind}": self.wrong.at(task=task, kind=kind).mean(axis=0)
            for task, kind in ASKED
        }
        lines[f"{BEFORE}: none, at best"] = np.array([least_wrong(int(x)) for x in lengths])
        return LabeledArray.of(list(lines.values()), positions=list(lines), length=lengths)

    def share(self, task: str, kind: str, length: int) -> Floats:
        """`[seed]`: wrong strings of a length."""
        return np.asarray(self.wrong.at(task=task, kind=kind, length=length))

    def through(self, task: str, kind: str) -> list[int]:
        """By seed, the length up to which every string is right."""
        asked = (task, kind)
        return [
            model.right_up_to for model in self.models if (model.task, model.positions) == asked
        ]

    # -- findings ----------------------------------------------------------------------------------

    def conclude(self) -> Iterator[Finding]:
        yield self._cost()
        yield self._possible()
        yield self._invariance()

    def _cost(self) -> Finding:
        most, seeds, last = self.options.max_length, self.options.seeds, self.options.train_length
        held = {kind: self.through(CONTAINS, kind).count(most) for kind in KINDS}
        kept = "; ".join(f"{kind}: {told_share(held[kind], seeds)}" for kind in KINDS)
        verdicts = [self._against(kind) for kind in (LEARNED, SINUSOIDAL)]
        beyond = ", ".join(
            f"{self.share(CONTAINS, LEARNED, length).mean():.2%} of those of {length}"
            for length in dict.fromkeys((last + 1, most))
        )
        return Finding.of(
            f"What positions cost where order does not matter (“{CONTAINS}”), trained on up to "
            f"{last} letters. Models that get every string of up to {most} letters right, by "
            f"positions: {kept}. {' '.join(verdicts)} With learned positions, these shares of all "
            f"strings are wrong on average: {beyond} letters.",
            {f"right with {kind}": count for kind, count in held.items()},
            "warning" if held[LEARNED] < held[NONE] else "note",
        )

    def _against(self, kind: str) -> str:
        """Whether positions get more of the longest strings wrong, by a sign test over seeds."""
        none, with_them = (self.share(CONTAINS, k, self.options.max_length) for k in (NONE, kind))
        worse, better = int((with_them > none).sum()), int((with_them < none).sum())
        chance = sign_test(with_them - none)
        verdict = "a difference" if chance < 0.05 else "no difference that these seeds show"
        return (
            f"Of {self.options.seeds} seeds, {worse} have more wrong strings of "
            f"{self.options.max_length} letters with {kind} positions than with none, and {better} "
            f"have fewer: {verdict} (sign test, p = {chance:.2g})."
        )

    def _possible(self) -> Finding:
        most, last, told = self.options.max_length, self.options.train_length, []
        bound = least_wrong(last)
        numbers: dict[str, Cell] = {"blind": bound}
        for kind in (LEARNED, SINUSOIDAL):
            through = self.through(BEFORE, kind)
            numbers |= {f"{kind}, best": max(through), f"{kind}, worst": min(through)}
            told.append(
                f"{_ends(through)} letters with {kind} positions, where "
                f"{self.share(BEFORE, kind, most).mean():.1%} of all strings of {most} letters "
                "are wrong"
            )
        return Finding.of(
            f"With positions a model can learn a task on order. Trained on “{BEFORE}” with up to "
            f"{last} letters, models are right on every string up to {'; '.join(told)}. Without "
            "positions no model can: it gives all orders of n_a a's and n_b b's the same answer, "
            "so it is wrong on at least min(n_a, n_b) / (n_a + n_b) of them, which is "
            f"{bound:.1%} of all strings of {last} letters.",
            numbers,
            "good",
        )

    def _invariance(self) -> Finding:
        swing = {
            pair: np.mean([m.swing_by_order for m in self.models if (m.task, m.positions) == pair])
            for pair in ASKED
        }
        told = "; ".join(f"{swing[pair]:.2f} ({pair[1]}, {pair[0]})" for pair in ASKED[1:])
        return Finding.of(
            "Without positions all orders of `aabc` have the same logit (difference "
            f"{swing[CONTAINS, NONE]:.0e}). With positions their logits differ by {told}. All "
            "strings were evaluated in float64, where the smallest logit is "
            f"{self.closest:.1e}.",
            {f"{kind}, {task}": float(value) for (task, kind), value in swing.items()},
        )


def _ends(lengths: list[int]) -> str:
    low, high = min(lengths), max(lengths)
    return f"{low}" if low == high else f"{low} to {high}"


def least_wrong(length: int, n_letters: int = 3) -> float:
    """The share of strings that a model blind to order gets wrong on `before`, at the least."""
    lost = 0.0
    for a, b in product(range(1, length + 1), repeat=2):
        if a + b <= length:
            strings = math.comb(length, a) * math.comb(length - a, b)
            lost += strings * (n_letters - 2) ** (length - a - b) * min(a, b) / (a + b)
    return float(lost / n_letters**length)


# -- training and evaluating -----------------------------------------------------------------------


def run(asked: PositionsOptions, progress: Progress) -> PositionsResult:
    from tsc_interp.model.classifier import Classifier
    from tsc_interp.model.threads import one_thread

    lengths = range(1, asked.max_length + 1)
    seeds = range(asked.seed, asked.seed + asked.seeds)
    wrong = np.full((len(TASKS), len(KINDS), asked.seeds, len(lengths)), np.nan)
    rows, closest = [], math.inf
    with one_thread():
        for task, kind in ASKED:
            progress(f"training and evaluating: {task}, {kind} positions")
            for seed, checkpoint in zip(seeds, trained(task, kind, asked), strict=True):
                model = Classifier.from_checkpoint(checkpoint).double()
                shares, first, least = decided(model, lengths)
                closest = min(closest, least)
                wrong[TASKS.index(task), KINDS.index(kind), seed - asked.seed] = shares
                right = len(first) - 1 if first else asked.max_length
                rows.append(
                    Model(
                        task=task, positions=kind, seed=seed, right_up_to=right,
                        first_wrong=first or "none", swing_by_order=swing_by_order(model),
                    )
                )  # fmt: skip
        return PositionsResult(
            options=asked,
            wrong=LabeledArray.of(wrong, task=TASKS, kind=KINDS, seed=seeds, length=lengths),
            models=tuple(rows),
            closest=closest,
        )


def classifier(task: str, kind: str, asked: PositionsOptions) -> ClassifierConfig:
    """Positions for the longest string; those beyond training are never trained."""
    from tsc_interp.config import ClassifierConfig
    from tsc_interp.tasks.counts import ContainsAll
    from tsc_interp.tasks.order import Before

    return ClassifierConfig(
        task=Before() if task == BEFORE else ContainsAll(),
        d_model=asked.d_model,
        n_heads=4,  # with two, half of the seeds end in a bad minimum, whatever their positions
        d_mlp=asked.d_model,
        n_positions=0 if kind == NONE else asked.max_length + 1,
        positions="sinusoidal" if kind == SINUSOIDAL else "learned",
    )


def trained(task: str, kind: str, asked: PositionsOptions) -> list[Checkpoint]:
    """Each seed's best epoch, on shuffled strings of up to `train_length` letters."""
    from tsc_interp.data import BalancedStream
    from tsc_interp.laboratories.trained import trained as train
    from tsc_interp.training.config import TrainingConfig

    stream = BalancedStream(max_length=asked.train_length, order="shuffled")
    training = TrainingConfig(
        train=stream.replace(batches=asked.batches),
        validation=stream.replace(batches=10, seed=1),
        test=stream.replace(batches=1, seed=2),
        max_epochs=asked.epochs,
        schedule_epochs=asked.epochs,
        final_factor=0.2,
        check_from=min(3, asked.epochs),
        stop_below=0.5,  # a sum over 640 strings
        patience=asked.epochs,
    )
    seeds = range(asked.seed, asked.seed + asked.seeds)
    return train(classifier(task, kind, asked), seeds, training)


def logits_of(model: Classifier, strings: Iterable[str]) -> Floats:
    import torch

    tokens = torch.as_tensor(model.config.alphabet.tokens(list(strings)))
    with torch.no_grad():
        return np.concatenate([model(part).double().numpy() for part in torch.split(tokens, 4096)])


def decided(model: Classifier, lengths: Iterable[int]) -> tuple[list[float], str, float]:
    """The share of wrong strings of each length, the first of them, and the smallest logit."""
    shares, first, closest = [], "", math.inf
    for length in lengths:
        strings = ["".join(x) for x in product(model.config.alphabet.letters, repeat=length)]
        logits = logits_of(model, strings)
        wrong = (logits > 0) != np.asarray(model.config.classes(strings), dtype=bool)
        shares.append(float(wrong.mean()))
        closest = min(closest, float(np.abs(logits).min()))
        first = first or (strings[int(wrong.argmax())] if wrong.any() else "")
    return shares, first, closest


def swing_by_order(model: Classifier, letters: str = "aabc") -> float:
    """The largest difference of logits between two orders of the same letters."""
    return float(np.ptp(logits_of(model, sorted({"".join(x) for x in permutations(letters)}))))
