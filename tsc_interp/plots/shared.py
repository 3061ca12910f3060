"""The same figure of several models, to be seen side by side: one range per axis and colour scale.

An axis is shared where its title is the same everywhere: components of different models are
different directions, and each keeps its own. A figure with a menu or frames sets its ranges
itself, and is left alone but for its colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import plotly.graph_objects as go

from tsc_interp.plots.labels import place_labels
from tsc_interp.plots.number_line import name_points
from tsc_interp.plots.style import annotation

Range = tuple[float, float]
_ROOM = 0.05
"""Left around the data of an axis that has no range of its own, as plotly does."""
_LIMITS = (("zmin", "zmax"), ("cmin", "cmax"))


def share_scales(figures: Sequence[go.Figure]) -> list[go.Figure]:
    """Copies of the figures in which equal places, lengths and colours mean equal numbers."""
    copies = [go.Figure(figure) for figure in figures]
    _share_colours(copies)
    if any(copy.layout.updatemenus or copy.frames for copy in copies):
        return copies
    # Every one before any is changed: a square follows from both of its axes.
    ranges = {name: _wanted(copies, name) for name in ("xaxis", "yaxis")}
    if all(copy.layout.yaxis.scaleanchor for copy in copies):
        ranges = _square(ranges)
    for copy in copies:
        changed = False
        for name, shared in ranges.items():
            if shared is not None:
                axis = copy.layout[name]
                changed |= axis.range is not None and not np.allclose(axis.range, shared)
                axis.range = shared
        if changed:
            _name_again(copy)
    height = max(copy.layout.height or 0 for copy in copies)
    for copy in copies:
        copy.layout.height = height or None
    return copies


# -- axes ------------------------------------------------------------------------------------------


def _wanted(figures: Sequence[go.Figure], name: str) -> Range | None:
    """A range that holds every figure's; None where the axes are not of the same kind."""
    axes = [figure.layout[name] for figure in figures]
    if len({(axis.title.text, axis.type, axis.ticktext) for axis in axes}) > 1:
        return None
    ranges = [_range(figure, name) for figure in figures]
    known = [limits for limits in ranges if limits is not None]
    if len(known) < len(ranges):
        return None
    backwards = [low > high for low, high in known]
    if len(set(backwards)) > 1:
        return None
    low, high = min(map(min, known)), max(map(max, known))
    room = max(_room_for_numbers(figure, name) for figure in figures)
    if room:
        most = max(float(values.max()) for figure in figures for values in _all(figure, name))
        high = max(high, low + (most - low) / (1 - room))
    return (high, low) if backwards[0] else (low, high)


def _room_for_numbers(figure: go.Figure, name: str) -> float:
    """The share of the axis that bars leave to the numbers written behind them."""
    axis = figure.layout[name]
    if name != "xaxis" or axis.range is None or not any(t.type == "bar" for t in figure.data):
        return 0.0
    ends = [float(values.max()) for values in _all(figure, name)]
    low, high = map(float, axis.range)
    return min(0.8, max(0.0, (high - max(ends, default=high)) / (high - low)))


def _all(figure: go.Figure, name: str) -> list[Any]:
    return [values for values in map(_numbers, _along(figure, name)) if len(values)]


def _range(figure: go.Figure, name: str) -> Range | None:
    """As set, or what the data take; None for names instead of numbers."""
    axis = figure.layout[name]
    if axis.range is not None:
        low, high = axis.range
        return float(low), float(high)
    try:
        values = np.concatenate([[], *map(_numbers, _along(figure, name))])
    except (TypeError, ValueError):
        return None
    if axis.type == "log":
        values = np.log10(values[values > 0])
    values = values[np.isfinite(values)]
    if not len(values) or axis.autorange == "reversed":
        return None
    low, high = float(values.min()), float(values.max())
    room = _ROOM * (high - low or 1.0)
    return low - room, high + room


def _along(figure: go.Figure, name: str) -> Iterator[Any]:
    """What a figure has along an axis; stacked bars are as long as their parts together."""
    letter = name[0]
    stacked: dict[Any, list[float]] = {}
    for trace in figure.data:
        length = "x" if getattr(trace, "orientation", None) == "h" else "y"
        if trace.type == "bar" and letter == length:
            places = trace["y" if letter == "x" else "x"]
            for place, value in zip(places, trace[letter], strict=True):
                ends = stacked.setdefault(str(place), [0.0, 0.0])
                ends[value > 0] += float(value)
        else:
            yield trace[letter]
    yield from stacked.values()


def _numbers(values: Any) -> Any:
    return np.asarray([] if values is None else values, dtype=float).ravel()


def _square(wanted: dict[str, Range | None]) -> dict[str, Range | None]:
    """The larger span on both axes, around the middle of each."""
    across, up = wanted["xaxis"], wanted["yaxis"]
    if across is None or up is None:
        return {"xaxis": None, "yaxis": None}
    half = max(across[1] - across[0], up[1] - up[0]) / 2
    middles = {name: sum(limits) / 2 for name, limits in (("xaxis", across), ("yaxis", up))}
    return {name: (middle - half, middle + half) for name, middle in middles.items()}


# -- colours ---------------------------------------------------------------------------------------


def _share_colours(figures: Sequence[go.Figure]) -> None:
    """The n-th scale of a kind of trace is the same in every figure that has one."""
    scales: dict[tuple[str, int], list[Any]] = {}
    for figure in figures:
        by_kind = sorted(figure.data, key=lambda trace: str(trace.type))
        for kind, traces in groupby(by_kind, key=lambda trace: str(trace.type)):
            for place, scale in enumerate(_coloured(traces)):
                scales.setdefault((kind, place), []).append(scale)
    for same in scales.values():
        for names in _LIMITS:
            low, high = names
            if all(low in scale and scale[low] is not None for scale in same):
                limits = min(s[low] for s in same), max(s[high] for s in same)
                for scale in same:
                    scale[low], scale[high] = limits


def _coloured(traces: Iterable[Any]) -> Iterator[Any]:
    for trace in traces:
        for part in (trace, trace.marker if "marker" in trace else None):
            if part is not None and any("min" in n and n in part for pair in _LIMITS for n in pair):
                yield part


# -- labels ----------------------------------------------------------------------------------------


def _name_again(figure: go.Figure) -> None:
    """Labels were placed for the figure's own ranges; points stand closer in wider ones."""
    notes = [note for note in figure.layout.annotations if note.showarrow]
    if any(note.axref == "x" for note in notes):
        name_points(figure)
        return
    pointing = [note for note in notes if note.xref in (None, "x") and note.yref in (None, "y")]
    if not pointing or figure.layout.xaxis.type == "log":
        return
    others = [note for note in figure.layout.annotations if note not in pointing]
    arrows = any("marker" in trace and trace.marker.angleref for trace in figure.data)
    placed = place_labels(
        [(note.x, note.y) for note in pointing],
        [note.text for note in pointing],
        [figure.layout.xaxis.range, figure.layout.yaxis.range],
        origin=arrows,
    )
    figure.layout.annotations = [*others, *map(annotation, placed)]
