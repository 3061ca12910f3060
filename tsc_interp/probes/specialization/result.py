"""What the specialization probe measures: who reads what, and how alike heads are."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tsc_interp.results.base import HeadsResult, LabeledArray, Record, Table


class Unread(Record):
    """A letter that no head reads, and the logits of a string with and without it."""

    letter: str
    with_it: str
    without_it: str
    """Empty where the task names no other letter; there are no logits then."""
    logits: tuple[float, ...] = ()
    """With it, without it."""


class SpecializationResult(HeadsResult):
    probe: ClassVar[str] = "specialization"

    attention: LabeledArray
    """`[layer head letter]`: the weights if every letter occurred once."""
    values: LabeledArray | None
    """`[layer head letter component]`; None for a large model, whose vectors fill megabytes."""
    entropy: LabeledArray
    """`[layer head]`, in bits."""
    overlap: LabeledArray
    """`[layer head other]`: how much of their attention two heads share, 0 to 1."""
    writing: LabeledArray
    """`[layer head other]`: the cosine of what they write, -1 to 1."""
    effective_rank: LabeledArray
    """`[layer head]`: of W_V W_O, between 1 and d_head."""
    observed: LabeledArray
    """`[layer string head letter]`: the weights in the given strings."""
    unread: tuple[Unread, ...] = ()
    """The letters the task names that no head reads, asked of one layer of our classifier."""

    @property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """The letter each head reads, `[layer][head]`."""
        letters = self.attention.labels["letter"]
        return tuple(
            tuple(letters[t] for t in layer) for layer in self.attention.array.argmax(axis=-1)
        )

    def tables(self) -> tuple[Table, ...]:
        labels = self.attention.labels
        shown = self.heads_to_show() if self.many_heads else np.ndindex(self.entropy.shape)
        rows = [
            (labels["layer"][i], labels["head"][h], self.reads[i][h],
             *self.attention.array[i, h].tolist(), float(self.entropy.array[i, h]),
             float(self.effective_rank.array[i, h]))
            for i, h in shown
        ]  # fmt: skip
        weights = tuple(f"weight of {letter}" for letter in labels["letter"])
        columns = ("layer", "head", "reads", *weights, "entropy (bits)", "effective rank of OV")
        title = f"What each head reads{self.of_all_heads()}"
        pairs = self._pairs()
        return (Table.from_rows(title, columns, rows), *([pairs] if pairs.rows else []))

    def _pairs(self) -> Table:
        labels = self.overlap.labels
        shown = set(self.heads_to_show()) if self.many_heads else None
        rows = [
            (labels["layer"][i], f"{labels['head'][h]} and {labels['other'][g]}",
             float(self.overlap.array[i, h, g]), float(self.writing.array[i, h, g]))
            for i, h, g in np.ndindex(self.overlap.shape)
            if h < g and (shown is None or {(i, h), (i, g)} <= shown)
        ]  # fmt: skip
        columns = ("layer", "heads", "attention overlap", "cosine of what they write")
        return Table.from_rows("Heads compared", columns, rows)
