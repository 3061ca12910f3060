"""The page in a real browser: every figure drawn, labelled and legible, wide and narrow."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tsc_interp as tsc
from tests.playground.pages import wait_until

BROWSER = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.xdist_group("report"),  # its pages take longer to make than to look at
    pytest.mark.skipif(
        BROWSER is None and not os.environ.get("TSC_REQUIRE_BROWSER"), reason="no chromium"
    ),
]

# Rectangles of every text in a figure, by what the text is, relative to the figure's own box.
MEASURE = """plot => {
  const box = plot.getBoundingClientRect();
  const rectangles = selector => Array.from(plot.querySelectorAll(selector))
    .filter(node => node.textContent.trim())
    .map(node => { const r = node.getBoundingClientRect();
      return {text: node.textContent, left: r.left - box.left, right: r.right - box.left,
              top: r.top - box.top, bottom: r.bottom - box.top}; })
    .filter(r => r.right > r.left);
  return {
    name: plot.dataset.name, width: box.width, height: box.height,
    drawn: plot.querySelectorAll(".main-svg, canvas").length,
    label: plot.getAttribute("aria-label"),
    annotations: rectangles(".annotation-text-g text"),
    x: rectangles(".xaxislayer-above .xtick text"), y: rectangles(".yaxislayer-above .ytick text"),
    legend: rectangles(".legendtext"), marks: rectangles(".textpoint text"),
    titles: rectangles(".g-xtitle text, .g-ytitle text"),
  };
}"""


VIEWS = {
    "Zoom", "Pan", "Zoom in", "Zoom out", "Autoscale", "Reset axes", "Orbital rotation",
    "Turntable rotation", "Reset camera to default", "Reset camera to last save", "Reset view",
}  # fmt: skip


@pytest.fixture(scope="module")
def pages(errors, tmp_path_factory) -> dict[str, Path]:
    """A model that fails, with everything; many heads, for figures that adapt; a comparison."""
    place = tmp_path_factory.mktemp("pages")
    one = ["specialization"]
    most = ["trace", "superposition", "cone", "margin", "specialization", "attribution"]
    reports = {
        "errors": errors,
        "many-heads": tsc.analyze("many-heads"),
        "compared": tsc.analyze("generalization-errors", probes=most, compare="walkthrough"),
        "small": tsc.analyze("walkthrough", ["aac"], probes=one),
        "laboratory": tsc.lab("bounds", quick=True),
    }
    return {name: report.save(place / name, formats=["html"]) for name, report in reports.items()}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    assert BROWSER, "TSC_REQUIRE_BROWSER is set, but there is no chromium"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield running
        running.close()


def _open(browser: Any, page_file: Path, width: int, scheme: str) -> tuple[Any, list[str]]:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    page.set_default_timeout(300_000)  # nothing may depend on how busy the machine is
    problems: list[str] = []
    page.on(
        "console",
        lambda message: (
            problems.append(message.text)
            if message.type == "error" or message.text.startswith("WARN")  # as plotly warns
            else None
        ),
    )
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else problems.append(r.url),
    )
    page.goto(page_file.as_uri())
    return page, problems


def _overlaps(rectangles: list[dict[str, Any]], slack: float = 1.5) -> list[tuple[str, str]]:
    return [
        (one["text"], other["text"])
        for index, one in enumerate(rectangles)
        for other in rectangles[:index]
        if min(one["right"], other["right"]) - max(one["left"], other["left"]) > slack
        and min(one["bottom"], other["bottom"]) - max(one["top"], other["top"]) > slack
    ]


def _complaints(figure: dict[str, Any]) -> list[str]:
    found = []
    if not figure["drawn"] or figure["width"] < 200 or figure["height"] < 100:
        found.append("is not visible")
    if not figure["label"]:
        found.append("has no label")
    together = _overlaps(figure["marks"] + figure["y"])
    found += [f"numbers and names: {pair} overlap" for pair in together]
    for kind in ("annotations", "x", "y", "legend", "marks"):
        found += [f"{kind}: {pair} overlap" for pair in _overlaps(figure[kind])]
        for text in figure[kind] + figure["titles"]:
            if text["left"] < -2 or text["right"] > figure["width"] + 2:
                found.append(f"{kind}: {text['text']!r} is cut off at the side")
            if text["top"] < -2 or text["bottom"] > figure["height"] + 2:
                found.append(f"{kind}: {text['text']!r} is cut off above or below")
    return sorted(set(found))


LOOKS = [
    *(("errors", scheme, width) for scheme in ("light", "dark") for width in (1280, 390)),
    ("many-heads", "light", 390),
    *(("compared", "light", width) for width in (1280, 390)),
]


@pytest.mark.parametrize(("name", "scheme", "width"), LOOKS)
def test_every_figure_is_visible_and_legible(name, scheme, width, pages, browser):
    page, problems = _open(browser, pages[name], width, scheme)
    page.evaluate("tscDrawAll()")
    page.wait_for_timeout(300)
    figures = [plot.evaluate(MEASURE) for plot in page.query_selector_all(".plot")]
    shots = os.environ.get("TSC_SCREENSHOTS")
    if shots:
        page.screenshot(path=f"{shots}/{name}-{width}-{scheme}.png", full_page=True)
    assert problems == []
    assert pages[name].stat().st_size < 4_000_000
    if name != "compared":
        assert sum(len(figure["annotations"]) for figure in figures) > 20
        assert all(figure["x"] for figure in figures if figure["name"] == "trace-logits")
    complaints = {f["name"]: _complaints(f) for f in figures}
    assert {name: told for name, told in complaints.items() if told} == {}
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


def test_figures_are_drawn_when_they_come_into_view(pages, browser):
    page, _ = _open(browser, pages["errors"], 1280, "light")
    # Less than a third of the 25,000 pixels it once took: all but the cards' best is folded away.
    assert page.evaluate("document.documentElement.scrollHeight") <= 7_500
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    plots = page.query_selector_all(".plot")
    assert not plots[-1].get_attribute("data-drawn")
    plots[-1].scroll_into_view_if_needed()
    page.wait_for_selector(".plot >> nth=-1 >> .main-svg")
    page.context.close()


def test_the_toggle_repaints_page_and_figures(pages, browser):
    page, problems = _open(browser, pages["small"], 1280, "light")
    page.evaluate("tscDrawAll()")
    colours = (
        "() => [getComputedStyle(document.body).backgroundColor, "
        "document.querySelector('.plot .xtick text').style.fill]"
    )
    before = page.evaluate(colours)
    button = page.get_by_role("button", name="Dark page")
    button.focus()
    page.keyboard.press("Enter")
    # Both of them change, sooner or later.
    wait_until(page, f"({colours})().every((one, i) => one !== {json.dumps(before)}[i])")
    assert page.get_by_role("button", name="Light page").get_attribute("aria-pressed") == "true"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert problems == []
    page.context.close()


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_figure_can_be_taken_away(kind, pages, browser):
    page, _ = _open(browser, pages["small"], 1280, "dark")
    with page.expect_download() as download:
        page.locator(f"figure button[data-save={kind}]").first.click()
    assert re.fullmatch(rf"specialization-[a-z-]+\.{kind}", download.value.suggested_filename)
    content = Path(download.value.path()).read_bytes()
    assert content.startswith(b"<svg" if kind == "svg" else b"\x89PNG")
    page.context.close()


def test_a_figure_offers_zoom_and_its_files_and_nothing_else(pages, browser):
    """Plotly's own button "Share chart…" sends a figure to a server."""
    for name in ("errors", "laboratory"):
        page, problems = _open(browser, pages[name], 1280, "light")
        page.evaluate("tscDrawAll()")
        page.wait_for_timeout(300)
        offered = page.eval_on_selector_all(
            ".modebar-btn", "all => all.map(button => button.getAttribute('data-title'))"
        )
        assert "Zoom" in offered
        assert set(offered) <= VIEWS
        buttons = page.eval_on_selector_all(
            "figcaption button", "all => all.map(b => b.textContent)"
        )
        assert set(buttons) == {"SVG", "PNG"}
        assert problems == []
        page.context.close()


def test_a_printed_page_is_a_summary_in_its_own_colours(pages, browser):
    """Two sheets, whatever the page looks like on the screen; what is unfolded is printed too."""
    page, problems = _open(browser, pages["errors"], 1280, "dark")
    sheets = [page.pdf(format="A4").count(b"/Type /Page\n")]
    page.emulate_media(media="print")
    shown = page.locator(".shares, .front .plus, .front .minus, .axis .proved, .verdict")
    assert all(one.is_visible() for one in shown.all())
    style = "one => [getComputedStyle(one).printColorAdjust, getComputedStyle(one).color]"
    assert page.eval_on_selector(".axis .proved", style)[0] == "exact"
    assert page.eval_on_selector("body", style)[1] == "rgb(31, 35, 40)"
    assert not page.locator(".card figure").first.is_visible()
    page.emulate_media(media="screen")
    page.locator("details.more > summary").first.click()
    page.emulate_media(media="print")
    assert page.locator(".card figure").first.is_visible()
    sheets.append(page.pdf(format="A4").count(b"/Type /Page\n"))
    assert problems == []
    assert sheets[0] == 2
    assert sheets[1] > 2
    page.context.close()


def test_tables_can_be_reached_and_opened_by_keyboard(pages, browser):
    page, _ = _open(browser, pages["small"], 390, "light")
    for fold in ("details.more", "details.table"):
        page.locator(f"{fold} > summary").first.focus()
        page.keyboard.press("Enter")
    assert page.locator("details.table[open] table").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.context.close()


def test_the_playground_in_the_page_works_offline(pages, browser):
    """The frame is the playground's own page; here it only has to come up, without a complaint."""
    page, problems = _open(browser, pages["small"], 1280, "light")
    page.locator("#playground summary").click()
    page.locator("#playground iframe").scroll_into_view_if_needed()
    frame = page.frame_locator("#playground iframe")
    frame.locator("h1").first.wait_for()
    assert "walkthrough" in frame.locator("body").inner_text()
    page.wait_for_timeout(300)
    assert problems == []
    page.context.close()
