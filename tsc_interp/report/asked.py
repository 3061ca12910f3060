"""Rows of token ids that a model was asked about.

What was asked is kept whole (token ids, query, direction, mask), so that a report says how to get
it again. Nothing here runs a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tsc_interp.output.numbers import counted, number

_IN_LABELS = 12
"""Characters of a row's tokens in labels; a phone has room for them."""
_IN_FULL = 600


@dataclass(frozen=True)
class Asked:
    """The rows that were read, where, and what they were read for."""

    tokens: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]
    """Their places among the rows given."""
    given: int
    """How many rows were given."""
    query: tuple[int, ...]
    """The position each is read at."""
    names: Mapping[int, str] = field(default_factory=dict)
    """What the tokens that occur are called; a token without a name is its number."""
    direction: tuple[float, ...] | None = None
    attention_mask: tuple[tuple[int, ...], ...] | None = None
    shown: tuple[int, ...] = ()
    """Of the rows given, those taken apart; the highest read-out first where there is one."""
    answer: tuple[int, ...] | None = None
    """The output that is accounted for in each row; None is what the model answers."""

    def row_name(self, index: int) -> str:
        """`row 3: … X ?`, with the last tokens up to the one that reads."""
        tokens = self._tokens(index)
        start, size = len(tokens) - 1, len(tokens[-1])
        while start and size + 1 + len(tokens[start - 1]) <= _IN_LABELS:
            start, size = start - 1, size + 1 + len(tokens[start - 1])
        ends = [token[:_IN_LABELS] for token in tokens[start:]]
        return f"row {self.rows[index]}: {'… ' if start else ''}{' '.join(ends)}"

    def texts(self) -> list[tuple[str, str]]:
        """The rows that are shown, and their tokens up to the one that reads."""
        texts = []
        for row in self.shown:
            text = " ".join(self._tokens(self.rows.index(row)))
            texts.append((f"row {row}", text if len(text) <= _IN_FULL else f"… {text[-_IN_FULL:]}"))
        return texts

    def _tokens(self, index: int) -> list[str]:
        row = self.tokens[index]
        # All tokens of a row read at its first one, which alone may be the same in every row.
        last = self.query[index] + 1 if self.query[index] else len(row)
        mask = self.attention_mask[index] if self.attention_mask is not None else (1,) * len(row)
        seen = [token for token, attended in zip(row[:last], mask, strict=False) if attended]
        return [self.names.get(token, str(token)) for token in seen]

    @property
    def width(self) -> int:
        return len(self.tokens[0])

    def facts(self) -> list[tuple[str, str]]:
        """What was asked, line by line."""
        size = len(self.direction or ())
        return [
            ("rows", f"{len(self.rows)} of {number(self.given)} given"),
            ("tokens a row", number(self.width)),
            ("read at position", ", ".join(map(str, sorted(set(self.query))))),
            ("read-out direction",
             f"a vector of {number(size)} numbers" if size else "the answer over the next"),
            ("attention mask", "none" if self.attention_mask is None else "as given"),
        ]  # fmt: skip

    def sentence(self) -> str:
        """How many rows, how long, where they are read, and along what."""
        rows = f"{counted(len(self.rows), 'row')} of {counted(self.width, 'token')}"
        if len(self.rows) < self.given:
            rows = f"{rows} (of {number(self.given)} given, evenly spread)"
        places = sorted(set(self.query))
        if len(places) == 1 and places[0] == self.width - 1:
            where = "the last position"
        elif len(places) == 1:
            where = f"position {places[0]}"
        else:
            where = f"positions {places[0]} to {places[-1]}, one in each row"
        masked = " Masked positions are left out." if self.attention_mask is not None else ""
        along = "" if self.direction is None else " along the direction given"
        return f"It was read at {where} of {rows}{along}.{masked}"
