"""Pictures of several digits, and sentences that name their places.

A picture is a grid of scikit-learn's 8 × 8 digits, drawn with replacement. A sentence says what
stands in one place and goes on to another: `top left is seven bottom right is`. Each `is` is a
question, and the word after it is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsc_interp.errors import needed
from tsc_interp.laboratories.every_string import Floats, Integers

SIDE = 8
"""Pixels of a digit."""
HELD_OUT = 500
"""Digits that no picture of training has."""
ASKED_AT = (2, 6)
"""Where the two `is` of a sentence stand."""
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_ROWS = {2: ("top", "bottom"), 3: ("top", "middle", "bottom")}
_COLUMNS = {2: ("left", "right"), 3: ("left", "centre", "right")}
Pixels = NDArray[np.float32]


@dataclass(frozen=True)
class Digits:
    """Images `[digit row column]`, ink from 0 to 1, and which digit each is."""

    images: Pixels
    labels: Integers

    def standardised(self, pictures: Pixels) -> Pixels:
        """Return pictures with this set's mean ink at 0 and its deviation at 1."""
        return np.asarray((pictures - self.images.mean()) / self.images.std(), dtype=np.float32)


@dataclass(frozen=True)
class Questions:
    """Pictures, sentences about each, and the place and word that each `is` asks for."""

    pictures: Pixels
    """`[picture row column]`, ink from 0 to 1."""
    digits: Integers
    """`[picture place]`."""
    words: Integers
    """`[picture sentence word]`."""
    places: Integers
    """`[picture sentence question]`."""
    answers: Integers
    """`[picture sentence question]`, as words."""


def split_digits() -> tuple[Digits, Digits]:
    """Return the digits to train with and the 500 to test with, the same on every call."""
    loaded = needed("sklearn.datasets", "the laboratory image", "'tsc-interp[labs]'").load_digits()
    images, labels = (loaded.images / 16).astype(np.float32), loaded.target.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(labels))
    kept, held_out = order[HELD_OUT:], order[:HELD_OUT]
    return Digits(images[kept], labels[kept]), Digits(images[held_out], labels[held_out])


def vocabulary(grid: int) -> tuple[str, ...]:
    """Return the words: rows, columns, `is`, numbers."""
    return (*_ROWS[grid], *_COLUMNS[grid], "is", *NUMBERS)


def place_names(grid: int) -> tuple[str, ...]:
    """Return `top left` and so on, row by row."""
    return tuple(f"{row} {column}" for row in _ROWS[grid] for column in _COLUMNS[grid])


def compose(tiles: Pixels) -> Pixels:
    """Return `[picture row column]` from tiles `[picture place row column]`."""
    grid = round(float(np.sqrt(tiles.shape[1])))
    by_rows = tiles.reshape(-1, grid, grid, SIDE, SIDE).swapaxes(2, 3)
    return by_rows.reshape(-1, grid * SIDE, grid * SIDE)


def write(places: Integers, digits: Integers, grid: int) -> tuple[Integers, Integers]:
    """Return sentences as word ids and the words that their two questions ask for.

    Args:
        places: `[... question]`, the places named.
        digits: `[... place]`, what stands in each place.
        grid: Digits across and down.
    """
    answers = np.take_along_axis(digits, places, axis=-1) + 2 * grid + 1
    asks = [
        np.stack([place // grid, grid + place % grid, np.full_like(place, 2 * grid)], axis=-1)
        for place in (places[..., 0], places[..., 1])
    ]
    return np.concatenate([asks[0], answers[..., :1], asks[1]], axis=-1), answers


def draw(
    rng: np.random.Generator, digits: Digits, grid: int, pictures: int, sentences: int
) -> Questions:
    """Draw pictures, and sentences that name two different places of each."""
    chosen = rng.integers(len(digits.labels), size=(pictures, grid**2))
    every = np.tile(np.arange(grid**2), (pictures, sentences, 1))
    places = rng.permuted(every, axis=-1)[..., :2]
    labels = digits.labels[chosen]
    words, answers = write(places, np.repeat(labels[:, None], sentences, axis=1), grid)
    return Questions(compose(digits.images[chosen]), labels, words, places, answers)


def blind_guess(digits: Integers) -> float:
    """Return how often the commonest digit of a picture is the right one, a random place asked.

    Nobody who knows all digits of a picture and not the place does better.
    """
    counts = (digits[..., None] == np.arange(len(NUMBERS))).sum(axis=1)
    return float((counts.max(axis=-1) / digits.shape[1]).mean())


def attended(weights: Floats, grid: int) -> Floats:
    """Return the weight in each place, `[... place]`, from weights by location `[... location]`.

    A place is a square of locations; how many depends on the network's pooling.
    """
    across = round(float(np.sqrt(weights.shape[-1]))) // grid
    split = weights.reshape(*weights.shape[:-1], grid, across, grid, across)
    return np.asarray(split.sum(axis=(-3, -1)).reshape(*weights.shape[:-1], grid**2))


def pointed_at(weights: Floats, grid: int) -> Integers:
    """Return the place that holds the location with the largest weight."""
    side = round(float(np.sqrt(weights.shape[-1])))
    row, column = np.divmod(weights.argmax(axis=-1), side)
    across = side // grid
    return np.asarray(row // across * grid + column // across)
