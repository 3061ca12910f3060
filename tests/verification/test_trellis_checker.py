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
from fractions import Fraction
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_mat, arb_series, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import precise_ordered
from tests.ordered_models import ordered_checkpoint, random_config, wide_config
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.task import Maximum, Parity
from tsc_interp.tasks import Addition
from tsc_interp.tasks.trellis import Stage, Trellis
from tsc_interp.verification.checker import kernel, relaxation
from tsc_interp.verification.checker.budget import CertificateError
from tsc_interp.verification.checker.document import digest
from tsc_interp.verification.checker.paths import Paths, Weights, _sweep, largest_means
from tsc_interp.verification.checker.trellis import EACH, SCHEMA, TrellisChecker, check_trellis
from tsc_interp.verification.checker.trellis_model import _ends


def every(trellis: Any) -> Paths:
    return Paths(trellis, [np.ones(len(stage), dtype=bool) for stage in trellis.stages])


def part_of(paths: Paths, draw: random.Random) -> Paths | None:
    """Some of the paths, all with one label and one last letter."""
    masks = [mask & (np.array([draw.random() for _ in mask]) < 0.7) for mask in paths.masks]
    found, trellis = Paths(paths.trellis, masks), paths.trellis
    if found.is_empty:
        return None
    found, _ = found.parted(trellis.label_stage, trellis.label == draw.choice(found.labels()))
    last = draw.choice(found.letters_at(trellis.length - 1))
    if trellis.length - 1 in trellis.place_of:
        stage, column = trellis.place_of[trellis.length - 1]
        found, _ = found.parted(stage, trellis.stages[stage].letters[:, column] == last)
    return found


def tree_of(checker: TrellisChecker, paths: Paths, each: int = 4) -> list[Any]:
    """A tree for these paths: decided if the checker agrees, else cut in halves."""
    if len(paths.labels()) == 1:
        if checker.holds(paths.trellis, paths.masks):
            return [["right"]]
        for by in range(checker.model.n_classes):
            if checker.holds(paths.trellis, paths.masks, by):
                return [["wrong", by]]
    if paths.count() <= each:
        return [["each"]]
    stage = max(range(len(paths.masks)), key=lambda i: int(paths.masks[i].sum()))
    edges = np.flatnonzero(paths.masks[stage])
    chosen = np.zeros(len(paths.masks[stage]), dtype=bool)
    chosen[edges[: len(edges) // 2]] = True
    inside, outside = paths.parted(stage, chosen)
    if inside.is_empty or outside.is_empty:
        return [["open"]]
    packed = base64.b64encode(np.packbits(chosen).tobytes()).decode()
    return [["cut", stage, packed], *tree_of(checker, inside), *tree_of(checker, outside)]


def certificate(checkpoint: Checkpoint, numbers: list[int], kind: str = "length") -> dict[str, Any]:
    checker = TrellisChecker(checkpoint)
    parts = []
    for number in numbers:
        trellis = checker.trellis(kind, number)
        groups = [
            {"labels": [label], "tree": tree_of(checker, every(trellis.of_label(label)))}
            for label in trellis.labels
        ]
        parts.append({kind: number, "groups": groups})
    document = {
        "schema": SCHEMA.name(),
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
        paths = every(checker.trellis("length", longest(config, 3)))
        for _ in range(4):
            part = part_of(paths, draw)
            if part is None:
                continue
            strings = list(part.strings())
            answers = [precise_ordered.answer(checkpoint, string) for string, _ in strings]
            label = part.labels()[0]
            right = checker.holds(part.trellis, part.masks)
            assert not right or all(answer == label for answer in answers), config
            for by in range(checker.model.n_classes):
                if checker.holds(part.trellis, part.masks, by):
                    assert all(answer != label for answer in answers), config
                    shown += 1
            shown += right
    assert shown > 8  # most regions this small are decided


@pytest.mark.parametrize("seed", range(8))
def test_certificates_count_every_string_at_256_bits(seed):
    config = wide_config(seed + 50)
    checkpoint = ordered_checkpoint(config, seed)
    length = longest(config, 3)
    proved = check_trellis(certificate(checkpoint, [length]), checkpoint)
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
    proved = check_trellis(certificate(checkpoint, [0, 1], "step"), checkpoint)
    for step, part in enumerate(proved.parts):
        wrong = [
            string
            for string, label in every(task.step_trellis(step)).strings()
            if precise_ordered.answer(checkpoint, string) != label
        ]
        assert (part.inputs, part.wrong, part.undecided) == (9, len(wrong), 0)
        assert part.first_wrong == min(wrong, default=None)


# -- means and relaxations ---------------------------------------------------------------------


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_no_mean_of_a_path_exceeds_its_bound_and_one_meets_it(seed):
    noise = np.random.default_rng(seed)
    config = ClassifierConfig(n_letters=3, task=Parity(letter="b"), n_positions=5)
    trellis = TrellisChecker(ordered_checkpoint(config, 0)).trellis("length", 4)
    paths = part_of(every(trellis), random.Random(seed))
    if paths is None:
        return
    weight = np.exp(noise.normal(size=(4, 3)) * 3)
    y, own = noise.normal(size=(5, 4, 3)) * 10 ** noise.uniform(-3, 3), noise.normal(size=5)
    with_own = bool(noise.random() < 0.5)
    weights = Weights(weight, weight, (0.5, 0.5) if with_own else None)
    bound = largest_means(paths, weights, y, own)
    strings = np.array([string for string, _ in paths.strings()])
    places = np.arange(4)
    mass = weight[places, strings].sum(1) + 0.5 * with_own
    total = (weight[places, strings] * y[:, places, strings]).sum(2) + 0.5 * with_own * own[:, None]
    best = (total / mass).max(1)
    size = np.abs(y).max((1, 2))
    assert (bound >= best - 1e-14 * size).all()
    np.testing.assert_allclose(bound, best, rtol=0, atol=1e-9 * size.max())


def test_a_number_that_is_none_bounds_nothing():
    trellis = TrellisChecker(ordered_checkpoint(random_config(0), 0)).trellis("length", 2)
    weights = Weights(np.ones((2, 4)), np.ones((2, 4)), None)
    y = np.zeros((3, 2, 4))
    y[0, 0, 0], y[1, 1, 1] = np.nan, np.inf
    bound = largest_means(every(trellis), weights, y, np.zeros(3))
    assert np.isnan(bound[:2]).all()
    assert bound[2] >= 0


@pytest.mark.parametrize("name", ["gelu", "gelu_new", "relu", "silu"])
def test_relaxed_activations_hold_everywhere(name):
    draw = random.Random(name)
    for _ in range(60):
        low = draw.uniform(-8, 6)
        high = low + 10 ** draw.uniform(-4, 1)
        form = relaxation.activated(
            name, relaxation.Form(_one(), arb(0), kernel.hull([arb(low), arb(high)]))
        )
        slope = form.row.tolist()[0][0]
        for share in np.linspace(0, 1, 41):
            x = arb(low + (high - low) * float(share))
            value = kernel.activation(name, x)
            assert (form.rest + slope * x).overlaps(value)
            assert kernel.is_at_most((slope * x + form.rest).lower(), value.upper())
            assert kernel.is_at_most(value.lower(), (slope * x + form.rest).upper())


def _one() -> Any:
    return arb_mat([[arb(1)]])


@pytest.mark.parametrize("name", ["gelu", "gelu_new", "silu"])
def test_no_curvature_exceeds_its_bound(name):
    """On balls of [-12, 12], by arb's power series; beyond, activations are all but straight."""
    most = relaxation._CURVATURE[name]
    with ctx.workprec(128):
        for i in range(-6000, 6000):
            x = arb_series([arb((i + 0.5) / 500, 1 / 900), 1], prec=3)
            second = 2 * _series(name, x)[2]
            assert second.abs_upper() <= most, (name, i)


def _series(name: str, x: Any) -> Any:
    if name == "silu":
        return x / (1 + (-x).exp())
    if name == "gelu":
        return x * (-x / arb(2).sqrt()).erfc() / 2
    cubic = (arb(2) / arb.pi()).sqrt() * (x + arb(44715) / 10**6 * x * x * x)
    return x / (1 + (-2 * cubic).exp())


def test_products_squares_and_inverse_roots_hold_at_their_points():
    draw = random.Random(5)
    for _ in range(200):
        ends = sorted(draw.uniform(-3, 3) for _ in range(2))
        form = relaxation.Form(_one(), arb(0), kernel.hull(map(arb, ends)))
        square = form.squared()
        made = relaxation.product(form, square)
        root = relaxation.inverse_root(square, arb(0.01))
        for share in (0.0, 0.2, 0.5, 0.9, 1.0):
            x = arb(ends[0] + (ends[1] - ends[0]) * share)
            for relaxed, value in (
                (square, x * x),
                (made, x**3),
                (root, 1 / (x * x + arb(0.01)).sqrt()),
            ):
                held = relaxed.row.tolist()[0][0] * x + relaxed.rest
                assert held.overlaps(value)
                assert relaxed.values.overlaps(value)


@pytest.mark.parametrize("middle", [-1.7, -0.4, 0.6, 2.2])
def test_relaxations_are_tight(middle):
    """What is left shrinks with the square of the range, so nothing is given away."""
    for width in (0.1, 0.01):
        ends = [arb(middle - width / 2), arb(middle + width / 2)]
        form = relaxation.Form(_one(), arb(0), kernel.hull(ends))
        square = form.squared()
        made = [
            square,
            relaxation.product(form, square),
            relaxation.inverse_root(square, arb(0.01)),
            *(relaxation.activated(name, form) for name in ("gelu", "gelu_new", "silu", "relu")),
        ]
        assert all(float(one.rest.rad()) < 12 * width**2 for one in made), middle


# -- forgeries ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known() -> tuple[Checkpoint, dict[str, Any]]:
    config = ClassifierConfig(
        n_letters=3, n_outputs=3, task=Maximum(), d_model=4, n_heads=1, d_head=2, d_mlp=3,
        n_positions=5, reads="last_letter", attend_cls=True,
    )  # fmt: skip
    checkpoint = ordered_checkpoint(config, 12)
    return checkpoint, certificate(checkpoint, [1, 2, 3])


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
    proved = check_trellis(document, checkpoint)
    assert [part.inputs for part in proved.parts] == [3, 9, 27]
    assert sum(part.wrong for part in proved.parts) > 0
    assert {node[0] for tree, _ in nodes(document) for node in tree} >= {"cut", "right", "wrong"}


def test_no_leaf_can_be_told_otherwise(known):
    checkpoint, document = known
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
                check_trellis(sealed(forged), checkpoint)


def test_no_cut_can_be_moved_dropped_or_repeated(known):
    checkpoint, document = known
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
                proved = check_trellis(sealed(forged), checkpoint)
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
                check_trellis(sealed(forged), checkpoint)


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
        lambda d: d.update(schema="tsc-interp/trellis-certificate/2"),
        lambda d: d.update(task={"kind": "parity", "letter": "a", "odd": True}),
        lambda d: d.update(more=1),
    ],
)
def test_no_field_can_be_changed(known, forge):
    checkpoint, document = known
    forged = copy.deepcopy(document)
    forge(forged)
    with pytest.raises(CertificateError):
        check_trellis(sealed(forged), checkpoint)


def test_another_models_certificate_and_a_broken_seal_are_refused(known):
    checkpoint, document = known
    with pytest.raises(CertificateError, match="digest"):
        check_trellis({**document, "digest": "0" * 64}, checkpoint)
    other = ordered_checkpoint(checkpoint.config, 13)
    with pytest.raises(CertificateError, match="other weights"):
        check_trellis(document, other)
    for nonsense in (None, [], "x", 3, {}):
        with pytest.raises(CertificateError):
            check_trellis(nonsense, checkpoint)


def test_time_memory_and_positions_are_limits(known):
    checkpoint, document = known
    with pytest.raises(CertificateError, match="seconds"):
        check_trellis(document, checkpoint, seconds=0.0)
    with pytest.raises(CertificateError, match="memory"):
        check_trellis(document, checkpoint, memory=1000)
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
            part = every(trellis.of_label(label))
            part, _ = part.parted(1, trellis_letter(part, 0))
            assert checker.holds(part.trellis, part.masks) == (label == answer)
            assert checker.holds(part.trellis, part.masks, answer) == (label != answer)
            string = part.first()
            assert checker.model.verdict(string, label) == (label == answer)


def trellis_letter(paths: Paths, letter: int) -> Any:
    return paths.trellis.stages[-1].letters[:, 0] == letter


def test_several_readers_and_several_labels_prove_nothing(known):
    checkpoint, _ = known
    checker = TrellisChecker(checkpoint)
    paths = every(checker.trellis("length", 3))
    assert not checker.holds(paths.trellis, paths.masks)
    mixed = every(checker.trellis("length", 3).of_label(2))
    assert len(mixed.letters_at(2)) == 3
    assert not checker.holds(mixed.trellis, mixed.masks)
    assert not any(checker.holds(mixed.trellis, mixed.masks, by) for by in range(3))


@pytest.mark.parametrize("module", ["paths", "trellis_model", "relaxation"])
def test_no_ball_is_compared_outside_the_kernel(module):
    found = import_module(f"tsc_interp.verification.checker.{module}")
    tree = ast.parse(Path(found.__file__ or "").read_text())
    order = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    compared = [n for n in ast.walk(tree) if isinstance(n, ast.Compare)]
    if module == "relaxation":  # paths and trellis_model compare floats and indices
        assert not [n.lineno for n in compared if any(isinstance(op, order) for op in n.ops)]
    imports = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    ours = {name for name in imports if name.startswith("tsc_interp.verification")}
    assert all(name.startswith("tsc_interp.verification.checker") for name in ours)


# -- rounding ----------------------------------------------------------------------------------


def one_path(length: int) -> Paths:
    """A trellis with one letter and one path."""
    zero = np.zeros(1, dtype=np.int64)
    stages = tuple(Stage((place,), zero, zero, zero[:, None]) for place in range(length))
    return every(Trellis(length, (), stages, length - 1, zero))


@pytest.mark.parametrize("seed", range(12))
def test_a_sweep_is_never_below_the_real_sum(seed):
    """One large number among many small ones: each sum rounds by more than a small one's own."""
    noise = np.random.default_rng(seed)
    paths, length = one_path(60), 60
    weight = noise.uniform(0.5, 1.0, size=(length, 1))
    y = noise.normal(size=(1, length, 1))
    y[0, 0, 0] = 2.0**20
    level = noise.normal(size=1)
    own = noise.normal(size=1) * 2.0**20
    excess, _ = _sweep(paths, Weights(weight, weight, (0.75, 0.75)), y, own, level)
    keys = [(Fraction(float(w)), Fraction(float(v))) for w, v in zip(weight[:, 0], y[0, :, 0],
                                                                     strict=True)]  # fmt: skip
    keys.append((Fraction(3, 4), Fraction(float(own[0]))))
    real = sum(w * (v - Fraction(float(level[0]))) for w, v in keys)
    assert Fraction(float(excess[0])) >= real
    assert float(excess[0]) == pytest.approx(float(real), abs=1e-6)


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_bounds_hold_for_every_weight_in_its_range(seed):
    noise = np.random.default_rng(seed)
    config = ClassifierConfig(n_letters=3, task=Parity(letter="b"), n_positions=5)
    trellis = TrellisChecker(ordered_checkpoint(config, 0)).trellis("length", 4)
    paths = part_of(every(trellis), random.Random(seed))
    if paths is None:
        return
    low = np.exp(noise.normal(size=(4, 3)))
    high = low * (1 + noise.exponential(size=(4, 3)))
    y, own = noise.normal(size=(3, 4, 3)), noise.normal(size=3)
    bound = largest_means(paths, Weights(low, high, (0.5, 2.0)), y, own)
    strings = np.array([string for string, _ in paths.strings()])
    places = np.arange(4)
    for _ in range(20):
        share = noise.integers(0, 2, size=(4, 3))
        weight, alone = low + share * (high - low), float(noise.choice([0.5, 2.0]))
        mass = weight[places, strings].sum(1) + alone
        total = (weight[places, strings] * y[:, places, strings]).sum(2) + alone * own[:, None]
        assert (bound >= (total / mass).max(1) - 1e-12).all()


def test_ends_are_outside_of_their_balls():
    for text in ("0.1", "-0.3", "1e-320", "-1e300", "12345.678"):
        with ctx.workprec(200):
            ball = arb(text)
            low, high = _ends([[ball]])
            assert arb(float(low[0, 0])) < ball < arb(float(high[0, 0]))
    low, high = _ends([[arb("nan"), arb("inf")]])
    assert np.isnan(low).all()
    assert np.isnan(high).all()
