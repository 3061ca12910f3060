"""The page in a real browser: a table of strings, the tour, and what can be taken away."""

from __future__ import annotations

import html
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from tests.playground.pages import (
    BUNDLED,
    IN_BROWSER,
    Open,
    logit,
    settle,
    shown_logit,
    wait_until,
)
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.playground import playground_fragment

pytestmark = IN_BROWSER


def test_a_table_of_several_strings(visit: Open) -> None:
    page = visit("compare", "#s=abc")
    page.fill("#many", "aac, abc{3000}\nxyz ab{300}c{9}")
    settle(page)
    rows = page.locator("#many-content tbody tr")
    assert rows.count() == 4
    for row, text in ((0, "aac"), (1, "abc{3000}"), (3, "ab{300}c{9}")):
        cells = rows.nth(row).locator("td").all_inner_texts()
        assert cells[0] == text
        for column, name in ((2, "walkthrough"), (4, "many-heads")):
            number = float(cells[column].replace("−", "-"))
            assert number == pytest.approx(logit(name, text), rel=1e-3)
    assert rows.nth(1).locator("td").nth(1).inner_text() == "wrong"
    assert "unexpected 'x'" in rows.nth(2).inner_text()
    assert page.inner_text("[data-result=many]") == "1 of 3 wrong; 1 cannot be read"
    page.click("[data-key=many-add]")
    settle(page)
    assert rows.count() == 5
    page.click("[data-key=many-1]")
    assert shown_logit(page) == pytest.approx(logit("walkthrough", "abc{3000}"), abs=1e-5)
    wait_until(page, "decodeURIComponent(location.hash).replaceAll('+', ' ').includes('c{9} abc')")
    again = visit("compare", page.evaluate("location.hash"))
    assert again.input_value("#many") == "aac, abc{3000}\nxyz ab{300}c{9} abc"


@pytest.mark.parametrize("name", BUNDLED)
def test_a_tour_of_a_failure_in_six_steps(visit: Open, name: str) -> None:
    page = visit(name, "#s=ab&mute=0.0")
    before = shown_logit(page)
    page.focus("#tour-start")
    page.keyboard.press("Enter")
    found = tsc.horizon(load_checkpoint(name)).shortest
    assert found is not None
    strings = []
    for step in range(1, 7):
        settle(page)
        assert page.inner_text("#tour h2").startswith(f"{step} of 6: ")
        assert page.locator(".toured").count() == 1
        strings.append(page.input_value("#string"))
        if step in (1, 3, 4, 6):
            assert shown_logit(page) == pytest.approx(found.logit, abs=1e-9)
        if step == 2:
            assert "right" in page.inner_text(".verdict .tag >> nth=0")
        if step == 5:
            assert page.inner_text(".verdict .tag >> nth=0") == "right", "with attention given back"
        if step < 6:
            page.focus("[data-key=tour-next]")
            page.keyboard.press("Enter")
    assert strings == [found.string, strings[1], *[found.string] * 4]
    page.keyboard.press("Escape")
    settle(page)
    assert page.is_hidden("#tour")
    assert shown_logit(page) == before, "the view is as it was before the tour, edits and all"
    assert page.evaluate("document.activeElement.id") == "tour-start"


# -- taking it away --------------------------------------------------------------------------------


def test_a_shared_address_restores_the_view(visit: Open) -> None:
    page = visit("walkthrough")
    page.fill("#string", "ab{66}")
    page.click("[data-key=mute-head0]")
    page.focus("[data-key='value0.1.b']")
    page.keyboard.press("ArrowLeft")
    page.fill("[data-key=lens]", "2")
    shown = shown_logit(page)
    wait_until(page, "location.hash.includes('lens=2')")
    fragment = page.evaluate("location.hash")
    assert "change=head0%3Dzero" in fragment
    again = visit("walkthrough", fragment)
    assert shown_logit(again) == shown
    assert again.input_value("[data-key=lens]") == "2"
    assert again.is_hidden("#notice")
    again.evaluate("location.hash = '#s=c'")
    wait_until(again, "playground.state.text === 'c'")
    assert shown_logit(again) == pytest.approx(logit("walkthrough", "c"), abs=1e-5)


def test_hostile_addresses_change_nothing(visit: Open) -> None:
    page = visit("walkthrough")
    address = page.url
    for fragment in (
        "#s=<img src=x onerror=alert(1)>",
        "#%3Cscript%3Ealert(1)%3C/script%3E=1",
        "#freeze=%3Csvg/onload=alert(1)%3E&mute=99.99",
        "#%E0%A4%A",
        "#" + "x" * 20_000,
        "#weight=__proto__/0:1&value=constructor.0.a:1",
        "#change=%3Cimg%20src=x%20onerror=alert(1)%3E=zero&change=__proto__=zero",
    ):
        page.goto("about:blank")
        page.goto(address.partition("#")[0] + fragment)
        page.wait_for_selector("html[data-ready=yes]")
        assert shown_logit(page) == pytest.approx(logit("walkthrough", "abc{2165}"), abs=1e-5)
        assert page.is_visible("#notice"), fragment
        assert page.locator("#notice *").count() == 0
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 2


def test_downloads_and_copies(visit: Open, tmp_path: Path) -> None:
    page = visit("walkthrough", "#s=aac&weight=unembed.W_U/1:2.5")
    names = page.locator("[data-key=figure] option").all_inner_texts()
    assert {"failure map", "embeddings", "residual stream", "contributions"} <= set(names)
    for name in ("failure map", "residual stream"):
        page.select_option("[data-key=figure]", label=name)
        with page.expect_download() as waiting:
            page.click("[data-key=download-svg]")
        waiting.value.save_as(tmp_path / "figure.svg")
        root = ElementTree.parse(tmp_path / "figure.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        text = (tmp_path / "figure.svg").read_text()
        assert "var(" not in text, "a file by itself has its colours written out"
        assert "file:" not in text
        assert ("<pattern" in text) == (name == "failure map")
    with page.expect_download() as waiting:
        page.click("[data-key=download-weights]")
    path = tmp_path / waiting.value.suggested_filename
    assert path.suffix == ".safetensors"
    waiting.value.save_as(path)
    restored = load_checkpoint(path)
    assert restored.provenance["edited"] is True
    assert restored.weights["unembed.W_U"][1, 0] == np.float32(2.5)
    assert logit(restored, "aac") == pytest.approx(shown_logit(page), abs=1e-5)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("[data-key=copy-shell]")
    page.wait_for_selector("text=shell command copied.")
    assert "tsc-interp eval --checkpoint walkthrough aac" in page.evaluate(
        "navigator.clipboard.readText()"
    )


def test_inside_another_page(browser: Any, tmp_path: Path) -> None:
    """As a report embeds it: in an iframe, from its text, with no address of its own."""

    text = html.escape(playground_fragment("walkthrough"), quote=True)
    outer = tmp_path / "outer.html"
    outer.write_text(f'<iframe srcdoc="{text}" width="1000" height="800"></iframe>')
    page = browser.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(outer.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("text=abc{2165}").first.wait_for()
    frame.locator("#string").fill("aac")
    frame.locator("text=logit = −8.29452").wait_for()
    page.wait_for_timeout(400)  # the address is written a little later
    page.close()
    assert problems == []
