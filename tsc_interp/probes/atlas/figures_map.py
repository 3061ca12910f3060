"""The map of all mixtures of three letters: a triangle, bands along its edges, discs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from tsc_interp.plots.colours import WRONG, diverging_marks
from tsc_interp.plots.series import add_guide
from tsc_interp.plots.style import Figure, new_figure
from tsc_interp.probes.atlas.figures_parts import first_errors, hover, logit_map, mark
from tsc_interp.probes.atlas.result import ANY_LENGTH, AtlasResult, edge_counts, triangle_counts
from tsc_interp.results.base import LabeledArray
from tsc_interp.strings import Alphabet

HEIGHT = 0.75**0.5
"""Of a triangle with sides of length one."""
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, HEIGHT]])
OUTWARD = {1: 0.13, 2: 0.05, 3: 0.0}
"""How far outside the triangle strings of one, two and three letters stand."""


def triangle(result: AtlasResult, logits: LabeledArray, wrong: LabeledArray) -> Figure:
    """The inside, a band along each edge, a disc for each corner; a slice per length."""
    figure = new_figure(height=600)
    rows, columns = logits.shape[1:]
    x, y = np.linspace(0, 1, columns), np.linspace(0, HEIGHT, rows)
    lengths = [None if name == ANY_LENGTH else int(name) for name in logits.labels["length"]]
    per_slice = 0
    for index, length in enumerate(lengths):
        counts, _ = triangle_counts(length, result.lens)
        cells = (logits.array[index], wrong.array[index], counts)
        traces = [
            *logit_map(x, y, *cells, scale=logits.array, showscale=True),
            *_bands(result, index, length, logits.array),
            *_discs(result, index, logits.array),
        ]
        per_slice = len(traces)
        figure.add_traces([trace.update(visible=index == len(lengths) - 1) for trace in traces])
    sides = np.vstack([CORNERS, CORNERS[:1]])
    add_guide(figure, sides[:, 0], sides[:, 1])
    across, up = [-0.18, 1.18], [-0.14, HEIGHT + 0.2]
    # A string of one letter is its disc, which says as much.
    shown = [one for one in result.marked if np.count_nonzero(one.counts) > 1]
    mark(figure, [(place_of(one.counts, result.lens), one) for one in shown], (across, up))
    if len(lengths) > 1:
        length_slider(figure, [length or 0 for length in lengths], per_slice)
    hidden = {"visible": False}
    figure.update_xaxes(range=across, constrain="domain", **hidden)
    figure.update_yaxes(range=up, scaleanchor="x", constrain="domain", **hidden)
    figure.update_layout(margin={"l": 8, "r": 8, "t": 8, "b": 8})
    share = float(np.nanmean(wrong.array[-1]))
    last = lengths[-1] or 0
    which = f"of {last:,} letters" if result.length_matters else "of every length"
    first, second, third = tuple(result.letters)
    stretched = (
        " Places are stretched towards the edges, so that one letter in 10,000 still shows."
        if result.lens > 1
        else ""
    )
    return Figure(
        "triangle",
        "Every string there is, by its mixture of letters",
        figure,
        "Inside the triangle are strings with all three letters, on the bands along its sides "
        "strings of two, in the discs strings of one; hover over a place for its string. "
        "Vermillion: the answer is yes; blue: no; the line between is the decision. Purple: the "
        f"answer is wrong. Crosses are the first errors.{stretched} "
        + (
            "Length matters to this model: the slider changes it."
            if result.length_matters
            else "Length does not matter to this model, only the mixture does."
        ),
        f"Triangle with corners {first}, {second} and {third}; among its cells, strings {which}, "
        f"{share:.1%} are wrong. {first_errors(result)}",
    )


def place_of(counts: Sequence[int] | NDArray[np.int64], lens: float) -> NDArray[np.float64]:
    """Where a string stands on the map: inside, on a band along an edge, or in a corner's disc."""
    roots = np.asarray(counts, dtype=float) ** (1 / lens)
    at = roots / roots.sum() @ CORNERS
    present = np.flatnonzero(roots)
    away = CORNERS[present].mean(axis=0) - CORNERS.mean(axis=0)
    length = float(np.hypot(*away))
    return np.asarray(at + OUTWARD[len(present)] * (away / length if length > 1e-9 else 0.0))


def _bands(
    result: AtlasResult, index: int, length: int | None, scale: NDArray[np.float64]
) -> list[Any]:
    """Strings of two letters, along the edges: their logits, and outside them what is wrong."""
    edges, wrong = result.edges, result.edges_wrong
    if edges is None or wrong is None:
        return []
    alphabet, at, logits, bad, words = Alphabet(3), [], [], [], []
    for e, edge in enumerate(edges.labels["edge"]):
        full = np.zeros((edges.shape[2], 3), dtype=np.int64)
        full[:, [result.letters.index(letter) for letter in edge]] = edge_counts(
            length, result.lens
        )
        at += [place_of(counts, result.lens) for counts in full]
        logits += edges.array[index, e].tolist()
        bad += (wrong.array[index, e] > 0).tolist()
        words += [alphabet.write(counts) for counts in full]
    x, y = np.array(at).T
    centre = CORNERS.mean(axis=0)
    outside = centre + (np.array(at)[bad] - centre) * 1.09
    hovers = [hover(*one) for one in zip(words, logits, bad, strict=True)]
    named = {"showlegend": False, "mode": "markers"}
    return [
        go.Scatter(x=x, y=y, customdata=hovers, hovertemplate="%{customdata}<extra></extra>",
                   marker={"size": 11, "color": logits, **diverging_marks(scale)}, **named),
        go.Scatter(x=outside[:, 0], y=outside[:, 1], hoverinfo="skip",
                   marker={"size": 6, "color": WRONG}, **named),
    ]  # fmt: skip


def _discs(result: AtlasResult, index: int, scale: NDArray[np.float64]) -> list[Any]:
    """Strings of one letter, in the corners, ringed where wrong."""
    corners, wrong = result.corners, result.corners_wrong
    if corners is None or wrong is None:
        return []
    x, y = np.array([place_of(row, 1.0) for row in np.eye(3, dtype=np.int64)]).T
    bad, logits = wrong.array[index] > 0, corners.array[index]
    words = [hover(f"only {one[0]}", one[1], bool(one[2]))
             for one in zip(result.letters, logits, bad, strict=True)]  # fmt: skip
    return [
        go.Scatter(
            x=x, y=y, mode="markers+text", text=[f"<b>{letter}</b>" for letter in result.letters],
            customdata=words, hovertemplate="%{customdata}<extra></extra>", showlegend=False,
            marker={"size": 30, "color": logits, **diverging_marks(scale),
                    "line": {"width": np.where(bad, 5, 0).tolist(), "color": WRONG}},
        )
    ]  # fmt: skip


def length_slider(figure: go.Figure, lengths: Sequence[int], per_slice: int) -> None:
    always = len(figure.data) - per_slice * len(lengths)
    steps = [
        {
            "label": f"{length:,}",
            "method": "update",
            "args": [
                {
                    "visible": [
                        index // per_slice == chosen for index in range(per_slice * len(lengths))
                    ]
                    + [True] * always
                }
            ],
        }
        for chosen, length in enumerate(lengths)
    ]
    figure.update_layout(
        sliders=[
            {
                "steps": steps,
                "active": len(steps) - 1,
                "currentvalue": {"prefix": "strings of length "},
                "pad": {"t": 48},
                "x": 0.06,
                "len": 0.88,
            }
        ]
    )
