"""The embedding and the first layer's attention over boxes, where tables are exact.

A query, key or value of the first layer depends on one letter. From a query whose letter is fixed,
a head's output is therefore N / W with N and W exactly affine in the letters: with c the output at
the middle, c + (N - c W) / W leaves the quotient alone to be relaxed. A query at a free place is
one such query for each of its letters, joined into one form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from studies.depth.bounds.forms import UNIT, UP, Form


@dataclass(frozen=True)
class Boxes:
    """Boxes of one length with equally many free places.

    `letters` may repeat a letter, so that places with fewer letters than others fill their row.
    """

    rows: Tensor
    """`[box position]`: tokens; at free places any of the place's letters."""
    places: Tensor
    """`[box place]`: positions of the free places."""
    letters: Tensor
    """`[box place letter]`: tokens."""

    @property
    def free(self) -> Tensor:
        """`[box position]`: whether a position is a free place."""
        found = torch.zeros_like(self.rows, dtype=torch.bool)
        return found.scatter(1, self.places, True)

    @property
    def positions(self) -> Tensor:
        """`[box vertex]`: where each vertex stands."""
        at = torch.arange(self.rows.shape[1]).expand_as(self.rows)
        return torch.cat([at, self.places.repeat_interleave(self.letters.shape[2], 1)], 1)

    @property
    def tokens(self) -> Tensor:
        """`[box vertex]`: its letter."""
        return torch.cat([self.rows, self.letters.flatten(1)], 1)


@dataclass(frozen=True)
class Tables:
    """Queries, keys and values of the first layer, `[position token head component]`."""

    query: Tensor
    key: Tensor
    value: Tensor
    error: float
    """How far rounding may have moved a score, and by what factor a value."""
    causal: bool
    unseen: int | None

    def attended(self, boxes: Boxes) -> Form:
        """What the heads of every vertex read, side by side."""
        at = torch.arange(boxes.rows.shape[1])
        size = boxes.letters.shape[2]
        owns = torch.arange(boxes.letters.shape[1]).repeat_interleave(size)
        queries = self.query[boxes.positions, boxes.tokens].tensor_split([len(at)], 1)
        where = boxes.positions.tensor_split([len(at)], 1)
        parts = [
            self._read(boxes, queries[0], where[0], None),
            self._read(boxes, queries[1], where[1], owns),
        ]
        centre, table, rest = (torch.cat(both, 1) for both in zip(*parts, strict=True))
        noise = centre.new_zeros(*centre.shape[:2], 0, centre.shape[-1])
        slack = UNIT * (centre.abs() + table.abs().amax(3).sum(2))
        found = Form(centre, table.permute(0, 2, 3, 1, 4), noise, slack)
        return found.with_noise(torch.diag_embed(rest))

    def _read(
        self, boxes: Boxes, query: Tensor, positions: Tensor, owns: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Centre `[box query component]`, table `[box query place letter component]`, remainder.

        With `owns`, query n stands at the free place `owns[n]`, and its own key has its letter.
        """
        length = boxes.rows.shape[1]
        at, which = torch.arange(length), torch.arange(len(boxes.rows))
        root = math.sqrt(query.shape[-1])
        key, value = self.key[at, boxes.rows], self.value[at, boxes.rows]
        scores = torch.einsum("bqhd,bjhd->bqjh", query, key) / root
        hidden = torch.zeros(*scores.shape[:3], dtype=torch.bool)
        hidden[which[:, None], :, boxes.places] = True
        free_key = self.key[boxes.places[..., None], boxes.letters]
        free_value = self.value[boxes.places[..., None], boxes.letters]
        free = torch.einsum("bqhd,bflhd->bqflh", query, free_key) / root
        away = torch.zeros(*free.shape[:3], dtype=torch.bool)
        own_value = None
        if owns is not None:
            away[:, torch.arange(len(owns)), owns] = True
            own_key, own_value = (one.flatten(1, 2) for one in (free_key, free_value))
            own_score = torch.einsum("bqhd,bqhd->bqh", query, own_key)[:, :, None] / root
            scores = torch.cat([scores, own_score], 2)
            hidden = torch.cat([hidden, torch.zeros_like(hidden[:, :, :1])], 2)
        if self.causal:
            hidden[:, :, :length] |= at > positions[..., None]
            away |= boxes.places[:, None] > positions[..., None]
        if self.unseen is not None:
            hidden[:, :, :length] |= (boxes.rows == self.unseen)[:, None]
        scores = scores.masked_fill(hidden[..., None], -torch.inf)
        free = free.masked_fill(away[:, :, :, None, None], -torch.inf)
        top = torch.maximum(scores.amax(2), free.amax((2, 3)))
        weight, loose = (scores - top[:, :, None]).exp(), (free - top[:, :, None, None]).exp()
        held = torch.einsum("bqjh,bjhd->bqhd", weight[:, :, :length], value)
        if own_value is not None:
            held = held + weight[:, :, -1, :, None] * own_value
        total = weight.sum(2)
        means = torch.einsum("bqflh,bflhd->bqhd", loose, free_value) / loose.shape[3]
        c = (held + means) / (total + loose.mean(3).sum(2))[..., None]
        table = loose[..., None] * (free_value[:, None] - c[:, :, None, None])
        held = held - c * total[..., None]
        least, most = total + loose.amin(3).sum(2), total + loose.amax(3).sum(2)
        low, high = held + table.amin(3).sum(2), held + table.amax(3).sum(2)
        off = UP * (1 / least - 1 / most)[..., None] / 2 + UNIT / least[..., None]
        inverse = (1 / least + 1 / most)[..., None] / 2
        rest = UP * torch.maximum(low.abs(), high.abs()) * off
        rest = rest + self.error * (most / least)[..., None] * self.value.abs().amax((0, 1))
        centre, table = c + held * inverse, table * inverse[:, :, None, None]
        bottom, top_value = self._hull(value, free_value, own_value, hidden, away)
        half = UP * (top_value - bottom) / 2 + UNIT * (top_value.abs() + bottom.abs())
        spread = UP * (table.amax(3) - table.amin(3)).sum(2) + rest
        narrow = (spread <= half) & (least > 1e-200)[..., None]
        centre = torch.where(narrow, centre, (bottom + top_value) / 2)
        table = torch.where(narrow[:, :, None, None], table, 0.0)
        rest = torch.where(narrow, rest, half + self.error * half)
        return centre.flatten(2), table.flatten(4), rest.flatten(2)

    @staticmethod
    def _hull(
        value: Tensor, free: Tensor, own: Tensor | None, hidden: Tensor, away: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The least and the largest value that a query may see: a mean lies between them."""
        found = []
        for sign in (1, -1):
            fixed = (sign * value)[:, None].masked_fill(
                hidden[:, :, : value.shape[1], None, None], torch.inf
            )
            loose = (sign * free).amin(2)[:, None].masked_fill(away[..., None, None], torch.inf)
            least = torch.minimum(fixed.amin(2), loose.amin(2))
            least = least if own is None else torch.minimum(least, sign * own)
            found.append(sign * least)
        return found[0], found[1]
