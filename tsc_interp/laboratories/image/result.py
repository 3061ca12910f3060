"""What the image laboratory found: right words, and where the attention pointed."""

from __future__ import annotations

from itertools import product
from typing import ClassVar

from tsc_interp.laboratories.base import LabOptions, LabResult, option
from tsc_interp.results.base import Cell, LabeledArray, Number, Record, Table
from tsc_interp.results.intervals import share_interval

TRAINED, UNIFORM, UNTRAINED = "trained", "uniform attention", "untrained"
ARMS = (TRAINED, UNIFORM, UNTRAINED)
LOOKING = (TRAINED, UNTRAINED)
"""The networks with a largest weight."""
QUESTIONS = ("first", "second")
"""The first and the second `is` of a sentence."""


class ImageOptions(LabOptions):
    QUICK: ClassVar = {
        "grid": 2,
        "steps": 150,
        "sentences": 8,
        "seeds": 1,
        "test": 1000,
    }

    grid: int = option(3, "Digits across and down in a picture.", ge=2, le=3)
    filters: int = option(8, "In the first convolution.", ge=2, le=64)
    steps: int = option(300, "Of training, for each model.", ge=1, le=20_000)
    pictures: int = option(24, "In a step of training.", ge=1, le=512)
    sentences: int = option(16, "About each picture of a step.", ge=1, le=64)
    seeds: int = option(3, "Of initial weights.", ge=1, le=32)
    test: int = option(2000, "Pictures to test with.", ge=100, le=50_000)
    seed: int = option(0, "The first seed, and the draws'.", ge=0, lt=2**32)


class Shown(Record):
    """A sentence about the picture that is drawn, the next word, and the model's."""

    sentence: str
    place: str
    word: str
    answer: str


class ImageResult(LabResult):
    probe: ClassVar[str] = "image"

    options: ImageOptions
    right: LabeledArray
    """`[arm seed question]`: next words that are right, of `options.test`."""
    pointed: LabeledArray
    """`[arm seed question]`: how often the largest weight lies in the named place; not uniform."""
    looked: LabeledArray
    """`[seed question]`: of the trained models' wrong words, those with the place right."""
    earlier: LabeledArray
    """`[arm seed]`: how often the second question's largest weight is in the first's place."""
    weight: LabeledArray
    """`[named place]`: the trained models' mean weight in each place, by the place named last."""
    blind: Number
    """The share of right words for somebody who knows every digit and not which is asked for."""
    picture: LabeledArray
    """`[row column]`: ink from 0 to 1."""
    maps: LabeledArray
    """`[sentence row column]`: the first trained model's weights over that picture's locations."""
    shown: tuple[Shown, ...]
    filters: LabeledArray
    """`[filter row column]`: the first convolution of that model."""

    @property
    def places(self) -> int:
        return self.options.grid**2

    def mean(self, counts: LabeledArray, arm: str, question: str = QUESTIONS[0]) -> float:
        """The share over all seeds of one arm."""
        return float(counts.at(arm=arm, question=question).mean()) / self.options.test

    def ends(self, counts: LabeledArray, arm: str, question: str) -> tuple[float, float]:
        """The lowest and the highest end of the seeds' 95 % intervals."""
        cells = counts.at(arm=arm, question=question)
        all_ends = [share_interval(int(cell), self.options.test) for cell in cells]
        return min(low for low, _ in all_ends), max(high for _, high in all_ends)

    def tables(self) -> tuple[Table, ...]:
        return (self._seeds(), self._shown())

    def _seeds(self) -> Table:
        labels, test = self.right.labels, self.options.test
        rows: list[tuple[Cell, ...]] = []
        for arm, seed, question in product(*labels.values()):
            at = {"arm": arm, "seed": seed, "question": question}
            words = int(self.right.at(**at))
            places = float(self.pointed.at(**at)) / test if arm in LOOKING else None
            low, high = share_interval(words, test)
            rows.append((arm, int(seed), question, words / test, low, high, places))
        columns = ("network", "seed", "question", "right", "95 % from", "to", "points at the place")
        title = f"Next words, and where the attention points ({test:,} pictures)"
        return Table.from_rows(title, columns, rows)

    def _shown(self) -> Table:
        rows = tuple((case.sentence, case.place, case.word, case.answer) for case in self.shown)
        columns = ("sentence so far", "place", "next word", "the network's")
        return Table.from_rows("The sentences that are drawn", columns, rows)
