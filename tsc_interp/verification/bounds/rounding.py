"""How far the float32 model's logit can be from the real one, whatever the order of its sums.

A float32 sum depends on its order, which depends on the library, its threads and the batch. So the
bound is for every order at once. With u = 2^-24, a sum of k products in any order, with or without
fused multiply-adds, is off by at most γ_k = k u / (1 - k u) times the sum of their absolute values;
other operations by u of their result. Of torch's `exp`, `erf`, `tanh` and `log` it is assumed that
they are good to 4 units in the last place, which is 8 u of their result, and that products are of
float32 numbers: no TF32, no bfloat16.

From the weights alone follows a bound for all strings of at most n letters, as tokens (one key per
letter, so sums grow with n) or compressed (one key per kind of letter). One layer without norms,
read at CLS: norms divide by what may be small, and are refused.

A float32 program computes the keys and values of masked tokens, too: PAD's, and CLS's where it is
not attended to. If one of them may overflow, there is no bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.verification.bounds.intervals import Array

Form = Literal["tokens", "compressed"]

_U = 2.0**-24
_TINY = 2.0**-120
"""More than underflow can do to one operation."""
_LARGEST = 2.0**126
"""Beyond, float32 sums may overflow: then nothing is known of what is computed."""
_ACTIVATION = {"gelu": 8.0, "gelu_new": 24.0, "silu": 12.0, "relu": 0.0}
"""Units of |x| by which torch's activations may be off, for x without error."""
_SLOPE = 1.2
_EXP = 10.0
"""Units of a weight, twice over, for it and for the sum it is divided by: exp, and the division."""
_LOG = 10.0
"""Units of a score times log n: the log, the product, and n as a float32 number."""


def _gamma(terms: float) -> float:
    reach = terms * _U
    return reach / (1 - reach) if reach < 0.25 else np.inf


@dataclass(frozen=True)
class _Known:
    """A vector: how large each real component can be, and how far off the computed one."""

    size: Array
    error: Array

    def times(self, matrix: Array, bias: Array | None, size: Array | None = None) -> _Known:
        """x @ matrix (+ bias). `size`, where it is known better than from the sizes."""
        wide = np.abs(matrix)
        reach = (self.size + self.error) @ wide
        terms = len(matrix) + 1
        if bias is not None:
            reach, terms = reach + np.abs(bias), terms + 1
        error = self.error @ wide + _gamma(terms) * reach + terms * _TINY
        error = np.where(reach < _LARGEST, error, np.inf)
        return _Known(reach if size is None else size, error)

    def plus(self, other: _Known) -> _Known:
        size, error = self.size + other.size, self.error + other.error
        error = np.where(size < _LARGEST, error + _U * (size + error) + _TINY, np.inf)
        return _Known(size, error)


class Rounding:
    """Bounds on the float32 error of one model's logits."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        checkpoint = checkpoint.expanded()
        config = checkpoint.config
        if config.n_layers > 1 or config.has_norm:
            raise UnsupportedError(
                "the rounding of a float32 model is bounded for one layer without norms; norms and "
                "several layers are not"
            )
        beyond = (
            ("positions", *config.beyond_counts) if config.needs_order else config.beyond_counts
        )
        if beyond:
            raise UnsupportedError(f"float32 rounding is not bounded with {', '.join(beyond)}")
        self.config = config
        self.w: Mapping[str, Array] = {
            name: array.astype(np.float64) for name, array in checkpoint.weights.items()
        }
        self.x = self.w["embed.W_E"]
        letters = range(FIRST_LETTER, config.alphabet.vocab_size)
        self.attended = [CLS, *letters] if config.attend_cls else [*letters]
        self._bounds: dict[tuple[Form, int], float] = {}

    def bound(self, length: int, form: Form) -> float:
        """|computed - real| of the logit of any string of at most so many letters.

        With several outputs, of the difference of any two of them.

        Taken at the next power of two (or half-way to it): a few lengths stand for all.
        """
        step = 1 << max(length - 1, 0).bit_length()
        step = step * 3 // 4 if length <= step * 3 // 4 else step
        if (form, step) not in self._bounds:
            with np.errstate(all="ignore"):
                bound = self._bound(float(step), form) * (1 + 1e-6)
            self._bounds[form, step] = bound if np.isfinite(bound) else np.inf
        return self._bounds[form, step]

    def _bias(self, name: str) -> Array | None:
        return self.w[name] if self.config.biases else None

    def _bound(self, length: float, form: Form) -> float:
        config, w = self.config, self.w
        state = _Known(np.abs(self.x[CLS]), np.zeros(config.d_model))
        if config.has_attention:
            state = state.plus(self._attention(length, form))
        if config.has_mlp:
            pre = state.times(w["blocks.0.mlp.W_in"], self._bias("blocks.0.mlp.b_in"))
            error = _SLOPE * pre.error + _ACTIVATION[config.act_fn] * _U * (pre.size + pre.error)
            post = _Known(pre.size, error + _TINY)
            out = post.times(w["blocks.0.mlp.W_out"], self._bias("blocks.0.mlp.b_out"))
            state = state.plus(out)
        read = state.times(w["unembed.W_U"], self._bias("unembed.b_U"))
        # What is compared is one output with zero, or any two of several with each other.
        return float(np.sort(read.error)[-2:].sum())

    def _attention(self, length: float, form: Form) -> _Known:
        """What all heads write, in every component the largest over all tokens."""
        config, w = self.config, self.w
        heads = [self._head(head, length, form) for head in range(config.n_heads)]
        mixed = _Known(
            np.concatenate([head.size for head in heads]),
            np.concatenate([head.error for head in heads]),
        )
        out = w["blocks.0.attn.W_O"].reshape(-1, config.d_model)
        return mixed.times(out, self._bias("blocks.0.attn.b_O"))

    def _head(self, head: int, length: float, form: Form) -> _Known:
        q = self._projected("Q", head, self.x[CLS : CLS + 1])
        k = self._projected("K", head, self.x)
        v = self._projected("V", head, self.x)
        errors, gaps = self._scores(q, k, length)
        # 0 · inf and inf - inf are not numbers: what is masked must not overflow either.
        if not (np.isfinite(errors).all() and np.isfinite(v.error).all()):
            return _Known(v.size.max(0), np.full(self.config.d_head, np.inf))
        score_error, gap = float(errors[self.attended].max()), float(gaps[self.attended].max())
        v = _Known(v.size[self.attended], v.error[self.attended])
        most = length + 1.0
        if form == "compressed":
            most, repeats = 1.0 + self.config.n_letters, float(np.log(length))
            score_error += _U * (gap + 5 * repeats)
            gap += repeats
        # exp makes an absolute error of a score a relative one of a weight, and of their sum.
        moved = float(np.expm1(2 * (score_error + _U * gap)))
        relative = (1 + moved) * (1 + 2 * _gamma(most) + 2 * _EXP * _U) - 1
        if not relative < 0.5:
            return _Known(v.size.max(0), np.full(self.config.d_head, np.inf))
        size = v.size.max(0)
        error = v.error.max(0) * (1 + relative)
        error += (size + error) * (relative + 2 * _gamma(most + 1))
        # A weight below float32's range is lost, or good to that range.
        return _Known(size, error + most * _TINY * (1 + size))

    def _projected(self, part: str, head: int, rows: Array) -> _Known:
        """Queries, keys or values of these tokens, their real sizes known."""
        name = f"blocks.0.attn.{{}}_{part}"
        matrix = self.w[name.format("W")][head]
        bias = self.w[name.format("b")][head] if self.config.biases else None
        real = rows @ matrix + (0.0 if bias is None else bias)
        inputs = _Known(np.abs(rows), np.zeros_like(rows))
        # (float64 knows the real sizes to far less than the slack that follows.)
        return inputs.times(matrix, bias, np.abs(real) * (1 + 1e-9) + _TINY)

    def _scores(self, q: _Known, k: _Known, length: float) -> tuple[Array, Array]:
        """Each token's error of its score, and twice the size: no two are further apart."""
        products = (q.size + q.error) * (k.size + k.error)
        moved = q.error * k.size + q.size * k.error + q.error * k.error
        terms = self.config.d_head + 1
        error = (moved + _gamma(terms) * products).sum(-1) + terms * _TINY
        size = (q.size * k.size).sum(-1)
        root = self.config.score_divisor
        size, error = size / root, error / root + 3 * _U * (size + error) / root
        if self.config.log_n:
            log_n = np.log(max(length + self.config.cls_counted, 2.0))
            size, error = size * log_n, error * log_n + _LOG * _U * (size + error) * log_n
        within = (products.sum(-1) < _LARGEST) & (size < _LARGEST)
        return np.where(within, error, np.inf), 2 * (size + error)
