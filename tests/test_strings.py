"""Run-length notation: both ways, and every way to get it wrong."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sizes import many
from tsc_interp.errors import ConfigError, StringError
from tsc_interp.strings import MAX_REPEAT, MAX_TOKENS, Alphabet, counts_of_tokens

ABC = Alphabet(3)


@pytest.mark.parametrize(
    ("text", "expanded", "counts"),
    [
        ("aac", "aac", (2, 0, 1)),
        ("ab{3}c{2}", "abbbcc", (1, 3, 2)),
        ("a{1}", "a", (1, 0, 0)),
        ("a{003}b", "aaab", (3, 1, 0)),
        ("a{2}a{3}", "aaaaa", (5, 0, 0)),
        ("baac", "baac", (2, 1, 1)),
    ],
)
def test_reads_run_lengths(text: str, expanded: str, counts: tuple[int, ...]) -> None:
    assert ABC.expand(text) == expanded
    assert tuple(ABC.counts(text)) == counts


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("ax", 1, "unexpected 'x'"),
        ("ad", 1, "unexpected 'd'"),
        ("A", 0, "unexpected 'A'"),
        ("a b", 1, "unexpected ' '"),
        ("a{", 1, "whole number in braces"),
        ("a{}", 1, "whole number in braces"),
        ("a{-1}", 1, "whole number in braces"),
        ("a{1.5}", 1, "whole number in braces"),
        ("a{2}{3}", 4, "whole number in braces"),
        ("a{²}", 1, "whole number in braces"),
        ("{3}", 0, "needs a letter before it"),
        ("a}", 1, "unexpected '}'"),
        ("a{0}", 2, "out of range"),
        ("ba{000}", 3, "out of range"),
        ("a{99999999999}", 2, "out of range"),
        ("a{" + "9" * 10_000 + "}", 2, "out of range"),
        ("", 0, "empty"),
        (None, None, "not NoneType"),
        (7, None, "not int"),
        (b"ab", None, "not bytes"),
    ],
)
def test_says_what_is_wrong_and_where(text: object, position: int | None, words: str) -> None:
    with pytest.raises(StringError) as caught:
        ABC.counts(text)  # type: ignore[arg-type]
    assert caught.value.position == position
    assert words in str(caught.value)
    assert "a to c" in str(caught.value) or "1 to 1000000000" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_too_many_of_one_letter_over_several_runs() -> None:
    with pytest.raises(StringError, match="more than 1000000000 of 'a'"):
        ABC.counts(f"a{{{MAX_REPEAT}}}ba{{{MAX_REPEAT}}}")


def test_what_is_accepted_anywhere_is_accepted_everywhere() -> None:
    """`canonical` took this one and wrote a repeat that nothing reads."""
    for text in (f"a{{{MAX_REPEAT}}}a", f"ba{{{MAX_REPEAT}}}a{{2}}"):
        for read in (ABC.runs, ABC.counts, ABC.canonical, ABC.expand):
            with pytest.raises(StringError, match="more than 1000000000 of 'a'"):
                read(text)
    assert ABC.canonical(f"a{{{MAX_REPEAT - 1}}}a") == f"a{{{MAX_REPEAT}}}"


repeats = st.one_of(
    st.just(""),
    st.integers(0, 5).map(lambda n: f"{{{n}}}"),
    st.sampled_from(
        [1, 2, MAX_REPEAT // 2, MAX_REPEAT - 1, MAX_REPEAT, MAX_REPEAT + 1, 10**40]
    ).map(lambda n: f"{{{n}}}"),
    st.integers(1, 9).map(lambda n: f"{{000{n}}}"),
    st.sampled_from(["{", "}", "{}", "{-1}", "{2}{3}", "{1.5}", " "]),
)
notation = st.lists(st.tuples(st.sampled_from("aabbccdA{"), repeats), max_size=6).map(
    lambda parts: "".join(letter + repeat for letter, repeat in parts)
)


@settings(max_examples=many(300, 2000))
@given(notation)
def test_every_accepted_string_has_a_canonical_form_that_reads_the_same(text: str) -> None:
    try:
        counts = ABC.counts(text)
    except StringError:
        for read in (ABC.runs, ABC.canonical, ABC.expand):
            with pytest.raises(StringError):
                read(text)
        return
    written = ABC.canonical(text)
    assert ABC.canonical(written) == written
    assert ABC.runs(written) == ABC.runs(text)
    assert ABC.counts(written).tolist() == counts.tolist()
    assert ABC.counts(ABC.write(counts)).tolist() == counts.tolist()


def test_a_huge_repeat_costs_nothing_where_counts_are_enough() -> None:
    tracemalloc.start()
    counts = ABC.counts("ab{1000000000}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert tuple(counts) == (1, 10**9, 0)
    assert peak < 100_000


def test_the_long_form_has_a_limit() -> None:
    assert len(ABC.expand(f"a{{{MAX_TOKENS}}}")) == MAX_TOKENS
    with pytest.raises(StringError, match="too many to write out"):
        ABC.expand(f"a{{{MAX_TOKENS}}}b")


def test_tokens_are_cls_letters_pad() -> None:
    assert ABC.tokens(["cab", "a{5}"]).tolist() == [[0, 4, 2, 3, 1, 1], [0, 2, 2, 2, 2, 2]]
    assert ABC.tokens("b").tolist() == [[0, 3]]
    assert ABC.token_names == ("CLS", "PAD", "a", "b", "c")


def test_writes_canonically() -> None:
    assert ABC.write([1, 100, 55]) == "ab{100}c{55}"
    assert ABC.write(np.array([0, 2, 0])) == "bb"
    assert ABC.write([0, 2, 152]) == "b{2}c{152}"
    assert ABC.canonical("aab{1}aac") == "a{2}ba{2}c"
    assert (ABC.canonical("aab{2}"), ABC.canonical("aab{3}")) == ("aabb", "a{2}b{3}")


@pytest.mark.parametrize("counts", [[0, 0, 0], [1, 2], [1, -1, 0]])
def test_refuses_to_write_what_is_no_string(counts: list[int]) -> None:
    with pytest.raises(StringError, match="one per letter, not all zero"):
        ABC.write(counts)


@pytest.mark.parametrize("size", [0, 11_249, -1, 2.5, "3", True])
def test_alphabets_have_1_to_11248_letters(size: object) -> None:
    with pytest.raises(ConfigError, match="1 to 11248 letters"):
        Alphabet(size)  # type: ignore[arg-type]


def test_a_letter_outside_the_alphabet_has_no_index() -> None:
    assert Alphabet(26).index("z") == 25
    for letter in ("d", "", "ab", "A"):
        with pytest.raises(ConfigError, match="not a letter of this alphabet"):
            ABC.index(letter)


@given(st.integers(1, 76).flatmap(
    lambda size: st.tuples(st.just(size), st.text(Alphabet(size).letters, min_size=1, max_size=40))
))  # fmt: skip
def test_plain_text_survives_every_trip(case: tuple[int, str]) -> None:
    size, text = case
    alphabet = Alphabet(size)
    assert alphabet.expand(alphabet.canonical(text)) == text
    counts = alphabet.counts(text)
    assert counts.tolist() == [text.count(letter) for letter in alphabet.letters]
    assert alphabet.expand(alphabet.write(counts)) == "".join(
        sorted(text, key=alphabet.letters.index)
    )
    assert counts_of_tokens(alphabet.tokens([text]), size).tolist() == [counts.tolist()]
