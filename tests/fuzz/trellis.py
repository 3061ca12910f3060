"""Bent proofs about tables: `python -m tests.fuzz.trellis --cases 2000 --seed 0`.

Proofs of order-sensitive models are changed in one to three places (leaves told otherwise, the
float32 mark set or taken away, cuts moved, a whole subtree replaced by one leaf, subtrees and parts
swapped, dropped or repeated, labels changed, edges and labels of tables changed, odd values of
every type anywhere). A forger may also state whatever conclusion is derived, so two cases in three
are sealed with what follows from them. What is derived is compared with every input of the tables
as they stand in the document, and what `tsc.check` accepts with the model's own task: answers at
256 bits, and torch's in float32 in several orders of summation. False and accepted is the one bad
ending. Six subjects are named below; three more are drawn with the seed.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any
from unittest.mock import patch

import numpy as np

import tsc_interp as tsc
from tests.trusted.asking import Asked
from tests.trusted.paths import strings
from tests.trusted.test_tables import adder
from tests.verification import precise_ordered
from tests.verification.ordered_models import (
    longest,
    ordered_checkpoint,
    random_config,
    wide_config,
)
from tests.verification.test_float32_order import answers
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.tasks import Reverse
from tsc_interp.tasks.counts import Maximum, Parity
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.language import packed, read_table, unpacked
from tsc_interp.trusted.replay import Replay, digest, replay, text_of
from tsc_interp.trusted.sets import Sets
from tsc_interp.trusted.trees import mask_of, mask_text
from tsc_interp.verification.order import partition

MOST = 2000
"""Inputs of a table that are looked at."""


@dataclass
class Subject:
    checkpoint: Checkpoint
    document: dict[str, Any]
    asked: Asked
    answers: dict[tuple[int, ...], tuple[int | None, set[int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, checkpoint: Checkpoint, lengths: list[int] | None) -> Subject:
        # Else regions this small are evaluated input by input, and no leaf claims anything.
        with patch.object(partition, "FEW", 1):
            proof: Any = tsc.certify(checkpoint, lengths=lengths, float32=True)
        return cls(checkpoint, proof.document, Asked(checkpoint))

    def answer(self, string: tuple[int, ...]) -> tuple[int | None, set[int]]:
        """At 256 bits, and in float32 in several orders."""
        if string not in self.answers:
            precise = precise_ordered.answer(self.checkpoint, string)
            self.answers[string] = precise, answers(self.checkpoint, string)
        return self.answers[string]

    def false(self, table: Any, stated: dict[str, Any]) -> bool:
        """Whether something that was derived of a table is not so."""
        spec = self.asked.spec
        paths = Sets.whole(read_table(table, spec.n_letters, self.asked.n_classes))
        if paths.counts()[0] > MOST:
            return False
        told = [(*self.answer(string), label, string) for string, label in strings(paths, 0)]
        right = sum(answer == label for answer, _, label, _ in told)
        wrong = {s for answer, _, label, s in told if answer not in (label, None)}
        sure = {"right": 0, "wrong": 0}
        for _, said, label, _ in told:
            sure["right"] += said == {label}
            sure["wrong"] += label not in said
        claimed = stated.get("float32", {"right": "0", "wrong": "0"})
        first = stated["first_wrong"]
        return (
            int(stated["inputs"]) != len(told)
            or stated["all_strings"] != (len(told) == spec.n_letters ** table["length"])
            or int(stated["right"]) > right
            or int(stated["wrong"]) > len(wrong)
            or any(int(claimed[kind]) > sure[kind] for kind in sure)
            or (first is not None and tuple(first) not in wrong)
        )


def subjects(seed: int) -> list[Subject]:
    plain: dict[str, Any] = {"n_letters": 3, "d_model": 4, "d_mlp": 3, "attend_cls": True}
    configs = [
        ClassifierConfig(
            **plain, n_outputs=3, task=Maximum(), n_positions=5, reads="last_letter", biases=True
        ),
        ClassifierConfig(
            **plain, norm="layer", final_norm=True, gated_mlp=True, n_heads=2, n_positions=5,
            task=Parity(letter="b"), reads="last",
        ),
        ClassifierConfig(
            **plain, norm="rms", positions="rotary", n_positions=5, n_outputs=2, d_head=2
        ),
        ClassifierConfig(
            **plain, norm="rms", positions="alibi", n_positions=5, n_heads=2, n_key_value_heads=1,
            d_head=2, qk_norm="rms", n_outputs=3, tied_embeddings=True, task=Maximum(),
            reads="last_letter", act_fn="relu",
        ),
    ]  # fmt: skip
    drawn = ((random_config, wide_config)[i % 2](100 * seed + i) for i in count())
    configs += islice((config for config in drawn if config.needs_order), 3)
    made = []
    for number, config in enumerate(configs):
        lengths = list(range(1, min(3, longest(config, 64)) + 1))
        made.append(Subject.of(ordered_checkpoint(config, 12 + number), lengths))
    return [*made, Subject.of(adder(), None), Subject.of(reverser(), None)]


def reverser() -> Checkpoint:
    """Two of three letters, a separator, and the letters backwards, by random weights."""
    config = ClassifierConfig(
        n_letters=4, n_outputs=4, task=Reverse(2, 3), d_model=5, n_heads=2, d_head=2, d_mlp=0,
        n_positions=6, positions="shortformer", reads="last_letter", attend_cls=True, biases=True,
    )  # fmt: skip
    return ordered_checkpoint(config, 5)


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """The path to every part of a JSON document."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else ()
    for key, part in enumerate(value) if isinstance(value, list) else inner:
        yield from places(part, (*path, key))


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = value


def odd(rng: random.Random) -> Any:
    deep: Any = []
    for _ in range(2000):
        deep = [deep]
    small = [*range(-1, 6), True, None, "", "0", [], {}, [0], 1.0, "is", "float32", ["is", 0]]
    return rng.choice([float("nan"), float("inf"), 10**400, deep, *small, *small])


def bent(document: Any, rng: random.Random) -> str:
    """Change a document in one place; the kind of change."""
    parts, tables = document["parts"], document["language"]["tables"]
    trees = [part["tree"] for part in parts]
    tree = rng.choice(trees)
    kinds = ["leaf", "float32", "cut", "prune", "subtree", "part", "label", "edge", "value"]
    kind, place = rng.choice(kinds), rng.randrange(len(tree))
    leaves = [i for i, node in enumerate(tree) if node[0] != "cut"]
    cuts = [i for i, node in enumerate(tree) if node[0] == "cut"]
    said = [["each"], ["open"], *([word, j] for word in ("is", "wrong") for j in range(4))]
    leaf = [*rng.choice(said), *rng.choice([[], ["float32"]])]
    if kind == "leaf":
        tree[rng.choice(leaves)] = leaf
    elif kind == "float32":
        node = tree[rng.choice(leaves)]
        node.pop() if node[-1] == "float32" else node.append("float32")
    elif kind == "prune" and cuts:
        start = end = rng.choice(cuts)
        left = 1
        while left:
            left += 1 if tree[end][0] == "cut" else -1
            end += 1
        tree[start:end] = [leaf]
    elif kind == "cut" and cuts:
        node, number = tree[rng.choice(cuts)], rng.randrange(len(tables))
        edges = [len(unpacked(s["edges"], 3, 10**6)) for s in tables[number]["stages"]]
        mask = np.random.default_rng(rng.randrange(10**6)).random(rng.choice(edges)) < 0.5
        try:
            known = mask_of(node[2], len(mask))
            known[rng.randrange(len(mask))] ^= True
            mask = known
        except NotProved:
            pass
        node[1 + rng.randrange(2) :] = rng.choice(
            [[node[1], mask_text(mask)], [node[1] + 1, node[2]], [node[2]]]
        )
    elif kind == "subtree":
        other = rng.choice(trees)
        other[rng.randrange(len(other)) :] = copy.deepcopy(tree[place:])
    elif kind == "part":
        part, change = rng.choice(parts), rng.choice(["drop", "repeat", "labels", "table"])
        if change == "labels":
            part["labels"] = [rng.randrange(4) for _ in range(rng.randrange(4))]
        elif change == "table":
            part["table"] = rng.randrange(-1, len(tables) + 1)
        elif change == "drop":
            parts.remove(part)
        else:
            parts.append(copy.deepcopy(part))
    elif kind in ("label", "edge"):
        table = rng.choice(tables)
        stage = rng.choice(table["stages"])
        owner, name = (table, "labels") if kind == "label" else (stage, "edges")
        columns = 1 if kind == "label" else 2 + len(stage["places"])
        rows = unpacked(owner[name], columns, 10**6).copy()
        if rng.random() < 0.2:
            rows = np.delete(rows, rng.randrange(len(rows)), axis=0)
        else:
            rows[rng.randrange(len(rows)), rng.randrange(columns)] += rng.choice([-1, 1, 2])
        owner[name] = packed(rows)
    else:
        kind = "value"
        put(document, rng.choice(list(places(document))), odd(rng))
    return kind


def tried(subject: Subject, others: list[Subject], rng: random.Random) -> tuple[str, str]:
    """One forgery: how the proof was changed, and how that ended."""
    model, changes = subject.asked.model, set()
    if rng.random() < 0.05:
        subject = rng.choice(others)
        forged = {**copy.deepcopy(subject.document), "models": [model.hash]}
        return "another model's hash", ending(subject, forged, rng, hash=model.hash)
    forged = copy.deepcopy(subject.document)
    for _ in range(rng.choice([1, 1, 2, 3])):
        try:
            changes.add(bent(forged, rng))
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError, NotProved):
            break  # an earlier change left nothing to bend here
    return " + ".join(sorted(changes)), ending(subject, forged, rng)


def ending(subject: Subject, forged: Any, rng: random.Random, hash: str = "") -> str:
    """Whether it is accepted, and true."""
    model = subject.asked.model
    try:
        if rng.random() < 0.7:
            said = Replay([model], forged["language"], forged["float32"], 60).run(forged["parts"])
            forged["conclusion"] = said
        forged["digest"] = digest(forged)
    except (
        NotProved,
        LookupError,
        TypeError,
        RecursionError,
        ValueError,
        UsageError,
        AttributeError,
    ):
        pass
    try:
        derived = replay(forged, [model], 60)
    except NotProved:
        return "rejected"
    tables = forged["language"]["tables"]
    if hash or any(map(subject.false, tables, derived["tables"])):
        return "ACCEPTED AND FALSE"
    own = all(any(text_of(one) == text_of(t) for t in subject.document["language"]["tables"])
              for one in tables)  # fmt: skip
    try:
        tsc.check(forged, subject.checkpoint, seconds=60.0)
    except NotProved:
        return "true of another table" if not own else "rejected"
    return "accepted, true" if own else "ACCEPTED AND FALSE"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.trellis", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, known = random.Random(options.seed), subjects(options.seed)
    endings: Counter[tuple[str, str]] = Counter()
    for _ in range(options.cases):
        subject = rng.choice(known)
        endings[tried(subject, [one for one in known if one is not subject], rng)] += 1
    print("| change | ending | cases |\n|---|---|---:|")
    for (kind, end), cases in sorted(endings.items()):
        print(f"| {kind} | {end} | {cases} |")
    totals = Counter[str]()
    for (_, end), cases in endings.items():
        totals[end] += cases
    print(dict(totals))
    return int("ACCEPTED AND FALSE" in totals)


if __name__ == "__main__":
    sys.exit(main())
