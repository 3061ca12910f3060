"""Documents about counts: what is proved is accepted, and nothing else, however they are bent."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests.trusted.counts import replay_of, sealed
from tests.verification.models import planted, random_checkpoint, unfailing
from tsc_interp import certify
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.counts import AtLeast, Majority, MostFrequent, Parity
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.replay import replay
from tsc_interp.verification import check
from tsc_interp.verification.documents import model_of

Document = dict[str, Any]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every part of a JSON document."""
    if path:
        yield path
    named = value.items() if isinstance(value, dict) else ()
    for key, part in enumerate(value) if isinstance(value, list) else named:
        yield from places(part, (*path, key))


def changed(document: Document, path: tuple[Any, ...], new: Any) -> Document:
    document = copy.deepcopy(document)
    inner: Any = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = new
    return document


def at(document: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


@pytest.fixture(scope="module")
def small() -> tuple[Checkpoint, Document]:
    """Parts of three kinds, small enough to bend in every place."""
    checkpoint = planted(6, c_score=-1.0)
    return checkpoint, certify(checkpoint).document


def accepted(document: Any, checkpoint: Checkpoint) -> bool:
    try:
        replay(document, [model_of(checkpoint)])
    except NotProved:
        return False
    return True


def test_a_proof_is_accepted_as_it_was_written(small: tuple[Checkpoint, Document]) -> None:
    checkpoint, document = small
    read = json.loads(json.dumps(document))
    assert replay(read, [model_of(checkpoint)]) == document["conclusion"]
    kinds = [frozenset(part) - {"tree", "trees"} for part in document["parts"]]
    assert {"counts"} in kinds
    assert {"letters", "up_to"} in kinds
    assert {"letters", "ever"} in kinds
    turned = json.loads(json.dumps(document), object_pairs_hook=lambda p: dict(reversed(p)))
    assert list(turned) != list(document)
    assert accepted(turned, checkpoint)


def test_every_field_is_sealed(small: tuple[Checkpoint, Document]) -> None:
    """Whatever is changed, the digest no longer fits."""
    checkpoint, document = small
    for path in places(document):
        for new in ("x", None, 7, []):
            if at(document, path) != new:
                assert not accepted(changed(document, path, new), checkpoint), path


def test_every_field_matters_even_to_a_forger(small: tuple[Checkpoint, Document]) -> None:
    """With the digest made to fit, a changed part proves nothing, or what is true all the same."""
    checkpoint, document = small
    tried = 0
    for path in places(document):
        if path == ("digest",):
            continue
        forged = _forgeries(at(document, path))
        if "trees" in path or "tree" in path:  # there are many of these: two of each
            forged = forged[len(path) % 3 :: 3]
        for new in forged:
            bent = sealed(changed(document, path, new))
            tried += 1
            if accepted(bent, checkpoint):
                # Where a region is cut is free: what follows has to be the same.
                where = path[-1] in (1, 2) and at(document, path[:-1])[0] == "cut"
                where |= path == ("parts",) and len(new) > len(document["parts"])  # said twice
                assert where, (path, new)
                assert bent["conclusion"] == document["conclusion"]
    assert tried > 200


def _forgeries(value: Any) -> list[Any]:
    """Values that would prove more, cover less or say something else."""
    if isinstance(value, bool):
        return [not value, None, 1]
    if value is None:
        return [True, 3]
    if isinstance(value, str):
        return ["x", value + "a", ""]
    if isinstance(value, list | dict):
        return ["x", *([value[:-1], [*value, *value[-1:]]] if isinstance(value, list) else [])]
    return [value + 1, value - 1, float(value) if type(value) is int else 1, -1, "1", None]


def test_parts_cannot_be_left_out_or_smuggled_in(small: tuple[Checkpoint, Document]) -> None:
    checkpoint, document = small
    for index, part in enumerate(document["parts"]):
        fewer = [other for i, other in enumerate(document["parts"]) if i != index]
        assert not accepted(sealed({**document, "parts": fewer}), checkpoint), part
    for extra in (
        {"counts": [1, 1, 0], "tree": [["is", 0]]},
        {"letters": [0, 1], "from": 10, "tree": [["is", 1]]},
        {"letters": [0, 1], "up_to": 50, "tree": [["is", 1]]},
        {"letters": [0, 1], "ever": True, "trees": [[["is", 1]]] * 2},
        {"magic": True, "tree": []},
    ):
        more = sealed({**document, "parts": [*document["parts"], extra]})
        assert not accepted(more, checkpoint)


def test_other_weights_and_rules_are_refused(small: tuple[Checkpoint, Document]) -> None:
    """One weight, one unit in the last place; another model's hash; another task."""
    checkpoint, document = small
    weights = {name: array.copy() for name, array in checkpoint.weights.items()}
    weights["unembed.W_U"][0, 0] = np.nextafter(weights["unembed.W_U"][0, 0], np.float32(9))
    with pytest.raises(NotProved, match="other models"):
        replay(document, [model_of(Checkpoint(checkpoint.config, weights))])
    other = planted(5, c_score=-1.0)
    assert not accepted(sealed({**document, "models": [other.weight_hash()]}), other)
    supports = [s for k in (1, 2, 3) for s in combinations(range(3), k)]
    rule = {"rule": "listed", "supports": [[list(s), int(0 in s)] for s in supports], "inputs": []}
    same = sealed({**document, "language": {"counts": rule}})
    assert accepted(same, checkpoint)
    with pytest.raises(NotProved, match="another task"):
        check(same, checkpoint)


@pytest.mark.parametrize("nonsense", [None, 3, [], {}, {"schema": "other"}, {"schema": []}])
def test_nonsense_is_refused(nonsense: Any) -> None:
    with pytest.raises(NotProved, match="has the fields"):
        replay(nonsense, [model_of(planted(3))])


def test_a_tail_alone_and_a_gap_before_it_prove_no_infinity() -> None:
    checkpoint = unfailing()
    document = certify(checkpoint, limit=1000).document
    assert document["conclusion"]["infinite"]
    for skipped in range(len(document["parts"])):
        replayed = replay_of(checkpoint)
        rest = [part for i, part in enumerate(document["parts"]) if i != skipped]
        assert not replayed.run(rest)["infinite"]
    for index, part in enumerate(document["parts"]):
        if "up_to" in part:
            short = changed(document, ("parts", index, "up_to"), part["up_to"] - 1)
            assert not accepted(sealed(short), checkpoint)


def test_right_and_wrong_at_once_is_a_contradiction() -> None:
    """A wrong input under a claim that holds would make the whole document void."""
    replayed = replay_of(planted(6))
    parts = replayed.parts
    parts.add({"counts": [1, 6, 0], "tree": [["is", 0]]})
    parts.facts.up_to[0, 1] = 7  # as if it had been derived
    with pytest.raises(NotProved, match="hold and fail"):
        parts.conclusion()


def test_many_letters_and_positions_are_refused() -> None:
    for config, why in (
        (ClassifierConfig(n_letters=13), "12 letters"),
        (ClassifierConfig(n_positions=9), "order of letters"),
    ):
        with pytest.raises(NotProved, match=why):
            replay_of(random_checkpoint(config, 0))


def test_seconds_and_memory_end_a_check(small: tuple[Checkpoint, Document]) -> None:
    checkpoint, document = small
    with pytest.raises(NotProved, match="within 0 seconds"):
        replay(document, [model_of(checkpoint)], seconds=0)
    with pytest.raises(NotProved, match="memory"):
        replay(document, [model_of(checkpoint)], memory=100)


@pytest.mark.parametrize(
    "task", [Majority(letter="b"), AtLeast(letter="a", k=2), Parity(letter="a"), MostFrequent()]
)
def test_each_rule_is_proved_to_the_first_error(task: Any) -> None:
    config = ClassifierConfig(task=task, n_outputs=3 if isinstance(task, MostFrequent) else 1)
    for seed in (0, 1):
        checkpoint = random_checkpoint(config, seed)
        certificate = certify(checkpoint, limit=30)
        stated = certificate.document["conclusion"]
        assert accepted(certificate.document, checkpoint)
        known = certificate.horizon
        assert known.proved == (stated["horizon"] is not None or stated["infinite"])
        assert stated["horizon"] in (None, known.length)
