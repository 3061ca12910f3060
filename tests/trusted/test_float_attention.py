"""The float32 bound of attention, derived a second time by plain loops, for every option.

A vector is a list of (real number, what float32 may be off by). Only the rounding of one sum, of
one norm and of one addition is taken from the checker: those have tests of their own.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from flint import arb, ctx

from tests.verification.ordered_models import ordered_checkpoint, wide_config
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.strings import CLS, FIRST_LETTER, PAD
from tsc_interp.trusted.balls import UNKNOWN
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.float32 import Known, Norm, add, linear, normed
from tsc_interp.trusted.float_attention import (
    AttentionErrors,
    AttentionRounding,
    HeadErrors,
    Token,
    _mixed,
)
from tsc_interp.trusted.forward import Forward
from tsc_interp.trusted.positions import alibi_slopes, rotary, sinusoidal
from tsc_interp.trusted.spec import read_model


def rounding(checkpoint: Checkpoint, budget: Any = None) -> AttentionRounding:
    return AttentionRounding(Forward(read_model(checkpoint.to_bytes())), budget or allowed())


def allowed() -> Budget:
    budget = Budget()
    budget.restart()
    return budget


U, TINY = arb(2) ** -24, arb(2) ** -120
SLACK = 2.0**-40
Vector = list[tuple[Any, Any]]


def gamma(terms: int) -> Any:
    return terms * U / (1 - terms * U)


def known(vector: Vector) -> list[Known]:
    return [Known(abs(x), error) for x, error in vector]


class ByHand:
    """Bounds for one head of one model, without biases or with."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        written = checkpoint.expanded()
        self.config, self.w = written.config, written.weights

    def balls(self, name: str, *at: int) -> Any:
        return np.vectorize(lambda x: arb(float(x)), otypes=[object])(self.w[name][at])

    def bias(self, name: str, *at: int) -> Any:
        return self.balls(name, *at).tolist() if self.config.biases else None

    def place(self, place: int) -> list[Any]:
        if self.config.positions == "sinusoidal":
            row = sinusoidal(self.config.n_positions, self.config.d_model)[place]
            return [arb(float(x)) for x in row]
        return list(self.balls("pos_embed.W_pos", place))

    def embedded(self, token: int, place: int) -> Vector:
        row = list(self.balls("embed.W_E", token))
        if not (self.config.n_positions and self.config.positions in ("learned", "sinusoidal")):
            return [(x, arb(0)) for x in row]
        row = [x + p for x, p in zip(row, self.place(place), strict=True)]
        return [(x, U * abs(x)) for x in row]

    def normed(self, vector: Vector, name: str, centred: bool) -> Vector:
        row, d = [x for x, _ in vector], len(vector)
        if centred:
            row = [x - sum(row, arb(0)) / d for x in row]
        divisor = (sum((x * x for x in row), arb(0)) / d + arb(self.config.norm_eps)).sqrt()
        scale = self.balls(f"{name}.w").tolist() if f"{name}.w" in self.w else [arb(1)] * d
        shift = self.balls(f"{name}.b").tolist() if f"{name}.b" in self.w else [arb(0)] * d
        real = [x / divisor * s + b for x, s, b in zip(row, scale, shift, strict=True)]
        norm = Norm(centred, scale, shift)
        found = normed(known(vector), norm, row, divisor, self.config.norm_eps)
        return [(x, one.error) for x, one in zip(real, found, strict=True)]

    def read(self, token: int, place: int) -> Vector:
        vector = self.embedded(token, place)
        if self.config.norm == "off":
            return vector
        return self.normed(vector, "blocks.0.ln1", self.config.norm.startswith("layer"))

    def projected(self, part: str, head: int, vector: Vector) -> Vector:
        matrix = self.balls(f"blocks.0.attn.W_{part}", head).tolist()
        bias = self.bias(f"blocks.0.attn.b_{part}", head)
        found = linear(known(vector), matrix, bias)
        real = []
        for j in range(len(matrix[0])):
            total = sum((x * row[j] for (x, _), row in zip(vector, matrix, strict=True)), arb(0))
            real.append(total + (bias[j] if bias else 0))
        return [(x, one.error) for x, one in zip(real, found, strict=True)]

    def met(self, part: str, head: int, token: int, place: int) -> Vector:
        config, vector = self.config, self.read(token, place)
        if config.positions == "shortformer":
            row = self.place(place)
            found = add(known(vector), [Known(abs(p), arb(0)) for p in row])
            pairs = zip(vector, row, found, strict=True)
            vector = [(x + p, one.error) for (x, _), p, one in pairs]
        vector = self.projected(part, head, vector)
        if config.qk_norm != "off":
            vector = self.normed(vector, f"blocks.0.attn.{part.lower()}_norm", False)
        if config.positions == "rotary":
            vector = self.turned(vector, place)
        return vector

    def turned(self, vector: Vector, place: int) -> Vector:
        config, found = self.config, list(vector)
        width = config.rotary_dim or config.d_head
        table = rotary(config.n_positions, width, config.rotary_base)[place]
        for pair in range(width // 2):
            i, j = (2 * pair, 2 * pair + 1)
            if not config.rotary_adjacent_pairs:
                i, j = pair, pair + width // 2
            cos, sin = arb(float(table[0][pair])), arb(float(table[1][pair]))
            both = known([vector[i], vector[j]])
            a, b = vector[i][0], vector[j][0]
            found[i] = cos * a - sin * b, linear(both, [[cos], [sin]], None)[0].error
            found[j] = cos * b + sin * a, linear(both, [[sin], [cos]], None)[0].error
        return found

    def score(self, head: int, q: Vector, at: int, k: Vector, place: int, length: int) -> Any:
        config, terms = self.config, len(q) + 1
        reach = moved = real = arb(0)
        for (a, e), (b, f) in zip(q, k, strict=True):
            reach += (abs(a) + e) * (abs(b) + f)
            moved += e * abs(b) + e * f + abs(a) * f
            real += a * b
        scale, units = arb(config.attention_scale or config.d_head), 3
        factor = 1 / (scale if config.attention_scale else scale.sqrt())
        if config.score_scale != "sqrt_d_head":
            more = int(config.score_scale == "sqrt_d_head_log_n_cls")
            factor, units = factor * arb(max(length + more, 2)).log(), 13
        size, error = abs(real) * factor, (moved + gamma(terms) * reach + terms * TINY) * factor
        error += units * U * (size + error) * (1 + units * U)
        if config.positions == "alibi":
            taken = arb(float(alibi_slopes(config.n_heads)[head])) * max(at - place, 0)
            size, error = size + taken, error + 2 * U * (size + error + 2 * taken) + TINY
        return size, error

    def head(self, head: int, length: int, reader: tuple[int, int]) -> Any:
        config, first = self.config, int(self.config.reads == "first")
        places = range(first, first + length) if config.n_positions else [0]
        keys = [(FIRST_LETTER + i, p) for p in places for i in range(config.n_letters)]
        keys += [reader] if reader[0] == CLS and config.attend_cls else []
        q = self.met("Q", head, *reader)
        scores = [
            self.score(head, q, reader[1], self.met("K", head, *key), key[1], length)
            for key in keys
        ]
        moved, apart = _most(e for _, e in scores), 2 * _most(s + e for s, e in scores)
        share = (moved + U * apart + 9 * U).exp() - 1
        values = [self.projected("V", head, self.read(*key)) for key in keys]
        mixed = []
        for column in zip(*values, strict=True):
            size, error = _most(abs(x) for x, _ in column), _most(e for _, e in column)
            units = gamma(length + 1) + gamma(length + 2) + 4 * U
            lost = (length + 1) * TINY * (1 + size)
            mixed.append((size, error + (size + error) * units * (1 + units) + lost))
        real = np.array([[float(x) for x, _ in vector] for vector in values])
        return share / (1 - share), real, mixed

    def drift(self, length: int, reader: tuple[int, int]) -> Any:
        """Per head the share, values and errors; what is rounded after, and sizes."""
        state, heads = known(self.embedded(*reader)), []
        given, out = [], []
        for head in range(self.config.n_heads):
            share, real, mixed = self.head(head, length, reader)
            heads.append((float(share), real, [float(error) for _, error in mixed]))
            given += [Known(size + error, arb(0)) for size, error in mixed]
            out += self.balls("blocks.0.attn.W_O", head).tolist()
        if heads:
            state = add(state, linear(given, out, self.bias("blocks.0.attn.b_O")))
        return heads, [float(e) for _, e in state], [float(s + e) for s, e in state]


def _most(balls: Any) -> Any:
    return max(balls, key=lambda ball: float(ball.mid()))


PLAIN = ClassifierConfig(
    n_letters=2, n_heads=2, d_model=3, d_head=2, n_positions=5, n_outputs=2, reads="last_letter",
    attend_cls=True,
)  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {},
    {"biases": True, "norm": "layer"},
    {"norm": "rms", "n_positions": 0},
    {"norm": "rms_pre", "positions": "alibi", "attention_scale": 3.0},
    {"norm": "layer_pre", "positions": "shortformer", "biases": True},
    {"norm": "rms", "positions": "rotary", "d_head": 4, "qk_norm": "rms"},
    {"positions": "rotary", "d_head": 6, "rotary_dim": 4, "rotary_adjacent_pairs": True},
    {"positions": "sinusoidal", "qk_norm": "rms_pre", "n_key_value_heads": 1},
    {"reads": "first", "attend_cls": True, "norm": "rms", "score_scale": "sqrt_d_head_log_n"},
    {"reads": "first", "attend_cls": False, "n_letters": 3, "biases": True},
    {"reads": "first", "attend_cls": True, "score_scale": "sqrt_d_head_log_n_cls"},
    {"reads": "last", "attend_cls": True, "norm": "rms"},
    {"n_heads": 0, "norm": "rms"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("length", [1, 3])
def test_every_term_of_the_drift(options: dict[str, Any], length: int) -> None:
    config = PLAIN.replace(**options)
    checkpoint = ordered_checkpoint(config, 5, scale=0.7)
    compare(checkpoint, length, sizes=[1.0, 1e-3])


@pytest.mark.parametrize("seed", range(6))
def test_the_drift_of_drawn_models(seed: int) -> None:
    config = wide_config(seed + 20)
    length = min(2, (config.n_positions or 9) - int(config.has_cls))
    compare(ordered_checkpoint(config, seed, scale=0.7), length, sizes=[1.0])


def compare(checkpoint: Checkpoint, length: int, sizes: list[float]) -> None:
    config = checkpoint.config
    reader = (CLS, 0 if config.reads == "first" else length)
    if config.reads == "last_letter":
        reader = (FIRST_LETTER + 1, length - 1 if config.has_positions else 0)
    for size in sizes:
        weights = {**checkpoint.weights}
        weights["embed.W_E"] = (weights["embed.W_E"] * size).astype(np.float32)
        smaller = Checkpoint(config, weights)
        found = rounding(smaller).errors(length, reader)
        with ctx.workprec(256):
            heads, rounded, sizes_ = ByHand(smaller).drift(length, reader)
        np.testing.assert_allclose(found.rounded, rounded, rtol=1e-13)
        np.testing.assert_allclose(found.sizes, sizes_, rtol=1e-13)
        assert len(found.heads) == len(heads)
        for number, (one, (share, values, own)) in enumerate(zip(found.heads, heads, strict=True)):
            assert one.share == pytest.approx(share, rel=1e-13, abs=0)
            np.testing.assert_allclose(one.values, values, rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(one.own, own, rtol=1e-13)
            np.testing.assert_array_equal(one.out, weights["blocks.0.attn.W_O"][number])


def test_what_a_direction_hears() -> None:
    """|q W_O| · own + the share of half the range of means, and room for what float64 rounds."""
    values = np.array([[1.0, -4.0], [3.0, 2.0], [-2.0, 0.5]])
    own, out = np.array([0.25, 0.5]), np.array([[1.0, -2.0, 0.5], [4.0, 1.0, -1.0]])
    head = HeadErrors(0.125, values, own, out)
    q = np.array([[1.0, 0.5, -2.0], [0.0, -1.0, 1.0]])
    drift = AttentionErrors([head, head], np.array([0.5, 2.0, 1.0]), np.zeros(3))
    for row, direction in enumerate(q):
        read = [sum(direction[j] * out[i, j] for j in range(3)) for i in range(2)]
        wide = [sum(abs(direction[j] * out[i, j]) for j in range(3)) for i in range(2)]
        means = [read[0] * a + read[1] * b for a, b in values]
        slack = wide[0] * (0.25 + 0.125 * 3.0) + wide[1] * (0.5 + 0.125 * 4.0)
        expected = abs(read[0]) * 0.25 + abs(read[1]) * 0.5 + SLACK * slack
        expected += 0.125 * (max(means) - min(means)) / 2
        assert head.along(q)[row] == pytest.approx(expected, rel=1e-15)
        rounded = sum(abs(direction) * [0.5, 2.0, 1.0])
        total = (rounded + 2 * expected) * (1 + SLACK)
        assert drift.along(q)[row] == pytest.approx(total, rel=1e-15)
    np.testing.assert_array_equal(drift.along(q[None])[0], drift.along(q))
    np.testing.assert_array_equal(drift.along(q[:, None])[:, 0], drift.along(q))


READER = (FIRST_LETTER, 1)


def test_keys_that_are_met_and_keys_that_are_masked() -> None:
    def spots(length: int, reader: tuple[int, int], **options: Any) -> Any:
        checkpoint = ordered_checkpoint(PLAIN.replace(n_positions=3, **options), 5)
        return rounding(checkpoint)._spots(length, reader)

    letters = [FIRST_LETTER, FIRST_LETTER + 1]
    both = [(token, place) for place in (0, 1) for token in letters]
    padded = [(PAD, place) for place in range(3)]
    assert spots(2, READER) == (both, padded)
    later = [(token, place) for place in (1, 2) for token in letters]
    cls = (CLS, 0)
    first = {"reads": "first"}
    assert spots(2, cls, **first, attend_cls=True) == ([*later, cls], padded)
    assert spots(2, cls, **first, attend_cls=False) == (later, [*padded, cls])
    assert spots(2, (CLS, 2), reads="last") == ([*both, (CLS, 2)], padded)
    bare = rounding(ordered_checkpoint(PLAIN.replace(n_positions=0), 5))
    assert bare._spots(2, (letters[0], 0)) == ([(token, 0) for token in letters], [(PAD, 0)])


def test_a_masked_key_that_may_overflow_leaves_nothing_known() -> None:
    """0 times infinity is no number: scores and values of every token must be finite."""
    made = rounding(ordered_checkpoint(PLAIN.replace(n_positions=3), 5))
    assert made._head(0, 2, READER, "tokens")[0].is_finite()
    score, project = made._score, made._projected

    def no_score(head: int, query: Any, reader: Any, spot: Any, length: int) -> Known:
        if spot[0] == PAD:
            return Known(UNKNOWN, UNKNOWN)
        return score(head, query, reader, spot, length)

    with patch.object(made, "_score", no_score):
        assert not made._head(0, 2, READER, "tokens")[0].is_finite()
    masked = made._read((PAD, 1))

    def no_value(part: str, head: int, read: Token) -> Token:
        found = project(part, head, read)
        if part == "V" and read is masked:
            return Token(found.real, [found.known[0], Known(UNKNOWN, UNKNOWN)])
        return found

    with patch.object(made, "_projected", no_value):
        assert not made._head(0, 2, READER, "tokens")[0].is_finite()


@pytest.mark.parametrize("option", ["plain", "alibi"])
def test_underflow_counts_where_nothing_is_met(option: str) -> None:
    positions = "alibi" if option == "alibi" else "learned"
    made = rounding(ordered_checkpoint(PLAIN.replace(positions=positions), 5))
    zero = Token([arb(0)] * 2, [Known(arb(0), arb(0))] * 2)
    with patch.object(made, "_met", lambda *_: zero):
        found = made._score(0, zero, READER, READER, 2)
    size = 3 * TINY / arb(2).sqrt()
    expected = size * (1 + 3 * U * (1 + 3 * U))
    if option == "alibi":
        expected = expected + 2 * U * expected + TINY
    assert float(found.error / expected) == pytest.approx(1.0, rel=1e-9)
    mixed = _mixed([Known(arb(0), arb(0))], 7)
    assert float(mixed.error / (7 * TINY)) == pytest.approx(1.0, rel=1e-9)
    with ctx.workprec(400):
        units = gamma(7) + gamma(8) + 4 * U
        lost = _mixed([Known(arb(5), arb(0))], 7).error - 5 * units * (1 + units)
        assert float(lost / (7 * TINY)) == pytest.approx(1 + 5, rel=1e-9)


@pytest.mark.parametrize(
    ("real", "size", "error", "fits"),
    [(0.0, 1.0, 0.0, True), (0.5, 1.4, 0.0, True), (0.5, 1.6, 0.0, False), (0.0, 1.0, 0.4, True),
     (0.0, 1.0, 0.6, False), (0.0, 1.9, 0.0, True), (0.0, 2.1, 0.0, False)],
)  # fmt: skip
def test_a_score_that_may_overflow(real: float, size: float, error: float, fits: bool) -> None:
    """What is added up, the score itself and its error, together: below 2^126."""
    made = rounding(ordered_checkpoint(PLAIN.replace(attention_scale=1.0), 5))
    none = Known(arb(0), arb(0))
    large, top = arb(2) ** 62, arb(2) ** 63
    query = Token([large, arb(0)], [Known(large, arb(0)), none])
    key = Token([top * real, arb(0)], [Known(top * size, top * error), none])
    with patch.object(made, "_met", lambda *_: key):
        found = made._score(0, query, READER, (FIRST_LETTER, 0), 2)
    assert found.error.is_finite() == fits


def test_a_norm_divides_by_no_more_than_is_known() -> None:
    """A divisor is a ball, and the error is largest at its lower end."""
    made = rounding(ordered_checkpoint(PLAIN.replace(norm="rms"), 5))
    token = Token([arb(1)] * 3, [Known(arb(1), arb(0))] * 3)
    norm = Norm(False, [arb(1)] * 3, [arb(0)] * 3)
    with patch.object(made.forward, "divisor", lambda _: arb(2, 0.5)):
        found = made._normed_token(norm, token, token.real)
    expected = normed(token.known, norm, token.real, arb(1.5), made.spec.norm_eps)
    for one, other in zip(found.known, expected, strict=True):
        assert float(one.error) == pytest.approx(float(other.error), rel=1e-9)


def test_the_time_of_every_key_is_counted() -> None:
    made, spent = rounding(ordered_checkpoint(PLAIN, 5)), []
    made.spend = lambda: spent.append(1)  # type: ignore[assignment, misc]
    made.errors(3, (FIRST_LETTER, 2))
    assert len(spent) >= PLAIN.n_heads * 3 * PLAIN.n_letters
