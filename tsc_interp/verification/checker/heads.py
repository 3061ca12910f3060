"""Computes the attention scores and values of one layer in `arb` balls.

A key is a token at a place, so one head gives it one score from each reader, and one value. Every
option of the family ends here: norms, positions of all kinds, norms of queries and keys, a stated
scale. Heads that share keys and values, and tied embeddings, are written out before.

Part of the checker: nothing here is taken from the search. No ball is compared here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb, arb_mat

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.trusted.positions import alibi_slopes, rotary, sinusoidal, turned_pairs
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.kernel import Ball

Row = list[Ball]
Spot = tuple[int, int]
"""A token and its place."""


class Heads:
    """Attention of a model's first layer."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        written_out = checkpoint.expanded()
        self.config, self.weights = written_out.config, written_out.weights

    def heard(
        self, head: int, readers: Sequence[Spot], keys: Sequence[Spot], length: int
    ) -> tuple[Any, Any]:
        """Scores `[reader key]`, and what each key would add: `[key d_model]`, without `b_O`."""
        return self.scores(head, readers, keys, length), self.held(head, keys)

    def scores(
        self,
        head: int,
        readers: Sequence[Spot],
        keys: Sequence[Spot],
        length: int,
        offers: Any = None,
    ) -> Any:
        """`[reader key]`; `offers` are the keys' own vectors, where they have been made already."""
        config = self.config
        factor = kernel.score_factor(config.d_head, config.attention_scale)
        if config.log_n:
            factor = factor * arb(length + config.cls_counted).log()
        offers = self.offers(head, keys) if offers is None else offers
        scores = self._met("Q", head, readers) * offers.transpose() * factor
        if config.positions == "alibi":
            slope = arb(float(alibi_slopes(config.n_heads)[head]))
            steps = [[max(reader - key, 0) for _, key in keys] for _, reader in readers]
            scores = scores - arb_mat([[slope * step for step in row] for row in steps])
        return scores

    def offers(self, head: int, keys: Sequence[Spot]) -> Any:
        """What queries are multiplied with, a row for each key."""
        return self._met("K", head, keys)

    def held(self, head: int, keys: Sequence[Spot]) -> Any:
        """What each key would add: `[key d_model]`, without `b_O`."""
        values = self._projected("V", head, self.normed("blocks.0.ln1", self.embedded(keys)))
        return values * self.matrix("blocks.0.attn.W_O", head)

    def embedded(self, spots: Sequence[Spot]) -> Any:
        """What the residual stream holds at first, a row for each."""
        rows = self.weights["embed.W_E"][[token for token, _ in spots]].astype(np.float64)
        vectors = arb_mat(rows.tolist())
        if not self.config.has_positions or self.config.positions not in ("learned", "sinusoidal"):
            return vectors
        return vectors + self.places(spots)

    def places(self, spots: Sequence[Spot]) -> Any:
        """Rows of the position table."""
        config = self.config
        if config.positions == "sinusoidal":
            table = sinusoidal(config.n_positions, config.d_model)
        else:
            table = self.weights["pos_embed.W_pos"]
        return arb_mat([table[place].astype(np.float64).tolist() for _, place in spots])

    def _met(self, part: str, head: int, spots: Sequence[Spot]) -> Any:
        """Queries or keys as they meet."""
        config = self.config
        read = self.normed("blocks.0.ln1", self.embedded(spots))
        if config.positions == "shortformer":
            read = read + self.places(spots)
        rows = self._projected(part, head, read).tolist()
        if config.qk_norm != "off":
            rows = [self._head_normed(part, row) for row in rows]
        if config.positions == "rotary":
            rows = [self._turned(row, place) for row, (_, place) in zip(rows, spots, strict=True)]
        return arb_mat(rows)

    def _projected(self, part: str, head: int, read: Any) -> Any:
        rows = read * self.matrix(f"blocks.0.attn.W_{part}", head)
        return rows + repeat(self.bias(f"blocks.0.attn.b_{part}", self.config.d_head, head), rows)

    def _head_normed(self, part: str, row: Row) -> Row:
        divisor, scale = self.divisor(row), self.head_norm(part)
        return [value / divisor * w for value, w in zip(row, scale, strict=True)]

    def head_norm(self, part: str) -> Row:
        """The scale of the norm of queries or keys."""
        if self.config.qk_norm == "rms_pre":
            return [arb(1)] * self.config.d_head
        scale: Row = self.matrix(f"blocks.0.attn.{part.lower()}_norm.w").tolist()[0]
        return scale

    def _turned(self, row: Row, place: int) -> Row:
        config, row = self.config, list(row)
        table = rotary(config.n_positions, config.turned, config.rotary_base)
        pairs = zip(*turned_pairs(config.turned, config.rotary_adjacent_pairs), strict=True)
        for index, (i, j) in enumerate(pairs):
            cos, sin = (arb(float(number)) for number in table[place, :, index])
            row[i], row[j] = cos * row[i] - sin * row[j], sin * row[i] + cos * row[j]
        return row

    # -- norms and weights -----------------------------------------------------------------------

    def normed(self, name: str, x: Any) -> Any:
        """Every row after the norm of that name."""
        if not self.config.has_norm:
            return x
        scale, shift = self.norm_weights(name)
        rows = []
        for row in (x * self.centring()).tolist():
            divisor = self.divisor(row)
            entries = zip(row, scale, shift, strict=True)
            rows.append([value / divisor * w + b for value, w, b in entries])
        return arb_mat(rows)

    def divisor(self, state: Sequence[Ball]) -> Ball:
        """What a norm divides a row by, the mean taken out where that is done."""
        square = sum((kernel.square(value) for value in state), arb(0)) / len(state)
        return kernel.root(square + arb(self.config.norm_eps))

    def norm_weights(self, name: str) -> tuple[Row, Row]:
        """Scale and shift."""
        config = self.config
        ones, zeros = [arb(1)] * config.d_model, [arb(0)] * config.d_model
        if not config.learned_norm:
            return ones, zeros
        shift = self.matrix(f"{name}.b").tolist()[0] if config.centred_norm else zeros
        return self.matrix(f"{name}.w").tolist()[0], shift

    def centring(self) -> Any:
        """Takes the mean out where norms do, and changes nothing where not."""
        d = self.config.d_model
        mean = 1 / arb(d) if self.config.centred_norm else arb(0)
        return arb_mat([[arb(int(i == j)) - mean for j in range(d)] for i in range(d)])

    def matrix(self, name: str, head: int | None = None) -> Any:
        """A weight (of one head); a vector is one row."""
        weight = self.weights[name] if head is None else self.weights[name][head]
        return arb_mat(np.atleast_2d(weight).astype(np.float64).tolist())

    def bias(self, name: str, width: int, head: int | None = None) -> Any:
        """A bias as a row; zeros in a model without."""
        return self.matrix(name, head) if self.config.biases else arb_mat(1, width)


def repeat(row: Any, like: Any) -> Any:
    """The same row once for every row of another matrix."""
    return arb_mat(row.tolist() * like.nrows())
