"""Figures side by side: ranges worked out by hand, colours with one meaning, labels placed anew."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest

from tsc_interp.plots.colours import diverging, token_style
from tsc_interp.plots.number_line import number_line
from tsc_interp.plots.shared import share_scales
from tsc_interp.plots.style import new_figure
from tsc_interp.plots.vectors import View, plane


def ranges(figure: go.Figure) -> tuple[tuple[float, ...], ...]:
    return tuple(figure.layout.xaxis.range), tuple(figure.layout.yaxis.range)


def line(x: list[float], y: list[float], **axis: str) -> go.Figure:
    return new_figure("n", "logit").add_scatter(x=x, y=y).update_xaxes(**axis)


def test_ranges_of_data_hold_both_with_a_twentieth_around() -> None:
    one, other = share_scales([line([0, 10], [-1, 1]), line([5, 20], [0, 3])])
    assert ranges(one) == ranges(other)
    # x: 0-10 with half a unit around, 5-20 with three quarters; y: -1 to 1, 0 to 3.
    assert ranges(one)[0] == pytest.approx((-0.5, 20.75))
    assert ranges(one)[1] == pytest.approx((-1.1, 3.15))


def test_on_a_logarithmic_axis_ranges_are_exponents() -> None:
    one, _ = share_scales([line([1, 100], [0, 1], type="log"), line([10, 1e4], [0, 1], type="log")])
    assert ranges(one)[0] == pytest.approx((-0.1, 4.15))  # 0 to 2, and 1 to 4, with a twentieth


def test_set_ranges_are_joined_and_keep_their_direction() -> None:
    figures = [line([0], [0]).update_yaxes(range=r) for r in ([4.5, -0.5], [2.5, -0.5])]
    assert [ranges(figure)[1] for figure in share_scales(figures)] == [(4.5, -0.5)] * 2


def test_squares_stay_squares() -> None:
    look = [token_style("a")]
    views = [View(np.array([[x, y]]), ("0", "1"), True, "") for x, y in ((2.0, 0.0), (0.0, -5.0))]
    one, other = share_scales([plane(view, ["a"], look) for view in views])
    assert ranges(one) == ranges(other)
    (left, right), (low, high) = ranges(one)
    assert right - left == pytest.approx(high - low)
    assert left < 0 < 2 < right
    assert low < -5 < 0 < high


def test_stacked_bars_are_as_long_as_their_parts() -> None:
    def bars(*parts: float) -> go.Figure:
        figure = new_figure("", "logit").update_layout(barmode="relative")
        for part in parts:
            figure.add_bar(x=["ab"], y=[part])
        return figure

    one, _ = share_scales([bars(3.0, 2.0, -1.0), bars(1.0)])
    assert ranges_of_y(one) == pytest.approx((-1.3, 5.3))


def test_numbers_behind_bars_keep_their_share_of_the_width() -> None:
    def bar(value: float, ends: tuple[float, float]) -> go.Figure:
        figure = new_figure("logit").add_bar(x=[value], y=[0], orientation="h")
        return figure.update_xaxes(range=ends)

    shared = share_scales([bar(10.0, (0.0, 20.0)), bar(-30.0, (-30.0, 10.0))])
    low, high = shared[0].layout.xaxis.range
    assert low == -30
    assert (high - 10.0) / (high - low) == pytest.approx(0.5)  # half of the first was free


def ranges_of_y(figure: go.Figure) -> tuple[float, ...]:
    return tuple(figure.layout.yaxis.range)


def test_axes_of_different_kinds_stay_as_they_are() -> None:
    one, other = line([0, 1], [0, 1]), new_figure("component 1 (93%)").add_scatter(x=[0, 9])
    shared = share_scales([one, other])
    assert [figure.layout.xaxis.range for figure in shared] == [None, None]
    named = [new_figure().add_bar(x=["a", "b"], y=[1, 2]) for _ in range(2)]
    assert share_scales(named)[0].layout.xaxis.range is None


def test_colours_share_their_limits() -> None:
    values = [np.array([[1.0, -2.0]]), np.array([[7.0, 3.0]])]
    figures = [new_figure().add_heatmap(z=z, **diverging(z)) for z in values]
    heat = [figure.data[0] for figure in share_scales(figures)]
    assert [(trace.zmin, trace.zmax) for trace in heat] == [(-7.0, 7.0)] * 2
    assert figures[0].data[0].zmax == 2.0  # the figures given are not touched


def test_labels_that_would_meet_are_placed_again() -> None:
    """Two points far apart on their own line, a hundredth of the shared one apart."""
    near = number_line([("head 0", [("aaaa", 0.0), ("bbbb", 1.0)])], x="value")
    far = number_line([("head 0", [("aaaa", 0.0), ("bbbb", 100.0)])], x="value")
    shared, _ = share_scales([near, far])
    low, high = shared.layout.xaxis.range
    pixel = (high - low) / 250  # on the narrowest plot
    first, second = sorted(shared.layout.annotations, key=lambda note: note.x)
    assert (first.x, second.x) == (0.0, 1.0)
    apart = abs(second.ax - first.ax) / pixel >= 4 * 7.5 or first.ay != second.ay
    assert apart
    assert shared.layout.height == share_scales([near, far])[1].layout.height
