"""Bent certificates by the thousand: `python -m tests.fuzz.certificates --cases 2000 --seed 0`.

Certificates of models of every kind are changed in one to three places (numbers moved, claims
swapped, repeated, dropped or given to other letters, another model's hash) and sealed again, as a
forger would. What the checker accepts is compared with `tests/verification/precise.py`: false and
accepted is the one bad ending.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
from collections import Counter
from typing import Any

from tests.verification.models import planted, random_checkpoint, unfailing
from tests.verification.test_certificates import at, places, sealed
from tests.verification.test_forged_certificates import contradicted, stretched
from tsc_interp import certify
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import AtLeast, Majority
from tsc_interp.verification import CertificateError, check


def subjects() -> list[tuple[str, Checkpoint]]:
    return [
        ("one layer", planted(6, c_score=-1.0)),
        ("log n", unfailing()),
        ("CLS attended to", random_checkpoint(ClassifierConfig(attend_cls=True), 1)),
        ("norm", stretched(ClassifierConfig(n_letters=2, norm="rms"), 1, 1.0, 1e3)),
        ("two layers", random_checkpoint(ClassifierConfig(n_letters=2, n_layers=2), 1, 1.0)),
        ("at least", random_checkpoint(ClassifierConfig(task=AtLeast(letter="a", k=2)), 1)),
        ("majority", random_checkpoint(ClassifierConfig(task=Majority(letter="b")), 1)),
    ]


def bent(document: dict[str, Any], rng: random.Random) -> tuple[str, dict[str, Any]]:
    """The kind of change, and the changed document."""
    document = copy.deepcopy(document)
    # A document bent before may hold anything where its claims were.
    claims = document["claims"] if isinstance(document["claims"], list) else []
    claims = claims if all(isinstance(claim, dict) for claim in claims) else []
    kind = rng.choice(["value", "value", "value", "claim dropped", "claim repeated", "letters"])
    if kind == "claim dropped" and claims:
        claims.pop(rng.randrange(len(claims)))
    elif kind == "claim repeated" and claims:
        claims.append(copy.deepcopy(rng.choice(claims)))
    elif kind == "letters" and claims:
        rng.choice(claims)["letters"] = rng.choice(["a", "b", "ab", "c", "bc", "ba", ""])
    else:
        kind = "value"
        path = rng.choice([p for p in places(document) if p != ("digest",)])
        inner: Any = document
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = other(at(document, path), rng)
    return kind, document


def other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return rng.choice([True, False, None, 0, 1, 7])
    if isinstance(value, int):
        return rng.choice([value + 1, max(value - 1, 0), value * 2, 1, 0, 10**6, -1, float(value)])
    if isinstance(value, float):
        return rng.choice([value * 1.01, value / 2, -value, 0.0, 1.0, 1e-9, 1e299, float("nan")])
    if isinstance(value, list):
        return rng.choice([[], value[:-1], value + value[-1:], value[::-1], "x"])
    return rng.choice(["", "x", "wrong", "limit", "a", "ab{3}", None, {}, str(value) * 2])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.certificates", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    models = [
        (name, checkpoint, certify(checkpoint, limit=200, boxes=500).document)
        for name, checkpoint in subjects()
    ]
    endings: Counter[tuple[str, str]] = Counter()
    for _ in range(options.cases):
        name, checkpoint, document = rng.choice(models)
        changes = set()
        for _ in range(rng.choice([1, 1, 2, 3])):
            kind, document = bent(document, rng)
            changes.add(kind)
        if rng.random() < 0.1:
            checkpoint = rng.choice([c for n, c, _ in models if n != name])
            document = {**document, "weight_hash": checkpoint.weight_hash()}
            changes.add("another model's hash")
        try:
            check(sealed(document), checkpoint, seconds=20)
        except CertificateError:
            ending = "rejected"
        else:
            false = any(contradicted(checkpoint, claim) for claim in document["claims"])
            ending = "ACCEPTED AND FALSE" if false else "accepted, true"
        endings[" + ".join(sorted(changes)), ending] += 1
    print("| change | ending | cases |\n|---|---|---:|")
    for (kind, ending), count in sorted(endings.items()):
        print(f"| {kind} | {ending} | {count} |")
    return int(any(ending.startswith("ACCEPTED") for _, ending in endings))


if __name__ == "__main__":
    sys.exit(main())
