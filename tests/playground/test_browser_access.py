"""The page in a real browser, for everybody: keyboard, touch, names, phones, light and dark."""

from __future__ import annotations

import re
from urllib.parse import quote

import numpy as np
import pytest

from tests.playground.pages import (
    BUNDLED,
    IN_BROWSER,
    Open,
    logit,
    settle,
    shown_logit,
    wait_until,
)

pytestmark = IN_BROWSER


# -- for everybody ---------------------------------------------------------------------------------


def test_keyboard_only(visit: Open) -> None:
    """From the top of the page: type, mute, move a value, break it, undo, all without a pointer."""
    page = visit("walkthrough")

    def tab_to(key: str) -> None:
        for _ in range(120):
            page.keyboard.press("Tab")
            found = page.evaluate(
                "document.activeElement.dataset.key ?? document.activeElement.id ?? ''"
            )
            if found == key:
                return
        raise AssertionError(f"Tab never reaches {key}")

    tab_to("string")
    page.keyboard.press("Control+a")
    page.keyboard.type("abc")
    assert shown_logit(page) == pytest.approx(logit("walkthrough", "abc"), abs=1e-5)
    tab_to("mute-head0")
    page.keyboard.press("Enter")
    muted = shown_logit(page)
    assert muted != pytest.approx(logit("walkthrough", "abc"), abs=1e-3)
    assert page.evaluate("document.activeElement.dataset.key") == "mute-head0", "the focus stays"
    tab_to("value0.0.a")
    page.keyboard.press("ArrowLeft")
    settle(page)
    changes = page.evaluate("playground.state.timeline.now.changes")
    assert [text.split("=")[0] for text in changes] == ["head0", "head0.value[a]"]
    page.keyboard.press("Delete")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    assert shown_logit(page) == pytest.approx(logit("walkthrough", "abc"), abs=1e-5)
    tab_to("load-main")
    page.keyboard.press("Enter")
    settle(page)
    assert page.input_value("#string") == "abc{2165}"
    tab_to("many")
    page.keyboard.press("Control+a")
    page.keyboard.type("abc cc")
    tab_to("many-1")
    page.keyboard.press("Enter")
    settle(page)
    assert page.input_value("#string") == "cc"
    tab_to("download-weights")


def test_arrow_keys_move_within_a_table(visit: Open) -> None:
    page = visit("walkthrough")
    page.focus("[data-key='kmain0.0.1']")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.key") == "smain0.0.1"
    page.keyboard.press("ArrowRight")
    assert "weight(a)" in page.inner_text("#tooltip")


@pytest.mark.parametrize(
    "name", ["many-heads", "compare", "history", "all-letters", "deep", "two-letters"]
)
def test_nothing_overflows_and_everything_has_a_name(visit: Open, name: str) -> None:
    page = visit(name, color_scheme="dark")
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CUT_OFF) == []
        assert page.evaluate(SCROLLED) == 0
    assert page.evaluate(NAMELESS) == []


NAMELESS = """
[...document.querySelectorAll(
  "button, input, select, textarea, summary, [tabindex], [role=slider], svg, section")]
  .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length
    || document.getElementById(e.getAttribute("aria-labelledby"))))
  .map((e) => e.outerHTML.slice(0, 80))
"""
SCROLLED = """
[...document.querySelectorAll(".scroll-x")].filter((e) => e.scrollWidth > e.clientWidth).length
"""
CUT_OFF = """
[...document.querySelectorAll(".card td, .card th, .card p, .card button")]
  .filter((e) => !e.closest(".scroller, .attribution"))
  .filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.right > e.closest(".card").getBoundingClientRect().right + 1;
  })
  .map((e) => e.textContent)
"""


@pytest.mark.parametrize("name", BUNDLED)
def test_no_words_of_a_drawing_cover_others(visit: Open, name: str) -> None:
    for fragment in ("", "#s=baac", "#s=" + quote("ab{100}") + "&letter=b"):
        page = visit(name, fragment)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            settle(page)
            assert page.evaluate(COVERED) == []


COVERED = """
[...document.querySelectorAll("svg.drawing")].flatMap((svg) => {
  const all = [...svg.querySelectorAll("text")];
  const texts = all.filter((text) => text.getBoundingClientRect().width > 0);
  const boxes = texts.map((text) => text.getBoundingClientRect());
  const words = texts.map((text) => text.textContent);
  const card = svg.closest(".card").getBoundingClientRect();
  const found = [];
  boxes.forEach((a, i) => {
    if (a.right > card.right || a.left < card.left) found.push(`${words[i]} leaves its card`);
    boxes.slice(i + 1).forEach((b, k) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1.5 && high > 4)
        found.push(`${svg.dataset.figure}: ${words[i]} on ${words[i + 1 + k]}`);
    });
  });
  return found;
})
"""


def test_everything_focusable_has_a_role_and_a_name_of_its_own(visit: Open) -> None:
    """As the browser tells a screen reader; numbers say what they are, not only how much."""
    page = visit("walkthrough")
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    settle(page)
    client = page.context.new_cdp_session(page)
    nodes = client.send("Accessibility.getFullAXTree")["nodes"]
    focusable = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if any(p["name"] == "focusable" and p["value"]["value"] for p in node.get("properties", []))
    ]
    assert len(focusable) > 60
    nameless = [role for role, name in focusable if not name.strip() and role != "RootWebArea"]
    assert nameless == []
    assert not {role for role, _ in focusable} & {"generic", "none", "paragraph", "StaticText"}
    names = [name for _, name in focusable]
    assert "score of c in head 1: −0.3117" in names
    assert "GELU of neuron 1: 0.003520" in names


def test_a_tap_does_what_hovering_does(visit: Open) -> None:
    page = visit("walkthrough", "#s=aac", has_touch=True, viewport={"width": 390, "height": 844})
    number = page.locator(".head-card >> nth=0 >> .weight-cell >> nth=0 >> .number")
    number.scroll_into_view_if_needed()
    number.tap()
    assert "n(a) e^score(a) / Σ n(j) e^score(j)" in page.inner_text("#tooltip")
    box = page.locator("#tooltip").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    number.tap()
    assert page.is_hidden("#tooltip")
    number.tap()
    page.locator("h2 >> nth=0").tap()
    assert page.is_hidden("#tooltip")


def test_long_formulas_scroll_on_a_phone(visit: Open) -> None:
    page = visit("many-heads", has_touch=True, viewport={"width": 390, "height": 844})
    page.locator(".logit-line .number").scroll_into_view_if_needed()
    page.locator(".logit-line .number").tap()
    wide, shown = page.evaluate(
        "(() => { const e = document.getElementById('tooltip');"
        " return [e.scrollWidth, e.clientWidth]; })()"
    )
    assert wide > shown, "the line is longer than the screen"
    assert page.evaluate("getComputedStyle(document.getElementById('tooltip')).overflowX") == "auto"


def test_decision_lines_show_in_the_dark(visit: Open) -> None:
    for scheme in ("light", "dark"):
        page = visit("walkthrough", color_scheme=scheme)
        for selector in (".drawing .decision", ".tsc-map .zero"):
            line = page.locator(selector).first
            stroke = line.evaluate("(e) => getComputedStyle(e).stroke")
            ground = page.evaluate(
                "getComputedStyle(document.querySelector('.card')).backgroundColor"
            )
            assert contrast(stroke, ground) > 4.5


def contrast(one: str, two: str) -> float:
    """WCAG's contrast ratio of two rgb() colours."""

    def luminance(colour: str) -> float:
        channels = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    light, dark = sorted([luminance(one), luminance(two)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_dark_follows_the_system_and_the_button(visit: Open) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = (visit("walkthrough", color_scheme=scheme) for scheme in ("light", "dark"))
    assert light.evaluate(background) != dark.evaluate(background)
    expected = dark.evaluate(background)
    light.click("#theme")
    assert light.evaluate(background) == expected


def test_reduced_motion_steps_instead_of_playing(visit: Open) -> None:
    page = visit("history", "#s=baac&epoch=2", reduced_motion="reduce")
    assert page.inner_text("[data-key=play]") == "Next epoch"
    page.click("[data-key=play]")
    wait_until(page, "playground.state.epoch === 3")
    page.wait_for_timeout(700)
    assert page.evaluate("playground.state.epoch") == 3


def test_hash_with_braces_survives_percent_encoding(visit: Open) -> None:
    page = visit("walkthrough", "#s=" + quote("ab{7}"))
    assert page.input_value("#string") == "ab{7}"
