"""The source report's published figures, as data, and what finished runs say about them.

A figure names a run, what is measured, the published value and a tolerance. Tolerances are half a
unit of the last printed digit, except where rounding during training alone moves the figure
further: attention weights and the validation loss (one unit), and the probability of `ab{100}`,
printed with eight digits, of which float32 training determines five. Epochs, predictions and
confusion matrices must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.training.jobs import TrainedRun

TEST_STRINGS = (4_329, 5_655)
NO_ERRORS = [[TEST_STRINGS[0], 0], [0, TEST_STRINGS[1]]]


Tolerance = float | list[float]


@dataclass(frozen=True)
class PublishedFigure:
    """One published figure; `measured` and `holds` are filled in by `check`."""

    experiment: str
    seed: int
    statement: str
    published: Any
    tolerance: Tolerance
    measure: Callable[[TrainedRun], Any]
    measured: Any = None
    holds: bool | None = None

    def check(self, run: TrainedRun) -> PublishedFigure:
        measured = self.measure(run)
        if self.tolerance:
            difference = np.abs(np.subtract(measured, self.published))
            holds = bool(np.all(difference <= self.tolerance))
        else:
            holds = measured == self.published
        return replace(self, measured=measured, holds=holds)

    def to_dict(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "seed": self.seed,
            "claim": self.statement,
            "published": self.published,
            "measured": self.measured,
            "tolerance": self.tolerance,
            "holds": self.holds,
        }


def check_figures(runs: Iterable[TrainedRun]) -> list[PublishedFigure]:
    """Every figure about a run that is among these."""
    by_name = {(run.job.experiment, run.job.seed): run for run in runs}
    order = list(dict.fromkeys(experiment for experiment, _ in by_name))
    figures = [
        figure.check(by_name[figure.experiment, figure.seed])
        for figure in published_figures()
        if (figure.experiment, figure.seed) in by_name
    ]
    return sorted(figures, key=lambda figure: order.index(figure.experiment))


def published_figures() -> Iterator[PublishedFigure]:
    yield from _walkthrough()
    yield from _generalization_errors()
    yield PublishedFigure(
        "increased_dimensionality", 0, "validation loss after two epochs", 0.00686, 1e-5,
        lambda run: run.directory.metrics()[1].validation_loss,
    )  # fmt: skip
    for experiment, matrices in _MATRICES.items():
        for seed, matrix in matrices.items():
            yield PublishedFigure(
                experiment, seed, "test confusion matrix [[TN, FP], [FN, TP]]", matrix, 0.0,
                lambda run: run.result.test.matrix(),
            )  # fmt: skip
    for seed in (1, 2, 3, 4, 6):
        yield PublishedFigure(
            "all_initializations", seed, "makes test errors (only seed 5 makes none)", True, 0.0,
            lambda run: run.result.test.errors > 0,
        )  # fmt: skip
    yield PublishedFigure(
        "lower_magnitude_initializations", 2, "the letter each head attends to most", ["b", "b"],
        0.0, lambda run: _favourite_letters(run.directory.checkpoint()),
    )  # fmt: skip


# As printed there; other seeds' matrices are not.
_MATRICES: dict[str, dict[int, list[list[int]]]] = {
    "walkthrough": {5: NO_ERRORS},
    "all_fixed_length_sequences": {0: [[4329, 0], [340, 5315]], 1: [[4329, 0], [322, 5333]]},
    "all_initializations": {
        0: [[4329, 0], [1378, 4277]],
        5: NO_ERRORS,
        7: [[4329, 0], [214, 5441]],
    },
    "increased_dimensionality": dict.fromkeys(range(8), NO_ERRORS),
    "lower_magnitude_initializations": {
        0: NO_ERRORS,
        1: [[4329, 0], [273, 5382]],
        2: [[2886, 1443], [0, 5655]],
        6: [[4329, 0], [328, 5327]],
        7: [[4329, 0], [240, 5415]],
    },
    "default_embeddings_initialization": {0: NO_ERRORS, 7: NO_ERRORS},
    "increased_num_attention_heads": dict.fromkeys(range(8), NO_ERRORS),
}


def _walkthrough() -> Iterator[PublishedFigure]:
    figure = partial(PublishedFigure, "walkthrough", 5)
    yield figure("epochs trained", 8, 0.0, lambda run: run.result.epochs)
    yield figure("chosen epoch", 8, 0.0, lambda run: run.result.chosen_epoch)
    for string, logit in {"aac": -8.2945, "baac": 10.9587}.items():
        yield figure(f"logit of {string}", logit, 5e-5, _measured(string, "logits", float))
    for token, embedding in {
        "CLS": [-0.6023, -1.0448],
        "PAD": [0.0, 0.0],
        "a": [0.1197, 2.3601],
        "b": [-1.5085, -2.1599],
        "c": [1.5460, -0.8536],
    }.items():
        yield figure(f"embedding of {token}", embedding, 5e-5, _embedding(token))
    for (head, string), weights in {
        (0, "aac"): "4.9982e-01 4.9982e-01 3.5828e-04",
        (0, "baac"): "4.5179e-06 4.9982e-01 4.9982e-01 3.5828e-04",
        (1, "aac"): "3.8669e-03 3.8669e-03 9.9227e-01",
        (1, "baac"): "9.9959e-01 1.5737e-06 1.5737e-06 4.0383e-04",
    }.items():
        printed = weights.split()
        yield figure(
            f"head {head}'s attention in {string}, character by character",
            [float(weight) for weight in printed],
            [10.0 ** (int(weight.split("e")[1]) - 4) for weight in printed],
            _measured(string, "blocks.0.attn.hook_pattern", partial(_weights_of_cls, head=head)),
        )
    for string, transformed in {"aac": [-6.4319, -0.9393], "baac": [0.2414, 9.1150]}.items():
        yield figure(
            f"transformed CLS of {string}", transformed, 5e-5,
            _measured(string, "blocks.0.hook_resid_post", lambda residual: residual[0].tolist()),
        )  # fmt: skip
    yield figure(
        "each head attends to another one of a and b", ["a", "b"], 0.0,
        lambda run: sorted(_favourite_letters(run.directory.checkpoint())),
    )  # fmt: skip
    yield figure(
        "in each head a and b have values of opposite sign", [True, True], 0.0,
        _measured("ab", "blocks.0.attn.hook_v", _opposite_signs),
    )  # fmt: skip


def _generalization_errors() -> Iterator[PublishedFigure]:
    figure = partial(PublishedFigure, "generalization_errors", 2)
    yield figure("chosen epoch", 2, 0.0, lambda run: run.result.chosen_epoch)
    yield figure(
        "probability of ab{100}", 0.12186886, 5e-6,
        _measured("ab{100}", "logits", lambda logit: float(1 / (1 + np.exp(-logit)))),
    )  # fmt: skip
    for string, statement, positive in (
        ("b{2}c{152}", "is a false positive", True),
        ("ab{100}c{55}", "is a false negative", False),
        ("ab{100}", "is a false negative too", False),
    ):
        answers = _measured(string, "logits", partial(_answers, positive=positive))
        yield figure(f"{string} {statement}", True, 0.0, answers)
    for letter, value in {"a": 2.0178, "c": 1.3575}.items():
        yield figure(
            f"head 0's value of {letter}", value, 5e-5,
            _measured(letter, "blocks.0.attn.hook_v", lambda values: float(values[1, 0, 0])),
        )  # fmt: skip
    yield figure(
        "the letters head 0 attends to, most first", "ab", 0.0,
        lambda run: _letters_by_score(run.directory.checkpoint(), 0)[:2],
    )  # fmt: skip


# -- what is measured --------------------------------------------------------------------------


def _activations(checkpoint: Checkpoint, string: str) -> dict[str, np.ndarray]:
    """Every activation of the float32 model on one string, and the logit."""
    import torch

    from tsc_interp.model.classifier import Classifier

    model = Classifier.from_checkpoint(checkpoint)
    with torch.no_grad():
        logits, cache = model.run_with_cache(
            model.tokens([string]) if len(string) < 10 else [string], return_cache_object=False
        )
    return {name: a[0].double().numpy() for name, a in {**cache, "logits": logits}.items()}


def _measured(
    string: str, name: str, pick: Callable[[np.ndarray], Any]
) -> Callable[[TrainedRun], Any]:
    """What is picked from an activation of one string, or from its logit."""
    return lambda run: pick(_activations(run.directory.checkpoint(), string)[name])


def _weights_of_cls(pattern: np.ndarray, *, head: int) -> list[float]:
    weights: list[float] = pattern[head, 0, 1:].tolist()
    return weights


def _answers(logit: np.ndarray, *, positive: bool) -> bool:
    return bool(logit > 0) is positive


def _opposite_signs(values: np.ndarray) -> list[bool]:
    """`[head]`, of the values of two letters behind CLS."""
    return [bool(a * b < 0) for a, b in values[1:, :, 0].T]


def _embedding(token: str) -> Callable[[TrainedRun], Any]:
    def read(run: TrainedRun) -> Any:
        checkpoint = run.directory.checkpoint()
        row = checkpoint.config.alphabet.token_names.index(token)
        return [float(x) for x in checkpoint.weights["embed.W_E"][row]]

    return read


def _letters_by_score(checkpoint: Checkpoint, head: int) -> str:
    """The alphabet, ordered by how much the head's CLS attends to one of each."""
    letters = checkpoint.config.alphabet.letters
    scores = _activations(checkpoint, letters)["blocks.0.attn.hook_attn_scores"][head, 0, 1:]
    return "".join(letters[index] for index in np.argsort(-scores))


def _favourite_letters(checkpoint: Checkpoint) -> list[str]:
    return [_letters_by_score(checkpoint, head)[0] for head in range(checkpoint.config.n_heads)]
