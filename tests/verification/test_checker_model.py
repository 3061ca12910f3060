"""The checker's forward pass against mpmath (`precise.py`) and against numbers worked out by hand.

Enclosures must hold, and where the extremes over a box are known exactly, they must be those: a
bound that is too wide is safe, but one that is wide by mistake may be too narrow elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import mpmath
import pytest
from flint import arb, ctx

from tests.cases import CONFIGS
from tests.verification import precise
from tests.verification.models import (
    hand_built,
    planted,
    random_checkpoint,
    unfailing,
    with_cancelling_heads,
)
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import AtLeast, Majority, Parity
from tsc_interp.verification.checker.check import Checker
from tsc_interp.verification.checker.model import BoxModel

LOG_N = {"score_scale": "sqrt_d_head_log_n"}


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


def ends(ball: Any) -> tuple[Any, Any]:
    """As mpmath numbers, exactly."""
    with ctx.workprec(256):
        pairs = [end.man_exp() for end in (ball.lower(), ball.upper())]
        return tuple(mpmath.mpf((int(m), int(e))) for m, e in pairs)  # type: ignore[return-value]


def assert_is(ball: Any, least: Any, most: Any, within: float = 1e-7) -> None:
    """Encloses, and hardly more. A radius has 30 bits, so ends are good to 1e-8."""
    low, high = ends(ball)
    assert low <= least + within * 1e-10
    assert most - within * 1e-10 <= high
    assert abs(low - least) < within
    assert abs(high - most) < within


# -- single strings ------------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_a_single_vector_has_its_logit(config: ClassifierConfig) -> None:
    checkpoint = random_checkpoint(config, 3)
    model = BoxModel(checkpoint)
    for counts in ([2, 3, 0, 0, 0], [1, 7, 4, 0, 0]):
        counts = counts[: config.n_letters]
        support = tuple(i for i, count in enumerate(counts) if count)
        present = [counts[i] for i in support]
        truth = precise.logit(checkpoint, counts, 60)
        for _ in range(2):  # the second time with the first layer's tables kept
            assert_is(model.count_box(support, present, present), truth, truth, 1e-20)


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_every_vector_of_a_box_is_enclosed(config: ClassifierConfig) -> None:
    checkpoint = random_checkpoint(config, 4)
    support = tuple(range(min(config.n_letters, 2)))
    low, high = ends(BoxModel(checkpoint).count_box(support, [2, 3], [3, 5]))
    for picked in product((2, 3), (3, 4, 5)):
        counts = [*picked, *[0] * (config.n_letters - 2)]
        assert low <= precise.logit(checkpoint, counts, 60) <= high


@pytest.mark.parametrize("width", [2, 3, 5, 7])
def test_a_coordinate_alone_is_nearly_the_root_of_the_width(width: int) -> None:
    """x / sqrt(x² / d + eps) = sqrt(d) (1 - 1e-89) for x = 3e38: no bound may cut that off."""
    config = ClassifierConfig(d_model=width, norm="rms", norm_eps=1e-12)
    model = BoxModel(random_checkpoint(config, 0))
    model.weights["blocks.0.ln1.w"] = [arb(1)] * width
    with ctx.workprec(128), mpmath.workdps(120):
        for x in (3e38, -3e38):
            row = model._norm("blocks.0.ln1", [arb(x), *[arb(0)] * (width - 1)])
            truth = x / mpmath.sqrt(mpmath.mpf(x) ** 2 / width + mpmath.mpf(1e-12))
            low, high = ends(row[0])
            assert low <= truth <= high
            assert high - low < 1e-30
    # Numerator and divisor may seem to move apart over a box; the root of the width still holds.
    with ctx.workprec(128):
        box = model._norm("blocks.0.ln1", [arb(100).union(arb(1000)), *[arb(0)] * (width - 1)])
        low, high = ends(box[0])
        assert mpmath.sqrt(width) * (1 - mpmath.mpf(1e-15)) <= high
        assert high <= mpmath.sqrt(width) * (1 + mpmath.mpf(1e-8))


# -- boxes, one head, no MLP: the extremes are at corners ------------------------------------------


def share(values: list[Any], weights: list[Any]) -> Any:
    return mpmath.fdot(values, weights) / mpmath.fsum(weights)


@pytest.mark.parametrize("cls", [False, True])
@pytest.mark.parametrize("log_n", [False, True])
def test_boxes_of_counts_are_as_wide_as_their_strings(cls: bool, log_n: bool) -> None:
    options = LOG_N if log_n else {}
    scores, values = [0.25, -0.5, 0.75], [1.0, -2.0, 4.0]
    model = BoxModel(hand_built([scores], [values], 0.5, attend_cls=cls, **options))
    low, high = [2, 1, 3], [4, 5, 3]
    # With log n each weight m e^(s log n) is taken over its own range of n: 6 to 12 letters.
    # What is subtracted from the scores is the largest, 0.75.
    found = []
    for value_sign in (1, -1):
        best = -mpmath.inf
        for corner in product((0, 1), repeat=3):
            weights = []
            for c, s, a, b in zip(corner, scores, low, high, strict=True):
                length = (mpmath.log(6) if c else mpmath.log(12)) if log_n else 1
                weights.append((b if c else a) * mpmath.exp((s - 0.75) * length))
            readings = list(values)
            if cls:
                for length in (6, 12) if log_n else (mpmath.e,):
                    one = mpmath.exp(-0.75 * mpmath.log(length))
                    mean = share([*readings, 0], [*weights, one])
                    best = max(best, value_sign * mean)
            else:
                best = max(best, value_sign * share(readings, weights))
        found.append(best)
    most, least = found[0] - 0.5, -found[1] - 0.5
    assert_is(model.count_box((0, 1, 2), low, high), least, most)


def test_boxes_of_ratios_are_as_wide_as_their_ratios() -> None:
    scores, values = [0.25, -0.5, 0.75], [1.0, -2.0, 4.0]
    for cls in (False, True):
        model = BoxModel(hand_built([scores], [values], 0.5, attend_cls=cls))
        for column in range(3):
            low, high = [0.25, 0.5, 0.125][: 2 + cls], [0.5, 1.0, 0.25][: 2 + cls]
            means = []
            for corner in product((0, 1), repeat=2 + cls):
                free = [b if c else a for c, a, b in zip(corner, low, high, strict=True)]
                of_cls = [free.pop(0)] if cls else []
                free.insert(column, 1.0)
                weights = [w * mpmath.exp(s) for w, s in zip(free, scores, strict=True)]
                means.append(share([*values, *[0] * cls], [*weights, *of_cls]) - 0.5)
            assert_is(model.ratio_box((0, 1, 2), column, low, high), min(means), max(means))


@pytest.mark.parametrize("cls", [False, True])
def test_the_limit_is_what_one_letter_reads(cls: bool) -> None:
    model = BoxModel(hand_built([[0.25, -0.5, 0.75]], [[1.0, -2.0, 4.0]], 0.5, attend_cls=cls))
    for letter, value in enumerate([1.0, -2.0, 4.0]):
        assert_is(model.limit((letter,)), value - 0.5, value - 0.5, 1e-30)


def test_tails_by_hand() -> None:
    """Of two letters b is best: a, 3 lower, weighs at most N^-2; c, 1/2 lower, anything."""
    model = BoxModel(hand_built([[-3.0, 0.0, -0.5]], [[5.0, 1.0, -7.0]], 0.25, **LOG_N))
    for start in (2, 10, 1000):
        reach = 1 / mpmath.mpf(start) ** 2
        top = (1 + 5 * reach) / (1 + reach)
        assert_is(model.tail((0, 1), start), 1 - 0.25, top - 0.25)
        assert_is(model.tail((1, 2), start), -7 - 0.25, 1 - 0.25)
        assert_is(model.tail((0, 1, 2), start), -7 - 0.25, top - 0.25)
        # One letter alone, and CLS, which is a key like the others: its score is 0, as b's.
        assert_is(model.tail((0,), start), 5 - 0.25, 5 - 0.25)
    # One and a half lower falls like the root of n.
    model = BoxModel(hand_built([[-1.5, 0.0]], [[5.0, 1.0]], 0.25, **LOG_N))
    reach = 1 / mpmath.sqrt(10000)
    assert_is(model.tail((0, 1), 10000), 0.75, (1 + 5 * reach) / (1 + reach) - 0.25)
    # Exactly one lower does not fall with n.
    model = BoxModel(hand_built([[-1.0, 0.0]], [[5.0, 1.0]], 0.25, **LOG_N))
    assert_is(model.tail((0, 1), 1000), 0.75, 4.75)
    attended = hand_built([[3.0, 0.0]], [[5.0, 1.0]], 0.25, attend_cls=True, **LOG_N)
    reach = 1 / mpmath.mpf(100)
    assert_is(BoxModel(attended).tail((0,), 10), 5 / (1 + reach) - 0.25, 5 - 0.25)


# -- verdicts on single vectors --------------------------------------------------------------------


@pytest.mark.parametrize("size", [0.0, 2.0**100, 2.0**126])
def test_wrong_is_decided_with_as_many_bits_as_it_takes(size: float) -> None:
    """planted(6): one a among six b's is wrong, among five right; the limits are 1/22 off zero."""
    checkpoint = planted(6, c_score=-1.0)
    model = BoxModel(with_cancelling_heads(checkpoint, size) if size else checkpoint)
    for answer, counts in ((0, [1, 6]), (1, [1, 5])):
        assert model.of_class(answer).is_answer((0, 1), counts)
        assert not model.of_class(1 - answer).is_answer((0, 1), counts)


def test_an_undecided_logit_has_no_answer() -> None:
    model = BoxModel(hand_built([[1, 0, 2]] * 2, [[1, 0, 3], [-1, 0, -3]], 0.0))
    for label in (0, 1):
        assert not model.of_class(label).is_answer((0, 1), [1, 2])
    decided = BoxModel(planted(6, c_score=-1.0))
    assert decided.is_answer((0, 1), [1, 5])
    assert not decided.is_answer((0, 1), [1, 6])


def test_class_0_of_two_wins_a_tie() -> None:
    """A logit of exactly zero, over a box and on one vector: the answer is 0, and no wrong 1."""
    for options in ({}, {"n_outputs": 2}, {"n_outputs": 3}):
        config = ClassifierConfig(n_heads=0, d_mlp=0, **options)
        checkpoint = random_checkpoint(config, 0)
        checkpoint.weights["unembed.W_U"][...] = 0
        no, yes = (BoxModel(checkpoint).of_class(label) for label in (0, 1))
        assert not yes.is_answer((0, 1), [1, 2])
        assert no.is_answer((0, 1), [1, 2]) == (config.n_outputs < 3)
        for ball in (arb(0), arb(1), arb(-1)):
            assert no.answers(ball) == (ball == 1 or (ball == 0 and config.n_outputs < 3))
            assert yes.answers(ball) == (ball == 1)
        assert not no.answers(arb("nan"))
        assert not no.answers(arb("0 +/- 1"))


def test_the_precision_around_the_checker_stays_as_it_was() -> None:
    before = arb(2).sqrt().rad()
    model = BoxModel(unfailing())
    model.tail((0, 1), 5)
    model.of_class(0).is_answer((0, 1), [1, 1])
    assert arb(2).sqrt().rad() == before


def test_work_is_paid_for() -> None:
    paid: list[int] = []
    checkpoint: Checkpoint = unfailing()
    BoxModel(checkpoint, lambda: paid.append(1)).tail((0, 1), 5)
    assert len(paid) == checkpoint.config.n_layers
    # A model without heads works as well: many boxes of its MLP are not free.
    paid.clear()
    alone = random_checkpoint(ClassifierConfig(n_heads=0, n_layers=2), 0)
    BoxModel(alone, lambda: paid.append(1)).count_box((0, 1), [1, 1], [2, 2])
    assert len(paid) == 2
    # A sign that is known takes one precision, right or wrong; one that is not takes all three.
    model = BoxModel(planted(6, c_score=-1.0), lambda: paid.append(1))
    for counts, label in (([1, 6], 0), ([1, 6], 1), ([1, 5], 0), ([1, 5], 1)):
        paid.clear()
        model.of_class(label).is_answer((0, 1), counts)
        assert len(paid) == 1
    zero = hand_built([[1, 0]] * 2, [[1, 0], [-1, 0]], 0.0)
    paid.clear()
    BoxModel(zero, lambda: paid.append(1)).of_class(0).is_answer((0, 1), [1, 2])
    assert len(paid) == 3


def test_tables_of_the_first_layer_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = BoxModel(random_checkpoint(ClassifierConfig(n_layers=2, n_heads=1, norm="rms"), 0))
    read: list[str] = []
    norm = model._norm

    def noted(name: str, row: Any) -> Any:
        read.append(name)
        return norm(name, row)

    monkeypatch.setattr(model, "_norm", noted)
    for expected in (3, 0, 0):
        read.clear()
        model.count_box((0, 1), [1, 2], [3, 4])
        assert read.count("blocks.0.ln1") == expected
        assert read.count("blocks.1.ln1") == 3


# -- labels over boxes, by brute force -------------------------------------------------------------


@pytest.mark.parametrize(
    "task",
    [AtLeast(letter="a", k=3), AtLeast(letter="b", k=1), Majority(letter="b"), Majority(letter="a"),
     Parity(letter="b"), Parity(letter="a", odd=False)],
    ids=lambda task: f"{task.kind}-{task.letter}",
)  # fmt: skip
def test_a_box_has_a_label_where_all_its_strings_do(task: Any) -> None:
    config = ClassifierConfig(task=task)
    derivation = Checker(random_checkpoint(config, 0))._derivation()
    for support in ((0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        size = len(support)
        lows = list(product((1, 2, 4), repeat=size))[:: 1 + (size == 3) * 4]
        for low, width in product(lows, product((0, 1, 2), repeat=size)):
            high = [a + w for a, w in zip(low, width, strict=True)]
            labels = set()
            for picked in product(*(range(a, b + 1) for a, b in zip(low, high, strict=True))):
                own = dict(zip(support, picked, strict=True)).get("ab".index(task.letter), 0)
                labels.add(
                    own >= task.k if task.kind == "at_least"
                    else 2 * own > sum(picked) if task.kind == "majority"
                    else (own % 2 == 1) == task.odd
                )  # fmt: skip
            expected = labels.pop() if len(labels) == 1 else None
            assert derivation.labels.label(support, low, high) == expected, (support, low, high)
