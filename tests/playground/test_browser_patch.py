"""The page in a real browser: mute by mean, changes in their notation, patches, the circuit."""

from __future__ import annotations

import shlex

import pytest

import tsc_interp as tsc
from tests.playground.pages import (
    IN_BROWSER,
    ODD,
    Open,
    fresh,
    logit,
    run_copied,
    settle,
    shown_logit,
    wait_until,
)
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.cli import main
from tsc_interp.model.classifier import Classifier

pytestmark = IN_BROWSER


def intervened(model: str, text: str, *changes: str) -> float:
    return float(tsc.intervene(tsc.load(model), [text], list(changes)).after)


def test_mute_by_mean_over_stated_strings(visit: Open) -> None:
    page = visit("walkthrough", "#s=baac")
    plain = shown_logit(page)
    assert page.is_checked("[data-key=mute-by-zero]")
    assert page.input_value("#mean").startswith("aac, baac, ")
    page.fill("#mean", "aab, abc c{9}")
    settle(page)
    assert page.is_checked("[data-key=mute-by-mean]"), "typing strings means the mean over them"
    page.click("[data-key=mute-head1]")
    change = "head1=mean(aab, abc, c{9})"
    shown = shown_logit(page)
    assert shown == pytest.approx(intervened("walkthrough", "baac", change), abs=1e-5)
    assert page.inner_text(".edit-list code") == change
    assert page.inner_text("[data-key=mute-head1]") == "Muted: mean"
    assert shown == pytest.approx(run_copied(page.inner_text("[data-result=python]")), abs=1e-5)
    assert f"--string baac '{change}'" in page.inner_text("[data-result=shell]")
    page.check("[data-key=mute-by-zero]")
    page.click("[data-key=mute-neuron0]")
    both = shown_logit(page)
    assert both == pytest.approx(
        intervened("walkthrough", "baac", change, "neuron0=zero"), abs=1e-5
    )
    wait_until(page, "location.hash.includes('neuron0')")
    again = visit("walkthrough", page.evaluate("location.hash"))
    assert shown_logit(again) == both
    assert again.input_value("#mean") == "aab, abc c{9}"
    assert again.locator(".edit-list code").all_inner_texts() == [change, "neuron0=zero"]
    again.click("[data-key=mute-head1]")
    again.click("[data-key=mute-neuron0]")
    assert shown_logit(again) == plain


def test_a_bad_mean_says_why_and_changes_nothing(visit: Open) -> None:
    page = visit("walkthrough", "#s=baac")
    plain = shown_logit(page)
    for bad, words in {
        "": "head0=mean: the mean over no strings; name them",
        "aab, xyz": "cannot read 'xyz' at position 0: unexpected 'x'; the letters a to c",
    }.items():
        page.fill("#mean", bad)
        page.click("[data-key=mute-head0]")
        settle(page)
        assert words in page.inner_text("#change-problem")
        assert shown_logit(page) == plain
        assert page.is_disabled("[data-key=undo]")
    page.fill("#mean", "aab")
    page.click("[data-key=mute-head0]")
    settle(page)
    assert page.inner_text("#change-problem") == ""
    assert shown_logit(page) != plain


def test_any_change_in_its_notation(visit: Open) -> None:
    page = visit("walkthrough", "#s=bc{70}")
    plain = shown_logit(page)
    for bad, words in {
        "head7=zero": "head7: the model has 2 heads per layer, from head 0",
        "head0": "a change is written part=change",
        "head0->logit=zero": "names no part this page can change",
        "<img src=x onerror=alert(1)>=zero": "names no part this page can change",
        "head0=noise(1)": "is no change this page makes",
    }.items():
        page.fill("#change", bad)
        page.keyboard.press("Enter")
        settle(page)
        assert words in page.inner_text("#change-problem")
        assert page.input_value("#change") == bad, "to be put right"
        assert shown_logit(page) == plain
    assert page.locator("img").count() == 0
    page.fill("#change", "head0.value[c]=like(b)")
    page.click("[data-key=apply]")
    expected = intervened("walkthrough", "bc{70}", "head0.value[c]=like(b)")
    assert shown_logit(page) == pytest.approx(expected, abs=1e-5)
    assert page.input_value("#change") == ""
    assert page.inner_text("#change-problem") == ""
    page.keyboard.press("Control+z")
    assert shown_logit(page) == plain


@pytest.mark.parametrize("name", ["walkthrough", "deep"])
def test_patches_are_pythons_with_transformer_lens_effect(visit: Open, name: str) -> None:
    checkpoint = fresh(ODD[name], 1) if name in ODD else load_checkpoint(name)
    model = Classifier.from_checkpoint(checkpoint)
    page = visit(name, "#s=bc{9}&second=aab&kind=outputs")
    clean, corrupted = (model([text]).item() for text in ("aab", "bc{9}"))
    rows = page.locator("#patch-content tbody tr")
    said = [row.split() for row in rows.all_inner_texts()]
    numbers = [[float(x.replace("−", "-")) for x in (row[1], row[-1])] for row in said]
    assert [row[0] for row in said[:2]] == ["clean", "corrupted"]
    assert numbers[0] == [pytest.approx(clean, rel=1e-3), 1]
    assert numbers[1] == [pytest.approx(corrupted, rel=1e-3), 0]
    assert len(said) > 6
    for (part, *_), (shown, effect) in zip(said[2:], numbers[2:], strict=True):
        patched = float(tsc.intervene(model, ["bc{9}"], [f"{part}=patch(aab)"]).after)
        assert shown == pytest.approx(patched, rel=1e-3, abs=1e-5)
        exact = (patched - corrupted) / (clean - corrupted)
        assert effect == pytest.approx(exact, rel=6e-3, abs=1e-4)


def test_apply_a_patch_and_reload_it(visit: Open) -> None:
    page = visit("walkthrough", "#s=bc{9}")
    page.fill("#second", "ab{4}")
    page.select_option("[data-key=patch-kind]", "patterns")
    settle(page)
    page.click("[data-key='patch-head1.pattern']")
    change = "head1.pattern=patch(ab{4})"
    shown = shown_logit(page)
    assert shown == pytest.approx(intervened("walkthrough", "bc{9}", change), abs=1e-5)
    assert page.get_attribute("[data-key='patch-head1.pattern']", "aria-pressed") == "true"
    assert shown == pytest.approx(run_copied(page.inner_text("[data-result=python]")), abs=1e-5)
    wait_until(page, "location.hash.includes('pattern')")
    again = visit("walkthrough", page.evaluate("location.hash"))
    assert shown_logit(again) == shown
    assert again.input_value("#second") == "ab{4}"
    assert again.input_value("[data-key=patch-kind]") == "patterns"
    again.click("[data-key='patch-head1.pattern']")
    assert shown_logit(again) == pytest.approx(logit("walkthrough", "bc{9}"), abs=1e-5)


def test_a_patch_that_cannot_be_says_so(visit: Open) -> None:
    page = visit("walkthrough", "#s=abb")
    page.fill("#second", "bab")
    settle(page)
    words = page.inner_text("[data-result=effect-words]")
    assert "undefined" in words
    assert "same logit" in words
    cells = page.locator("#patch-content tbody tr:nth-child(n+3) td:last-child").all_inner_texts()
    assert set(cells) == {"undefined"}
    page.fill("#second", "xyz")
    settle(page)
    assert "The clean string: cannot read 'xyz'" in page.inner_text("#second-problem")
    assert page.locator("#patch-content tbody tr").count() == 0
    page.fill("#second", "b")
    settle(page)
    assert page.inner_text("#second-problem") == ""
    assert "0 is the corrupted run's logit, 1 the clean run's" in page.inner_text(
        "[data-result=effect-words]"
    )


def test_the_circuit_is_marked_and_can_be_run_alone(visit: Open) -> None:
    page = visit("many-heads", "#s=abc")
    assert "2 of 18 nodes answer every string of up to 50 letters" in page.inner_text(".circuit")
    outside = page.locator(".strip.outside .strip-name").all_inner_texts()
    assert outside == [f"head {i}" for i in range(16) if i not in (2, 11)]
    neurons = page.locator("tr.outside:not(.tools) th").all_inner_texts()
    assert sorted(neurons) == ["neuron 0", "neuron 1"]
    page.click("[data-key=circuit-only]")
    parts = [f"head{i}" for i in range(16) if i not in (2, 11)] + ["neuron0", "neuron1"]
    expected = intervened("many-heads", "abc", *(f"{part}=zero" for part in parts))
    assert shown_logit(page) == pytest.approx(expected, abs=1e-5)
    page.click("[data-key=undo]")
    assert shown_logit(page) == pytest.approx(logit("many-heads", "abc"), abs=1e-5)
    page.click("[data-key=circuit-shown]")
    settle(page)
    assert page.locator(".outside, .circuit-tag").count() == 0
    wait_until(page, "location.hash.includes('circuit=false')")
    assert visit("many-heads", page.evaluate("location.hash")).locator(".outside").count() == 0


def test_where_no_circuit_is_known_the_page_says_so(visit: Open) -> None:
    page = visit("deep")
    assert "no circuit of this model is known to this page" in page.inner_text(".circuit")
    assert page.locator(".outside, .circuit-tag, .circuit button").count() == 0
    page = visit("history", "#epoch=8")
    assert "none was searched for" in page.inner_text(".circuit")


def test_the_shell_command_of_the_page_runs(
    visit: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    page = visit("walkthrough", "#s=baac&change=head1%3Dmean(aab,+abc)&change=neuron0%3Dpatch(ab)")
    shown = shown_logit(page)
    _, *arguments = shlex.split(page.inner_text("[data-result=shell]").splitlines()[0])
    assert main([*arguments, "--no-exact"]) == 0
    assert f"{shown:+.4f}" in capsys.readouterr().out
