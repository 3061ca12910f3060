"""A support of any classifier without positions: several layers, norms before the MLP.

Copies of a letter share their state in every layer, so one state per token of the support is
enough at any depth. States are float64 intervals (intervals.py): the same code encloses the logit
of one count vector (weights without width) and of a whole box. Wider boxes lose the correlations
between layers, so bounds are sound but loose, and deeper models need more boxes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.verification.bounds.activations import ACTIVATIONS
from tsc_interp.verification.bounds.exact import LOGIT, Pair
from tsc_interp.verification.bounds.intervals import (
    Array,
    Interval,
    add,
    exp_bounds,
    in_slices,
    mean_bounds,
    multiply,
    outward,
    square,
    sure,
    times_matrix,
)


class LayeredSupport:
    """The classifier restricted to the strings over exactly these letters.

    `weights` are the checkpoint's in float64, shared by all supports of a model; `pair` are the two
    outputs whose difference is bounded (of a single output, it and the zero before it).
    """

    def __init__(
        self,
        config: ClassifierConfig,
        weights: Mapping[str, Array],
        letters: tuple[int, ...],
        pair: Pair = LOGIT,
    ) -> None:
        self.config, self._weights, self.letters = config, weights, letters
        self.attends_cls, self.log_n = config.attend_cls, config.log_n
        tokens = [CLS, *(FIRST_LETTER + letter for letter in letters)]
        self._embedded = weights["embed.W_E"][tokens]
        self._activation = ACTIVATIONS[config.act_fn]
        # A difference of weights is rounded once more, which the slack of products has room for;
        # biases are added one after the other, so that nothing of them is lost.
        upper, lower = (self._output("unembed.W_U", index) for index in reversed(pair))
        self._unembed = upper - lower
        self._offsets: list[Array] = []
        if config.biases:
            upper, lower = (self._output("unembed.b_U", index) for index in reversed(pair))
            self._offsets = [end for end in (upper, -lower) if end.any()]

    def _output(self, name: str, index: int) -> Array:
        """One output's weights, as a column; a single output has a zero before it."""
        weights = self._weights[name]
        if weights.shape[-1] == 1:
            return weights * index
        return weights[..., index : index + 1]

    @property
    def cost(self) -> int:
        config, tokens = self.config, len(self._embedded)
        means = tokens**2 * config.d_model // 25
        heads = config.n_heads * (
            means + config.d_model * (2 * config.d_head + config.d_model) // 500
        )
        neurons = config.d_mlp * (100 + 2 * config.d_model) // 500
        return 100 + config.n_layers * (100 + tokens * (heads + neurons))

    def logits(self, counts: Array) -> tuple[Array, Array]:
        """Midpoint and half width of each vector's enclosure."""
        lengths = counts.sum(-1)
        if self.attends_cls:
            counts = np.concatenate([np.ones((len(counts), 1)), counts], axis=-1)
        low, high = self.bounds(counts, counts, lengths, lengths)
        with np.errstate(all="ignore"):
            # Rounding is monotone: |middle| above the half width, and both ends have its sign.
            middle = 0.5 * (low + high)
            return middle, np.maximum(high - middle, middle - low)

    def bounds(self, light: Array, heavy: Array, shortest: Array, longest: Array) -> Interval:
        tokens = len(self._embedded)
        width = tokens * max(self.config.d_model, self.config.d_head) + self.config.d_mlp
        low, high = in_slices(self._bounds, tokens * width, light, heavy, shortest, longest)
        return sure(low, high)

    def _bounds(self, light: Array, heavy: Array, shortest: Array, longest: Array) -> Interval:
        boxes = len(light)
        x: Interval = (np.broadcast_to(self._embedded, (boxes, *self._embedded.shape)),) * 2
        cls = self.config.cls_counted
        log_n = outward(np.log(shortest + cls), np.log(longest + cls)) if self.log_n else None
        for layer in range(self.config.n_layers):
            last = layer == self.config.n_layers - 1
            if self.config.has_attention:
                read = self.norm(f"blocks.{layer}.ln1", x)
                out = self._attention(f"blocks.{layer}.attn", read, light, heavy, log_n, last)
                # Only CLS is read after the last layer.
                x = add((x[0][:, :1], x[1][:, :1]) if last else x, out)
                x = self._biased(x, f"blocks.{layer}.attn.b_O")
            if self.config.has_mlp:
                mlp, read = f"blocks.{layer}.mlp", self.norm(f"blocks.{layer}.ln2", x)
                pre = self._biased(times_matrix(read, self._weights[f"{mlp}.W_in"]), f"{mlp}.b_in")
                post = self._activation.bounds(*pre)
                out_matrix = self._weights[f"{mlp}.W_out"]
                if last and not self.config.final_norm:
                    return self.read_out(self._biased(x, f"{mlp}.b_out"), post, out_matrix)
                x = self._biased(add(x, times_matrix(post, out_matrix)), f"{mlp}.b_out")
        if self.config.final_norm:
            x = self.norm("ln_final", x)
        return self.read_out(x, None, None)

    def _biased(self, x: Interval, name: str) -> Interval:
        if not self.config.biases:
            return x
        return add(x, (self._weights[name],) * 2)

    def read_out(self, x: Interval, post: Interval | None, out_matrix: Array | None) -> Interval:
        w = self._unembed
        logit = times_matrix((x[0][:, 0], x[1][:, 0]), w)
        if post is not None and out_matrix is not None:
            # `slack` is for the rounding of the folded matrix itself.
            last = times_matrix((post[0][:, 0], post[1][:, 0]), out_matrix @ w)
            size = np.maximum(np.abs(post[0][:, 0]), np.abs(post[1][:, 0])) @ (
                np.abs(out_matrix) @ np.abs(w)
            )
            slack = size * (len(w) + 2) * 2.0**-52
            logit = add(logit, (last[0] - slack, last[1] + slack))
        for offset in self._offsets:
            logit = add(logit, (offset, offset))
        return logit[0][:, 0], logit[1][:, 0]

    def _attention(
        self, name: str, x: Interval, light: Array, heavy: Array, log_n: Interval | None, last: bool
    ) -> Interval:
        keys = slice(0, None) if self.attends_cls else slice(1, None)
        queries = slice(0, 1) if last else slice(0, None)
        attended = (x[0][:, keys], x[1][:, keys])
        asking = (x[0][:, queries], x[1][:, queries])
        total: Interval | None = None
        for head in range(self.config.n_heads):
            scores = self.scores(name, head, asking, attended)
            if log_n is not None:
                scores = multiply(scores, (log_n[0][:, None, None], log_n[1][:, None, None]))
            # Out of every query's scores goes one number: attention does not see it.
            top = scores[1].max(-1, keepdims=True)
            low, high = exp_bounds(scores[0] - top, scores[1] - top)
            low, high = low * light[:, None], high * heavy[:, None]
            folded = self._weights[f"{name}.W_V"][head] @ self._weights[f"{name}.W_O"][head]
            low_value, high_value = self.values(name, head, attended, folded)
            # [box query channel key]
            values = (low_value.swapaxes(1, 2)[:, None], high_value.swapaxes(1, 2)[:, None])
            shape = (*low.shape[:2], *values[0].shape[2:])
            values = (np.broadcast_to(values[0], shape), np.broadcast_to(values[1], shape))
            out = mean_bounds(low[:, :, None], high[:, :, None], values)
            total = out if total is None else add(total, out)
        assert total is not None
        return total

    def values(self, name: str, head: int, x: Interval, folded: Array) -> Interval:
        low, high = times_matrix(x, folded)
        bound = np.abs(self._weights[f"{name}.W_V"][head]) @ np.abs(
            self._weights[f"{name}.W_O"][head]
        )
        size = np.maximum(np.abs(x[0]), np.abs(x[1])) @ bound
        if self.config.biases:
            # The bias is a value every token has.
            bias, w_o = self._weights[f"{name}.b_V"][head], self._weights[f"{name}.W_O"][head]
            low, high = add((low, high), (bias @ w_o,) * 2)
            size = size + np.abs(bias) @ np.abs(w_o)
        slack = size * (self.config.d_head + 2) * 2.0**-52
        return low - slack, high + slack

    def scores(self, name: str, head: int, asking: Interval, attended: Interval) -> Interval:
        """`[box query key]`."""
        q = times_matrix(asking, self._weights[f"{name}.W_Q"][head])
        k = times_matrix(attended, self._weights[f"{name}.W_K"][head])
        if self.config.biases:
            q = add(q, (self._weights[f"{name}.b_Q"][head],) * 2)
            k = add(k, (self._weights[f"{name}.b_K"][head],) * 2)
        q = (q[0][:, :, None], q[1][:, :, None])
        k = (k[0][:, None], k[1][:, None])
        low, high = multiply(q, k)
        size = np.maximum(np.abs(low), np.abs(high)).sum(-1) * (self.config.d_head + 2) * 2.0**-52
        scale = 1.0 / self.config.score_divisor
        return outward((low.sum(-1) - size) * scale, (high.sum(-1) + size) * scale)

    def norm(self, name: str, x: Interval) -> Interval:
        if not self.config.has_norm:
            return x
        width = self.config.d_model
        if self.config.centred_norm:
            x = times_matrix(x, np.eye(width) - 1.0 / width)
        low, high = square(x)
        low, high = outward(
            low.mean(-1, keepdims=True), high.mean(-1, keepdims=True), terms=2 * width
        )
        eps = self.config.norm_eps
        scale = outward(np.sqrt(np.maximum(low, 0.0) + eps), np.sqrt(high + eps))
        normal = multiply(x, outward(1.0 / scale[1], 1.0 / scale[0]))
        # No coordinate exceeds sqrt(width) times the root mean square it is divided by.
        most = math.sqrt(width) * (1 + 1e-12)
        # (fmax and fmin ignore NaN: whatever overflowed on the way, that much is known.)
        normal = (np.fmax(normal[0], -most), np.fmin(normal[1], most))
        if not self.config.learned_norm:
            return normal
        weight = self._weights[f"{name}.w"]
        normal = multiply(normal, (weight, weight))
        if self.config.centred_norm:
            shift = self._weights[f"{name}.b"]
            normal = add(normal, (shift, shift))
        return normal
