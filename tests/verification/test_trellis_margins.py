"""Margins over sets of strings against a forward pass at 256 bits, from both sides.

Of a single string every relaxation is exact but for rounding, so a margin must be met closely.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from tests import precise_ordered
from tests.ordered_models import longest, ordered_checkpoint, random_config, wide_config
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.verification.checker.sets import Sets
from tsc_interp.verification.checker.trellis import TrellisChecker
from tsc_interp.verification.checker.trellis_model import TrellisModel

PLAIN = ClassifierConfig(
    n_letters=3, n_heads=2, d_model=4, d_head=2, d_mlp=5, n_positions=4, n_outputs=3,
    reads="last_letter", attend_cls=True,
)  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {},
    {"biases": True, "n_outputs": 1, "act_fn": "relu"},
    {"norm": "rms", "act_fn": "silu"},
    {"norm": "layer", "biases": True, "gated_mlp": True, "act_fn": "gelu_new"},
    {"norm": "rms_pre", "final_norm": True, "biases": True, "gated_mlp": True},
    {"norm": "layer", "final_norm": True, "biases": True, "n_outputs": 1},
    {"norm": "layer_pre", "final_norm": True, "d_mlp": 0, "biases": True},
    {"gated_mlp": True, "reads": "first"},
    {"d_mlp": 0, "reads": "last"},
    {"n_heads": 0, "norm": "rms", "final_norm": True},
]


def real_outputs(checkpoint: Checkpoint, string: Any) -> Any:
    """Times what the final norm divides by."""
    with mpmath.workprec(256):
        outputs = precise_ordered.outputs_of(checkpoint, string)
        outputs = outputs if len(outputs) > 1 else [mpmath.mpf(0), outputs[0]]
        scale = precise_ordered.final_scale(checkpoint, string)
        return np.array([float(output * scale) for output in outputs])


def gaps(model: TrellisModel, sets: Sets, winner: int, float32: bool = False) -> Any:
    every = np.arange(model.n_classes)
    with np.errstate(all="ignore"):
        return model.gaps(
            sets,
            model.readers(sets),
            np.full(len(sets), winner),
            every,
            np.full(len(sets), float32),
        )


def configs() -> list[ClassifierConfig]:
    drawn = [(random_config, wide_config)[seed % 2](seed + 70) for seed in range(10)]
    return [PLAIN.replace(**options) for options in OPTIONS] + [
        config for config in drawn if config.needs_order
    ]


@pytest.mark.parametrize("config", configs())
def test_margins_of_single_strings_are_met(config: ClassifierConfig) -> None:
    checkpoint = ordered_checkpoint(config, 4, scale=1.0)
    model, length = TrellisModel(checkpoint), min(2, longest(config, 30))
    sets = Sets.whole(TrellisChecker(checkpoint).trellis("length", length))
    singles, strings = sets.singles([0]), [string for string, _ in sets.strings(0)]
    outputs = np.array([real_outputs(checkpoint, string) for string in strings])
    size = np.abs(outputs).max()
    for winner in range(model.n_classes):
        found, real = gaps(model, singles, winner), outputs[:, [winner]] - outputs
        assert (found <= real + 1e-13 * size).all()
        assert (found >= real - 1e-8 * (1 + size)).all()
        sure = gaps(model, singles, winner, float32=True)
        others = np.arange(model.n_classes) != winner
        assert (sure <= found)[:, others].all()
        assert (sure < found)[:, others].any()
        reader = model.readers(singles)
        for one in np.unique(reader):
            # Together they are bounded by the worst of them, and not far below it.
            some = Sets(singles.trellis, [m[reader == one].any(0)[None] for m in singles.masks])
            both, worst = gaps(model, some, winner)[0], found[reader == one].min(0)
            assert (both <= worst + 1e-9).all()
            assert np.isfinite(both).all()


def test_only_the_classes_asked_for_are_bounded() -> None:
    checkpoint = ordered_checkpoint(PLAIN, 4)
    model = TrellisModel(checkpoint)
    singles = Sets.whole(TrellisChecker(checkpoint).trellis("length", 2)).singles([0])[:2]
    every, some = (
        model.gaps(singles, model.readers(singles), np.zeros(2, dtype=int), np.array(used), none)
        for used, none in (([0, 1, 2], np.zeros(2, dtype=bool)), ([2], np.zeros(2, dtype=bool)))
    )
    np.testing.assert_array_equal(every[:, 2], some[:, 2])
    assert (some[:, 1] == -np.inf).all()
