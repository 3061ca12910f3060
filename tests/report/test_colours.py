"""One meaning per colour: what stands in style sheets and scripts is the table's."""

from __future__ import annotations

from pathlib import Path

import tsc_interp
from tsc_interp.plots.colours import LETTERS, MEANINGS, MUTED, css_variables
from tsc_interp.report.html import environment

ROOT = Path(tsc_interp.__file__).parent
NAMES = {"yes": "positive", "no": "negative", "wrong": "bad", "right": "good"}


def text(path: str) -> str:
    return (ROOT / path).read_text("utf-8").lower()


def test_the_playground_has_the_tables_colours() -> None:
    light, dark = text("playground/assets/style.css").split(':root[data-theme="dark"]')[:2]
    for one in MEANINGS:
        if one.name in NAMES:
            assert f"--{NAMES[one.name]}: {one.light.lower()};" in light
            assert f"--{NAMES[one.name]}: {one.dark.lower()};" in dark
    assert all(f'"{colour.lower()}"' in text("playground/assets/dom.mjs") for colour in LETTERS)
    known = {one.name: one.light.lower() for one in MEANINGS}
    assert f"--map-yes: {known['yes']}; --map-no: {known['no']};" in text(
        "playground/assets/map.css"
    )


def test_pages_take_theirs_from_the_table() -> None:
    page = environment().get_template("page.css").render()
    assert css_variables() in page
    assert page.count(css_variables(dark=True)) == 2  # chosen, and by the system
    assert "--failure" not in page


def test_attention_is_slate() -> None:
    slate = ", ".join(str(int(MUTED[0][i : i + 2], 16)) for i in (1, 3, 5))
    assert slate in text("plots/attention.css")
    assert slate in text("plots/attention.js")
