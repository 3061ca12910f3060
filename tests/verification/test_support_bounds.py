"""What the search knows of a support, against mpmath and numbers worked out by hand.

`test_search_bounds.py` asks that bounds hold on awkward models; here they must also be tight, and
the error bound must be the one that the docs state (theory/soundness).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, ctx

from tests.cases import CONFIGS
from tests.verification import precise
from tests.verification.models import hand_built, random_checkpoint
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.verification.bounds.layered import LayeredSupport
from tsc_interp.verification.bounds.supports import Supports, ZeroSupport, count_box_bounds
from tsc_interp.verification.bounds.tables import TableSupport, _radius

LOG_N = {"score_scale": "sqrt_d_head_log_n"}
SCORES, VALUES = [0.25, -0.5, 0.75], [1.0, -2.0, 4.0]


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(40):
        yield


def layered(checkpoint: Checkpoint, letters: tuple[int, ...]) -> LayeredSupport:
    """In the form for any depth, whatever the depth."""
    weights = {name: w.astype(np.float64) for name, w in checkpoint.weights.items()}
    return LayeredSupport(checkpoint.config, weights, letters)


def both(checkpoint: Checkpoint, letters: tuple[int, ...]) -> list[Any]:
    support = Supports(checkpoint)[letters]
    assert isinstance(support, TableSupport)
    return [support, layered(checkpoint, letters)]


def full(config: ClassifierConfig, letters: tuple[int, ...], counts: Any) -> list[int]:
    found = [0] * config.n_letters
    for letter, count in zip(letters, counts, strict=True):
        found[letter] = int(count)
    return found


# -- points --------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_logits_are_those_of_mpmath(config: ClassifierConfig) -> None:
    checkpoint = random_checkpoint(config, 6)
    letters = tuple(range(config.n_letters))[:3]
    supports: list[Any] = [Supports(checkpoint)[letters], layered(checkpoint, letters)]
    points = np.array([[2, 3, 1], [1, 1, 1], [40, 7, 300]])[:, : len(letters)]
    truth = [precise.logit(checkpoint, full(config, letters, point), 40) for point in points]
    for support in supports:
        logits, error = support.logits(points.astype(float))
        for logit, off, real in zip(
            logits.tolist(), np.broadcast_to(error, 3).tolist(), truth, strict=True
        ):
            assert abs(logit - real) <= off < 1e-9
        # A box of one vector, in both ways to ask for it.
        low, high = count_box_bounds(support, points.astype(float), points.astype(float))
        for least, most, real in zip(low.tolist(), high.tolist(), truth, strict=True):
            assert least <= real <= most
            assert most - least < 1e-8


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_deep_or_not_boxes_hold_their_vectors(config: ClassifierConfig) -> None:
    checkpoint = random_checkpoint(config, 7)
    letters = (0, 1)
    low, high = np.array([[2.0, 3.0]]), np.array([[3.0, 5.0]])
    for support in (Supports(checkpoint)[letters], layered(checkpoint, letters)):
        least, most = count_box_bounds(support, low, high)
        for counts in product((2, 3), (3, 4, 5)):
            real = precise.logit(checkpoint, full(config, letters, counts), 30)
            assert least[0] <= real <= most[0]


# -- boxes of one head: extremes at corners --------------------------------------------------------


@pytest.mark.parametrize("cls", [False, True])
@pytest.mark.parametrize("log_n", [False, True])
def test_boxes_are_as_wide_as_their_strings(cls: bool, log_n: bool) -> None:
    checkpoint = hand_built([SCORES], [VALUES], 0.5, attend_cls=cls, **(LOG_N if log_n else {}))
    low, high, lengths = [2, 1, 3], [4, 5, 3], (6, 12)
    means = []
    # With log n a weight has a range of its own: m n^gap, from the longest to the shortest.
    for corner in product((0, 1), repeat=3 + cls):
        picked = [
            (b if c else a) * mpmath.exp((s - 0.75) * (mpmath.log(lengths[1 - c]) if log_n else 1))
            for c, s, a, b in zip(
                corner, [*SCORES, *[0] * cls], [*low, *[1] * cls], [*high, *[1] * cls], strict=True
            )
        ]
        read = [*VALUES, *[0] * cls]
        means.append(mpmath.fdot(picked, read) / mpmath.fsum(picked) - 0.5)
    table, deep = both(checkpoint, (0, 1, 2))
    least, most = count_box_bounds(table, np.array([low], float), np.array([high], float))
    assert least[0] <= min(means)
    assert max(means) <= most[0]
    np.testing.assert_allclose(
        [least[0], most[0]], [float(min(means)), float(max(means))], atol=1e-10
    )
    if not log_n:
        # The other form sees the same box; with log n it takes out another number.
        found = count_box_bounds(deep, np.array([low], float), np.array([high], float))
        np.testing.assert_allclose(
            [found[0][0], found[1][0]], [float(min(means)), float(max(means))], atol=1e-10
        )


# -- the error bound is the documented one ---------------------------------------------------------


@pytest.mark.parametrize("log_n", [False, True])
@pytest.mark.parametrize("d_mlp", [0, 3])
def test_the_error_is_what_the_docs_state(log_n: bool, d_mlp: int) -> None:
    """2 (u 2^-53 S + R + T), u = 32 + 8 tokens + 4 heads + 4 channels, and 16 · 746 for log n."""
    config = ClassifierConfig(n_heads=3, d_mlp=d_mlp, **(LOG_N if log_n else {}))
    checkpoint = random_checkpoint(config, 1)
    support = Supports(checkpoint)[(0, 2)]
    w = {name: array.astype(np.float64) for name, array in checkpoint.weights.items()}
    x = w["embed.W_E"][[0, 2, 4]]
    readout = np.concatenate([w["unembed.W_U"], *([w["blocks.0.mlp.W_in"]] if d_mlp else [])], 1)
    sizes = np.abs(x[0] @ readout)
    for head in range(3):
        added = x[1:] @ w["blocks.0.attn.W_V"][head] @ w["blocks.0.attn.W_O"][head] @ readout
        sizes += np.abs(added).max(0)
    outer = np.abs(w["blocks.0.mlp.W_out"] @ w["unembed.W_U"])[:, 0] if d_mlp else np.zeros(0)
    spread = sizes[0] + 2.4 * outer @ sizes[1:]
    units = 32 + 8 * 2 + 4 * 3 + 4 * (1 + d_mlp) + (16 * 746 if log_n else 0)
    _, error = support.logits(np.array([[1.0, 1.0]]))
    assert error == pytest.approx(2 * units * 2.0**-53 * spread, rel=1e-6, abs=0)
    least, most = count_box_bounds(support, np.array([[3.0, 4.0]]), np.array([[3.0, 4.0]]))
    # A box has twice that on each side.
    assert 3.99 * error <= (most - least)[0] < 4.01 * error + 1e-13


def test_radii_are_rounded_up() -> None:
    with ctx.workprec(128):
        assert _radius(arb(0)) == 0.0
        assert _radius(arb(0.75)) == 0.0
        third = arb(1) / 3
        assert float(third.rad()) < _radius(third) < 1e-30
        tiny = arb(2) ** -2000
        assert tiny.is_exact()
        assert 0 < _radius(tiny) < 1e-290
        assert _radius(arb(0, 1e-20)) > 1e-20


def test_radii_go_into_the_error() -> None:
    """1/sqrt(3) times ±1 cancels to a ball around zero: known to be small, not to be zero."""
    checkpoint = hand_built([[1, 0, 2]] * 2, [[1, 0, 3], [-1, 0, -3]], 0.0)
    plain = Supports(checkpoint)[(0, 1)]
    assert isinstance(plain, TableSupport)
    wide = dataclasses.replace(plain, channel_radii=plain.channel_radii + 0.5)
    assert wide.logits(np.ones((1, 2)))[1] == pytest.approx(2 * 0.5, rel=1e-6)
    gelus = Supports(random_checkpoint(ClassifierConfig(d_mlp=2), 0))[(0, 1)]
    assert isinstance(gelus, TableSupport)
    wider = dataclasses.replace(gelus, channel_radii=gelus.channel_radii + np.eye(3)[1])
    expected = 2 * 1.2 * abs(gelus.outer_weights[0])
    assert wider.logits(np.ones((1, 2)))[1] == pytest.approx(expected, rel=1e-6)
    outer = dataclasses.replace(gelus, outer_radii=np.array([0.0, 1.0]))
    size = np.abs(gelus.constant[2]) + np.abs(gelus.values[:, :, 2]).max(1).sum()
    assert outer.logits(np.ones((1, 2)))[1] == pytest.approx(2 * size, rel=1e-6)


# -- zero, and which form --------------------------------------------------------------------------


def test_zero_weights_make_zero_supports() -> None:
    zero = hand_built([[0, 0]], [[0, 0]], 0.0)
    support = Supports(zero)[(0, 1)]
    assert isinstance(support, ZeroSupport)
    logits, error = support.logits(np.ones((4, 2)))
    assert logits.tolist() == [0.0] * 4
    assert error < 0
    low, high = support.bounds(np.ones((3, 2)), np.ones((3, 2)), np.ones(3), np.ones(3))
    assert low.tolist() == high.tolist() == [0.0] * 3
    # One of a: what reads nothing alone reads nothing; together they do not.
    some = Supports(hand_built([[0, 0]], [[0, 2]], 0.0))
    assert isinstance(some[(0,)], ZeroSupport)
    assert isinstance(some[(1,)], TableSupport)
    assert isinstance(some[(0, 1)], TableSupport)
    config = ClassifierConfig(n_letters=2)
    weights = dict(random_checkpoint(config, 0).weights)
    weights["unembed.W_U"] = np.zeros_like(weights["unembed.W_U"])
    assert isinstance(Supports(Checkpoint(config, weights))[(0,)], ZeroSupport)


@pytest.mark.parametrize(
    ("constant", "radii", "outer", "outer_radius", "zero"),
    [
        ((0, 0), (0, 0), 0, 0, True),
        ((0, 1), (0, 0), 0, 0, True),  # a GELU that nothing reads
        ((0, 0), (0, 0), 2, 0, True),  # a GELU of zero
        ((0, 1), (0, 0), 2, 0, False),
        ((0, 1), (0, 0), 0, 1e-40, False),
        ((0, 0), (0, 1e-40), 2, 0, False),
        ((0, 0), (1e-40, 0), 0, 0, False),
        ((1, 0), (0, 0), 0, 0, False),
    ],
)
def test_zero_is_what_is_made_of_zeros(
    constant: Any, radii: Any, outer: float, outer_radius: float, zero: bool
) -> None:
    support = Supports(random_checkpoint(ClassifierConfig(d_mlp=1), 0))[(0, 1)]
    assert isinstance(support, TableSupport)
    made = dataclasses.replace(
        support,
        values=np.zeros_like(support.values),
        constant=np.array(constant, float),
        channel_radii=np.array(radii, float),
        outer_weights=np.array([outer], float),
        outer_radii=np.array([outer_radius]),
    )
    assert made.is_zero is zero
    if zero:
        values = support.values.copy()
        values[:, :, 1] = 0.0
        assert not dataclasses.replace(made, values=values).is_zero


@pytest.mark.parametrize(
    ("options", "kind"),
    [({}, TableSupport), ({"norm": "rms"}, LayeredSupport),
     ({"norm": "rms", "d_mlp": 0}, TableSupport),
     ({"n_layers": 2}, LayeredSupport), ({"n_layers": 2, "d_mlp": 0}, LayeredSupport)],
)  # fmt: skip
def test_which_form_a_model_takes(options: Any, kind: type) -> None:
    supports = Supports(random_checkpoint(ClassifierConfig(**options), 0))
    assert isinstance(supports[(0, 1)], kind)
    assert supports[(0, 1)] is supports[(0, 1)]
    assert supports[(0, 1)].letters == (0, 1)


def test_costs_grow_with_the_model() -> None:
    """Two heads, three tokens, five channels: 20 + 90 // 50."""
    support = Supports(random_checkpoint(ClassifierConfig(n_heads=2, d_mlp=4), 0))[(0, 1, 2)]
    assert support.cost == 21
    deep = layered(random_checkpoint(ClassifierConfig(n_layers=2, d_model=10, n_heads=2, d_head=5,
                                                      d_mlp=50), 0), (0, 1, 2))  # fmt: skip
    # means 16 · 10 // 25 = 6, matrices 10 (10 + 10) // 500 = 0; neurons 50 · 120 // 500 = 12.
    assert deep.cost == 100 + 2 * (100 + 4 * (2 * 6 + 12))
    wide = layered(random_checkpoint(ClassifierConfig(d_model=100, n_heads=1, d_head=25, d_mlp=0),
                                     0), (0,))  # fmt: skip
    # means 4 · 100 // 25 = 16, matrices 100 (50 + 100) // 500 = 30.
    assert wide.cost == 100 + (100 + 2 * (16 + 30))


# -- every length ----------------------------------------------------------------------------------


class Ratio:
    """Two letters, so a chart is a ratio in [0, 1]; `ends` says what is known of a range of it."""

    letters, attends_cls, log_n, cost = (0, 1), False, False, 20

    def __init__(self, ends: Any) -> None:
        self.ends, self.asked = ends, 0

    def bounds(self, light: Any, heavy: Any, *_: Any) -> Any:
        self.asked += len(light)
        found = [self.ends(*pair) for pair in zip(light.tolist(), heavy.tolist(), strict=True)]
        return tuple(np.array(found, float).T)


def test_memory_a_row_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two heads, three letters and CLS, an MLP of four: 5 channels of 4 tokens per head."""
    asked: list[float] = []

    def noted(function: Any, numbers_a_row: Any, *rows: Any) -> Any:
        asked.append(numbers_a_row)
        return function(*rows)

    monkeypatch.setattr("tsc_interp.verification.bounds.tables.in_slices", noted)
    monkeypatch.setattr("tsc_interp.verification.bounds.layered.in_slices", noted)
    config = ClassifierConfig(n_heads=2, d_mlp=4, d_model=3, d_head=5, attend_cls=True)
    one = np.ones((1, 3))
    for support in both(random_checkpoint(config, 0), (0, 1, 2)):
        support.logits(one)
        count_box_bounds(support, one, one)
    # The other form: 4 tokens, each with 4 times the larger width and its neurons.
    assert asked == [4 * 5, 2 * 4 * 5 + 1, 4 * (4 * 5 + 4), 4 * (4 * 5 + 4)]


# -- the parts of a layer, over intervals, by hand -------------------------------------------------


def part(d_model: int, d_head: int = 1, norm: Any = "off", **weights: Any) -> LayeredSupport:
    """Only what is asked for matters; the embeddings are zeros."""
    config = ClassifierConfig(d_model=d_model, d_head=d_head, n_heads=1, norm=norm, norm_eps=1e-12)
    arrays = {name.replace("__", "."): np.array(w, float) for name, w in weights.items()}
    ends = {"embed.W_E": np.zeros((5, d_model)), "unembed.W_U": np.zeros((d_model, 1))}
    return LayeredSupport(config, {**ends, **arrays}, (0, 1))


def box(low: Any, high: Any) -> tuple[Any, Any]:
    return np.array(low, float), np.array(high, float)


def assert_range(found: Any, low: Any, high: Any) -> None:
    np.testing.assert_allclose(found[0], low, rtol=1e-11)
    np.testing.assert_allclose(found[1], high, rtol=1e-11)


def half_width(found: Any) -> float:
    low, high = (float(end.ravel()[0]) for end in found)
    return (high - low) / abs(high + low) * 2.0**53


def test_scores_over_intervals() -> None:
    """One query in [1, 2] and two keys, times 2 and 3; four channels halve the sum."""
    support = part(1, a__W_Q=[[[2.0]]], a__W_K=[[[3.0]]])
    found = support.scores(
        "a", 0, box([[[1.0]]], [[[2.0]]]), box([[[-1.0], [1.0]]], [[[4.0], [1]]])
    )
    assert_range(found, [[[-12.0, 6.0]]], [[[48.0, 12.0]]])
    four = part(1, 4, a__W_Q=[[[1.0, 2.0, 0.0, -1.0]]], a__W_K=[[[1.0, 1.0, 5.0, 1.0]]])
    found = four.scores("a", 0, box([[[1.0]]], [[[2.0]]]), box([[[3.0]]], [[[3.0]]]))
    # Channel by channel: [3, 6] + [6, 12] + 0 + [-6, -3].
    assert_range(found, [[[1.5]]], [[[7.5]]])
    one = box([[[1.0]]], [[[1.0]]])
    units = half_width(part(1, a__W_Q=[[[1.0]]], a__W_K=[[[1.0]]]).scores("a", 0, one, one))
    assert units == pytest.approx(18 + 18 + 17 + 6 + 17, abs=2)


def test_values_over_intervals() -> None:
    support = part(1, 2, a__W_V=[[[1.0, 2.0]]], a__W_O=[[[3.0], [-4.0]]])
    folded = np.array([[-5.0]])
    assert_range(support.values("a", 0, box([[[1.0]]], [[[2.0]]]), folded), [[[-10.0]]], [[[-5.0]]])
    one = part(1, a__W_V=[[[1.0]]], a__W_O=[[[1.0]]])
    point = box([[[1.0]]], [[[1.0]]])
    assert half_width(one.values("a", 0, point, np.array([[1.0]]))) == pytest.approx(24, abs=1)
    # The room is that of the terms, not of what is left of them.
    apart = part(1, 2, a__W_V=[[[1.0, 1.0]]], a__W_O=[[[1e6], [-1e6 + 1]]])
    low, high = apart.values("a", 0, point, np.array([[1.0]]))
    assert (high - low).item() == pytest.approx(2 * (2e6 * 4 * 2.0**-52 + 18 * 2.0**-53), rel=1e-3)


def test_norms_over_intervals() -> None:
    support = part(2, norm="rms", n__w=[1.0, -2.0])
    root = 12.5**0.5
    point = box([[[3.0, 4.0]]], [[[3.0, 4.0]]])
    assert_range(support.norm("n", point), [[[3 / root, -8 / root]]], [[[3 / root, -8 / root]]])
    # From [1, 2] and 2: the divisor is between the roots of 2.5 and 4.
    found = support.norm("n", box([[[1.0, 2.0]]], [[[2.0, 2.0]]]))
    most = min(2 / 2.5**0.5, 2**0.5)
    assert_range(found, [[[1 / 2, -2 * min(2 / 2.5**0.5, 2**0.5)]]], [[[most, -2 * 2 / 2]]])
    # Over a wide box the root of the width is all that is known, on both sides.
    found = support.norm("n", box([[[-1000.0, 0.0]]], [[[1000.0, 0.0]]]))
    assert_range((found[0][..., 0], found[1][..., 0]), [[-(2**0.5)]], [[2**0.5]])
    layer = part(3, norm="layer", n__w=[1.0, 1.0, 2.0], n__b=[10.0, 0.0, -1.0])
    found = layer.norm("n", box([[[1.0, 2.0, 6.0]]], [[[1.0, 2.0, 6.0]]]))
    scale = (14 / 3) ** 0.5  # of -2, -1, 3
    expected = [[[10 - 2 / scale, -1 / scale, 6 / scale - 1]]]
    assert_range(found, expected, expected)


def test_read_out_over_intervals() -> None:
    """2 x0 - x1, and GELUs of [1, 2] and 3 that W_out turns into 5 g0 - 7 g1 on the first."""
    support = part(2, unembed__W_U=[[2.0], [-1.0]])
    x = box([[[1.0, 1.0]]], [[[2.0, 4.0]]])
    assert_range(support.read_out(x, None, None), [-2.0], [3.0])
    post = box([[[1.0, 3.0]]], [[[2.0, 3.0]]])
    found = support.read_out(x, post, np.array([[5.0, 0.0], [-7.0, 0.0]]))
    assert_range(found, [-2.0 + 10 - 42], [3.0 + 20 - 42])
    one = box([[[1.0, 0.0]]], [[[1.0, 0.0]]])
    plain = part(2, unembed__W_U=[[1.0], [0.0]])
    low, high = plain.read_out(one, one, np.array([[1.0, 0.0], [0.0, 0.0]]))
    # 1 + 1, each a product of two rows (20 units), the second with 4 of the folding, then a sum.
    assert (high - low).item() * 2.0**52 == pytest.approx(20 + 20 + 2 * 4 + 2 * 17, abs=2)
