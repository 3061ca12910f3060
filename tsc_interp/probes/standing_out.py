"""Which heads can be spoken of, and how many would stand out by chance, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from tsc_interp.results.base import Finding, HeadsResult

MOST_HEADS = 8
"""Heads of a model without a task that get a sentence each."""


def heads_to_tell(result: HeadsResult, most: int = MOST_HEADS) -> list[tuple[int, int]]:
    """`(layer, head)` places that stand out, the largest lead first."""
    if result.lead is None:
        return []
    lead = result.lead.array
    places = [at for at in np.ndindex(lead.shape) if result.stands_out(*at)]
    return sorted(places, key=lambda at: -float(lead[at]))[:most]


def against_chance(result: HeadsResult) -> Finding:
    """How many heads are further ahead than shuffled ones, and of how many nothing is said."""
    assert result.lead is not None
    places = list(np.ndindex(result.lead.shape))
    ahead = [at for at in places if result.ahead(*at)]
    sure = [at for at in ahead if result.stands_out(*at)]
    chance = result.chance or ()
    unsure, expected = len(ahead) - len(sure), len(places) / (len(chance) + 1)
    text = (
        f"{len(sure) or 'None'} of {len(places)} heads {'reads' if len(sure) < 2 else 'read'} a "
        "token more clearly than chance: its highest score leads the next by more than in any of "
        f"{len(chance)} heads with shuffled weights ({max(chance, default=0.0):.2f}). By chance "
        f"about {expected:.1f} would."
    )
    if unsure:
        text += (
            f" {unsure} more would, but for how much the score of one token varies from position "
            "to position."
        )
    return Finding.of(
        text,
        {
            "heads": len(places),
            "standing out": len(sure),
            "varying too much": unsure,
            "shuffled heads": len(chance),
        },
    )


# -- what chance gives: the same model with the weights of its layers shuffled ---------------------
#
# A head of any model scores *some* token highest. Whether that means anything is asked of the same
# model with the entries of each weight matrix of its layers in random order: the sizes stay, what
# was learned is gone. Only what no shuffled head shows is told of a model without a task.


Answer = TypeVar("Answer")
ENOUGH_HEADS = 60
"""Shuffled heads to compare with: a model with fewer is shuffled several times."""
_IN_A_LAYER = re.compile(r"\.\d+\.")


@contextmanager
def shuffled(model: Any, seed: int) -> Iterator[None]:
    """Inside, every weight matrix of the model's layers has its entries in random order.

    The matrices are exchanged, not written to, and are back afterwards whatever happens.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    kept, orders = {}, {}
    try:
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and _IN_A_LAYER.search(name):
                size = parameter.numel()
                if size not in orders:
                    orders[size] = torch.randperm(size, generator=generator).to(parameter.device)
                # One order serves matrices of a size, each from a place of its own.
                start = int(torch.randint(size, (), generator=generator))
                kept[name] = parameter.data
                flat = parameter.data.reshape(-1)[orders[size]].roll(start)
                parameter.data = flat.reshape(parameter.shape)
        yield
    finally:
        for name, parameter in model.named_parameters():
            if name in kept:
                parameter.data = kept[name]


def under_chance(model: Any, ask: Callable[[], Answer]) -> list[Answer]:
    """`ask()` of the model shuffled, once or as often as it takes to see `ENOUGH_HEADS` heads."""
    heads = max(1, model.cfg.n_layers * model.cfg.n_heads)
    answers = []
    for seed in range(-(-ENOUGH_HEADS // heads)):
        with shuffled(model, seed):
            answers.append(ask())
    return answers
