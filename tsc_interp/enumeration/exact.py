"""One row at a time in ball arithmetic: what the model's real-number function says of it, proved.

Shares the arrays of `network.py` with `running.py`, and no arithmetic. It is slow (milliseconds for
a row of a small model) and decides what rounding leaves open. Every ball holds the exact value, so
a comparison of balls that holds is a proof; where none holds at any precision, as for a tie, the
answer is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from flint import arb, arb_mat, ctx

from tsc_interp.enumeration.network import Affine, Layer, Network
from tsc_interp.trusted import balls

PRECISIONS = (96, 192, 384)


class Exact:
    """A network whose weights are balls of radius zero."""

    def __init__(self, network: Network, check: Callable[[], None] | None = None) -> None:
        self.network = network
        self.check = check
        """Called now and then; may raise, to end it."""

    def right(self, row: Sequence[int], reads: Sequence[int], wanted: Sequence[int]) -> bool | None:
        """Whether the output `wanted` is the largest at every position read; None: undecided.

        Args:
            row: Token ids.
            reads: Positions of the row.
            wanted: The output that should be largest, at each of them.
        """
        for bits in PRECISIONS:
            with ctx.workprec(bits):
                right = self._compared(row, reads, wanted)
            if right is not None:
                return right
        return None

    def _compared(
        self, row: Sequence[int], reads: Sequence[int], wanted: Sequence[int]
    ) -> bool | None:
        decided = True
        for outputs, own in zip(self.outputs(row, reads), wanted, strict=True):
            others = [output for j, output in enumerate(outputs) if j != own]
            if any(balls.is_less(outputs[own], other) for other in others):
                return False
            decided = decided and all(balls.is_less(other, outputs[own]) for other in others)
        return True if decided else None

    def outputs(self, row: Sequence[int], reads: Sequence[int]) -> list[list[Any]]:
        """Balls around the outputs at some positions, at the precision that is set."""
        net, queries = self.network, list(range(len(row)))
        x = arb_mat(net.embed[list(row)].tolist())
        if net.positions is not None:
            x = x + arb_mat(net.positions[: len(row)].tolist())
        for number, layer in enumerate(net.layers):
            if number == len(net.layers) - 1:
                queries = sorted(set(reads))
            x = self._layer(layer, x, queries, row)
        outputs = self._mapped(net.unembed, self._normed(net.final, x)).tolist()
        return [outputs[queries.index(position)] for position in reads]

    def _layer(self, layer: Layer, x: Any, queries: Sequence[int], row: Sequence[int]) -> Any:
        """The residual stream after a layer, at the positions asked for."""
        if self.check is not None:
            self.check()
        read = self._normed(layer.norm1, x)
        query = self._mapped(layer.query, _rows(read, queries))
        key, value = self._mapped(layer.key, read), self._mapped(layer.value, read)
        mixed = self._mixed(query, key, value, [self._seen(row, position) for position in queries])
        x = _rows(x, queries) + self._mapped(layer.output, mixed)
        if layer.into is None or layer.out is None:
            return x
        hidden = self._mapped(layer.into, self._normed(layer.norm2, x))
        act = self.network.activation
        active = [[balls.activation(act, number) for number in row] for row in hidden.tolist()]
        return x + self._mapped(layer.out, arb_mat(active))

    def _seen(self, row: Sequence[int], query: int) -> list[int]:
        """Of each key 1 if a query at this position attends to it, else 0."""
        last = query if self.network.causal else len(row)
        return [int(i <= last and token != self.network.unseen) for i, token in enumerate(row)]

    def _mixed(self, query: Any, key: Any, value: Any, mask: Sequence[Sequence[int]]) -> Any:
        """What the heads read, side by side."""
        width, heads = self.network.d_head, []
        divisor = arb(self.network.scale) if self.network.scale else arb(width).sqrt()
        for start in range(0, query.ncols(), width):
            q, k, v = (
                arb_mat([row[start : start + width] for row in part.tolist()])
                for part in (query, key, value)
            )
            scores = q * k.transpose() * (1 / divisor)
            heads.append((_weights(scores, mask) * v).tolist())
        return arb_mat([list(chain(*parts)) for parts in zip(*heads, strict=True)])

    def _normed(self, part: Affine | None, x: Any) -> Any:
        if part is None:
            return x
        weight, bias = part.weight.tolist(), part.bias.tolist()
        rows = []
        for row in x.tolist():
            if self.network.norm == "layer":
                mean = sum(row, arb(0)) / len(row)
                row = [value - mean for value in row]
            square = sum((balls.square(value) for value in row), arb(0)) / len(row)
            root = balls.root(square + arb(self.network.eps))
            rows.append([v / root * w + b for v, w, b in zip(row, weight, bias, strict=True)])
        return arb_mat(rows)

    def _mapped(self, part: Affine, x: Any) -> Any:
        return x * self._matrices[id(part)] + arb_mat([part.bias.tolist()] * x.nrows())

    @cached_property
    def _matrices(self) -> dict[int, Any]:
        net = self.network
        parts = [net.unembed, *(part for layer in net.layers for part in vars(layer).values())]
        return {
            id(part): arb_mat(part.weight.tolist())
            for part in parts
            if part is not None and part.weight.ndim == 2
        }


def _weights(scores: Any, mask: Sequence[Sequence[int]]) -> Any:
    """Attention weights `[query key]`, the largest score taken out of every row."""
    rows = []
    for row, seen in zip(scores.tolist(), mask, strict=True):
        largest = max(score.mid() for score, own in zip(row, seen, strict=True) if own)
        raw = [(s - largest).exp() if own else arb(0) for s, own in zip(row, seen, strict=True)]
        total = sum(raw, arb(0))
        rows.append([weight / total for weight in raw])
    return arb_mat(rows)


def _rows(x: Any, chosen: Sequence[int]) -> Any:
    rows = x.tolist()
    return arb_mat([rows[i] for i in chosen])
