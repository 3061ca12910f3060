"""Terms of the float32 bound of attention, against sums written out by hand.

The adversary of test_float_layer.py attacks the whole bound; a term that is small beside the
others could shrink there unseen.
"""

from __future__ import annotations

from math import exp, expm1, sqrt
from unittest.mock import patch

import pytest
from flint import arb

from tests.trusted.test_float_attention import rounding
from tests.verification.ordered_models import ordered_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.trusted.float32 import Known
from tsc_interp.trusted.float_attention import AttentionRounding, Token, _mixed

U, TINY = 2.0**-24, 2.0**-120
READER = (FIRST_LETTER, 1)


def attention(**options: object) -> AttentionRounding:
    config = ClassifierConfig(
        n_letters=2,
        n_heads=1,
        d_model=3,
        d_head=2,
        n_positions=3,
        reads="last_letter",
        attend_cls=True,
    )
    return rounding(ordered_checkpoint(config.replace(**options), 5))


def gamma(terms: int) -> float:
    return terms * U / (1 - terms * U)


@pytest.mark.parametrize(("size", "error"), [(3.0, 2.0**-30), (900.0, 2.0**-12), (0.0, 0.0)])
def test_how_much_weights_move(size: float, error: float) -> None:
    """e^(error + the difference to the largest + exp's own units) - 1, as a share of the rest."""
    made = attention()
    sizes = iter([arb(size) / 3, arb(size)])

    def score(*_: object) -> Known:
        return Known(next(sizes, arb(0)), arb(error))

    with patch.object(AttentionRounding, "_score", score):
        found, held, mixed = made._head(0, 1, READER, "tokens")
    assert held.shape == (2, 2)
    assert len(mixed) == 2
    moved = expm1(error + U * 2 * (size + error) + 9 * U)
    assert float(found) == pytest.approx(moved / (1 - moved), rel=1e-9)


def test_a_mean_adds_what_its_sums_round() -> None:
    found = _mixed([Known(arb(2), arb(2) ** -20), Known(arb(5), arb(2) ** -30)], 7)
    units, error = gamma(7) + gamma(8) + 4 * U, 2.0**-20
    assert float(found.size) == 5
    expected = error + (5 + error) * units * (1 + units) + 7 * TINY * 6
    assert float(found.error) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("scale", "slope"), [(0.0, False), (3.0, False), (0.0, True)])
def test_how_far_a_score_is_off(scale: float, slope: bool) -> None:
    made = attention(attention_scale=scale, positions="alibi" if slope else "learned")
    query = Token([arb(2), arb(-3)], [Known(arb(2), arb(2) ** -20), Known(arb(3), arb(2) ** -22)])
    key = Token([arb(5), arb(7)], [Known(arb(5), arb(2) ** -21), Known(arb(7), arb(2) ** -23)])
    with patch.object(AttentionRounding, "_met", lambda *_: key):
        found = made._score(0, query, READER, (FIRST_LETTER, 0), 2)
    q, k = [(2, 2.0**-20), (3, 2.0**-22)], [(5, 2.0**-21), (7, 2.0**-23)]
    pairs = [(a, b, c, d) for (a, b), (c, d) in zip(q, k, strict=True)]
    reach = sum((a + b) * (c + d) for a, b, c, d in pairs)
    moved = sum(b * (c + d) + a * d for a, b, c, d in pairs)
    factor = 1 / (scale or sqrt(2))
    size = 11 * factor
    error = (moved + gamma(3) * reach + 3 * TINY) * factor
    error += 3 * U * (size + error) * (1 + 3 * U)
    if slope:
        taken = 2.0**-8  # of one head, one step back
        size, error = size + taken, error + 2 * U * (size + error + 2 * taken) + TINY
    assert float(found.size) == pytest.approx(size, rel=1e-12)
    assert float(found.error) == pytest.approx(error, rel=1e-9)


def test_scores_that_move_too_far_tell_nothing() -> None:
    """e^x - 1 below a quarter is known; above, nothing is."""
    made = attention()
    for error, known in ((0.2, True), (0.23, False)):
        with patch.object(
            AttentionRounding, "_score", lambda *_, off=error: Known(arb(0), arb(off))
        ):
            assert made._head(0, 1, READER, "tokens")[0].is_finite() == known
    assert exp(0.2) - 1 < 0.25 < exp(0.23) - 1
