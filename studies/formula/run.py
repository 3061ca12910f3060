"""Study 3: the first error by the closed formula of `formula.py`, and exactly."""

from __future__ import annotations

from typing import Any

from studies.formula.formula import predicted_first_error
from studies.tables import Row
from studies.training import SMALL, Config, judged, mark, trained

SEEDS = range(64)
SHAPES: dict[str, dict[str, Any]] = {
    **{f"d_model {d}": {"d_model": d} for d in (2, 3, 4, 8, 16, 32)},
    **{f"d_model {d}, small": {"d_model": d, **SMALL} for d in (8, 16)},
    **{f"{h} heads": {"d_model": 8, "n_heads": h} for h in (3, 4, 8)},
    "16 heads, small": {"d_model": 16, "n_heads": 16, **SMALL},
    "CLS attended": {"d_model": 4, "attend_cls": True},
    "CLS attended, 16": {"d_model": 16, "attend_cls": True},
    "no MLP": {"d_model": 8, "d_mlp": 0},
    "8 neurons": {"d_model": 4, "d_mlp": 8},
    "d_head 2": {"d_model": 4, "d_head": 2},
    "4 letters": {"d_model": 4, "n_letters": 4},
}


def cells() -> list[str]:
    return list(SHAPES)


def rows(shape: str, seeds: range = SEEDS) -> list[Row]:
    found = []
    for model in trained(Config(**SHAPES[shape]), seeds):
        predicted = predicted_first_error(model.checkpoint)
        exact = judged(model.checkpoint)
        found.append(
            {
                "shape": shape,
                "seed": model.seed,
                "predicted": None if predicted is None else predicted.length,
                "predicted_string": None if predicted is None else predicted.string,
                "exact": exact["first_error"],
                "exact_string": exact["string"],
                "weights": mark(model.checkpoint),
            }
        )
    return found
