"""One row at a time in ball arithmetic: what the model's real-number function says of it, proved.

Shares the arrays of `network.py` with `running.py`, and no arithmetic. It is slow (a tenth of a
second or so for a row of a small model) and decides what rounding leaves open. Every ball holds the
exact value, so a comparison of balls that holds is a proof; where none holds at any precision, as
for a tie, the answer is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from flint import arb, arb_mat, ctx

from tsc_interp.falsification.network import Affine, Layer, Network
from tsc_interp.verification.bounds.exact import ACTIVATIONS

PRECISIONS = (96, 192, 384)
Vectors = list[list[Any]]


class Exact:
    """A network whose weights are balls of radius zero."""

    def __init__(self, network: Network) -> None:
        self.network = network

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
        settled = True
        for outputs, own in zip(self.outputs(row, reads), wanted, strict=True):
            others = [one for j, one in enumerate(outputs) if j != own]
            if any(bool(other > outputs[own]) for other in others):
                return False
            settled = settled and all(bool(other < outputs[own]) for other in others)
        return True if settled else None

    def outputs(self, row: Sequence[int], reads: Sequence[int]) -> Vectors:
        """Balls around the outputs at some positions, at the precision that is set."""
        net = self.network
        x = [[arb(one) for one in net.embed[token].tolist()] for token in row]
        if net.positions is not None:
            x = [
                [a + arb(b) for a, b in zip(vector, net.positions[i].tolist(), strict=True)]
                for i, vector in enumerate(x)
            ]
        keys = [i for i, token in enumerate(row) if token != net.unseen]
        for number, layer in enumerate(net.layers):
            last = number == len(net.layers) - 1
            asked = sorted(set(reads)) if last else list(range(len(row)))
            x = self._layer(layer, x, asked, keys)
        at = {position: i for i, position in enumerate(sorted(set(reads)))}
        x = self._mapped(net.unembed, self._normed(net.final, x))
        return [x[at[position]] for position in reads]

    def _layer(self, layer: Layer, x: Vectors, asked: list[int], keys: list[int]) -> Vectors:
        read = self._normed(layer.norm1, x)
        query = self._mapped(layer.query, [read[i] for i in asked])
        key, value = self._mapped(layer.key, read), self._mapped(layer.value, read)
        mixed = [
            self._attended(query[i], key, value, [k for k in keys if not self._hidden(k, position)])
            for i, position in enumerate(asked)
        ]
        found = _plus([x[i] for i in asked], self._mapped(layer.output, mixed))
        if layer.into is None or layer.out is None:
            return found
        hidden = self._mapped(layer.into, self._normed(layer.norm2, found))
        act = ACTIVATIONS[self.network.activation]
        active = [[act(number) for number in vector] for vector in hidden]
        return _plus(found, self._mapped(layer.out, active))

    def _hidden(self, key: int, query: int) -> bool:
        return self.network.causal and key > query

    def _attended(self, query: Any, key: Vectors, value: Vectors, keys: list[int]) -> list[Any]:
        found, width = [], self.network.d_head
        root = arb(width).sqrt()
        for head in range(self.network.n_heads):
            part = slice(head * width, (head + 1) * width)
            scores = [_dot(query[part], key[k][part]) / root for k in keys]
            top = max((score.mid() for score in scores), key=float)
            raised = [(score - top).exp() for score in scores]
            total = sum(raised, arb(0))
            weights = [one / total for one in raised]
            mixed = arb_mat([weights]) * arb_mat([value[k][part] for k in keys])
            found += mixed.entries()
        return found

    def _normed(self, part: Affine | None, x: Vectors) -> Vectors:
        if part is None:
            return x
        weight, bias = map(arb_row, (part.weight, part.bias))
        found = []
        for vector in x:
            centred, width = vector, len(vector)
            if self.network.norm == "layer":
                mean = sum(vector, arb(0)) / width
                centred = [number - mean for number in vector]
            square = _dot(centred, centred) / width
            sigma = (square.nonnegative_part() + arb(self.network.eps)).sqrt()
            found.append(
                [one / sigma * w + b for one, w, b in zip(centred, weight, bias, strict=True)]
            )
        return found

    def _mapped(self, part: Affine, x: Vectors) -> Vectors:
        bias = arb_row(part.bias)
        product = (arb_mat(x) * self._matrices[id(part)]).tolist()
        return [[one + b for one, b in zip(vector, bias, strict=True)] for vector in product]

    @cached_property
    def _matrices(self) -> dict[int, Any]:
        net = self.network
        parts = [net.unembed, *(part for layer in net.layers for part in vars(layer).values())]
        return {
            id(part): arb_mat(part.weight.tolist())
            for part in parts
            if part is not None and part.weight.ndim == 2
        }


def arb_row(values: Any) -> list[Any]:
    """Numbers as balls of radius zero."""
    return [arb(value) for value in values.tolist()]


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return (arb_mat([list(a)]) * arb_mat([[one] for one in b]))[0, 0]


def _plus(x: Vectors, y: Vectors) -> Vectors:
    return [[a + b for a, b in zip(u, v, strict=True)] for u, v in zip(x, y, strict=True)]
