"""Logits and exact gradients of many small classifiers at once, on flat NumPy arrays.

For one layer without norms or positions only CLS's read-out matters, and a string is its counts.
Nearly all of the model then lies in products of weights, in which no string takes part:

    rows      W_O, W_E, W_out                  vectors in d_model
    columns   W_Q, W_K, W_V, W_in, W_U         vectors in d_model
    F = rows @ columns

F holds q, every letter's keys and values, W_O [W_in W_U], CLS [W_in W_U] and W_out W_U. What is
left per string is, with weights u_j = exp(score_j), multiplicities m, and one z per head,

    z = sum_j m_j u_j v_j / sum_j m_j u_j
    (pre, direct) = (W_O z + CLS) [W_in W_U]
    logit = direct + gelu(pre) W_out W_U

so arrays over strings are as wide as heads and MLP, never as d_model, and all models share m. The
gradient is the same chain backwards: it is collected in dF, which gives every weight's gradient by
two more products. `tests/test_training_engines.py` holds it equal to autograd on `model.forward`.

A model's numbers come from its own slices alone, so they do not depend on who else is trained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from tsc_interp.checkpoints.format import WeightArrays
from tsc_interp.config import ClassifierConfig
from tsc_interp.strings import FIRST_LETTER, Counts
from tsc_interp.training.losses import Loss

Array = NDArray[np.float32]

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
        and config.score_scale == "sqrt_d_head"
    )


class ClosedForm:
    """The engine for configurations that `covers` accepts."""

    uses_tokens = False
    one_at_a_time = False

    def __init__(self, config: ClassifierConfig, loss: Loss) -> None:
        self.config = config
        self._loss = loss
        heads, letters, mlp = config.n_heads * config.d_head, config.n_letters, config.d_mlp
        vocab = FIRST_LETTER + letters
        self._width = heads
        # Rows: W_O, then the embeddings in token order (CLS, PAD, letters), then W_out.
        self._cls = heads
        self._tokens = slice(heads, heads + vocab)
        self._mixed = slice(0, heads + 1)  # what CLS's residual stream is a sum of
        self._keys = slice(heads if config.attend_cls else heads + FIRST_LETTER, heads + vocab)
        self._mlp_out = slice(heads + vocab, heads + vocab + mlp)
        self._n_rows = heads + vocab + mlp
        # Columns: W_Q, W_K, W_V, W_in, W_U.
        self._read = slice(3 * heads, 3 * heads + mlp + 1)
        self._n_columns = 3 * heads + mlp + 1
        self._scale = np.float32(1 / math.sqrt(config.d_head))
        self._buffers: dict[int, Array] = {}

    # -- weights as one flat vector per model ------------------------------------------------

    def pack(self, many: Sequence[WeightArrays]) -> Array:
        """Named weights to `[model, parameter]`."""
        size = (self._n_rows + self._n_columns) * self.config.d_model
        flat = np.zeros((len(many), size), dtype=np.float32)
        for index, weights in enumerate(many):
            for name, view in self._named(flat, index).items():
                view[...] = weights[name]
        return flat

    def unpack(self, flat: Array) -> list[dict[str, Array]]:
        """`[model, parameter]` to named weights."""
        return [
            {name: view.copy() for name, view in self._named(flat, index).items()}
            for index in range(len(flat))
        ]

    def _named(self, flat: Array, index: int) -> dict[str, Array]:
        """One model's weights as views into the flat array."""
        d, h, k = self.config.d_model, self.config.n_heads, self.config.d_head
        rows, columns = (part[index] for part in self._split(flat))
        parts = columns[:, : 3 * self._width].reshape(d, 3, h, k).transpose(1, 2, 0, 3)
        named = {"embed.W_E": rows[self._tokens]}
        named |= {f"blocks.0.attn.W_{name}": parts[i] for i, name in enumerate("QKV")}
        named["blocks.0.attn.W_O"] = rows[: self._width].reshape(h, k, d)
        if self.config.has_mlp:
            named["blocks.0.mlp.W_in"] = columns[:, self._read][:, :-1]
            named["blocks.0.mlp.W_out"] = rows[self._mlp_out]
        named["unembed.W_U"] = columns[:, -1:]
        return named

    def _split(self, flat: Array) -> tuple[Array, Array]:
        d, boundary = self.config.d_model, self._n_rows * self.config.d_model
        return (
            flat[:, :boundary].reshape(-1, self._n_rows, d),
            flat[:, boundary:].reshape(-1, d, self._n_columns),
        )

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
        rows, columns = self._split(flat)
        return _Pass(self, rows @ columns, strings).logits

    def gradient(self, flat: Array, strings: Array, labels: Array) -> tuple[Array, Array]:
        """The mean loss's gradient `[model, parameter]`, and the logits `[model, string]`."""
        rows, columns = self._split(flat)
        products = rows @ columns
        forward = _Pass(self, products, strings)
        d_products = self._buffers.get(len(flat))
        if d_products is None:  # entries of F that no logit depends on stay zero
            d_products = self._buffers[len(flat)] = np.zeros_like(products)
        d_logits = self._loss.gradient(forward.logits, labels)
        forward.backward(d_logits, d_products)
        gradient = np.empty_like(flat)
        d_rows, d_columns = self._split(gradient)
        np.matmul(d_products, columns.transpose(0, 2, 1), out=d_rows)
        np.matmul(rows.transpose(0, 2, 1), d_products, out=d_columns)
        return gradient, forward.logits


class _Pass:
    """One forward pass over F `[model, row, column]`, and the way back."""

    def __init__(self, engine: ClosedForm, products: Array, strings: Array) -> None:
        config, width = engine.config, engine._width
        n, h, k, mlp = len(products), config.n_heads, config.d_head, config.d_mlp
        self._engine, self._products, self._strings = engine, products, strings
        keys = products[:, engine._keys]
        self._q = products[:, engine._cls, :width].reshape(n, h, k, 1) * engine._scale
        self._k = keys[:, :, width : 2 * width].transpose(0, 2, 1).reshape(n, h, k, -1)
        v = keys[:, :, 2 * width : 3 * width].transpose(0, 2, 1).reshape(n, h, k, -1)
        scores = (self._q * self._k).sum(2)
        high, low = scores.max(-1, keepdims=True), scores.min(-1, keepdims=True)
        # Denominator and numerators of z in one product: rows u, u v_1, ..., u v_k per head.
        self._u_uv = np.empty((n, h, 1 + k, v.shape[-1]), dtype=np.float32)
        u = np.exp(scores - 0.5 * (high + low), out=self._u_uv[:, :, 0])
        np.multiply(u[:, :, None], v, out=self._u_uv[:, :, 1:])
        self._v = v
        sums = self._u_uv.reshape(n * h * (1 + k), -1) @ strings
        sums = sums.reshape(n, h, 1 + k, -1)
        self._denominator = sums[:, :, :1]
        # A last row of ones stands for CLS itself.
        self._z = np.empty((n, width + 1, strings.shape[1]), dtype=np.float32)
        self._z[:, -1] = 1.0
        self._z_heads = self._z[:, :-1].reshape(n, h, k, -1)
        np.divide(sums[:, :, 1:], self._denominator, out=self._z_heads)
        self._far = np.flatnonzero((high - low > _LARGEST_SCORE_GAP).any((1, 2)))
        if self._far.size:
            self._far_pattern = _pattern(scores[self._far], strings)
            self._z_heads[self._far] = np.einsum("nhjb,nhkj->nhkb", self._far_pattern, v[self._far])
        self._mixing = products[:, engine._mixed, engine._read]
        read = self._mixing.transpose(0, 2, 1) @ self._z
        if not mlp:
            self.logits: Array = read[:, 0]
            return
        self._pre = read[:, :mlp]
        self._phi = _normal_distribution(self._pre)
        self._post = self._pre * self._phi
        self._out = products[:, engine._mlp_out, -1]
        self.logits = (self._out[:, None] @ self._post)[:, 0]
        self.logits += read[:, mlp]

    def backward(self, d_logits: Array, d_products: Array) -> None:
        """Fill dF, given the loss's derivative by each logit."""
        engine, config, width = self._engine, self._engine.config, self._engine._width
        n, h, k, mlp = len(d_logits), config.n_heads, config.d_head, config.d_mlp
        d_read = np.empty((n, mlp + 1, d_logits.shape[1]), dtype=np.float32)
        d_read[:, mlp] = d_logits
        if mlp:
            d_products[:, engine._mlp_out, -1] = (self._post @ d_logits[:, :, None])[:, :, 0]
            d_pre = d_read[:, :mlp]
            np.multiply(self._pre, self._pre, out=d_pre)
            d_pre *= -0.5
            np.exp(d_pre, out=d_pre)
            d_pre *= _NORMAL_DENSITY
            d_pre *= self._pre
            d_pre += self._phi
            d_pre *= self._out[:, :, None]
            d_pre *= d_logits[:, None]
        d_products[:, engine._mixed, engine._read] = self._z @ d_read.transpose(0, 2, 1)
        # dz / denominator, and in front of it the sum over the head of z dz / denominator.
        d_sums = np.empty((n, h, 1 + k, d_logits.shape[1]), dtype=np.float32)
        d_z = (self._mixing[:, :-1] @ d_read).reshape(n, h, k, -1)
        np.divide(d_z, self._denominator, out=d_sums[:, :, 1:])
        (self._z_heads * d_sums[:, :, 1:]).sum(2, out=d_sums[:, :, 0])
        d_u_uv = d_sums.reshape(n * h * (1 + k), -1) @ self._strings.T
        d_u_uv = d_u_uv.reshape(n, h, 1 + k, -1)
        u = self._u_uv[:, :, :1]
        d_v = u * d_u_uv[:, :, 1:]
        d_scores = (self._v * d_v).sum(2, keepdims=True) - u * d_u_uv[:, :, :1]
        if self._far.size:
            self._far_gradient(d_z, d_v, d_scores)
        keys = d_products[:, engine._keys]
        keys[:, :, 2 * width : 3 * width] = d_v.reshape(n, width, -1).transpose(0, 2, 1)
        d_k = self._q * d_scores
        keys[:, :, width : 2 * width] = d_k.reshape(n, width, -1).transpose(0, 2, 1)
        d_q = (self._k * d_scores).sum(-1) * engine._scale
        d_products[:, engine._cls, :width] = d_q.reshape(n, width)

    def _far_gradient(self, d_z: Array, d_v: Array, d_scores: Array) -> None:
        """Overwrite what was computed from u where u has no room for the scores."""
        far, pattern, d_far = self._far, self._far_pattern, d_z[self._far]
        d_v[far] = np.einsum("nhjb,nhkb->nhkj", pattern, d_far)
        towards = np.einsum("nhkj,nhkb->nhjb", self._v[far], d_far)
        mean = (self._z_heads[far] * d_far).sum(2)
        d_scores[far, :, 0] = (pattern * (towards - mean[:, :, None])).sum(-1)


def _pattern(scores: Array, strings: Array) -> Array:
    """Attention `[model, head, key, string]`, each string's largest score subtracted first."""
    with np.errstate(divide="ignore"):
        shifted = scores[..., None] + np.log(strings)
    shifted -= shifted.max(2, keepdims=True)
    weights = np.exp(shifted)
    return np.asarray(weights / weights.sum(2, keepdims=True))


def _normal_distribution(x: Array) -> Array:
    """The standard normal distribution function; torch's erf is several times SciPy's speed."""
    phi = x * np.float32(_ROOT_HALF)
    torch.erf(torch.from_numpy(phi), out=torch.from_numpy(phi))
    phi += np.float32(1.0)
    phi *= np.float32(0.5)
    return phi
