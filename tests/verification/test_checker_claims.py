"""Each claim and each conclusion of the checker at its edges, on models worked out by hand.

`planted(6)`: contains a? The logit is w / (w + others) - 1/2, an a weighing w = 5.5 and a b or c 1.
So over `a` it is 1/2, over b and c -1/2, and one a with n others is right up to n = 5.
"""

from __future__ import annotations

from typing import Any

import pytest

import tsc_interp as tsc
from tests.verification.models import hand_built, planted, unfailing
from tsc_interp.checkpoints import Checkpoint, load_checkpoint
from tsc_interp.rules import ContainsAll, Majority
from tsc_interp.verification import CertificateError
from tsc_interp.verification.checker.box_claims import number, whole
from tsc_interp.verification.checker.check import Checker
from tsc_interp.verification.checker.claims import Derivation, Proved
from tsc_interp.verification.checker.model import BoxModel

PLANTED = planted(6)
ATTENDED = planted(6, attend_cls=True)
ALL = "right_at_all_lengths"


def derive(checkpoint: Checkpoint, *claims: dict[str, Any]) -> Proved:
    return Checker(checkpoint).derive(claims)


def refused(checkpoint: Checkpoint, claim: dict[str, Any], reason: str) -> None:
    with pytest.raises(CertificateError, match=reason):
        derive(checkpoint, claim)


def always(letters: str, bound: Any, *boxes: Any) -> dict[str, Any]:
    charts = [{"largest": letter, "boxes": list(boxes)} for letter in letters]
    return {"kind": ALL, "letters": letters, "bound": bound, "charts": charts}


def up_to(letters: str, length: Any, *boxes: Any) -> dict[str, Any]:
    return {"kind": "right_up_to", "letters": letters, "length": length, "boxes": list(boxes)}


# -- numbers -----------------------------------------------------------------------------------


def test_whole_numbers_and_numbers() -> None:
    assert [whole(n) for n in (0, 1, 10**12)] == [0, 1, 10**12]
    for bad in (-1, 10**12 + 1, 1.0, True, None, "1"):
        with pytest.raises(CertificateError, match="not a whole number"):
            whole(bad)
    assert [number(x) for x in (0, -1, 2.5, -9.9e299)] == [0.0, -1.0, 2.5, -9.9e299]
    for wrong in (1e300, -1e300, float("nan"), float("inf"), True, None, "1", 10**301):
        with pytest.raises(CertificateError, match="not a number"):
            number(wrong)


# -- right_at_all_lengths ------------------------------------------------------------------------

POINT: list[list[float]] = [[], []]
SIDE = [[0.0], [1.0]]


def test_a_bound_is_accepted_up_to_the_logit_itself() -> None:
    for letter, at in (("b", -0.5), ("c", -0.5)):
        assert derive(PLANTED, always(letter, at, POINT)).verified_length[letter] is None
        assert derive(PLANTED, always(letter, 0, POINT)).verified_length[letter] is None
        refused(PLANTED, always(letter, at - 1e-9, POINT), "not proved to stay beyond")
        refused(PLANTED, always(letter, 1e-9, POINT), "wrong side")
    assert derive(PLANTED, always("a", 0.5, POINT)).verified_length["a"] is None
    refused(PLANTED, always("a", 0.5 + 1e-9, POINT), "not proved to stay beyond")
    refused(PLANTED, always("a", 0.0, POINT), "wrong side")
    said = derive(PLANTED, always("a", 0.25, POINT), always("b", -0.25, POINT)).sentences
    assert said[0] == "every string over exactly a is right: logit at least 0.25"
    assert said[1] == "every string over exactly b is right: logit at most -0.25"


def test_charts_and_their_boxes() -> None:
    good = always("bc", -0.5, SIDE)
    assert derive(PLANTED, good).verified_length["bc"] is None
    assert derive(PLANTED, always("bc", -0.5, [[0.0], [0.5]], [[0.5], [1.0]]))
    refused(PLANTED, always("bc", -0.5, [[0.0], [0.5]]), "leave ratios out")
    refused(PLANTED, always("bc", -0.5, [[0.25], [1.0]]), "leave ratios out")
    refused(PLANTED, always("bc", -0.5), "leave ratios out")
    for box in ([[0.5], [0.5]], [[-0.1], [1.0]], [[0.0], [1.1]], [[0.6], [0.4]]):
        refused(PLANTED, always("bc", -0.5, SIDE, box), "a bad box")
    for box in ([[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0]], POINT):
        refused(PLANTED, always("bc", -0.5, box), "wrong number of weights")
    charts = good["charts"]
    refused(PLANTED, {**good, "charts": charts[:1]}, "one chart per letter")
    refused(PLANTED, {**good, "charts": [*charts, charts[0]]}, "given twice")
    refused(PLANTED, {**good, "charts": [charts[0], {**charts[1], "x": 1}]}, "has largest and")
    # With CLS attended to, its weight is one more; it reads nothing here, so logits move to -1/2.
    assert derive(ATTENDED, always("b", -0.5, SIDE)).verified_length["b"] is None
    refused(ATTENDED, always("b", -0.5, POINT), "wrong number of weights")
    # An a beside a b of any weight is not right at all lengths.
    refused(PLANTED, always("ab", 1e-9, SIDE), "not proved to stay beyond")


def test_ratios_say_nothing_where_labels_or_lengths_matter() -> None:
    majority = hand_built([[0.0, 0.0]], [[1.0, -1.0]], 0.0, task=Majority(letter="a"))
    refused(majority, always("ab", -0.1, SIDE), "do not share a label")
    refused(unfailing(), always("c", -0.1, POINT), "scaled by log n")


# -- right_up_to ---------------------------------------------------------------------------------


def test_boxes_of_counts() -> None:
    box = [[1, 1], [4, 5]]
    good = up_to("ab", 5, box)
    assert derive(PLANTED, good).verified_length["ab"] == 5
    assert derive(PLANTED, up_to("ab", 6, [[1, 1], [5, 5]])).verified_length["ab"] == 6
    refused(PLANTED, up_to("ab", 7, [[1, 1], [6, 6]]), "not proved right")
    refused(PLANTED, up_to("ab", 5, [[1, 1], [3, 5]]), "leave strings out")
    refused(PLANTED, up_to("ab", 5, [[1, 2], [4, 5]]), "leave strings out")
    refused(PLANTED, up_to("ab", 5), "leave strings out")
    for empty in ([[1, 2], [4, 1]], [[0, 1], [4, 5]]):
        refused(PLANTED, up_to("ab", 5, box, empty), "an empty box")
    for size in ([[1], [4]], [[1, 1, 1], [4, 4, 4]], [[1, 1], [4]], [[1], [4, 4]]):
        refused(PLANTED, up_to("ab", 5, size), "wrong number of letters")
    assert derive(PLANTED, up_to("ab", 5, box, [[1, 4], [1, 4]]))
    refused(PLANTED, up_to("ab", 5, box, [[2, 4], [2, 4]]), "holds no string of the claim")
    # Shorter than its letters there is nothing to cover, and nothing is gained.
    assert derive(PLANTED, up_to("ab", 1)).verified_length["ab"] == 1
    refused(PLANTED, up_to("ab", 2), "leave strings out")
    # The longest of several counts.
    both = derive(PLANTED, good, up_to("ab", 3, [[1, 1], [2, 2]]))
    assert both.verified_length["ab"] == 5


def test_boxes_whose_strings_differ_in_label() -> None:
    """a > b? The logit is (a - b) / n - 1/4: below zero for a draw, above it for aab."""
    model = hand_built([[0.0, 0.0]], [[1.0, -1.0]], 0.25, task=Majority(letter="a"))
    assert derive(model, up_to("ab", 3, [[1, 1], [1, 2]], [[2, 1], [2, 1]]))
    refused(model, up_to("ab", 3, [[1, 1], [2, 2]]), "differ in label")


# -- wrong, beyond, limit ------------------------------------------------------------------------


def test_strings_that_are_wrong() -> None:
    found = derive(PLANTED, {"kind": "wrong", "string": "ab{6}"})
    assert (found.wrong, found.finite, found.infinite) == (("ab{6}",), True, False)
    assert found.sentences[0] == "ab{6} is a false negative"
    refused(PLANTED, {"kind": "wrong", "string": "ab{5}"}, "not proved misclassified")
    refused(PLANTED, {"kind": "wrong", "string": "b{6}a"}, "not written as a sorted")
    refused(PLANTED, {"kind": "wrong", "string": "abbbbbb"}, "not written as a sorted")
    positive = hand_built([[0.0, 0.0]], [[1.0, 1.0]], 0.5, task=ContainsAll(letters="a"))
    said = derive(positive, {"kind": "wrong", "string": "b"})
    assert said.sentences[0] == "b is a false positive"
    assert said.negative_supports == {"b": False}


def test_tails() -> None:
    """One b among n letters weighs n^-3 beside an a; with n = 2 that is 1/8 each at most."""
    model = unfailing()
    claim = {"kind": "right_beyond", "letters": "ab", "length": 64}
    assert derive(model, claim).sentences[0].endswith("ab of 64 letters or more is right")
    alone = {"kind": "right_beyond", "letters": "c", "length": 2}
    assert derive(model, alone).verified_length["c"] == 0
    refused(model, {**alone, "length": 1}, "the tail bound needs")
    refused(PLANTED, alone, "the tail bound needs")
    # Joined: what is right up to 1 and from 2 on is right always. From 3 on it is not.
    short = up_to("c", 1, [[1], [1]])
    assert derive(model, short, alone).verified_length["c"] is None
    later = {**alone, "length": 3}
    assert derive(model, short, later).verified_length["c"] == 1
    assert derive(model, short, later, alone).verified_length["c"] is None
    assert derive(model, short, alone, later).verified_length["c"] is None


def test_limits() -> None:
    claim = {"kind": "limit", "letter": "b", "letters": "ab"}
    found = derive(PLANTED, claim)
    assert (found.finite, found.infinite, found.horizon) == (True, False, None)
    refused(PLANTED, {**claim, "letter": "a"}, "different labels")
    refused(PLANTED, {**claim, "letter": "c"}, "must be one of the letters")
    refused(PLANTED, {**claim, "letter": "ab"}, "must be one of the letters")
    refused(PLANTED, {**claim, "letters": "bc"}, "different labels")
    refused(unfailing(), claim, "do not grow")
    zero = hand_built([[0.0, 0.0]], [[1.0, 0.5]], 0.5, task=ContainsAll(letters="a"))
    refused(zero, claim, "may be zero")


@pytest.mark.parametrize("letters", ["", "ba", "aa", "abd", "A", 5, None, ["a"], "ab "])
def test_what_is_no_set_of_letters(letters: Any) -> None:
    for claim in (up_to("ab", 1), always("b", -0.5, POINT)):
        refused(PLANTED, {**claim, "letters": letters}, "not a set of letters")


# -- conclusions ---------------------------------------------------------------------------------


def concluded(
    wrong: dict[str, tuple[str, int]] | None = None,
    up_to: dict[str, int] | None = None,
    always: set[str] | None = None,
    limited: bool = False,
) -> Proved:
    """From facts taken as derived; two letters, so the sets are a, b and ab."""
    model = hand_built([[0.0, 0.0]], [[1.0, 0.0]], 0.5, task=ContainsAll(letters="a"))
    derivation: Derivation = Checker(model)._derivation()
    derivation.wrong, derivation.boxes.up_to = wrong or {}, up_to or {}
    derivation.boxes.always, derivation.limited = always or set(), limited
    return derivation._conclude([])


def test_a_horizon_needs_every_set_up_to_it_and_an_error_right_after() -> None:
    error = {"ab{4}": ("ab", 5)}
    found = concluded(error, {"a": 4, "b": 9, "ab": 4})
    assert (found.horizon, found.finite, found.infinite) == (4, True, False)
    assert found.verified_length == {"a": 4, "b": 9, "ab": 4}
    assert found.sentences == ("the horizon is 4",)
    assert found.negative_supports == {"b": None}
    assert concluded(error, {"a": 3, "b": 9, "ab": 4}).horizon is None
    assert concluded(error, {"a": 9, "b": 9, "ab": 3}).horizon is None
    assert concluded(None, {"a": 4, "b": 4, "ab": 4}).horizon is None
    # Two letters have no string of one: ab is right up to 1 as it is.
    assert concluded({"a{2}": ("a", 2)}, {"a": 1, "b": 1}).horizon == 1
    both = concluded({"ab{9}": ("ab", 10), "a{5}": ("a", 5)}, {"a": 4, "ab": 9}, {"b"})
    assert both.horizon == 4
    assert both.negative_supports == {"b": True}
    assert both.sentences == ("the horizon is 4", "no false positive of any length over b")


def test_for_ever_needs_every_set() -> None:
    found = concluded(always={"a", "b", "ab"})
    assert (found.horizon, found.finite, found.infinite) == (None, False, True)
    assert found.sentences[-1].startswith("the horizon is infinite")
    assert not concluded(always={"a", "b"}).infinite
    nothing = concluded()
    assert (nothing.horizon, nothing.finite, nothing.infinite) == (None, False, False)
    assert nothing.verified_length == {"a": 0, "b": 0, "ab": 1}
    assert concluded(limited=True).finite


def test_contradictions_are_refused() -> None:
    with pytest.raises(CertificateError, match="right and wrong"):
        concluded({"ab{4}": ("ab", 5)}, {"ab": 5})
    with pytest.raises(CertificateError, match="right and wrong"):
        concluded({"ab{4}": ("ab", 5)}, always={"ab"})
    with pytest.raises(CertificateError, match="contradict each other"):
        concluded(always={"a", "b", "ab"}, limited=True)
    assert concluded({"b": ("b", 1)}).negative_supports == {"b": False}


def test_a_claim_is_bounded_once_when_writing_and_again_when_checking(monkeypatch):
    """What was bounded is remembered under all of a claim, and never for a document."""
    checkpoint = load_checkpoint("generalization-errors")
    document = tsc.certify(checkpoint, limit=100).document
    checker, asked = Checker(checkpoint), []
    count_box = BoxModel.count_box
    monkeypatch.setattr(
        BoxModel, "count_box", lambda self, *box: asked.append(box) or count_box(self, *box)
    )
    claim = next(one for one in document["claims"] if one["kind"] == "right_up_to")
    checker.derive([claim])
    assert len(asked) == len(claim["boxes"])
    assert checker.derive([claim]).sentences[0].startswith("every string over exactly")
    assert len(asked) == len(claim["boxes"])
    for forged in ({**claim, "length": 10**6}, {**claim, "boxes": claim["boxes"][1:]}):
        with pytest.raises(CertificateError):
            checker.derive([forged])
    before = len(asked)
    checker.check(document)
    assert len(asked) > before


def test_a_claim_up_to_length_zero_says_nothing() -> None:
    checker = Checker(planted(4))
    none = {"kind": "right_up_to", "letters": "a", "length": 0, "boxes": []}
    assert checker.derive([none]).verified_length["a"] == 0
