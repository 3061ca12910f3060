"""The page in a real browser: interventions, training, several models side by side."""

from __future__ import annotations

from typing import Any

import pytest

import tsc_interp as tsc
from tests.playground.pages import (
    IN_BROWSER,
    Open,
    logit,
    run_copied,
    settle,
    shown_logit,
    training,
    wait_until,
)

pytestmark = IN_BROWSER


# -- interventions -------------------------------------------------------------------------------


def test_mute_undo_and_attribution(visit: Open) -> None:
    page = visit("walkthrough", "#s=baac")
    plain = shown_logit(page)
    page.click("[data-key=mute-head1]")
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
    (change,) = page.evaluate("playground.state.timeline.now.changes")
    assert change.startswith("head0.value[a]=set(")
    assert float(change[len("head0.value[a]=set(") : -1]) < 3
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
    page.click("#weights-details > summary")
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
    page.click("#weights-details > summary")
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
    page.click("#weights-details > summary")
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
    page.click("[data-key=mute-head0]")
    assert shown_logit(page, "other") == pytest.approx(logit("many-heads", "ab{300}c{9}"), abs=1e-5)
    wait_until(page, "document.querySelectorAll('[data-search=done]').length === 2")
    texts = page.locator("[data-result=shortest]").all_inner_texts()
    assert texts[1] == "abc{227}"


def test_switch_between_models(visit: Open) -> None:
    page = visit("several")
    assert page.input_value("#string") == "abc{2165}"
    page.select_option("[data-key=choose-model]", "many-heads")
    settle(page)
    assert page.input_value("#string") == "abc{2165}", "the string stays"
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
