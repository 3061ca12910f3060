"""The page in a real browser: the same numbers as Python, strings, counts, the map."""

from __future__ import annotations

from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import tsc_interp as tsc
from tests.playground.pages import (
    BUNDLED,
    IN_BROWSER,
    ODD,
    Open,
    fresh,
    logit,
    settle,
    shown_logit,
)
from tsc_interp.checkpoints import Checkpoint, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.playground import write_playground

pytestmark = IN_BROWSER


def random_strings(config: ClassifierConfig, number: int, most: float = 1e3) -> list[str]:
    """Counts from 0 to `most`: beyond some thousands the float32 model itself rounds at 1e-5."""
    generator = np.random.default_rng(number)
    magnitudes = generator.uniform(-0.5, np.log10(most), (number, config.n_letters))
    counts = np.floor(10**magnitudes).astype(int)
    counts[:, 0] += counts.sum(axis=1) == 0
    return [config.alphabet.write(row) for row in counts]


# -- the same numbers as Python ------------------------------------------------------------------


@pytest.mark.parametrize("name", BUNDLED)
def test_logits_are_pythons_and_the_first_error_is_the_verifiers(visit: Open, name: str) -> None:
    checkpoint = load_checkpoint(name)
    strings = random_strings(checkpoint.config, 200)
    page = visit(name)
    theirs = np.array(page.evaluate("(texts) => texts.map(playground.logit)", strings))
    ours = np.array([result.logit for result in tsc.evaluate(checkpoint, strings)])
    # Python's are float32, rounded relative to their size, and not alike on every processor.
    assert (np.abs(theirs - ours) / np.maximum(1, np.abs(ours))).max() <= 1e-5
    assert page.inner_text(".badge").startswith("✓ matches Python")
    assert float(page.get_attribute(".badge", "data-worst")) <= 1e-10
    page.wait_for_selector("[data-search=done]")
    found = tsc.horizon(checkpoint).shortest
    assert found is not None
    assert page.inner_text("[data-result=shortest]") == found.string
    assert page.input_value("#string") == found.string, "it opens on a wrong answer"
    assert shown_logit(page) == pytest.approx(found.logit, abs=1e-9)
    assert "wrong" in page.inner_text(".verdict .tag")
    page.fill("#string", "a")
    page.click("text=Load it")
    assert shown_logit(page) == pytest.approx(found.logit, abs=1e-9)


@pytest.mark.parametrize("name", ODD)
def test_odd_shapes_open_and_agree(visit: Open, name: str) -> None:
    page = visit(name)
    checkpoint = fresh(ODD[name], 1)
    strings = random_strings(checkpoint.config, 20)
    theirs = page.evaluate("(texts) => texts.map(playground.logit)", strings)
    assert theirs == pytest.approx([r.logit for r in tsc.evaluate(checkpoint, strings)], abs=1e-5)
    page.wait_for_selector("[data-search=done]")
    assert page.inner_text("[data-result=shortest]") == first_error(checkpoint)


def first_error(checkpoint: Checkpoint) -> str:
    """By trying every string, as long as that is quick."""
    config = checkpoint.config
    for length in range(1, 30):
        sorted_letters = combinations_with_replacement(config.alphabet.letters, length)
        for result in tsc.evaluate(checkpoint, ["".join(letters) for letters in sorted_letters]):
            if not result.correct:
                return config.alphabet.write(list(result.counts.values()))
    raise AssertionError("this model makes no error that a test can list")


# -- strings -------------------------------------------------------------------------------------


def test_typing_and_bad_input(visit: Open) -> None:
    page = visit("walkthrough")
    page.fill("#string", "ab{100}c{55}")
    assert shown_logit(page) == pytest.approx(logit("walkthrough", "ab{100}c{55}"), abs=1e-5)
    before = page.inner_text("#verdicts")
    for bad, words in {
        "": "the string is empty",
        "a{": "a repeat has one whole number in braces",
        "xyz": "unexpected 'x'",
        "a{99999999999}": "the repeat is out of range",
        "a" * 500 + "!": "unexpected '!'",
        "<b>a</b>": "unexpected '<'",
    }.items():
        page.fill("#string", bad)
        settle(page)
        assert words in page.inner_text("#string-problem")
        assert "Still showing ab{100}c{55}" in page.inner_text("#string-problem")
        assert page.inner_text("#verdicts") == before
        assert page.get_attribute("#string", "aria-invalid") == "true"
    page.fill("#string", "a{1000000}b")
    assert shown_logit(page) == pytest.approx(logit("walkthrough", "a{1000000}b"), abs=1e-5)
    assert page.inner_text("#string-problem") == ""


def test_sliders_and_exact_counts(visit: Open) -> None:
    page = visit("walkthrough", "#s=aac")
    page.focus("#slider-b")
    page.keyboard.press("ArrowRight")
    settle(page)
    assert page.input_value("#string") == "aabc"
    page.keyboard.press("End")
    settle(page)
    assert page.input_value("#string") == "a{2}b{1000000000}c"
    page.fill("#count-b", "123456")
    assert shown_logit(page) == pytest.approx(logit("walkthrough", "a{2}b{123456}c"), abs=1e-5)
    for bad, words in {
        "": "nothing is typed",
        "-3": "“-3” is not a count",
        "1.5": "“1.5” is not a count",
        "9999999999": "9999999999 is too many",
    }.items():
        page.fill("#count-b", bad)
        settle(page)
        said = page.inner_text("#count-problem")
        assert words in said
        assert "Number of b" in said
        assert "Still 123" in said
        assert page.get_attribute("#count-b", "aria-invalid") == "true"
        assert page.input_value("#count-b") == bad, "what was typed stays to be mended"
        assert page.evaluate("playground.state.counts[1]") == 123456
    page.fill("#count-a", "0")
    assert page.inner_text("#count-problem") == ""
    assert page.input_value("#count-b") == "123456"
    page.fill("#count-c", "0")
    settle(page)
    assert page.input_value("#string") == "b{123456}"
    page.fill("#count-b", "0")
    settle(page)
    assert "at least one letter" in page.inner_text("#string-problem")
    assert page.evaluate("playground.state.text") == "b{123456}"


def test_sliders_can_be_dragged_to_any_order_of_magnitude(visit: Open) -> None:
    page = visit("walkthrough", "#s=ab", viewport={"width": 390, "height": 844})
    box = page.locator("#slider-b").bounding_box()
    seen = []
    for x in range(9, int(box["width"]) - 8, 2):
        page.mouse.click(box["x"] + x, box["y"] + box["height"] / 2)
        settle(page)
        seen.append(page.evaluate("playground.state.counts[1]"))
    assert seen == sorted(seen)
    for low, high in ((1, 10), (10, 100), (100, 1000)):
        assert sum(low <= count < high for count in seen) >= 12, "each decade has room on a phone"
    assert seen[-1] > 1e8


def test_formulas_on_hover_and_focus(visit: Open) -> None:
    page = visit("walkthrough", "#s=aac")
    page.hover(".head-card >> nth=0 >> .weight-cell >> nth=0 >> .number")
    assert "n(a) e^score(a) / Σ n(j) e^score(j)" in page.inner_text("#tooltip")
    assert "each of the 2 copies gets 0.4998" in page.inner_text("#tooltip")
    page.keyboard.press("Escape")
    assert page.is_hidden("#tooltip")
    page.hover(".head-card >> nth=0 >> .weight-cell >> nth=0 >> .number")
    page.evaluate(
        """() => { const box = document.getElementById("string");
          box.value = "aaac"; box.dispatchEvent(new Event("input")); }"""
    )
    settle(page)
    assert "each of the 3 copies" in page.inner_text("#tooltip"), "it follows the string"
    # A pointer that stays where a number was redrawn may rightly show the tooltip again.
    page.mouse.move(1, 1)
    page.fill("#string", "aac")
    page.wait_for_selector("#tooltip", state="hidden")
    settle(page)
    page.focus(".logit-line .number")
    assert "= −8.29452" in page.inner_text("#tooltip")
    assert page.get_attribute(".logit-line .number", "aria-describedby") == "tooltip"


def test_map_moves_the_string(visit: Open) -> None:
    page = visit("walkthrough", "#s=abc")
    page.locator(".map-stage").scroll_into_view_if_needed()
    box = page.locator(".map-stage").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] * 344 / 400 + 12)
    settle(page)
    assert set(page.input_value("#string")) - set("{}0123456789") == {"a", "b"}
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.22)
    settle(page)
    counts = page.evaluate("playground.state.counts")
    assert counts[2] > 50 * counts[0] > 0
    assert min(count for count in counts if count) <= 3, "the shortest string that is about there"
    assert "wrong (false negative)" in page.inner_text(".readout")
    page.focus(".map-stage")
    for _ in range(12):
        page.keyboard.press("Shift+ArrowDown")
    settle(page)
    assert page.evaluate("playground.state.counts")[2] < counts[2]


def test_map_of_a_model_that_sees_length_keeps_the_length(visit: Open) -> None:
    page = visit("attend-cls", "#s=" + quote("a{40}b{30}c{30}"))
    assert "strings of length 100" in page.inner_text("#map-caption")
    page.locator(".map-stage").scroll_into_view_if_needed()
    box = page.locator(".map-stage").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.3)
    settle(page)
    counts = page.evaluate("playground.state.counts")
    assert sum(counts) == 100
    assert counts[2] > 80
    page.fill("[data-key=map-length]", "60")
    settle(page)
    assert sum(page.evaluate("playground.state.counts")) == 1000
    assert "strings of length 1" in page.inner_text("#map-caption")
    assert visit("walkthrough").is_hidden("[data-key=map-length]"), "ratios are all it sees"


def test_what_cancels_is_called_undecided(browser: Any, tmp_path: Path) -> None:
    from tests.playground.cases import cancelling

    write_playground(cancelling(1e15), tmp_path / "page.html")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri() + "#s=a")
    page.wait_for_selector("[data-search=done]")
    assert page.inner_text(".verdict .tag") == "too close to call"
    assert "a is too close to call here" in page.inner_text("[data-result=undecided]")
    assert page.locator("[data-result=shortest]").count() == 0
    assert page.locator(".tsc-map path.wrong").count() == 0
    page.close()
