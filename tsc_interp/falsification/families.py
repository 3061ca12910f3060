"""Systematic inputs, tried before any search: the ones that break models most often.

A family gives arrays of letter numbers `[input place]`, 0 being a place's first letter. In trials
on public models these inputs beat hill climbing: models fail where an input is simple and extreme
(one letter throughout), or where one letter decides (a palindrome with one mismatch, a sum with one
carry, two balanced halves with a dip between them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tsc_interp.frames.frame import Frame, Letters

Rng = np.random.Generator
Family = Callable[[int, int, int, Rng], Letters]
"""(places, letters, how many inputs at most, random numbers) to inputs."""


def constants(n: int, k: int, most: int, rng: Rng) -> Letters:
    """One letter throughout."""
    return np.repeat(np.arange(min(k, most))[:, None], n, axis=1)


def changed_constants(n: int, k: int, most: int, rng: Rng) -> Letters:
    """One letter throughout, but for one place."""
    return _changed(constants(n, k, k, rng), k, most, rng)


def runs(n: int, k: int, most: int, rng: Rng) -> Letters:
    """A run of one letter, then a run of another."""
    a, b, cut = _picked((k, k, max(n - 1, 1)), most, rng)
    return np.asarray(np.where(np.arange(n) <= cut[:, None], a[:, None], b[:, None]))


def alternating(n: int, k: int, most: int, rng: Rng) -> Letters:
    """Two letters in turn."""
    a, b = _picked((k, k), most, rng)
    return np.asarray(np.where(np.arange(n) % 2 == 0, a[:, None], b[:, None]))


def mirrored(n: int, k: int, most: int, rng: Rng) -> Letters:
    """Palindromes, and palindromes with one letter changed."""
    half = rng.integers(0, k, size=(max(most // 8, 1), n))
    half[: len(half) // 2] %= min(k, 2)
    whole = np.where(np.arange(n) < (n + 1) // 2, half, half[:, ::-1])
    return np.vstack([whole, _changed(whole, k, most - len(whole), rng)])


def repeated(n: int, k: int, most: int, rng: Rng) -> Letters:
    """The same half twice, and that with one letter changed."""
    half = rng.integers(0, k, size=(max(most // 8, 1), n))
    whole = half[:, np.arange(n) % max(n // 2, 1)]
    return np.vstack([whole, _changed(whole, k, most - len(whole), rng)])


def columns(n: int, k: int, most: int, rng: Rng) -> Letters:
    """Zeros but for one column of two operands: 0005 and 0005."""
    half = n // 2
    place, a, b = _picked((max(half, 1), k, k), most, rng)
    rows = np.zeros((len(a), n), dtype=np.int64)
    at = np.arange(len(a))
    rows[at, place] = a
    rows[at, np.minimum(place + half, n - 1)] = b
    return rows


def carries(n: int, k: int, most: int, rng: Rng) -> Letters:
    """Two operands whose columns add up to the largest letter from a place on, but for one."""
    half = n // 2
    rows = rng.integers(0, k, size=(most, n))
    rows[: most // 4] = 0
    start = rng.integers(0, half + 1, size=(most, 1))
    chain = np.arange(half) >= start
    rows[:, half : 2 * half] = np.where(chain, k - 1 - rows[:, :half], rows[:, half : 2 * half])
    place = half + rng.integers(0, max(half, 1), size=most)
    at = np.arange(most), np.minimum(place, n - 1)
    rows[at] = np.clip(rows[at] + rng.integers(-1, 2, size=most), 0, k - 1)
    return rows


def dips(n: int, k: int, most: int, rng: Rng) -> Letters:
    """Balanced words of two letters, as brackets are, also with `)(` somewhere at the top level."""
    pairs = [(0, 1), (1, 0)] if k > 1 else [(0, 0)]
    rows = np.empty((most, n), dtype=np.int64)
    for row in range(most):
        opened, closed = pairs[0] if row % 4 else pairs[-1]
        kind, dip = int(rng.integers(0, 3)), int(rng.integers(0, 2)) if n > 2 else 0
        first = 2 * int(rng.integers(0, (n - 2 * dip) // 2 + 1))
        rest = n - 2 * dip - first
        word = [*_balanced(first, kind, rng), *([1, 0] * dip), *_balanced(rest, kind, rng)]
        word += [0] * (n - len(word))
        rows[row] = np.where(np.array(word) == 0, opened, closed)
    return rows


def _balanced(length: int, kind: int, rng: Rng) -> list[int]:
    """0 opens and 1 closes: nested, flat or random."""
    half = length // 2
    if kind == 0:
        return [0] * half + [1] * half
    if kind == 1:
        return [0, 1] * half
    steps = rng.permutation([0] * half + [1] * half)
    height = np.cumsum(1 - 2 * steps)
    # Rotated to begin behind its lowest point, it never falls below zero.
    return np.roll(steps, -(int(height.argmin()) + 1)).tolist() if half else []


def shuffled(n: int, k: int, most: int, rng: Rng) -> Letters:
    """Distinct letters: neighbours, evenly spread or random, in order, reversed, two exchanged."""
    chosen = np.sort(rng.random((most, k)).argsort(axis=1)[:, :n], axis=1)
    block = rng.integers(0, k - n + 1, size=most)[:, None] + np.arange(n)
    rows = np.arange(most)
    chosen = np.where((rows % 3 == 0)[:, None], block, chosen)
    chosen = np.where((rows % 2 == 0)[:, None], chosen, chosen[:, ::-1])
    i, j = rng.integers(0, n, size=(2, most))
    swap = rows % 4 < 3
    exchanged = chosen.copy()
    exchanged[rows[swap], i[swap]] = chosen[rows[swap], j[swap]]
    exchanged[rows[swap], j[swap]] = chosen[rows[swap], i[swap]]
    return exchanged


FAMILIES: tuple[Family, ...] = (
    constants, changed_constants, runs, alternating, mirrored, repeated, columns, carries, dips,
)  # fmt: skip


def inputs(frame: Frame, n: int, most: int, rng: Rng) -> Iterator[tuple[str, Letters]]:
    """Each family's name with its inputs of `n` letters, as tokens, none of them twice."""
    sizes = [len(frame.letters[place]) for place in frame.free(n)]
    for family in (shuffled,) if frame.distinct else FAMILIES:
        numbers = np.minimum(family(len(sizes), max(sizes), most, rng), np.array(sizes) - 1)
        tokens = frame.filled(numbers, n)
        yield family.__name__.replace("_", " "), np.unique(tokens, axis=0)[:most]


def neighbours(
    frame: Frame, base: Letters, most: int, rng: Rng
) -> tuple[Letters, Letters, Letters]:
    """Inputs with one letter changed, or two exchanged where letters are distinct.

    Returns:
        The inputs, the row of `base` that each was made of, and the place that was changed.
    """
    n = base.shape[1]
    row = rng.integers(0, len(base), size=most)
    place = rng.integers(0, n, size=most)
    variants = base[row].copy()
    at = np.arange(most)
    for i in range(n):
        letters = np.array(frame.letters[i], dtype=np.int64)
        at_place = place == i
        if not frame.distinct:
            variants[at_place, i] = rng.choice(letters, size=int(at_place.sum()))
            continue
        new = rng.choice(letters, size=int(at_place.sum()))
        clash = (variants[at_place] == new[:, None]) & (np.arange(n) != i)
        own = variants[at_place, i][:, None]
        variants[at_place] = np.where(clash, own, variants[at_place])
        variants[at[at_place], i] = new
    changed = (frame.settled(variants) != base[row]).any(axis=1)
    return variants[changed], row[changed], place[changed]


def _changed(base: Letters, k: int, most: int, rng: Rng) -> Letters:
    """Rows of `base` with one letter changed: all of them, or `most` of them by chance."""
    n = base.shape[1]
    row, place, letter = _picked((len(base), n, k), most, rng)
    variants: Letters = base[row].copy()
    variants[np.arange(len(row)), place] = letter
    return variants


def _picked(sizes: tuple[int, ...], most: int, rng: Rng) -> Letters:
    """All combinations, or `most` of them by chance: `[size combination]`."""
    total = int(np.prod([int(size) for size in sizes], dtype=object))
    chosen = np.arange(total) if total <= most else rng.integers(0, total, size=most)
    return np.array(np.unravel_index(chosen, sizes), dtype=np.int64)
