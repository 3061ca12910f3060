"""What the reading token of a model of one layer meets: weights and values of every key.

Tables are made in `arb` balls and rounded outwards once (`Span`), and kept as long as they fit into
the memory that is allowed. Part of the checker (trellis_model.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb, ctx

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.trusted.table import Index
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.attention_rounding import AttentionRounding, Drift
from tsc_interp.verification.checker.budget import Kept
from tsc_interp.verification.checker.heads import Spot
from tsc_interp.verification.checker.paths import Keys
from tsc_interp.verification.checker.readout import WholeModel
from tsc_interp.verification.checker.sets import Sets
from tsc_interp.verification.checker.spans import Span

BITS = 96


class KeyedModel(WholeModel):
    """A classifier of one layer with the keys that each of its readers meets."""

    def __init__(self, checkpoint: Checkpoint, pay: Callable[[], None], memory: int) -> None:
        super().__init__(checkpoint)
        self.pay = pay
        self._attention_rounding = AttentionRounding(checkpoint, pay)
        self._kept = Kept(memory)

    def readers(self, sets: Sets) -> Index:
        """The reading letter of every set, 0 where CLS reads; -1 where there are several."""
        if self.config.reads == "last_letter":
            return sets.letters_at(sets.trellis.length - 1)
        return np.zeros(len(sets), dtype=np.int64)

    def _spot(self, length: int, reader: int) -> Spot:
        if self.config.reads == "last_letter":
            return FIRST_LETTER + reader, length - 1
        return self.cls_spot(length)

    def _keys_of(self, sets: Sets, reader: Index) -> list[Keys]:
        length = sets.trellis.length
        return [self._keys(length, self._spot(length, int(letter))) for letter in reader]

    def _keys(self, length: int, reader: Spot) -> Keys:
        config = self.config
        balls = config.n_heads * length * config.n_letters * (config.d_model + 2)
        key = ("keys", length, reader)
        return self._kept.get(key, balls, lambda: self._make_keys(length, reader))

    def _drift(self, length: int, reader: Spot) -> Drift:
        config = self.config
        numbers = config.n_heads * length * config.n_letters * config.d_head
        key, rounding = ("drift", length, reader), self._attention_rounding
        return self._kept.get(key, numbers, lambda: rounding.drift(length, reader))

    def _make_keys(self, length: int, reader: Spot) -> Keys:
        config, first = self.config, int(self.config.reads == "first")
        spots = [
            (FIRST_LETTER + letter, place + first)
            for place in range(length)
            for letter in range(config.n_letters)
        ]
        own = config.attend_cls and config.reads != "last_letter"
        spots += [reader] * own
        tables = []
        with ctx.workprec(BITS):
            base = Span.of(self.base(reader).tolist())
            reach = base
            for head in range(config.n_heads):
                self.pay()
                offers, held = self._met_by_all(length, head, spots)
                row = self.scores(head, [reader], spots, length, offers).tolist()[0]
                # Any number may be subtracted from all scores; with the largest nothing overflows.
                most = arb(max(float(score.mid()) for score in row))
                weight = Span.of([[kernel.hull(kernel.exp_range(score - most))] for score in row])
                moment = weight * held
                tables.append(
                    Span(
                        np.concatenate([weight.low, moment.low], axis=1),
                        np.concatenate([weight.high, moment.high], axis=1),
                    )
                )
                reach = reach + held.reach(0)[None]
        return Keys(length, config.n_letters, own, tables, base[0], reach[0])

    def _met_by_all(self, length: int, head: int, spots: Sequence[Spot]) -> tuple[Any, Span]:
        """What every reader of this length meets: the keys' vectors, and what they add."""

        def make() -> tuple[Any, Span]:
            return self.offers(head, spots), Span.of(self.held(head, spots).tolist())

        balls = len(spots) * (self.config.d_head + self.config.d_model)
        return self._kept.get(("met", length, head), balls, make)
