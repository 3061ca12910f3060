"""What do positions cost, and what do they make possible?

Attention without positions sees a string's letters but not their order: all orders of the same
letters have the same logit. With a vector added at each position it sees both. The laboratory
trains the same models without positions, with learned ones and with sinusoidal ones,

    p(2i) = sin(pos / 10000^(2i/d)),   p(2i+1) = cos(pos / 10000^(2i/d)),

on strings of up to `train_length` letters in any order. There are two tasks: *contains a and b*,
which needs no order, and *an a before any b*, which depends on order alone. Then it decides every
string of every length up to `max_length` (`tsc.verify`), so shares of wrong strings are counted and
not sampled. Strings that the search leaves undecided are reported.

For the task on order, a bound replaces the training of a model without positions. Of all orders of
n_a a's and n_b b's the share n_a / (n_a + n_b) is positive, so a model that gives all of them the
same answer is wrong on at least min(n_a, n_b) / (n_a + n_b) of them.
"""

from __future__ import annotations

import math
from itertools import permutations, product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.laboratories.base import LabeledArray, Progress
from tsc_interp.laboratories.every_string import exact_horizon
from tsc_interp.laboratories.positions.result import (
    BEFORE,
    CONTAINS,
    KINDS,
    LEARNED,
    NONE,
    TASKS,
    PositionsOptions,
    PositionsResult,
    leads,
)
from tsc_interp.laboratories.positions.training import classifier, trained
from tsc_interp.model.classifier import Classifier
from tsc_interp.model.initialise import initial_weights
from tsc_interp.model.threads import one_thread
from tsc_interp.probes.registry import run_probe
from tsc_interp.verification.order.verify import verify_order

Floats = NDArray[np.float64]
POSITIONS = "pos_embed.W_pos"
TRACED = ("ab", "ba", "cab", "cba", "abb", "baa")


@one_thread()
def run(asked: PositionsOptions, progress: Progress) -> PositionsResult:
    lengths = range(1, asked.max_length + 1)
    seeds = range(asked.seed, asked.seed + asked.seeds)
    shape = (len(TASKS), len(KINDS), asked.seeds)
    wrong, undecided = (np.full((*shape, len(lengths)), np.nan) for _ in range(2))
    through, swing = (np.full(shape, np.nan) for _ in range(2))
    models: dict[tuple[str, str, int], Checkpoint] = {}
    first: list[tuple[str, str, int, str]] = []
    for (i, task), (j, kind) in product(enumerate(TASKS), enumerate(KINDS)):
        if (task, kind) == (BEFORE, NONE):
            continue  # order without positions cannot be asked
        progress(f"training: {task}, {kind} positions")
        for k, (seed, model) in enumerate(trained(task, kind, asked)):
            progress(f"deciding every string: {task}, {kind} positions, seed {seed}")
            verdict = verify_order(model, range(1, asked.max_length + 1), seconds=asked.budget)
            counted = [(length.wrong / length.strings, length.undecided / length.strings)
                       for length in verdict.lengths]  # fmt: skip
            wrong[i, j, k], undecided[i, j, k] = np.transpose(counted)
            through[i, j, k] = verdict.verified_length
            swing[i, j, k] = swing_by_order(model)
            if verdict.first_wrong is not None:
                first.append((task, kind, seed, verdict.first_wrong.string))
            models[task, kind, seed] = model
    progress("exact horizons without positions, and the trace")
    axes = {"task": TASKS, "kind": KINDS, "seed": seeds}
    return PositionsResult(
        options=asked,
        wrong=LabeledArray.of(wrong, **axes, length=lengths),
        undecided=LabeledArray.of(undecided, **axes, length=lengths),
        through=LabeledArray.of(through, **axes),
        horizons=LabeledArray.of(
            [exact_horizon(models[CONTAINS, NONE, seed]) for seed in seeds], seed=seeds
        ),
        blind=LabeledArray.of([least_wrong(n) for n in lengths], length=lengths),
        swing=LabeledArray.of(swing, **axes),
        moved=_moved(asked, models),
        first_wrong=tuple(first),
        **_trace(asked, models, through[1]),
    )


def swing_by_order(model: Checkpoint, letters: str = "aabc") -> float:
    """The largest difference of logits between two orders of the same letters."""
    orders = sorted({"".join(order) for order in permutations(letters)})
    tokens = torch.as_tensor(model.config.alphabet.tokens(orders))
    with torch.no_grad():
        logits = Classifier.from_checkpoint(model).double()(tokens)
    return float(logits.max() - logits.min())


def least_wrong(length: int, n_letters: int = 3) -> float:
    """The share of strings that a model blind to order gets wrong on `before`, at the least."""
    lost = 0.0
    for a in range(1, length + 1):
        for b in range(1, length - a + 1):
            others = length - a - b
            strings = math.comb(length, a) * math.comb(length - a, b) * (n_letters - 2) ** others
            lost += strings * min(a, b) / (a + b)
    return float(lost / n_letters**length)


def _moved(asked: PositionsOptions, models: dict[tuple[str, str, int], Checkpoint]) -> LabeledArray:
    """Of both tasks' models with learned positions; position 0 is CLS's."""
    apart = []
    for (task, kind, seed), model in models.items():
        if kind == LEARNED:
            start = initial_weights(classifier(task, kind, asked), seed)[POSITIONS].numpy()
            apart.append(np.linalg.norm(model.weights[POSITIONS] - start, axis=-1))
    return LabeledArray.of(np.mean(apart, axis=0), position=range(asked.max_length + 1))


def _trace(
    asked: PositionsOptions, models: dict[tuple[str, str, int], Checkpoint], through: Floats
) -> dict[str, Any]:
    """Of the models of order that learned what they were trained on, where it shows most."""
    strings = [string for string in TRACED if len(string) <= asked.train_length]
    known = []
    for j, k in np.ndindex(through.shape):
        if (BEFORE, KINDS[j], asked.seed + k) in models:
            model = Classifier.from_checkpoint(models[BEFORE, KINDS[j], asked.seed + k])
            traced: Any = run_probe("trace", model, strings)
            learned = min(int(through[j, k]), asked.train_length)
            weights = _by_letter(traced)
            plain = float(leads(weights).min(axis=0).max())
            known.append((learned, plain, j, k, model, weights, traced.logits))
    _, _, j, k, model, weights, logits = max(known, key=lambda entry: entry[:4])
    letters, heads = model.config.alphabet.letters, range(model.config.n_heads)
    return {
        "traced": f"{KINDS[j]} positions, seed {asked.seed + k}",
        "logits": logits,
        "weights": weights,
        "places": LabeledArray.of(
            _scores_by_place(model, asked.max_length),
            head=heads, letter=letters, position=range(1, asked.max_length + 1),
        ),
    }  # fmt: skip


def _by_letter(traced: Any) -> LabeledArray:
    """`[string head letter]` of a trace; CLS is not attended to."""
    labels = traced.weights.labels
    kept = [labels["token"].index(letter) for letter in labels["token"] if letter != "CLS"]
    letters = [labels["token"][place] for place in kept]
    return LabeledArray.of(
        traced.weights.array[0][..., kept],
        string=labels["string"], head=labels["head"], letter=letters,
    )  # fmt: skip


def _scores_by_place(model: Classifier, length: int) -> Floats:
    """`[head letter position]`: CLS's scores, from strings of one letter each."""
    strings = [f"{letter}{{{length}}}" for letter in model.config.alphabet.letters]
    tokens = torch.as_tensor(model.config.alphabet.tokens(strings))
    with torch.no_grad():
        cache = model.run_with_cache(tokens)[1]
    scores = cache["blocks.0.attn.hook_attn_scores"][:, :, 0, 1:].double().numpy()
    return np.asarray(np.swapaxes(scores, 0, 1))
