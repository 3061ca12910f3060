"""`tsc.Frame`: which rows of tokens are inputs of a model, and where it answers.

    tsc.Frame(before=[31], places=20, letters=range(31), after=[32], read=-1)
    tsc.Frame.parse("[START] x{20} [END]; x=0..30; START=31; END=32")

are the same frame. It counts its inputs, samples them, lists them in order, builds rows of tokens
and says whether a row belongs to it. An input is known by its letters, the tokens at its places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from tsc_interp.errors import UsageError, shorten
from tsc_interp.frames import notation
from tsc_interp.frozen import FrozenConfig

Letters = NDArray[np.int64]
"""`[input place]`: token ids."""
BATCH = 65_536
_LISTED = 2**62
_MOST_WRITTEN = 10


class Frame(FrozenConfig):
    """The format of a model's inputs: fixed tokens, places for letters, and the position read.

    Args:
        before: Fixed tokens in front.
        places: The number of letters, or a range for several lengths.
        letters: The token ids that are allowed at a place; or one such set for each place.
        between: Fixed tokens inside: `{4: [10]}` puts token 10 after the fourth letter.
        after: Fixed tokens at the end.
        read: The position, or positions, of a row whose output is the answer; -1 is the last.
        writes: The number of tokens that the model writes, if it writes its answer. The answer is
            then read at the last token of the frame and at all but the last written token.
        classes: The output that stands for class 0, 1, ...; by default output 0, 1, ...
        equal: Places that repeat an earlier one, counted from 1: `{4: 1, 5: 2}` for ABCAB. The
            letter there is no choice, so it is not counted and never drawn.
        distinct: Whether no letter may occur twice, apart from places that repeat one.
        names: The names of tokens, by id.
        name: The name of the frame.

    Example:
        >>> frame = Frame(before=[31], places=20, letters=range(31), after=[32])
        >>> str(frame)
        '[31] x{20} [32]; x=0..30'
        >>> frame.count() == 31**20
        True
        >>> Frame.parse("d x [+] d x; d=1..2; x=0..9; +=10").rows([[1, 2, 2, 0]]).tolist()
        [[1, 2, 10, 2, 0]]
    """

    before: tuple[int, ...] = ()
    places: tuple[int, int]
    letters: tuple[tuple[int, ...], ...]
    between: dict[int, tuple[int, ...]] = Field(default_factory=dict)
    after: tuple[int, ...] = ()
    read: tuple[int, ...] = (-1,)
    writes: int = Field(default=0, ge=0)
    classes: tuple[int, ...] | None = None
    equal: tuple[tuple[int, int], ...] = ()
    distinct: bool = False
    names: dict[int, str] = Field(default_factory=dict)
    name: str = ""

    def __init__(self, /, **given: Any) -> None:
        super().__init__(**_as_data(given))

    @model_validator(mode="after")
    def _fits(self) -> Self:
        low, high = self.places
        if not 0 <= low <= high or high < 1 or len(self.letters) != high:
            raise ValueError(f"places from {low} to {high}, and letters for {len(self.letters)}")
        tokens = [*self.before, *self.after, *(t for run in self.between.values() for t in run)]
        if min([*tokens, *(min(letters, default=-1) for letters in self.letters)]) < 0:
            raise ValueError("tokens are numbers from 0 on, and every place has a letter or more")
        if any(len(set(letters)) < len(letters) for letters in self.letters):
            raise ValueError("a token is given twice among the letters of a place")
        if len(set(self.letters[min(low, high - 1) :])) > 1:
            raise ValueError("the places that may be missing share one set of letters")
        if any(not 0 < at <= low for at in self.between):
            raise ValueError("tokens between letters stand behind a letter that every input has")
        if self.distinct and len(set(self.letters)) > 1:
            raise ValueError("distinct letters are of one set, the same at every place")
        repeated = [place for place, _ in self.equal]
        for place, earlier in self.equal:
            if not 0 < earlier < place <= low or earlier in repeated:
                raise ValueError(
                    f"place {place} cannot repeat place {earlier}: a place repeats an earlier one "
                    "that repeats none, and both are in every input"
                )
            if set(self.letters[place - 1]) != set(self.letters[earlier - 1]):
                raise ValueError(f"places {earlier} and {place} have different letters")
        if len(set(repeated)) < len(repeated):
            raise ValueError("a place repeats one other place")
        if self.distinct and len(self.letters[0]) < high - len(repeated):
            raise ValueError(f"{high - len(repeated)} distinct letters of {len(self.letters[0])}")
        if not self.read or len(set(self.names.values())) < len(self.names):
            raise ValueError("a frame reads one position or more, and names no two tokens alike")
        if not all(self.names.values()):
            raise ValueError("a token's name has a character or more")
        if self.writes and self.read != (-1,):
            raise ValueError("what a model writes is read from the last token on: leave out read")
        return self

    @classmethod
    def parse(cls, text: str, *, names: Mapping[int, str] | None = None, **more: Any) -> Self:
        """Read a frame from its notation.

        Args:
            text: `"[START] x{20} [END]; x=0..30; START=31; END=32"`, see the how-to "Falsify".
            names: The names of tokens, by id, besides those that the text defines.
            more: Further options of a frame; `letters` is used for sets that the text lacks.

        Raises:
            UsageError: The text cannot be read; the message shows where it fails.
        """
        fields = notation.parse(text, names or {})
        usual = more.pop("letters", None)
        if None in fields["letters"]:
            if usual is None:
                raise UsageError(
                    "the frame does not say which letters its places have; add x=0..9 to it, or "
                    "give letters="
                )
            chosen = tuple(usual)
            fields["letters"] = [chosen if own is None else own for own in fields["letters"]]
        return cls(**{**fields, **more})

    @classmethod
    def of(cls, given: object, *, names: Mapping[int, str] | None = None) -> Self:
        """Return a frame given as it is or in its notation.

        Raises:
            UsageError: It is neither.
        """
        if isinstance(given, str):
            return cls.parse(given, names=names)
        if isinstance(given, cls):
            return given
        raise UsageError(f"frame is a tsc.Frame or its notation, got {shorten(given)}")

    def __str__(self) -> str:
        return notation.write(dict(self))

    def __repr__(self) -> str:
        return f"<Frame {self}>"

    def _repr_html_(self) -> str:
        import html

        return f"<code>{html.escape(str(self))}</code> ({self.count():,} inputs)"

    @property
    def lengths(self) -> range:
        """The numbers of letters that an input may have."""
        return range(max(self.places[0], 1), self.places[1] + 1)

    def length(self, letters: int) -> int:
        """Return the number of tokens of a row with so many letters, before the model writes."""
        inside = sum(map(len, self.between.values()))
        return len(self.before) + inside + len(self.after) + letters

    def reads(self, letters: int) -> tuple[int, ...]:
        """Return the positions read in a row with so many letters, counted from its start."""
        size = self.length(letters)
        if self.writes:
            return tuple(range(size - 1, size - 1 + self.writes))
        if not all(-size <= position < size for position in self.read):
            raise UsageError(
                f"the frame reads positions {notation.spans(self.read)}, and a row of {letters} "
                f"letters has {size} tokens"
            )
        return tuple(position % size for position in self.read)

    @property
    def fixed(self) -> tuple[int, ...]:
        """The fixed tokens, in their order."""
        inside = [token for run in self.between.values() for token in run]
        return (*self.before, *inside, *self.after)

    @property
    def alphabet(self) -> tuple[int, ...]:
        """The letters of all places, which are a, b, c, ... of a task; sorted if places differ."""
        if len(set(self.letters)) == 1:
            return self.letters[0]
        return tuple(sorted({letter for letters in self.letters for letter in letters}))

    @property
    def tokens(self) -> tuple[int, ...]:
        """Every token once: the letters, then the other fixed tokens, sorted."""
        return (*self.alphabet, *sorted({*self.fixed} - {*self.alphabet}))

    # -- inputs --------------------------------------------------------------------------------

    def count(self, letters: int | None = None) -> int:
        """Return the number of inputs, of all lengths or with so many letters."""
        if letters is None:
            return sum(self.count(length) for length in self.lengths)
        if letters not in self.lengths:
            return 0
        sizes = [len(self.letters[place]) for place in self.free(letters)]
        return math.perm(sizes[0], len(sizes)) if self.distinct else math.prod(sizes)

    def free(self, letters: int) -> list[int]:
        """Return the places of so many letters that repeat no other, counted from 0."""
        repeated = {place - 1 for place, _ in self.equal}
        return [place for place in range(letters) if place not in repeated]

    def listed(self, letters: int, start: int, stop: int) -> Letters:
        """Return inputs `start` to `stop` of those with so many letters, in dictionary order."""
        if not 0 <= start <= stop <= self.count(letters) or stop > _LISTED:
            raise UsageError(f"inputs {start} to {stop} of {self.count(letters)} cannot be listed")
        rest = np.arange(start, stop, dtype=np.int64)
        free = self.free(letters)
        chosen = np.empty((len(rest), len(free)), dtype=np.int64)
        for column in reversed(range(len(free))):
            size = len(self.letters[free[column]]) - (column if self.distinct else 0)
            rest, chosen[:, column] = np.divmod(rest, size)
        return self.filled(_spread(chosen) if self.distinct else chosen, letters)

    def every(self, letters: int | None = None, batch: int = BATCH) -> Iterator[Letters]:
        """Yield all inputs in batches, the shortest first, in dictionary order within a length."""
        for length in self.lengths if letters is None else (letters,):
            total = self.count(length)
            for start in range(0, total, batch):
                yield self.listed(length, start, min(start + batch, total))

    def sample(self, count: int, rng: np.random.Generator, letters: int) -> Letters:
        """Draw inputs with so many letters, each equally likely."""
        sizes = [len(self.letters[place]) for place in self.free(letters)]
        if self.distinct:
            chosen = rng.random((count, sizes[0])).argsort(axis=1)[:, : len(sizes)]
        else:
            chosen = rng.integers(0, sizes, size=(count, len(sizes)))
        return self.filled(chosen, letters)

    def draw_lengths(self, count: int, rng: np.random.Generator) -> dict[int, int]:
        """Draw the lengths of `count` random inputs, and return how many have each length."""
        total = self.count()
        shares = [self.count(length) / total for length in self.lengths]
        drawn = rng.multinomial(count, np.array(shares) / sum(shares))
        return {length: int(n) for length, n in zip(self.lengths, drawn, strict=True) if n}

    def filled(self, chosen: Letters, letters: int) -> Letters:
        """Return inputs from the number, in its place's set, of the letter at each free place."""
        made = np.empty((len(chosen), letters), dtype=np.int64)
        for column, place in enumerate(self.free(letters)):
            made[:, place] = np.array(self.letters[place], dtype=np.int64)[chosen[:, column]]
        return self.settled(made)

    def settled(self, letters: Letters) -> Letters:
        """Write into the places that repeat others what stands there; returns the same array."""
        for place, earlier in self.equal:
            letters[:, place - 1] = letters[:, earlier - 1]
        return letters

    def allows(self, letters: Letters) -> NDArray[np.bool_]:
        """Return which inputs of allowed letters are as `equal` and `distinct` say."""
        allowed = (letters == self.settled(letters.copy())).all(axis=1)
        if self.distinct:
            free = np.sort(letters[:, self.free(letters.shape[1])], axis=1)
            allowed &= (np.diff(free, axis=1) != 0).all(axis=1)
        return np.asarray(allowed)

    def mapped(self, change: Callable[[int], int], **options: Any) -> Self:
        """Return the frame with every token changed, its names left out, and other options."""

        def changed(tokens: Sequence[int]) -> tuple[int, ...]:
            return tuple(map(change, tokens))

        return self.replace(
            before=changed(self.before),
            letters=tuple(map(changed, self.letters)),
            between={at: changed(run) for at, run in self.between.items()},
            after=changed(self.after),
            **{"names": {}, **options},
        )

    # -- rows of tokens ------------------------------------------------------------------------

    def template(self, letters: int) -> tuple[Letters, Letters]:
        """Return a row with 0 at every place, and the positions of the places."""
        row, at = list(self.before), []
        for place in range(letters):
            at.append(len(row))
            row += [0, *self.between.get(place + 1, ())]
        return np.array([*row, *self.after], dtype=np.int64), np.array(at, dtype=np.int64)

    def rows(self, letters: ArrayLike) -> Letters:
        """Return rows of tokens `[input position]` for letters `[input place]`."""
        given = np.asarray(letters, dtype=np.int64)
        row, at = self.template(given.shape[1])
        rows = np.tile(row, (len(given), 1))
        rows[:, at] = given
        return rows

    def letters_of(self, row: Sequence[int]) -> tuple[int, ...] | None:
        """Return the letters of a row of tokens, or None if it is no input of this frame."""
        count = len(row) - self.length(0)
        if count not in self.lengths:
            return None
        fixed, at = self.template(count)
        tokens = np.asarray(row, dtype=np.int64)
        letters = tokens[at]
        blank = tokens.copy()
        blank[at] = 0
        allowed = all(int(letter) in self.letters[place] for place, letter in enumerate(letters))
        if not allowed or (blank != fixed).any():
            return None
        return tuple(letters.tolist()) if self.allows(letters[None])[0] else None

    def __contains__(self, row: object) -> bool:
        return isinstance(row, Sequence | np.ndarray) and self.letters_of(list(row)) is not None

    def fault(self, row: Sequence[int]) -> str:
        """Return why a row of tokens is neither an input of this frame nor its letters."""
        lengths = notation.spans(self.lengths)
        count = len(row) - self.length(0)
        if len(row) not in self.lengths and count not in self.lengths:
            return f"inputs have {lengths} letters, and rows of them {self.length(0)} tokens more"
        letters = list(row)
        if len(row) not in self.lengths:
            fixed, at = self.template(count)
            for i, token in enumerate(fixed.tolist()):
                if i not in at and row[i] != token:
                    return f"position {i} holds {self.text([token])}, not {self.text([row[i]])}"
            letters = [row[i] for i in at]
        for place, letter in enumerate(letters):
            if letter not in self.letters[place]:
                return f"{self.text([letter])} may not stand at place {place + 1}"
        for place, earlier in self.equal:
            if letters[place - 1] != letters[earlier - 1]:
                return f"places {earlier} and {place} hold different letters"
        return "a letter occurs twice"

    def text(self, row: Sequence[int]) -> str:
        """Return a row as text, with the names of tokens that have one and ids for the others.

        More than ten equal tokens in a row are written once, as in `a{66}`.
        """
        shown = [self.names.get(int(token), str(int(token))) for token in row]
        runs = [(name, len(list(run))) for name, run in groupby(shown)]
        words = [[f"{name}{{{n}}}"] if n > _MOST_WRITTEN else [name] * n for name, n in runs]
        return ("" if all(len(name) == 1 for name in shown) else " ").join(chain(*words))


def _spread(chosen: Letters) -> Letters:
    """From places among the letters not used yet to places among all letters."""
    indices = chosen.copy()
    for place in range(chosen.shape[1]):
        used = np.sort(indices[:, :place], axis=1)
        for column in range(place):
            indices[:, place] += indices[:, place] >= used[:, column]
    return indices


def _as_data(given: dict[str, Any]) -> dict[str, Any]:
    """Numbers, ranges and lists as the tuples a frame keeps."""
    data = dict(given)
    places, letters = data.get("places"), data.get("letters")
    if isinstance(places, int):
        data["places"] = (places, places)
    elif isinstance(places, range):
        if places.step != 1 or not len(places):
            raise UsageError(f"places are a number or a range without gaps, got {places}")
        data["places"] = (places[0], places[-1])
    elif isinstance(places, list):
        data["places"] = tuple(places)
    if isinstance(letters, Sequence | set | frozenset | np.ndarray) and len(letters):
        entries = list(letters)
        if all(isinstance(entry, int | np.integer) for entry in entries):
            high = data["places"][1] if isinstance(data.get("places"), tuple) else 0
            data["letters"] = tuple(_ids(entries) for _ in range(high))
        else:
            data["letters"] = tuple(_ids(entry) for entry in entries)
    for key in ("before", "after", "read", "classes"):
        if key in data and data[key] is not None:
            value = data[key]
            data[key] = _ids([value] if isinstance(value, int) else value)
    if "equal" in data:
        pairs = data["equal"].items() if isinstance(data["equal"], Mapping) else data["equal"]
        data["equal"] = tuple(sorted(_ids(pair) for pair in pairs))
    if "between" in data:
        data["between"] = {at: _ids(run) for at, run in sorted(_by_id(data, "between").items())}
    if "names" in data:
        data["names"] = {token: str(name) for token, name in _by_id(data, "names").items()}
    return data


def _by_id(data: Mapping[str, Any], key: str) -> dict[int, Any]:
    given = data[key]
    if isinstance(given, Mapping):
        return dict(zip(_ids(given), given.values(), strict=True))
    raise UsageError(f"{key} is a dictionary, got {shorten(given)}")


def _ids(values: Any) -> tuple[int, ...]:
    try:
        return tuple(int(value) for value in values)
    except (TypeError, ValueError):
        raise UsageError(f"tokens and positions are whole numbers, got {shorten(values)}") from None
