"""What the image laboratory found, in sentences."""

from __future__ import annotations

import numpy as np

from tsc_interp.laboratories.base import Finding, LabeledArray
from tsc_interp.laboratories.image.result import (
    QUESTIONS,
    TRAINED,
    UNIFORM,
    UNTRAINED,
    ImageResult,
)


def findings(result: ImageResult) -> tuple[Finding, ...]:
    return (_trained(result), _uniform(result), _untrained(result), _state(result), _errors(result))


def _trained(result: ImageResult) -> Finding:
    words, places = (result.mean(table, TRAINED) for table in (result.right, result.pointed))
    learned = result.ends(result.right, TRAINED, QUESTIONS[0])[0] > result.blind
    return Finding.of(
        f"After {result.options.steps:,} steps the next word is right for "
        f"{_told(result, result.right, TRAINED)} of {result.options.test:,} pictures of held-out "
        f"digits, and the largest of the {result.maps.array[0].size} weights lies in the named "
        f"place for {_told(result, result.pointed, TRAINED)}. The network learned the places "
        "from words alone; no attention map was given.",
        {"words": words, "places": places, "seeds": result.options.seeds},
        "good" if learned else "warning",
    )


def _uniform(result: ImageResult) -> Finding:
    words = result.mean(result.right, UNIFORM)
    return Finding.of(
        "With the same weight at every location and otherwise the same training, the next "
        f"word is right for {_told(result, result.right, UNIFORM)}. The best possible accuracy "
        f"without knowing the place is {result.blind:.1%}, by naming the most frequent digit of "
        "each picture.",
        {"words": words, "without the place": result.blind},
    )


def _untrained(result: ImageResult) -> Finding:
    words, places = (result.mean(table, UNTRAINED) for table in (result.right, result.pointed))
    return Finding.of(
        f"Before training, {_told(result, result.right, UNTRAINED)} of the next words are "
        "right, and the largest weight is in the named place for "
        f"{_told(result, result.pointed, UNTRAINED)} (chance, with {result.places} places: "
        f"{1 / result.places:.1%}).",
        {"words": words, "places": places},
    )


def _state(result: ImageResult) -> Finding:
    second = QUESTIONS[1]
    named = result.mean(result.pointed, TRAINED, second)
    earlier = float(result.earlier.at(arm=TRAINED).mean()) / result.options.test
    place, other = result.shown[-1].sentence, result.shown[-1].place
    own = float(np.diag(result.weight.array).mean())
    return Finding.of(
        f"The network attends to the place named last: after sentences such as `{place}` "
        f"the largest weight is in the second place (here {other}) for "
        f"{_told(result, result.pointed, TRAINED, second)} and in the first for {earlier:.1%}. On "
        f"average {own:.1%} of the weight lies in the place named last.",
        {"second": named, "first": earlier, "weight": own},
        "good" if named > 2 * earlier else "warning",
    )


def _errors(result: ImageResult) -> Finding:
    tested = result.options.test * result.options.seeds * len(QUESTIONS)
    wrong = int(tested - result.right.at(arm=TRAINED).sum())
    looked = int(result.looked.array.sum())
    return Finding.of(
        f"The trained networks get {wrong:,} of {tested:,} questions wrong. In {looked:,} of "
        f"these the largest weight is in the right place, so the digit was misread; in "
        f"{wrong - looked:,} the network looked elsewhere.",
        {"wrong": wrong, "looked right": looked},
    )


def _told(
    result: ImageResult, counts: LabeledArray, arm: str, question: str = QUESTIONS[0]
) -> str:  # fmt: skip
    """`96.2% (95% CI 95.3% to 97.0%)`; of several seeds the mean and the outermost ends."""
    low, high = result.ends(counts, arm, question)
    seeds = result.options.seeds
    of = "95% CI" if seeds == 1 else f"the mean of {seeds} seeds, whose 95% CIs lie within"
    return f"{result.mean(counts, arm, question):.1%} ({of} {low:.1%} to {high:.1%})"
