"""The strings looked at when nobody names any: the source report's, and the model's worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tsc_interp.data import source_test_set
from tsc_interp.errors import ConfigError
from tsc_interp.output.numbers import Cell
from tsc_interp.source_report import EXAMPLES, TEST_LENGTH
from tsc_interp.strings import Alphabet
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.transducer import Writing

if TYPE_CHECKING:
    from tsc_interp.config import ClassifierConfig
    from tsc_interp.frames.frame import Frame
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
    wrong: int | None = None
    """Of a model with several classes, which has no kinds of errors: how many it gets wrong."""

    @property
    def errors(self) -> int:
        return self.false_positives + self.false_negatives + (self.wrong or 0)

    def numbers(self) -> dict[str, Cell]:
        if self.wrong is not None:
            return {"test strings": self.strings, "wrong": self.wrong}
        return {
            "test strings": self.strings,
            "false positives": self.false_positives,
            "false negatives": self.false_negatives,
        }

    def sentence(self, *, trained_here: bool = True) -> str:
        """How it does; of a model trained elsewhere it says whose test strings these are."""
        whose = "the" if trained_here else "tsc-interp's own"
        tested = f"{whose} {self.strings:,} test strings (up to {TEST_LENGTH} letters)"
        worst = " and ".join(f"`{string}`" for string in self.worst)
        if not self.errors:
            return f"It makes no error on {tested}; its closest calls are {worst}."
        kinds = ""
        if self.wrong is None:
            kinds = f": {self.false_positives:,} false positives and {self.false_negatives:,} "
            kinds += "false negatives"
        are = "are" if len(self.worst) > 1 else "is"
        return f"It is wrong on {self.errors:,} of {tested}{kinds}. The worst {are} {worst}."


def sensible_strings(config: ClassifierConfig) -> list[str]:
    """A few strings that exercise the task: each letter missing, each letter outweighed."""
    if config.frame is not None:
        return _of_frame(config, config.frame)
    if isinstance(config.task, Writing):
        return _prompts(config, config.task)
    longest = config.n_positions - int(config.has_cls) if config.has_positions else None
    texts = _exercises(config)
    if longest is not None:
        texts = [_cut(config.alphabet, text, longest) for text in texts]
    return list(dict.fromkeys(config.alphabet.canonical(text) for text in texts if text))


def _prompts(config: ClassifierConfig, task: Writing) -> list[str]:
    """Prompts of a task that writes, drawn by chance."""
    drawn = Regions.whole(task.step_trellis(0)).sample(5)
    return _named(config, drawn.tolist())


def _of_frame(config: ClassifierConfig, frame: Frame) -> list[str]:
    """Whole rows of the shortest and the longest inputs: of one letter, and drawn by chance."""
    rng = np.random.default_rng(0)
    inputs = []
    for n in sorted({frame.lengths[0], frame.lengths[-1]}):
        rows = [frame.listed(n, 0, 1), frame.sample(3, rng, n)]
        inputs += frame.rows(np.concatenate(rows)).tolist()
    return _named(config, inputs)


def _named(config: ClassifierConfig, rows: list[list[int]]) -> list[str]:
    names = config.token_names or tuple(config.alphabet.letters)
    between = "" if max(map(len, names)) == 1 else " "
    return list(dict.fromkeys(between.join(names[entry] for entry in row) for row in rows))


def _exercises(config: ClassifierConfig) -> list[str]:
    needed, letters = config.task.needs, config.alphabet.letters
    if not needed:
        three = letters[:3]
        runs = [f"{letter}{{50}}" for letter in three]
        mixed = [three, three + three[0], three[::-1], f"{letters[0]}{runs[-1]}"]
        # Every letter of a larger alphabet occurs, a few at a time: long strings may not fit.
        fives = [letters[at : at + 5] for at in range(3, len(letters), 5)]
        return [letters[0], *mixed, "".join(runs[:2]) + letters[0], *fives]
    unneeded = [letter for letter in config.alphabet.letters if letter not in needed]
    if needed == "ab" and "c" in unneeded:
        return list(EXAMPLES)
    filler = unneeded[0] if unneeded else ""
    strings = [needed, f"{needed}{filler}{{50}}" if filler else f"{needed}{needed[0]}"]
    for letter in needed[:3]:
        without = needed.replace(letter, "")
        strings += [f"{letter}{without[0]}{{100}}"] if without else []
        strings += [f"{without}{filler}" or letter]
    return strings


def _cut(alphabet: Alphabet, text: str, longest: int) -> str:
    """The string with its longest run shortened until it fits; empty if nothing is left of it."""
    runs = alphabet.runs(text)
    excess = sum(repeat for _, repeat in runs) - longest
    at = max(range(len(runs)), key=lambda index: runs[index][1])
    letter, repeat = runs[at]
    if excess <= 0:
        return text
    if repeat <= excess:
        return ""
    runs[at] = (letter, repeat - excess)
    return "".join(f"{letter}{{{repeat}}}" for letter, repeat in runs)


def score_test_set(model: Classifier) -> TestScore | None:
    """None where the test set does not fit: no letter outside the task, or order that matters."""
    import torch

    from tsc_interp.training.testing import ahead

    config = model.config
    try:
        counts = source_test_set(config)
    except ConfigError:
        return None
    if config.needs_order:
        return None
    with torch.no_grad():
        logits = torch.cat(
            [model(model.counts(rows.copy())) for rows in np.array_split(counts, 5)]
        ).numpy()
    classes = config.task.classes(counts)
    margins = ahead(logits, classes, config.n_outputs)
    if config.n_outputs > 1:  # not ahead of all is wrong
        worst = config.alphabet.write(counts[int(margins.argmin())])
        return TestScore(len(counts), 0, 0, (worst,), wrong=int((margins <= 0).sum()))
    labels = classes > 0
    wrong = (logits > 0) != labels
    kinds = [wrong & ~labels, wrong & labels] if wrong.any() else [~labels, labels]
    worst_of_each = [np.flatnonzero(kind)[margins[kind].argmin()] for kind in kinds if kind.any()]
    return TestScore(
        strings=len(counts),
        false_positives=int((wrong & ~labels).sum()),
        false_negatives=int((wrong & labels).sum()),
        worst=tuple(config.alphabet.write(counts[index]) for index in worst_of_each),
    )
