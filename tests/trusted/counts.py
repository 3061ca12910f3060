"""Kernels and parts about letter counts, for tests: what a forger would write, and what is true."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import numpy as np

from tests.verification import precise
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.judge import Judge
from tsc_interp.trusted.replay import Replay, digest
from tsc_interp.verification.documents import model_of, rule_of

Part = dict[str, Any]


def judge_of(checkpoint: Checkpoint, seconds: float = 300.0) -> Judge:
    budget = Budget(seconds)
    budget.restart()
    return Judge(model_of(checkpoint), budget)


def replay_of(checkpoint: Checkpoint, form: str | None = None) -> Replay:
    return Replay([model_of(checkpoint)], {"counts": rule_of(checkpoint.config)}, form)


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """With a digest that fits, as a forger would make it."""
    return {**document, "digest": digest(document)}


def vectors(config: ClassifierConfig, support: tuple[int, ...], counts: tuple[int, ...]
            ) -> Iterator[list[int]]:  # fmt: skip
    every = list(product(counts, repeat=len(support)))
    for picked in every[:: 1 + len(every) // 12]:
        full = [0] * config.n_letters
        for letter, count in zip(support, picked, strict=True):
            full[letter] = count
        yield full


def answer(checkpoint: Checkpoint, counts: list[int]) -> int | None:
    """By the oracle in mpmath, where it is sure."""
    if checkpoint.config.n_outputs > 1:
        return precise.answer(checkpoint, counts)
    sign = precise.sign(checkpoint, counts)
    return None if sign is None else int(sign > 0)


def is_wrong(checkpoint: Checkpoint, counts: list[int]) -> bool:
    found = answer(checkpoint, counts)
    return found is not None and found != int(checkpoint.config.task.classes(np.array(counts)))


def forged_parts(config: ClassifierConfig) -> Iterator[Part]:
    """Everything one would like to be true, whole and cut once.

    A small region that may well be right comes before the rest: a kernel that forgets an unknown
    bound forgets the second.
    """
    letters = range(min(config.n_letters, 3))
    supports = [s for k in (1, 2) for s in combinations(letters, k)]
    for support in dict.fromkeys([*supports, tuple(range(config.n_letters))]):
        size, name = len(support), list(support)
        free = size - 1 + int(config.attend_cls)
        for j in range(max(2, config.n_outputs)):
            leaf = ["is", j]
            trees: list[list[Any]] = [[leaf]]
            trees += [[["cut", 0, at], leaf, leaf] for at in (2.0**-20, 0.5)] if free else []
            for tree in trees:
                yield {"letters": name, "ever": True, "trees": [tree] * size}
            for length in (5, 10**6):
                yield {"letters": name, "up_to": length, "tree": [leaf]}
                yield {"letters": name, "up_to": length, "tree": [["cut", 0, 1], leaf, leaf]}
            for length in (2, 10**6):
                yield {"letters": name, "from": length, "tree": [leaf]}
            if size == 1:
                yield {"letters": name, "limit": True, "tree": [leaf]}
            for counts in vectors(config, support, (1, 3)):
                yield {"counts": counts, "tree": [leaf]}


def contradicted(checkpoint: Checkpoint, part: Part) -> list[int] | None:
    """A vector on which the oracle contradicts a part that was accepted."""
    config = checkpoint.config
    claimed = {leaf[1] for tree in part.get("trees", [part.get("tree")]) for leaf in tree
               if leaf[0] == "is"}  # fmt: skip
    if "counts" in part:
        found = answer(checkpoint, part["counts"])
        return part["counts"] if found is not None and {found} != claimed else None
    support = tuple(part["letters"])
    if "limit" in part:
        # All attention on one letter: that is a string of it alone, but for CLS.
        copies = 10**4000 if config.attend_cls else 1
        far = [copies if i == support[0] else 0 for i in range(config.n_letters)]
        found = answer(checkpoint, far)
        return far if found is not None and {found} != claimed else None
    least, most = part.get("from", 0), part.get("up_to", np.inf)
    for counts in vectors(config, support, (1, 2, 4, 55, 10**7)):
        if least <= sum(counts) <= most and is_wrong(checkpoint, counts):
            return counts
    return None
