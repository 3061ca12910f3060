"""A task given as a plain function of tokens, which is how people label their data.

    def label(tokens):                      # one input: a list of the model's own token ids
        return (tokens[0] + tokens[1]) % 113        # None: no opinion on this input

    def label(rows):                        # or many inputs at once, [row, position]
        return (rows[:, 0] + rows[:, 1]) % 113

A function is read off once into a table (`Listed`) where its inputs are few, and from then on it is
data: a checkpoint keeps the table and not the function's name. Where they are many, the function is
asked about samples, and what decides every input says that it needs a table.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from math import prod
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from tsc_interp.errors import UsageError, shorten
from tsc_interp.frames.frame import Frame
from tsc_interp.strings import LETTERS, Counts
from tsc_interp.tasks.audit import every_short_string
from tsc_interp.tasks.base import Classes, LetterIndex, OwnTask, Task, Whole, given_task
from tsc_interp.tasks.layers import MOST_STATES, tabulated
from tsc_interp.tasks.trellis import Index, Trellis

Function = Callable[[Any], Any]
Rows = Callable[[Index], Index]
"""Letters `[string, position]` of one length as rows of the model's tokens."""
MOST_LISTED = MOST_STATES
"""Inputs of a function that is read off into a table."""
_SAMPLE = 512
_TOKENS_AT_ONCE = 2**22


def is_function(given: object) -> bool:
    return callable(given) and not isinstance(given, Task | type)


class Labels:
    """A function as classes `[row read]` of token rows; -1 where it has no opinion.

    Whether it takes one input or many rows is found out on a few of them: what it says of many rows
    must be what it says of each alone, or it takes one input.
    """

    def __init__(self, function: Function, rows: Index, reads: int = 1) -> None:
        self.function, self.reads = function, reads
        name = getattr(function, "__name__", type(function).__name__).replace("_", " ")
        self.name = "your function" if name == "<lambda>" else f"your function {name}"
        # As many rows as there are neither positions nor answers: no other axis looks like rows.
        count = next(n for n in (3, 4, 5) if n not in (rows.shape[1], reads))
        tried = rows[np.linspace(0, len(rows) - 1, count).round().astype(int)]
        self._form = next((form for form in _FORMS if self._fits(form, tried)), None)
        if self._form is None:
            self._complain(tried[0])

    def __call__(self, rows: Index) -> Classes:
        """The classes of rows of one length."""
        assert self._form is not None
        try:
            found = _classes(self._form(self.function, rows), len(rows))
        except Exception as error:
            raise UsageError(
                f"{self.name} raised {type(error).__name__} for inputs of {rows.shape[1]} tokens, "
                f"such as {shorten(rows[0].tolist())}: {shorten(str(error))}"
            ) from error
        if found is None or found.shape[1] != self.reads:
            raise UsageError(
                f"{self.name} must return a whole number from 0, True, False or None for each of "
                f"{len(rows)} inputs ({self.reads} of them for {self.reads} positions read)"
            )
        return found

    def _fits(self, form: Callable[[Function, Index], Any], rows: Index) -> bool:
        try:
            together = _classes(form(self.function, rows), len(rows))
            if together is None or together.shape[1] != self.reads:
                return False
            alone = [_classes(form(self.function, rows[i : i + 1]), 1) for i in range(len(rows))]
        except Exception:  # a form that it was not written for may fail in any way
            return False
        return all(
            one is not None and (one[0] == row).all()
            for one, row in zip(alone, together, strict=True)
        )

    def _complain(self, row: Index) -> None:
        said = []
        for what, given in (("rows", _tensor(row[None])), ("one input", row.tolist())):
            try:
                said.append(f"of {what} it returned {shorten(self.function(given))}")
            except Exception as error:
                said.append(f"of {what} it raised {type(error).__name__}: {shorten(str(error))}")
        raise UsageError(
            "a label is a function of one input's tokens that returns a class, which is a whole "
            "number from 0, True, False or None (or one for each position read), or of token rows "
            f"[row, position] that returns classes; this is {self.name}: {', and '.join(said)}"
        )


def _tensor(rows: Index) -> Any:
    import torch

    return torch.from_numpy(rows)


_FORMS: tuple[Callable[[Function, Index], Any], ...] = (
    lambda function, rows: function(_tensor(rows)),
    lambda function, rows: function(rows),
    lambda function, rows: [function(row) for row in rows.tolist()],
    lambda function, rows: [function(row) for row in rows],
)


def _classes(returned: Any, count: int) -> Classes | None:
    """What a function returned as classes `[row read]`; None where it is no such thing."""
    if hasattr(returned, "detach"):  # a tensor
        returned = returned.detach().cpu().numpy()
    try:
        found = np.asarray(returned)
    except ValueError:  # rows of different lengths
        return None
    if found.dtype == object:  # None: no opinion
        flat = [-1 if one is None else one for one in found.reshape(-1).tolist()]
        if not all(isinstance(one, int | np.integer | np.bool_) for one in flat):
            return None
        found = np.array(flat, dtype=np.int64).reshape(found.shape)
    elif found.dtype.kind in "iu" and found.size and int(found.min()) < 0:
        return None  # -1 stands for None, and nobody says it by mistake
    if found.dtype.kind not in "iub" or found.shape[:1] != (count,) or found.ndim > 2:
        return None
    return found.astype(np.int64).reshape(count, -1)


class Listed(Task, shipped=True):
    """The label of every input, written out: a function that was read off.

    Args:
        letters: The letters that may stand at each place of the longest input.
        shortest: Letters of the shortest input.
        table: Labels of all strings over these letters, the shortest first, in dictionary order;
            -1 for none. As `Listed.packed` makes it.
        name: What the task is called.

    Example:
        >>> same = Listed(letters=((0, 1), (0, 1)), shortest=2, table=Listed.packed([1, 0, 0, 1]))
        >>> same.labels(np.array([[0, 0], [1, 0]])).tolist()
        [1, 0]
    """

    ordered: ClassVar[bool] = True

    kind: Literal["listed"] = "listed"
    letters: tuple[tuple[LetterIndex, ...], ...] = Field(min_length=1)
    shortest: Whole = Field(ge=1)
    table: str
    name: str = "a table of labels"

    @staticmethod
    def packed(labels: ArrayLike) -> str:
        """Return labels as text."""
        content = np.asarray(labels, dtype="<i4").tobytes()
        return base64.b64encode(zlib.compress(content, 9)).decode()

    @property
    def _tables(self) -> dict[int, Index]:
        """Of each length, `[string]`."""
        sizes = tuple(prod(map(len, self.letters[:n])) for n in self._lengths)
        return dict(zip(self._lengths, _unpacked(self.table, sizes), strict=True))

    @property
    def _lengths(self) -> range:
        return range(self.shortest, len(self.letters) + 1)

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        strings = [prod(map(len, self.letters[:n])) for n in self._lengths]
        if not 0 < sum(strings) <= MOST_LISTED:
            raise ValueError(f"a table has labels of up to {MOST_LISTED:,} strings, and of one")
        if any(list(own) != sorted(set(own)) or not own for own in self.letters):
            raise ValueError("the letters of a place are different and ascend")
        if min(int(labels.min()) for labels in self._tables.values()) < -1:
            raise ValueError("labels are 0 or more, or -1 for none")
        return self

    @property
    def needs(self) -> str:
        return LETTERS[: 1 + max(map(max, self.letters))]

    @property
    def partial(self) -> bool:
        return True  # of other lengths it says nothing

    def n_classes(self, n_letters: int) -> int:
        return max(2, 1 + max(int(labels.max()) for labels in self._tables.values()))

    def labels(self, letters: Classes) -> Classes:
        """The label of each string; -1 where there is none."""
        found = np.full(len(letters), -1, dtype=np.int64)
        sizes = (letters >= 0).sum(1)
        for length in np.intersect1d(sizes, self._lengths).tolist():
            rows = np.flatnonzero(sizes == length)
            at = np.zeros(len(rows), dtype=np.int64)
            known = np.ones(len(rows), dtype=bool)
            for place, own in enumerate(self.letters[:length]):
                index = np.searchsorted(own, letters[rows, place])
                index = np.minimum(index, len(own) - 1)
                known &= np.array(own)[index] == letters[rows, place]
                at = at * len(own) + index
            found[rows] = np.where(known, self._tables[length][at], -1)
        return found

    def trellis(self, n_letters: int, length: int) -> Trellis:
        """Return the strings of one length that have a label."""
        if length not in self._tables:
            raise UsageError(f"{self.name} has no labels of {length} letters")
        return tabulated(self.letters[:length], self._tables[length])

    def describe(self) -> str:
        return self.name


@lru_cache(maxsize=64)
def _unpacked(table: str, sizes: tuple[int, ...]) -> list[Index]:
    """The tables of these sizes in a text; text that stands for more is not unpacked."""
    room = 4 * sum(sizes)
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(table, validate=True), room + 1)
    except (ValueError, zlib.error):
        content = b""
    if len(content) != room:
        raise ValueError(f"a table of {room // 4:,} labels was expected")
    return np.split(np.frombuffer(content, "<i4").astype(np.int64), np.cumsum(sizes)[:-1])


def as_task(
    given: object,
    rows: Rows,
    n_letters: int,
    *,
    n_classes: int,
    ordered: bool,
    layout: Frame | None = None,
    longest: int | None = None,
) -> Any:
    """The task somebody gave: one of `tsc.tasks`, its name, or a function of tokens.

    Args:
        given: The task or the function.
        rows: Turns letters into what the function gets.
        n_letters: The size of the alphabet.
        n_classes: The number of the model's answers.
        ordered: Whether the model sees the order of letters. A function for a model that does not
            must give all strings with equal letter counts one class.
        layout: What inputs look like, letters by index.
        longest: The letters of the longest input, if there is a longest one and no layout.

    Raises:
        UsageError: It is no task, or depends on an order that the model cannot see.
    """
    if not is_function(given):
        return given_task(given)
    known = layout
    if layout is None:
        layout = Frame(places=range(1, 1 + (longest or 2)), letters=range(n_letters))
        known = layout if longest else None
    rng = np.random.default_rng(0)
    drawn = [layout.sample(_SAMPLE, rng, n) for n in (layout.lengths[-1], layout.lengths[0])]
    labels = Labels(cast(Function, given), rows(drawn[0]))
    if not ordered:
        _require_no_order(labels, rows, n_letters)
    elif known is not None and _strings(known) <= MOST_LISTED:
        return _listed(labels, rows, known)
    return _sampled(labels, rows, n_classes, ordered, [labels(rows(some)) for some in drawn])


def _strings(layout: Frame) -> int:
    """All strings over the letters of its places, also those that are no inputs."""
    return sum(prod(map(len, layout.letters[:n])) for n in layout.lengths)


def _listed(labels: Labels, rows: Rows, layout: Frame) -> Listed:
    """The table of a function."""
    letters = tuple(tuple(sorted(own)) for own in layout.letters)
    every = []
    for n in layout.lengths:
        words = np.stack(np.meshgrid(*letters[:n], indexing="ij"), -1).reshape(-1, n)
        classes = np.full(len(words), -1, dtype=np.int64)
        inside = np.flatnonzero(layout.allows(words))
        for some in np.array_split(inside, 1 + len(inside) * n // _TOKENS_AT_ONCE):
            classes[some] = labels(rows(words[some]))[:, 0] if len(some) else -1
        every.append(classes)
    table = np.concatenate(every)
    if (table < 0).all():
        raise UsageError(f"{labels.name} has no opinion on any of {len(table):,} inputs")
    return Listed(
        letters=letters, shortest=layout.lengths[0], table=Listed.packed(table), name=labels.name
    )


def _sampled(
    labels: Labels, rows: Rows, most_classes: int, sees_order: bool, known: Sequence[Classes]
) -> OwnTask:
    """A task that asks the function; its kind names some of its labels, not only the function."""
    if not sees_order and any((classes < 0).any() for classes in known):
        raise UsageError(
            f"{labels.name} has no opinion on some inputs: this model sees letter counts alone, "
            "and a task for it labels every string"
        )
    name = f"{labels.name} {sha256(b''.join(map(bytes, known))).hexdigest()[:12]}"

    class OfFunction(OwnTask):
        ordered: ClassVar[bool] = sees_order

        kind: Literal[name] = name  # type: ignore[valid-type]

        @property
        def partial(self) -> bool:
            return sees_order

        def n_classes(self, n_letters: int) -> int:
            return most_classes

        def labels(self, counts: Counts) -> Classes:
            """Of letters that end with -1, or of counts, for which any order stands."""
            flat = counts.reshape(-1, counts.shape[-1])
            lengths = (flat >= 0).sum(1) if sees_order else flat.sum(1)
            classes = np.zeros(len(flat), dtype=np.int64)
            for length in np.unique(lengths).tolist():
                which = np.flatnonzero(lengths == length)
                for some in np.array_split(which, 1 + len(which) * length // _TOKENS_AT_ONCE):
                    letters = flat[some, :length] if sees_order else _in_order(flat[some])
                    classes[some] = labels(rows(letters))[:, 0]
            return classes if sees_order else classes.reshape(counts.shape[:-1])

        def describe(self) -> str:
            return labels.name

    return OfFunction()


def _in_order(counts: Counts) -> Classes:
    """The strings with these counts that have their letters in alphabetical order."""
    letters = np.tile(np.arange(counts.shape[1]), len(counts))
    return np.repeat(letters, counts.reshape(-1)).reshape(len(counts), -1)


def _require_no_order(labels: Labels, rows: Rows, n_letters: int) -> None:
    strings = every_short_string(n_letters)
    for length in range(2, strings.shape[1] + 1):
        letters = strings[(strings >= 0).sum(1) == length, :length]
        if not len(letters):
            continue
        differ = (labels(rows(letters)) != labels(rows(np.sort(letters, axis=1))))[:, 0]
        if differ.any():
            row = letters[differ][:1]
            one, other = (rows(r)[0].tolist() for r in (row, np.sort(row)))
            raise UsageError(
                f"{labels.name} gives the rows {shorten(one)} and {shorten(other)} different "
                "classes, but this model does not see the order of letters: it answers both alike"
            )
