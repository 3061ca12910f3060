"""Seconds that attention takes, of every position, by the way it is computed and the length."""

from __future__ import annotations

import timeit
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tsc_interp.laboratories.efficient.heads import Floats, Heads, Ints, random_strings
from tsc_interp.model.threads import one_thread

TIMED = ("full", "projection", "window, random and CLS", "random features", "multiplicities")
BUDGET = 32
"""Rows of a projection, keys of a window with its random ones, or features."""
_REPEATS = 5


@one_thread()
def measure(heads: Heads, lengths: Ints, rng: np.random.Generator) -> Floats:
    """`[way length]`: the least of several runs, in seconds; the same string for every way."""
    seconds = np.zeros((len(TIMED), len(lengths)))
    for place, length in enumerate(lengths):
        row = random_strings(rng, len(heads.keys), int(length), 1)[0]
        for w, work in enumerate(works(heads, row, rng)):
            seconds[w, place] = min(timeit.repeat(work, number=1, repeat=_REPEATS))
    return seconds


def works(heads: Heads, row: Ints, rng: np.random.Generator) -> list[Callable[[], Tensor]]:
    """Each returns the output at every letter `[head position d_head]`, or for multiplicities
    `[head letter d_head]`: the same for all copies of a letter."""
    q, k, v = (
        torch.as_tensor(np.swapaxes(part[row], 0, 1), dtype=torch.float32)
        for part in (heads.queries[1:], heads.keys, heads.values)
    )
    n, d_head = len(row), q.shape[-1]
    mix = torch.as_tensor(rng.standard_normal((BUDGET, n)) / np.sqrt(BUDGET), dtype=torch.float32)
    near = (torch.arange(n)[:, None] + torch.arange(-BUDGET // 4, BUDGET // 4)) % n
    far = torch.as_tensor(rng.integers(0, n, (n, BUDGET - BUDGET // 2)))
    read = torch.cat([near, far], dim=1)
    omega = torch.as_tensor(rng.standard_normal((BUDGET, d_head)), dtype=torch.float32)
    counts = torch.as_tensor(np.bincount(row, minlength=len(heads.keys)), dtype=torch.float32)
    by_letter = [torch.as_tensor(np.swapaxes(part, 0, 1), dtype=torch.float32)
           for part in (heads.queries[1:], heads.keys, heads.values)]  # fmt: skip

    def full() -> Tensor:
        return (q @ k.mT).softmax(-1) @ v

    def projection() -> Tensor:
        return (q @ (mix @ k).mT).softmax(-1) @ (mix @ v)

    def window() -> Tensor:
        scores = torch.einsum("hnd,hnbd->hnb", q, k[:, read])
        out = torch.einsum("hnb,hnbd->hnd", scores.softmax(-1), v[:, read])
        out[:, 0] = torch.einsum("hn,hnd->hd", (k @ q[:, 0, :, None])[..., 0].softmax(-1), v)
        return out

    def features() -> Tensor:
        phi_q, phi_k = ((x @ omega.T - x.square().sum(-1, keepdim=True) / 2).exp() for x in (q, k))
        return (phi_q @ (phi_k.mT @ v)) / (phi_q @ phi_k.sum(1)[..., None])

    def multiplicities() -> Tensor:
        return (by_letter[0] @ by_letter[1].mT + counts.log()).softmax(-1) @ by_letter[2]

    return [full, projection, window, features, multiplicities]
