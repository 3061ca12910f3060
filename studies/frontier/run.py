"""Study 9: the size frontier. How long trained models last, by the number of their weights.

The other side of the frontier, models that are written down, certified and compared with lower
bounds, needs no training and is computed where the page is made (studies/frontier/page.py).
"""

from __future__ import annotations

from studies.tables import Row
from studies.training import Config, judged, mark, trained
from tsc_interp.tasks.counts import ContainsAll, Majority

TASKS: dict[str, tuple[Task, int]] = {
    "contains a and b": (ContainsAll(letters="ab"), 10**6),
    "majority of a": (Majority(letter="a"), 2000),
}
"""Each task, and up to which length the first error is searched."""
SHAPES = ((1, 1, 0), (1, 1, 1), (1, 2, 0), (1, 2, 2), (2, 2, 0), (2, 2, 2), (4, 2, 4), (16, 2, 8))
"""d_model, heads, neurons; heads have size one."""

Cell = tuple[str, int, int, int, range]


def cells() -> list[Cell]:
    contains = [("contains a and b", *shape, range(64)) for shape in SHAPES]
    return contains + [("majority of a", *shape, range(32)) for shape in SHAPES[::2]]


def rows(cell: Cell) -> list[Row]:
    name, d_model, heads, neurons, seeds = cell
    task, limit = TASKS[name]
    config = Config(task=task, d_model=d_model, n_heads=heads, d_mlp=neurons)
    found = []
    for model in trained(config, seeds):
        exact = judged(model.checkpoint, limit=limit)
        found.append(
            {
                "task": name,
                "d_model": d_model,
                "heads": heads,
                "neurons": neurons,
                "seed": model.seed,
                "parameters": model.checkpoint.n_parameters,
                **exact,
                "weights": mark(model.checkpoint),
            }
        )
    return found
