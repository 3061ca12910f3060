"""The float32 claim in certificates: derived by the checker with a rounding bound of its own.

The judge of what is accepted is torch itself, its sums in many orders, and the search's bound,
which shares no code with the checker's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx

import tsc_interp as tsc
from tests.verification.models import hand_built, planted, random_checkpoint, small_vectors
from tests.verification.test_classes import SEVERAL, mutated
from tests.verification.test_float32 import (
    ROUNDED,
    computed,
    near_tie,
    shuffled,
    some_equal_outputs,
)
from tsc_interp.checkpoints import Checkpoint, load_checkpoint
from tsc_interp.cli import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_counts, from_tokens
from tsc_interp.rules import ContainsAll, Maximum
from tsc_interp.verification import CertificateError, check
from tsc_interp.verification.bounds.exact import ExactModel
from tsc_interp.verification.bounds.rounding import Rounding
from tsc_interp.verification.bounds.supports import Supports
from tsc_interp.verification.checker.check import Checker
from tsc_interp.verification.checker.document import digest
from tsc_interp.verification.checker.float32 import beyond
from tsc_interp.verification.checker.model import BoxModel
from tsc_interp.verification.float32 import certainty, float32_answers, float32_horizon

FORMS = ("tokens", "compressed")
CLASSES = [c for c in SEVERAL if c.n_layers == 1 and not c.has_norm]


# -- the bound -------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [*ROUNDED, *CLASSES[:3]], ids=lambda config: config.key()[:6])
def test_two_derivations_of_the_bound_agree(config: ClassifierConfig) -> None:
    """Search in float64, checker in balls, each written from the mathematics."""
    for seed, scale in enumerate([1.0, 4.0, 16.0, 1e-36]):  # the last: what underflows decides
        checkpoint = random_checkpoint(config, seed, scale)
        ours, theirs = Rounding(checkpoint), BoxModel(checkpoint).rounding
        for length in (1, 2, 5, 13, 900, 10**6):
            for form in FORMS:
                room = float(theirs.room(length, form))
                bound = ours.bound(length, form)  # type: ignore[arg-type]
                assert room == pytest.approx(bound, rel=2e-6) or (
                    np.isnan(room) and bound == np.inf
                )
                assert not room > bound


@pytest.mark.parametrize("config", ROUNDED[::3], ids=lambda config: config.key()[:6])
def test_no_order_of_sums_leaves_the_checkers_room(config: ClassifierConfig) -> None:
    rng = np.random.default_rng(7)
    for seed in range(3):
        checkpoint = random_checkpoint(config, seed, scale=float(rng.choice([0.5, 2, 4])))
        exact, rounding = ExactModel(checkpoint), BoxModel(checkpoint).rounding
        for most in (1, 40, 700):
            counts = rng.integers(0, most + 1, config.n_letters)
            counts[0] += 1
            with ctx.workprec(200):
                truth = exact.logit(counts.tolist())
            for _ in range(3):
                found = computed(shuffled(checkpoint, rng), counts.tolist(), rng)
                for form, value in zip(FORMS, found, strict=True):
                    room = rounding.room(int(counts.sum()), form)
                    assert abs(float(truth - value)) <= float(room)


def test_rooms_hold_for_shorter_strings_and_end_where_sums_do() -> None:
    rounding = BoxModel(load_checkpoint("walkthrough")).rounding
    rooms = [float(rounding.room(n, "tokens")) for n in range(1, 70)]
    assert rooms == sorted(rooms)
    assert not rounding.room(2**22, "tokens").is_finite()
    assert rounding.room(2**40, "compressed").is_finite()


def test_the_log_of_a_count_is_rounded_once() -> None:
    """The compressed form's bound has room for 4 u of it, not for the 8 u of a float32 log."""
    config = load_checkpoint("walkthrough").config
    assert from_counts(config, np.array([[1, 2, 3]])).multiplicity.dtype == torch.float64


# -- what is accepted ------------------------------------------------------------------------------


def refuted(checkpoint: Checkpoint, claim: dict[str, Any]) -> bool:
    """Whether a string contradicts a float32 claim, by the search's own bound."""
    config, supports, rounding = checkpoint.config, Supports(checkpoint), Rounding(checkpoint)
    if claim["kind"] == "float32_wrong":
        rows = [config.alphabet.counts(claim["string"])]
        wanted = "wrong"
    else:
        rows = [row for row in small_vectors(config.n_letters, min(claim["length"], 7))
                if config.alphabet.write(row)[0] in claim["letters"]
                and {config.alphabet.letters[i] for i in np.flatnonzero(row)}
                == set(claim["letters"])]  # fmt: skip
        wanted = "right"
    for row in rows:
        found = float32_answers(checkpoint, config.alphabet.write(row), form=claim["form"])[0]
        assert found.bound == rounding.bound(int(row.sum()), claim["form"])
        if found.certainty != wanted:
            return True
    assert supports.config is config
    return False


def forged(config: ClassifierConfig) -> Iterator[dict[str, Any]]:
    letters = config.alphabet.letters
    for form in FORMS:
        for chosen in (letters[0], letters[-1], letters[:2], letters):
            size = len(chosen)
            for length in (size, 5):
                box = [[1] * size, [max(length - size + 1, 1)] * size]
                point = [[1] * size, [1] * size]
                for boxes in ([box], [point]):
                    yield {"kind": "float32_right_up_to", "form": form, "letters": chosen,
                           "length": length, "boxes": boxes}  # fmt: skip
            answers = range(config.n_outputs + 1) if config.n_outputs > 2 else [None]
            for answer in answers:
                told = {} if answer is None else {"answer": answer}
                yield {"kind": "float32_wrong", "form": form, "string": chosen, **told}


@pytest.mark.parametrize("config", [*ROUNDED[::4], *CLASSES[:3]], ids=lambda c: c.key()[:6])
def test_what_is_accepted_is_true(config: ClassifierConfig) -> None:
    accepted = set()
    for scale in (1.0, 1e-3, 3.0):
        checkpoint = random_checkpoint(config, 2, scale)
        checker = Checker(checkpoint)
        for claim in forged(config):
            try:
                checker.derive([claim])
            except CertificateError:
                continue
            accepted.add(claim["kind"])
            assert not refuted(checkpoint, claim), claim
    assert "float32_wrong" in accepted


@pytest.mark.parametrize("config", [ROUNDED[0], ROUNDED[-1], CLASSES[0]], ids=lambda c: c.key()[:6])
def test_certified_is_right_in_torch(config: ClassifierConfig) -> None:
    rng = np.random.default_rng(3)
    for seed in (0, 1, 3):
        checkpoint = random_checkpoint(config, seed)
        for form, at in zip(FORMS, (0, 1), strict=True):
            certificate = tsc.certify(checkpoint, limit=6, float32=form)  # type: ignore[arg-type]
            document = json.loads(json.dumps(certificate.document))
            proved = check(document, checkpoint)
            assert certificate.float32 is not None
            derived = proved.float32.get(form)
            assert certificate.float32.safe_through == (derived.safe_through if derived else 0)
            if derived is None or config.n_outputs > 1:
                continue
            assert certificate.float32.proved
            for row in small_vectors(config.n_letters, min(derived.safe_through, 4)).tolist():
                says = computed(shuffled(checkpoint, rng), row, rng)[at] > 0
                assert says == bool(config.task.labels(np.array(row)))
            if derived.first_wrong is not None:
                row = config.alphabet.counts(derived.first_wrong).tolist()
                says = {computed(shuffled(checkpoint, rng), row, rng)[at] > 0 for _ in range(5)}
                assert says == {not config.task.labels(np.array(row))}


def test_classes_in_torch() -> None:
    """The largest of several outputs, computed apart: what is safe is answered right."""
    for config in CLASSES[:3]:
        for seed in range(3):
            checkpoint = random_checkpoint(config, seed)
            weights = {name: torch.from_numpy(w) for name, w in checkpoint.weights.items()}
            for row in small_vectors(config.n_letters, 3):
                string = config.alphabet.write(row)
                (found,) = float32_answers(checkpoint, string)
                given = tsc.load(checkpoint).tokens(config.alphabet.expand(string))
                with torch.no_grad():
                    answer = int(forward(config, weights, from_tokens(config, given))[0].argmax())
                if found.certainty != "depends on rounding":
                    assert (answer == found.label) == (found.certainty == "right")


def test_the_walk_through_model() -> None:
    certificate = tsc.certify("walkthrough", float32="tokens")
    assert certificate.document["schema"] == "tsc-interp/certificate/2"
    stated = certificate.document["conclusion"]["float32"]
    assert stated == {"tokens": {"safe_through": 2151, "first_wrong": None}}
    assert certificate.checked.horizon == 2166
    verdict = tsc.verify("walkthrough", 5, certify=True, float32="compressed")
    found = verdict.float32_horizon
    assert found is not None
    assert (found.safe_through, found.proved, found.form) == (2165, True, "compressed")
    assert any("is right, proved" in line for _, line in verdict._lines())
    wrong = tsc.certify("generalization-errors", float32="tokens").checked.float32["tokens"]
    assert (wrong.safe_through, wrong.first_wrong) == (66, "ab{66}")


# -- forgeries -------------------------------------------------------------------------------------


def test_every_field_matters() -> None:
    """Whatever is changed is refused, or says something that is just as true."""
    checkpoint = planted(2, c_score=-1.0)
    document = json.loads(json.dumps(tsc.certify(checkpoint, limit=6, float32="tokens").document))
    kinds = [claim["kind"] for claim in document["claims"]]
    assert "float32_right_up_to" in kinds
    checker, refused, total = Checker(checkpoint), 0, 0
    for other in mutated(document):
        if not isinstance(other, dict):
            continue
        total += 1
        try:
            checker.check({**other, "digest": digest(other)})
        except CertificateError:
            refused += 1
            continue
        assert other["conclusion"] == document["conclusion"]
        for claim in other["claims"]:
            assert "float32" not in claim["kind"] or not refuted(checkpoint, claim)
    assert refused > 0.9 * total > 50


def resealed(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    changed = {**document, **changes}
    return {**changed, "digest": digest(changed)}


def test_a_document_cannot_bring_its_own_bound_or_schema() -> None:
    checkpoint = load_checkpoint("walkthrough")
    document = tsc.certify(checkpoint, float32="tokens").document
    assert check(document, checkpoint)
    claims = document["claims"]
    at = next(i for i, claim in enumerate(claims) if claim["kind"] == "float32_right_up_to")
    for more in ({"bound": 0.0}, {"room": 1e-9}):
        forged = [*claims[:at], {**claims[at], **more}, *claims[at + 1 :]]
        with pytest.raises(CertificateError, match="needs fields"):
            check(resealed(document, claims=forged), checkpoint)
    with pytest.raises(CertificateError, match="schema of such claims"):
        check(resealed(document, schema="tsc-interp/certificate/1"), checkpoint)
    real = tsc.certify(checkpoint).document
    with pytest.raises(CertificateError, match="schema of such claims"):
        check(resealed(real, schema="tsc-interp/certificate/2"), checkpoint)
    for form in ("bf16", None, ["tokens"]):
        forged = [*claims[:at], {**claims[at], "form": form}, *claims[at + 1 :]]
        with pytest.raises(CertificateError, match="the form is one of"):
            check(resealed(document, claims=forged), checkpoint)


def test_real_boxes_do_not_do_for_float32() -> None:
    """Right over the reals to 2,166 letters: the same boxes, claimed of float32, are refused."""
    checkpoint = load_checkpoint("walkthrough")
    claims = tsc.certify(checkpoint).document["claims"]
    real = next(c for c in claims if c["kind"] == "right_up_to" and c["letters"] == "abc")
    for form in FORMS:
        claim = {**real, "kind": "float32_right_up_to", "form": form}
        with pytest.raises(CertificateError, match="not proved right in float32"):
            Checker(checkpoint).derive([claim])
    # Each string alone: what is beyond the bound is accepted, what is within is not.
    for c, form, safe in ((2149, "tokens", True), (2150, "tokens", False),
                          (2163, "compressed", True), (2164, "compressed", False)):  # fmt: skip
        assert Checker(checkpoint).is_safe(form, 10**6, (0, 1, 2), (1, 1, c), (1, 1, c)) == safe


def test_every_set_of_letters_has_to_be_claimed() -> None:
    """Strings over two letters have two at least; what is not claimed is not safe."""
    checkpoint = load_checkpoint("walkthrough")
    single = [
        {"kind": "float32_right_up_to", "form": "tokens", "letters": letter, "length": 1,
         "boxes": [[[1], [1]]]}
        for letter in "abc"
    ]  # fmt: skip
    both = {**single[0], "letters": "ab", "length": 2, "boxes": [[[1, 1], [1, 1]]]}
    checker = Checker(checkpoint)
    assert checker.derive([both]).float32["tokens"].safe_through == 0
    assert checker.derive([*single[:2], both]).float32["tokens"].safe_through == 0
    assert checker.derive(single).float32["tokens"].safe_through == 1
    assert checker.derive([*single, both]).float32["tokens"].safe_through == 1
    assert not checker.derive([*single, both]).verified_length["a"]


def test_the_first_of_the_wrong_strings_is_claimed_so() -> None:
    checkpoint = load_checkpoint("generalization-errors")
    wrong = [{"kind": "float32_wrong", "form": "tokens", "string": s}
             for s in ("ab{67}", "ab{66}", "ab{66}c")]  # fmt: skip
    for claims in (wrong, wrong[::-1]):
        found = Checker(checkpoint).derive(claims).float32
        assert found["tokens"].first_wrong == "ab{66}"
        assert found.keys() == {"tokens"}
    # Of 68 letters both: the one with more of the earlier letters.
    for claims in ([wrong[0], wrong[2]], [wrong[2], wrong[0]]):
        assert Checker(checkpoint).derive(claims).float32["tokens"].first_wrong == "ab{67}"


def test_an_answer_is_one_of_the_outputs_and_the_claimed_one() -> None:
    config = CLASSES[0]
    checkpoint = random_checkpoint(config, 1)
    checker = Checker(checkpoint)
    answer = Supports(checkpoint).exact.answer([1, 0, 0])
    for kind in ("wrong", "float32_wrong"):
        form = {"form": "tokens"} if kind == "float32_wrong" else {}
        claim = {"kind": kind, "string": "a", **form}
        assert checker.derive([{**claim, "answer": answer}])
        for other in range(config.n_outputs):
            if other != answer:
                with pytest.raises(CertificateError, match="not proved"):
                    checker.derive([{**claim, "answer": other}])
        for none in (config.n_outputs, config.n_outputs + 5):
            with pytest.raises(CertificateError, match="no output for"):
                checker.derive([{**claim, "answer": none}])


def test_beyond_is_strict_where_zero_would_be_another_answer() -> None:
    """A computed zero counts as negative: a logit as large as the bound may become one."""
    one = arb(1)
    for wins_ties in (True, False):
        assert beyond(one * 2, one, wins_ties)
        assert beyond(one, one, wins_ties) == wins_ties
        assert not beyond(one * 0, one, wins_ties)
        assert not beyond(arb("nan"), one, wins_ties)
        assert not beyond(one * 9, arb("nan"), wins_ties)


def test_right_and_wrong_at_once_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = load_checkpoint("generalization-errors")
    wrong = {"kind": "float32_wrong", "form": "tokens", "string": "ab{66}"}
    assert Checker(checkpoint).derive([wrong]).float32["tokens"].first_wrong == "ab{66}"
    monkeypatch.setattr("tsc_interp.verification.checker.float32.beyond", lambda *_: True)
    claim = {"kind": "float32_right_up_to", "form": "tokens", "letters": "ab", "length": 67,
             "boxes": [[[1, 1], [66, 66]]]}  # fmt: skip
    with pytest.raises(CertificateError, match="right and wrong in float32"):
        Checker(checkpoint).derive([wrong, claim])
    assert Checker(checkpoint).derive(
        [wrong, {**claim, "length": 66, "boxes": [[[1, 1], [65, 65]]]}]
    )


# -- near ties -------------------------------------------------------------------------------------


def summed(values: list[float]) -> Checkpoint:
    """No attention, no MLP: the logit is the sum of these, whatever the string."""
    config = ClassifierConfig(
        n_letters=1, task=ContainsAll(letters="a"), n_heads=0, d_mlp=0, d_model=len(values)
    )
    weights = {"embed.W_E": np.zeros((3, len(values)), np.float32)}
    weights["embed.W_E"][0] = values
    weights["unembed.W_U"] = np.ones((len(values), 1), np.float32)
    return Checkpoint(config, weights)


@pytest.mark.parametrize("small", [2.0**-26, 2.0**-25, -(2.0**-26)])
def test_sums_whose_order_decides_depend_on_rounding(small: float) -> None:
    """1 + s - 1 is s or 0, by the order: torch says both, and no claim is made or accepted."""
    said = set()
    for order in permutations([1.0, small, -1.0, 2 * small]):
        said.add(computed(summed(list(order)), [1], np.random.default_rng(0))[0] > 0)
        (found,) = float32_answers(summed(list(order)), "a")
        assert found.certainty == "depends on rounding"
        assert abs(found.logit) < found.bound
    assert said == ({True, False} if small > 0 else {False})
    checkpoint = summed([1.0, small, -1.0, 2 * small])
    assert float32_horizon(checkpoint, limit=3).safe_through == 0
    assert tsc.horizon(checkpoint, limit=3).length == (None if small > 0 else 0)
    assert tsc.certify(checkpoint, limit=3, float32="tokens").checked.float32 == {}
    checker = Checker(checkpoint)
    for claim in ({"kind": "float32_wrong", "form": "tokens", "string": "a"},
                  {"kind": "float32_right_up_to", "form": "tokens", "letters": "a", "length": 1,
                   "boxes": [[[1], [1]]]}):  # fmt: skip
        with pytest.raises(CertificateError, match="not proved"):
            checker.derive([claim])


def test_no_tie_of_equal_outputs_is_won_in_float32() -> None:
    """torch rounds columns of the same weights apart, where there are 17 of them.

    The label is 1. If outputs 1 to 16 are equal, that is the answer over the reals, where the
    lowest index wins; if output 0 equals 2 to 16, the answer is 0.
    """
    right = {"kind": "right_up_to", "letters": "a", "length": 3, "boxes": [[[1], [3]]]}
    wrong = {"kind": "wrong", "string": "a", "answer": 0}
    for best, claim in ((1, right), (0, wrong)):
        checkpoint = some_equal_outputs(best)
        assert Checker(checkpoint).derive([claim])
        for form in FORMS:
            float32 = {**claim, "kind": f"float32_{claim['kind']}", "form": form}
            with pytest.raises(CertificateError, match="is not proved"):
                Checker(checkpoint).derive([float32])
    certificate = tsc.certify(some_equal_outputs(1), limit=3, float32="tokens")
    assert certificate.checked.float32 == {}


def test_the_order_of_letters_decides_and_is_called_so() -> None:
    """Values 2^24, -2^24 and 1: the same letters in another order give another sign in torch."""
    checkpoint = hand_built(
        [[0.0, 0.0, 0.0]], [[2.0**24, -(2.0**24), 1.0]], 0.25, task=ContainsAll(letters="abc")
    )
    config = checkpoint.config
    weights = {name: torch.from_numpy(w) for name, w in checkpoint.weights.items()}
    rows = torch.tensor([[0, *order] for order in set(permutations([2, 2, 3, 3, 4, 4]))])
    with torch.no_grad():
        says = set((forward(config, weights, from_tokens(config, rows)) > 0).tolist())
    assert says == {True, False}
    (found,) = float32_answers(checkpoint, "aabbcc")
    assert found.certainty == "depends on rounding"
    assert not Checker(checkpoint).is_safe("tokens", 6, (0, 1, 2), (2, 2, 2), (2, 2, 2))


@pytest.mark.parametrize("gap", [1e-7, -1e-7, 3e-7, 1e-2, -1e-2])
def test_near_ties_of_attention(gap: float) -> None:
    checkpoint = near_tie(gap)
    (found,) = float32_answers(checkpoint, "ab")
    safe = Checker(checkpoint).is_safe("tokens", 2, (0, 1), (1, 1), (1, 1))
    assert safe == (found.certainty == "right") == (gap == 1e-2)
    assert found.certainty == certainty(found.logit, True, found.bound)


# -- what is refused -------------------------------------------------------------------------------


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    normed = random_checkpoint(ClassifierConfig(norm="rms", d_model=4, d_mlp=0), 0)
    with pytest.raises(UnsupportedError, match="one layer without norms"):
        tsc.certify(normed, limit=3, float32="tokens")
    with pytest.raises(CertificateError, match="one layer without norms"):
        Checker(normed).derive([{"kind": "float32_wrong", "form": "tokens", "string": "a"}])
    with pytest.raises(UsageError, match="'tokens' or 'compressed'"):
        tsc.certify("walkthrough", limit=3, float32="both")  # type: ignore[arg-type]
    assert main(["verify", "-L", "3", "--float32", "tokens"]) == 2
    assert "--certify" in capsys.readouterr().err
    out = tmp_path / "float32.json"
    assert main(["verify", "-L", "3", "--certify", "--float32", "tokens", "-o", str(out)]) == 0
    assert "is right, proved" in " ".join(capsys.readouterr().out.split())
    assert main(["verify", "--check", str(out)]) == 0
    assert "in float32 (tokens, any order of sums)" in capsys.readouterr().out


def test_several_classes_are_certified() -> None:
    config = ClassifierConfig(task=Maximum(), n_letters=2, n_outputs=3, d_model=3, n_heads=1)
    for seed in range(4):
        checkpoint = random_checkpoint(config, seed, 1.0)
        certificate = tsc.certify(checkpoint, limit=5, float32="tokens")
        assert check(certificate.document, checkpoint) == certificate.checked
        for claim in certificate.document["claims"]:
            assert "float32" not in claim["kind"] or not refuted(checkpoint, claim)
