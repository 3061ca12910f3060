"""Two classifiers compared: brute force, forged certificates, and models that are the same."""

from __future__ import annotations

import copy
import json
from itertools import product

import numpy as np
import pytest
from flint import arb
from tsc_interp.verification.checker.identity import exact_form

import tsc_interp as tsc
from tests.verification import precise
from tests.verification.models import (
    planted,
    random_checkpoint,
    rescaled,
    shifted,
    unfailing,
    with_cancelling_heads,
)
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.cli.app import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError, UnsupportedError
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.verification import CertificateError, check_agreement, diff
from tsc_interp.verification.checker.agreement import AgreementChecker
from tsc_interp.verification.checker.document import digest

CONFIGS = [
    ClassifierConfig(),
    ClassifierConfig(attend_cls=True, n_letters=2),
    ClassifierConfig(n_letters=2, n_layers=2, d_mlp=0),
    ClassifierConfig(n_letters=2, norm="rms"),
    ClassifierConfig(n_letters=2, score_scale="sqrt_d_head_log_n", n_heads=3),
]


def answers(model: Checkpoint, longest: int) -> dict[tuple[int, ...], bool]:
    """Every count vector up to a length, its sign at 40 and 70 digits."""
    counts = product(range(longest + 1), repeat=model.config.n_letters)
    return {c: precise.sign(model, list(c)) == 1 for c in counts if 0 < sum(c) <= longest}


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
@pytest.mark.parametrize("seeds", [(1, 4), (2, 3)])
def test_the_first_difference_by_brute_force(config, seeds):
    a, b = (random_checkpoint(config, seed) for seed in seeds)
    longest = 12 if config.n_letters == 2 else 7
    found = diff(a, b, max_length=longest, limit=longest)
    ours, theirs = answers(a, longest), answers(b, longest)
    differing = sorted(
        (c for c in ours if ours[c] != theirs[c]), key=lambda c: (sum(c), [-n for n in c])
    )
    first = config.alphabet.write(differing[0]) if differing else None
    assert found.shortest == first
    for letters, string in found.by_letters.items():
        mine = [c for c in differing if _letters(config, c) == letters]
        assert string == (config.alphabet.write(mine[0]) if mine else None)
        end = found.proved.through[letters]
        assert (longest if end is None else end) >= (sum(mine[0]) - 1 if mine else longest)
    again = check_agreement(json.loads(json.dumps(found.document)), a, b)
    assert again == found.proved
    assert not (differing and found.same)


def _letters(config, counts):
    return "".join(x for x, n in zip(config.alphabet.letters, counts, strict=True) if n)


def test_the_same_function_written_differently():
    """Heads in another order, split in two, a head that is never heard, neurons that cancel."""
    config = ClassifierConfig(d_model=3, n_heads=2, d_head=2, d_mlp=3)
    a = random_checkpoint(config, 5)
    bigger = config.model_copy(update={"n_heads": 4, "d_mlp": 5})
    w = {name: np.zeros(shape, np.float32) for name, shape in bigger.weight_shapes().items()}
    for name in ("embed.W_E", "unembed.W_U"):
        w[name] = a.weights[name]
    half = {"attn.W_O": np.float32(0.5)}
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        key = f"blocks.0.attn.{name}"
        factor = half.get(f"attn.{name}", np.float32(1))
        w[key][0] = a.weights[key][1]
        w[key][1] = w[key][2] = a.weights[key][0] * factor
    w["blocks.0.attn.W_O"][3] = 0.0
    w["blocks.0.attn.W_V"][3] = 1.0
    w["blocks.0.mlp.W_in"][:, :3] = a.weights["blocks.0.mlp.W_in"][:, ::-1]
    w["blocks.0.mlp.W_out"][:3] = a.weights["blocks.0.mlp.W_out"][::-1]
    w["blocks.0.mlp.W_in"][:, 3:] = 1.0
    w["blocks.0.mlp.W_out"][3], w["blocks.0.mlp.W_out"][4] = 1.0, -1.0
    b = Checkpoint(bigger, w)
    found = diff(a, b, max_length=20)
    assert found.same
    assert found.counted.differing == 0
    assert [claim["kind"] for claim in found.document["claims"]] == ["identical"] * 7
    other = {**w, "unembed.W_U": w["unembed.W_U"] * np.float32(1.0000001)}
    assert exact_form(Checkpoint(bigger, other), (0, 1)) != exact_form(a, (0, 1))


def test_two_models_right_at_every_length_agree_at_every_length():
    a = unfailing()
    louder = {**a.weights, "unembed.W_U": a.weights["unembed.W_U"] * np.float32(1.5)}
    b = Checkpoint(a.config, louder)
    found = diff(a, b, max_length=20, limit=1000)
    assert found.same
    assert "agree_beyond" in {claim["kind"] for claim in found.document["claims"]}
    assert found.shortest is None


@pytest.mark.parametrize("lengths", [(4, 6), (66, 1000), (1000, 54321)])
def test_planted_differences_are_found_however_far(lengths):
    """One fails from a b{n} on, the other later: the first difference is the earlier error."""
    a, b = (planted(n, c_score=-1.0) for n in lengths)
    found = diff(a, b, max_length=20)
    assert found.shortest == f"ab{{{lengths[0]}}}" or found.shortest == "a" + "b" * lengths[0]
    assert found.proved.first_difference == lengths[0] + 1
    assert found.proved.agree_through == lengths[0]


def forged(document, **changes):
    bent = copy.deepcopy(document) | changes
    bent["digest"] = digest(bent)
    return bent


def test_false_certificates_are_rejected():
    a, b = planted(4, c_score=-1.0), planted(6, c_score=-1.0)
    document = diff(a, b, max_length=12, limit=100).document
    assert check_agreement(document, a, b).first_difference == 5
    claims = document["claims"]
    everywhere = {"agree_through": None, "everywhere": True, "first_difference": None}
    up_to = next(claim for claim in claims if claim.get("letters") == "ab")
    wider = {**up_to, "length": 10, "boxes": [[[1, 1], [9, 9]]]}
    thinner = {**up_to, "boxes": up_to["boxes"][1:]}
    sets = ("a", "b", "c", "ab", "ac", "bc", "abc")
    identical = [{"kind": "identical", "letters": letters} for letters in sets]
    charts = [{"largest": x, "boxes": [[[0.0], [1.0]]]} for x in "ab"]
    always = {"kind": "agree_at_all_lengths", "letters": "ab", "charts": charts}
    for claims_now, conclusion in [
        (claims, everywhere),
        ([{"kind": "differ", "string": "ab"}], document["conclusion"]),
        ([wider], everywhere),
        ([c if c is not up_to else thinner for c in claims], document["conclusion"]),
        (identical, everywhere),
        ([always], everywhere),
        ([{"kind": "agree_beyond", "letters": "ab", "length": 2}], everywhere),
        ([{"kind": "agree_up_to", "letters": "ba", "length": 1, "boxes": []}], everywhere),
        (None, everywhere),
        ([{"kind": "trust me"}], everywhere),
        ([*claims, {**up_to, "length": True}], document["conclusion"]),
    ]:
        with pytest.raises(CertificateError):
            check_agreement(forged(document, claims=claims_now, conclusion=conclusion), a, b)
    with pytest.raises(CertificateError, match="other weights"):
        check_agreement(document, b, a)
    with pytest.raises(CertificateError, match="digest"):
        check_agreement({**document, "digest": "0" * 64}, a, b)


def test_what_is_not_finite_proves_nothing():
    """Weights so large that balls overflow: nothing may be called alike."""
    config = ClassifierConfig(n_layers=2, norm="rms", n_letters=2)
    a, b = random_checkpoint(config, 1), random_checkpoint(config, 2)
    huge = {name: w * np.float32(1e30) for name, w in a.weights.items()}
    found = diff(Checkpoint(config, huge), b, max_length=4, limit=20, boxes=200)
    longest = found.proved.agree_through
    ours, theirs = answers(Checkpoint(config, huge), 5), answers(b, 5)
    for counts, yes in ours.items():
        if longest is None or sum(counts) <= longest:
            assert yes == theirs[counts]


def test_wrong_use():
    with pytest.raises(UnsupportedError, match="alphabets"):
        diff("walkthrough", random_checkpoint(ClassifierConfig(n_letters=2), 0))
    with pytest.raises(TscError):
        diff("walkthrough", "attend-cls", limit=0)
    with pytest.raises(TscError):
        diff("walkthrough", "no-such-model")


def test_the_command(tmp_path, capsys):
    out = tmp_path / "agreement.json"
    assert main(["diff", "walkthrough", "attend-cls", "-o", str(out), "-L", "30"]) == 3
    told = capsys.readouterr().out
    assert "a{1426}b" in told
    assert main(["diff", "walkthrough", "attend-cls", "--check", str(out)]) == 0
    assert "accepted" in capsys.readouterr().out
    assert main(["diff", "attend-cls", "walkthrough", "--check", str(out)]) == 3
    capsys.readouterr()
    assert main(["diff", "walkthrough", "walkthrough", "--json", "-L", "30"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tsc-interp/diff/1"
    assert document["everywhere"] is True
    assert tsc.diff("walkthrough", "walkthrough", max_length=10).same


# -- the checker's claims, by hand -----------------------------------------------------------------


def up_to(letters, length, *boxes):
    return {"kind": "agree_up_to", "letters": letters, "length": length, "boxes": list(boxes)}


def test_claims_by_hand():
    """planted(n) says yes to a^i b^j if i (n - 1/2) > j, so 4 and 6 first differ on ab^4."""
    a, b = planted(4), planted(6)
    checker = AgreementChecker(a, b)
    # One a and 1 to 3 b's, two a's and 1 to 2 b's, ...: all below both boundaries.
    proved = checker.derive([up_to("ab", 4, [[1, 1], [3, 3]])])
    assert proved.through["ab"] == 4
    assert proved.through["a"] == 0
    assert proved.through["abc"] == 2  # shorter strings over three letters there are none
    assert proved.first_difference is None
    assert proved.agree_through == 0
    for bad, says in [
        (up_to("ab", 5, [[1, 1], [4, 4]]), "not proved alike"),
        (up_to("ab", 5, [[1, 1], [3, 3]]), "leave strings out"),
        (up_to("ab", 4, [[1, 1], [2, 3]]), "leave strings out"),
        (up_to("ab", 4, [[1, 1], [3, 3], [1, 1]]), "malformed"),
        (up_to("ab", 4, [[1], [3]]), "wrong number of letters"),
        (up_to("ab", 4, [[0, 1], [3, 3]]), "empty box"),
        (up_to("ab", 4, [[3, 3], [1, 1]]), "empty box"),
        (up_to("ab", 4.0, [[1, 1], [3, 3]]), "whole number"),
        (up_to("ba", 4, [[1, 1], [3, 3]]), "set of letters"),
        (up_to("ad", 4, [[1, 1], [3, 3]]), "set of letters"),
        ({"kind": "differ", "string": "ba{4}"}, "sorted run-length"),
        ({"kind": "differ", "string": "abbb"}, "answered differently"),
        ({"kind": "differ", "string": "ab{6}"}, "answered differently"),
        ({"kind": "agree_beyond", "letters": "ab", "length": 9}, "log n"),
        ({"kind": "identical", "letters": "ab"}, "not shown to be the same"),
        ({"kind": "identical", "letters": "ab", "why": "because"}, "needs"),
        ({"kind": "certainly"}, "unknown kind"),
        ({}, "malformed"),
    ]:
        with pytest.raises(CertificateError, match=says):
            checker.derive([bad])
    both = [{"kind": "differ", "string": "ab{4}"}, up_to("ab", 4, [[1, 1], [3, 3]])]
    assert checker.derive(both).differ == ("ab{4}",)
    assert checker.derive(both).first_difference is None  # a, b and c alone are not proved yet
    singles = [up_to(x, 4, [[1], [4]]) for x in "abc"]
    rest = [up_to("ac", 4, [[1, 1], [3, 3]]), up_to("bc", 4, [[1, 1], [3, 3]])]
    three = [[[1, 1, 1], [2, 1, 1]], [[1, 2, 1], [1, 2, 1]], [[1, 1, 2], [1, 1, 2]]]
    rest.append(up_to("abc", 4, *three))
    whole = checker.derive([*both, *singles, *rest])
    assert (whole.agree_through, whole.first_difference, whole.everywhere) == (4, 5, False)
    assert "the two answer every string up to length 4 alike" in whole.sentences
    with pytest.raises(CertificateError, match="list"):
        checker.derive({"kind": "differ"})


def test_all_length_claims_by_hand_are_refused_where_they_fail():
    a, b = planted(4), planted(6)
    checker = AgreementChecker(a, b)
    point = [{"largest": "b", "boxes": [[[], []]]}]
    always = {"kind": "agree_at_all_lengths", "letters": "b", "charts": point}
    assert checker.derive([always]).through["b"] is None
    for charts, says in [
        ([], "one chart per letter"),
        (point * 2, "given twice|one chart per letter"),
        ([{"largest": "b", "boxes": []}], "leave ratios out"),
        ([{"largest": "b", "boxes": [[[0.0], [1.0]]]}], "wrong number of weights"),
        ([{"largest": "b"}], "largest and boxes"),
    ]:
        with pytest.raises(CertificateError, match=says):
            checker.derive([{**always, "charts": charts}])
    # a and b: alike for b up to 3.5 times as many as a, and from 5.5 times on; not in between.
    near = {"largest": "a", "boxes": [[[0.0], [1.0]]]}
    far = {"largest": "b", "boxes": [[[0.0], [0.15]], [[0.15], [1.0]]]}
    claim = {"kind": "agree_at_all_lengths", "letters": "ab", "charts": [near, far]}
    with pytest.raises(CertificateError, match="not proved alike"):
        checker.derive([claim])
    half = {"largest": "a", "boxes": [[[0.0], [0.5]]]}
    with pytest.raises(CertificateError, match="leave ratios out"):
        checker.derive([{**claim, "charts": [half, far]}])
    upside_down = {"largest": "a", "boxes": [[[1.0], [0.0]]]}
    with pytest.raises(CertificateError, match="bad box"):
        checker.derive([{**claim, "charts": [upside_down, far]}])
    tails = AgreementChecker(unfailing(), unfailing())
    assert (
        tails.derive([{"kind": "agree_beyond", "letters": "ab", "length": 64}]).through["ab"] == 1
    )
    with pytest.raises(CertificateError, match="tail bound needs"):
        tails.derive([{"kind": "agree_beyond", "letters": "ab", "length": 1}])
    with pytest.raises(CertificateError, match="log n"):
        tails.derive([always])
    joined = [
        {"kind": "agree_beyond", "letters": "a", "length": 64},
        up_to("a", 63, [[1], [63]]),
    ]
    assert tails.derive(joined).through["a"] is None
    assert tails.derive([joined[0], up_to("a", 62, [[1], [62]])]).through["a"] == 62


def test_fractions_see_every_weight():
    """One unit of the last digit in any weight that matters is another function."""
    checkpoint = random_checkpoint(ClassifierConfig(n_letters=2, d_model=2), 3)
    form = exact_form(checkpoint, (0, 1))
    for name, weight in checkpoint.weights.items():
        for place in np.ndindex(weight.shape):
            if name == "embed.W_E" and place[0] == 1:
                continue  # PAD is read by no one
            bent = weight.copy()
            bent[place] = np.nextafter(bent[place], np.float32(np.inf))
            changed = Checkpoint(checkpoint.config, {**checkpoint.weights, name: bent})
            assert exact_form(changed, (0, 1)) != form, (name, place)
    attends = checkpoint.config.model_copy(update={"attend_cls": True})
    assert exact_form(Checkpoint(attends, checkpoint.weights), (0, 1)) != form
    scaled = checkpoint.config.model_copy(update={"score_scale": "sqrt_d_head_log_n"})
    assert exact_form(Checkpoint(scaled, checkpoint.weights), (0, 1)) != form


def whole_weights() -> Checkpoint:
    """Small whole numbers: coordinate 2 is 1 for all tokens, and neuron 1 adds nothing.

    Both heads write along one coordinate each: 0, which only neuron 0 reads, and 1, which the
    logit and neuron 0 read.
    """
    config = ClassifierConfig(n_letters=2, d_model=3, n_heads=2, d_head=1, d_mlp=2)
    noise = np.random.default_rng(0)
    weights = {
        name: noise.integers(1, 9, shape).astype(np.float32)
        for name, shape in config.weight_shapes().items()
    }
    weights["embed.W_E"][:, 2] = 1
    weights["unembed.W_U"][0] = 0
    weights["blocks.0.attn.W_O"][...] = [[[1, 0, 0]], [[0, 1, 0]]]
    weights["blocks.0.mlp.W_out"][1] = 0
    return Checkpoint(config, weights)


def changed(checkpoint, name, at, by):
    weights = {key: weight.copy() for key, weight in checkpoint.weights.items()}
    weights[f"blocks.0.{name}"][at] += by
    return Checkpoint(checkpoint.config, weights)


def test_a_head_that_one_neuron_hears_belongs_to_the_function():
    model = whole_weights()
    model.weights["blocks.0.mlp.W_in"][0, 1] = 0
    for part in ("W_V", "W_Q"):
        other = changed(model, f"attn.{part}", (0, 0, 0), 1)
        assert exact_form(other, (0, 1)) != exact_form(model, (0, 1))


def test_what_only_the_value_of_the_second_letter_changes_belongs_to_the_function():
    model = whole_weights()
    model.weights["blocks.0.attn.W_K"][:, 1] = 0
    model.weights["blocks.0.attn.W_O"][0] = 0  # one head is left
    other = {name: weight.copy() for name, weight in model.weights.items()}
    other["embed.W_E"][FIRST_LETTER + 1, 1] += 1
    forms = [exact_form(one, (0, 1)) for one in (model, Checkpoint(model.config, other))]
    assert forms[0] != forms[1]
    assert forms[0][:3] == forms[1][:3]  # options, score differences and base


def test_what_a_head_adds_for_every_token_may_move_to_another():
    model = changed(whole_weights(), "attn.W_O", (0, 0), [-1, 1, 0])  # as the other head
    moved = changed(changed(model, "attn.W_V", (0, 2), 1), "attn.W_V", (1, 2), -1)
    assert exact_form(moved, (0, 1)) == exact_form(model, (0, 1))
    assert exact_form(changed(moved, "attn.W_V", (1, 2), 2), (0, 1)) != exact_form(model, (0, 1))


@pytest.mark.parametrize("dead", [0, 1])
def test_a_head_that_only_a_silent_neuron_hears_does_not(dead):
    """Neuron 1 reads it and adds nothing; the other head is heard, whichever comes first."""
    model = whole_weights()
    model.weights["blocks.0.attn.W_O"][...] = [[[0, 1, 0]], [[0, 1, 0]]]
    model.weights["blocks.0.attn.W_O"][dead] = [1, 0, 0]
    model.weights["blocks.0.mlp.W_in"][0, 0] = 0
    for part in ("W_V", "W_Q"):
        other = changed(model, f"attn.{part}", (dead, 0, 0), 1)
        assert exact_form(other, (0, 1)) == exact_form(model, (0, 1))
        other = changed(model, f"attn.{part}", (1 - dead, 0, 0), 1)
        assert exact_form(other, (0, 1)) != exact_form(model, (0, 1))


def test_the_time_of_fractions_is_paid_for():
    paid = []
    exact_form(whole_weights(), (0, 1), lambda: paid.append(1))
    assert len(paid) == 2


def test_false_tails_and_other_kinds_of_models_are_refused():
    scaled, plain = unfailing(), planted(4)
    weights = dict(scaled.weights, **{"unembed.W_U": -scaled.weights["unembed.W_U"]})
    opposite = Checkpoint(scaled.config, weights)
    with pytest.raises(CertificateError, match="tail is not proved"):
        AgreementChecker(scaled, opposite).derive(
            [{"kind": "agree_beyond", "letters": "ab", "length": 64}]
        )
    always = {"kind": "agree_at_all_lengths", "letters": "b",
              "charts": [{"largest": "b", "boxes": [[[], []]]}]}  # fmt: skip
    for pair in ((scaled, plain), (plain, scaled)):
        with pytest.raises(CertificateError, match="do not decide scores scaled by log n"):
            AgreementChecker(*pair).derive([always])
    three = random_checkpoint(ClassifierConfig(n_outputs=3), 0)
    for pair in ((three, plain), (plain, three)):
        with pytest.raises(CertificateError, match="more than two classes"):
            AgreementChecker(*pair)


@pytest.mark.parametrize(
    "other",
    [shifted(planted(4), 0.5), with_cancelling_heads(planted(4), 3.0), rescaled(planted(4), 7)],
    ids=["scores shifted", "heads that cancel", "residual rescaled"],
)
def test_the_same_function_in_other_numbers(other):
    found = diff(planted(4), other, max_length=12)
    assert found.same
    assert {claim["kind"] for claim in found.document["claims"]} == {"identical"}


def test_claims_by_hand_about_two_kinds_of_models(monkeypatch):
    a, b = planted(4), planted(6)
    differ = {"kind": "differ", "string": "ab{4}"}
    no_yes = "ab{4}: the first says no, the second yes"
    assert AgreementChecker(a, b).derive([differ]).sentences[0] == no_yes
    yes_no = "ab{4}: the first says yes, the second no"
    assert AgreementChecker(b, a).derive([differ]).sentences[0] == yes_no
    grown = AgreementChecker(unfailing(), unfailing())
    assert grown.derive([{"kind": "agree_beyond", "letters": "a", "length": 2}]).through["a"] == 0
    plain = random_checkpoint(ClassifierConfig(), 1)
    for pair in ((unfailing(), plain), (plain, unfailing())):
        with pytest.raises(CertificateError, match="two models scaled"):
            AgreementChecker(*pair).derive([{"kind": "agree_beyond", "letters": "a", "length": 8}])
    attends = Checkpoint(a.config.replace(attend_cls=True), a.weights)
    charts = [{"largest": "b", "boxes": [[[], []]]}]
    always = {"kind": "agree_at_all_lengths", "letters": "b", "charts": charts}
    with pytest.raises(CertificateError, match="attends to CLS"):
        AgreementChecker(a, attends).derive([always])
    deep = random_checkpoint(ClassifierConfig(n_layers=2), 1)
    for pair in ((plain, deep), (deep, plain)):
        with pytest.raises(CertificateError, match="only one-layer"):
            AgreementChecker(*pair).derive([{"kind": "identical", "letters": "a"}])
    for document in ([], None, "certificate", 7):
        with pytest.raises(CertificateError, match="JSON object"):
            check_agreement(document, a, b)
    with pytest.raises(CertificateError, match="alphabets"):
        AgreementChecker(a, random_checkpoint(ClassifierConfig(n_letters=2), 1))
    with pytest.raises(CertificateError, match="positions"):
        AgreementChecker(a, random_checkpoint(ClassifierConfig(n_positions=9), 1))
    document = diff(a, b, max_length=5, limit=20).document
    with pytest.raises(CertificateError, match="within 0 seconds"):
        check_agreement(document, a, b, seconds=0)
    monkeypatch.setattr("tsc_interp.verification.checker.box_claims.MAX_BOXES", 3)
    halves = [[[1], [2]], [[3], [4]]]
    with pytest.raises(CertificateError, match="too many"):
        AgreementChecker(a, b).derive([up_to("a", 4, *halves), up_to("b", 4, *halves)])
    AgreementChecker(a, b).derive([up_to("a", 4, *halves)])


def test_claims_by_hand_alike_is_one_side_of_zero_for_both():
    checker = AgreementChecker(planted(4), planted(6))
    wide, unknown = arb(0, 1), arb("nan")
    for pair, expected in [
        ((arb(1), arb(2)), True), ((arb(-1), arb(-2)), True), ((arb(0), arb(-2)), True),
        ((arb(1), arb(-1)), False), ((arb(-1), arb(1)), False), ((arb(1), arb(0)), False),
        ((arb(1), wide), False), ((wide, arb(-1)), False), ((unknown, arb(1)), False),
        ((arb(-1), unknown), False), ((unknown, unknown), False),
    ]:  # fmt: skip
        assert checker.alike(pair) is expected, pair


def test_claims_by_hand_that_contradict_each_other(monkeypatch):
    """True claims cannot; should a bound ever be wrong, the conclusion is still refused."""
    a, b = planted(4), planted(6)
    checker = AgreementChecker(a, b)
    monkeypatch.setattr(checker, "alike", lambda logits: True)
    differ = {"kind": "differ", "string": "ab{4}"}
    for length in (5, 6):
        with pytest.raises(CertificateError, match="alike and different"):
            checker.derive([differ, up_to("ab", length, [[1, 1], [6, 6]])])
    checker.derive([differ, up_to("ab", 4, [[1, 1], [6, 6]])])


def test_claims_by_hand_at_the_edges(monkeypatch):
    a, b = planted(4), planted(6)
    document = diff(a, b, max_length=5, limit=20).document
    with pytest.raises(CertificateError, match="exactly the fields"):
        check_agreement(forged(document, extra=1), a, b)
    checker = AgreementChecker(a, b)
    charts = [{"largest": "b", "boxes": [[[], []]]}]
    some = checker.derive([{"kind": "agree_at_all_lengths", "letters": "b", "charts": charts}])
    assert some.through["b"] is None
    assert not some.everywhere
    flat = [{"largest": x, "boxes": [[[0.0], [1.0]], [[0.5], [0.5]]]} for x in "bc"]
    with pytest.raises(CertificateError, match="bad box"):
        checker.derive([{"kind": "agree_at_all_lengths", "letters": "bc", "charts": flat}])
    attend = [Checkpoint(m.config.replace(attend_cls=True), m.weights) for m in (a, a)]
    charts = [{"largest": "b", "boxes": [[[0.0], [1.0]]]}]
    claim = {"kind": "agree_at_all_lengths", "letters": "b", "charts": charts}
    assert AgreementChecker(*attend).derive([claim]).through["b"] is None
    tails = [{"kind": "agree_beyond", "letters": "a", "length": n} for n in (64, 32)]
    grown = AgreementChecker(unfailing(), unfailing())
    for order in (tails, tails[::-1]):
        assert grown.derive([*order, up_to("a", 31, [[1], [31]])]).through["a"] is None
    monkeypatch.setattr("tsc_interp.verification.checker.box_claims.MAX_BOXES", 2)
    assert checker.derive([up_to("a", 4, [[1], [2]], [[3], [4]])]).through["a"] == 4
