"""The page in a real browser, from disk, without a network: what a person does, and what it shows.

Numbers on the page are compared with this package's; every test also fails on any console message
or request.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import tsc_interp as tsc
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.initialise import initial_weights
from tsc_interp.playground import playground_fragment, write_playground

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and os.environ.get("TSC_REQUIRE_BROWSER") != "1",
        reason="chromium is not installed",
    ),
]

BUNDLED = tsc.bundled_names()
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One page per bundled model, a comparison, one with history, and odd shapes."""
    folder = tmp_path_factory.mktemp("pages")
    for name in BUNDLED:
        write_playground(name, folder / f"{name}.html")
    write_playground("walkthrough", folder / "compare.html", compare="many-heads")
    others = [name for name in BUNDLED if name != "walkthrough"]
    five = fresh(ODD["five-letters"], 1)
    write_playground("walkthrough", folder / "several.html", also=[*others, five])
    history = training()
    write_playground(history[8], folder / "history.html", history=history)
    for name, config in ODD.items():
        write_playground(fresh(config, 1), folder / f"{name}.html")
    return folder


ODD = {
    "deep": ClassifierConfig(n_layers=3, d_model=5, n_heads=2, d_head=3, norm="rms"),
    "two-letters": ClassifierConfig(n_letters=2, d_model=3, attend_cls=True, d_head=2),
    "one-letter": ClassifierConfig(n_letters=1, d_model=1, task={"kind": "parity", "letter": "a"}),
    "five-letters": ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11),
    "all-letters": ClassifierConfig(n_letters=26, d_model=4, n_heads=5, norm="layer", d_mlp=9),
    "no-attention": ClassifierConfig(n_heads=0),
    "no-mlp": ClassifierConfig(d_mlp=0, score_scale="sqrt_d_head_log_n"),
}


def fresh(config: ClassifierConfig, seed: int) -> Checkpoint:
    weights = {name: w.numpy() for name, w in initial_weights(config, seed).items()}
    return Checkpoint(config, weights)


def training() -> dict[int, Checkpoint]:
    """Something like a run: from initial weights to the walk-through model in a straight line."""
    end = tsc.load_checkpoint("walkthrough")
    start = fresh(end.config, 5).weights
    return {
        epoch: Checkpoint(
            end.config,
            {
                n: (start[n] + (w - start[n]) * np.float32(epoch / 8))
                for n, w in end.weights.items()
            },
            {"epoch": epoch},
            source=f"runs/example/seed=5/checkpoints/epoch={epoch:03d}.safetensors",
        )
        for epoch in range(9)
    }


@pytest.fixture
def visit(browser: Any, pages: Path) -> Iterator[Open]:
    """Open a page; afterwards, nothing may have been logged and nothing requested."""
    contexts, problems = [], []

    def go(name: str, fragment: str = "", **options: Any) -> Any:
        given = {"viewport": {"width": 1280, "height": 900}, "accept_downloads": True, **options}
        context = browser.new_context(**given)
        context.set_offline(True)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: check_request(request.url, problems))
        page.goto((pages / f"{name}.html").as_uri() + fragment)
        page.wait_for_selector("html[data-ready=yes]")
        return page

    yield go
    for context in contexts:
        context.close()
    assert problems == []


def check_request(url: str, problems: list[str]) -> None:
    if not url.startswith(("file:", "data:", "blob:", "about:")):
        problems.append(f"request for {url}")


def shown_logit(page: Any, side: str = "main") -> float:
    settle(page)
    return float(page.get_attribute(f"[data-result=logit-{side}]", "data-logit"))


def settle(page: Any) -> None:
    """Two frames: one in which the page notices, one in which it draws."""
    page.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")


def logit(model: str | Checkpoint, text: str) -> float:
    checkpoint = tsc.load_checkpoint(model) if isinstance(model, str) else model
    return tsc.evaluate(checkpoint, [text])[0].logit


def wait_until(page: Any, expression: str) -> None:
    """playwright's own way needs eval, which the page's security policy rightly forbids."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression}")


def random_strings(config: ClassifierConfig, number: int, most: float = 1e3) -> list[str]:
    """Counts from 0 to `most`: beyond some thousands the float32 model itself rounds at 1e-5."""
    generator = np.random.default_rng(number)
    magnitudes = generator.uniform(-0.5, np.log10(most), (number, config.n_letters))
    counts = np.floor(10**magnitudes).astype(int)
    counts[:, 0] += counts.sum(axis=1) == 0
    return [config.alphabet.write(row) for row in counts]


def run_copied(script: str) -> float:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(script, "copied", "exec"), {})
    return float(out.getvalue())


# -- the same numbers as Python ------------------------------------------------------------------


@pytest.mark.parametrize("name", BUNDLED)
def test_logits_are_pythons_and_the_first_error_is_the_verifiers(visit: Open, name: str) -> None:
    checkpoint = tsc.load_checkpoint(name)
    strings = random_strings(checkpoint.config, 200)
    page = visit(name)
    theirs = np.array(page.evaluate("(texts) => texts.map(playground.logit)", strings))
    ours = np.array([result.logit for result in tsc.evaluate(checkpoint, strings)])
    assert np.abs(theirs - ours).max() <= 1e-5
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
    from tests.test_playground_js import cancelling

    write_playground(cancelling(1e15), tmp_path / "page.html")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri() + "#s=a")
    page.wait_for_selector("[data-search=done]")
    assert page.inner_text(".verdict .tag") == "too close to call"
    assert "a is too close to call here" in page.inner_text("[data-result=undecided]")
    assert page.locator("[data-result=shortest]").count() == 0
    assert page.locator(".tsc-map path.wrong").count() == 0
    page.close()


# -- interventions -------------------------------------------------------------------------------


def test_mute_undo_and_attribution(visit: Open) -> None:
    page = visit("walkthrough", "#s=baac")
    plain = shown_logit(page)
    page.click("[data-key='mute0.1']")
    muted = shown_logit(page)
    model = tsc.load("walkthrough")
    hook = ("blocks.0.attn.hook_z", lambda z, hook: z.index_fill(2, index_one(), 0))
    assert muted == pytest.approx(model.run_with_hooks("baac", fwd_hooks=[hook]).item(), abs=1e-5)
    rows = page.locator(".attribution tbody tr").all_inner_texts()
    assert len(rows) == 5
    assert rows[-1].startswith("logit")
    assert muted == pytest.approx(run_copied(page.inner_text("[data-result=python]")), abs=1e-5)
    page.click("[data-key=undo]")
    assert shown_logit(page) == plain
    page.click("[data-key=redo]")
    assert shown_logit(page) == muted
    page.click("text=Take back")
    assert shown_logit(page) == plain


def index_one() -> Any:
    import torch

    return torch.tensor([1])


def test_drag_a_value(visit: Open) -> None:
    page = visit("walkthrough", "#s=baac")
    plain = shown_logit(page)
    mark = page.locator("[data-key='value0.0.a']")
    mark.scroll_into_view_if_needed()
    box = mark.locator(".grab").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for step in (20, 60, 120):
        page.mouse.move(x - step, y)
        settle(page)
    page.mouse.up()
    dragged = shown_logit(page)
    moved = page.evaluate("playground.state.timeline.now.values['0.0.a'][0]")
    assert moved < 3
    after = mark.locator(".grab").bounding_box()
    assert dragged != plain
    assert after["width"] > 0
    assert dragged == pytest.approx(run_copied(page.inner_text("[data-result=python]")), abs=1e-5)
    page.keyboard.press("Control+z")
    assert shown_logit(page) == plain, "a whole drag is one step"
    assert page.is_disabled("[data-key=undo]")
    page.keyboard.press("Control+y")
    assert shown_logit(page) == dragged


def test_undo_has_no_empty_steps_and_works_from_a_weight_box(visit: Open) -> None:
    page = visit("walkthrough", "#s=baac")
    plain = shown_logit(page)
    page.focus("[data-key='value0.0.a']")
    page.keyboard.press("Delete")  # nothing was moved, so nothing is put back
    settle(page)
    assert page.is_disabled("[data-key=undo]")
    page.click("summary")
    page.fill("[data-key='weight-embed.W_E/0']", "2")
    page.keyboard.press("Enter")
    changed = shown_logit(page)
    assert changed != plain
    page.keyboard.press("Enter")
    page.focus("[data-key='weight-embed.W_E/0']")
    page.keyboard.press("Control+z")
    assert shown_logit(page) == plain, "one press takes the one change back"
    page.keyboard.press("Control+Shift+z")
    assert shown_logit(page) == changed


def test_a_bad_weight_says_why_and_changes_nothing(visit: Open) -> None:
    page = visit("walkthrough", "#s=baac")
    plain = shown_logit(page)
    page.click("summary")
    for bad, words in {"abc": "“abc” is not a number", "1e9": "1e9 is too large"}.items():
        page.fill("[data-key='weight-embed.W_E/0']", bad)
        page.keyboard.press("Enter")
        settle(page)
        said = page.inner_text("#weight-problem")
        assert words in said
        assert "embed.W_E, row CLS, column 0" in said
        assert shown_logit(page) == plain
        assert page.is_disabled("[data-key=undo]")
    page.fill("[data-key='weight-embed.W_E/0']", "1.5")
    page.keyboard.press("Enter")
    settle(page)
    assert page.inner_text("#weight-problem") == ""


def test_freeze_and_edit_a_weight(visit: Open) -> None:
    page = visit("walkthrough", "#s=aac")
    page.click("[data-key=freeze]")
    frozen = shown_logit(page)
    page.fill("#string", "b{50}")
    assert shown_logit(page) == pytest.approx(frozen, abs=1e-12), "the pattern no longer moves"
    page.click("[data-key=freeze]")
    assert shown_logit(page) == pytest.approx(logit("walkthrough", "b{50}"), abs=1e-5)
    page.click("summary")
    page.select_option("[data-key=tensor]", "unembed.W_U")
    page.fill("[data-key='weight-unembed.W_U/0']", "-1.25")
    page.keyboard.press("Enter")
    edited = shown_logit(page)
    assert edited == pytest.approx(run_copied(page.inner_text("[data-result=python]")), abs=1e-5)
    assert edited != pytest.approx(logit("walkthrough", "b{50}"), abs=1e-2)
    page.fill("[data-key='weight-unembed.W_U/0']", "")
    page.keyboard.press("Enter")
    assert shown_logit(page) == pytest.approx(logit("walkthrough", "b{50}"), abs=1e-5)


# -- training and comparison -----------------------------------------------------------------------


def test_scrub_through_training(visit: Open) -> None:
    page = visit("history", "#s=baac")
    history = training()
    assert shown_logit(page) == pytest.approx(logit(history[8], "baac"), abs=1e-5)
    for epoch in (0, 3, 5):
        page.fill("#epoch", str(epoch))
        assert shown_logit(page) == pytest.approx(logit(history[epoch], "baac"), abs=1e-5)
        assert page.inner_text(".badge").startswith("✓")
        assert f"epoch={epoch:03d}" in page.inner_text("[data-result=python]")
    page.focus("#epoch")
    page.keyboard.press("ArrowRight")
    assert shown_logit(page) == pytest.approx(logit(history[6], "baac"), abs=1e-5)
    page.click("[data-key=play]")
    wait_until(page, "playground.state.epoch === 8")
    settle(page)
    assert page.inner_text("[data-key=play]") == "Play"
    drag_slider(page, "#epoch", [0.9, 0.5, 0.1, 0.01])
    wait_until(page, "playground.state.epoch === 0")
    drag_slider(page, "[data-key=lens]", [0.4, 0.2, 0.01])
    wait_until(page, "playground.state.lens === 1")


def drag_slider(page: Any, selector: str, stops: list[float]) -> None:
    """With the mouse, in one go: redrawing must not take the slider out of the hand."""
    page.locator(selector).scroll_into_view_if_needed()
    box = page.locator(selector).bounding_box()
    height = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * stops[0], height)
    page.mouse.down()
    for stop in stops:
        page.mouse.move(box["x"] + box["width"] * stop, height)
        settle(page)
    page.mouse.up()


def test_two_models_side_by_side(visit: Open) -> None:
    page = visit("compare", "#s=ab{300}c{9}")
    assert shown_logit(page) == pytest.approx(logit("walkthrough", "ab{300}c{9}"), abs=1e-5)
    assert shown_logit(page, "other") == pytest.approx(logit("many-heads", "ab{300}c{9}"), abs=1e-5)
    page.click("[data-key='mute0.0']")
    assert shown_logit(page, "other") == pytest.approx(logit("many-heads", "ab{300}c{9}"), abs=1e-5)
    wait_until(page, "document.querySelectorAll('[data-search=done]').length === 2")
    texts = page.locator("[data-result=shortest]").all_inner_texts()
    assert texts[1] == "abc{227}"


def test_switch_between_models(visit: Open) -> None:
    page = visit("several")
    assert page.input_value("#string") == "abc{2165}"
    page.select_option("[data-key=choose-model]", "many-heads")
    settle(page)
    assert page.input_value("#string") == "abc{227}", "where that model's own page opens"
    page.fill("#string", "ab{300}c{9}")
    for name in ("attend-cls", "lower-magnitude", "walkthrough"):
        page.select_option("[data-key=choose-model]", name)
        assert shown_logit(page) == pytest.approx(logit(name, "ab{300}c{9}"), abs=1e-5)
        assert page.inner_text("#title") == name
        assert page.inner_text(".badge").startswith("✓")
        assert name in page.inner_text("[data-result=python]")
    page.select_option("[data-key=choose-beside]", "many-heads")
    assert shown_logit(page, "other") == pytest.approx(logit("many-heads", "ab{300}c{9}"), abs=1e-5)
    wait_until(page, "location.hash.includes('beside=many-heads')")
    again = visit("several", page.evaluate("location.hash"))
    assert shown_logit(again, "other") == shown_logit(page, "other")
    page.select_option("[data-key=choose-model]", "unsaved model")
    settle(page)
    assert page.locator("#sliders .slider").count() == 5
    assert page.locator("[data-result=logit-other]").count() == 0, "another alphabet"
    options = page.locator("[data-key=choose-beside] option").all_inner_texts()
    assert options == ["nobody"]
    assert visit("walkthrough").is_hidden("#models")


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
    wait_until(page, "location.hash.includes('list=')")
    again = visit("compare", page.evaluate("location.hash"))
    assert again.input_value("#many") == "aac, abc{3000}\nxyz ab{300}c{9} abc"


@pytest.mark.parametrize("name", BUNDLED)
def test_a_tour_of_a_failure_in_five_steps(visit: Open, name: str) -> None:
    page = visit(name, "#s=ab&mute=0.0")
    before = shown_logit(page)
    page.focus("#tour-start")
    page.keyboard.press("Enter")
    found = tsc.horizon(tsc.load_checkpoint(name)).shortest
    assert found is not None
    strings = []
    for step in range(1, 6):
        settle(page)
        assert page.inner_text("#tour h2").startswith(f"{step} of 5: ")
        assert page.locator(".toured").count() == 1
        strings.append(page.input_value("#string"))
        if step in (1, 3, 4):
            assert shown_logit(page) == pytest.approx(found.logit, abs=1e-9)
        if step == 2:
            assert "right" in page.inner_text(".verdict .tag >> nth=0")
        if step < 5:
            page.focus("[data-key=tour-next]")
            page.keyboard.press("Enter")
    assert strings == [found.string, strings[1], *[found.string] * 3]
    assert page.inner_text(".verdict .tag >> nth=0") == "right", "with attention given back"
    page.keyboard.press("Escape")
    settle(page)
    assert page.is_hidden("#tour")
    assert shown_logit(page) == before, "the view is as it was before the tour, edits and all"
    assert page.evaluate("document.activeElement.id") == "tour-start"


# -- taking it away --------------------------------------------------------------------------------


def test_a_shared_address_restores_the_view(visit: Open) -> None:
    page = visit("walkthrough")
    page.fill("#string", "ab{66}")
    page.click("[data-key='mute0.0']")
    page.focus("[data-key='value0.1.b']")
    page.keyboard.press("ArrowLeft")
    page.fill("[data-key=lens]", "2")
    shown = shown_logit(page)
    wait_until(page, "location.hash.includes('lens=2')")
    fragment = page.evaluate("location.hash")
    again = visit("walkthrough", fragment)
    assert shown_logit(again) == shown
    assert again.input_value("[data-key=lens]") == "2"
    assert again.is_hidden("#notice")
    again.evaluate("location.hash = '#s=c'")
    wait_until(again, "playground.state.text === 'c'")
    assert shown_logit(again) == pytest.approx(logit("walkthrough", "c"), abs=1e-5)


@pytest.mark.parametrize(
    "fragment",
    [
        "#s=<img src=x onerror=alert(1)>",
        "#%3Cscript%3Ealert(1)%3C/script%3E=1",
        "#freeze=%3Csvg/onload=alert(1)%3E&mute=99.99",
        "#%E0%A4%A",
        "#" + "x" * 20_000,
        "#weight=__proto__/0:1&value=constructor.0.a:1",
    ],
)
def test_a_hostile_address_changes_nothing(visit: Open, fragment: str) -> None:
    page = visit("walkthrough", fragment)
    assert shown_logit(page) == pytest.approx(logit("walkthrough", "abc{2165}"), abs=1e-5)
    assert page.is_visible("#notice")
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
    restored = tsc.load_checkpoint(path)
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
    import html

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
    tab_to("mute0.0")
    page.keyboard.press("Enter")
    muted = shown_logit(page)
    assert muted != pytest.approx(logit("walkthrough", "abc"), abs=1e-3)
    assert page.evaluate("document.activeElement.dataset.key") == "mute0.0", "the focus stays"
    tab_to("value0.0.a")
    page.keyboard.press("ArrowLeft")
    settle(page)
    assert page.evaluate("Object.keys(playground.state.timeline.now.values)") == ["0.0.a"]
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


@pytest.mark.parametrize("name", ["many-heads", "compare", "history", "all-letters", "deep"])
def test_nothing_overflows_and_everything_has_a_name(visit: Open, name: str) -> None:
    page = visit(name, color_scheme="dark")
    page.click("summary")
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


def test_everything_focusable_has_a_role_and_a_name_of_its_own(visit: Open) -> None:
    """As the browser tells a screen reader; numbers say what they are, not only how much."""
    page = visit("walkthrough")
    page.click("summary")
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
    assert "GELU of unit 1: 0.003520" in names


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
