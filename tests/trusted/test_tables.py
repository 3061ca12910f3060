"""Proofs about tables: what is accepted is true of every path, and forgeries are refused.

Proofs are written by a plain recursion that asks the trusted base and cuts in halves (asking.py).
"""

from __future__ import annotations

import base64
import copy
import json
import random
import zlib
from typing import Any

import numpy as np
import pytest

from tests.trusted.asking import Asked, part_of, parted
from tests.trusted.paths import singles, strings
from tests.verification import precise_ordered
from tests.verification.ordered_models import (
    longest,
    ordered_checkpoint,
    random_config,
    wide_config,
)
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks import Addition
from tsc_interp.tasks.counts import ContainsAll, Maximum, Parity
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.language import deflated, packed
from tsc_interp.trusted.replay import digest
from tsc_interp.trusted.sets import Sets
from tsc_interp.trusted.trees import mask_text


def short(config: ClassifierConfig) -> int:
    return min(3, longest(config, 200))


def resealed(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "digest": digest(document)}


# -- what is accepted is true ------------------------------------------------------------------


@pytest.mark.parametrize("block", range(6))
def test_what_is_accepted_holds_on_every_path_at_256_bits(block):
    shown = 0
    for seed in range(block * 4, block * 4 + 4):
        draw = random.Random(seed)
        config = (wide_config if seed % 2 else random_config)(seed)
        checkpoint = ordered_checkpoint(config, seed)
        asked = Asked(checkpoint)
        paths = Sets.whole(asked.trellis(short(config)))
        for _ in range(4):
            part = part_of(paths, draw)
            if part is None:
                continue
            every = list(strings(part, 0))
            answers = [precise_ordered.answer(checkpoint, string) for string, _ in every]
            label = part.labels()[0]
            right = asked.holds(part)
            assert not right or all(answer == label for answer in answers), config
            for by in range(asked.n_classes):
                if asked.holds(part, by):
                    assert all(answer != label for answer in answers), config
                    shown += 1
                if asked.answered(part, by)[0]:
                    assert set(answers) == {by}, config
            shown += right
    assert shown > 8  # most regions this small are decided


@pytest.mark.parametrize("seed", range(8))
def test_proofs_count_every_string_at_256_bits(seed):
    config = wide_config(seed + 50)
    checkpoint = ordered_checkpoint(config, seed)
    length = short(config)
    asked = Asked(checkpoint)
    (part,) = asked.check(asked.document([length]))["tables"]
    wrong = [
        string
        for string, label in sorted(strings(Sets.whole(asked.trellis(length)), 0))
        if precise_ordered.answer(checkpoint, string) not in (label, None)
    ]
    assert part == {
        "length": length, "inputs": str(config.n_letters**length), "all_strings": True,
        "right": str(config.n_letters**length - len(wrong)), "wrong": str(len(wrong)),
        "undecided": "0", "first_wrong": list(wrong[0]) if wrong else None,
    }  # fmt: skip


def adder() -> Checkpoint:
    """One digit in base three: `a b = s`, written by a model of random weights."""
    config = ClassifierConfig(
        n_letters=5, n_outputs=5, task=Addition(digits=1, base=3), d_model=5, n_heads=2, d_head=2,
        d_mlp=3, n_positions=8, reads="last_letter", attend_cls=True, norm="rms", final_norm=True,
    )  # fmt: skip
    return ordered_checkpoint(config, 3)


def test_every_step_of_a_task_that_writes():
    checkpoint = adder()
    asked = Asked(checkpoint)
    stated = asked.check(asked.document([0, 1]))["tables"]
    for step, part in enumerate(stated):
        wrong = [
            string
            for string, label in strings(Sets.whole(asked.trellis(step)), 0)
            if precise_ordered.answer(checkpoint, string) != label
        ]
        assert (part["step"], part["inputs"], part["all_strings"]) == (step, "9", False)
        assert (part["wrong"], part["undecided"]) == (str(len(wrong)), "0")
        first = min(wrong, default=None)
        assert part["first_wrong"] == (None if first is None else list(first))


# -- forgeries ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known() -> tuple[Asked, dict[str, Any]]:
    config = ClassifierConfig(
        n_letters=3, n_outputs=3, task=Maximum(), d_model=4, n_heads=1, d_head=2, d_mlp=3,
        n_positions=5, reads="last_letter", attend_cls=True,
    )  # fmt: skip
    asked = Asked(ordered_checkpoint(config, 12))
    return asked, json.loads(json.dumps(asked.document([1, 2, 3])))


@pytest.fixture(scope="module")
def small(known: tuple[Asked, dict[str, Any]]) -> tuple[Asked, dict[str, Any]]:
    return known[0], known[0].document([3])


def nodes(document: dict[str, Any]) -> list[tuple[list[Any], int]]:
    """Every node: the tree it is in and its place there."""
    trees = [part["tree"] for part in document["parts"]]
    return [(tree, place) for tree in trees for place in range(len(tree))]


def test_what_was_written_is_accepted(known):
    asked, document = known
    stated = asked.check(document)["tables"]
    assert [part["inputs"] for part in stated] == ["3", "9", "27"]
    assert sum(int(part["wrong"]) for part in stated) > 0
    assert {node[0] for tree, _ in nodes(document) for node in tree} >= {"cut", "is", "wrong"}


def test_no_leaf_can_be_told_otherwise(small):
    asked, document = small
    for index, (tree, place) in enumerate(nodes(document)):
        node = tree[place]
        if node[0] == "cut":
            continue
        others = [*(["is", j] for j in range(3)), *(["wrong", j] for j in range(3)), ["open"], []]
        for other in [*others, ["no"], ["apart", 0, 1]]:
            told = other[:1] == node[:1] == ["wrong"]  # another class may beat the label, too
            if other == node or told or (node[0] == "each" and other[:1] in (["is"], ["open"])):
                continue
            if node[0] == "wrong" and other[:1] == ["is"]:
                forged = copy.deepcopy(document)
                forged_tree, at = nodes(forged)[index]
                forged_tree[at] = other
                try:  # the class that answers may be known; then the numbers are the same
                    assert asked.check(resealed(forged)) == document["conclusion"]
                except NotProved:
                    continue
                continue
            forged = copy.deepcopy(document)
            forged_tree, at = nodes(forged)[index]
            forged_tree[at] = other
            with pytest.raises(NotProved):
                asked.check(resealed(forged))


def test_no_cut_can_be_moved_dropped_or_repeated(small):
    asked, document = small
    for index, (tree, place) in enumerate(nodes(document)):
        if tree[place][0] != "cut":
            continue
        stage, edges = tree[place][1:]
        bits = bytearray(zlib.decompress(base64.b64decode(edges)))
        for other in (
            ["cut", stage, deflated(bytes([*bits, 0]))],
            ["cut", stage, "!"],
            ["cut", stage, deflated(bytes([bits[0] ^ 0x80, *bits[1:]]))],
            ["cut", stage + 1, edges],
            ["cut", -1, edges],
            ["cut", stage],
        ):
            forged = copy.deepcopy(document)
            forged_tree, at = nodes(forged)[index]
            forged_tree[at] = other
            try:
                # Another cut may be as good; what is concluded must be the same numbers.
                assert asked.check(resealed(forged)) == document["conclusion"]
            except NotProved:
                continue
    for index in range(len(nodes(document))):
        for change in ("drop", "repeat"):
            forged = copy.deepcopy(document)
            forged_tree, at = nodes(forged)[index]
            if change == "drop":
                del forged_tree[at]
            else:
                forged_tree.insert(at, copy.deepcopy(forged_tree[at]))
            with pytest.raises(NotProved):
                asked.check(resealed(forged))


def edges_of(document: dict[str, Any], table: int, stage: int) -> Any:
    text = document["language"]["tables"][table]["stages"][stage]["edges"]
    rows = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<i4")
    return rows.reshape(-1, 3).astype(np.int64)


def with_edges(document: dict[str, Any], table: int, stage: int, rows: Any) -> None:
    document["language"]["tables"][table]["stages"][stage]["edges"] = packed(rows)


@pytest.mark.parametrize(
    "forge",
    [
        lambda d: d["parts"].append(d["parts"][-1]),
        lambda d: d["parts"].pop(),
        lambda d: d["parts"][0].update(table=1),
        lambda d: d["parts"][0].update(table=3),
        lambda d: d["parts"][0].update(labels=[0, 0]),
        lambda d: d["parts"][0].update(labels=[7]),
        lambda d: d["parts"][0].update(labels=[]),
        lambda d: d["parts"][0].update(more=1),
        lambda d: d["conclusion"]["tables"][2].update(right="27", wrong="0"),
        lambda d: d["conclusion"]["tables"][2].update(inputs="28"),
        lambda d: d["conclusion"]["tables"][2].update(all_strings=1),
        lambda d: d["conclusion"]["tables"][1].update(first_wrong=[2, 2]),
        lambda d: d.update(models=["0" * 64]),
        lambda d: d.update(models=d["models"] * 2),
        lambda d: d.update(schema="tsc-interp/proof/2"),
        lambda d: d.update(float32="compressed"),
        lambda d: d.update(float32="tokens"),
        lambda d: d.update(more=1),
        lambda d: d["language"].update(counts={"rule": "maximum"}),
        lambda d: d["language"]["tables"].reverse(),
        lambda d: d["language"]["tables"].append(d["language"]["tables"][-1]),
        lambda d: d["language"]["tables"][0].update(name={"length": 2}),
        lambda d: d["language"]["tables"][0].update(name={"step": 1}),
        lambda d: d["language"]["tables"][0].update(name={"length": 1, "step": 1}),
        lambda d: d["language"]["tables"][2].update(length=4),
        lambda d: d["language"]["tables"][2].update(fixed=[[0, 1]]),
        lambda d: d["language"]["tables"][2].update(label_stage=3),
        lambda d: d["language"]["tables"][2].update(labels=packed(np.array([[3]] * 9))),
        lambda d: d["language"]["tables"][2].update(labels=packed(np.array([[-1]] * 9))),
        lambda d: d["language"]["tables"][2]["stages"].reverse(),
        lambda d: d["language"]["tables"][2]["stages"].pop(),
        lambda d: with_edges(d, 0, 0, edges_of(d, 0, 0)[:2]),
        lambda d: with_edges(d, 0, 0, edges_of(d, 0, 0) + np.array([0, 0, 1])),
        lambda d: with_edges(d, 0, 0, edges_of(d, 0, 0) + np.array([1, 0, 0])),
        lambda d: with_edges(d, 0, 0, edges_of(d, 0, 0) + np.array([0, 1, 0])),
        lambda d: with_edges(d, 0, 0, edges_of(d, 0, 0) - [0, 0, 1]),
        lambda d: with_edges(d, 2, 1, edges_of(d, 2, 1)[[0, *range(9)]]),
    ],
)
def test_no_field_can_be_changed(known, forge):
    asked, document = known
    forged = copy.deepcopy(document)
    forge(forged)
    with pytest.raises(NotProved):
        asked.check(resealed(forged))


def test_a_table_that_lacks_inputs_does_not_speak_of_all_strings(known):
    """One edge left out of a table: a smaller language, which the conclusion shows."""
    asked, document = known
    language = copy.deepcopy(document["language"])
    rows = edges_of(document, 2, 1)
    with_edges({"language": language}, 2, 1, rows[:-1])
    stated = asked.sealed(language, [])["conclusion"]["tables"]
    assert [part["all_strings"] for part in stated] == [True, True, False]
    assert int(stated[2]["inputs"]) < 27


def derived(asked: Asked, tree: list[Any], length: int = 3) -> Any:
    return asked.derive(length, {"table": 0, "labels": [2], "tree": tree})


def test_no_leaf_is_empty(known):
    asked, _ = known
    edges = len(asked.trellis(3).of_label(2).stages[0])
    none = mask_text(np.zeros(edges, dtype=bool))
    some = mask_text(np.arange(edges) == 0)
    assert derived(asked, [["cut", 0, some], ["open"], ["open"]])["right"] == "0"
    with pytest.raises(NotProved, match="both sides"):
        derived(asked, [["cut", 0, none], ["open"], ["open"]])
    with pytest.raises(NotProved, match="whole number"):
        derived(asked, [["cut", 3, some], ["open"], ["open"]])


def test_another_models_proof_and_a_broken_seal_are_refused(known):
    asked, document = known
    with pytest.raises(NotProved, match="digest"):
        asked.check({**document, "digest": "0" * 64})
    with pytest.raises(NotProved, match="other models"):
        Asked(ordered_checkpoint(asked.checkpoint.config, 13)).check(document)
    for nonsense in (None, [], "x", 3, {}):
        with pytest.raises(NotProved):
            asked.check(nonsense)


def test_time_memory_and_positions_are_limits(known, monkeypatch):
    asked, document = known
    with pytest.raises(NotProved, match="seconds"):
        asked.check(document, seconds=0.0)
    with pytest.raises(NotProved, match="memory"):
        asked.check(document, memory=1000)
    with pytest.raises(NotProved, match="positions"):
        derived(asked, [["open"]], 6)
    monkeypatch.setattr("tsc_interp.trusted.replay_tables.EACH", 64)
    with pytest.raises(NotProved, match="at most 64"):
        derived(asked, [["each"]], 5)


def test_equal_columns_tie_only_with_equal_biases():
    """Two outputs alike: the lower index answers. A bias apart, they are not alike."""
    config = ClassifierConfig(
        n_letters=2, n_outputs=2, task=Parity(letter="b"), n_positions=3, reads="last_letter",
        attend_cls=True, biases=True,
    )  # fmt: skip
    weights = {name: np.array(w) for name, w in ordered_checkpoint(config, 1).weights.items()}
    weights["unembed.W_U"][:, 1] = weights["unembed.W_U"][:, 0]
    for gap, answer in ((0.0, 0), (-1.0, 0), (1.0, 1)):
        weights["unembed.b_U"] = np.array([0.0, gap], dtype=np.float32)
        asked = Asked(Checkpoint(config, weights))
        for label in (0, 1):
            part = Sets.whole(asked.trellis(2).of_label(label))
            part = parted(part, 1, part.trellis.stages[-1].letters[:, 0] == 0)
            assert asked.holds(part) == (label == answer)
            assert asked.holds(part, answer) == (label != answer)
            assert asked.holds(part, float32=True) == (label == answer and gap != 0)
            assert asked.judge.answer_to_string(part.first()) == answer


def faint(gap: float) -> Checkpoint:
    """c scores so much higher that in strings without it every weight all but vanishes.

    All letters add one to each of eight coordinates, so all strings have one output, 0.0012.
    """
    d = 8
    config = ClassifierConfig(
        n_letters=3, n_heads=1, d_head=d + 1, d_model=d + 2, d_mlp=0, n_outputs=1,
        reads="last_letter", attend_cls=True, task=ContainsAll(letters="c"), attention_scale=1.0,
    )  # fmt: skip
    shapes = {"embed.W_E": (5, d + 2), "unembed.W_U": (d + 2, 1)}
    shapes |= {f"blocks.0.attn.W_{part}": (1, d + 2, d + 1) for part in "QKV"}
    shapes["blocks.0.attn.W_O"] = (1, d + 1, d + 2)
    weights = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    weights["embed.W_E"][2:, d] = weights["embed.W_E"][4, d + 1] = 1.0
    weights["blocks.0.attn.W_Q"][0, d, d] = 1.0
    weights["blocks.0.attn.W_K"][0, d + 1, d] = gap
    weights["blocks.0.attn.W_V"][0, d, :d] = 1.0
    weights["blocks.0.attn.W_O"][0, :d, :d] = np.eye(d)
    weights["unembed.W_U"][:, 0] = [*[0.0004] * d, -0.002, 0.0]
    return Checkpoint(config, weights)


@pytest.mark.parametrize("gap", [20.0, 737.5])
def test_weights_that_all_but_vanish_prove_nothing_false(gap):
    """Products with them underflow to zero: the checker once called 2^19 wrong inputs right."""
    checkpoint = faint(gap)
    asked = Asked(checkpoint)
    sets = Sets.whole(asked.trellis(20).of_label(0))
    sets = parted(sets, 19, sets.trellis.stages[19].letters[:, 0] == 0)
    assert precise_ordered.answer(checkpoint, sets.first()) == 1
    assert sets.counts() == [2**19]
    assert not asked.holds(sets)
    assert not asked.holds(sets, float32=True)
    assert asked.holds(sets, 1) == (gap < 100)


def test_several_readers_several_labels_and_the_label_itself_prove_nothing(known):
    asked, _ = known
    every = Sets.whole(asked.trellis(3))
    assert every.labels()[0] == -1
    mixed = Sets.whole(asked.trellis(3).of_label(2))
    assert mixed.letters_at(2)[0] == -1
    for sets in (every, mixed):
        assert not asked.holds(sets)
        assert not any(asked.holds(sets, by) for by in range(3))
    single = singles(mixed, [0])[np.arange(1)]
    assert not asked.holds(single, 2)


def test_inputs_are_evaluated_in_balls_where_intervals_do_not_decide(known, monkeypatch):
    asked, _ = known
    told = derived(asked, [["each"]])
    assert (int(told["right"]) + int(told["wrong"]), told["undecided"]) == (19, "8")
    unknown = lambda _, attended, *__: np.full((len(attended.letters), 3), np.nan)  # noqa: E731
    monkeypatch.setattr("tsc_interp.trusted.margins.Margins.gaps", unknown)
    assert derived(asked, [["each"]]) == told
    monkeypatch.setattr("tsc_interp.trusted.judge.Judge.answer_to_string", lambda *_: None)
    assert derived(asked, [["each"]])["undecided"] == "27"
