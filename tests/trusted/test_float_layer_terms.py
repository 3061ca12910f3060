"""Every term of the float32 bound after attention, against sums written out by hand.

The adversary of test_float_layer.py attacks the whole bound; here no term can shrink unseen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.verification.ordered_models import ordered_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.trusted.float32 import ACTIVATION_UNITS
from tsc_interp.trusted.float_layer import LayerErrors, LinearMap, Rounded
from tsc_interp.trusted.forward import Forward
from tsc_interp.trusted.spec import read_model

U, TINY, LARGEST = 2.0**-24, 2.0**-110, 2.0**126
CONFIG = ClassifierConfig(
    n_letters=2, norm="layer", d_model=3, d_mlp=4, final_norm=True, biases=True, n_positions=4,
    reads="last_letter", attend_cls=True, n_outputs=2,
)  # fmt: skip
SIZES = np.array([[0.5, 2.0, 7.0], [3.0, 0.25, 1.0]])


def share(terms: int) -> float:
    return terms * U / (1 - terms * U)


class Roundings(Forward):
    """A model, and what float32 makes of its layer."""

    def __init__(self, **options: Any) -> None:
        checkpoint = ordered_checkpoint(CONFIG.replace(**options), 5)
        super().__init__(read_model(checkpoint.to_bytes()))
        self.rounding = LayerErrors(self)


def near(found: Any, expected: Any) -> None:
    """At least what the formula says, and hardly more."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found >= expected * (1 - 1e-12)).all()
    assert (found <= expected * (1 + 1e-5)).all()


def weights_of(model: Roundings, name: str) -> Any:
    return np.abs(model.weights[name].astype(np.float64))


@pytest.mark.parametrize("times", [1.0, 0.125, 40.0])
@pytest.mark.parametrize("norm", ["layer", "rms", "layer_pre", "off"])
def test_a_reading_rounds_every_product_and_what_is_added(norm: str, times: float) -> None:
    model = Roundings(norm=norm, final_norm=norm != "off")
    reading = model.rounding.inner
    wide, bias = (weights_of(model, f"blocks.0.mlp.{name}") for name in ("W_in", "b_in"))
    scale, shift = [1.0] * 3, [0.0] * 3
    if norm in ("layer", "rms"):
        scale = weights_of(model, "blocks.0.ln2.w").tolist()
    if norm == "layer":
        shift = weights_of(model, "blocks.0.ln2.b").tolist()
    for row, sizes in enumerate(SIZES):
        for out in range(4):
            reach = times * bias[out]
            lost = 3.0
            for i in range(3):
                reach += (sizes[i] * scale[i] + times * shift[i]) * wide[i, out]
                lost += (2 + scale[i]) * wide[i, out]
            near(reading.lost[out], lost)
            near(reading.off(SIZES, times)[row, out], share(22) * reach + TINY * times * lost)
            heard = sum(sizes[i] * scale[i] * wide[i, out] for i in range(3))
            near(reading.carried(SIZES)[row, out], heard)


def test_underflow_counts_where_nothing_is_read() -> None:
    reading = Roundings(biases=False, norm="rms").rounding.inner
    for times in (1.0, 8.0):
        near(reading.off(np.zeros((1, 3)), times)[0], TINY * times * reading.lost)
    assert (reading.lost > 3).all()


def test_a_reading_that_may_overflow_is_nan() -> None:
    reading = Roundings().rounding.inner
    edge = LARGEST / reading.gain.sum(0).max()
    assert np.isfinite(reading.off(np.full((1, 3), 0.9 * edge))).all()
    assert np.isnan(reading.off(np.full((1, 3), 1.1 * edge))).any()
    model = Roundings(norm="rms")
    ends = []
    for size in (0.9, 1.1):
        top = size * LARGEST / (np.sqrt(3) * 3)
        weights = {**model.weights, "blocks.0.mlp.W_in": np.full((3, 4), top, dtype=np.float32)}
        weights["blocks.0.ln2.w"] = np.ones(3, dtype=np.float32)
        held = type("Held", (), {"spec": model.spec, "weights": weights})()
        ends.append(LinearMap(held, "blocks.0.ln2", "blocks.0.mlp.W_in", None).safe)  # type: ignore[arg-type]
    assert ends[0] == 1.0
    assert np.isnan(ends[1])
    assert np.isnan(Roundings(norm_eps=1e-30).rounding.inner.safe)


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_taking_the_mean_out(norm: str) -> None:
    rounding = Roundings(norm=norm).rounding
    for row, sizes in enumerate(SIZES):
        mean = sum(sizes) / 3
        expected = [share(6) * (size + mean) + TINY if norm == "layer" else 0.0 for size in sizes]
        near(rounding.centred(SIZES)[row], expected)
    if norm == "layer":
        near(rounding.centred(np.zeros((1, 3)))[0], [TINY] * 3)
        edge = np.sqrt(LARGEST / 3) / 2
        assert np.isfinite(rounding.centred(np.full((1, 3), 0.9 * edge))).all()
        assert np.isnan(rounding.centred(np.full((1, 3), 1.1 * edge))).all()


def test_what_a_norm_leaves() -> None:
    rounding = Roundings().rounding
    most = np.array([[0.25], [0.5]])
    expected = np.minimum([[0.125, 0.5, 1.75], [1.5, 0.125, 0.5]], np.sqrt(3))
    near(rounding.divided(SIZES, most), expected)


@pytest.mark.parametrize("kind", ["gelu", "gelu_new", "silu", "relu"])
def test_activations_and_gates(kind: str) -> None:
    rounding = Roundings(act_fn=kind).rounding
    near(rounding.activated(SIZES), ACTIVATION_UNITS[kind] * U * SIZES + TINY)
    near(rounding.activated(np.zeros(1)), [TINY])
    near(rounding.opened(SIZES), share(3) * SIZES + TINY)
    near(rounding.opened(np.zeros(1)), [TINY])
    assert np.isfinite(rounding.opened(np.array([0.9 * LARGEST]))).all()
    assert np.isnan(rounding.opened(np.array([1.1 * LARGEST]))).all()


@pytest.mark.parametrize("norm", ["layer", "rms", "off"])
@pytest.mark.parametrize("final", [True, False])
def test_the_end_of_the_layer(norm: str, final: bool) -> None:
    final = final and norm != "off"
    model = Roundings(norm=norm, final_norm=final)
    out, bias = (weights_of(model, f"blocks.0.mlp.{name}") for name in ("W_out", "b_out"))
    posts = np.array([[0.5, 1.0, 3.0, 0.0], [2.0, 0.25, 0.0, 1.0]])
    rounded: Any = type("Rounded", (), {"sizes": SIZES})()
    ends = model.rounding.ends(rounded, posts)
    for row in range(2):
        reach = [SIZES[row, i] + sum(posts[row, n] * out[n, i] for n in range(4)) + bias[i]
                 for i in range(3)]  # fmt: skip
        added = [share(8) * size + 4 * TINY for size in reach]
        near(ends.added[row], added)
        sizes = [r + a for r, a in zip(reach, added, strict=True)]
        near(ends.sizes[row], sizes)
        if not final:
            assert not ends.taken.any()
            assert not ends.state.any()
            continue
        centred = norm == "layer"
        taken = [(share(6) * (size + sum(sizes) / 3) + TINY) * centred for size in sizes]
        near(ends.taken[row], taken)
        mean = sum(added) / 3 * centred
        near(ends.state[row], [a + mean + t for a, t in zip(added, taken, strict=True)])
    scale = np.array([[2.0], [3.0]])
    outer = model.rounding.outer
    near(
        ends.outputs(outer, SIZES, scale),
        outer.off(SIZES, scale) + ends.taken @ outer.gain,
    )
    near(model.rounding.ends(rounded, None).sizes, SIZES)
    assert not model.rounding.ends(rounded, None).added.any()
    rounded.sizes = np.zeros((1, 3))
    bare = Roundings(norm=norm, final_norm=final, biases=False).rounding
    near(bare.ends(rounded, np.zeros((1, 4))).added, np.full((1, 3), 4 * TINY))
    rounded.sizes = np.full((1, 3), 1.1 * LARGEST)
    assert np.isnan(model.rounding.ends(rounded, posts[:1]).added).all()
    rounded.sizes = np.full((1, 3), 0.5 * LARGEST)
    assert np.isfinite(model.rounding.ends(rounded, posts[:1]).added).all()


class StubErrors:
    """Off by a number of its own times the sizes of a direction."""

    def __init__(self, number: float) -> None:
        self.number, self.sizes = number, np.full(3, number)

    def along(self, q: Any) -> Any:
        return self.number * np.abs(q).sum(-1)


def test_each_region_is_off_by_its_own_errors() -> None:
    one, other = StubErrors(2.0), StubErrors(5.0)
    rounded = Rounded([one, other, one, other])  # type: ignore[list-item]
    np.testing.assert_array_equal(rounded.sizes[:, 0], [2.0, 5.0, 2.0, 5.0])
    shared = np.array([[[1.0, -2.0, 0.5], [0.0, 3.0, 0.0]]])
    np.testing.assert_array_equal(rounded.along(shared), [[7, 6], [17.5, 15]] * 2)
    each = np.arange(24.0).reshape(4, 2, 3)
    np.testing.assert_array_equal(rounded.along(each), [[6, 24], [105, 150], [78, 96], [285, 330]])


def test_what_is_added_counts_towards_an_overflow() -> None:
    model = Roundings(norm="rms")
    weights = {**model.weights, "blocks.0.mlp.W_in": np.zeros((3, 4), dtype=np.float32)}
    for size, fits in ((0.9, True), (1.1, False)):
        weights["blocks.0.mlp.b_in"] = np.array([0, 0, size * LARGEST, 0], dtype=np.float32)
        held: Any = type("Held", (), {"spec": model.spec, "weights": weights})()
        reading = LinearMap(held, "blocks.0.ln2", "blocks.0.mlp.W_in", "blocks.0.mlp.b_in")
        assert (reading.safe == 1.0) == fits
