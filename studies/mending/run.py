"""Study 1, second part: from four in five proved to all of them, with the report's data and epochs.

All models have scores scaled by log n. What is changed is the initial weights, or the number of
heads; nothing is trained longer or on other strings.

    reading     W_Q of a head is negated where needed, so that head 0 prefers `a` to `b`, head 1 `b`
                to `a`, and so on in turn
    signs       besides, W_O is negated where needed, so that what a head prefers raises the logit
    directions  besides, W_K and W_V are the least-squares directions that tell its letter apart

Pruning back to two heads: of all pairs, and of gains by which the two that stay are turned up (W_O
times a number each, for what the others no longer add), the first that is proved right for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product

import numpy as np

from studies.tables import Row
from studies.training import Config, judged, mark, reads, scores, trained
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.pruning.prune import parts_of, without
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.training.config import RunConfig
from tsc_interp.training.ensemble import TrainingState, start

GAINS = (1.0, 1.5, 2.0, 3.0, 4.0)
Cell = tuple[str, int, int, range]


def cells() -> list[Cell]:
    """How it begins, heads, d_model, seeds."""
    parts = [range(first, first + 64) for first in range(0, 256, 64)]
    shapes = [(name, 2, d) for name in BEGINNINGS for d in (4, 16)]
    shapes += [("default", heads, 16) for heads in (4, 8)]
    return [(*shape, part) for shape in shapes for part in parts]


def rows(cell: Cell) -> list[Row]:
    name, heads, d_model, seeds = cell
    config = Config(d_model=d_model, n_heads=heads, score_scale="sqrt_d_head_log_n")
    found = []
    for model in trained(config, seeds, begin=BEGINNINGS[name]):
        exact = judged(model.checkpoint, prove=True)
        pruned = None if heads == 2 else pruned_to_two(model.checkpoint)
        found.append(
            {
                "begins": name,
                "heads": heads,
                "d_model": d_model,
                "seed": model.seed,
                **exact,
                "reads": reads(model.checkpoint.weights),
                "pruned": "" if pruned is None else pruned[1],
                "gains": "" if pruned is None else pruned[0],
                "weights": mark(model.checkpoint),
            }
        )
    return found


def pruned_to_two(checkpoint: Checkpoint) -> tuple[str, str]:
    """The gains at which some pair is proved right for ever, and what it reads; else nothing."""
    heads = [part for part in parts_of(checkpoint) if part.kind == "head"]
    letters = scores(checkpoint.weights).argmax(axis=1)
    pairs = [pair for pair in combinations(range(len(heads)), 2) if len({*letters[[*pair]]}) == 2]
    together = [(gain, gain) for gain in GAINS]
    each = [gains for gains in product(GAINS, repeat=2) if gains not in together]
    for gains, pair in product([*together, *each], pairs):
        smaller = without(checkpoint, [part for part in heads if part.index not in pair])
        weights = dict(smaller.weights)
        weights["blocks.0.attn.W_O"] = (
            weights["blocks.0.attn.W_O"] * np.float32(gains)[:, None, None]
        )
        smaller = Checkpoint(smaller.config, weights)
        if judged(smaller, limit=200)["outcome"] == "wrong":
            continue
        if judged(smaller, prove=True)["outcome"] == "proved":
            return " ".join(map(str, gains)), reads(weights)
    return "", ""


# -- initial weights -------------------------------------------------------------------------------


def _reading(config: RunConfig, seed: int, raises: bool = False) -> TrainingState:
    state = start(config, seed)
    weights = {name: weight.copy() for name, weight in state.weights.items()}
    _turn(weights, raises)
    return replace(state, weights=weights)


def _turn(weights: dict[str, np.ndarray], raises: bool) -> None:
    embedded, ahead = weights["embed.W_E"][FIRST_LETTER:], scores(weights)
    for head in range(len(ahead)):
        wanted = 1 if head % 2 == 0 else -1
        if wanted * (ahead[head, 0] - ahead[head, 1]) < 0:
            weights["blocks.0.attn.W_Q"][head] *= -1
        value = embedded @ weights["blocks.0.attn.W_V"][head]
        effect = value @ weights["blocks.0.attn.W_O"][head] @ weights["unembed.W_U"]
        if raises and wanted * float(effect[0, 0] - effect[1, 0]) < 0:
            weights["blocks.0.attn.W_O"][head] *= -1


def _signs(config: RunConfig, seed: int) -> TrainingState:
    return _reading(config, seed, raises=True)


def _directions(config: RunConfig, seed: int) -> TrainingState:
    state = start(config, seed)
    weights = {name: weight.copy() for name, weight in state.weights.items()}
    embedded = weights["embed.W_E"][FIRST_LETTER:]
    for head in range(config.classifier.n_heads):
        target = np.eye(len(embedded), dtype=np.float32)[head % 2]
        direction = np.linalg.lstsq(embedded, target, rcond=None)[0]
        for part in "KV":
            weights[f"blocks.0.attn.W_{part}"][head, :, 0] = direction
    _turn(weights, raises=True)
    return replace(state, weights=weights)


BEGINNINGS: dict[str, Callable[[RunConfig, int], TrainingState]] = {
    "default": start,
    "reading": _reading,
    "signs": _signs,
    "directions": _directions,
}
