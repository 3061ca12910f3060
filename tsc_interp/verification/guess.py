"""What float64 says of a model of counts: fast, and believed by nobody.

A search looks where this points, and asks the trusted base what holds. Copies of a letter share
their state in every layer, so a forward pass has one token for each letter. For one layer whose MLP
reads the residual without a norm, the least margin over a box of counts is guessed too, from tables
of what each head adds to each neuron and to each difference of outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tsc_interp.trusted.counts import CountTables
from tsc_interp.trusted.spec import Model

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Support = tuple[int, ...]

_AT_ONCE = 1 << 21
"""Numbers of one array."""
_UNSEEN = -1e300
"""The score of a CLS that is not attended to."""
_MOST_CORNERS = 4
"""Letters up to which all corners of a box are looked at."""


def gelu(x: Array) -> Array:
    from scipy.special import ndtr

    return np.asarray(x * ndtr(x))


def _gelu_new(x: Array) -> Array:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(x / (1 + np.exp(-2 * inner)))


ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "gelu": (gelu, -0.75179, -0.16997),
    "gelu_new": (_gelu_new, -0.75246, -0.17004),
    "silu": (lambda x: x / (1 + np.exp(-x)), -1.27846, -0.27846),
    "relu": (lambda x: np.maximum(x, 0.0), 0.0, 0.0),
}
"""Each function, where it is least, and its least value."""


class Guess:
    """One model in float64."""

    def __init__(self, model: Model, tables: CountTables) -> None:
        self.spec, self._exact = model.spec, tables
        self._weights = {name: w.astype(np.float64) for name, w in model.weights.items()}
        self._tables: dict[tuple[Support, int], _Table] = {}
        self._first: dict[Support, tuple[Array, list[tuple[Array, Array]]]] = {}
        """Embeddings, and the first layer's scores `[query key]` and values of each head."""

    def answers(self, letters: Support, counts: NDArray[np.generic]) -> Integers:
        """The class that each count vector `[vector letter]` is answered with."""
        return np.asarray(self.outputs(letters, counts).argmax(1), dtype=np.int64)

    def logits(self, letters: Support, counts: NDArray[np.generic]) -> Array:
        """Of two classes: the second output minus the first."""
        outputs = self.outputs(letters, counts)
        return np.asarray(outputs[:, 1] - outputs[:, 0])

    def outputs(self, letters: Support, counts: NDArray[np.generic]) -> Array:
        """`[vector class]`; a single output has a zero before it."""
        spec = self.spec
        width = (1 + len(letters)) * (spec.d_model + spec.d_mlp + 2 * len(letters))
        step = max(1, _AT_ONCE // width)
        with np.errstate(all="ignore"):
            parts = [
                self._outputs(letters, counts[start : start + step].astype(np.float64))
                for start in range(0, len(counts), step)
            ]
        return np.concatenate(parts) if parts else np.zeros((0, spec.n_classes))

    def gaps(self, letters: Support, low: Array, high: Array, winner: Integers) -> Array:
        """`[box class]`: about the least of the winner's output minus each, over a box."""
        gaps = np.full((len(low), self.spec.n_classes), np.nan)
        with np.errstate(all="ignore"):
            for label in np.unique(winner).tolist():
                own = winner == label
                least = self._gaps_in_table if self.has_table else self._gaps_at_corners
                gaps[own] = least(letters, low[own], high[own], label)
        return gaps

    # -- the forward pass ------------------------------------------------------------------------

    def _outputs(self, letters: Support, counts: Array) -> Array:
        spec = self.spec
        copies = np.insert(counts, 0, float(spec.attend_cls), axis=1)[:, None]
        stretch = np.log(counts.sum(1) + spec.cls_counted)[:, None, None] if spec.log_n else None
        embedded, first = self._first_layer(letters)
        x = embedded[None]
        for layer in range(spec.n_layers):
            asking = x[:, :1] if layer == spec.n_layers - 1 else x
            out = asking + self._bias(f"blocks.{layer}.attn.b_O") if spec.n_heads else asking
            heads = first if layer == 0 else (
                self._attention(layer, head, asking, x) for head in range(spec.n_heads)
            )  # fmt: skip
            for scores, values in heads:
                scores = scores[..., : asking.shape[-2], :]
                scores = scores if stretch is None else scores * stretch
                weights = np.exp(scores - scores.max(-1, keepdims=True)) * copies
                out = out + (weights @ values) / weights.sum(-1, keepdims=True)
            x = out + self._mlp(layer, out) if spec.d_mlp else out
        x = self._normed("ln_final", x) if spec.final_norm else x
        outputs = x[:, 0] @ self._weights["unembed.W_U"] + self._bias("unembed.b_U")
        outputs = np.broadcast_to(outputs, (len(counts), outputs.shape[1]))
        return np.insert(outputs, 0, 0.0, axis=1) if spec.n_outputs == 1 else outputs

    def _first_layer(self, letters: Support) -> tuple[Array, list[tuple[Array, Array]]]:
        """As the trusted base has it, which subtracts scores before it rounds them."""
        if letters not in self._first:
            state, gaps, _, values = self._exact.first_layer(letters)
            scores = gaps.middle.copy()
            scores[..., 0] = scores[..., 0] if self.spec.attend_cls else _UNSEEN
            self._first[letters] = state.middle, [*zip(scores, values.middle, strict=True)]
        return self._first[letters]

    def _attention(self, layer: int, head: int, asking: Array, x: Array) -> tuple[Array, Array]:
        """Scores `[... query key]` without log n, and what keys add, `[... key d_model]`.

        The score of a CLS that is not attended to is far below any other.
        """
        name, spec = f"blocks.{layer}.attn", self.spec
        met = {}
        for part, state in (("Q", asking), ("K", x), ("V", x)):
            read = self._normed(f"blocks.{layer}.ln1", state)
            bias = self._bias(f"{name}.b_{part}", head)
            met[part] = read @ self._weights[f"{name}.W_{part}"][head] + bias
        scores = met["Q"] @ np.swapaxes(met["K"], -1, -2)
        scores = scores / (spec.attention_scale or math.sqrt(spec.d_head))
        scores[..., 0] = scores[..., 0] if spec.attend_cls else _UNSEEN
        return scores, met["V"] @ self._weights[f"{name}.W_O"][head]

    def _mlp(self, layer: int, x: Array) -> Array:
        name = f"blocks.{layer}.mlp"
        read = self._normed(f"blocks.{layer}.ln2", x)
        act, *_ = ACTIVATIONS[self.spec.act_fn]
        post = act(read @ self._weights[f"{name}.W_in"] + self._bias(f"{name}.b_in"))
        return np.asarray(post @ self._weights[f"{name}.W_out"] + self._bias(f"{name}.b_out"))

    def _normed(self, name: str, x: Array) -> Array:
        spec = self.spec
        if not spec.has_norm:
            return x
        if spec.centred_norm:
            x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + spec.norm_eps)
        if not spec.learned_norm:
            return x
        scaled = x * self._weights[f"{name}.w"]
        return scaled + self._weights[f"{name}.b"] if spec.centred_norm else scaled

    def _bias(self, name: str, head: int | None = None) -> Array:
        if not self.spec.biases:
            return np.zeros(1)
        return self._weights[name] if head is None else self._weights[name][head]

    # -- boxes -----------------------------------------------------------------------------------

    @property
    def has_table(self) -> bool:
        """Whether bounds over boxes are guessed, rather than looked for at their corners."""
        spec = self.spec
        normed = spec.final_norm or (spec.has_norm and spec.d_mlp)
        return spec.n_layers == 1 and not normed

    def _gaps_at_corners(self, letters: Support, low: Array, high: Array, label: int) -> Array:
        size = len(letters)
        chosen = np.array(list(product((False, True), repeat=min(size, _MOST_CORNERS))))
        if size > _MOST_CORNERS:
            chosen = np.concatenate([np.eye(size, dtype=bool), ~np.eye(size, dtype=bool)])
        corners = np.where(chosen, high[:, None], low[:, None])
        outputs = self.outputs(letters, corners.reshape(-1, size))
        outputs = outputs.reshape(*corners.shape[:2], -1)
        return np.asarray((outputs[..., [label]] - outputs).min(1))

    def _gaps_in_table(self, letters: Support, low: Array, high: Array, label: int) -> Array:
        if (letters, label) not in self._tables:
            self._tables[letters, label] = self._table(letters, label)
        table, spec = self._tables[letters, label], self.spec
        cls = np.full((len(low), 1), float(spec.attend_cls))
        light, heavy = (np.hstack([cls, end])[:, None] for end in (low, high))
        if spec.log_n:
            # Scores are at most 0, so a weight n^score is largest for the shortest length.
            least, most = (np.log(end.sum(1) + spec.cls_counted) for end in (low, high))
            light = light * np.exp(table.scores * most[:, None, None])
            heavy = heavy * np.exp(table.scores * least[:, None, None])
        else:
            light, heavy = (end * np.exp(table.scores) for end in (light, heavy))
        return table.gaps(light, heavy)

    def _table(self, letters: Support, label: int) -> _Table:
        spec, weights = self.spec, self._weights
        x, heads = self._first_layer(letters)
        columns, offsets = weights["unembed.W_U"], self._bias("unembed.b_U")
        if spec.n_outputs == 1:
            columns = np.insert(columns, 0, 0.0, axis=1)
            offsets = np.append(0.0, offsets)
        apart = columns[:, [label]] - columns
        own = x[0] + (self._bias("blocks.0.attn.b_O") if spec.n_heads else 0.0)
        late = self._bias("blocks.0.mlp.b_out") if spec.d_mlp else 0.0
        constant = (own + late) @ apart + (offsets[label] - offsets if spec.biases else 0.0)
        inner, outer, pre = apart[:, :0], apart[:0], np.zeros(0)
        if spec.d_mlp:
            inner, outer = weights["blocks.0.mlp.W_in"], weights["blocks.0.mlp.W_out"] @ apart
            pre = own @ inner + self._bias("blocks.0.mlp.b_in")
        scores = np.zeros((spec.n_heads, len(x)))
        values = np.zeros((spec.n_heads, len(x), inner.shape[1] + apart.shape[1]))
        for head, (rows, added) in enumerate(heads):
            scores[head] = rows[0] - rows[0].max()
            values[head] = added @ np.hstack([inner, apart])
        return _Table(scores, values, np.append(pre, constant), outer, spec.act_fn)


@dataclass(frozen=True)
class _Table:
    """One layer on one support: channels are neurons, then differences of outputs.

    scores [head token], values [head token channel], constant [channel], outer [neuron class]
    """

    scores: Array
    values: Array
    constant: Array
    outer: Array
    act_fn: str

    def gaps(self, light: Array, heavy: Array) -> Array:
        """The least of each difference, from ranges of weights `[box head token]`."""
        high = self.constant + _largest_means(light, heavy, self.values).sum(1)
        low = self.constant - _largest_means(light, heavy, -self.values).sum(1)
        neurons = len(self.outer)
        act, dip, least = ACTIVATIONS[self.act_fn]
        ends = act(low[:, :neurons]), act(high[:, :neurons])
        dips = (low[:, :neurons] < dip) & (high[:, :neurons] > dip)
        bottom = np.where(dips, least, np.minimum(*ends))
        up, down = np.maximum(self.outer, 0.0), np.minimum(self.outer, 0.0)
        return np.asarray(low[:, neurons:] + bottom @ up + np.maximum(*ends) @ down)


def _largest_means(light: Array, heavy: Array, values: Array) -> Array:
    """The largest Σ w v / Σ w of each head and channel, `[box head channel]`.

    Tokens valued above the mean weigh as much as they can and others as little: one of the ways to
    cut the order of the values in two.
    """
    values = np.swapaxes(values, 1, 2)
    order = np.argsort(values, axis=-1)
    ranked = np.take_along_axis(values, order, -1)
    heads = np.arange(len(values))[:, None, None]
    light, heavy = light[:, heads, order], heavy[:, heads, order]
    below, below_sum = np.cumsum(light, -1), np.cumsum(light * ranked, -1)
    above, above_sum = heavy[..., -1], heavy[..., -1] * ranked[..., -1]
    best = np.full(above.shape, -np.inf) if ranked.shape[-1] > 1 else ranked[None, ..., 0]
    for cut in range(ranked.shape[-1] - 2, -1, -1):
        best = np.fmax(best, (above_sum + below_sum[..., cut]) / (above + below[..., cut]))
        above = above + heavy[..., cut]
        above_sum = above_sum + heavy[..., cut] * ranked[..., cut]
    return np.asarray(best)
