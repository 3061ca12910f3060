"""What a reader meets: tables of weights and values, against a forward pass at 256 bits."""

from __future__ import annotations

from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.trusted.asking import Asked
from tests.trusted.paths import singles, strings
from tests.trusted.test_tables import faint
from tests.verification import precise_ordered
from tests.verification.ordered_models import (
    longest,
    ordered_checkpoint,
    random_config,
    wide_config,
)
from tsc_interp.config import ClassifierConfig
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.trusted.sets import Sets

CONFIG = ClassifierConfig(
    n_letters=3, n_heads=2, d_head=5, d_model=4, n_positions=6, reads="first", n_outputs=3
)


def configs() -> list[ClassifierConfig]:
    """CLS first or last, attended to or not, the last letter; and every other option."""
    made = [
        CONFIG.replace(reads="first", attend_cls=False),
        CONFIG.replace(reads="first", attend_cls=True, biases=True),
        CONFIG.replace(reads="last", attend_cls=True, norm="layer"),
        CONFIG.replace(reads="last_letter", attend_cls=True),
    ]
    drawn = [(random_config, wide_config)[seed % 2](seed) for seed in range(12)]
    return [*made, *(config for config in drawn if config.needs_order and config.n_heads)]


@pytest.mark.parametrize("config", configs())
def test_means_over_tables_are_what_attention_adds(config: ClassifierConfig) -> None:
    checkpoint = ordered_checkpoint(config, 3, scale=1.0)
    asked, length = Asked(checkpoint), min(3, longest(config, 30))
    places, last = np.arange(length), config.reads == "last_letter"
    for string in product(range(config.n_letters), repeat=length):
        letters, spot = np.array(string), asked.forward.reader(length, string[-1])
        keys = asked.judge.order.keys(length, spot)
        assert keys is asked.judge.order.keys(length, spot)
        x = keys.base.middle.copy()
        low, high = keys.base.low.copy(), keys.base.high.copy()
        for head in range(len(keys.weight)):
            weight, moment = keys.weight[head], keys.moment[head]
            own_weight, own_moment = keys.own_weight[head], keys.own_moment[head]
            assert bool(own_weight) == (config.attend_cls and not last)
            # The heaviest of all keys has the weight one, so that nothing overflows.
            assert max(weight.max(), own_weight) == pytest.approx(1.0, abs=1e-15)
            total = weight[places, letters].sum() + own_weight
            x += (moment[:, places, letters].sum(1) + own_moment) / total
            values = (moment / weight).reshape(config.d_model, -1)
            if own_weight:
                values = np.concatenate([values, (own_moment / own_weight)[:, None]], axis=1)
            low, high = low + values.min(1), high + values.max(1)
        with mpmath.workprec(256):
            real = np.array([float(v) for v in precise_ordered.state_of(checkpoint, string)])
        np.testing.assert_allclose(x, real, rtol=1e-12, atol=1e-12)
        assert (keys.reach.low <= real).all()
        assert (real <= keys.reach.high).all()
        np.testing.assert_allclose(keys.reach.low, low, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(keys.reach.high, high, rtol=1e-9, atol=1e-9)
    sets = Sets.whole(asked.trellis(length))
    single = singles(sets, [0])
    readers = [string[-1] if last else 0 for string, _ in strings(sets, 0)]
    assert asked.judge.order.readers(single).tolist() == readers
    assert asked.judge.order.readers(sets).tolist() == [-1 if last else 0]


def test_no_weight_overflows_however_far_scores_are_apart() -> None:
    keys = Asked(faint(740.0)).judge.order.keys(3, (FIRST_LETTER, 2))
    assert keys.weight[0, 0].tolist()[2] == 1.0


class Kept:
    """Remembers how large tables are said to be; keeps none."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}

    def get(self, key: Any, numbers: int, make: Any) -> Any:
        self.asked[str(key[0])] = numbers
        return make()


def test_memory_and_time_are_counted() -> None:
    """A weight, the values and a score for each key; queries and values of each spot."""
    asked, spent = Asked(ordered_checkpoint(CONFIG, 1)), []
    tables: Any = asked.judge.order
    tables._kept, tables.spend = Kept(), lambda: spent.append(1)
    tables.keys(5, (CLS, 0))
    assert len(spent) == 2  # once for each head
    assert tables._kept.asked == {"5": 2 * 5 * 3 * (4 + 2), "met": 5 * 3 * (5 + 4)}
    rounding: Any = asked.judge._rounding
    rounding._kept = Kept()
    rounding.errors(5, (CLS, 0))
    assert rounding._kept.asked == {"5": 2 * 5 * 3 * 5}
