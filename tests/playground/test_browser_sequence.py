"""The page for models that see order or have several outputs, in a real browser."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from tests.cases import FAMILY, POSITIONED, PUBLIC
from tests.playground.family import random_checkpoint
from tests.playground.pages import IN_BROWSER, Open, wait_until
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.playground import playground_fragment, write_playground
from tsc_interp.playground.sequences import class_names, on_counts, sequence_payload
from tsc_interp.tasks import Framed, Palindrome
from tsc_interp.tasks.order import Before

pytestmark = IN_BROWSER

BEFORE = ClassifierConfig(n_positions=7, d_model=4, biases=True, act_fn="relu", task=Before())


FRAMED = ClassifierConfig(
    n_letters=5, n_positions=7, d_model=4, n_layers=2, reads="last_letter", attend_cls=True,
    task=Framed(frame="[3] x{2..4} [4]; x=0..2", task=Palindrome()),
)  # fmt: skip


def shown() -> list[Checkpoint]:
    configs = [BEFORE, FRAMED, *FAMILY, *PUBLIC, POSITIONED]
    return [random_checkpoint(c, i) for i, c in enumerate(configs) if not on_counts(c)]


@pytest.fixture(scope="module")
def sequence(pages: Path) -> list[Checkpoint]:
    first, *others = shown()
    write_playground(first, pages / "sequence.html", also=others)
    return [first, *others]


def test_every_member_of_the_family_matches_python(visit: Open, sequence: list[Checkpoint]) -> None:
    page = visit("sequence")
    names = page.locator("[data-key=model] option").all_inner_texts()
    assert len(names) == len(sequence) > 10
    for name in names:
        page.select_option("[data-key=model]", name)
        assert float(page.get_attribute(".badge", "data-worst")) <= 1e-5, name
        assert page.inner_text("#why").startswith("There is no failure map")
        assert page.locator("#heads button").count() > 0


def test_a_frame_is_filled_and_searched(visit: Open, sequence: list[Checkpoint]) -> None:
    """Oracle: all inputs of the frame in order, through Python."""
    page = visit("sequence")
    names = page.locator("[data-key=model] option").all_inner_texts()
    page.select_option("[data-key=model]", names[1])
    wait_until(page, "document.querySelector('#breaks').dataset.search === 'done'")
    model, layout = tsc.load(sequence[1]), FRAMED.task.layout
    rows = [row for batch in layout.every() for row in batch.tolist()]
    inputs = ["".join("abcde"[letter] for letter in row) for row in rows]
    whole = FRAMED.filled(inputs)
    said = model(model.tokens(whole)).detach().numpy() > 0
    wrong = said != (np.array([row == row[::-1] for row in rows]))
    assert wrong.any()
    first = int(np.argmax(wrong))
    assert page.inner_text("[data-result=shortest]") == inputs[first]
    for text in (inputs[-1], whole[-1]):  # the letters alone, or the whole row
        page.fill("#string", text)
        logit = float(page.get_attribute("[data-result=logit]", "data-logit"))
        expected = tsc.evaluate(sequence[1], inputs[-1])[0].logit
        assert logit == pytest.approx(float(expected), abs=1e-5)
    page.fill("#string", "abe")
    assert "no input of the model's frame" in page.inner_text("#string-problem")


def test_shortest_wrong_string_muting_and_the_link(visit: Open, sequence: list[Checkpoint]) -> None:
    """Oracle: all strings one by one through Python, and `tsc.intervene`."""
    page = visit("sequence")
    wait_until(page, "document.querySelector('#breaks').dataset.search === 'done'")
    model = tsc.load(sequence[0])
    strings = ["".join(s) for n in range(1, 4) for s in product("abc", repeat=n)]
    said = model(model.tokens(strings)).detach().numpy() > 0
    wrong = said != (BEFORE.classes(strings) == 1)
    first = strings[int(np.argmax(wrong))]
    assert page.inner_text("[data-result=shortest]") == first
    assert page.input_value("#string") == first, "the page opens on it"
    page.fill("#string", "abca")
    page.click("[data-key=mute-head0]")
    after = tsc.intervene(model, ["abca"], ["head0=zero"]).after.item()
    assert number_of(page) == pytest.approx(after, abs=1e-5)
    wait_until(page, "location.hash.includes('change=head0')")
    again = visit("sequence", page.evaluate("location.hash"))
    assert (again.input_value("#string"), number_of(again)) == ("abca", number_of(page))
    page.fill("#string", "abcabcabc")
    assert "9 letters; this page reads up to 6" in page.inner_text("#string-problem")
    odd = visit("sequence", "#s=xyz&change=head9=zero&nonsense=1")
    assert "left out: s, change, nonsense" in odd.inner_text("#notice")


def number_of(page: Any) -> float:
    return float(page.get_attribute("[data-result=logit]", "data-logit"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone(visit: Open, sequence: list[Checkpoint], scheme: str) -> None:
    page = visit("sequence", viewport={"width": 390, "height": 800}, color_scheme=scheme)
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) == 0


def test_words_of_the_page() -> None:
    """What the page is told of a task: by hand for two of them."""
    assert class_names(BEFORE) == ["no", "yes"]
    several = ClassifierConfig(n_outputs=3, task={"kind": "maximum"}, token_names=("x", "y", "z"))
    assert class_names(several) == ["x", "y", "z"]
    assert "this model has 3 outputs" in sequence_payload(several)["why"]
    assert "sees where letters stand" in sequence_payload(BEFORE)["why"]
    brackets = ClassifierConfig(
        n_letters=2, n_positions=9, task={"kind": "regex", "pattern": "(ab)*"}
    )
    machine = sequence_payload(brackets)["machine"]
    state = machine["start"]
    for letter in (0, 1, 0, 1):
        state = machine["step"][state][letter]
    assert machine["label"][state] == 1
    assert len(playground_fragment(random_checkpoint(brackets, 1)).encode()) < 200_000
