"""Frames: counting, listing, sampling, rows and the notation, each against brute force."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tsc_interp as tsc
from tsc_interp.errors import TscError

NOTATIONS = (
    "[START] x{20} [END]; x=0..30; START=31; END=32",
    "x y{3} [10] x y{3} [11]; x=0..4; y=0..9; writes=4",
    "[0] x{1..40} [2]; x=3..4; (=3; )=4; read=0; classes=1,0",
    "x{4} [9]; x=0..5; writes=4; distinct",
    "x{3} [9] y{0..4}; x=1,5; y=2..3; name=two sets",
    "[7] x{2..3}; x=0..1; read=1..2",
)


@st.composite
def frames(draw):
    """Small ones of every kind."""
    low = draw(st.integers(1, 3))
    high = low + draw(st.integers(0, 2))
    distinct = draw(st.booleans())
    sets = [(0, 1, 4, 3, 2), (0, 1), (7,), (2, 5, 6)]
    one = sets[0] if distinct else draw(st.sampled_from(sets))
    letters = [one] * high
    if not distinct:
        letters[: low - 1] = [draw(st.sampled_from(sets)) for _ in range(low - 1)]
    between = {low: [9, 8]} if high > low and draw(st.booleans()) else {}
    before, after = (draw(st.lists(st.integers(8, 10), max_size=2)) for _ in range(2))
    return tsc.Frame(
        before=before, places=(low, high), letters=letters, between=between, after=after,
        distinct=distinct, classes=draw(st.sampled_from([None, [1, 0]])),
        names=draw(st.sampled_from([{}, {9: "NINE", 8: "+"}])),
    )  # fmt: skip


def brute(frame):
    """Every input of a frame by itertools, the shortest first."""
    for n in frame.lengths:
        every = permutations(frame.letters[0], n) if frame.distinct else None
        yield from every or product(*frame.letters[:n])


@pytest.mark.parametrize("text", NOTATIONS)
def test_the_notation_comes_back(text):
    frame = tsc.Frame.parse(text)
    assert str(frame) == text
    assert tsc.Frame.from_json(frame.to_json()) == frame


def test_the_call_of_the_issue_is_the_same_as_its_notation():
    frame = tsc.Frame(before=[31], places=20, letters=range(31), after=[32], read=-1)
    assert frame == tsc.Frame.parse("[31] x{20} [32]", letters=range(31))
    assert frame.count() == 31**20


@settings(max_examples=60, deadline=None)
@given(frames())
def test_counting_listing_and_belonging_agree_with_brute_force(frame):
    words = [tuple(one) for batch in frame.every(batch=7) for one in batch.tolist()]
    assert words == list(brute(frame))
    assert frame.count() == len(words) == sum(map(frame.count, frame.lengths))
    assert tsc.Frame.parse(str(frame)) == frame
    for word in words[:: max(1, len(words) // 9)]:
        row = frame.rows([word])[0].tolist()
        assert frame.letters_of(row) == word
        assert row in frame
        assert [*row, 0] not in frame or len(word) + 1 in frame.lengths
        assert [11] * len(row) not in frame


def test_fixed_tokens_stand_where_they_should():
    frame = tsc.Frame(
        before=[20], places=range(3, 5), letters=[[1], [2], [3], [3]], between={2: [21]}, after=[22]
    )
    assert frame.rows([[1, 2, 3]]).tolist() == [[20, 1, 2, 21, 3, 22]]
    assert frame.rows([[1, 2, 3, 3]]).tolist() == [[20, 1, 2, 21, 3, 3, 22]]
    assert frame.reads(3) == (5,)
    assert tsc.Frame(places=4, letters=[3, 5], after=[6], writes=3).reads(4) == (4, 5, 6)


@pytest.mark.parametrize("distinct", [False, True])
def test_samples_are_uniform(distinct):
    frame = tsc.Frame(places=range(2, 4), letters=[5, 6, 7], distinct=distinct)
    rng = np.random.default_rng(3)
    drawn = frame.draw_lengths(60_000, rng)
    assert drawn[2] / 60_000 == pytest.approx(frame.count(2) / frame.count(), abs=0.01)
    words, times = np.unique(frame.sample(60_000, rng, 2), axis=0, return_counts=True)
    assert len(words) == frame.count(2)
    assert times.min() > 0.95 * 60_000 / len(words)
    if distinct:
        assert (words[:, 0] != words[:, 1]).all()


@pytest.mark.parametrize(("text", "words"), [
    ("[START] x{3}; x=0..2", "START"),
    ("[0] x{3}", "letters"),
    ("[0] (x); x=1", "from '"),
    ("x{1..2} [3] x; x=0..1", "last group"),
    ("[0]", "places"),
    ("x{3}; x=0..1; distinct", "distinct"),
    ("x{3}; x=a", "0..4,7"),
    ("x{3}; x=0..1; y", "define"),
    ("x{3}; x=0..1; read=1; writes=2", "read"),
])  # fmt: skip
def test_errors_say_what_is_wrong(text, words):
    with pytest.raises(TscError, match=words.replace("(", r"\(")):
        tsc.Frame.parse(text)
