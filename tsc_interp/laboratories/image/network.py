"""The network: filters over the picture, a recurrent state over the words, attention between.

features   f_l = conv, ReLU, pool; conv, ReLU, pool; conv, ReLU      at each location l
context    h   = the state of a GRU after the words so far
score      s_l = (W h) · (f_l + p_l) / √d                            p_l is learned
weights    α   = softmax over locations of s
next word      = softmax of  U [Σ_l α_l f_l ; h]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tsc_interp.laboratories.image.mosaics import ASKED_AT, SIDE, Digits, Questions, draw
from tsc_interp.laboratories.image.result import ImageOptions

WIDTH = 32
"""Of a feature."""
STATE = 24
"""Of the recurrent state, and of a word's vector."""
POOLED = 4
"""Pixels across a location."""
RATE = 0.015
_CHUNK = 250


class Network(nn.Module):
    """With `uniform`, every location has the same weight, whatever its score."""

    def __init__(self, asked: ImageOptions, words: int, *, uniform: bool = False) -> None:
        super().__init__()
        self.uniform = uniform
        side = asked.grid * SIDE // POOLED
        sizes = (1, asked.filters, 2 * asked.filters, WIDTH)
        self.filters = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(sizes))
        for filter_ in self.filters:
            assert isinstance(filter_, nn.Conv2d)
            nn.init.kaiming_normal_(filter_.weight, nonlinearity="relu")
        self.words = nn.Embedding(words, STATE)
        self.recurrent = nn.GRU(STATE, STATE, batch_first=True)
        self.places = nn.Parameter(torch.randn(side**2, WIDTH))
        self.query = nn.Linear(STATE, WIDTH)
        self.next = nn.Linear(WIDTH + STATE, words)

    def features(self, pictures: Tensor) -> Tensor:
        """`[picture location feature]`."""
        seen = pictures[:, None]
        for place, convolution in enumerate(self.filters):
            seen = functional.relu(convolution(seen))
            if place < 2:
                seen = functional.max_pool2d(seen, 2)
        return seen.flatten(2).transpose(1, 2)

    def forward(self, pictures: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits `[picture sentence question word]` and weights over locations."""
        n, sentences, _ = words.shape
        features = self.features(pictures)
        states = self.recurrent(self.words(words.flatten(0, 1)))[0][:, list(ASKED_AT)]
        states = states.unflatten(0, (n, sentences))
        scores = torch.einsum("nsqd,nld->nsql", self.query(states), features + self.places)
        weights = (scores / math.sqrt(WIDTH)).softmax(-1)
        if self.uniform:
            weights = torch.full_like(weights, 1 / weights.shape[-1])
        seen = torch.einsum("nsql,nld->nsqd", weights, features)
        return self.next(torch.cat([seen, states], dim=-1)), weights


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's own generator, set within the block and put back after it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def train(network: Network, asked: ImageOptions, digits: Digits, seed: int) -> None:
    """Adam on the cross-entropy of both answers, the rate rising to 0.015 and back to zero."""
    rng = np.random.default_rng([seed, 0])
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=asked.steps + 1)
    for _ in range(asked.steps):
        batch = draw(rng, digits, asked.grid, asked.pictures, asked.sentences)
        logits, _ = network(*_tensors(batch, digits))
        loss = functional.cross_entropy(
            logits.flatten(0, 2), torch.from_numpy(batch.answers).flatten()
        )
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        rate.step()


def answer(
    network: Network, digits: Digits, batch: Questions
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return the likeliest words `[picture sentence question]` and the weights over locations.

    Args:
        network: Trained or not.
        digits: Those that training drew from, for their mean and deviation.
        batch: The questions.
    """
    pictures, words = _tensors(batch, digits)
    with torch.no_grad():
        parts = [
            network(pictures[i : i + _CHUNK], words[i : i + _CHUNK])
            for i in range(0, len(pictures), _CHUNK)
        ]
    likeliest = torch.cat([logits.argmax(-1) for logits, _ in parts]).numpy()
    return likeliest, torch.cat([weights for _, weights in parts]).double().numpy()


def _tensors(batch: Questions, digits: Digits) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(digits.standardised(batch.pictures)), torch.from_numpy(batch.words)
