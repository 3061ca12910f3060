"""Families of strings such as `ab{n}`: one letter's count grows, and at some n the model flips.

Measured: every n up to `EVERY` is evaluated on the model itself (float32), so a first error there
is the first. Beyond that n grows in steps of 1% up to a cap, and the step in which an error first
shows is searched again and again in 1000 parts, down to single n: an error that comes and goes
within one step would be missed.

Predicted, for one layer without positions, from each head's score and value per letter alone:
weight_t = m_t exp(s_t) / sum_i m_i exp(s_i) gives the head values for real n, which are put into
the model at `hook_z`; the first crossing of the logit is refined over real n in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from einops import einsum
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from tsc_interp.config import ClassifierConfig
from tsc_interp.probes.attention import Layer
from tsc_interp.probes.inputs import Floats, as_array, compact, logits_of, score_factor
from tsc_interp.probes.margin.result import EVERY, Family

CAP = 10**6
LIMIT = 10**9
"""The count that stands for "without end" (the largest a string can have)."""
PARTS = 1000
LONG, LETTERS = 10, 8

Wrong = Callable[[Floats], NDArray[np.bool_]]


def families(config: ClassifierConfig, strings: Sequence[str], most: int = 4) -> list[Family]:
    """For each letter: every letter the task names once, that letter n times. Then the strings'.

    A given string with `LONG` or more of a letter makes a family of its most frequent one.
    """
    alphabet = config.alphabet
    needs = config.task.needs
    needed = alphabet.counts(needs) if needs else np.zeros(alphabet.size, dtype=np.int64)
    made = [_family(config, needed, letter) for letter in varied_letters(config)]
    for string in strings:
        counts = alphabet.counts(string)
        if np.count_nonzero(counts) > 1 and counts.max() >= LONG:
            made.append(_family(config, counts, alphabet.letters[int(counts.argmax())]))
    unique: dict[str, Family] = {}
    for family in made:
        unique.setdefault(family.name, family)
    return list(unique.values())[: len(varied_letters(config)) + most]


def varied_letters(config: ClassifierConfig) -> str:
    """The letters that get a family of their own: those the task names first, at most `LETTERS`."""
    named = sorted(config.alphabet.letters, key=lambda letter: letter not in config.task.needs)
    return "".join(sorted(named[:LETTERS]))


def _family(config: ClassifierConfig, counts: NDArray[np.int64], letter: str) -> Family:
    alphabet = config.alphabet
    at = alphabet.index(letter)
    fixed = counts.copy()
    fixed[at] = 0
    name = "".join(
        f"{symbol}{{n}}" if symbol == letter else _run(symbol, int(count))
        for symbol, count in zip(alphabet.letters, fixed, strict=True)
        if count or symbol == letter
    )
    places = config.n_positions - int(config.has_cls)
    room = places - int(fixed.sum()) if config.has_positions else CAP
    return Family(name=name, letter=letter, counts=tuple(counts.tolist()), cap=min(CAP, room))


def _run(letter: str, count: int) -> str:
    return letter if count == 1 else f"{letter}{{{count}}}"


# -- evaluating ------------------------------------------------------------------------------


def counts_of(config: ClassifierConfig, family: Family, n: ArrayLike) -> Floats:
    """`[len(n), letter]`."""
    n = np.asarray(n, dtype=np.float64)
    counts = np.tile(np.array(family.counts, dtype=np.float64), (len(n), 1))
    counts[:, config.alphabet.index(family.letter)] = n
    return counts


def first_error(model: Any, family: Family) -> int | None:
    """The first n whose prediction is wrong; see the module's words on what is guaranteed."""
    config: ClassifierConfig = model.config

    def wrong(n: Floats) -> NDArray[np.bool_]:
        counts = counts_of(config, family, n)
        positive = logits_of(model, counts) > 0
        return np.asarray(positive != config.task.labels(counts.astype(np.int64)))

    every = np.arange(1.0, min(EVERY, family.cap) + 1)
    hits = np.flatnonzero(wrong(every))
    if len(hits):
        return int(every[hits[0]])
    if family.cap <= EVERY:
        return None
    count = int(np.ceil(np.log(family.cap / EVERY) / np.log(1.01)))
    steps = np.geomspace(EVERY, family.cap, 1 + count)
    bracket = _first(wrong, steps.round())
    while bracket is not None and bracket[1] - bracket[0] > 1:
        bracket = _first(wrong, np.unique(np.linspace(*bracket, PARTS + 1).round()))
    return None if bracket is None else int(bracket[1])


def _first(wrong: Wrong, grid: Floats) -> tuple[float, float] | None:
    """The first grid point that is wrong, and the one before it, which is right."""
    hits = np.flatnonzero(wrong(grid))
    return (float(grid[max(hits[0] - 1, 0)]), float(grid[hits[0]])) if len(hits) else None


def predicted_error(model: Any, layer: Layer, tokens: Sequence[str], family: Family) -> int | None:
    """The first n at which the logit that scores and values give is on the wrong side."""
    config: ClassifierConfig = model.config
    counts = zip(config.alphabet.letters, family.counts, strict=True)
    support = frozenset(letter for letter, count in counts if count or letter == family.letter)
    label = config.task.label_of_support(support)
    if label is None:
        return None

    def wrong(n: Floats) -> NDArray[np.bool_]:
        values = head_values(config, layer, tokens, counts_of(config, family, n))
        return np.asarray((logits_of_values(model, values) > 0) != label)

    bracket = _first(wrong, np.geomspace(1, family.cap, PARTS + 1))
    while bracket is not None and bracket[1] - bracket[0] > 1e-6 * bracket[1]:
        bracket = _first(wrong, np.linspace(*bracket, PARTS + 1))
    return None if bracket is None else int(np.ceil(bracket[1] - 1e-3))


def head_values(
    config: ClassifierConfig, layer: Layer, tokens: Sequence[str], counts: Floats
) -> Floats:
    """`[batch head d_head]`: softmax of score + log count, times values, in float64."""
    # CLS, where it is attended to, is a token that always occurs once.
    columns = [
        counts[:, config.alphabet.index(token)] if token != "CLS" else np.ones(len(counts))
        for token in tokens
    ]
    factor = score_factor(config, counts.sum(axis=1))
    with np.errstate(divide="ignore"):
        logits = layer.scores * factor[:, None, None] + np.log(np.stack(columns, 1))[:, None, :]
    weights = softmax(logits, axis=-1)
    return einsum(weights, layer.values, "batch head token, head token d_head -> batch head d_head")


def logits_of_values(model: Any, values: Floats) -> Floats:
    """The logit if CLS received these head values, through the model's own hook."""
    import torch

    replacement = torch.from_numpy(values)

    def replace(z: torch.Tensor, hook: Any) -> torch.Tensor:
        z[:, 0] = replacement.to(z.dtype)
        return z

    # Which string is run does not matter: all that CLS receives from it is replaced.
    counts = np.zeros((len(values), model.config.n_letters))
    counts[:, 0] = 1
    given = compact(model.config, counts)
    with torch.no_grad():
        return as_array(model.run_with_hooks(given, fwd_hooks=[("blocks.0.attn.hook_z", replace)]))
