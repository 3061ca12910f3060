"""Rows of token ids that a model was asked about, and what a search for wrong inputs said.

What was asked is kept whole (token ids, query, direction, mask), so that a report says how to get
it again. Nothing here runs a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tsc_interp.falsification.result import Falsification
from tsc_interp.output.numbers import counted, number
from tsc_interp.results.base import Severity

_IN_LABELS = 12
"""Characters of a row's tokens in labels; a phone has room for them."""
_IN_FULL = 600
MOST_RATES = 12


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


@dataclass(frozen=True)
class Tested:
    """What a search for wrong inputs said: found, enumerated and proved are three words."""

    severity: Severity
    text: str
    wrong: str = ""
    """The wrong input that was found."""
    label: str = ""
    answer: str = ""
    why: str = ""
    """Which part makes it wrong."""
    rates: tuple[tuple[str, int, int], ...] = ()
    """By place, or else by class or length: of what, how many were wrong, and how many tried."""
    changed: bool = False
    """Whether the rates are of inputs with one letter changed, by place."""
    others: str = ""
    """What is left out of the rates."""

    @classmethod
    def of(cls, found: Falsification) -> Tested:
        """From what `tsc.falsify` returned."""
        every = found.enumerated
        sentences = []
        row = (found.text or "").replace("`", "'")
        if found.tokens is not None:
            how = "proved wrong in ball arithmetic" if found.proved else "not proved"
            sentences.append(
                f"Found: `{row}` is answered {found.answer}, and {found.label} is right ({how})."
            )
        if every is not None and every.complete:
            wrong = f"{number(every.wrong)} of all {number(every.inputs)} inputs are wrong"
            if not every.wrong:
                wrong = f"none of all {number(every.inputs)} inputs is wrong"
            open_ = f", {number(every.undecided)} undecided" if every.undecided else ""
            sentences.append(f"Enumerated: {wrong}{open_}.")
        elif found.tokens is None:
            sentences.append(
                f"Nothing found: {number(found.tried)} inputs were tried ({found.stopped}), which "
                "says nothing about the others."
            )
        rate = found.error_rate
        if rate is not None and rate.tried and not (every is not None and every.complete):
            low, high = rate.interval
            sentences.append(
                f"Of {number(rate.tried)} inputs drawn by chance {number(rate.wrong)} are wrong "
                f"({rate.share:.2%}, 95% interval {low:.2%} to {high:.2%})."
            )
        right = every is not None and every.complete and not every.wrong and not every.undecided
        failed = found.tokens is not None or (every is not None and every.wrong > 0)
        severity: Severity = "failure" if failed else "good" if right else "note"
        groups = (found.by_place, found.by_class, found.by_length)
        rates = next((group for group in groups if any(rate.wrong for rate in group)), ())
        worst = sorted(rates, key=lambda rate: -rate.share if rate.tried else 0)[:MOST_RATES]
        least = [f"Of {len(rates)}, the {MOST_RATES} worst."] if len(rates) > MOST_RATES else []
        return cls(
            severity, " ".join(sentences), row, str(found.label), str(found.answer),
            " ".join(finding.text for finding in found.mechanism),
            tuple((rate.of, rate.wrong, rate.tried) for rate in rates
                  if rate in worst and rate.tried),
            rates == found.by_place, *least,
        )  # fmt: skip
