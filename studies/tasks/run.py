"""Study 5: other tasks, trained as in the report, with heads and neurons to spare."""

from __future__ import annotations

from typing import Any

from studies.tables import Row
from studies.training import Config, judged, mark, reads, trained
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, MostFrequent, Parity

SEEDS = range(32)
SHAPE = {"d_model": 16, "d_mlp": 8}
PLAIN, GROWS = "sqrt_d_head", "sqrt_d_head_log_n"
TASKS: dict[str, tuple[Any, int, int]] = {
    "contains a and b": (ContainsAll(letters="ab"), 3, 4),
    "contains a, b and c": (ContainsAll(letters="abc"), 4, 6),
    "contains a, b, c and d": (ContainsAll(letters="abcd"), 5, 8),
    "at least 1 a": (AtLeast(letter="a", k=1), 2, 4),
    "at least 2 a": (AtLeast(letter="a", k=2), 2, 4),
    "at least 3 a": (AtLeast(letter="a", k=3), 2, 4),
    "majority of a": (Majority(letter="a"), 2, 4),
    "parity of a": (Parity(letter="a"), 2, 4),
    "most frequent letter": (MostFrequent(), 3, 4),
}
"""The rule, the letters of the alphabet, and the heads."""
LIMIT = 2000

Cell = tuple[str, str, bool, range]


def cells() -> list[Cell]:
    """The task, how scores are scaled, whether CLS is attended to, seeds."""
    kinds = [(PLAIN, False), (PLAIN, True), (GROWS, True)]
    return [(task, scale, cls, SEEDS) for task in TASKS for scale, cls in kinds]


def rows(cell: Cell) -> list[Row]:
    name, scale, cls, seeds = cell
    task, letters, heads = TASKS[name]
    classes = task.n_classes(letters)
    config = Config(
        task=task,
        n_letters=letters,
        n_heads=heads,
        n_outputs=classes if classes > 2 else 1,
        score_scale=scale,
        attend_cls=cls,
        **SHAPE,
    )
    found = []
    for model in trained(config, seeds):
        exact = judged(model.checkpoint, prove=scale == GROWS, limit=LIMIT)
        found.append(
            {
                "task": name,
                "scale": scale,
                "attend_cls": int(cls),
                "seed": model.seed,
                **exact,
                "validation_loss": float(f"{min(model.losses):.5g}"),
                "reads": reads(model.checkpoint.weights),
                "weights": mark(model.checkpoint),
            }
        )
    return found
