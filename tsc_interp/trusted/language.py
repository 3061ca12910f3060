"""Which label an input has: a rule on letter counts, or a table.

A rule names letters by index:

    {"rule": "contains_all", "letters": [0, 1]}     {"rule": "at_least", "letter": 0, "k": 2}
    {"rule": "majority", "letter": 0}               {"rule": "parity", "letter": 0, "odd": true}
    {"rule": "most_frequent"}                       {"rule": "maximum"}
    {"rule": "listed", "supports": [[[0, 1], 1], ...], "inputs": [[[3, 0, 1], 0], ...]}

The last is any other rule, written out: a label for every support whose strings share one, and of
other supports the labels of single count vectors. A table is a trellis (table.py) whose paths are
the inputs; its numbers are packed (`packed`).
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tsc_interp.trusted.errors import NotProved, require
from tsc_interp.trusted.table import Index, Stage, Trellis

MAX_EDGES = 5_000_000
MAX_LENGTH = 1000
Support = tuple[int, ...]

_FIELDS = {
    "contains_all": {"letters"}, "at_least": {"letter", "k"}, "majority": {"letter"},
    "parity": {"letter", "odd"}, "most_frequent": set(), "maximum": set(),
    "listed": {"supports", "inputs"},
}  # fmt: skip


class Rule:
    """Labels of count vectors, and of boxes of them."""

    def __init__(self, data: Mapping[str, Any], n_letters: int) -> None:
        self.kind, self.n_letters = data["rule"], n_letters
        require(self.kind in _FIELDS, f"{self.kind!r} is no rule on counts")
        require(set(data) == {"rule"} | _FIELDS[self.kind], f"a {self.kind} rule of other fields")
        self._letters = set(support_of(data.get("letters", [0]), n_letters))
        self._letter = whole(data.get("letter", 0), n_letters)
        self._k = whole(data.get("k", 1))
        self._odd = data.get("odd", True)
        require(type(self._odd) is bool, "odd is true or false")
        self._supports: dict[Support, int] = {}
        self._inputs: dict[tuple[int, ...], int] = {}
        for letters, label in data.get("supports", ()):
            support = support_of(letters, n_letters)
            require(support not in self._supports, "a support is listed twice")
            self._supports[support] = whole(label)
        for counts, label in data.get("inputs", ()):
            vector = tuple(whole(n) for n in counts)
            support = tuple(i for i, n in enumerate(vector) if n)
            fits = len(vector) == n_letters and bool(support) and vector not in self._inputs
            require(fits, "an input is listed wrongly, or twice")
            shared = self._supports.get(support, label)
            require(shared == label, "an input contradicts the label of its support")
            self._inputs[vector] = whole(label)

    def of_support(self, support: Support) -> int | None:
        """The label that all strings over exactly these letters share, or None."""
        kind, letter = self.kind, self._letter
        if kind == "contains_all":
            return int(self._letters <= set(support))
        if kind == "maximum":
            return max(support)
        if kind == "most_frequent":
            return support[0] if len(support) == 1 else None
        if kind == "listed":
            return self._supports.get(support)
        if letter not in support:
            return int(kind == "parity" and not self._odd)
        return 1 if kind == "majority" and len(support) == 1 else None

    def of_box(self, support: Support, low: Sequence[int], high: Sequence[int]) -> int | None:
        """The label of every count vector from `low` to `high`, or None if it may differ."""
        shared = self.of_support(support)
        if shared is not None:
            return shared
        if self.kind == "most_frequent":
            return _leader(support, low, high)
        if self.kind == "listed":
            return self._inputs.get(self._full(support, low)) if list(low) == list(high) else None
        column = support.index(self._letter)
        if self.kind == "parity":
            return int((low[column] % 2 == 1) == self._odd) if low[column] == high[column] else None
        if self.kind == "at_least":
            ends = {low[column] >= self._k, high[column] >= self._k}
        else:
            others = sum(low) - low[column], sum(high) - high[column]
            ends = {low[column] > others[1], high[column] > others[0]}
        return int(ends.pop()) if len(ends) == 1 else None

    def _full(self, support: Support, counts: Sequence[int]) -> tuple[int, ...]:
        full = [0] * self.n_letters
        for letter, count in zip(support, counts, strict=True):
            full[letter] = count
        return tuple(full)


def _leader(support: Support, low: Sequence[int], high: Sequence[int]) -> int | None:
    """The letter that occurs most often throughout a box, ties going to the earlier one."""
    for i, letter in enumerate(support):
        others = (j for j in range(len(support)) if j != i)
        if all(low[i] > high[j] if j < i else low[i] >= high[j] for j in others):
            return letter
    return None


def read_table(data: Mapping[str, Any], n_letters: int, n_classes: int) -> Trellis:
    """A table of a document, audited: every path is another input, of letters that exist."""
    fields = {"name", "length", "fixed", "stages", "label_stage", "labels"}
    require(set(data) == fields, f"a table has the fields {sorted(fields)}")
    length = whole(data["length"], MAX_LENGTH + 1)
    fixed = tuple((whole(at, length), whole(x, n_letters)) for at, x in data["fixed"])
    stages, left = [], MAX_EDGES
    for stage in data["stages"]:
        require(set(stage) == {"places", "edges"}, "a stage has places and edges")
        places = tuple(whole(place, length) for place in stage["places"])
        rows = unpacked(stage["edges"], 2 + len(places), left)
        left -= len(rows)
        letters = rows[:, 2:]
        known = not letters.size or (letters.min() >= 0 and letters.max() < n_letters)
        require(bool(known), "a letter that does not exist")
        stages.append(Stage(places, rows[:, 0], rows[:, 1], letters))
    at = whole(data["label_stage"], len(stages))
    labels = unpacked(data["labels"], 1, len(stages[at]))[:, 0]
    require(len(labels) > 0 and labels.min() >= 0, "labels are numbers from 0")
    require(int(labels.max()) < n_classes, "a class the model has no output for")
    return Trellis(length, fixed, tuple(stages), at, labels)


def written_table(table: Trellis, name: Mapping[str, int]) -> dict[str, Any]:
    """A table as a document has it."""
    stages = [
        {
            "places": list(stage.places),
            "edges": packed(np.column_stack([stage.source, stage.target, stage.letters])),
        }
        for stage in table.stages
    ]
    return {
        "name": dict(name),
        "length": table.length,
        "fixed": [list(map(int, pair)) for pair in table.fixed],
        "stages": stages,
        "label_stage": table.label_stage,
        "labels": packed(table.label[:, None]),
    }


def packed(rows: Index) -> str:
    """Whole numbers below 2^31 as text."""
    return deflated(rows.astype("<i4").tobytes())


def unpacked(text: Any, columns: int, most: int) -> Index:
    """The rows again, at most so many."""
    content = inflated(text, 4 * columns * most)
    require(len(content) % (4 * columns) == 0, "packed numbers of another shape")
    return np.frombuffer(content, dtype="<i4").reshape(-1, columns).astype(np.int64)


def deflated(content: bytes) -> str:
    """Bytes as text."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def inflated(text: Any, most: int) -> bytes:
    """The bytes behind packed text, at most so many."""
    require(isinstance(text, str), "packed numbers are text")
    try:
        unzip = zlib.decompressobj()
        content = unzip.decompress(base64.b64decode(text, validate=True), most + 1)
    except (binascii.Error, zlib.error):
        raise NotProved("packed numbers cannot be read") from None
    whole_text = len(content) <= most and unzip.eof and not unzip.unused_data
    require(whole_text, "packed numbers are longer than they may be")
    return content


def support_of(letters: Any, n_letters: int) -> Support:
    """A set of letters, in their order."""
    support = tuple(whole(letter, n_letters) for letter in letters)
    ordered = bool(support) and list(support) == sorted(set(support))
    require(ordered, f"{letters!r} is not a set of letters")
    return support


def whole(value: Any, below: int = 10**12 + 1) -> int:
    """A whole number from 0."""
    require(type(value) is int and 0 <= value < below, f"{value!r} is not a whole number in range")
    return int(value)
