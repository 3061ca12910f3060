"""Certificates about strings in their order: complete, and believed only where they are true."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import precise_ordered
from tests.ordered_models import copying, longest, ordered_checkpoint, random_config, random_task
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.verification import (
    ordered_checker,
    ordered_checker_boxes,
    ordered_checker_model,
    ordered_disjoint,
    read_certificate,
)
from tsc_interp.verification.box_claims import CertificateError
from tsc_interp.verification.checker import digest
from tsc_interp.verification.ordered import verify_ordered
from tsc_interp.verification.ordered_checker import OrderedChecker, check_ordered
from tsc_interp.verification.ordered_disjoint import disjoint
from tsc_interp.verification.ordered_tasks import LabelledBy, MaxOf


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "digest": digest(document)}


def certified(seed: int) -> tuple[Checkpoint, Any, int, Any]:
    config = random_config(seed)
    checkpoint, task = ordered_checkpoint(config, seed), random_task(config, seed)
    length = longest(config, 30)
    return checkpoint, task, length, verify_ordered(checkpoint, length, task=task, certify=True)


@pytest.mark.parametrize("block", range(10))
def test_a_certificate_proves_the_counts_of_every_string_at_256_bits(block):
    for seed in range(300 + block * 6, 306 + block * 6):
        checkpoint, task, _, verdict = certified(seed)
        document = json.loads(json.dumps(verdict.certificate.document))
        proved = check_ordered(document, checkpoint)
        assert proved == verdict.certificate.checked
        for one in proved.lengths:
            wrong = precise_ordered.wrong_strings(checkpoint, task, one.length)
            if wrong is not None:
                assert (one.wrong, one.undecided) == (len(wrong), 0), checkpoint.config
        if wrong and not any(one.wrong for one in proved.lengths[:-1]):
            letters = checkpoint.config.alphabet.letters
            assert proved.first_error == "".join(letters[i] for i in wrong[0])
            assert proved.first_error_is_first


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), data=st.data(), scale=st.sampled_from([0.5, 2.0, 6.0, 40.0]))
def test_the_checker_shows_only_what_is_true_of_any_box(seed, data, scale):
    """Boxes drawn at random, not found by the search: what holds must hold for every string."""
    config = random_config(seed)
    checkpoint, task = ordered_checkpoint(config, seed, scale), random_task(config, seed)
    checker = OrderedChecker(checkpoint)
    length = longest(config, 30)
    sets = st.lists(st.integers(0, config.n_letters - 1), min_size=1, unique=True).map(sorted)
    for _ in range(4):
        box = [data.draw(sets) for _ in range(length)]
        if config.reads == "last_letter":
            box[-1] = box[-1][:1]
        said = {precise_ordered.answer(checkpoint, string) for string in product(*box)}
        labels = {int(task.labels(np.array([s]), config.n_letters)[0]) for s in product(*box)}
        if checker.holds(box, None, task):
            assert len(labels) == 1
            assert said <= {*labels, None}
        for j in range(max(config.n_outputs, 2)):
            if checker.holds(box, j, task):
                assert not said & labels


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to everything in a document, containers included."""
    yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from leaves(inner, (*path, key))


def replacements(value: Any) -> Iterator[Any]:
    yield from (None, [], {}, True, -1, 1.5, "zz", "a", 10**13)
    if isinstance(value, str):
        yield from (value + "c", value[1:], value[::-1], value.upper(), value + value)
    if isinstance(value, int):
        yield from (value + 1, value - 1, float(value), str(value))
    if isinstance(value, list) and value:
        yield from (value[1:], value[::-1], [*value, value[0]])


@pytest.mark.parametrize("seed", [300, 302, 307, 311])
def test_every_field_bent_is_refused_or_still_true(seed):
    checkpoint, task, _, verdict = certified(seed)
    document = json.loads(json.dumps(verdict.certificate.document))
    small = copy.deepcopy(document)
    for one in small["lengths"]:
        one["right"], one["wrong"] = one["right"][:2], one["wrong"][:2]
    checker = OrderedChecker(checkpoint)
    small["conclusion"] = checker.derive(small["lengths"], task).conclusion()
    small = sealed(small)
    checker.check(small)
    truth = json.dumps(small["conclusion"], sort_keys=True)
    tried = accepted = 0
    for path in leaves(small):
        if not path:
            continue
        holder = small
        for step in path[:-1]:
            holder = holder[step]
        for value in replacements(holder[path[-1]]):
            if json.dumps(value) == json.dumps(holder[path[-1]]):
                continue
            bent = copy.deepcopy(small)
            inner = bent
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = value
            tried += 1
            with pytest.raises(CertificateError):
                checker.check(bent)  # the digest
            if path == ("digest",):
                continue
            try:
                proved = checker.check(sealed(bent))
            except CertificateError:
                continue
            accepted += 1
            # Boxes in another order, say: nothing else may have changed.
            assert json.dumps(proved.conclusion(), sort_keys=True) == truth
            assert path[0] == "lengths"
    assert tried > 100
    assert accepted < tried / 10


def test_keys_that_are_missing_or_too_many_are_refused():
    checkpoint, _, _, verdict = certified(300)
    document = json.loads(json.dumps(verdict.certificate.document))
    checker = OrderedChecker(checkpoint)
    for key in document:
        rest = {name: value for name, value in document.items() if name != key}
        with pytest.raises(CertificateError):
            checker.check(rest if key == "digest" else sealed(rest))
    with pytest.raises(CertificateError, match="exactly the fields"):
        checker.check(sealed({**document, "more": 1}))
    with pytest.raises(CertificateError, match="JSON object"):
        checker.check([document])
    with pytest.raises(CertificateError, match="other weights"):
        OrderedChecker(ordered_checkpoint(checkpoint.config, 1)).check(document)


def test_a_string_in_two_boxes_is_refused():
    checkpoint = copying()
    verdict = verify_ordered(checkpoint, 3, task=MaxOf(), certify=True)
    document = json.loads(json.dumps(verdict.certificate.document))
    checker = OrderedChecker(checkpoint)
    document["lengths"][-1]["right"].append(["a", "a", "a"])
    with pytest.raises(CertificateError, match="two boxes share strings"):
        checker.check(sealed(document))


def test_a_box_without_one_class_or_with_a_false_claim_is_refused():
    checkpoint, checker = copying(sharpness=9.0), OrderedChecker(copying(sharpness=9.0))

    def derive(right: list[Any], wrong: list[Any]) -> Any:
        claim = {"length": 2, "right": right, "wrong": wrong}
        return OrderedChecker(checkpoint).derive([claim], MaxOf())

    assert derive([["abc", "c"]], []).lengths[0].right == 3
    with pytest.raises(CertificateError, match="not proved right"):
        derive([["abc", "b"]], [])
    with pytest.raises(CertificateError, match="not proved wrong by class 0"):
        derive([], [[["abc", "c"], 0]])
    with pytest.raises(CertificateError, match="no output"):
        derive([], [[["abc", "c"], 3]])
    with pytest.raises(CertificateError, match="not proved wrong"):
        derive([], [[["a", "c"], 2]])  # the label itself
    with pytest.raises(CertificateError, match="not proved right"):
        derive([["c", "bc"]], [])  # several letters would read
    for bad in (["cb", "c"], ["", "c"], ["cc", "c"], ["d", "c"], ["c"], ["a", "b", "c"]):
        with pytest.raises(CertificateError):
            derive([bad], [])
    assert not checker.holds([[0, 1, 2], [1]], None, MaxOf())


def test_what_is_left_out_is_undecided_and_not_right():
    checkpoint = copying()
    proved = OrderedChecker(checkpoint).derive([{"length": 2, "right": [], "wrong": []}], MaxOf())
    assert proved.lengths[0].undecided == 9
    assert proved.right_through == 0


def test_lengths_beyond_the_positions_are_refused():
    config = ClassifierConfig(n_positions=3)
    checker = OrderedChecker(ordered_checkpoint(config, 0))
    task = random_task(config, 0)
    with pytest.raises(CertificateError, match="no positions for strings of 3 letters"):
        checker.derive([{"length": 3, "right": [], "wrong": []}], task)


def test_time_is_bounded():
    checkpoint, _, _, verdict = certified(302)
    with pytest.raises(CertificateError, match="not checked within 0 seconds"):
        check_ordered(verdict.certificate.document, checkpoint, seconds=0)


@pytest.mark.parametrize("part", ["W_V", "W_Q", "W_E", "W_U", "W_in"])
def test_huge_weights_prove_nothing_false(part):
    config = ClassifierConfig(n_letters=2, n_positions=3, n_heads=2, norm="rms")
    weights = {
        name: np.sign(w) * np.float32(3e38) if name.endswith(part) else w
        for name, w in ordered_checkpoint(config, 3).weights.items()
    }
    checkpoint, task = Checkpoint(config, weights), random_task(config, 1)
    checker = OrderedChecker(checkpoint)
    for box in product([(0,), (1,), (0, 1)], repeat=2):
        said = {precise_ordered.answer(checkpoint, s, bits=4096) for s in product(*box)}
        labels = {int(task.labels(np.array([s]), 2)[0]) for s in product(*box)}
        if checker.holds(box, None, task):
            assert said <= {*labels, None}
        if any(checker.holds(box, j, task) for j in range(2)):
            assert not said & labels


SETS = st.frozensets(st.integers(0, 2), min_size=1).map(sorted)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 3).flatmap(
        lambda n: st.lists(st.lists(SETS, min_size=n, max_size=n), max_size=7)
    )
)
def test_disjoint_is_what_listing_all_strings_says(boxes):
    every = [string for box in boxes for string in product(*box)]
    expected = len(every) == len(set(every))
    for pairwise in (200, 1):
        kept = ordered_disjoint._PAIRWISE
        ordered_disjoint._PAIRWISE = pairwise
        try:
            assert disjoint(boxes, 3, lambda: None) == expected
        finally:
            ordered_disjoint._PAIRWISE = kept


@pytest.mark.parametrize("module", [ordered_checker_model, ordered_checker_boxes])
def test_the_checkers_model_compares_no_balls_itself(module):
    tree = ast.parse(Path(module.__file__).read_text())
    order = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    compared = [n for n in ast.walk(tree) if isinstance(n, ast.Compare)]
    assert not [n.lineno for n in compared if any(isinstance(op, order) for op in n.ops)]
    calls = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
    assert not {f.id for f in calls if isinstance(f, ast.Name)} & {"min", "max", "sorted", "float"}


def test_the_checker_takes_nothing_from_the_search():
    """It imports the kernel, its own files and what every checker has; not the search."""
    allowed = {"box_claims", "checker", "kernel", "ordered_tasks"}
    for module in (ordered_checker, ordered_checker_model, ordered_checker_boxes, ordered_disjoint):
        tree = ast.parse(Path(module.__file__).read_text())
        names = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        ours = {n.split(".")[-1] for n in names if n.startswith("tsc_interp.verification.")}
        assert {n for n in ours if not n.startswith("ordered_checker")} <= {
            *allowed,
            "ordered_disjoint",
        }


def test_files_and_functions(tmp_path):
    checkpoint = copying()
    verdict = verify_ordered(checkpoint, 2, task=MaxOf(), certify=True)
    verdict.certificate.save(tmp_path / "c.json")
    assert check_ordered(read_certificate(tmp_path / "c.json"), checkpoint) == (
        verdict.certificate.checked
    )
    assert verdict.to_dict()["certified"] == list(verdict.certificate.proved)
    alike = LabelledBy(lambda rows: (rows[:, 0] == rows[:, -1]).astype(int), 2, "ends alike")
    named = verify_ordered(checkpoint, 2, task=alike, certify=True).certificate.document
    with pytest.raises(CertificateError, match="not known here"):
        check_ordered(named, checkpoint)
    assert check_ordered(named, checkpoint, task=alike).lengths[1].undecided == 0


def test_too_many_layers_or_parameters_are_refused():
    with pytest.raises(CertificateError, match="2 layers, not one"):
        OrderedChecker(ordered_checkpoint(ClassifierConfig(n_layers=2), 0))
    large = ordered_checkpoint(ClassifierConfig(d_model=600, d_mlp=300, n_positions=2), 0)
    with pytest.raises(UnsupportedError, match="exact arithmetic is affordable up to"):
        verify_ordered(large, 1, certify=True)
