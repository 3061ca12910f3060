"""Marabou: the network as linear equations, ReLUs and products, asked for a counterexample."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import chdir
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from studies.tables import Row
from studies.verifiers.questions import CountsNetwork
from studies.verifiers.run import LENGTHS, relu_heads, supports, timed

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from maraboupy import Marabou
    from maraboupy.MarabouNetwork import MarabouNetwork

_WIDE = 1e4
Terms = Sequence[tuple[int, float]]


def rows(seconds: float) -> list[Row]:
    """In a folder of its own: it writes queries it fails on into the current one."""
    with TemporaryDirectory() as folder, chdir(folder):
        return [
            timed(lambda n=n: _strings(n, seconds), tool="Marabou", question="strings", length=n)
            for n in LENGTHS
        ]


class Query:
    """Variables with bounds, and equations between them."""

    def __init__(self) -> None:
        self.network: Any = MarabouNetwork()
        self.inputs: list[int] = []

    def variable(self, low: float = -_WIDE, high: float = _WIDE) -> int:
        made = int(self.network.getNewVariable())
        self.network.setLowerBound(made, low)
        self.network.setUpperBound(made, high)
        return made

    def sum(self, terms: Terms, constant: float = 0.0) -> int:
        """A new variable that is this sum."""
        made = self.variable()
        kept = [(v, float(c)) for v, c in terms if c]
        self.network.addEquality([made, *(v for v, _ in kept)], [1.0, *(-c for _, c in kept)],
                                 float(constant))  # fmt: skip
        return made

    def relu(self, before: int) -> int:
        made = self.variable(0.0)
        self.network.addRelu(before, made)
        return made

    def ask(self, seconds: float) -> str:
        """`unsat`, `sat`, or what else it says."""
        self.network.inputVars = [np.array(self.inputs)]
        self.network.outputVars = [np.array([self.inputs[0]])]
        options = Marabou.createOptions(verbosity=0, timeoutInSeconds=max(1, int(seconds)))
        return str(self.network.solve(options=options, verbose=False)[0])


def layer(query: Query, x: Sequence[int], linear: Any) -> list[int]:
    """What a `torch.nn.Linear` makes of variables."""
    weight = linear.weight.numpy()
    bias = np.zeros(len(weight)) if linear.bias is None else linear.bias.numpy()
    return [
        query.sum(list(zip(x, row.tolist(), strict=True)), b)
        for row, b in zip(weight, bias.tolist(), strict=True)
    ]


def residual(query: Query, x: Sequence[int], network: Any) -> list[int]:
    """MLP and read-out."""
    hidden = [query.relu(one) for one in layer(query, x, network.up)]
    added = layer(query, hidden, network.down)
    return layer(query, [query.sum([(a, 1.0), (b, 1.0)])
                         for a, b in zip(x, added, strict=True)], network.read)  # fmt: skip


def _strings(length: int, seconds: float) -> Row:
    """One query per set of letters; counts are real numbers whose sum is at most the length."""
    network, said = CountsNetwork(relu_heads()), []
    until = time.process_time() + seconds
    for support, label in supports():
        if time.process_time() > until:
            said.append("not asked")
            continue
        query = Query()
        counts = [query.variable(float(i in support), float(length if i in support else 0))
                  for i in range(3)]  # fmt: skip
        query.inputs = counts
        query.network.addInequality(counts, [1.0, 1.0, 1.0], float(length))
        up, down = (layer(query, counts, part) for part in (network.numerator, network.denominator))
        means = []
        for over, under in zip(up, down, strict=True):
            mean = query.variable(-100.0, 100.0)
            query.network.addBilinear(mean, under, over)  # mean times under is over
            means.append(mean)
        (logit,) = residual(query, layer(query, means, network.mixed), network)
        # A counterexample has the other sign.
        query.network.addInequality([logit], [1.0 if label else -1.0], 0.0)
        said.append(query.ask(until - time.process_time()))
    right = all(one == "unsat" for one in said)
    wrong = any(one == "sat" for one in said)
    return {"answered": right or wrong, "right": right, "parts": len(said),
            "open": sum(one not in ("unsat", "sat") for one in said), "said": said}  # fmt: skip
