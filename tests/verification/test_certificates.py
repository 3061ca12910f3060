"""Certificates: what is proved is accepted, and nothing else, however the file is bent."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from tsc_interp.verification.keeper import Keeper

from tests.cases import configs
from tests.verification.models import planted, random_checkpoint, unfailing
from tsc_interp import certify
from tsc_interp.checkpoints import Checkpoint, bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.rules import Majority
from tsc_interp.verification import CertificateError, check, read_certificate
from tsc_interp.verification.bounds.exact import ExactModel
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.check import Checker
from tsc_interp.verification.checker.claims import Proved
from tsc_interp.verification.checker.document import digest
from tsc_interp.verification.checker.model import BoxModel


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """With a digest that fits, as a forger would make it."""
    return {**document, "digest": digest(document)}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every part of a JSON document."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


def changed(document: dict[str, Any], path: tuple[Any, ...], new: Any) -> dict[str, Any]:
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
def small() -> tuple[Checkpoint, dict[str, Any]]:
    """A certificate with claims of three kinds, small enough to bend in every place."""
    checkpoint = planted(6, c_score=-1.0)
    return checkpoint, certify(checkpoint).document


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_models_are_decided_completely(name: str) -> None:
    """Every negative set of letters is proved or refuted, and the horizon is proved."""
    checkpoint = load_checkpoint(name)
    certificate = certify(checkpoint)
    assert certificate.horizon.proved
    assert certificate.document["conclusion"]["horizon"] == certificate.horizon.length
    assert certificate.finite
    assert [support.letters for support in certificate.negative_supports] == [
        "a",
        "b",
        "c",
        "ac",
        "bc",
    ]
    for support in certificate.negative_supports:
        assert support.holds_for_all_lengths is not None
        assert (support.witness is None) == support.holds_for_all_lengths
        assert (support.max_logit is not None) == support.holds_for_all_lengths
    again = json.loads(json.dumps(certificate.document))
    assert check(again, checkpoint) == certificate.checked


def test_max_logit_is_a_bound_and_not_far_off() -> None:
    checkpoint = load_checkpoint("walkthrough")
    model = ExactModel(checkpoint)
    for support in certify(checkpoint).negative_supports:
        counts = [[int("a" in support.letters) * i, int("b" in support.letters) * i,
                   int("c" in support.letters) * j] for i in (1, 2, 9, 99, 9999, 10**6)
                  for j in (1, 2, 9, 99, 9999, 10**6)]  # fmt: skip
        with ctx.workprec(128):
            largest = max(float(model.logit(vector)) for vector in counts)
        assert support.max_logit is not None
        assert largest <= support.max_logit < 0


# -- bending -------------------------------------------------------------------------------------


def test_every_field_is_sealed(small: tuple[Checkpoint, dict[str, Any]]) -> None:
    """Whatever is changed, the digest no longer fits."""
    checkpoint, document = small
    for path in places(document):
        for new in ("x", None, 7, []):
            if at(document, path) != new:
                with pytest.raises(CertificateError):
                    check(changed(document, path, new), checkpoint)


def test_every_field_matters_even_to_a_forger(small: tuple[Checkpoint, dict[str, Any]]) -> None:
    """With the digest made to fit, a changed part of any claim still proves nothing."""
    checkpoint, document = small
    kinds = {claim["kind"] for claim in document["claims"]}
    assert kinds == {"wrong", "right_up_to", "right_at_all_lengths"}
    for path in places(document):
        if path == ("digest",):
            continue
        for new in _forgeries(document, path):
            with pytest.raises(CertificateError):
                check(sealed(changed(document, path, new)), checkpoint)


def _forgeries(document: dict[str, Any], path: tuple[Any, ...]) -> list[Any]:
    """Values that would prove more, cover less or say something else."""
    value = at(document, path)
    if isinstance(value, bool):
        return [not value, None, 1]
    if value is None:
        return [True, False, 3]
    if isinstance(value, str):
        return ["x", value + "a", "", "c{9}"]
    if isinstance(value, (list, dict)):
        # A list loses its last entry; whatever it is, a string in its place is nonsense.
        return ["x", *([value[:-1]] if isinstance(value, list) and value else [])]
    if path[-1] == "bound":
        # Only stronger claims: a weaker bound is true and may be accepted.
        return [value * 1.01, -value, "-1"]
    if path[-1] in ("length", "horizon"):
        return [value + 1, value - 1, float(value), -1]
    # A corner of a box: moved inwards it leaves a gap.
    low_corner = path[-2] == 0
    inwards = value + 0.001 if low_corner else value - 0.001
    if "charts" in path:
        return [inwards, -1, "0"]
    low, high = at(document, path[:-2])
    if low_corner:
        return [value + 1, "1", 1.5]
    # The layer that goes missing must hold a string short enough to be claimed.
    lost = sum(low) - low[path[-1]] + high[path[-1]]
    shrunk = [value - 1] if lost <= document["claims"][path[1]]["length"] else []
    return [*shrunk, low[path[-1]] - 1, "1", 1.5]


def test_the_order_of_keys_says_nothing(small: tuple[Checkpoint, dict[str, Any]]) -> None:
    checkpoint, document = small
    turned = json.loads(json.dumps(document), object_pairs_hook=lambda p: dict(reversed(p)))
    assert list(turned) != list(document)
    assert check(turned, checkpoint) == check(document, checkpoint)


def test_claims_cannot_be_left_out_or_smuggled_in(small: tuple[Checkpoint, dict[str, Any]]) -> None:
    checkpoint, document = small
    for index in range(len(document["claims"])):
        kind = document["claims"][index]["kind"]
        fewer = [claim for i, claim in enumerate(document["claims"]) if i != index]
        if kind == "wrong" and index < len(document["claims"]) - 1:
            continue  # a further error that the conclusion does not rest on
        with pytest.raises(CertificateError):
            check(sealed({**document, "claims": fewer}), checkpoint)
    for extra in (
        {"kind": "wrong", "string": "ab"},
        {"kind": "right_beyond", "letters": "ab", "length": 10},
        {"kind": "right_up_to", "letters": "ab", "length": 50, "boxes": [[[1, 1], [49, 49]]]},
        {"kind": "magic"},
    ):
        with pytest.raises(CertificateError):
            check(sealed({**document, "claims": [*document["claims"], extra]}), checkpoint)


def test_other_weights_are_refused(small: tuple[Checkpoint, dict[str, Any]]) -> None:
    """One weight, one unit in the last place."""
    checkpoint, document = small
    weights = {name: array.copy() for name, array in checkpoint.weights.items()}
    weights["unembed.W_U"][0, 0] = np.nextafter(weights["unembed.W_U"][0, 0], np.float32(9))
    with pytest.raises(CertificateError, match="other weights"):
        check(document, Checkpoint(checkpoint.config, weights))
    # Nor does it help to write the other model's hash into the file.
    other = planted(5, c_score=-1.0)
    with pytest.raises(CertificateError):
        check(sealed({**document, "weight_hash": other.weight_hash()}), other)


@pytest.mark.parametrize("nonsense", [None, 3, [], {}, {"schema": "other"}, {"schema": []}])
def test_nonsense_is_refused(nonsense: Any) -> None:
    told = "exactly the fields" if isinstance(nonsense, dict) else "is a JSON object"
    with pytest.raises(CertificateError, match=told):
        check(nonsense, planted(3))


# -- every length --------------------------------------------------------------------------------


def test_scores_scaled_by_log_n_can_be_right_for_ever() -> None:
    checkpoint = unfailing()
    certificate = certify(checkpoint, limit=1000)
    assert certificate.horizon.infinite
    assert certificate.horizon.proved
    assert not certificate.finite
    assert certificate.proved[-1].startswith("the horizon is infinite")
    assert all(support.holds_for_all_lengths for support in certificate.negative_supports)
    # Without the proof of the short strings the tail proves nothing.
    claims = [c for c in certificate.document["claims"] if c["kind"] == "right_beyond"]
    with pytest.raises(CertificateError):
        check(sealed({**certificate.document, "claims": claims}), checkpoint)
    # Nor does a tail that begins too early.
    for index, claim in enumerate(certificate.document["claims"]):
        if claim["kind"] == "right_up_to":
            shorter = changed(
                certificate.document, ("claims", index, "length"), claim["length"] - 1
            )
            with pytest.raises(CertificateError):
                check(sealed(shorter), checkpoint)


def test_plain_softmax_fails_somewhere_even_if_out_of_reach() -> None:
    """The error lies far beyond the limit: the limit argument still proves that there is one."""
    certificate = certify(planted(10**8), limit=1000)
    assert certificate.horizon.length is None
    assert not certificate.horizon.proved
    assert certificate.finite
    assert [c["kind"] for c in certificate.document["claims"]].count("limit") == 1
    limit = next(c for c in certificate.document["claims"] if c["kind"] == "limit")
    assert limit["letter"] in limit["letters"]


def test_other_tasks_certify_what_they_can() -> None:
    """Where a set of letters has no single label, its errors are still exhibited."""
    checkpoint = random_checkpoint(ClassifierConfig(task=Majority(letter="b")), 2)
    certificate = certify(checkpoint, limit=60)
    assert check(certificate.document, checkpoint)


def test_boxes_too_wide_for_the_checker_are_cut() -> None:
    checkpoint = load_checkpoint("generalization-errors")
    checker = Checker(checkpoint)
    alphabet, cost = checkpoint.config.alphabet, ExactModel(checkpoint).cost
    keeper: Keeper[Proved] = Keeper(checker, alphabet, "right", cost, 10**9)
    shown = partial(checker.is_right, (0, 1, 2))
    box = [[1, 1, 1], [200, 200, 200]]
    wide = {"kind": "right_up_to", "letters": "abc", "length": 67, "boxes": [box]}
    assert not keeper.keep(wide)
    assert keeper.keep_boxes(wide, shown)
    assert len(keeper.claims[0]["boxes"]) > 1
    # ab{66}c is wrong: no cutting proves one letter more.
    box = [[1, 1, 1], [66, 66, 66]]
    assert not keeper.keep_boxes({**wide, "length": 68, "boxes": [box]}, shown)


def test_deeper_models_are_certified_too() -> None:
    for config in (ClassifierConfig(n_layers=2), ClassifierConfig(norm="rms", attend_cls=True)):
        checkpoint = random_checkpoint(config, 1, scale=1.0)
        certificate = certify(checkpoint, limit=1000)
        assert certificate.horizon.proved
        assert certificate.document["conclusion"]["horizon"] == certificate.horizon.length
        assert check(certificate.document, checkpoint)


# -- the checker itself --------------------------------------------------------------------------


@settings(max_examples=20)
@given(configs(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_checkers_bounds_hold(config: ClassifierConfig, seed: int, draw: int) -> None:
    """Against `exact.py`, which shares no line with it."""
    checkpoint = random_checkpoint(config, seed, scale=1.5)
    model, exact = BoxModel(checkpoint), ExactModel(checkpoint)
    rng = np.random.default_rng(draw)
    support = tuple(sorted(rng.choice(config.n_letters, rng.integers(1, 4), replace=False).tolist())
                 if config.n_letters > 3 else range(config.n_letters))  # fmt: skip
    low = np.floor(10 ** rng.uniform(0, 3, len(support))).astype(int)
    high = low + np.floor(10 ** rng.uniform(0, 2, len(support))).astype(int) - 1
    box = model.count_box(support, low.tolist(), high.tolist())
    for _ in range(3):
        counts = [0] * config.n_letters
        for letter, a, b in zip(support, low, high, strict=True):
            counts[letter] = int(rng.integers(a, b + 1))
        with ctx.workprec(128):
            logit = exact.logit(counts)
        assert box.overlaps(logit)
    point = model.count_box(support, low.tolist(), low.tolist())
    assert float(point.rad()) < 1e-9


def test_a_checker_box_of_ratios_contains_its_strings() -> None:
    checkpoint = load_checkpoint("attend-cls")
    model, exact = BoxModel(checkpoint), ExactModel(checkpoint)
    # 40 b's and 10 to 20 c's: b weighs 1, CLS 1/40, c between 1/4 and 1/2.
    box = model.ratio_box((1, 2), 0, [1 / 64, 0.25], [1 / 32, 0.5])
    for c in (10, 15, 20):
        with ctx.workprec(128):
            assert box.contains(exact.logit([0, 40, c]))


def test_the_checker_needs_few_libraries() -> None:
    """What it shares with the rest of the package is held in tests/test_rooms.py."""
    allowed = {
        "__future__", "base64", "binascii", "collections.abc", "contextlib", "copy", "dataclasses",
        "errno", "flint", "fractions", "functools", "hashlib", "itertools", "json", "math", "numpy",
        "numpy.typing", "os", "pathlib", "time", "typing",
    }  # fmt: skip
    for path in Path(kernel.__file__).parent.glob("*.py"):
        if path.stem.startswith("ordered"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.module in allowed or str(node.module).startswith("tsc_interp.")
                if node.module == "tsc_interp.verification.checker":
                    assert [alias.name for alias in node.names] == ["kernel"]
            elif isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= allowed


def test_files(tmp_path: Path) -> None:
    checkpoint = planted(4, c_score=-1.0)
    path = tmp_path / "certificate.json"
    certificate = certify(checkpoint)
    certificate.save(path)
    assert check(read_certificate(path), checkpoint) == certificate.checked
    path.write_text("{")
    with pytest.raises(CertificateError, match="not JSON"):
        read_certificate(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_certificate(tmp_path / "missing.json")
