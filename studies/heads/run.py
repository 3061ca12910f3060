"""Study 4: does every letter the task needs get a head? Against chance, and what pruning keeps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from studies.tables import Row
from studies.training import SMALL, Config, judged, mark, reads, scores, trained
from tsc_interp.checkpoints.checkpoint import WeightArrays
from tsc_interp.pruning import prune
from tsc_interp.tasks.counts import ContainsAll

Cell = tuple[int, int, int, str, range]
SEEDS = range(32)
PRUNED = range(32)
PRUNE_LIMIT = 20_000


def cells() -> list[Cell]:
    """Letters needed, heads, d_model, initialisation, seeds."""
    two = product((2,), (1, 2, 3, 4, 8, 16), (4, 16), ("default", "small"))
    three = product((3,), (3, 4, 8, 16), (16,), ("default",))
    return [(*cell, SEEDS) for cell in (*two, *three)]


def rows(cell: Cell) -> list[Row]:
    needed, heads, d_model, begins, seeds = cell
    config = Config(
        n_letters=needed + 1,
        task=ContainsAll(letters="abc"[:needed]),
        n_heads=heads,
        d_model=d_model,
        **(SMALL if begins == "small" else {}),
    )
    found = []
    for model in trained(config, seeds):
        exact = judged(model.checkpoint)
        kept = None
        if (needed, heads, d_model, begins) == (2, 16, 16, "small") and model.seed in PRUNED:
            kept = prune(model.checkpoint, keep=2, limit=PRUNE_LIMIT)
        found.append(
            {
                "needed": needed,
                "heads": heads,
                "d_model": d_model,
                "init": begins,
                "seed": model.seed,
                "reads_at_first": reads(model.initial),
                "reads": reads(model.checkpoint.weights),
                "first_error": exact["first_error"],
                "kept_reads": None if kept is None else reads(kept.checkpoint.weights),
                "kept_ranks": None
                if kept is None
                else _ranks(model.checkpoint.weights, kept.removed),
                "kept_horizon": None if kept is None else kept.after.verified_length,
                "weights": mark(model.checkpoint),
            }
        )
    return found


def _ranks(weights: WeightArrays, removed: Sequence[str]) -> str:
    """Of each head that stays: its place by margin among the heads that read the same letter."""
    found = scores(weights)
    ahead = np.sort(found, axis=1)[:, -1] - np.sort(found, axis=1)[:, -2]
    letters = found.argmax(axis=1)
    stay = [head for head in range(len(found)) if f"head{head}" not in removed]
    return " ".join(str(1 + int((ahead[letters == letters[h]] > ahead[h]).sum())) for h in stay)
