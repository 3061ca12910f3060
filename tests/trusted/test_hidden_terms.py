"""Terms that other terms' room hid: without each of these three, every other test passed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from flint import arb

import tsc_interp as tsc
from tests.trusted.counts import judge_of
from tests.trusted.paths import singles, strings
from tests.verification.ordered_models import ordered_checkpoint
from tests.verification.precise_ordered import wrong_strings
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.base import trellis_of
from tsc_interp.tasks.counts import Parity
from tsc_interp.trusted import balls
from tsc_interp.trusted.float32 import TINY, Known, linear
from tsc_interp.trusted.judge import Judge
from tsc_interp.trusted.order import PathRegions
from tsc_interp.trusted.sets import Sets
from tsc_interp.trusted.spans import Span

CONFIG = ClassifierConfig(
    n_letters=2, task=Parity(), norm="layer", gated_mlp=True, act_fn="silu", d_model=3, d_mlp=4,
    biases=True, n_positions=4, reads="last_letter", attend_cls=True,
)  # fmt: skip


def paths(config: ClassifierConfig, seed: int) -> tuple[Judge, Sets, PathRegions]:
    """A judge, every string of three letters with an odd number of one as a set of its own."""
    judge = judge_of(ordered_checkpoint(config, seed))
    sets = singles(Sets.whole(trellis_of(config.task, 2, 3).of_label(1)), [0])
    ((_, regions, _),) = judge.path_regions(sets)
    return judge, sets, regions


def test_a_gate_carries_what_centring_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate's own share: what its neighbour carries stays as it is."""
    judge, sets, regions = paths(CONFIG, 3)
    ((_, _, rounded),) = judge.path_regions(sets, True)
    assert rounded is not None
    margins = judge.margins
    ranges = margins._ranges(regions, rounded)
    (plain, _), gates = margins._posts(ranges, rounded), margins.rounding.gates
    assert plain is not None
    assert gates is not None
    carried = gates.carried
    assert (carried(margins.rounding.centred(rounded.sizes)) > 0).all()
    monkeypatch.setattr(gates, "carried", lambda errors: 2.0**20 * carried(errors))
    louder, _ = margins._posts(ranges, rounded)
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
    assert balls.is_positive(plain.error)


def test_ranges_hold_for_every_direction_within_the_bounds() -> None:
    """Directions as wide as they are not in practice, where rounding is all their width."""
    judge, sets, regions = paths(CONFIG.replace(norm="off", gated_mlp=False), 4)
    middle = judge.margins._directions.middle
    judge.margins._directions = Span(middle - 1.0, middle + 1.0)
    ranges, forward = judge.margins._ranges(regions, None), judge.forward
    for row, index in enumerate(range(len(sets))):
        ((string, _),) = strings(sets, index)
        reader = forward.reader(3, string[-1])
        spots = [(2 + letter, place) for place, letter in enumerate(string)]
        keys = [reader, *forward.keys(spots, reader)]
        state = forward._attended(0, forward.embedded(keys), keys, [0, 1, 1, 1], 1, 3)
        x = np.array([float(ball.mid()) for ball in state.tolist()[0]])
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
