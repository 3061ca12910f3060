"""The page for models that add, in a real browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tsc_interp as tsc
from studies.constructed import carry_adder
from tests.playground.pages import IN_BROWSER, Open
from tests.playground.test_sums import answers
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.playground import write_playground

pytestmark = IN_BROWSER


@pytest.fixture(scope="module")
def adder(pages: Path) -> Checkpoint:
    """Wrong exactly where the sum is 99."""
    made = carry_adder(2, 10, shift=1.5)
    made.save(pages / "nines.safetensors")
    model = tsc.load(pages / "nines.safetensors").to_checkpoint()
    write_playground(pages / "nines.safetensors", pages / "sums.html", also=[carry_adder(2)])
    return model


def test_it_opens_on_a_wrong_pair_and_adds_what_is_typed(visit: Open, adder: Checkpoint) -> None:
    page = visit("sums")
    assert page.inner_text("#known-title") == "All 10,000 pairs"
    assert "wrong on 100 of 10,000 pairs, about one in 100" in page.inner_text("#known")
    assert (page.input_value("#first"), page.input_value("#second")) == ("0", "99")
    assert page.inner_text("[data-result=judged]") == "wrong: 99 is right"
    generator = np.random.default_rng(0)
    for a, b in [(0, 0), (99, 99), *generator.integers(0, 100, (6, 2)).tolist()]:
        page.fill("#first", str(a))
        page.fill("#second", f"{b:,}")
        said = [step[0] for step in answers(adder, a, b)]
        assert page.evaluate(f"window.playground.written('{a}', '{b}')") == said
        right = a + b != 99
        assert (page.inner_text("[data-result=judged]") == "right") == right
        if right:
            assert page.inner_text("[data-result=sum]") == f"= {a + b}"
    page.fill("#first", "123")
    assert "up to 2 digits" in page.inner_text("#sum-problem")
    assert page.get_attribute("#first", "aria-invalid") == "true"
    page.select_option("[data-key=model]", index=1)
    assert "right on every one of 10,000 pairs" in page.inner_text("#known")
    assert float(page.get_attribute(".badge", "data-worst")) <= 1e-5


def test_the_map_is_walked_with_the_keyboard_and_the_link_comes_back(
    visit: Open, adder: Checkpoint
) -> None:
    page = visit("sums")
    page.click("[data-key=map-2]")
    page.focus("[data-key=cell-0-0-0]")
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.get_attribute("[data-key=cell-0-0-9]", "aria-label") == (
        "0 + 9: 10 of 55 pairs wrong"
    )
    assert (page.input_value("#first"), page.input_value("#second")) == ("0", "99")
    page.click("[data-key=cell-0-7-1]")
    a, b = int(page.input_value("#first")), int(page.input_value("#second"))
    assert (a // 10, b // 10) == (7, 1)
    assert a % 10 + b % 10 < 10
    page.wait_for_timeout(300)
    again = visit("sums", page.evaluate("location.hash"))
    assert (int(again.input_value("#first")), int(again.input_value("#second"))) == (a, b)
    other = visit("sums", "#a=xyz&b=1")
    assert "does not fit" in other.inner_text("#notice")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(visit: Open, adder: Checkpoint, scheme: str) -> None:
    page = visit("sums", viewport={"width": 390, "height": 800}, color_scheme=scheme)
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) == 0
