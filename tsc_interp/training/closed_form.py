"""Logits and exact gradients of many small classifiers at once, on flat NumPy arrays.

For one layer without norms or positions only CLS's read-out matters, and a string is its counts.
Nearly all of the model then lies in products of weights, in which no string takes part:
F = rows @ columns (flat_weights.py) holds q, every letter's keys and values, W_O [W_in W_U],
CLS [W_in W_U] and W_out W_U. What is left per string is, with weights u_j = exp(score_j),
multiplicities m, and one z per head,

    z = sum_j m_j u_j v_j / sum_j m_j u_j
    (pre, direct) = (W_O z + CLS) [W_in W_U]
    logit = direct + gelu(pre) W_out W_U

so arrays over strings are as wide as heads and MLP, never as d_model, and all models share m.
Where scores grow with log n (times a factor each head learns, with SSMax), u depends on the string,
and every string gets its own pattern of attention. The gradient is the same chain backwards: it is
collected in dF, which gives every weight's gradient by two more products.
`tests/training/test_engines.py` compares it with autograd on `model.forward`.

A model's numbers come from its own slices alone, so they do not depend on who else is trained.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.strings import FIRST_LETTER, Counts
from tsc_interp.training.flat_weights import Array, FlatWeights
from tsc_interp.training.losses import Loss

# exp(±75) is far inside float32's range; with a larger gap between scores u cannot be used.
_LARGEST_SCORE_GAP = 150.0
_ROOT_HALF = math.sqrt(0.5)
_NORMAL_DENSITY = 1 / math.sqrt(2 * math.pi)


def covers(config: ClassifierConfig) -> bool:
    """Whether this configuration has the closed form."""
    return (
        config.n_layers == 1
        and config.has_attention
        and not (config.has_norm or config.has_positions or config.dropout)
        and not config.replace(score_scale="sqrt_d_head").beyond_report
    )


class ClosedForm(FlatWeights):
    """The engine for configurations that `covers` accepts."""

    uses_tokens = False
    one_at_a_time = False

    def __init__(self, config: ClassifierConfig, loss: Loss) -> None:
        super().__init__(config)
        self._loss = loss
        self._scale = np.float32(1 / math.sqrt(config.d_head))
        self._workspaces: dict[tuple[int, int], _Workspace] = {}

    # -- strings -----------------------------------------------------------------------------

    def prepare(self, counts: Counts) -> Array:
        """Strings as multiplicities `[key, string]`."""
        letters = counts.T.astype(np.float32, order="C")
        if not self.config.attend_cls:
            return letters
        cls_and_pad = np.repeat(np.array([[1.0], [0.0]], dtype=np.float32), len(counts), axis=1)
        return np.concatenate([cls_and_pad, letters])

    def logits(self, flat: Array, strings: Array) -> Array:
        """`[model, string]`."""
        workspace = self._workspace(len(flat), strings.shape[1])
        return workspace.forward(*self.split(flat), strings, self.factors(flat)).copy()

    def gradient(self, flat: Array, strings: Array, labels: Array) -> tuple[Array, Array]:
        """The mean loss's gradient `[model, parameter]`, and the logits `[model, string]`.

        The gradient is overwritten by the next call.
        """
        workspace = self._workspace(len(flat), strings.shape[1])
        rows, columns = self.split(flat)
        logits = workspace.forward(rows, columns, strings, self.factors(flat)).copy()
        return workspace.backward(rows, columns, self._loss.gradient(logits, labels)), logits

    def _workspace(self, models: int, strings: int) -> _Workspace:
        workspace = self._workspaces.get((models, strings))
        if workspace is None:
            # Models have left: what was laid out for more of them is not needed again.
            self._workspaces = {key: w for key, w in self._workspaces.items() if key[0] == models}
            workspace = self._workspaces[models, strings] = _Workspace(self, models, strings)
        return workspace


class _Workspace:
    """Arrays for so many models and strings, laid out once, and both passes over them.

    A step is some fifty operations on small arrays, so what it costs is mostly the making of arrays
    and views. All of them are made here; the passes only compute.
    """

    def __init__(self, engine: ClosedForm, models: int, strings: int) -> None:
        config, width = engine.config, engine.width
        n, h, k, mlp = models, config.n_heads, config.d_head, config.d_mlp
        self._d_head, self._mlp, self._scale = k, mlp, engine._scale
        self._grows, self._cls_counted = config.log_n, config.cls_counted
        self._letters = FIRST_LETTER if config.attend_cls else 0  # where they begin among keys

        def empty(*shape: int) -> Array:
            return np.empty(shape, dtype=np.float32)

        def heads(part: Array) -> Array:
            """`[model, key, head and place]` as `[model, head, place, key]`."""
            return part.reshape(n, -1, h, k).transpose(0, 2, 3, 1)

        # F and its derivative, whose entries that no logit depends on stay zero.
        self._products = empty(n, engine.n_rows, engine.n_columns)
        self._d_products = np.zeros_like(self._products)
        self._at, self._d_at = (
            {
                "q": products[:, engine.cls, :width].reshape(n, h, k, 1),
                "k": heads(products[:, engine.keys, width : 2 * width]),
                "v": heads(products[:, engine.keys, 2 * width : 3 * width]),
                "mixing": products[:, engine.mixed, engine.read],
                "out": products[:, engine.mlp_out, -1],
            }
            for products in (self._products, self._d_products)
        )
        keys = self._at["k"].shape[-1]
        # Per key: scores, and u with u v_1, ..., u v_k behind it, so that one product gives both
        # the denominator and the numerators of z.
        self._q = empty(n, h, k, 1)
        self._by_key = empty(n, h, k, keys)
        self._scores, self._d_scores = empty(n, h, 1, keys), empty(n, h, 1, keys)
        self._u_uv = empty(n, h, 1 + k, keys)
        self._u, self._uv = self._u_uv[:, :, :1], self._u_uv[:, :, 1:]
        self._d_v = empty(n, h, k, keys)
        # Per string: the sums, z with a last row of ones that stands for CLS, and what is read.
        self._sums, self._d_sums = empty(n, h, 1 + k, strings), empty(n, h, 1 + k, strings)
        self._z = np.ones((n, width + 1, strings), dtype=np.float32)
        self._z_heads = self._z[:, :-1].reshape(n, h, k, strings)
        self._d_z = empty(n, h, k, strings)
        self._read, self._d_read = empty(n, mlp + 1, strings), empty(n, mlp + 1, strings)
        self._pre, self._d_pre = self._read[:, :mlp], self._d_read[:, :mlp]
        self._phi, self._post = empty(n, mlp, strings), empty(n, mlp, strings)
        self._phi_torch = torch.from_numpy(self._phi)
        self._logits = empty(n, 1, strings)
        self._d_flat = empty(n, engine.size)
        self._d_rows, self._d_columns = engine.split(self._d_flat)
        self._d_factors = engine.factors(self._d_flat)
        self._far: NDArray[np.intp] | None = None

    def forward(self, rows: Array, columns: Array, strings: Array, factors: Array) -> Array:
        """Logits `[model, string]`, overwritten by the next call."""
        self._strings, at = strings, self._at
        np.matmul(rows, columns, out=self._products)
        np.multiply(at["q"], self._scale, out=self._q)
        np.multiply(self._q, at["k"], out=self._by_key)
        scores = _sum_over_head(self._by_key, self._scores)
        if self._grows:
            self._attend_stretched(factors)
        else:
            self._attend(scores)
        np.matmul(at["mixing"].transpose(0, 2, 1), self._z, out=self._read)
        if not self._mlp:
            return self._read[:, 0]
        np.multiply(self._pre, _ROOT_HALF, out=self._phi)
        self._phi_torch.erf_()  # several times as fast as SciPy's
        self._phi += 1.0
        self._phi *= 0.5
        np.multiply(self._pre, self._phi, out=self._post)
        np.matmul(at["out"][:, None], self._post, out=self._logits)
        self._logits += self._read[:, -1:]
        return self._logits[:, 0]

    def _attend(self, scores: Array) -> None:
        high, low = _extremes(scores)
        np.subtract(scores, 0.5 * (high + low), out=self._u)
        np.exp(self._u, out=self._u)
        np.multiply(self._u, self._at["v"], out=self._uv)
        np.matmul(_flat(self._u_uv), self._strings, out=_flat(self._sums))
        np.divide(self._sums[:, :, 1:], self._sums[:, :, :1], out=self._z_heads)
        self._far = None
        if (high - low).max() > _LARGEST_SCORE_GAP:
            self._attend_far(high - low)

    def backward(self, rows: Array, columns: Array, d_logits: Array) -> Array:
        """The gradient `[model, parameter]`, given the loss's derivative by each logit."""
        at, d_at = self._at, self._d_at
        self._d_read[:, -1] = d_logits
        if self._mlp:
            np.matmul(self._post, d_logits[:, :, None], out=d_at["out"][:, :, None])
            # gelu'(x) = Phi(x) + x phi(x)
            d_pre = self._d_pre
            np.multiply(self._pre, self._pre, out=d_pre)
            d_pre *= -0.5
            np.exp(d_pre, out=d_pre)
            d_pre *= _NORMAL_DENSITY
            d_pre *= self._pre
            d_pre += self._phi
            d_pre *= at["out"][:, :, None]
            d_pre *= d_logits[:, None]
        np.matmul(self._z, self._d_read.transpose(0, 2, 1), out=d_at["mixing"])
        np.matmul(at["mixing"][:, :-1], self._d_read, out=_heads_flat(self._d_z))
        d_scores = self._stretched_gradient() if self._grows else self._gradient()
        d_at["v"][...] = self._d_v
        np.multiply(self._q, d_scores, out=d_at["k"])
        np.multiply(at["k"], d_scores, out=self._by_key)
        np.multiply(self._by_key.sum(-1, keepdims=True), self._scale, out=d_at["q"])
        np.matmul(self._d_products, columns.transpose(0, 2, 1), out=self._d_rows)
        np.matmul(rows.transpose(0, 2, 1), self._d_products, out=self._d_columns)
        return self._d_flat

    def _gradient(self) -> Array:
        """By scores, given dz; by values, in `_d_v`."""
        # dz / denominator, and in front of it the sum over the head of z dz / denominator.
        d_quotients = self._d_sums[:, :, 1:]
        np.divide(self._d_z, self._sums[:, :, :1], out=d_quotients)
        if self._d_head == 1:
            np.multiply(self._z_heads, d_quotients, out=self._d_sums[:, :, :1])
        else:
            (self._z_heads * d_quotients).sum(2, keepdims=True, out=self._d_sums[:, :, :1])
        d_u_uv = (_flat(self._d_sums) @ self._strings.T).reshape(self._u_uv.shape)
        np.multiply(self._u, d_u_uv[:, :, 1:], out=self._d_v)
        np.multiply(self._at["v"], self._d_v, out=self._by_key)
        d_scores = _sum_over_head(self._by_key, self._d_scores)
        d_scores -= self._u * d_u_uv[:, :, :1]
        if self._far is not None:
            self._far_gradient(d_scores)
        return d_scores

    def _attend_stretched(self, factors: Array) -> None:
        """Scores times log n, which is another number for every string."""
        self._log_n = np.log(self._strings[self._letters :].sum(0) + np.float32(self._cls_counted))
        self._factors = factors[:, :, None, None] if factors.size else None
        scores = self._scores if self._factors is None else self._scores * self._factors
        shifted = scores.transpose(0, 1, 3, 2) * self._log_n
        with np.errstate(divide="ignore"):  # a letter that does not occur
            shifted += np.log(self._strings)
        shifted -= shifted.max(2, keepdims=True)
        np.exp(shifted, out=shifted)
        shifted /= shifted.sum(2, keepdims=True)
        self._pattern = shifted
        np.matmul(self._at["v"], shifted, out=self._z_heads)

    def _stretched_gradient(self) -> Array:
        """The same for scores times log n, and by SSMax's factors."""
        np.matmul(self._d_z, self._pattern.transpose(0, 1, 3, 2), out=self._d_v)
        towards = self._at["v"].transpose(0, 1, 3, 2) @ self._d_z
        towards -= (self._z_heads * self._d_z).sum(2, keepdims=True)
        towards *= self._pattern
        towards *= self._log_n
        d_scores = towards.sum(-1)[:, :, None]
        if self._factors is not None:
            self._d_factors[...] = (d_scores * self._scores).sum((2, 3))
            d_scores *= self._factors
        return np.asarray(d_scores)

    def _attend_far(self, gaps: Array) -> None:
        """Overwrite z where u has no room for the scores: each string's largest is subtracted."""
        self._far = far = np.flatnonzero((gaps > _LARGEST_SCORE_GAP).any((1, 2, 3)))
        shifted = self._scores[far].transpose(0, 1, 3, 2) + np.log(self._strings)
        shifted -= shifted.max(2, keepdims=True)
        weights = np.exp(shifted)
        self._pattern = weights / weights.sum(2, keepdims=True)
        self._z_heads[far] = np.einsum("nhjb,nhkj->nhkb", self._pattern, self._at["v"][far])

    def _far_gradient(self, d_scores: Array) -> None:
        """Overwrite what was computed from u there."""
        far, pattern, d_z = self._far, self._pattern, self._d_z[self._far]
        self._d_v[far] = np.einsum("nhjb,nhkb->nhkj", pattern, d_z)
        towards = np.einsum("nhkj,nhkb->nhjb", self._at["v"][far], d_z)
        mean = (self._z_heads[far] * d_z).sum(2)
        d_scores[far, :, 0] = (pattern * (towards - mean[:, :, None])).sum(-1)


def _flat(array: Array) -> Array:
    """`[model, head, place, ...]` as one matrix."""
    return array.reshape(-1, array.shape[-1])


def _heads_flat(array: Array) -> Array:
    """`[model, head, place, string]` as `[model, head and place, string]`."""
    return array.reshape(len(array), -1, array.shape[-1])


def _sum_over_head(products: Array, out: Array) -> Array:
    """Sum `[model, head, place, key]` over places; with one place there is nothing to add."""
    if products.shape[2] > 1:
        return products.sum(2, keepdims=True, out=out)
    out[...] = products
    return out


def _extremes(scores: Array) -> tuple[Array, Array]:
    """The largest and smallest score of each head; a handful of keys is faster one by one."""
    high = low = scores[..., :1]
    for key in range(1, scores.shape[-1]):
        score = scores[..., key : key + 1]
        high, low = np.maximum(high, score), np.minimum(low, score)
    return high, low
