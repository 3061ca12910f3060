"""A projection of keys and one of values, trained for one length to keep what heads return.

Linformer learns its projections with the model; here the model is given, so they are fitted to it:
Adam on the squared error of each head's output, on other random strings at every step.
"""

from __future__ import annotations

import numpy as np
import torch

from tsc_interp.laboratories.efficient.heads import Floats, Heads, random_strings
from tsc_interp.laboratories.efficient.ways import random_projection
from tsc_interp.model.threads import one_thread

_POOL, _BATCH = 1024, 64
_RATE = 0.02


@one_thread()
def learn(
    heads: Heads, rng: np.random.Generator, budget: int, length: int, steps: int
) -> tuple[Floats, Floats]:
    """`[head budget position]` each: what keys and what values are mixed with."""
    n_letters, n_heads = heads.keys.shape[:2]
    start = np.stack([random_projection(rng, budget, length) for _ in range(n_heads)])
    mix_keys, mix_values = (torch.tensor(start, requires_grad=True) for _ in range(2))
    queries, keys, values = map(torch.as_tensor, (heads.queries[0], heads.keys, heads.values))
    optimizer = torch.optim.Adam([mix_keys, mix_values], lr=_RATE)
    pool = torch.as_tensor(random_strings(rng, n_letters, length, _POOL))
    for _ in range(steps):
        rows = pool[torch.as_tensor(rng.integers(_POOL, size=_BATCH))]
        k, v = keys[rows], values[rows]
        full = torch.einsum("hd,sphd->shp", queries, k).softmax(-1)
        wanted = torch.einsum("shp,sphd->shd", full, v)
        mixed = torch.einsum("hbp,sphd->shbd", mix_keys, k)
        weights = torch.einsum("hd,shbd->shb", queries, mixed).softmax(-1)
        output = torch.einsum("shb,hbp,sphd->shd", weights, mix_values, v)
        loss = (output - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return mix_keys.detach().numpy(), mix_values.detach().numpy()
