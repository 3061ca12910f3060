"""Colours mean one thing: letters are not answers, and what must be seen is seen on both pages."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from tsc_interp.plots.colours import (
    INK,
    LETTERS,
    MUTED,
    NEGATIVE,
    POSITIVE,
    WRONG,
    diverging,
    largest,
    mix,
    muted,
    string_style,
    token_style,
)
from tsc_interp.plots.labels import CHARACTER_WIDTH
from tsc_interp.plots.series import signed_bars
from tsc_interp.plots.style import decision_line, decision_shape, new_figure, template

PAGES = {"light": "#ffffff", "dark": "#15181c"}
# Machado, Oliveira and Fernandes (2009), severity 1: linear RGB as such an eye sees it.
EYES = {
    "most": np.eye(3),
    "protan": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                        [-0.003882, -0.048116, 1.051998]]),
    "deutan": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                        [-0.011820, 0.042940, 0.968881]]),
}  # fmt: skip


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(colour: str, eye: str = "most") -> np.ndarray:
    """CIE L*a*b* with the white of D65."""
    to_xyz = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                       [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip
    xyz = to_xyz @ np.clip(EYES[eye] @ linear(colour), 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: str, other: str, eye: str = "most") -> float:
    return float(np.linalg.norm(lab(one, eye) - lab(other, eye)))


def contrast(one: str, other: str) -> float:
    """As WCAG defines it."""
    low, high = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def test_the_measures_give_known_numbers():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert lab("#ffffff") == pytest.approx([100, 0, 0], abs=0.02)
    assert lab("#ff0000") == pytest.approx([53.24, 80.09, 67.20], abs=0.02)
    assert difference("#ff0000", "#00ff00", "deutan") < difference("#ff0000", "#00ff00") / 2


@pytest.mark.parametrize("letter", "abc")
@pytest.mark.parametrize("meaning", [POSITIVE, NEGATIVE, WRONG, INK])
def test_a_letter_is_no_answer(letter, meaning):
    """The three letters most models have: far from yes, no and wrong, whatever the eye."""
    colour = token_style(letter).colour
    assert difference(colour, meaning) > 40
    if meaning in (POSITIVE, NEGATIVE):
        assert min(difference(colour, meaning, eye) for eye in EYES) > 15


def test_no_letter_and_no_muted_colour_is_one_with_a_meaning():
    for colour in (*LETTERS, *MUTED):
        assert all(difference(colour, other) > 14 for other in (POSITIVE, NEGATIVE, WRONG))
    assert not set(LETTERS) & set(MUTED)


def test_yes_and_no_and_the_first_letters_are_told_apart_by_every_eye():
    for eye in EYES:
        assert difference(POSITIVE, NEGATIVE, eye) > 60
        for one, other in itertools.combinations("abc", 2):
            assert difference(token_style(one).colour, token_style(other).colour, eye) > 40


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_colours_show_on_both_pages(page):
    """3 is WCAG's least for what is drawn; letters also have shapes and outlines."""
    assert all(contrast(colour, page) > 2.9 for colour in (POSITIVE, NEGATIVE, WRONG, INK))
    assert all(contrast(colour, page) > 2 for colour in (*LETTERS, *MUTED))


@pytest.mark.parametrize("theme", PAGES)
def test_decision_lines_stand_out_on_both_pages(theme):
    """They have no colour of their own: the theme's is near-black or near-white."""
    figure = new_figure(dark=theme == "dark")
    decision_line(figure, x=0)
    decision_line(figure, y=0)
    figure.add_shape(decision_shape([1.0, 2.0]))
    assert all(shape.line.color is None for shape in figure.layout.shapes)
    layout = template(theme == "dark").layout
    assert contrast(layout.shapedefaults.line.color, PAGES[theme]) > 12
    curve = template(theme == "dark").data.contour[0].line.color
    assert contrast(curve, PAGES[theme]) > 12
    assert all(contrast(curve, colour) > 2.4 for colour in (POSITIVE, NEGATIVE))


@pytest.mark.parametrize("normal", [(3.0, 4.0), (-1.0, 0.0), (0.0, 2.0)])
def test_a_decision_line_is_where_the_logit_is_zero(normal):
    line = decision_shape(normal, offset=2.0)
    for x, y in ((line["x0"], line["y0"]), (line["x1"], line["y1"])):
        assert normal[0] * x + normal[1] * y == pytest.approx(2.0, abs=1e-6)
    assert decision_shape((0.0, 0.0))["visible"] is False


def test_scales_follow_the_page():
    """Nothing is the colour of the page, all of it is far from it, the ends are no and yes."""
    for theme, page in PAGES.items():
        scales = template(theme == "dark").layout.colorscale
        assert difference(scales.sequential[0][1], page) < 12
        assert contrast(scales.sequential[1][1], page) > 5
        assert scales.diverging[0][1].upper() == NEGATIVE
        assert scales.diverging[-1][1].upper() == POSITIVE
        places = [place for place, _ in scales.diverging]
        assert places == sorted(places)
        assert dict(scales.diverging)[0.5] == scales.sequential[0][1]
    drawn = go.Heatmap(z=[[-1.0, 2.0]], **diverging([[-1.0, 2.0]]))
    assert drawn.colorscale is None


def test_largest():
    assert largest([-3.0, 2.0, np.nan, np.inf]) == 3
    assert largest([]) == largest([0.0]) == 1


def test_mixing():
    assert mix("#ff0000", "#0000ff", 1) == "#ff0000"
    assert mix("#ff0000", "#0000ff", 0.5) == "#800080"


def test_thirty_muted_lines_differ():
    assert len({tuple(muted(index).values()) for index in range(30)}) == 30


def test_strings_have_the_colour_of_their_label_and_wrong_ones_their_own():
    assert string_style(1, True).colour == POSITIVE
    assert string_style(0, True).colour == NEGATIVE
    assert string_style(0, False) == string_style(1, False)
    assert string_style(0, False).colour == WRONG


def test_the_playground_has_the_same_letters():
    script = Path(__file__).parents[2] / "tsc_interp" / "playground" / "assets" / "dom.mjs"
    listed = re.search(r"LETTER_COLOURS = \[(.*?)\]", script.read_text(encoding="utf-8"), re.DOTALL)
    assert listed is not None
    assert tuple(re.findall(r'"(#\w{6})"', listed[1])) == LETTERS


@pytest.mark.parametrize(
    "values", [[19.94, 0.46, -1.93, -5.88], [-85.9, -12.8], [3.0], [0.0, 0.0], [1e-3, -400.0]]
)
def test_numbers_of_bars_fit_a_phone_and_touch_nothing(values):
    """At 330 pixels every number ends inside the plot, right of zero and of its bar."""
    names = ["ab{100}c{55}", "aac", "baac", "abc"][: len(values)]
    figure = signed_bars(
        values,
        names,
        x="logit",
        colours=[POSITIVE] * len(values),
        hatched=[True] * len(values),
        notes=[" wrong"] * len(values),
        hover=names,
    )
    low, high = figure.layout.xaxis.range
    pixels = 330 - CHARACTER_WIDTH * max(map(len, names))
    text = figure.data[-1]
    assert sorted(bar for trace in figure.data[:-1] for bar in trace.x) == sorted(values)
    for value, at, words in zip(values, text.x, text.text, strict=True):
        assert at == max(0.0, value)
        assert low <= value <= high
        end = (at - low) / (high - low) * pixels + CHARACTER_WIDTH * len(words)
        assert end <= pixels * 1.03 + 1e-6
