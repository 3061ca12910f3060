"""Terms that other terms' room hid: without each of these three, every other test passed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from flint import arb

import tsc_interp as tsc
from tests.verification.ordered_models import ordered_checkpoint
from tests.verification.precise_ordered import wrong_strings
from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import Parity
from tsc_interp.tasks.unrolling import trellis_of
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.layer_rounding import Blur
from tsc_interp.verification.checker.rounding import TINY, Known, linear
from tsc_interp.verification.checker.sets import Sets
from tsc_interp.verification.checker.spans import Span
from tsc_interp.verification.checker.trellis_model import TrellisModel

CONFIG = ClassifierConfig(
    n_letters=2, task=Parity(), norm="layer", gated_mlp=True, act_fn="silu", d_model=3, d_mlp=4,
    biases=True, n_positions=4, reads="last_letter", attend_cls=True,
)  # fmt: skip


def test_a_gate_hears_what_centring_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate's own share: what its neighbour hears stays as it is."""
    model = TrellisModel(ordered_checkpoint(CONFIG, 3))
    trellis = trellis_of(CONFIG.task, 2, 3)
    sets = Sets.whole(trellis.of_label(1))
    sets = sets.singles([0])
    reader = model.readers(sets)
    drifts = [model._drift(trellis.length, model._spot(trellis.length, int(x))) for x in reader]
    blur = Blur(np.ones(len(sets), dtype=bool), drifts)
    ranges = model._ranges(sets, model._keys_of(sets, reader), blur)
    plain = model._posts(ranges, blur)
    gates = model.rounding.gates
    assert plain is not None
    assert gates is not None
    heard = gates.heard
    assert (heard(model.rounding.centred(blur.sizes)) > 0).all()
    monkeypatch.setattr(gates, "heard", lambda errors: 2.0**20 * heard(errors))
    louder = model._posts(ranges, blur)
    assert louder is not None
    widths = [posts.values.high - posts.values.low for posts in (plain, louder)]
    assert (widths[1] > 1.01 * widths[0]).all()


@pytest.mark.parametrize("times", [1, 8])
def test_a_sum_of_nothing_may_underflow(times: int) -> None:
    nothing = [Known(arb(0), arb(0))] * 2
    matrix = [[arb(1)], [arb(1)]]
    (plain,) = linear(nothing, matrix, None, times)
    (biased,) = linear(nothing, matrix, [arb(0)], times)
    assert plain.error == times * 3 * TINY
    assert biased.error == times * 4 * TINY
    assert kernel.is_positive(plain.error)


def test_ranges_hold_for_every_direction_within_the_bounds() -> None:
    """Directions as wide as they are not in practice, where rounding is all their width."""
    model = TrellisModel(ordered_checkpoint(CONFIG.replace(norm="off", gated_mlp=False), 4))
    middle = model._directions.middle
    model._directions = Span(middle - 1.0, middle + 1.0)
    trellis = trellis_of(CONFIG.task, 2, 3)
    sets = Sets.whole(trellis.of_label(1)).singles([0])
    reader = model.readers(sets)
    ranges = model._ranges(sets, model._keys_of(sets, reader), None)
    (strings,) = [[string for string, _ in Sets.whole(trellis.of_label(1)).strings(0)]]
    for row, string in enumerate(strings):
        x = np.array([float(ball.mid()) for ball in model.attended(string)])
        for signs in product((-1.0, 1.0), repeat=len(x)):
            value = (middle + np.array(signs)) @ x
            assert (ranges.low[row] <= value + 1e-12).all()
            assert (ranges.high[row] >= value - 1e-12).all()


@pytest.mark.parametrize("norm", ["layer", "layer_pre"])
def test_weights_that_a_norm_cancels_are_searched(norm: str) -> None:
    """A neuron that reads all components alike reads nothing of a centred vector."""
    config = CONFIG.replace(norm=norm, gated_mlp=False, n_outputs=2)
    checkpoint = ordered_checkpoint(config, 5)
    checkpoint.weights["blocks.0.mlp.W_in"][:] = 0.1
    if norm == "layer":
        checkpoint.weights["blocks.0.ln2.w"][:] = 0.7
    verdict = tsc.verify(checkpoint, lengths=[3], seconds=20)
    wrong = wrong_strings(checkpoint, config.task, 3)
    assert wrong is not None
    assert (verdict.wrong, verdict.undecided) == (len(wrong), 0)
