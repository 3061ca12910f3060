"""Labels never cover each other, and stay as near to their points as that allows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsc_interp.plots.colours import diverging, token_style
from tsc_interp.plots.labels import CHARACTER_WIDTH, LINE_HEIGHT, place_labels, spread_labels
from tsc_interp.plots.number_line import number_line
from tsc_interp.plots.style import equal_axes, new_figure, template
from tsc_interp.plots.vectors import space, view

positions = st.lists(st.floats(-50, 50), max_size=8)


@given(positions, st.floats(0.1, 9))
def test_spread_labels_never_overlap_and_keep_their_order(where, width):
    placed = spread_labels(where, width)
    order = np.argsort(where, kind="stable")
    gaps = np.diff(np.array(placed)[order])
    assert (gaps >= width - 1e-9).all()


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=3), st.integers(1, 3))
def test_spread_labels_move_least_of_all_places_on_a_grid(where, width):
    """Against brute force: no arrangement on a fine grid has less squared movement."""
    placed = spread_labels(where, width)
    moved = sum((p - w) ** 2 for p, w in zip(placed, where, strict=True))
    grid = np.arange(-12, 12.01, 0.5)
    target = np.sort(where)
    best = min(
        sum((c - t) ** 2 for c, t in zip(choice, target, strict=True))
        for choice in itertools.combinations(grid, len(where))
        if all(b - a >= width - 1e-9 for a, b in itertools.pairwise(choice))
    )
    assert moved <= best + 1e-9


def test_spread_labels_stay_inside_where_they_fit():
    placed = spread_labels([0.0, 0.1, 9.9, 10.0], 2.0, low=0.0, high=10.0)
    assert placed == pytest.approx([1.0, 3.0, 7.0, 9.0])


@given(
    st.lists(
        st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.sampled_from(["a", "CLS", "ab{100}"])),
        min_size=1,
        max_size=9,
    )
)
def test_placed_labels_do_not_overlap_at_any_promised_size(points):
    ranges = [(-5.0, 5.0), (-5.0, 5.0)]
    sizes = (240, 340, 520)
    texts = [f"{text}{index}" for index, (_, _, text) in enumerate(points)]
    labels = place_labels([p[:2] for p in points], texts, ranges, plot_pixels=sizes)
    for size in sizes:
        boxes = []
        for label in labels:
            centre = (np.array([label.x, label.y]) + 5) / 10 * size + [label.dx, label.dy]
            half = np.array([CHARACTER_WIDTH * len(label.text), LINE_HEIGHT]) / 2
            boxes.append((centre - half, centre + half))
        for (low, high), (other_low, other_high) in itertools.combinations(boxes, 2):
            assert not ((low < other_high) & (other_low < high)).all(), (size, labels)


def test_points_that_coincide_share_a_label():
    labels = place_labels([[0, 0], [0, 0.001], [1, 1]], ["x", "y", "z"], [(-2, 2), (-2, 2)])
    assert [label.text for label in labels] == ["x, y", "z"]


def test_each_of_26_letters_has_its_own_look():
    letters = "abcdefghijklmnopqrstuvwxyz"
    styles = {(token_style(letter).colour, token_style(letter).symbol) for letter in letters}
    assert len(styles) == 26
    first = [token_style(letter) for letter in letters[:7]]
    assert len({style.colour for style in first}) == len({style.symbol for style in first}) == 7


def test_number_line_labels_of_26_letters_fit_a_phone():
    """Labels of one tier keep their distance even if all values are nearly equal."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    points = [(letter, 1 + 0.01 * index) for index, letter in enumerate(letters)]
    figure = number_line([("head 0", points)], x="value")
    tiers: dict[float, list[float]] = {}
    for annotation in figure.layout.annotations:
        tiers.setdefault(annotation.ay, []).append(annotation.ax)
    low, high = figure.layout.xaxis.range
    for places in tiers.values():
        assert (np.diff(sorted(places)) >= 15 * (high - low) / 250).all()
        assert low <= min(places) <= max(places) <= high


def test_diverging_scale_is_centred_on_zero():
    options = diverging([-1.0, 3.0, np.nan])
    assert (options["zmin"], options["zmid"], options["zmax"]) == (-3.0, 0.0, 3.0)
    assert diverging([])["zmax"] == 1.0


def test_equal_axes_make_a_square_with_everything_in_it():
    figure = new_figure()
    equal_axes(figure, [[1.0, 5.0], [2.0, -1.0]])
    (x0, x1), (y0, y1) = figure.layout.xaxis.range, figure.layout.yaxis.range
    assert x1 - x0 == pytest.approx(y1 - y0)
    assert x0 < 0 < 2 < x1
    assert y0 < -1 < 5 < y1
    assert figure.layout.yaxis.scaleanchor == "x"


def test_light_and_dark_differ_in_neutral_parts_only():
    light, dark = (template(dark).to_plotly_json()["layout"] for dark in (False, True))
    assert light["colorway"] == dark["colorway"]
    assert light["font"]["color"] != dark["font"]["color"]


def test_four_points_keep_their_distances_in_space():
    """The invariant of the exact figure: pairwise distances in 12 dimensions and in 3 agree."""
    points = np.random.default_rng(0).normal(size=(4, 12))
    figure = space(points, list("wxyz"), [token_style(t) for t in "abcd"])
    drawn = np.array([[t.x[0], t.y[0], t.z[0]] for t in figure.data[:4]])
    for i, j in itertools.combinations(range(4), 2):
        truth = np.linalg.norm(points[i] - points[j])
        assert np.linalg.norm(drawn[i] - drawn[j]) == pytest.approx(truth)


def test_view_of_many_dimensions_states_its_variance():
    """Points on a line: one component carries everything, and the axis says so."""
    line = np.outer(np.arange(5.0), np.ones(6))
    seen = view(line)
    assert not seen.exact
    assert "100%" in seen.axes[0]
    assert np.ptp(seen.points[:, 1]) == pytest.approx(0, abs=1e-9)


def test_view_along_the_readout_shows_the_logit():
    rng = np.random.default_rng(1)
    points, direction = rng.normal(size=(5, 7)), rng.normal(size=7)
    seen = view(points, first_axis=direction, first_name="w")
    np.testing.assert_allclose(
        seen.points[:, 0] * np.linalg.norm(direction), points @ direction, atol=1e-12
    )
