"""The strings looked at when nobody names any: the source report's, and the model's worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tsc_interp.data import source_test_set
from tsc_interp.errors import ConfigError
from tsc_interp.source_report import EXAMPLES, TEST_LENGTH
from tsc_interp.strings import Counts

if TYPE_CHECKING:
    from tsc_interp.model.classifier import Classifier


@dataclass(frozen=True)
class TestScore:
    """How a model does on the 9,984 test strings, and where it does worst."""

    __test__ = False  # not a test case, whatever pytest thinks of the name

    strings: int
    false_positives: int
    false_negatives: int
    worst: tuple[str, ...]
    """The most wrong string of each kind; with no errors, the two nearest to one."""

    @property
    def errors(self) -> int:
        return self.false_positives + self.false_negatives

    def sentence(self) -> str:
        worst = " and ".join(f"`{string}`" for string in self.worst)
        if not self.errors:
            return (
                f"It makes no error on the {self.strings:,} test strings (up to {TEST_LENGTH} "
                f"letters) and comes nearest to one on {worst}."
            )
        return (
            f"It is wrong on {self.errors:,} of the {self.strings:,} test strings (up to "
            f"{TEST_LENGTH} letters): {self.false_positives:,} false positives and "
            f"{self.false_negatives:,} false negatives, the worst being {worst}."
        )


def sensible_strings(model: Classifier) -> list[str]:
    """A few strings that exercise the task: each letter missing, each letter outnumbered."""
    config = model.config
    needed = config.task.needs
    others = [letter for letter in config.alphabet.letters if letter not in needed]
    if needed == "ab" and "c" in others:
        return list(EXAMPLES)
    other = others[0] if others else ""
    found = [needed, f"{needed}{other}{{50}}" if other else f"{needed}{needed[0]}"]
    for letter in needed[:3]:
        rest = needed.replace(letter, "")
        found += [f"{letter}{rest[0]}{{100}}"] if rest else []
        found += [f"{rest}{other}" or letter]
    return list(dict.fromkeys(config.alphabet.canonical(string) for string in found))


def score_test_set(model: Classifier) -> TestScore | None:
    """None where the test set does not fit: no letter outside the task, or learned positions."""
    import torch

    config = model.config
    try:
        counts = source_test_set(config)
    except ConfigError:
        return None
    if config.has_positions:
        return None
    with torch.no_grad():
        logits = torch.cat(
            [model(model.counts(rows.copy())) for rows in np.array_split(counts, 5)]
        ).numpy()
    labels = config.task.labels(counts)
    margins = np.where(labels, logits, -logits)
    wrong = (logits > 0) != labels
    return TestScore(
        strings=len(counts),
        false_positives=int((wrong & ~labels).sum()),
        false_negatives=int((wrong & labels).sum()),
        worst=_worst(model, counts, margins, wrong, labels),
    )


def _worst(
    model: Classifier,
    counts: Counts,
    margins: np.ndarray,
    wrong: np.ndarray,
    labels: np.ndarray,
) -> tuple[str, ...]:
    write = model.config.alphabet.write
    kinds = [wrong & ~labels, wrong & labels] if wrong.any() else [~labels, labels]
    chosen = [np.flatnonzero(kind)[margins[kind].argmin()] for kind in kinds if kind.any()]
    return tuple(write(counts[index]) for index in chosen)
