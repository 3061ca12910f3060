"""Numbers as the findings write them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tsc_interp.interventions.parts import Part
from tsc_interp.output.numbers import number, percent
from tsc_interp.strings import MAX_LETTERS, Alphabet

__all__ = [
    "SCALE", "capital", "grouped", "joined", "n_letters", "number", "occurrences", "of_layer",
    "part_name", "short", "stage",
    "write_mixture", "write_share", "write_strings", "write_vector",
]  # fmt: skip

SCALE = "1 restores the clean string's logit, 0 changes nothing"
"""What the effects of patching mean."""
_ANY = Alphabet(MAX_LETTERS)
Item = TypeVar("Item")


def write_mixture(weights: ArrayLike, letters: Sequence[str]) -> str:
    """`41% a + 59% b`, leaving out what rounds to nothing."""
    shares = zip(np.asarray(weights, dtype=float).tolist(), letters, strict=True)
    return " + ".join(f"{share:.0%} {letter}" for share, letter in shares if share >= 0.005)


def write_vector(values: ArrayLike) -> str:
    """`1.3575`, or `(1.3575, -0.2000)`."""
    numbers = [f"{value:.4f}" for value in np.asarray(values).ravel()]
    return numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})"


def write_strings(strings: Sequence[str], most: int = 4) -> str:
    """`` `aac`, `baac` and 3 more ``."""
    shown = ", ".join(f"`{string}`" for string in strings[:most])
    more = len(strings) - most
    return shown if more <= 0 else f"{shown} and {more} more"


def write_share(share: float) -> str:
    """`97.65%`; what would round to all of it is `over 99.99%`."""
    return percent(share)


def occurrences(string: str) -> dict[str, int]:
    """How often each letter occurs in a string in run-length notation.

    Example:
        >>> occurrences("ab{66}")
        {'a': 1, 'b': 66}
    """
    counts = zip(_ANY.letters, _ANY.counts(string).tolist(), strict=True)
    return {letter: count for letter, count in counts if count}


def n_letters(string: str) -> int:
    """How long a string in run-length notation is.

    Example:
        >>> n_letters("ab{66}")
        67
    """
    return sum(occurrences(string).values())


def joined(names: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def part_name(part: Part, n_layers: int) -> str:
    """`layer 1 head 0`, `neuron 2`, `c's value in head 0`; of a query, key or value its head."""
    where = f"layer {part.layer} " if n_layers > 1 and part.kind not in ("embed", "logit") else ""
    if part.letter is not None:
        return f"{part.letter}'s {part.kind} in {where}head {part.index}"
    if part.index is None:
        return where + {"mlp": "MLP", "embed": "embedding"}.get(part.kind, part.kind)
    return f"{where}{'neuron' if part.kind == 'neuron' else 'head'} {part.index}"


def stage(part: Part, n_layers: int) -> int:
    """The column of a part in a graph, from the embedding on the left to the logit."""
    if part.kind in ("embed", "logit"):
        return 0 if part.kind == "embed" else 2 * n_layers + 1
    return 2 * part.layer + (2 if part.kind in ("mlp", "neuron") else 1)


def short(name: str) -> str:
    """`L1 head 0` of `layer 1 head 0`, for graphs."""
    return name.replace("layer ", "L")


def of_layer(title: str, layer: str, layers: Sequence[str]) -> str:
    """A title, with the layer it is about where there are several."""
    return title if len(layers) == 1 else f"{title}, layer {layer}"


def grouped(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    """Items with equal keys together, in the order in which the keys first occur."""
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
