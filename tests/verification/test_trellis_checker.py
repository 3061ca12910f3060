"""The trellis checker: what it accepts is true of every path, and forgeries are refused.

Certificates are written here by a plain recursion that asks the checker and cuts in halves, so that
nothing of the product's search is needed.
"""

from __future__ import annotations

import ast
import base64
import copy
import json
import random
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.verification import precise_ordered
from tests.verification.ordered_models import ordered_checkpoint, random_config, wide_config
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import ContainsAll, Maximum, Parity
from tsc_interp.tasks import Addition
from tsc_interp.verification.checker.budget import CertificateError
from tsc_interp.verification.checker.document import digest
from tsc_interp.verification.checker.sets import Sets
from tsc_interp.verification.checker.trellis import EACH, SCHEMA, VERSION, TrellisChecker
from tsc_interp.verification.checker.trellis_claims import Claim
from tsc_interp.verification.order.certificates import _derived


def parted(sets: Sets, stage: int, chosen: Any) -> Sets:
    """The paths of one set through the chosen edges of a stage."""
    masks = list(sets.masks)
    masks[stage] = masks[stage] & chosen
    return Sets(sets.trellis, masks)


def part_of(sets: Sets, draw: random.Random) -> Sets | None:
    """Some of the paths, all with one label and one last letter."""
    trellis = sets.trellis
    masks = [mask & (np.array([[draw.random() for _ in mask[0]]]) < 0.7) for mask in sets.masks]
    found = Sets(trellis, masks)
    if not found.has_paths[0]:
        return None
    labels = np.unique(trellis.label[found.masks[trellis.label_stage][0]])
    found = parted(found, trellis.label_stage, trellis.label == draw.choice(labels.tolist()))
    if trellis.length - 1 in trellis.place_of:
        stage, column = trellis.place_of[trellis.length - 1]
        letters = trellis.stages[stage].letters[:, column]
        last = draw.choice(np.unique(letters[found.masks[stage][0]]).tolist())
        found = parted(found, stage, letters == last)
    return found


def holds(
    checker: TrellisChecker, sets: Sets, by: int | None = None, float32: bool = False
) -> bool:
    """What the checker says of one set."""
    kind = "right" if by is None else "wrong"
    claim = Claim(kind, -1 if by is None else by, float32)
    return bool(checker.hold(sets.trellis, sets.masks, [claim])[0])


def tree_of(checker: TrellisChecker, sets: Sets, each: int = 4) -> list[Any]:
    """A tree for these paths: decided if the checker agrees, else cut in halves."""
    if sets.labels()[0] >= 0:
        if holds(checker, sets):
            return [["right"]]
        for by in range(checker.model.n_classes):
            if holds(checker, sets, by):
                return [["wrong", by]]
    if sets.counts()[0] <= each:
        return [["each"]]
    stage = max(range(len(sets.masks)), key=lambda i: int(sets.masks[i].sum()))
    edges = np.flatnonzero(sets.masks[stage][0])
    chosen = np.zeros(sets.masks[stage].shape[1], dtype=bool)
    chosen[edges[: len(edges) // 2]] = True
    inside, outside = parted(sets, stage, chosen), parted(sets, stage, ~chosen)
    if not (inside.has_paths[0] and outside.has_paths[0]):
        return [["open"]]
    packed = base64.b64encode(np.packbits(chosen).tobytes()).decode()
    return [["cut", stage, packed], *tree_of(checker, inside), *tree_of(checker, outside)]


def certificate(checkpoint: Checkpoint, numbers: list[int], kind: str = "length") -> dict[str, Any]:
    checker = TrellisChecker(checkpoint)
    parts = []
    for number in numbers:
        trellis = checker.trellis(kind, number)
        groups = [
            {"labels": [label], "tree": tree_of(checker, Sets.whole(trellis.of_label(label)))}
            for label in trellis.labels
        ]
        parts.append({kind: number, "groups": groups})
    document = {
        "schema": SCHEMA.name(VERSION),
        "weight_hash": checkpoint.weight_hash(),
        "task": checkpoint.config.task.model_dump(mode="json"),
        "parts": parts,
        "conclusion": checker.derive(parts).conclusion(),
    }
    return sealed(json.loads(json.dumps(document)))


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "digest": digest(document)}


def longest(config: ClassifierConfig, most: int) -> int:
    return min(most, config.n_positions - config.has_cls) if config.has_positions else most


# -- what it accepts is true -------------------------------------------------------------------


@pytest.mark.parametrize("block", range(6))
def test_what_is_accepted_holds_on_every_path_at_256_bits(block):
    shown = 0
    for seed in range(block * 4, block * 4 + 4):
        draw = random.Random(seed)
        config = (wide_config if seed % 2 else random_config)(seed)
        checkpoint = ordered_checkpoint(config, seed)
        checker = TrellisChecker(checkpoint)
        paths = Sets.whole(checker.trellis("length", longest(config, 3)))
        for _ in range(4):
            part = part_of(paths, draw)
            if part is None:
                continue
            strings = list(part.strings(0))
            answers = [precise_ordered.answer(checkpoint, string) for string, _ in strings]
            label = part.labels()[0]
            right = holds(checker, part)
            assert not right or all(answer == label for answer in answers), config
            for by in range(checker.model.n_classes):
                if holds(checker, part, by):
                    assert all(answer != label for answer in answers), config
                    shown += 1
            shown += right
    assert shown > 8  # most regions this small are decided


@pytest.mark.parametrize("seed", range(8))
def test_certificates_count_every_string_at_256_bits(seed):
    config = wide_config(seed + 50)
    checkpoint = ordered_checkpoint(config, seed)
    length = longest(config, 3)
    proved = TrellisChecker(checkpoint).check(certificate(checkpoint, [length]))
    (part,) = proved.parts
    task = config.task
    wrong = []
    for string in product(range(config.n_letters), repeat=length):
        answer = precise_ordered.answer(checkpoint, string)
        if answer is not None and answer != task.classes(_row(config, string))[0]:
            wrong.append(string)
    assert part.inputs == config.n_letters**length
    assert (part.wrong, part.undecided) == (len(wrong), 0)
    assert part.first_wrong == (wrong[0] if wrong else None)


def _row(config: ClassifierConfig, string: tuple[int, ...]) -> Any:
    letters = np.array([string])
    if config.task.ordered:
        return letters
    return np.array([[string.count(letter) for letter in range(config.n_letters)]])


def adder() -> Checkpoint:
    """One digit in base three: `a b = s`, written by a model of random weights."""
    config = ClassifierConfig(
        n_letters=5, n_outputs=5, task=Addition(digits=1, base=3), d_model=5, n_heads=2, d_head=2,
        d_mlp=3, n_positions=8, reads="last_letter", attend_cls=True, norm="rms", final_norm=True,
    )  # fmt: skip
    return ordered_checkpoint(config, 3)


def test_every_step_of_a_task_that_writes():
    checkpoint = adder()
    task: Any = checkpoint.config.task
    proved = TrellisChecker(checkpoint).check(certificate(checkpoint, [0, 1], "step"))
    for step, part in enumerate(proved.parts):
        wrong = [
            string
            for string, label in Sets.whole(task.step_trellis(step)).strings(0)
            if precise_ordered.answer(checkpoint, string) != label
        ]
        assert (part.inputs, part.wrong, part.undecided) == (9, len(wrong), 0)
        assert part.first_wrong == min(wrong, default=None)


# -- forgeries ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known() -> tuple[Checkpoint, dict[str, Any]]:
    config = ClassifierConfig(
        n_letters=3, n_outputs=3, task=Maximum(), d_model=4, n_heads=1, d_head=2, d_mlp=3,
        n_positions=5, reads="last_letter", attend_cls=True,
    )  # fmt: skip
    checkpoint = ordered_checkpoint(config, 12)
    return checkpoint, certificate(checkpoint, [1, 2, 3])


@pytest.fixture(scope="module")
def short(known: tuple[Checkpoint, dict[str, Any]]) -> tuple[Checkpoint, dict[str, Any]]:
    return known[0], certificate(known[0], [3])


def nodes(document: dict[str, Any]) -> list[tuple[list[Any], int]]:
    """Every node: the tree it is in and its place there."""
    return [
        (group["tree"], place)
        for part in document["parts"]
        for group in part["groups"]
        for place in range(len(group["tree"]))
    ]


def test_what_was_written_is_accepted(known):
    checkpoint, document = known
    proved = TrellisChecker(checkpoint).check(document)
    assert [part.inputs for part in proved.parts] == [3, 9, 27]
    assert sum(part.wrong for part in proved.parts) > 0
    assert {node[0] for tree, _ in nodes(document) for node in tree} >= {"cut", "right", "wrong"}


def test_no_leaf_can_be_told_otherwise(short):
    checkpoint, document = short
    checker = TrellisChecker(checkpoint)
    for index, (tree, place) in enumerate(nodes(document)):
        kind = tree[place][0]
        if kind == "cut":
            continue
        for other in [["right"], *(["wrong", by] for by in range(3)), ["open"], ["no"], []]:
            if other[:1] == [kind] or (kind == "each" and other in (["right"], ["open"])):
                continue  # another class may beat the label, too
            forged = copy.deepcopy(document)
            forged_tree, at = nodes(forged)[index]
            forged_tree[at] = other
            with pytest.raises(CertificateError):
                checker.check(sealed(forged))


def test_no_cut_can_be_moved_dropped_or_repeated(short):
    checkpoint, document = short
    checker = TrellisChecker(checkpoint)
    for index, (tree, place) in enumerate(nodes(document)):
        if tree[place][0] != "cut":
            continue
        stage, edges = tree[place][1:]
        bits = bytearray(base64.b64decode(edges))
        flipped = base64.b64encode(bytes([bits[0] ^ 0x80, *bits[1:]])).decode()
        more = base64.b64encode(bytes([*bits, 0])).decode()
        for other in (
            ["cut", stage, more],
            ["cut", stage, "!"],
            ["cut", stage, flipped],
            ["cut", stage + 1, edges],
            ["cut", -1, edges],
            ["cut", stage],
        ):
            forged = copy.deepcopy(document)
            forged_tree, at = nodes(forged)[index]
            forged_tree[at] = other
            try:
                proved = checker.check(sealed(forged))
            except CertificateError:
                continue
            # Another cut may be as good; what is concluded must be the same numbers.
            assert proved.conclusion() == document["conclusion"]
    for index in range(len(nodes(document))):
        for change in ("drop", "repeat"):
            forged = copy.deepcopy(document)
            forged_tree, at = nodes(forged)[index]
            if change == "drop":
                del forged_tree[at]
            else:
                forged_tree.insert(at, copy.deepcopy(forged_tree[at]))
            with pytest.raises(CertificateError):
                checker.check(sealed(forged))


@pytest.mark.parametrize(
    "forge",
    [
        lambda d: d["parts"].append(d["parts"][-1]),
        lambda d: d["parts"].reverse(),
        lambda d: d["parts"].pop(),
        lambda d: d["parts"][0].update(length=4),
        lambda d: d["parts"][2].update(length=2),
        lambda d: d["parts"][0]["groups"].append(d["parts"][0]["groups"][0]),
        lambda d: d["parts"][2]["groups"].pop(),
        lambda d: d["parts"][2]["groups"][0].update(labels=[0, 0]),
        lambda d: d["parts"][2]["groups"][0].update(labels=[7]),
        lambda d: d["parts"][2]["groups"][0].update(labels=[]),
        lambda d: d["conclusion"]["parts"][2].update(right="27", wrong="0"),
        lambda d: d["conclusion"]["parts"][2].update(inputs="28"),
        lambda d: d["conclusion"]["parts"][1].update(first_wrong=[2, 2]),
        lambda d: d.update(weight_hash="0" * 64),
        lambda d: d.update(schema="tsc-interp/trellis-certificate/1"),
        lambda d: d["conclusion"]["parts"][0].update(table="0" * 64),
        lambda d: d.update(task={"kind": "parity", "letter": "a", "odd": True}),
        lambda d: d.update(more=1),
    ],
)
def test_no_field_can_be_changed(known, forge):
    checkpoint, document = known
    forged = copy.deepcopy(document)
    forge(forged)
    with pytest.raises(CertificateError):
        TrellisChecker(checkpoint).check(sealed(forged))


def derived(checkpoint: Checkpoint, tree: list[Any], length: int = 3) -> Any:
    parts = [{"length": length, "groups": [{"labels": [2], "tree": tree}]}]
    return TrellisChecker(checkpoint).derive(parts)


def test_trees_are_whole_and_no_leaf_is_empty(known):
    checkpoint, _ = known
    edges = len(TrellisChecker(checkpoint).trellis("length", 3).of_label(2).stages[0])
    some = base64.b64encode(np.packbits(np.arange(edges) == 0).tobytes()).decode()
    none = base64.b64encode(np.packbits(np.zeros(edges, dtype=bool)).tobytes()).decode()
    assert derived(checkpoint, [["cut", 0, some], ["open"], ["open"]]).parts[0].right == 0
    for problem, tree in {
        "ends before": [["cut", 0, some], ["open"]],
        "goes on": [["open"], ["open"]],
        "both sides": [["cut", 0, none], ["open"], ["open"]],
        "a stage and edges": [["cut", 0, some, 1], ["open"], ["open"]],
        "one of the stages": [["cut", 3, some], ["open"], ["open"]],
    }.items():
        with pytest.raises(CertificateError, match=problem):
            derived(checkpoint, tree)


def test_sentences_name_lengths_and_steps(known):
    checkpoint, document = known
    (first, *_) = TrellisChecker(checkpoint).check(document).sentences
    assert first.startswith("of 3 inputs of length 1, ")
    writer = adder()
    parts = [{"step": 1, "groups": []}]
    (said,) = TrellisChecker(writer).derive(parts).sentences
    assert said.startswith("of 9 inputs at step 1, 0 are right and 0 wrong, 9 not decided")


def test_another_models_certificate_and_a_broken_seal_are_refused(known):
    checkpoint, document = known
    with pytest.raises(CertificateError, match="digest"):
        TrellisChecker(checkpoint).check({**document, "digest": "0" * 64})
    other = ordered_checkpoint(checkpoint.config, 13)
    with pytest.raises(CertificateError, match="other weights"):
        TrellisChecker(other).check(document)
    for nonsense in (None, [], "x", 3, {}):
        with pytest.raises(CertificateError):
            TrellisChecker(checkpoint).check(nonsense)


def test_time_memory_and_positions_are_limits(known):
    checkpoint, document = known
    with pytest.raises(CertificateError, match="seconds"):
        TrellisChecker(checkpoint, seconds=0.0).check(document)
    with pytest.raises(CertificateError, match="memory"):
        TrellisChecker(checkpoint, memory=1000).check(document)
    with pytest.raises(CertificateError, match="positions"):
        TrellisChecker(checkpoint).derive([{"length": 6, "groups": []}])
    tree = [["each"]]
    parts = [{"length": 5, "groups": [{"labels": [2], "tree": tree}]}]
    with pytest.raises(CertificateError, match=f"at most {EACH}"):
        TrellisChecker(checkpoint).derive(parts)


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
        checker = TrellisChecker(Checkpoint(config, weights))
        trellis = checker.trellis("length", 2)
        for label in (0, 1):
            part = Sets.whole(trellis.of_label(label))
            part = parted(part, 1, part.trellis.stages[-1].letters[:, 0] == 0)
            assert holds(checker, part) == (label == answer)
            assert holds(checker, part, answer) == (label != answer)
            string = part.first()
            assert checker.model.verdict(string, label) == (label == answer)


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
    checker = TrellisChecker(checkpoint)
    sets = Sets.whole(checker.trellis("length", 20).of_label(0))
    sets = parted(sets, 19, sets.trellis.stages[19].letters[:, 0] == 0)
    assert precise_ordered.answer(checkpoint, sets.first()) == 1
    assert sets.counts() == [2**19]
    assert not holds(checker, sets)
    assert not holds(checker, sets, float32=True)
    assert holds(checker, sets, 1) == (gap < 100)


def test_several_readers_and_several_labels_prove_nothing(known):
    checkpoint, _ = known
    checker = TrellisChecker(checkpoint)
    every = Sets.whole(checker.trellis("length", 3))
    assert every.labels()[0] == -1
    mixed = Sets.whole(checker.trellis("length", 3).of_label(2))
    assert mixed.letters_at(2)[0] == -1
    for sets in (every, mixed):
        assert not holds(checker, sets)
        assert not any(holds(checker, sets, by) for by in range(3))


@pytest.mark.parametrize("module", ["paths", "trellis_model", "relaxation", "readout", "spans"])
def test_nothing_is_taken_from_the_search(module):
    found = import_module(f"tsc_interp.verification.checker.{module}")
    tree = ast.parse(Path(found.__file__ or "").read_text())
    imports = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    ours = {name for name in imports if name.startswith("tsc_interp.verification")}
    assert all(name.startswith("tsc_interp.verification.checker") for name in ours)


def test_what_is_evaluated_one_by_one_is_left_open_when_time_is_up(known):
    checkpoint, _ = known
    for seconds, right_or_wrong in ((float("inf"), 19), (0.0, 0)):
        part = {"length": 3, "groups": [{"labels": [2], "tree": [["each"]]}]}
        (proved,) = _derived(TrellisChecker(checkpoint), part, seconds).parts
        assert proved.right + proved.wrong == right_or_wrong
