"""What is known of activations over a box of inputs: affine in the letters, plus noise.

A box gives every free place a set of letters. Over it, component d of the vector at position i is

    centre[i, d] + sum over free places f of table[f, letter at f, i, d]
                 + sum over n of noise[i, n, d] e[i, n]  +  something within slack[i, d]

with every e[i, n] in [-1, 1]. Tables are arbitrary functions of one letter, so the embedding and
all that depends on one place alone is exact. Noise symbols belong to one position, and equal
numbers are equal symbols: where two forms of one position are added, common symbols cancel. The
slack takes in every rounding: an operation adds `UNIT` times the absolute values that enter it,
which bounds the error of sums of up to 9,000 terms in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

UNIT = 1e-12
UP = 1 + 1e-9
"""For the rounding of radii themselves, sums of positive numbers."""


def unflatten(x: Tensor, axis: int, sizes: tuple[int, ...]) -> Tensor:
    """One axis as several; a size of -1 is what is left."""
    axis %= x.ndim
    return x.reshape(*x.shape[:axis], *sizes, *x.shape[axis + 1 :])


@dataclass(frozen=True)
class Form:
    """Affine forms `[box, position, component]`, in float64."""

    centre: Tensor
    """`[box position component]`."""
    table: Tensor
    """`[box place letter position component]`."""
    noise: Tensor
    """`[box position symbol component]`."""
    slack: Tensor
    """`[box position component]`."""

    @cached_property
    def spread(self) -> tuple[Tensor, Tensor]:
        """The least and the largest of what the tables add, by place."""
        return self.table.amin(2), self.table.amax(2)

    @cached_property
    def around(self) -> Tensor:
        """Noise and slack, as a radius."""
        return UP * (self.noise.abs().sum(2) + self.slack)

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of every component."""
        low, high = (one.sum(1) for one in self.spread)
        room = self.around + UNIT * self.size
        return self.centre + low - room, self.centre + high + room

    @cached_property
    def size(self) -> Tensor:
        """At least the sum of the absolute values of all that a component consists of."""
        tables = self.table.abs().amax(2).sum(1)
        return UP * (self.centre.abs() + tables) + self.around

    @cached_property
    def radius(self) -> Tensor:
        """How far a component may be from its centre; tables are in the middle, after `middled`."""
        low, high = self.ends
        return UP * torch.maximum(high - self.centre, self.centre - low)

    def middled(self) -> Form:
        """The same with tables whose least and largest entries are opposite."""
        low, high = self.spread
        middle = (low + high) / 2
        return Form(
            self.centre + middle.sum(1),
            self.table - middle[:, :, None],
            self.noise,
            self.slack + UNIT * self.size,
        )

    def each(self, change: Callable[[Tensor], Tensor]) -> Form:
        """A linear change of all but the slack, which is left to the caller."""
        return Form(change(self.centre), change(self.table), change(self.noise), self.slack)

    def mapped(self, weight: Tensor, bias: Tensor | None = None) -> Form:
        """`x W + b`, with one W or with one for each box."""
        size = weight.abs()
        slack = self.slack @ size + UNIT * (self.size @ size)

        def product(part: Tensor) -> Tensor:
            own = weight.ndim == 3 and part.ndim > 3
            return part @ (
                weight.reshape(-1, *[1] * (part.ndim - 3), *weight.shape[1:]) if own else weight
            )

        found = self.each(product)
        if bias is None:
            return Form(found.centre, found.table, found.noise, UP * slack)
        slack = UP * (slack + UNIT * bias.abs())
        return Form(found.centre + bias, found.table, found.noise, slack)

    def scaled(self, weight: Tensor, bias: Tensor) -> Form:
        """`x * w + b`, component by component."""
        found = self.each(lambda part: part * weight)
        slack = UP * weight.abs() * (self.slack + UNIT * self.size) + UNIT * bias.abs()
        return Form(found.centre + bias, found.table, found.noise, slack)

    def plus(self, other: Form) -> Form:
        """The sum; the symbols of the one with fewer are the first of the other's."""
        more, fewer = sorted((self.noise, other.noise), key=lambda one: -one.shape[2])
        noise = more.clone()
        noise[:, :, : fewer.shape[2]] += fewer
        slack = UP * (self.slack + other.slack + UNIT * (self.size + other.size))
        return Form(self.centre + other.centre, self.table + other.table, noise, slack)

    def at(self, positions: Tensor) -> Form:
        """Some positions."""
        return Form(
            self.centre[:, positions],
            self.table[:, :, :, positions],
            self.noise[:, positions],
            self.slack[:, positions],
        )

    def with_noise(self, *new: Tensor) -> Form:
        """New symbols, `[box position symbol component]`."""
        return Form(self.centre, self.table, torch.cat([self.noise, *new], dim=2), self.slack)

    def condensed(self, most: int) -> Form:
        """With at most so many symbols, besides one for each component in place of the others.

        Where symbols are taken away the others are new ones: not for forms that are added to
        older ones of the same position.
        """
        used = self.noise.abs().sum(3).amax((0, 1)) > 0
        noise = self.noise[:, :, used]
        if noise.shape[2] > most + noise.shape[3]:
            order = noise.abs().sum(3).argsort(2, descending=True)
            noise = noise.gather(2, order[..., None].expand_as(noise))
            rest = torch.diag_embed(UP * noise[:, :, most:].abs().sum(2))
            noise = torch.cat([noise[:, :, :most], rest], 2)
        return Form(self.centre, self.table, noise, self.slack)

    def or_interval(self, rest: Tensor, low: Tensor, high: Tensor, always: Tensor) -> Form:
        """This form and something within `rest`; or the interval, where that is narrower.

        One new symbol for each component stands for the one or the other.
        """
        middle = (low + high) / 2
        half = UP * torch.maximum(high - middle, middle - low) + UNIT * (low.abs() + high.abs())
        chosen = always | (half < self.middled().radius + rest)
        found = Form(
            torch.where(chosen, middle, self.centre),
            torch.where(chosen[:, None, None], 0.0, self.table),
            torch.where(chosen[:, :, None], 0.0, self.noise),
            torch.where(chosen, 0.0, self.slack),
        )
        return found.with_noise(torch.diag_embed(torch.where(chosen, half, rest)))
