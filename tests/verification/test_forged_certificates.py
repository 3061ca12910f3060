"""Forgeries: claims of every kind, with false content, on every kind of model.

The checker may reject what is true. What it accepts must be true, and the judge of that is
`tests/verification/precise.py`, which shares nothing with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import POSITIONED
from tests.sizes import many
from tests.verification import precise
from tests.verification.models import WIDER, hand_built, planted, random_checkpoint, unfailing
from tsc_interp import certify
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import AtLeast, ContainsAll, Majority, Parity
from tsc_interp.verification import CertificateError, check, read_certificate
from tsc_interp.verification.checker.check import Checker
from tsc_interp.verification.checker.coverage import covered
from tsc_interp.verification.checker.document import digest

KINDS = [
    *WIDER,
    ClassifierConfig(d_model=2, norm="layer"),
    ClassifierConfig(d_model=2, norm="rms", n_layers=2),
    ClassifierConfig(d_model=3, norm="rms", attend_cls=True, n_letters=2),
    ClassifierConfig(n_layers=4, n_letters=2),
]


def stretched(config: ClassifierConfig, seed: int, scale: float, values: float) -> Checkpoint:
    """Random weights, and values so large that boxes of states become wide."""
    weights = {
        name: w * np.float32(values) if name.endswith("W_V") else w
        for name, w in random_checkpoint(config, seed, scale).weights.items()
    }
    return Checkpoint(config, weights)


def supports(config: ClassifierConfig) -> list[str]:
    """Up to two letters each, and all of them."""
    letters = config.alphabet.letters
    small = ["".join(f) for k in (1, 2) for f in combinations(letters[:3], k) if k <= len(letters)]
    return list(dict.fromkeys([*small, letters]))


def vectors(config: ClassifierConfig, letters: str, counts: tuple[int, ...]) -> Iterator[list[int]]:
    every = list(product(counts, repeat=len(letters)))
    for picked in every[:: 1 + len(every) // 12]:
        full = [0] * config.n_letters
        for letter, count in zip(letters, picked, strict=True):
            full[config.alphabet.index(letter)] = count
        yield full


def is_wrong(checkpoint: Checkpoint, counts: list[int]) -> bool:
    """By the oracle, where it is sure."""
    sign, label = precise.sign(checkpoint, counts), checkpoint.config.task.labels(np.array(counts))
    return sign is not None and (sign > 0) != bool(label)


def forged_claims(config: ClassifierConfig) -> Iterator[dict[str, Any]]:
    """Everything one would like to be true, each in a few boxes.

    A small box that may well be right comes before the one that holds everything: a checker that
    forgets an indeterminate bound forgets the second.
    """
    for letters in supports(config):
        size = len(letters)
        free = size - 1 + int(config.attend_cls)
        label = config.task.label_of_support(frozenset(letters))
        whole = [[0.0] * free, [1.0] * free]
        for at in (None, 0.0, 0.5, 1 - 2**-20):
            first = [] if at is None else [[[at] * free, [at + 2**-20] * free]]
            charts = [{"largest": letter, "boxes": [*first, whole]} for letter in letters]
            bound = 1e-9 if label else 0.0
            yield {"kind": "right_at_all_lengths", "letters": letters, "bound": bound,
                   "charts": charts}  # fmt: skip
        for length in (5, 10**6):
            box = [[1] * size, [max(length - size + 1, 1)] * size]
            point = [[1] * size, [1] * size]
            for boxes in ([box], [point, box]):
                yield {"kind": "right_up_to", "letters": letters, "length": length, "boxes": boxes}
        for length in (2, 10**6):
            yield {"kind": "right_beyond", "letters": letters, "length": length}
        for letter in letters:
            yield {"kind": "limit", "letter": letter, "letters": letters}
    for letters in supports(config)[:4]:
        for counts in vectors(config, letters, (1,)):
            yield {"kind": "wrong", "string": config.alphabet.write(counts)}


def contradicted(checkpoint: Checkpoint, claim: dict[str, Any]) -> list[int] | None:
    """A vector on which the oracle contradicts a claim."""
    config = checkpoint.config
    if claim["kind"] == "wrong":
        counts = config.alphabet.counts(claim["string"]).tolist()
        sign, label = precise.sign(checkpoint, counts), config.task.labels(np.array(counts))
        return counts if sign is not None and (sign > 0) == bool(label) else None
    if claim["kind"] == "limit":
        # One letter against a million of the other: near the limit, one of the two is wrong.
        many = {claim["letter"]: 10**40}
        pair = [
            [many.get(letter, 1) if letter in letters else 0 for letter in config.alphabet.letters]
            for letters in (claim["letter"], claim["letters"])
        ]
        signs = [precise.sign(checkpoint, counts) for counts in pair]
        return pair[0] if None not in signs and signs[0] != signs[1] else None
    lengths = {
        "right_at_all_lengths": (0, np.inf),
        "right_up_to": (0, claim.get("length")),
        "right_beyond": (claim.get("length"), np.inf),
    }[claim["kind"]]
    for counts in vectors(config, claim["letters"], (1, 2, 4, 55, 10**7)):
        if lengths[0] <= sum(counts) <= lengths[1] and is_wrong(checkpoint, counts):
            return counts
    return None


def model_for(config: ClassifierConfig, seed: int) -> list[Checkpoint]:
    return [random_checkpoint(config, seed, 1.0), stretched(config, seed, 1.0, 1e5)]


@pytest.mark.parametrize("config", KINDS, ids=range(len(KINDS)))
def test_what_is_accepted_is_true(config: ClassifierConfig) -> None:
    accepted = 0
    for checkpoint in model_for(config, 2):
        checker = Checker(checkpoint)
        for claim in forged_claims(config):
            try:
                checker.derive([claim])
            except CertificateError:
                continue
            accepted += 1
            assert contradicted(checkpoint, claim) is None, claim
    assert accepted


@pytest.mark.parametrize(
    ("config", "seed", "values", "letters", "at", "wrong"),
    [
        (ClassifierConfig(d_model=2, norm="layer"), 0, 1e6, "ab", 0.5, [4, 1, 0]),
        (ClassifierConfig(d_model=2, norm="layer"), 4, 1e6, "abc", 1 - 2**-20, [2, 3, 1]),
        (ClassifierConfig(d_model=2, norm="rms", n_layers=2), 2, 1e4, "ac", 1 - 2**-20, [2, 0, 1]),
        (ClassifierConfig(d_model=3, norm="rms", attend_cls=True, n_letters=2), 2, 1e4, "ab", 0.5,
         [1, 3]),
    ],
)  # fmt: skip
def test_a_norm_that_is_not_known_over_a_box_proves_nothing(
    config: ClassifierConfig, seed: int, values: float, letters: str, at: float, wrong: list[int]
) -> None:
    """Found by search: each of these was accepted once, and each is false."""
    checkpoint = stretched(config, seed, 1.0, values)
    assert is_wrong(checkpoint, wrong)
    label = config.task.label_of_support(frozenset(letters))
    free = len(letters) - 1 + int(config.attend_cls)
    boxes = [[[at] * free, [at + 2**-20] * free], [[0.0] * free, [1.0] * free]]
    claim = {
        "kind": "right_at_all_lengths",
        "letters": letters,
        "bound": 1e-9 if label else 0.0,
        "charts": [{"largest": letter, "boxes": boxes} for letter in letters],
    }
    with pytest.raises(CertificateError, match="not proved"):
        Checker(checkpoint).derive([claim])


# -- certify itself --------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e9])
def test_certify_ends_and_tells_the_truth(scale: float) -> None:
    """Large weights, deep models: no crash, no contradiction, and no claim that is false."""
    for config in (ClassifierConfig(), KINDS[-1], ClassifierConfig(norm="rms", n_letters=2),
                   ClassifierConfig(score_scale="sqrt_d_head_log_n", attend_cls=True)):  # fmt: skip
        for seed in (1,):
            checkpoint = random_checkpoint(config, seed, scale)
            certificate = certify(checkpoint, limit=many(12, 25), boxes=many(100, 300))
            again = check(json.loads(json.dumps(certificate.document)), checkpoint)
            assert again == certificate.checked
            assert not (again.infinite and again.finite)
            assert certificate.horizon.infinite == again.infinite
            for claim in certificate.document["claims"]:
                assert contradicted(checkpoint, claim) is None, (config, seed, claim["kind"])


def test_models_with_positions_are_refused_whatever_the_certificate() -> None:
    """The same letters, weights that fit, the hash exchanged: order decides, so counts cannot."""
    checkpoint = random_checkpoint(POSITIONED, 0)
    plain = ClassifierConfig(**{**POSITIONED.to_dict(), "n_positions": 0})
    weights = {n: w for n, w in checkpoint.weights.items() if n != "pos_embed.W_pos"}
    document = {**certify(Checkpoint(plain, weights), limit=50).document}
    document["weight_hash"] = checkpoint.weight_hash()
    document["digest"] = digest(document)
    with pytest.raises(CertificateError, match="positions"):
        check(document, checkpoint)


# -- words are the checker's -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "task", [AtLeast(letter="a", k=2), Majority(letter="b"), Parity(letter="a"), ContainsAll()]
)
def test_proved_is_what_the_checker_returned(task: Any) -> None:
    """Object, document, sentences and terminal agree, for tasks of every kind."""
    for seed in (0, 1):
        checkpoint = random_checkpoint(ClassifierConfig(task=task), seed)
        certificate = certify(checkpoint, limit=60)
        known, checked = certificate.horizon, check(certificate.document, checkpoint)
        assert certificate.document["conclusion"]["horizon"] == checked.horizon
        assert known.proved == (checked.infinite or checked.horizon is not None)
        if known.proved:
            assert known.length == checked.horizon == known.verified_length
            assert f"the horizon is {known.length}" in checked.sentences
        for support in known.by_letters:
            end = checked.verified_length[support.letters]
            assert support.verified_length == (60 if end is None else end)
            assert support.shortest is None or support.shortest.string in checked.wrong
        said = " ".join(sentence for _, sentence in known.lines())
        assert known.proved or "Horizon: at most" in said or "Horizon: at least" in said


def test_what_the_checker_cannot_follow_is_not_called_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The search is right, the checker refuses every box: nothing is proved but the error."""
    real = Checker.derive

    def stubborn(self: Checker, claims: Any) -> Any:
        if any(claim["kind"].startswith("right") for claim in claims):
            raise CertificateError("rejected: on principle")
        return real(self, claims)

    monkeypatch.setattr(Checker, "derive", stubborn)
    monkeypatch.setattr(Checker, "is_right", lambda *_: False)
    known = certify(planted(6, c_score=-1.0)).horizon
    assert known.complete
    assert not known.proved
    assert (known.length, known.verified_length) == (6, 0)


# -- coverage --------------------------------------------------------------------------------------


def free_of_charge(held: int) -> None:
    return None


CORNERS = st.tuples(st.integers(1, 5), st.integers(1, 5))


@settings(max_examples=300)
@given(
    st.integers(1, 3).flatmap(
        lambda size: st.tuples(
            st.just(size),
            st.lists(st.lists(CORNERS, min_size=size, max_size=size), max_size=6),
        )
    ),
    st.integers(1, 9),
)
def test_coverage_of_counts_by_brute_force(
    drawn: tuple[int, list[list[tuple[int, int]]]], length: int
) -> None:
    size, corners = drawn
    boxes = [([min(p) for p in one], [max(p) + 1 for p in one]) for one in corners]
    points = [p for p in product(range(1, length + 1), repeat=size) if sum(p) <= length]
    expected = all(
        any(all(a <= x < b for x, a, b in zip(p, *box, strict=True)) for box in boxes)
        for p in points
    )
    whole = ([1] * size, [max(length - size + 2, 1)] * size)
    assert covered(whole, boxes, length, free_of_charge) == expected


@given(st.lists(st.tuples(CORNERS, CORNERS), max_size=8))
def test_coverage_of_ratios_by_brute_force(corners: list[Any]) -> None:
    """On a grid of fifths a half-open box is a set of cells."""
    boxes = [([(min(p) - 1) / 5 for p in one], [max(p) / 5 for p in one]) for one in corners]
    cells = product(range(5), repeat=2)
    expected = all(
        any(
            all(a <= (c + 0.5) / 5 < b for c, a, b in zip(cell, *box, strict=True)) for box in boxes
        )
        for cell in cells
    )
    assert covered(([0.0, 0.0], [1.0, 1.0]), boxes, None, free_of_charge) == expected


def test_thousands_of_strips_are_no_deep_recursion() -> None:
    strips = [([i, 1], [i + 1, 2001]) for i in range(1, 2001)]
    whole = ([1, 1], [2001, 2001])
    assert covered(whole, strips, 2001, free_of_charge)
    assert not covered(whole, strips[:999] + strips[1000:], 2001, free_of_charge)


def test_each_piece_of_coverage_is_paid_for() -> None:
    """Four quarters: the whole, two halves and four quarters are looked at, and no more."""
    quarters = [([x, y], [x + 1, y + 1]) for x in (0, 1) for y in (0, 1)]
    paid: list[int] = []
    assert covered(([0, 0], [2, 2]), quarters, None, paid.append)
    assert len(paid) == 7
    # Boxes beside the piece are no reason to cut it: a staircase far away costs nothing.
    beside = [([x, y], [x + 1, y + 2]) for x in range(2, 9) for y in range(-3, 9)]
    paid.clear()
    assert covered(([0, 0], [2, 2]), [*quarters, *beside], None, paid.append)
    assert len(paid) == 7


# -- costs -----------------------------------------------------------------------------------------


def sealed(checkpoint: Checkpoint, claims: list[dict[str, Any]]) -> dict[str, Any]:
    conclusion = {"horizon": None, "infinite": False, "finite": False, "negative_faces": {}}
    document = {
        "schema": "tsc-interp/certificate/1",
        "weight_hash": checkpoint.weight_hash(),
        "claims": claims,
        "conclusion": conclusion,
    }
    return {**document, "digest": digest(document)}


def test_many_letters_are_refused_before_any_work() -> None:
    for letters in (13, 23, 26):
        checkpoint = random_checkpoint(ClassifierConfig(n_letters=letters), 0)
        with pytest.raises(CertificateError, match="at most 12 letters"):
            check(sealed(checkpoint, []), checkpoint)


def test_large_models_are_refused_before_any_work() -> None:
    checkpoint = random_checkpoint(ClassifierConfig(d_model=512, d_mlp=512), 0)
    with pytest.raises(CertificateError, match="parameters"):
        check(sealed(checkpoint, []), checkpoint)


def test_the_checker_stops_when_its_time_is_up() -> None:
    checkpoint = planted(6, c_score=-1.0)
    with pytest.raises(CertificateError, match="not checked within 1e-09 seconds"):
        check(certify(checkpoint).document, checkpoint, seconds=1e-9)
    # Twelve letters in one box: a wide support, still quick.
    config = ClassifierConfig(n_letters=12)
    wide = random_checkpoint(config, 0)
    box = [[1] * 12, [9] * 12]
    claim = {
        "kind": "right_up_to",
        "letters": config.alphabet.letters,
        "length": 20,
        "boxes": [box],
    }
    with pytest.raises(CertificateError, match="rejected"):
        check(sealed(wide, [claim]), wide, seconds=60)


def test_too_many_boxes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = planted(6, c_score=-1.0)
    monkeypatch.setattr("tsc_interp.verification.checker.box_claims.MAX_BOXES", 3)
    with pytest.raises(CertificateError, match="more than 3 boxes"):
        check(certify_document(checkpoint), checkpoint)


def certify_document(checkpoint: Checkpoint) -> dict[str, Any]:
    boxes = [[[1, 1], [1, 1]]] * 4
    return sealed(
        checkpoint, [{"kind": "right_up_to", "letters": "ab", "length": 2, "boxes": boxes}]
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"schema": 1, "schema": 2}', "twice"),
        ('{"claims": [{"kind": "wrong", "kind": "limit"}]}', "twice"),
        ("[NaN]", "NaN"),
        ("[-Infinity]", "Infinity"),
        ("[" * 100_000 + "]" * 100_000, "nested"),
        ("{", "not JSON"),
        ("\xff", "not JSON"),
        ("1" * 5000, "not JSON"),
    ],
)
def test_files_are_read_strictly(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CertificateError, match=reason):
        read_certificate(path)


def test_large_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsc_interp.verification.checker.files.MAX_BYTES", 100)
    path = tmp_path / "certificate.json"
    path.write_text("[" + "1," * 200 + "1]")
    with pytest.raises(CertificateError, match="larger than 100 bytes"):
        read_certificate(path)


def test_deep_documents_are_rejected_not_a_traceback() -> None:
    checkpoint = planted(3)
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    document = {**sealed(checkpoint, []), "claims": nested}
    with pytest.raises(CertificateError):
        check(document, checkpoint)


# -- contradictions --------------------------------------------------------------------------------


def test_right_and_wrong_at_once_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a bound ever be unsound, an error that is exhibited as well still wins."""
    checkpoint = planted(6, c_score=-1.0)
    wrong = {"kind": "wrong", "string": "ab{6}"}
    assert Checker(checkpoint).derive([wrong]).wrong == ("ab{6}",)
    monkeypatch.setattr("tsc_interp.verification.checker.labels.Labels.are_right", lambda *_: True)
    box = [[1, 1], [9, 9]]
    claim = {"kind": "right_up_to", "letters": "ab", "length": 7, "boxes": [box]}
    with pytest.raises(CertificateError, match="right and wrong"):
        Checker(checkpoint).derive([wrong, claim])
    assert Checker(checkpoint).derive([wrong, {**claim, "length": 6}])


def test_a_tail_alone_and_a_gap_before_it_prove_no_infinity() -> None:
    checkpoint = unfailing()
    claims = certify(checkpoint, limit=1000).document["claims"]
    assert Checker(checkpoint).derive(claims).infinite
    for skipped in range(len(claims)):
        rest = [claim for i, claim in enumerate(claims) if i != skipped]
        assert not Checker(checkpoint).derive(rest).infinite


def test_the_limit_needs_a_limit_that_is_not_zero() -> None:
    """Two heads that cancel: the logit is zero everywhere, and a limit of zero says nothing."""
    checkpoint = hand_built([[1, 0, 2]] * 2, [[1, 0, 3], [-1, 0, -3]], 0.0)
    with pytest.raises(CertificateError, match="may be zero"):
        Checker(checkpoint).derive([{"kind": "limit", "letter": "a", "letters": "ab"}])
