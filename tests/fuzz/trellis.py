"""Bent trellis certificates: `python -m tests.fuzz.trellis --cases 2000 --seed 0`.

Certificates of order-sensitive models are changed in one to three places (leaves told otherwise,
the float32 mark set or taken away, cuts moved, a whole subtree replaced by one leaf, subtrees,
groups and parts swapped, dropped or repeated, labels and lengths changed, odd values of every type
anywhere). A forger may also state whatever conclusion the checker derives, so the trees themselves
are checked, without a seal. One case in five alters a document outside its trees instead (schema,
hash, task, conclusion), with a new seal. The derived counts are compared with every input: answers
at 256 bits, and torch's in float32 in several orders of summation. False and accepted is the one
bad ending. Six subjects are named below; three more are drawn with the seed.
"""

from __future__ import annotations

import argparse
import base64
import copy
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any
from unittest.mock import patch

from tests.fuzz.certificates import other
from tests.verification import precise_ordered
from tests.verification.ordered_models import (
    longest,
    ordered_checkpoint,
    random_config,
    wide_config,
)
from tests.verification.test_certificates import at, places, sealed
from tests.verification.test_float32_order import answers
from tests.verification.test_trellis_checker import adder
from tsc_interp import certify
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import Maximum, Parity
from tsc_interp.tasks import Reverse
from tsc_interp.verification.checker.budget import CertificateError
from tsc_interp.verification.checker.document import json_text
from tsc_interp.verification.checker.sets import Sets
from tsc_interp.verification.checker.trellis import TrellisChecker
from tsc_interp.verification.checker.trellis_claims import PartProved
from tsc_interp.verification.order import partition


@dataclass
class Truth:
    """How many inputs there are, are right and wrong, the same in float32, and which are wrong."""

    inputs: int = 0
    real: Counter[str] = field(default_factory=Counter)
    float32: Counter[str] = field(default_factory=Counter)
    wrong: set[tuple[int, ...]] = field(default_factory=set)


@dataclass
class Subject:
    checkpoint: Checkpoint
    document: dict[str, Any]
    known: dict[tuple[str, int], Truth] = field(default_factory=dict)

    @classmethod
    def of(cls, checkpoint: Checkpoint, lengths: list[int] | None) -> Subject:
        # Else regions this small are evaluated input by input, and no leaf claims anything.
        with patch.object(partition, "FEW", 1):
            document: Any = certify(checkpoint, lengths=lengths, float32=True)
        return cls(checkpoint, document.document)

    def truth(self, kind: str, number: int) -> Truth:
        """Of every input of a length or step, also of one that the certificate did not name."""
        if (kind, number) not in self.known:
            found = Truth()
            for string, label in Sets.whole(
                TrellisChecker(self.checkpoint).trellis(kind, number)
            ).strings(0):
                answer = precise_ordered.answer(self.checkpoint, string)
                said = answers(self.checkpoint, string)
                found.inputs += 1
                found.real["right"] += answer == label
                found.real["wrong"] += answer not in (label, None)
                found.float32["right"] += said == {label}
                found.float32["wrong"] += label not in said
                found.wrong |= {string} if answer != label else set()
            self.known[kind, number] = found
        return self.known[kind, number]

    def false(self, part: PartProved) -> bool:
        """Whether something that was derived is not so."""
        truth = self.truth(part.kind, part.number)
        claimed = part.float32 or {"right": 0, "wrong": 0}
        return (
            part.inputs != truth.inputs
            or part.right > truth.real["right"]
            or part.wrong > truth.real["wrong"]
            or any(claimed[kind] > truth.float32[kind] for kind in claimed)
            or (part.first_wrong is not None and part.first_wrong not in truth.wrong)
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


def bent(parts: Any, rng: random.Random) -> str:
    """Change a list of parts in one place; the kind of change."""
    trees = [group["tree"] for part in parts for group in part["groups"]]
    tree = rng.choice(trees)
    place = rng.randrange(len(tree))
    kind = rng.choice(
        ["leaf", "float32", "cut", "prune", "subtree", "group", "part", "value", "value"]
    )
    leaves = [i for i, node in enumerate(tree) if node and node[0] != "cut"]
    cuts = [i for i, node in enumerate(tree) if node and node[0] == "cut"]
    said = [["right"], ["each"], ["open"], *(["wrong", by] for by in range(4))]
    leaf = [*rng.choice(said), *rng.choice([[], ["float32"]])]
    if kind == "leaf" and leaves:
        tree[rng.choice(leaves)] = leaf
    elif kind == "prune" and cuts:
        start = end = rng.choice(cuts)
        left = 1
        while left:
            left += 1 if tree[end][0] == "cut" else -1
            end += 1
        tree[start:end] = [leaf]
    elif kind == "float32" and leaves:
        node = tree[rng.choice(leaves)]
        node.pop() if node[-1] == "float32" else node.append("float32")
    elif kind == "cut" and cuts and isinstance(tree[cuts[0]][-1], str):
        node = tree[rng.choice(cuts)]
        bits = bytearray(base64.b64decode(node[2]))
        bits[rng.randrange(len(bits))] ^= 1 << rng.randrange(8)
        node[1 + rng.randrange(2) :] = rng.choice(
            [[node[1], base64.b64encode(bits).decode()], [node[1] + 1, node[2]], [node[2]]]
        )
    elif kind == "subtree":
        first, second = rng.choice(trees), rng.choice(trees)
        first[rng.randrange(len(first)) :] = copy.deepcopy(second[place:])
    elif kind == "group":
        groups = rng.choice(parts)["groups"]
        change = rng.choice(["drop", "repeat", "labels"])
        if change == "labels":
            rng.choice(groups)["labels"] = [rng.randrange(4) for _ in range(rng.randrange(4))]
        elif change == "drop":
            groups.pop(rng.randrange(len(groups)))
        else:
            groups.append(copy.deepcopy(rng.choice(groups)))
    elif kind == "part":
        change, part = rng.choice(["drop", "repeat", "number"]), rng.randrange(len(parts))
        if change == "number":
            name = next(iter(parts[part]))
            parts[part][name] = rng.choice([1, 2, 3, 4, 0, -1, 10**30, True, 2.0])
        elif change == "drop" and len(parts) > 1:
            parts.pop(part)
        else:
            parts.insert(part, copy.deepcopy(parts[part]))
    else:
        kind = "value"
        path = rng.choice(list(places(parts)))
        inner = at(parts, path[:-1])
        deep: Any = []
        for _ in range(2000):
            deep = [deep]
        odd = [float("nan"), float("inf"), 10**400, deep, other(at(parts, path), rng)]
        inner[path[-1]] = rng.choice([*odd, *odd[-1:] * 4])
    return kind


def altered(document: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A document with a new seal, bent at one place outside its trees."""
    rest = {key: value for key, value in document.items() if key not in ("parts", "digest")}
    rest = copy.deepcopy(rest)
    path = rng.choice(list(places(rest)))
    at(rest, path[:-1])[path[-1]] = other(at(rest, path), rng)
    return sealed({**document, **rest})


def tried(subject: Subject, others: list[Subject], rng: random.Random) -> tuple[str, str]:
    """One forgery: how the certificate was changed, and how that ended."""
    checkpoint, draw, changes = subject.checkpoint, rng.random(), set()
    try:
        if draw < 0.1:
            checkpoint = rng.choice(others).checkpoint
            forged = {**subject.document, "weight_hash": checkpoint.weight_hash()}
            changes = {"another model's hash"}
            TrellisChecker(checkpoint, seconds=60).check(sealed(forged))
            return "another model's hash", "ACCEPTED AND FALSE"
        if draw < 0.3:
            changes = {"document"}
            forged = altered(subject.document, rng)
            TrellisChecker(checkpoint, seconds=60).check(forged)
            false = json_text(forged) != json_text(subject.document)
        else:
            parts = copy.deepcopy(subject.document["parts"])
            for _ in range(rng.choice([1, 1, 2, 3])):
                try:
                    changes.add(bent(parts, rng))
                except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
                    break  # an earlier change left nothing to bend here
            proved = TrellisChecker(checkpoint, seconds=60).derive(parts)
            false = any(subject.false(part) for part in proved.parts)
        ending = "ACCEPTED AND FALSE" if false else "accepted, true"
    except CertificateError:
        ending = "rejected"
    return " + ".join(sorted(changes)), ending


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
    for (kind, ending), cases in sorted(endings.items()):
        print(f"| {kind} | {ending} | {cases} |")
    totals = Counter[str]()
    for (_, ending), cases in endings.items():
        totals[ending] += cases
    print(dict(totals))
    return int("ACCEPTED AND FALSE" in totals)


if __name__ == "__main__":
    sys.exit(main())
