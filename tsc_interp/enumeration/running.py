"""Many rows at once in float32 or float64, with a bound on how far rounding has moved each answer.

The bound is a running error analysis. Next to every activation stands one number per row, `error`:
at every position, the computed vector lies within that Euclidean distance of the exact one. With
u the unit roundoff and g(n) = n u / (1 - n u), which holds for any order of summation:

    x W + b      |W| error + g(n + 1) (|W|_F |x| + |b|)
    norm         error / (sigma - error / sqrt d) + rounding: its derivative is at most 1 / sigma
    scores       (|q| error_k + |k| error_q + error_q error_k) / sqrt d_head + rounding
    softmax      each weight is off by a factor of at most exp(2 error) and rounding
    activation   its Lipschitz constant times error + rounding

Assumed of the platform: IEEE sums, products, quotients and square roots in the precision asked for,
and exp, erf and tanh with at most `ULPS` units in the last place of error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from tsc_interp.enumeration.network import Affine, Layer, Network

ULPS = 8
_SAFETY = 1.01
"""For the rounding of the bounds themselves, whose relative error is far below 1 %."""
_TINY = {torch.float32: 1e-36, torch.float64: 1e-300}
_LIPSCHITZ = {"relu": 1.0, "gelu": 1.13, "gelu_new": 1.13, "silu": 1.1}


@dataclass(frozen=True)
class Tracked:
    """Activations `[row, position, component]`, and how far each row's may be from exact."""

    value: Tensor
    error: Tensor | None

    @cached_property
    def size(self) -> Tensor:
        """The largest norm of a position's vector, per row, rounded up."""
        norms: Tensor = torch.linalg.vector_norm(self.value, dim=-1)
        return _SAFETY * norms.amax(dim=-1).double()


class Map:
    """An affine map with the norms its error bound needs."""

    def __init__(self, affine: Affine, dtype: torch.dtype) -> None:
        weight = torch.from_numpy(affine.weight)
        self.weight, self.bias = weight.to(dtype), torch.from_numpy(affine.bias).to(dtype)
        self.terms = len(weight)
        self.transposed = self.weight.T.contiguous() if weight.ndim == 2 else self.weight
        self.frobenius = _SAFETY * float(weight.norm())
        self.bias_size = _SAFETY * float(torch.from_numpy(affine.bias).norm())
        # Spectral, of a map; the largest factor, of a norm's diagonal.
        spectral = torch.linalg.matrix_norm(weight, 2) if weight.ndim == 2 else weight.abs().max()
        self.norm = _SAFETY * float(spectral)


class Runner:
    """A network in one precision.

    Args:
        network: The model.
        dtype: `torch.float32` or `torch.float64`.
        bounded: Whether errors are tracked; without, the pass is faster.
    """

    def __init__(self, network: Network, dtype: torch.dtype, *, bounded: bool) -> None:
        self.network, self.dtype, self.bounded = network, dtype, bounded
        self._unit = torch.finfo(dtype).eps / 2
        self._divisor = network.scale or math.sqrt(network.d_head)
        self._maps = {
            id(part): Map(part, dtype)
            for layer in network.layers
            for part in vars(layer).values()
            if part is not None
        }
        for part in (network.final, network.unembed):
            if part is not None:
                self._maps[id(part)] = Map(part, dtype)
        self._embed = torch.from_numpy(network.embed).to(dtype)
        table = network.positions
        self._positions = None if table is None else torch.from_numpy(table).to(dtype)

    def rows_at_once(self, length: int) -> int:
        """So that the largest intermediate array stays near 2 MB: the caches, not the memory."""
        net = self.network
        width = max(net.n_heads * max(length, net.d_head), int(net.embed.shape[1]))
        return max(16, min(4096, 500_000 // (length * width)))

    @torch.no_grad()
    def __call__(self, rows: Tensor, reads: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        """Outputs `[row, read, output]`, and a bound on the error of each, `[row]`."""
        length = rows.shape[1]
        # The first layer's queries, keys and values depend on one token and its position only.
        table = self._embed[None].expand(length, -1, -1)
        if self._positions is not None:
            table = table + self._positions[:length, None]
        error = None
        if self.bounded:
            size = _SAFETY * table.norm(dim=-1).max().double()
            error = (2 * self._unit * size).reshape(1).expand(length)
        first = Tracked(table, error)
        at = torch.arange(length)
        mask = self._seen(rows, length)
        prefix, group = self._shared(rows, reads)
        own = at[prefix:], rows[:, prefix:]
        shared = at[:prefix], rows[::group, :prefix]
        x, before = self._gathered(first, *own), self._gathered(first, *shared)
        for number, layer in enumerate(self.network.layers):
            last = number == len(self.network.layers) - 1
            if number == 0:
                table_parts = self._parts(layer, first)
                parts = [self._gathered(part, *own) for part in table_parts]
                earlier = [self._gathered(part, *shared) for part in table_parts if prefix]
            else:
                parts = self._parts(layer, x)
                earlier = self._parts(layer, before) if prefix else []
            behind = mask if mask is None or mask.shape[2] == 1 else mask[:, :, prefix:]
            if prefix and not last:
                inside = None if mask is None else mask[:1, :, :prefix, :prefix]
                before = self._layer(layer, before, earlier, inside, None)
            only = torch.tensor(reads) - prefix if last else None
            x = self._layer(layer, x, [*parts, *earlier[1:]], behind, only)
        x = self._normed(self.network.final, x)
        unembed = self._maps[id(self.network.unembed)]
        outputs = functional.linear(x.value, unembed.transposed, unembed.bias)
        return outputs, self._mapped_error(unembed, x)

    def _shared(self, rows: Tensor, reads: tuple[int, ...]) -> tuple[int, int]:
        """How many leading positions are run once for how many rows: equal prefixes, if causal.

        Inputs listed in order come in groups of one size that differ from some position on.
        """
        count, length = rows.shape
        best, cost = (0, 1), count * length
        if not self.network.causal or count < 2:
            return best
        differs = (rows[1:] != rows[:-1]).long()
        first = torch.where(differs.any(1), differs.argmax(1), length)
        for prefix in range(1, min(reads) + 1):
            begins = torch.cat([torch.zeros(1).long(), (first < prefix).nonzero()[:, 0] + 1])
            group = count // len(begins)
            regular = torch.arange(0, count, group)
            work = len(begins) * prefix + count * (length - prefix)
            if work < cost and len(regular) == len(begins) and bool((regular == begins).all()):
                best, cost = (prefix, group), work
        return best

    def _parts(self, layer: Layer, x: Tracked) -> list[Tracked]:
        """Queries, keys and values."""
        read = self._normed(layer.norm1, x)
        return [self._mapped(part, read) for part in (layer.query, layer.key, layer.value)]

    def _gathered(self, table: Tracked, at: Tensor, rows: Tensor) -> Tracked:
        """From `[position token component]` to the tokens of the rows."""
        error = None if table.error is None else table.error.max().expand(len(rows))
        return Tracked(table.value[at, rows], error)

    def _seen(self, rows: Tensor, length: int) -> Tensor | None:
        """Which keys a query may attend to; None for all."""
        mask = None
        if self.network.causal:
            mask = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
        if self.network.unseen is not None:
            seen = (rows != self.network.unseen)[:, None, None, :]
            mask = seen if mask is None else mask & seen
        return mask

    def _layer(
        self, layer: Layer, x: Tracked, parts: list[Tracked], mask: Tensor | None,
        only: Tensor | None,
    ) -> Tracked:  # fmt: skip
        """One layer; `parts` are queries, keys and values, and keys and values of a prefix."""
        query, *keys_values = parts
        if only is not None:
            query, x = _at(query, only), _at(x, only)
            mask = mask if mask is None or mask.shape[2] == 1 else mask[:, :, only]
        x = self._plus(x, self._mapped(layer.output, self._mixed(query, keys_values, mask)))
        if layer.into is None or layer.out is None:
            return x
        hidden = self._mapped(layer.into, self._normed(layer.norm2, x))
        return self._plus(x, self._mapped(layer.out, self._activated(hidden)))

    def _mixed(self, query: Tracked, keys_values: list[Tracked], mask: Tensor | None) -> Tracked:
        """What heads read: values weighted by a softmax of scores."""
        heads, width = self.network.n_heads, self.network.d_head
        q, k, v, *prefix = (
            tracked.value.reshape(*tracked.value.shape[:2], heads, width).transpose(1, 2)
            for tracked in (query, *keys_values)
        )
        if query.error is None and not prefix:
            z = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, scale=1 / self._divisor
            )
            return Tracked(z.transpose(1, 2).flatten(2), None)
        scores = torch.matmul(q, k.transpose(-1, -2))
        if prefix:
            earlier = _of_groups(q, prefix[0].transpose(-1, -2))
            scores = torch.cat([earlier, scores], dim=-1)
        scores = scores / self._divisor
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        pattern = scores.softmax(-1)
        z = torch.matmul(pattern[..., -k.shape[2] :], v)
        if prefix:
            z = z + _of_groups(pattern[..., : -k.shape[2]], prefix[1])
        mixed = z.transpose(1, 2).flatten(2)
        if query.error is None:
            return Tracked(mixed, None)
        return Tracked(mixed, self._mixed_error(query, keys_values, (q, k, v, *prefix)))

    def _mixed_error(
        self, query: Tracked, keys_values: list[Tracked], sizes_of: tuple[Tensor, ...]
    ) -> Tensor:
        """Of what heads read; rows that share a prefix have the larger of both errors."""
        heads, width = self.network.n_heads, self.network.d_head
        count, u, length = len(query.value), self._unit, sum(key.shape[2] for key in sizes_of[1::2])

        def largest(parts: list[Tensor]) -> Tensor:
            return torch.stack([one.repeat_interleave(count // len(one)) for one in parts]).amax(0)

        q_size, *rest = (_SAFETY * part.norm(dim=-1).amax(dim=(1, 2)).double() for part in sizes_of)
        k_size, v_size = largest(rest[::2]), largest(rest[1::2])
        errors = [part.error for part in keys_values if part.error is not None]
        k_error, v_error = largest(errors[::2]), largest(errors[1::2])
        assert query.error is not None
        score = q_size * k_error + k_size * query.error + query.error * k_error
        score = (score + self._gamma(width + 4) * q_size * k_size) / self._divisor
        spread = torch.clamp(2 * q_size * k_size / self._divisor, max=1000.0)
        off = torch.expm1(2 * score + 2 * u * spread + self._gamma(length + 4 * ULPS + 4))
        v_bound = v_size + v_error
        moved = (off + self._gamma(length + 2) * (1 + off)) * v_bound + v_error
        error = math.sqrt(heads) * moved + _TINY[self.dtype] * length * v_bound
        return _SAFETY * error

    def _normed(self, part: Affine | None, x: Tracked) -> Tracked:
        if part is None:
            return x
        diagonal, width = self._maps[id(part)], x.value.shape[-1]
        centred = x.value
        if self.network.norm == "layer":
            centred = centred - centred.mean(dim=-1, keepdim=True)
        sigma = (centred.square().mean(dim=-1, keepdim=True) + self.network.eps).sqrt()
        scaled = centred / sigma
        value = scaled * diagonal.weight + diagonal.bias
        if x.error is None:
            return Tracked(value, None)
        error = x.error + self._gamma(width + 3) * x.size
        least = sigma.amin(dim=(-1, -2)).double() / _SAFETY - error / math.sqrt(width)
        error = torch.where(least > 0, error / least.clamp(min=1e-300), torch.inf)
        error = error + self._gamma(width + 6) * math.sqrt(width) * _SAFETY
        computed = Tracked(value, None)
        rounding = 3 * self._unit * (computed.size + diagonal.bias_size)
        return Tracked(value, _SAFETY * (diagonal.norm * error + rounding))

    def _mapped(self, part: Affine, x: Tracked) -> Tracked:
        linear = self._maps[id(part)]
        value = functional.linear(x.value, linear.transposed, linear.bias)
        return Tracked(value, self._mapped_error(linear, x))

    def _mapped_error(self, linear: Map, x: Tracked) -> Tensor | None:
        if x.error is None:
            return None
        rounding = self._gamma(linear.terms + 1)
        moved = linear.norm * x.error + rounding * (linear.frobenius * x.size + linear.bias_size)
        return _SAFETY * moved

    def _activated(self, x: Tracked) -> Tracked:
        name = self.network.activation
        if name == "relu":
            return Tracked(x.value.relu(), x.error)
        if name == "silu":
            value = functional.silu(x.value)
        else:
            value = functional.gelu(x.value, approximate="tanh" if name == "gelu_new" else "none")
        if x.error is None:
            return Tracked(value, None)
        rounding = 4 * ULPS * self._unit * (x.size + math.sqrt(value.shape[-1]))
        return Tracked(value, _SAFETY * (_LIPSCHITZ[name] * x.error + rounding))

    def _plus(self, x: Tracked, y: Tracked) -> Tracked:
        value = x.value + y.value
        if x.error is None or y.error is None:
            return Tracked(value, None)
        rounding = self._unit * (x.size + y.size)
        return Tracked(value, _SAFETY * (x.error + y.error + rounding))

    def _gamma(self, terms: int) -> float:
        return terms * self._unit / (1 - terms * self._unit)


def _of_groups(x: Tensor, y: Tensor) -> Tensor:
    """`x @ y` where equally many rows of `x [row head i j]` share a matrix of `y [group ...]`."""
    count, heads, i, j = x.shape
    group = count // len(y)
    together = x.reshape(len(y), group, heads, i, j).transpose(1, 2).reshape(len(y), heads, -1, j)
    product = torch.matmul(together, y).reshape(len(y), heads, group, i, y.shape[-1])
    return product.transpose(1, 2).reshape(count, heads, i, y.shape[-1])


def _at(x: Tracked, only: Tensor) -> Tracked:
    return Tracked(x.value[:, only], x.error)
