"""The two questions, in a form that verifiers of neural networks take: boxes, and a sign on each.

    strings    a ReLU sibling of the walk-through model: letter counts as real numbers, one box per
               set of letters; the logit must be above or below zero on all of it
    addition   an adder made by hand: embedded digits as real numbers, one box per set of pairs
               whose next digit is the same; that digit's output must be the largest on all of it

Verifiers know no automaton, so the boxes of the second come from the rule of carrying.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

import tsc_interp as tsc

Digits = tuple[int, ...]


@dataclass(frozen=True)
class Heads:
    """One layer without positions: numerators and denominators of each head, linear in counts."""

    numerator: Tensor
    denominator: Tensor
    constant: Tensor
    out: Tensor
    up: Tensor
    down: Tensor
    read: Tensor

    @classmethod
    def of(cls, checkpoint: tsc.Checkpoint) -> Heads:
        w = {name: torch.from_numpy(array).double() for name, array in checkpoint.weights.items()}
        letters, cls_ = w["embed.W_E"][2:], w["embed.W_E"][0]
        attn = {part: w[f"blocks.0.attn.W_{part}"] for part in "QKVO"}
        scale = math.sqrt(checkpoint.config.d_head)
        scores = torch.einsum("d,hde,lf,hfe->hl", cls_, attn["Q"], letters, attn["K"]) / scale
        weights = (scores - scores.max(1, keepdim=True).values).exp()
        values = torch.einsum("lf,hfe->hl", letters, attn["V"])
        return cls(
            weights * values, weights, cls_, attn["O"][:, 0], w["blocks.0.mlp.W_in"],
            w["blocks.0.mlp.W_out"], w["unembed.W_U"][:, 0],
        )  # fmt: skip


class CountsNetwork(nn.Module):
    """Letter counts `[batch letter]` to the logit `[batch 1]`."""

    def __init__(self, heads: Heads) -> None:
        super().__init__()
        self.numerator, self.denominator = _linear(heads.numerator), _linear(heads.denominator)
        self.mixed = _linear(heads.out.T, heads.constant)
        self.up, self.down = _linear(heads.up.T), _linear(heads.down.T)
        self.read = _linear(heads.read[None])

    def forward(self, counts: Tensor) -> Tensor:
        x = self.mixed(self.numerator(counts) / self.denominator(counts))
        return self.read(x + self.down(self.up(x).relu()))


class PromptNetwork(nn.Module):
    """Embedded letters `[batch place]` of one step to its outputs, read at the last place.

    In the adder made by hand a letter's embedding is one number, its digit, and queries and keys
    read places alone, so attention is a constant. This makes it easy for verifiers.
    """

    def __init__(self, checkpoint: tsc.Checkpoint, places: int) -> None:
        super().__init__()
        w = {name: torch.from_numpy(array).double() for name, array in checkpoint.weights.items()}
        attn = {part: w[f"blocks.0.attn.W_{part}"][0] for part in "QKVO"}
        assert not w["embed.W_E"][:, 1:].any()
        assert not attn["Q"][0].any()
        assert not attn["K"][0].any()
        position = w["pos_embed.W_pos"][:places]
        scores = position @ attn["K"] @ (position[-1] @ attn["Q"])
        mixed = torch.outer(attn["V"][0] @ attn["O"], (scores / _scale(checkpoint)).softmax(0))
        mixed[0, -1] += 1
        self.mixed = _linear(mixed, position[-1])
        self.up = _linear(w["blocks.0.mlp.W_in"].T, w["blocks.0.mlp.b_in"])
        self.down = _linear(w["blocks.0.mlp.W_out"].T, w["blocks.0.mlp.b_out"])
        self.read = _linear(w["unembed.W_U"].T, w["unembed.b_U"])

    def forward(self, digits: Tensor) -> Tensor:
        x = self.mixed(digits)
        return self.read(x + self.down(self.up(x).relu()))


def _scale(checkpoint: tsc.Checkpoint) -> float:
    return checkpoint.config.attention_scale or math.sqrt(checkpoint.config.d_head)


def _linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=torch.float64)
    made.weight.data = weight.contiguous()
    if bias is not None:
        made.bias.data = bias.contiguous()
    return made.requires_grad_(False)


@dataclass(frozen=True)
class Sums:
    """Pairs of numbers whose digit at one step is `label`: sets of letters for each place."""

    step: int
    label: int
    letters: tuple[frozenset[int], ...]


def sums(task: tsc.tasks.Addition) -> Iterator[Sums]:
    """Every pair at every step, in boxes on which the digit to write is the same."""
    n, base = task.digits, task.base
    for step in range(n + 1):
        for carry in (0, 1):
            for lower in _carrying(step - 1, carry, base):
                for a, b in product(range(base), repeat=2) if step < n else [(0, 0)]:
                    free = {**lower, step: ({a}, {b})} if step < n else lower
                    label = (a + b + carry) % base if step < n else carry
                    yield Sums(step, label, _placed(task, free, step))


def _carrying(place: int, carry: int, base: int) -> Iterator[dict[int, Any]]:
    """Sets of digits for the places up to this one whose sum carries, or does not."""
    if place < 0:
        if not carry:
            yield {}
        return
    for a in range(base):
        certain = {b for b in range(base) if (a + b >= base if carry else a + b < base - 1)}
        if certain:
            yield {place: ({a}, certain)}
        for lower in _carrying(place - 1, carry, base):
            yield {**lower, place: ({a}, {base - 1 - a})}


def _placed(
    task: tsc.tasks.Addition, free: dict[int, Any], step: int
) -> tuple[frozenset[int], ...]:
    """Sets of letters place by place; digits that are free, or written already, are any digit."""
    n, base = task.digits, task.base
    every = frozenset(range(base))
    sides = [
        [frozenset(free[i][side]) if i in free else every for i in reversed(range(n))]
        for side in (0, 1)
    ]
    signs = frozenset({base}), frozenset({base + 1})
    return (*sides[0], signs[0], *sides[1], signs[1], *[every] * step)


def digit_box(box: Sums, base: int) -> tuple[Tensor, Tensor]:
    """The least and largest embedded letter at each place; signs are zeros."""
    sets = [{x if x < base else 0 for x in some} for some in box.letters]
    low, high = (torch.tensor([float(end(some)) for some in sets]) for end in (min, max))
    return low, high
