"""Sentences about a verdict: 'proved' is said of what the checker derived, and of nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.verification.models import hand_built, planted, unfailing
from tsc_interp import certify, horizon, verify
from tsc_interp.errors import UnsupportedError
from tsc_interp.probes import searched
from tsc_interp.report.reach import reach
from tsc_interp.tasks.counts import AtLeast
from tsc_interp.verification import Horizon, horizons


def said(known: Horizon) -> str:
    return next(sentence for _, sentence in known.lines())


def test_a_proved_horizon() -> None:
    known = horizon(planted(6, c_score=-1.0))
    assert said(known) == (
        "Horizon: 6. Proved: every string up to there is right; the first error is ab{6}."
    )
    assert said(horizon(unfailing(), limit=1000)) == (
        "Horizon: infinite. Proved: no string of any length is wrong."
    )
    # A planted 1 is wrong on the letter itself: its weight never reaches one half.
    single = horizon(hand_built([[0, 0, 0]], [[0, 0, 0]], 1.0, task=AtLeast(letter="a")))
    assert said(single) == "Horizon: 0. Proved: a, a single letter, is already wrong."


def test_a_search_alone_proves_nothing() -> None:
    searched = horizon(planted(6, c_score=-1.0), prove=False)
    assert said(searched) == (
        "Horizon: 6, by a search in float64 with error bounds that the checker did not derive "
        "again; the first error is ab{6}."
    )
    unsettled = replace(searched, complete=False, verified_length=4)
    assert said(unsettled).startswith("Horizon: at most 6, since ab{6} is wrong; at least 4, by a")
    nothing_found = horizon(planted(60), limit=20, prove=False)
    assert said(nothing_found).startswith("Horizon: at least 20, by a search in float64")
    for known in (searched, unsettled, nothing_found):
        assert "proved" not in said(known).lower()


def test_what_the_checker_cut_down_is_said_as_it_left_it() -> None:
    known = horizon(planted(6, c_score=-1.0))
    partly = replace(known, proved=False, verified_length=3)
    assert said(partly) == ("Horizon: at most 6, since ab{6} is wrong; at least 3, proved.")
    assert "nothing being proved right" in said(replace(partly, verified_length=0))
    found = horizon(planted(60), limit=20)
    assert said(found) == "Horizon: at least 20, proved; no error found up to 20."


def test_a_model_too_large_for_the_checker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search still answers; the terminal does not call it proved, the report says nothing."""

    def refuse(*_: object) -> None:
        raise UnsupportedError("too large for the checker")

    for room in (horizons, searched):
        monkeypatch.setattr(room, "certify_searches", refuse)
    monkeypatch.setattr(searched, "_known", {})
    model = planted(6, c_score=-1.0)
    verdict = verify(model, 6, horizon=True)
    words = [sentence for _, sentence in verdict.lines()]
    assert any("the checker did not derive again" in sentence for sentence in words)
    assert not any("roved" in sentence for sentence in words)
    document = verdict.to_dict()
    assert (document["horizon"]["proved"], document["certified"]) == (False, None)
    assert reach(model) is None


def test_certified_is_what_the_checker_said() -> None:
    model = planted(6, c_score=-1.0)
    certificate = certify(model)
    document = verify(model, 6, certify=True).to_dict()
    assert document["certified"] == list(certificate.checked.sentences)
    assert document["horizon"] == certificate.horizon.to_dict()
    assert "decided in float64" in document["claim"]


def test_undecided_is_neither_right_nor_wrong() -> None:
    """Two heads that cancel: single letters are decided, nothing else can be."""
    verdict = verify(hand_built([[1, 0], [1, 0]], [[1, 3], [-1, -3]], 0.0), 3)
    words = [sentence for _, sentence in verdict.lines()]
    assert "none is found wrong, but 8 are undecided" in words[0]
    assert "none is wrong" not in words[0]


def test_a_verdict_names_what_is_wrong_and_what_is_undecided() -> None:
    # Two heads with the same scores cancel, but for what the second hears of c: 1 less.
    half = [1.0, 0.0, 2.0]
    verdict = verify(hand_built([half, half], [[1, 1, 3], [-1, -1, -2]], 0.0), 2)
    said = "6 are wrong (the first c), 2 are undecided (the first ab)"
    assert repr(verdict) == f"<Verdict: memory, of 12 strings up to length 2 {said}>"
    assert said in verdict._repr_html_()
    cancelled = verify(hand_built([half, half], [[1, 0, 3], [-1, 0, -3]], 0.0), 2)
    assert "none is found wrong, but 6 are undecided (the first ab)" in repr(cancelled)
