"""Cheaper attention: what CLS gives to each letter, at a budget.

full                exp(q·k_i) / Σ exp(q·k_j)
low rank            the n × n pattern cut to its largest singular values
projection          softmax(q (E K)ᵀ) E with E of budget × n: keys and values are mixed first
window and random   the full form over a few positions, chosen whatever stands there
random features     φ(q)·φ(k_i) for exp(q·k_i), φ(x) = exp(ω·x - |x|²/2) / √m, ω normal
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import logsumexp, softmax

from tsc_interp.laboratories.efficient.heads import Floats, Heads, Ints, random_strings
from tsc_interp.model.threads import one_thread

Projection = Floats
"""`[budget position]`, or `[head budget position]` for one of each head's own."""


def token_scores(heads: Heads, rows: Ints) -> Floats:
    """`[string head position]`: CLS's scores."""
    return np.moveaxis(heads.scores[:, 0][:, rows], 0, 1)


def projected(heads: Heads, rows: Ints, keys: Projection, values: Projection) -> Floats:
    """`[string head position]`; rows need not sum to one, and weights may be negative."""
    heads_axis = "" if keys.ndim == 2 else "h"
    mixed = np.einsum(f"{heads_axis}bp,sphd->shbd", keys, heads.keys[rows])
    weights = softmax(np.einsum("hd,shbd->shb", heads.queries[0], mixed), axis=-1)
    return np.asarray(np.einsum(f"shb,{heads_axis}bp->shp", weights, values))


def random_projection(rng: np.random.Generator, budget: int, length: int) -> Projection:
    """Distances are kept on average; with as many rows as positions, nothing is mixed."""
    if budget >= length:
        return np.eye(length)
    return np.asarray(rng.standard_normal((budget, length)) / np.sqrt(budget))


def positions_read(rng: np.random.Generator, budget: int, length: int, *, reads_all: bool) -> Ints:
    """Half of the budget next to CLS, half anywhere else; or every position, as a global token."""
    if reads_all or budget >= length:
        return np.arange(length)
    window = (budget + 1) // 2
    rest = window + rng.permutation(length - window)[: budget - window]
    return np.concatenate([np.arange(window), np.sort(rest)])


def sparse(heads: Heads, rows: Ints, read: Ints) -> Floats:
    """`[string head position]`: full attention over the positions that are read."""
    pattern = np.zeros((len(rows), heads.scores.shape[0], rows.shape[1]))
    pattern[:, :, read] = softmax(token_scores(heads, rows)[:, :, read], axis=-1)
    return pattern


def feature_scores(heads: Heads, rng: np.random.Generator, features: int) -> Floats:
    """`[head letter]`: log φ(q)·φ(k), what stands where the score stood.

    Query and key are scaled alike, to q·k: features of a long vector are far from their mean.
    """
    n_heads, d_head = heads.keys.shape[1:]
    drawn = rng.standard_normal((n_heads, features, d_head))
    scores = np.zeros((n_heads, len(heads.keys)))
    for h in range(n_heads):
        q = heads.queries[0, h]
        scale = np.sqrt(max(np.linalg.norm(heads.keys[:, h], axis=-1).max(), 1e-30)
                        / max(float(np.linalg.norm(q)), 1e-30))  # fmt: skip
        x, y = q * scale, heads.keys[:, h] / scale
        projection = drawn[h] @ (x + y).T  # [feature letter]
        sizes = (x @ x + (y**2).sum(axis=-1)) / 2
        scores[h] = logsumexp(projection, axis=0) - np.log(features) - sizes
    return scores


def featured(counts: Ints, scores: Floats) -> Floats:
    """`[string head letter]`: the weights of letters whose scores are these."""
    with np.errstate(divide="ignore"):
        return np.asarray(softmax(scores[None] + np.log(counts)[:, None, :], axis=-1))


def low_rank(heads: Heads, counts: Ints, rank: int) -> Floats:
    """`[string head letter]`: CLS's row of the pattern of every position, cut to this rank.

    Equal rows and columns stay equal, so the n × n pattern has the singular values of a small
    matrix: one row and one column per kind of token, each times the root of its count.
    """
    scores = heads.scores[None]  # [1 head kind letter]
    with np.errstate(divide="ignore"):
        pattern = softmax(scores + np.log(counts)[:, None, None, :], axis=-1)
    rows = np.sqrt(np.insert(counts, 0, 1, axis=1))[:, None, :, None]
    columns = np.sqrt(counts)[:, None, None, :]
    # A letter's weight in all is its count times one copy's: the root of the count is left.
    small = np.divide(rows * pattern, columns, where=columns > 0, out=np.zeros_like(pattern))
    left, values, right = np.linalg.svd(small, full_matrices=False)
    cut = np.einsum("shr,shr,shrl->shl", left[:, :, 0, :rank], values[..., :rank],
                    right[..., :rank, :])  # fmt: skip
    return np.asarray(cut * columns[:, :, 0])


# -- a projection of keys and one of values, trained for one length to keep what heads return ------
#
# Linformer learns its projections with the model; here the model is given, so they are fitted to
# it: Adam on the squared error of each head's output, on other random strings at every step.

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
