"""Attention as a soft look-up, without and with matrices, and the look-up as its sharp limit.

A look-up returns the value v_* of the key with the highest score. Attention at temperature T
returns Σ w_i v_i with w = softmax(s / T). If s_* leads every other of n scores by at least g,

    1 - w_*  =  Σ exp(-(s_* - s_i)/T) / (1 + the same)  ≤  r / (1 + r),     r = (n - 1) exp(-g / T),

and the output is at most (1 - w_*) D from v_*, where D is the farthest that a value is from v_*.

**Matrices.** Items are x_i = [k_i ; v_i]. A query [R k_j ; 0] asks for v_j in a code of its own: R
is one unknown rotation. With x itself as queries, keys and values, scores are R k_j · k_i, which
says nothing about j. W_Q, W_K and W_V are learned from answers alone; W_Q = C Rᵀ, W_K = I does it.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from tsc_interp.laboratories.attention.result import FORMS, AttentionOptions, Lookup
from tsc_interp.laboratories.base import LabeledArray

Floats = NDArray[np.float64]
Matrices = tuple[Tensor, Tensor, Tensor]
"""W_Q, W_K and W_V."""
KEYS, CODE, VALUE = 16, 6, 4
"""Items of a table, and the sizes of k_i and v_i."""
SHARP = 32.0
"""C, where the matrices are written down."""
_RATE, _TABLES, _TESTED = 0.02, 64, 500


def bound(gap: Floats, keys: int) -> Floats:
    """Return the most that 1 - w_* can be, for leads `gap` in units of the temperature."""
    rest = (keys - 1) * np.exp(-gap)
    return np.asarray(rest / (1 + rest))


def draw_tables(rng: np.random.Generator, tables: int) -> tuple[Floats, Floats, Floats]:
    """Return unit keys `[table key direction]`, values, and a query near the first key."""
    keys = rng.standard_normal((tables, KEYS, CODE))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    values = rng.standard_normal((tables, KEYS, VALUE))
    return keys, values, keys[:, 0] + 0.3 * rng.standard_normal((tables, CODE))


def sharpen(asked: AttentionOptions) -> LabeledArray:
    """Return, by table and temperature, the lead over T, the distance from v_* and its bound.

    Distances and bounds are in units of D.
    """
    keys, values, queries = draw_tables(np.random.default_rng([asked.seed, 9]), asked.lookups)
    scores = np.einsum("tkd,td->tk", keys, queries)
    order = np.sort(scores, axis=1)
    gap = order[:, -1] - order[:, -2]
    best = np.take_along_axis(values, scores.argmax(axis=1)[:, None, None], axis=1)
    widest = np.linalg.norm(values - best, axis=-1).max(axis=1)
    measured = []
    for temperature in asked.temperatures:
        outputs = np.einsum("tk,tkv->tv", softmax(scores / temperature, axis=1), values)
        missed = np.linalg.norm(outputs - best[:, 0], axis=-1) / widest
        lead = gap / temperature
        measured.append(np.stack([lead, missed, bound(lead, KEYS)], axis=-1))
    return LabeledArray.of(
        measured,
        temperature=asked.temperatures,
        table=range(asked.lookups),
        quantity=("lead", "missed", "bound"),
    )


def rotation(rng: np.random.Generator) -> Floats:
    """Return a random orthogonal matrix of the keys' size."""
    return np.asarray(np.linalg.qr(rng.standard_normal((CODE, CODE)))[0])


def attend(weights: Matrices, items: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs `[table value]` and weights `[table key]` with W_Q, W_K and W_V."""
    query, key, value = weights
    scores = torch.einsum("td,tkd->tk", queries @ query.T, items @ key.T)
    shares = scores.softmax(-1)
    return torch.einsum("tk,tkd->td", shares, items @ value.T)[:, CODE:], shares


def written(turn: Floats) -> Matrices:
    """Return the matrices that look up exactly as C grows: C Rᵀ, I and I on their parts."""
    query, key, value = (torch.zeros(CODE + VALUE, CODE + VALUE) for _ in range(3))
    query[:CODE, :CODE] = SHARP * torch.from_numpy(turn.T)
    key[:CODE, :CODE] = torch.eye(CODE)
    value[CODE:, CODE:] = torch.eye(VALUE)
    return query, key, value


def learn(asked: AttentionOptions, turn: Floats) -> Matrices:
    """Adam on the squared distance from v_j, new tables at every step, from the identity."""
    rng = np.random.default_rng([asked.seed, 10])
    weights = [torch.eye(CODE + VALUE).requires_grad_() for _ in range(3)]
    optimiser = torch.optim.Adam(weights, lr=_RATE)
    for _ in range(asked.learning_steps):
        items, queries = _asked(rng, turn, _TABLES)
        outputs, _ = attend((weights[0], weights[1], weights[2]), items, queries)
        loss = ((outputs - items[:, 0, CODE:]) ** 2).sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    query, key, value = (weight.detach() for weight in weights)
    return query, key, value


def _asked(rng: np.random.Generator, turn: Floats, tables: int) -> tuple[Tensor, Tensor]:
    """Items `[table key part]` and queries for the first of each, in the code R."""
    keys, values, _ = draw_tables(rng, tables)
    queries = np.concatenate([keys[:, 0] @ turn.T, np.zeros((tables, VALUE))], axis=-1)
    items = np.concatenate([keys, values], axis=-1)
    return torch.from_numpy(items).float(), torch.from_numpy(queries).float()


def study(asked: AttentionOptions) -> Lookup:
    """Return both halves: the sharp limit, and what matrices add."""
    turn = rotation(np.random.default_rng([asked.seed, 11]))
    plain = (torch.eye(CODE + VALUE),) * 3
    learned = learn(asked, turn)
    items, queries = _asked(np.random.default_rng([asked.seed, 12]), turn, _TESTED)
    wanted = items[:, 0, CODE:]
    rows = []
    for weights in (plain, learned, written(turn)):
        outputs, shares = attend(weights, items, queries)
        apart = float((outputs - wanted).norm(dim=-1).square().mean().sqrt())
        rows.append([float((shares.argmax(-1) == 0).double().mean()), apart / math.sqrt(VALUE)])
    # Scores are q · k = x_qᵀ W_Qᵀ W_K x: with queries R k, the wanted product is a multiple of R.
    product = (learned[0].T @ learned[1])[:CODE, :CODE].double().numpy()
    alike = float((product * turn).sum() / np.linalg.norm(product) / np.linalg.norm(turn))
    return Lookup(
        keys=KEYS,
        tested=_TESTED,
        sharp=sharpen(asked),
        matrices=LabeledArray.of(rows, form=FORMS, statistic=("right item", "distance")),
        alike=alike,
        strength=float(np.linalg.norm(product) / math.sqrt(CODE)),
    )
