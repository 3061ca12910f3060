"""Trees of cuts, added up: a model of given answers, against every input.

The model is a table here, so that every way to read a tree can be told from every other in
milliseconds; what a real model shows is tested in test_tables.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.trusted.asking import Asked, parted
from tests.trusted.paths import strings
from tests.trusted.test_tables import adder
from tests.verification.ordered_models import ordered_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.counts import Maximum
from tsc_interp.tasks.trellis import Trellis
from tsc_interp.trusted import language, replay_tables, spec, trees
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.language import read_table, written_table
from tsc_interp.trusted.replay_tables import TableParts
from tsc_interp.trusted.sets import Sets, slots
from tsc_interp.trusted.spec import read_model
from tsc_interp.trusted.trees import mask_of, mask_text

CONFIG = ClassifierConfig(
    n_letters=3, n_outputs=3, task=Maximum(), d_model=2, n_heads=1, d_head=1, d_mlp=0,
    n_positions=5, reads="last_letter", attend_cls=True,
)  # fmt: skip
CHECKPOINT = ordered_checkpoint(CONFIG, 1)
LENGTH = Asked(CHECKPOINT).trellis(3)
STEP = Asked(adder()).trellis(1)
PLACES = [(LENGTH, {"length": 3}, 3), (STEP, {"step": 1}, 5)]


class Answers:
    """A judge whose answers are given: a class, or None if it cannot tell; float32 is `sure`."""

    def __init__(self, table: Trellis, classes: int, seed: int) -> None:
        self.table, self.n_classes, self.seed, self.asked = table, classes, seed, 0
        self.spec = read_model(CHECKPOINT.to_bytes()).spec
        if table is not LENGTH:
            self.spec = read_model(adder().to_bytes()).spec

    def answer(self, string: Sequence[int]) -> int | None:
        label = self.table.label_of(np.array(string))
        drawn = [*[label] * self.n_classes, *range(self.n_classes), None]
        return random.Random(f"{self.seed} {tuple(string)}").choice(drawn)

    answer_to_string = answer

    def sure(self, string: Sequence[int]) -> bool:
        return random.Random(f"{self.seed} {(*string, 99)}").random() < 0.7

    def is_answered(self, sets: Sets, which: int, by: int, float32: bool) -> bool:
        paths = [string for string, _ in strings(sets, which)]
        return all(self.answer(s) == by and (not float32 or self.sure(s)) for s in paths)

    def on_paths(self, sets: Sets, winner: Any, wanted: Any, float32: bool = False) -> Any:
        self.asked += len(sets)
        assert not wanted[np.arange(len(sets)), winner].any()
        assert wanted.any(1).all()
        return np.array([self.is_answered(sets, i, by, float32) for i, by in enumerate(winner)])

    def of_inputs(self, letters: Any, label: Any, float32: Any) -> tuple[Any, Any]:
        self.asked += len(letters)
        answers = [self.answer(row) for row in letters.tolist()]
        sure = float32 & [self.sure(row) for row in letters.tolist()]
        known = np.array([one is not None for one in answers])
        return np.array([-1 if one is None else one for one in answers]), sure & known


def parts_of(judge: Any, table: Trellis, name: Any, float32: str | None = "tokens") -> TableParts:
    budget = Budget()
    budget.restart()
    return TableParts([judge], [(table, name)], float32, budget)


def tree_of(judge: Answers, sets: Sets, draw: random.Random) -> list[Any]:
    """A true tree of random cuts."""
    label, float32 = int(sets.labels()[0]), draw.random() < 0.5
    mark = ["float32"] if float32 else []
    for by in range(judge.n_classes):
        if label >= 0 and judge.is_answered(sets, 0, by, float32) and draw.random() < 0.8:
            told = ["is", by] if by == label or draw.random() < 0.5 else ["wrong", by]
            return [[*told, *mark]]
    if sets.counts() == [1] or draw.random() < 0.3:
        return [["each", *mark] if draw.random() < 0.8 else ["open"]]
    for stage in draw.sample(range(len(sets.masks)), len(sets.masks)):
        edges = np.flatnonzero(sets.masks[stage][0])
        if len(edges) > 1:
            chosen = np.zeros(sets.masks[stage].shape[1], dtype=bool)
            chosen[draw.sample(edges.tolist(), draw.randrange(1, len(edges)))] = True
            sides = [parted(sets, stage, part) for part in (chosen, ~chosen)]
            if all(side.has_paths[0] for side in sides):
                rest = [tree_of(judge, side, draw) for side in sides]
                return [["cut", stage, mask_text(chosen)], *rest[0], *rest[1]]
    return [["each", *mark]]


def leaves(trellis: Trellis, tree: list[Any]) -> Iterator[tuple[Any, list[tuple[Any, int]]]]:
    """Every leaf with its inputs, by a recursion of its own."""
    left = iter(tree)

    def walk(inputs: list[tuple[Any, int]]) -> Iterator[tuple[Any, list[tuple[Any, int]]]]:
        node = next(left)
        if node[0] != "cut":
            yield node, inputs
            return
        bits = mask_of(node[2], len(trellis.stages[node[1]]))
        sides: tuple[list[Any], list[Any]] = ([], [])
        for string, label in inputs:
            path = trellis.path(np.array(string))
            assert path is not None
            sides[int(not bits[path[node[1]]])].append((string, label))
        yield from walk(sides[0])
        yield from walk(sides[1])

    yield from walk(list(strings(Sets.whole(trellis), 0)))


def counted(judge: Answers, groups: list[tuple[Any, list[Any]]], inputs: int) -> dict[str, Any]:
    """What follows from true trees, input by input."""
    right, wrong, float32, errors = 0, 0, {"right": 0, "wrong": 0}, []
    for trellis, tree in groups:
        for node, every in leaves(trellis, tree):
            for string, label in every:
                answer = judge.answer(string)
                if node[0] == "open" or answer is None:
                    continue
                right, wrong = right + (answer == label), wrong + (answer != label)
                errors += [string] if answer != label else []
                if node[-1] == "float32" and judge.sure(string):
                    float32["right" if answer == label else "wrong"] += 1
    numbers = {"right": right, "wrong": wrong, "undecided": inputs - right - wrong}
    return {
        **{name: str(number) for name, number in numbers.items()},
        "inputs": str(inputs),
        "first_wrong": list(min(errors)) if errors else None,
        "float32": {name: str(number) for name, number in float32.items()},
    }


def groups_of(judge: Answers, table: Trellis, draw: random.Random) -> list[Any]:
    """True trees, labels in two random groups: labels, trellis, tree."""
    labels = draw.sample(table.labels, len(table.labels))
    cut = draw.randrange(1, len(labels))
    groups = [(some, table.of_labels(some)) for some in (labels[:cut], labels[cut:])]
    return [(some, part, tree_of(judge, Sets.whole(part), draw)) for some, part in groups]


@pytest.mark.parametrize("at_once", [1, 2, 200])
@pytest.mark.parametrize("seed", range(8))
def test_leaves_add_up_to_what_every_input_says(seed: int, at_once: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(TableParts, "at_once", lambda *_: at_once)
    for table, name, classes in PLACES:
        draw, judge = random.Random(seed), Answers(table, classes, seed)
        groups, parts = groups_of(judge, table, draw), parts_of(judge, table, name)
        for labels, _, tree in groups:
            parts.add({"table": 0, "labels": labels, "tree": tree})
        (stated,) = parts.conclusion()["tables"]
        inputs = 27 if "length" in name else 9
        expected = counted(judge, [group[1:] for group in groups], inputs)
        assert stated == {**expected, **name, "all_strings": inputs == 27}


@pytest.mark.parametrize("seed", range(6))
def test_no_leaf_may_say_what_is_not_so(seed: int) -> None:
    draw, judge = random.Random(seed), Answers(LENGTH, 3, seed)
    refused = 0
    for labels, trellis, tree in groups_of(judge, LENGTH, draw):
        places = [place for place, node in enumerate(tree) if node[0] != "cut"]
        for place, (_, inputs) in zip(places, leaves(trellis, tree), strict=True):
            said = {(judge.answer(string), label) for string, label in inputs}
            one_label = len({label for _, label in said}) == 1
            for kind in ("is", "wrong"):
                for by in range(3):
                    so = one_label and all(
                        answer == by and (kind == "is" or label != by) for answer, label in said
                    )
                    forged = [*tree]
                    forged[place] = [kind, by]
                    part = {"table": 0, "labels": labels, "tree": forged}
                    if so:
                        parts_of(judge, LENGTH, {"length": 3}).add(part)
                        continue
                    refused += 1
                    with pytest.raises(NotProved, match="is not proved"):
                        parts_of(judge, LENGTH, {"length": 3}).add(part)
    assert refused


SOME = mask_text(np.array([True, False, False]))


@pytest.mark.parametrize(
    ("problem", "parts"),
    [
        ("labels and a tree", [{"table": 0, "labels": [0]}]),
        ("labels and a tree", [{"table": 0, "labels": [0], "tree": [], "x": 1}]),
        ("whole number", [{"table": 1, "labels": [0], "tree": [["open"]]}]),
        ("whole number", [{"table": -1, "labels": [0], "tree": [["open"]]}]),
        ("of no input, or twice", [([["open"]], [0, 0])]),
        ("of no input, or twice", [([["open"]], [])]),
        ("of no input, or twice", [([["open"]], [k]) for k in (1, 0, 1)]),
        ("of no input, or twice", [([["open"]], [3])]),
        ("a tree is a list", [("open", [2])]),
        ("on both sides", [([["cut", 0, SOME], ["cut", 0, SOME], *[["open"]] * 3], [2])]),
        ("whole number", [([["cut", 0, SOME], ["open"], ["wrong", 3]], [2])]),
        ("not proved apart", [([["cut", 0, SOME], ["open"], ["apart", 0, 1]], [2])]),
        ("unknown node", [([["no"]], [2])]),
    ],
)
def test_what_parts_may_not_say(problem: str, parts: Any) -> None:
    derived = parts_of(Answers(LENGTH, 3, 1), LENGTH, {"length": 3})
    *good, bad = [
        part if isinstance(part, dict) else {"table": 0, "labels": part[1], "tree": part[0]}
        for part in parts
    ]
    for part in good:
        derived.add(part)
    with pytest.raises(NotProved, match=problem):
        derived.add(bad)


def test_nothing_said_is_nothing_decided() -> None:
    parts = parts_of(Answers(LENGTH, 3, 1), LENGTH, {"length": 3}, None)
    parts.add({"table": 0, "labels": [0, 2], "tree": [["open"]]})
    (stated,) = parts.conclusion()["tables"]
    assert stated == {
        "length": 3, "inputs": "27", "all_strings": True, "right": "0", "wrong": "0",
        "undecided": "27", "first_wrong": None,
    }  # fmt: skip


def test_at_most_so_many_inputs_are_evaluated_one_by_one(monkeypatch: Any) -> None:
    monkeypatch.setattr(replay_tables, "EACH", 64)
    asked = Asked(ordered_checkpoint(CONFIG.replace(n_letters=4, n_outputs=4), 1))
    for length, fits in ((3, True), (4, False)):
        part = {"table": 0, "labels": [*range(4)], "tree": [["each"]]}
        if fits:
            assert asked.derive(length, part)["inputs"] == "64"
        else:
            with pytest.raises(NotProved, match=r"at most 64 inputs .* not 256"):
                asked.derive(length, part)


def test_names_of_tables() -> None:
    """One kind, rising, a length that is the table's; several tables of one model."""
    judge: Any = Answers(LENGTH, 3, 1)
    budget = Budget()

    def made(*names: Any) -> TableParts:
        return TableParts([judge], [(LENGTH, name) for name in names], None, budget)

    assert made({"step": 1}, {"step": 4}).tables
    for names in (
        [{"length": 2}], [{"length": 3}, {"length": 3}], [{"step": 2}, {"step": 1}], [{"more": 3}],
        [{"step": 1}, {"length": 3}], [{"length": 3, "step": 1}], [{"step": -1}], [{"step": True}],
        [{"step": "1"}], [],
    ):  # fmt: skip
        with pytest.raises((NotProved, ValueError)):
            made(*names)
    with pytest.raises(NotProved, match="tokens"):
        TableParts([judge], [(LENGTH, {"length": 3})], "compressed", budget)


def test_a_frame_counts_letters_at_places() -> None:
    """A table with fixed letters may be named by its length or by its free places."""
    fixed = Trellis(4, ((3, 0),), LENGTH.stages, 2, LENGTH.label)
    judge: Any = Answers(LENGTH, 3, 1)
    for number, fits in ((2, False), (3, True), (4, True), (5, False)):
        tables = [(fixed, {"length": number})]
        if fits:
            TableParts([judge], tables, None, Budget())
        else:
            with pytest.raises(NotProved, match="another name"):
                TableParts([judge], tables, None, Budget())


def test_limits_of_models_and_tables(monkeypatch: Any) -> None:
    asked = Asked(CHECKPOINT)
    for layers in (2, 3):
        with pytest.raises(NotProved, match="several layers"):
            Asked(ordered_checkpoint(CONFIG.replace(n_layers=layers), 1))
    written, edges = written_table(LENGTH, {"length": 3}), LENGTH.n_edges
    again = read_table(written, 3, 3)
    assert written_table(again, {"length": 3}) == written
    for name, most, fits in (
        ("MAX_LENGTH", 3, True), ("MAX_LENGTH", 2, False), ("MAX_EDGES", edges, True),
        ("MAX_EDGES", edges - 1, False),
    ):  # fmt: skip
        with monkeypatch.context() as patched:
            patched.setattr(language, name, most)
            if fits:
                read_table(written, 3, 3)
            else:
                with pytest.raises(NotProved):
                    read_table(written, 3, 3)
    for letters, classes in ((2, 3), (3, 2)):
        with pytest.raises(NotProved, match=r"does not exist|no output for"):
            read_table(written, letters, classes)
    tree = [["cut", 0, SOME], ["open"], ["open"]]
    for most, fits in ((3, True), (2, False)):
        monkeypatch.setattr(trees, "MAX_NODES", most)
        part = {"table": 0, "labels": [2], "tree": tree}
        if fits:
            asked.derive(3, part)
        else:
            with pytest.raises(NotProved, match="a tree is a list"):
                asked.derive(3, part)
    size = CHECKPOINT.n_parameters
    monkeypatch.setattr(spec, "MAX_PARAMETERS", size)
    read_model(CHECKPOINT.to_bytes())
    monkeypatch.setattr(spec, "MAX_PARAMETERS", size - 1)
    with pytest.raises(NotProved, match="parameters"):
        read_model(CHECKPOINT.to_bytes())


def test_positions_are_a_limit() -> None:
    for config, most in ((CONFIG, 5), (CONFIG.replace(reads="last", attend_cls=True), 4)):
        asked = Asked(ordered_checkpoint(config, 1))
        assert asked.derive(most)["length"] == most
        with pytest.raises(NotProved, match="no positions"):
            asked.derive(most + 1)


class Spending:
    """A budget that refuses nothing, and remembers what was asked of it."""

    def __init__(self, memory: int = 10**6) -> None:
        self.memory, self.held, self.seconds = memory, list[int](), 1.0

    def __call__(self, held: int = 0) -> None:
        self.held.append(held)


def test_memory_is_asked_for_before_it_is_spent() -> None:
    parts, spent = parts_of(Answers(LENGTH, 3, 1), LENGTH, {"length": 3}), Spending()
    parts.budget = spent  # type: ignore[assignment]
    width = slots(LENGTH)
    for memory in (10**6, 10**4, 10):
        spent.memory = memory
        assert parts.at_once(LENGTH) == max(1, memory // 2 // (64 * width))
        assert spent.held.pop() == 256 * width
    part = LENGTH.of_labels([2])
    tree = [["cut", 0, SOME], ["cut", 1, SOME], *[["open"]] * 3]
    list(trees.path_leaves(tree, part, 3, spent))  # type: ignore[arg-type]
    each = max(map(len, part.stages)) + 8 * 3 + 200
    assert max(map(len, part.stages)) > min(map(len, part.stages))
    assert spent.held == [2 * each, 3 * each]
    spent.held.clear()
    parts.add({"table": 0, "labels": [2], "tree": [["each"]]})
    # For the trellis of these labels, before its leaves begin and where some are single.
    assert [held for held in spent.held if held] == [256 * slots(part)] * 2


def test_leaves_come_in_batches(monkeypatch: Any) -> None:
    sizes: list[int] = []
    firsts: list[int] = []

    def noted(_: Any, __: Any, leaves: Any, sets: Any, first: int) -> None:
        sizes.append(len(leaves))
        firsts.append(first)

    monkeypatch.setattr(TableParts, "_batch", noted)
    tree = [["cut", 0, SOME], ["cut", 1, SOME], *[["open"]] * 3]
    for at_once, expected in ((1, [1, 1, 1]), (2, [2, 1]), (3, [3]), (4, [3])):
        monkeypatch.setattr(replay_tables.TableParts, "at_once", lambda *_, n=at_once: n)
        sizes.clear()
        firsts.clear()
        parts = parts_of(Answers(LENGTH, 3, 1), LENGTH, {"length": 3})
        parts.add({"table": 0, "labels": [2], "tree": tree})
        assert sizes == expected
        assert firsts == [sum(sizes[:i]) for i in range(len(sizes))]
