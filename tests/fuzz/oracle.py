"""A classifier's outputs by numpy and mpmath, and tasks' labels by plain Python: nothing of ours.

A model is a dictionary of options and one of weights, by the names that checkpoints use. Outputs
are computed in float64, and again with 60 digits where an answer is near a tie.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import mpmath
import numpy as np

Row = tuple[int, ...]
_DIGITS = 60


@dataclass(frozen=True)
class Model:
    """Options as `ClassifierConfig` takes them, those left out being off, and weights."""

    options: dict[str, Any]
    weights: dict[str, Any]

    def answer(self, letters: Sequence[int]) -> int | None:
        """The class of the largest output, the lowest of equals; None if too near a tie to say."""
        outputs = self._outputs(letters, lambda array: np.asarray(array, dtype=np.float64), np)
        best, ahead = _best(outputs)
        if ahead > 1e-6 * (1 + max(map(abs, outputs))):
            return best
        with mpmath.workdps(_DIGITS):
            exact = np.vectorize(lambda x: mpmath.mpf(float(x)), otypes=[object])
            outputs = self._outputs(letters, exact, mpmath)
            best, ahead = _best(outputs)
            if ahead > mpmath.mpf(10) ** -30:
                return best
            # A tie by cancellation cannot be told from one in the fortieth digit, but for equal
            # columns of the read-out, and for outputs that are zero throughout.
            columns = self._columns()
            equal = all(
                columns[j] == columns[best]
                for j, output in enumerate(outputs)
                if outputs[best] - output <= mpmath.mpf(10) ** -30
            )
            return best if equal else None

    def margin(self, letters: Sequence[int]) -> float:
        """How far ahead the largest output is, in float64."""
        return float(_best(self._outputs(letters, lambda a: np.asarray(a, np.float64), np))[1])

    def _columns(self) -> list[list[float]]:
        read = np.asarray(self.weights["unembed.W_U"], dtype=np.float64)
        bias = np.asarray(self.weights.get("unembed.b_U", np.zeros(read.shape[1])), np.float64)
        columns = np.vstack([read, bias]).T.tolist()
        return columns if len(columns) > 1 else [[0.0] * len(columns[0]), *columns]

    def _outputs(self, letters: Sequence[int], number: Any, library: Any) -> list[Any]:
        option = self.options.get
        weights = {name: number(weight) for name, weight in self.weights.items()}
        reads = option("reads", "first")
        tokens = [letter + 2 for letter in letters]
        tokens = {"first": [0, *tokens], "last": [*tokens, 0]}.get(reads, tokens)
        at = 0 if reads == "first" else len(tokens) - 1
        x = weights["embed.W_E"][tokens]
        if option("n_positions"):
            x = x + weights["pos_embed.W_pos"][: len(tokens)]
        state = x[at]
        if option("n_heads", 2):
            seen = [i for i, token in enumerate(tokens) if token or option("attend_cls")]
            state = state + self._heads(weights, x, at, seen, len(letters), library)
        if option("d_mlp", 2):
            read = self._norm(weights, "blocks.0.ln2", state, library)
            hidden = read @ weights["blocks.0.mlp.W_in"] + weights.get("blocks.0.mlp.b_in", 0)
            passed = np.array([self._activation(value, library) for value in hidden])
            state = state + passed @ weights["blocks.0.mlp.W_out"]
            state = state + weights.get("blocks.0.mlp.b_out", 0)
        if option("final_norm"):
            state = self._norm(weights, "ln_final", state, library)
        outputs = list(state @ weights["unembed.W_U"] + weights.get("unembed.b_U", 0))
        return outputs if len(outputs) > 1 else [0 * outputs[0], outputs[0]]

    def _heads(self, w: Any, x: Any, at: int, seen: list[int], n_letters: int, library: Any) -> Any:
        name, total = "blocks.0.attn", 0
        rows = np.array([self._norm(w, "blocks.0.ln1", row, library) for row in x])
        scale = library.sqrt(self.options.get("d_head", 1))
        stretch = 1
        if self.options.get("score_scale") == "sqrt_d_head_log_n":
            stretch = library.log(n_letters) if n_letters > 1 else 0
        for head in range(self.options.get("n_heads", 2)):
            q, k, v = (
                rows @ w[f"{name}.W_{part}"][head]
                + (w[f"{name}.b_{part}"][head] if f"{name}.b_{part}" in w else 0)
                for part in "QKV"
            )
            scores = [sum(q[at] * k[i]) / scale * stretch for i in seen]
            top = max(scores)
            shares = [library.exp(score - top) for score in scores]
            mixed = sum(share * v[i] for share, i in zip(shares, seen, strict=True)) / sum(shares)
            total = total + mixed @ w[f"{name}.W_O"][head]
        return total + w.get(f"{name}.b_O", 0)

    def _norm(self, w: Any, name: str, row: Any, library: Any) -> Any:
        kind = self.options.get("norm", "off")
        if kind == "off":
            return row
        if kind.startswith("layer"):
            row = row - sum(row) / len(row)
        row = row / library.sqrt(sum(row * row) / len(row) + self.options.get("norm_eps", 1e-5))
        return row * w.get(f"{name}.w", 1) + w.get(f"{name}.b", 0)

    def _activation(self, value: Any, library: Any) -> Any:
        kind = self.options.get("act_fn", "gelu")
        if kind == "relu":
            return max(value, 0 * value)
        if kind == "silu":
            return value / (1 + library.exp(-value)) if value > -700 else 0 * value
        erf = math.erf if library is np else mpmath.erf
        return value * (1 + erf(value / library.sqrt(2))) / 2


def _best(outputs: list[Any]) -> tuple[int, Any]:
    best = max(range(len(outputs)), key=lambda j: (outputs[j], -j))
    return best, min(outputs[best] - output for j, output in enumerate(outputs) if j != best)


# -- tasks ------------------------------------------------------------------------------------

Label = Callable[[Row], int]


@dataclass(frozen=True)
class Asked:
    """A task as a configuration has it, and its label of a row in plain Python."""

    task: dict[str, Any]
    label: Label
    ordered: bool
    needs: int
    """The first so many letters."""
    classes: Callable[[int], int] = lambda n_letters: 2
    exact: bool = False
    """Whether it is about these letters and no others."""
    rows: Callable[[int, int], list[Row]] = lambda n, length: list(product(range(n), repeat=length))
    """All inputs with so many letters of an alphabet of `n`."""
    lengths: tuple[int, ...] = (1, 2, 3)
    steps: int = 0
    """Letters that are written: rows hold these, too, and the label of a step is the next."""


LETTERS = "abcdefgh"


def asked(rng: np.random.Generator) -> Asked:
    """A task drawn at random."""
    a, b = (int(x) for x in rng.permutation(3)[:2])
    k = int(rng.integers(1, 4))
    values = [int(x) for x in rng.integers(-2, 3, size=int(rng.integers(1, 4)))]
    tail = [int(x) for x in rng.integers(0, 2, size=int(rng.integers(1, 3)))]
    one, two = LETTERS[a], LETTERS[b]
    pattern = [
        f"({one}|{two})*",
        f"{one}*{two}+",
        f"[^{one}]{{1,2}}{two}?",
        f".*{one}.",
        f"({one}{two})*",
    ][int(rng.integers(5))]
    kinds: list[Callable[[], Asked]] = [
        lambda: Asked(
            {"kind": "contains_all", "letters": one + two},
            lambda row: int({a, b} <= set(row)),
            False,
            max(a, b) + 1,
        ),
        lambda: Asked(
            {"kind": "at_least", "letter": one, "k": k},
            lambda row: int(row.count(a) >= k),
            False,
            a + 1,
        ),
        lambda: Asked(
            {"kind": "majority", "letter": one},
            lambda row: int(2 * row.count(a) > len(row)),
            False,
            a + 1,
        ),
        lambda: Asked(
            {"kind": "parity", "letter": one, "odd": k > 1},
            lambda row: int(row.count(a) % 2 == int(k > 1)),
            False,
            a + 1,
        ),
        lambda: Asked(
            {"kind": "most_frequent"},
            lambda row: min(set(row), key=lambda x: (-row.count(x), x)),
            False,
            1,
            lambda n: n,
        ),
        lambda: Asked({"kind": "maximum"}, max, False, 1, lambda n: n),
        lambda: Asked(
            {"kind": "before", "first": one, "second": two},
            lambda row: int(next((x for x in row if x in (a, b)), b) == a),
            True,
            max(a, b) + 1,
        ),
        lambda: Asked(
            {"kind": "sum_sign", "values": values},
            lambda row: _sign(sum(values[x] for x in row)) + 1,
            True,
            len(values),
            lambda n: 3,
            True,
        ),
        lambda: Asked(
            {"kind": "brackets", "depth": k, "opening": one, "closing": two},
            lambda row: _balanced(row, a, b, k),
            True,
            max(a, b) + 1,
        ),
        lambda: Asked(
            {"kind": "ends_with", "suffix": "".join(LETTERS[x] for x in tail)},
            lambda row: int(list(row[-len(tail) :]) == tail),
            True,
            max(tail) + 1,
        ),
        lambda: Asked({"kind": "palindrome"}, lambda row: int(row == row[::-1]), True, 1),
        lambda: Asked(
            {"kind": "regex", "pattern": pattern},
            lambda row: int(re.fullmatch(pattern, "".join(LETTERS[x] for x in row)) is not None),
            True,
            max(a, b) + 1,
        ),
        lambda: _automaton(rng),
        lambda: _copy(rng),
        lambda: _addition(rng),
        lambda: _framed(rng),
    ]
    return kinds[int(rng.integers(len(kinds)))]()


def _sign(total: int) -> int:
    return (total > 0) - (total < 0)


def _balanced(row: Row, opening: int, closing: int, depth: int) -> int:
    height = 0
    for letter in row:
        height += (letter == opening) - (letter == closing)
        if not 0 <= height <= depth:
            return 0
    return int(height == 0)


def _automaton(rng: np.random.Generator) -> Asked:
    states, letters, classes = (int(x) for x in rng.integers(1, 4, size=3))
    step = rng.integers(0, states, size=(states, letters)).tolist()
    label, start = rng.integers(0, classes, size=states).tolist(), int(rng.integers(states))

    def run(row: Row) -> int:
        state = start
        for letter in row:
            state = step[state][letter]
        return int(label[state])

    task = {"kind": "automaton", "states": [f"s{i}" for i in range(states)], "start": start,
            "letters": LETTERS[:letters], "step": step, "label": label}  # fmt: skip
    return Asked(task, run, True, letters, lambda n: max(2, max(label) + 1), True)


def _copy(rng: np.random.Generator) -> Asked:
    length, letters, back = int(rng.integers(1, 3)), int(rng.integers(2, 4)), bool(rng.integers(2))
    between = letters if rng.integers(2) else int(rng.integers(letters + 1))
    task = {
        "kind": "copy",
        "length": length,
        "letters": letters,
        "separator": [between],
        "backwards": back,
    }

    def rows(n: int, _: int) -> list[Row]:
        prompts = product(range(letters), repeat=length)
        return [(*p, between, *(p[::-1] if back else p)) for p in prompts]

    needs = max(letters, between + 1)
    return Asked(
        task, max, True, needs, lambda n: letters, rows=rows, lengths=(length,), steps=length
    )


def _addition(rng: np.random.Generator) -> Asked:
    digits, base = int(rng.integers(1, 3)), int(rng.integers(2, 4))
    first, total = (("most", "least")[int(x)] for x in rng.integers(2, size=2))
    carry = bool(rng.integers(2))
    task = {
        "kind": "addition",
        "digits": digits,
        "base": base,
        "operands": first,
        "total": total,
        "carry_digit": carry,
    }

    def written(number: int, width: int, order: str) -> Row:
        least = tuple(number // base**i % base for i in range(width))
        return least if order == "least" else least[::-1]

    def rows(n: int, _: int) -> list[Row]:
        numbers = range(base**digits)
        return [
            (
                *written(x, digits, first),
                base,
                *written(y, digits, first),
                base + 1,
                *written(x + y, digits + carry, total),
            )
            for x in numbers
            for y in numbers
        ]

    return Asked(
        task,
        max,
        True,
        base + 2,
        lambda n: base,
        rows=rows,
        lengths=(digits,),
        steps=digits + carry,
    )


def _framed(rng: np.random.Generator) -> Asked:
    inner = asked(rng)
    while inner.steps or "frame" in inner.task or inner.needs > 3:
        inner = asked(rng)
    n = max(inner.needs + int(rng.integers(2)) * (not inner.exact), 1)
    fewest, most = sorted(int(x) for x in rng.integers(1, 4, size=2))
    frame = f"[{n}] x{{{fewest}..{most}}} [{n + 1}]; x=0..{n - 1}"
    task = {"kind": "framed", "frame": frame, "task": inner.task}

    def rows(_: int, length: int) -> list[Row]:
        return [(n, *row, n + 1) for row in product(range(n), repeat=length)]

    return Asked(
        task, lambda row: inner.label(row[1:-1]), True, n + 2, lambda _: inner.classes(n),
        rows=rows, lengths=tuple(range(fewest, most + 1)),
    )  # fmt: skip
