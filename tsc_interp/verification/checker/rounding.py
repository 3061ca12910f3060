"""Bounds float32 rounding in `arb` balls, from the weights and a length alone.

A model run in float32 computes a logit that depends on the order of its sums. For every order at
once, with or without fused multiply-adds, a sum of k products is off by at most k u / (1 - k u) of
the sum of their sizes, u = 2^-24, any other operation by u of its result, and what underflows by
less than 2^-120. Assumed of the library: `exp`, `erf`, `tanh` and `log` good to 8 u of their
result, products of float32 numbers (no TF32, no bfloat16), and no algorithm that multiplies
matrices with fewer products. The log of a letter's count in the compressed form is good to 4 u:
`model/attention.py` takes it in float64. The bound holds for all strings of at most n letters,
given as tokens (one key per letter) or compressed (one key per kind of letter). One layer without
norms.

A float32 program computes the keys and values of masked tokens, too: PAD's, and CLS's where it is
not attended to. If one of them may overflow, nothing is known of the logit.

Part of the checker (float32.py): the search has a bound of its own (bounds/rounding.py), which is
not believed. No ball is compared here; what may overflow is `UNKNOWN`, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from flint import arb, ctx

from tsc_interp.config import ClassifierConfig
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.budget import require
from tsc_interp.verification.checker.kernel import UNKNOWN, Ball

FORMS = ("tokens", "compressed")
PRECISION = 128

U = arb(2) ** -24
TINY = arb(2) ** -120
OVERFLOW = arb(2) ** 126
SLOPE = arb(6) / 5
"""No activation is steeper."""
ACTIVATION_UNITS = {"gelu": 8, "gelu_new": 24, "silu": 12, "relu": 0}
"""Times u |x|: what an activation may be off by, for an x without error."""


class Known(NamedTuple):
    """A number of which the real size is at most this, and the computed one off by at most that."""

    size: Ball
    error: Ball


class FloatBound:
    """How far a float32 logit can be from the real one; `weights` are exact balls."""

    def __init__(self, config: ClassifierConfig, weights: Mapping[str, Any]) -> None:
        require(
            config.n_layers == 1 and not config.has_norm,
            "float32 rounding is bounded for one layer without norms, which this model is not",
        )
        beyond = (
            ("positions", *config.beyond_counts) if config.needs_order else config.beyond_counts
        )
        require(not beyond, f"float32 rounding is not bounded with {', '.join(beyond)}")
        self.config, self.weights = config, weights
        self._found: dict[tuple[int, str], Ball] = {}

    def room(self, length: int, form: str) -> Ball:
        """How far a logit, or the difference of two outputs, can be off; an exact number.

        Taken at the next power of two, or half-way to it: a few lengths stand for all.
        """
        step = 1 << (length - 1).bit_length()
        step = next(n for n in (step * 3 // 4, step) if n in range(length, step + 1))
        if (step, form) not in self._found:
            with ctx.workprec(PRECISION):
                bound = self._room(step, form)
                self._found[step, form] = bound.upper() if bound.is_finite() else UNKNOWN
        return self._found[step, form]

    def _room(self, length: int, form: str) -> Ball:
        state = [Known(abs(x), arb(0)) for x in self.weights["embed.W_E"][CLS]]
        if self.config.has_attention:
            heads = range(self.config.n_heads)
            heard = [z for head in heads for z in self._head(head, length, form)]
            out = [row for head in self.weights["blocks.0.attn.W_O"] for row in head]
            state = add(state, linear(heard, out, self._bias("blocks.0.attn.b_O")))
        if self.config.has_mlp:
            name = "blocks.0.mlp"
            pre = linear(state, self.weights[f"{name}.W_in"], self._bias(f"{name}.b_in"))
            units = ACTIVATION_UNITS[self.config.act_fn] * U
            post = [Known(s, SLOPE * e + units * (s + e) + TINY) for s, e in pre]
            state = add(
                state, linear(post, self.weights[f"{name}.W_out"], self._bias(f"{name}.b_out"))
            )
        read = linear(state, self.weights["unembed.W_U"], self._bias("unembed.b_U"))
        errors = [known.error for known in read]
        return kernel.largest([a + b for a, b in combinations(errors, 2)] or errors)

    def _bias(self, name: str) -> list[Ball] | None:
        return self.weights[name] if self.config.biases else None

    def _head(self, head: int, length: int, form: str) -> list[Known]:
        """What a head returns, per component, whatever the string."""
        embedded = self.weights["embed.W_E"]
        query = self._projected("Q", head, embedded[CLS])
        scores = [self._score(query, self._projected("K", head, row), length) for row in embedded]
        values = [self._projected("V", head, row) for row in embedded]
        # A masked key adds -inf to its score and 0 times its value: exactly nothing if both are
        # finite, and not a number if one is infinite.
        finite = all(entry.error.is_finite() for row in [scores, *values] for entry in row)
        letters = range(FIRST_LETTER, len(embedded))
        attended = [CLS, *letters] if self.config.attend_cls else letters
        scores, values = [scores[t] for t in attended], [values[t] for t in attended]
        apart = 2 * kernel.largest([s + e for s, e in scores])
        moved = kernel.largest([error for _, error in scores])
        keys = length + 1
        if form == "compressed":
            copies = arb(length).log()
            # With the 2 U apart below: 4 U of the log, and what adding it and the largest round.
            keys, moved, apart = 1 + len(letters), moved + U * (apart + 5 * copies), apart + copies
        # A score that is moved changes its weight, and the sum of weights, by a factor; then come
        # exp, the sum and the division.
        factor = (2 * (moved + U * apart)).exp() * (1 + 2 * gamma(keys) + 20 * U)
        share = factor - 1
        if not (finite and kernel.is_less(share, arb(1) / 2)):
            share = UNKNOWN
        return [self._mixed(column, share, keys) for column in zip(*values, strict=True)]

    def _mixed(self, values: Sequence[Known], share: Ball, keys: int) -> Known:
        """A mean of these, each weight off by at most this share of itself."""
        size = kernel.largest([s for s, _ in values])
        error = kernel.largest([e for _, e in values]) * (1 + share)
        error = error + (size + error) * (share + 2 * gamma(keys + 1))
        # A weight below float32's range is lost, or good to that range.
        return Known(size, error + keys * TINY * (1 + size))

    def _projected(self, part: str, head: int, row: Sequence[Ball]) -> list[Known]:
        """A query, key or value of a token, whose real sizes are known."""
        matrix = self.weights[f"blocks.0.attn.W_{part}"][head]
        name = f"blocks.0.attn.b_{part}"
        bias = self.weights[name][head] if self.config.biases else None
        computed = linear([Known(abs(x), arb(0)) for x in row], matrix, bias)
        real = [kernel.dot(row, column) for column in zip(*matrix, strict=True)]
        if bias is not None:
            real = [x + b for x, b in zip(real, bias, strict=True)]
        return [Known(abs(x), known.error) for x, known in zip(real, computed, strict=True)]

    def _score(self, query: Sequence[Known], key: Sequence[Known], length: int) -> Known:
        size = kernel.dot([known.size for known in query], [known.size for known in key])
        return score(self.config, query, key, size, length)


def score(
    config: ClassifierConfig, query: Sequence[Known], key: Sequence[Known], size: Ball, length: int
) -> Known:
    """The score of a query and a key; the size of their real product is at most `size`."""
    pairs, terms = list(zip(query, key, strict=True)), len(query) + 1
    reach = sum(((q.size + q.error) * (k.size + k.error) for q, k in pairs), arb(0))
    moved = sum((q.error * (k.size + k.error) + q.size * k.error for q, k in pairs), arb(0))
    factor, units = kernel.score_factor(config.d_head, config.attention_scale), 3
    if config.log_n:
        counted = length + config.cls_counted
        factor, units = factor * arb(counted if counted != 1 else 2).log(), 13
    size, error = size * factor, (moved + gamma(terms) * reach + terms * TINY) * factor
    error = error + units * U * (size + error) * (1 + units * U)
    return within(reach + size + error, Known(size, error))


def linear(
    x: Sequence[Known],
    matrix: Sequence[Sequence[Ball]],
    bias: Sequence[Ball] | None,
    times: Ball | int = 1,
) -> list[Known]:
    """x @ matrix (+ bias), in any order; `times` what everything was multiplied by."""
    terms, outputs = len(x) + 1 + (bias is not None), []
    for j in range(len(matrix[0])):
        column = [abs(row[j]) for row in matrix]
        reach = kernel.dot([known.size + known.error for known in x], column)
        if bias is not None:
            reach = reach + abs(bias[j])
        carried = kernel.dot([known.error for known in x], column)
        error = carried + gamma(terms) * reach + times * terms * TINY
        outputs.append(within(reach, Known(reach, error)))
    return outputs


def add(a: Sequence[Known], b: Sequence[Known]) -> list[Known]:
    """Component by component."""
    sums = []
    for one, other in zip(a, b, strict=True):
        size, error = one.size + other.size, one.error + other.error
        sums.append(within(size + error, Known(size, error + U * (size + error) + TINY)))
    return sums


def within(reach: Ball, known: Known) -> Known:
    """Nothing is known of what may overflow."""
    return known if kernel.is_less(reach, OVERFLOW) else Known(UNKNOWN, UNKNOWN)


def gamma(terms: int) -> Ball:
    """What a sum of so many terms may be off by, relative to the sum of their sizes."""
    reach = terms * U
    return reach / (1 - reach) if kernel.is_less(reach, arb(1) / 4) else UNKNOWN
