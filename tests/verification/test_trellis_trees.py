"""Trees of cuts, added up by the checker: a model of given answers, against every input.

The model is a table here, so that every way to read a tree can be told from every other in
milliseconds; what a real model shows is tested in test_trellis_checker.py.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.verification.ordered_models import ordered_checkpoint
from tests.verification.test_trellis_checker import adder
from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import Maximum
from tsc_interp.verification.checker import document as document_module
from tsc_interp.verification.checker import trellis as checker_module
from tsc_interp.verification.checker.budget import CertificateError
from tsc_interp.verification.checker.sets import Sets, slots
from tsc_interp.verification.checker.trellis import EACH, TrellisChecker
from tsc_interp.verification.checker.trellis_claims import Claim

CONFIG = ClassifierConfig(
    n_letters=3, n_outputs=3, task=Maximum(), d_model=2, n_heads=1, d_head=1, d_mlp=0,
    n_positions=5, reads="last_letter", attend_cls=True,
)  # fmt: skip
CHECKPOINT = ordered_checkpoint(CONFIG, 1)
PLACES = [{"length": 3}, {"step": 1}]


class Table:
    """Answers that are given: a class, or None if that is beyond the model; float32 is `sure`."""

    def __init__(self, classes: int, seed: int) -> None:
        self.n_classes, self.seed, self.asked = classes, seed, 0

    def _draw(self, string: Sequence[int]) -> random.Random:
        return random.Random(f"{self.seed} {string}")

    def answer(self, string: Sequence[int], label: int) -> int | None:
        drawn = [*[label] * self.n_classes, *range(self.n_classes), None]
        return self._draw(string).choice(drawn)

    def sure(self, string: Sequence[int]) -> bool:
        return self._draw((*string, 99)).random() < 0.7

    def hold(self, sets: Sets, by: Any, float32: Any) -> Any:
        self.asked += len(sets)
        return np.array([self._holds(sets, i, int(by[i]), float32[i]) for i in range(len(sets))])

    def _holds(self, sets: Sets, which: int, by: int, float32: bool) -> bool:
        for string, label in sets.strings(which):
            answer = self.answer(string, label)
            if answer != (label if by < 0 else by) or by == label:
                return False
            if float32 and not self.sure(string):
                return False
        return True

    def verdict(self, string: Sequence[int], label: int) -> bool | None:
        answer = self.answer(string, label)
        return None if answer is None else answer == label


def checker_of(seed: int, step: bool = False) -> TrellisChecker:
    checker = TrellisChecker(adder() if step else CHECKPOINT)
    table: Any = Table(checker.model.n_classes, seed)
    checker.model = table
    return checker


def tree_of(checker: TrellisChecker, sets: Sets, draw: random.Random) -> list[Any]:
    """A true tree of random cuts."""
    model: Any = checker.model
    float32 = draw.random() < 0.5
    mark = ["float32"] if float32 else []
    for by in (-1, *range(model.n_classes)):
        if model._holds(sets, 0, by, float32) and draw.random() < 0.8:
            return [["right", *mark] if by < 0 else ["wrong", by, *mark]]
    if sets.counts() == [1] or draw.random() < 0.3:
        return [["each", *mark] if draw.random() < 0.8 else ["open"]]
    for stage in draw.sample(range(len(sets.masks)), len(sets.masks)):
        edges = np.flatnonzero(sets.masks[stage][0])
        if len(edges) > 1:
            chosen = np.zeros(sets.masks[stage].shape[1], dtype=bool)
            chosen[draw.sample(edges.tolist(), draw.randrange(1, len(edges)))] = True
            sides = []
            for part in (chosen, ~chosen):
                masks = list(sets.masks)
                masks[stage] = masks[stage] & part
                sides.append(Sets(sets.trellis, masks))
            if all(side.has_paths[0] for side in sides):
                packed = base64.b64encode(np.packbits(chosen).tobytes()).decode()
                rest = [tree_of(checker, side, draw) for side in sides]
                return [["cut", stage, packed], *rest[0], *rest[1]]
    return [["each", *mark]]


def leaves(trellis: Any, tree: list[Any]) -> Iterator[tuple[Any, list[tuple[Any, int]]]]:
    """Every leaf with its inputs, by a recursion of its own."""
    left = iter(tree)

    def walk(inputs: list[tuple[Any, int]]) -> Iterator[tuple[Any, list[tuple[Any, int]]]]:
        node = next(left)
        if node[0] != "cut":
            yield node, inputs
            return
        bits = np.unpackbits(np.frombuffer(base64.b64decode(node[2]), dtype=np.uint8))
        inside, outside = [], []
        for string, label in inputs:
            state = 0
            for here in trellis.stages[: node[1] + 1]:
                placed = [string[place] for place in here.places]
                rows = (here.letters == placed).all(1) & (here.source == state)
                edge = int(np.flatnonzero(rows)[0])
                state = int(here.target[edge])
            (inside if bits[edge] else outside).append((string, label))
        yield from walk(inside)
        yield from walk(outside)

    yield from walk(list(Sets.whole(trellis).strings(0)))


def counted(checker: TrellisChecker, groups: list[tuple[Any, list[Any]]]) -> dict[str, Any]:
    """What follows from true trees, input by input."""
    model: Any = checker.model
    right, wrong, float32, errors = 0, 0, {"right": 0, "wrong": 0}, []
    marked = False
    for trellis, tree in groups:
        for node, inputs in leaves(trellis, tree):
            for string, label in inputs:
                answer = model.answer(string, label)
                if node[0] == "open" or answer is None:
                    continue
                right, wrong = right + (answer == label), wrong + (answer != label)
                errors += [string] if answer != label else []
                if node[-1] == "float32" and model.sure(string):
                    float32["right" if answer == label else "wrong"] += 1
                    marked = True
    first = min(errors, default=None)
    return {
        "right": right, "wrong": wrong, "first_wrong": first, "float32": float32 if marked else None
    }  # fmt: skip


def part_of(
    checker: TrellisChecker, name: dict[str, int], draw: random.Random
) -> tuple[dict[str, Any], list[tuple[Any, list[Any]]]]:
    """A part of true trees, its labels in random groups, with the trellis of each."""
    ((kind, number),) = name.items()
    trellis = checker.trellis(kind, number)
    labels = draw.sample(trellis.labels, len(trellis.labels))
    cut = draw.randrange(1, len(labels))
    groups = []
    for some in (labels[:cut], labels[cut:]):
        part = trellis.of_labels(some)
        groups.append((some, part, tree_of(checker, Sets.whole(part), draw)))
    document = [{"labels": some, "tree": tree} for some, _, tree in groups]
    return {**name, "groups": document}, [(part, tree) for _, part, tree in groups]


@pytest.mark.parametrize("at_once", [1, 2, 200])
@pytest.mark.parametrize("seed", range(8))
def test_leaves_add_up_to_what_every_input_says(seed: int, at_once: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(TrellisChecker, "_leaves_at_once", lambda *_: at_once)
    for name in PLACES:
        draw = random.Random(seed)
        checker = checker_of(seed, "step" in name)
        part, groups = part_of(checker, name, draw)
        (proved,) = checker.derive([part]).parts
        expected = counted(checker, groups)
        assert {key: getattr(proved, key) for key in expected} == expected
        assert proved.inputs == (27 if "length" in name else 9)
        assert {proved.kind: proved.number} == name


@pytest.mark.parametrize("seed", range(6))
def test_no_leaf_may_say_what_is_not_so(seed: int) -> None:
    draw = random.Random(seed)
    checker = checker_of(seed)
    part, groups = part_of(checker, {"length": 3}, draw)
    refused = 0
    for number, (trellis, tree) in enumerate(groups):
        nodes = list(leaves(trellis, tree))
        places = [place for place, node in enumerate(tree) if node[0] != "cut"]
        for place, (_, inputs) in zip(places, nodes, strict=True):
            model: Any = checker.model
            answers = {(model.answer(string, label), label) for string, label in inputs}
            for by in (-1, 0, 1, 2):
                so = all(a == (label if by < 0 else by) and label != by for a, label in answers)
                forged = [*tree]
                forged[place] = ["right"] if by < 0 else ["wrong", by]
                part["groups"][number]["tree"] = forged
                if so:
                    checker.derive([part])
                else:
                    refused += 1
                    with pytest.raises(CertificateError, match="is not proved"):
                        checker.derive([part])
        part["groups"][number]["tree"] = tree
    assert refused


def single(tree: Any, labels: Any = (2,), length: int = 3) -> list[Any]:
    return [{"length": length, "groups": [{"labels": list(labels), "tree": tree}]}]


SOME = base64.b64encode(np.packbits(np.array([True, False, False])).tobytes()).decode()


@pytest.mark.parametrize(
    ("problem", "parts"),
    [
        ("parts are a list", []),
        ("parts are a list", ({"length": 3, "groups": []},)),
        ("parts are a list", {"length": 3}),
        ("a name and groups", [["length", "groups"]]),
        ("a name and groups", [{"length": 3}]),
        ("a name and groups", [{"length": 3, "groups": [], "more": 1}]),
        ("a length and groups", [{"step": 3, "groups": []}]),
        ("a length and groups", [{"length": 3, "group": []}]),
        ("rising order", [{"length": n, "groups": []} for n in (2, 2)]),
        ("rising order", [{"length": n, "groups": []} for n in (1, 3, 2)]),
        ("rising order", [{"length": n, "groups": []} for n in (2, 3, 3)]),
        ("groups are a list", [{"length": 3, "groups": {}}]),
        ("labels and a tree", [{"length": 3, "groups": [{"labels": [0]}]}]),
        ("labels and a tree", [{"length": 3, "groups": [{"labels": [0], "tree": [], "x": 1}]}]),
        ("twice in one", single([["open"]], [0, 0])),
        ("twice in one", single([["open"]], [])),
        (
            "in two groups",
            [{"length": 3, "groups": [{"labels": [k], "tree": [["open"]]} for k in (1, 0, 1)]}],
        ),
        ("no input has", single([["open"]], [3])),
        ("a tree is a list", single("open")),
        ("a tree is a list", single((["open"],))),
        ("goes on after", single([["open"], ["open"]])),
        ("ends before", single([["cut", 0, SOME], ["open"]])),
        ("ends before", single([])),
        ("a node is a list", single([{"open": 1}])),
        ("a node is a list", single(["open"])),
        ("a node is a list", single([[]])),
        ("a stage and edges", single([["cut", 0], ["open"], ["open"]])),
        ("a stage and edges", single([["cut", 0, SOME, 1], ["open"], ["open"]])),
        ("one of the stages", single([["cut", 3, SOME], ["open"], ["open"]])),
        ("whole number", single([["cut", SOME, SOME], ["open"], ["open"]])),
        ("base64", single([["cut", 0, 0], ["open"], ["open"]])),
        ("on both sides", single([["cut", 0, SOME], ["cut", 0, SOME], *[["open"]] * 3])),
        ("no output for", single([["cut", 0, SOME], ["open"], ["wrong", 3]])),
        ("unknown leaf", single([["no"]])),
    ],
)
def test_what_a_document_may_not_say(problem: str, parts: Any) -> None:
    checker = checker_of(1)
    with pytest.raises(CertificateError, match=problem):
        checker.derive(parts)


def test_nothing_said_is_nothing_decided() -> None:
    checker = checker_of(1)
    proved = checker.derive([{"length": 1, "groups": []}, *single([["open"]], [0, 1, 2])]).parts
    assert [(part.number, part.inputs, part.right, part.wrong) for part in proved] == [
        (1, 3, 0, 0),
        (3, 27, 0, 0),
    ]


def test_at_most_so_many_inputs_are_evaluated_one_by_one() -> None:
    config = CONFIG.replace(n_letters=4, n_outputs=4)
    for length, fits in ((3, True), (4, False)):
        checker = TrellisChecker(ordered_checkpoint(config, 1))
        table: Any = Table(4, 1)
        checker.model = table
        parts = single([["each"]], range(4), length)
        if fits:
            assert checker.derive(parts).parts[0].inputs == EACH
        else:
            with pytest.raises(CertificateError, match=f"at most {EACH} inputs .* not 256"):
                checker.derive(parts)


def test_limits_of_models_and_lengths(monkeypatch: Any) -> None:
    for layers in (2, 3):
        with pytest.raises(CertificateError, match=f"{layers} layers"):
            TrellisChecker(ordered_checkpoint(CONFIG.replace(n_layers=layers), 1))
    monkeypatch.setattr(checker_module, "MAX_LENGTH", 3)
    checker = checker_of(1)
    edges = checker.trellis("length", 3).n_edges
    with pytest.raises(CertificateError, match="more than 3 letters"):
        checker.trellis("length", 4)
    for most, fits in ((edges, True), (edges - 1, False)):
        monkeypatch.setattr(checker_module, "MAX_EDGES", most)
        fresh = checker_of(1)
        if fits:
            assert fresh.trellis("length", 3) is fresh.trellis("length", 3)
        else:
            with pytest.raises(CertificateError, match="too many states"):
                fresh.trellis("length", 3)
    monkeypatch.setattr(checker_module, "MAX_EDGES", edges)
    for classes, fits in ((3, True), (2, False)):
        fresh = checker_of(1)
        fresh.model.n_classes = classes  # type: ignore[misc]
        if fits:
            fresh.trellis("length", 3)
        else:
            with pytest.raises(CertificateError, match="no output for"):
                fresh.trellis("length", 3)
    tree = [["cut", 0, SOME], ["open"], ["open"]]
    for most, fits in ((3, True), (2, False)):
        monkeypatch.setattr(checker_module, "MAX_NODES", most)
        if fits:
            checker.derive(single(tree))
        else:
            with pytest.raises(CertificateError, match="a tree is a list"):
                checker.derive(single(tree))


def test_a_model_too_large_for_exact_arithmetic_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr(document_module, "MAX_PARAMETERS", CHECKPOINT.n_parameters)
    TrellisChecker(CHECKPOINT)
    monkeypatch.setattr(document_module, "MAX_PARAMETERS", CHECKPOINT.n_parameters - 1)
    with pytest.raises(CertificateError, match="parameters"):
        TrellisChecker(CHECKPOINT)


def test_leaves_come_in_batches(monkeypatch: Any) -> None:
    checker, tree = checker_of(1), [["cut", 0, SOME], ["cut", 1, SOME], *[["open"]] * 3]
    checker._budget.restart()
    trellis = checker.trellis("length", 3).of_label(2)
    for at_once, sizes in ((1, [1, 1, 1]), (2, [2, 1]), (3, [3]), (4, [3])):
        monkeypatch.setattr(TrellisChecker, "_leaves_at_once", lambda *_, n=at_once: n)
        batches = list(checker._batches(trellis, tree))
        assert [len(claims) for claims, _ in batches] == sizes
        assert [len(masks[0]) for _, masks in batches] == sizes


def test_positions_are_a_limit() -> None:
    for config, most in ((CONFIG, 5), (CONFIG.replace(reads="last", attend_cls=True), 4)):
        checker = TrellisChecker(ordered_checkpoint(config, 1))
        assert checker.trellis("length", most).length == most
        with pytest.raises(CertificateError, match="no positions"):
            checker.trellis("length", most + 1)


class Spending:
    """A budget that refuses nothing, and remembers what was asked of it."""

    def __init__(self, memory: int = 10**6) -> None:
        self.memory, self.held, self.seconds = memory, list[int](), 1.0

    def restart(self) -> None: ...

    def __call__(self, held: int = 0) -> None:
        self.held.append(held)


def test_memory_and_time_are_asked_for_before_they_are_spent() -> None:
    checker = checker_of(1)
    spent: Any = Spending()
    checker._budget = spent
    trellis = checker.trellis("length", 3)
    width = slots(trellis)
    for memory in (10**6, 10**4, 10):
        spent.memory = memory
        assert checker._leaves_at_once(trellis) == max(1, memory // 2 // (64 * width))
        assert spent.held.pop() == 256 * width
    part = trellis.of_labels([2])
    tree = [["cut", 0, SOME], ["cut", 1, SOME], *[["open"]] * 3]
    list(checker._leaves(part, tree))
    each = max(map(len, part.stages)) + 8 * 3 + 200
    assert max(map(len, part.stages)) > min(map(len, part.stages))
    assert spent.held == [2 * each, 3 * each]
    spent.held.clear()
    checker.derive([{"length": 3, "groups": []}])
    assert spent.held == [256 * width]
    spent.held.clear()
    checker.derive(single([["each"]]))
    # For the trellis, for the group's, and again where its leaves begin and where some are single.
    assert [held for held in spent.held if held] == [256 * width, *[256 * slots(part)] * 3]
    assert spent.held.count(0) == 1 + Sets.whole(part).counts()[0]


@pytest.mark.parametrize("at_once", [1, 2, 200])
def test_what_was_shown_is_not_asked_again(at_once: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(TrellisChecker, "_leaves_at_once", lambda *_: at_once)
    checker = checker_of(3)
    model: Any = checker.model
    trellis = checker.trellis("length", 3).of_label(2)
    singles = Sets.whole(trellis).singles([0])
    strings = list(Sets.whole(trellis).strings(0))
    masks = [np.concatenate([mask, mask[:1] & False]) for mask in singles.masks]
    claims = [Claim("right")] * (len(strings) + 1)
    found = checker.hold(trellis, masks, claims)
    assert found.tolist() == [*(model.answer(*one) == one[1] for one in strings), False]
    assert 0 < found.sum() < len(strings)
    assert len(checker._shown) == found.sum()
    beaten = checker.hold(trellis, singles.masks, [Claim("wrong", 1)] * len(strings))
    assert beaten.tolist() == [model.answer(*one) == 1 for one in strings]
    sure = checker.hold(trellis, singles.masks, [Claim("right", float32=True)] * len(strings))
    assert sure.tolist() == [model.answer(*one) == one[1] and model.sure(one[0]) for one in strings]
    model.asked = 0
    tally = checker_module.Tally()
    right = np.flatnonzero(found[:-1])
    checker._batch(tally, [Claim("right")] * len(right), singles[right])
    assert (model.asked, tally.right) == (0, len(right))
    wrong = int(np.flatnonzero(~found[:-1])[0])
    with pytest.raises(CertificateError, match="not proved right"):
        checker._batch(tally, [Claim("right")], singles[[wrong]])
    assert model.asked == 1
