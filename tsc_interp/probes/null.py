"""What chance gives: the same model with the weights of its layers shuffled.

A head of any model scores *some* token highest. Whether that means anything is asked of the same
model with the entries of each weight matrix of its layers in random order: the sizes stay, what was
learned is gone. Only what no shuffled head shows is told of a model that has no task of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

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
