"""What the atlas's maps are drawn from: coloured cells that name their string, marks, a slider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from tsc_interp.plots.style import INK, WRONG, Label, add_label, place_labels
from tsc_interp.probes.atlas.result import Marked
from tsc_interp.strings import Alphabet

HEIGHT = 0.75**0.5
"""Of a triangle with sides of length one."""
_PURPLE = [(0.0, "rgba(0,0,0,0)"), (1.0, "rgba(204,121,167,0.55)")]


def logit_map(
    x: NDArray[Any], y: NDArray[Any], logits: NDArray[Any], wrong: NDArray[Any],
    counts: NDArray[np.int64], scale: dict[str, Any],
) -> list[Any]:  # fmt: skip
    """Logits as colours, the wrong ones veiled in purple, the decision curve on top."""
    alphabet = Alphabet(counts.shape[-1])
    words = [
        [
            "" if np.isnan(logit) else hover(alphabet.write(count), logit, bool(bad))
            for count, logit, bad in zip(*row, strict=True)
        ]
        for row in zip(counts.tolist(), logits, wrong, strict=True)
    ]
    quiet = {"showscale": False, "hoverinfo": "skip"}
    traces = [
        go.Heatmap(
            x=x, y=y, z=logits.astype(np.float32), **scale, customdata=words, hoverongaps=False,
            hovertemplate="%{customdata}<extra></extra>",
            colorbar={"title": {"text": "logit"}, "thickness": 12, "len": 0.6},
        ),
    ]  # fmt: skip
    if np.nansum(wrong):
        veil = wrong.astype(np.float32)
        traces.append(go.Heatmap(x=x, y=y, z=veil, zmin=0, zmax=1, colorscale=_PURPLE, **quiet))
    decided = logits[np.isfinite(logits)]
    if len(decided) and decided.min() < 0 < decided.max():
        line = {"start": 0, "end": 0, "coloring": "none", "showlabels": False}
        traces.append(
            go.Contour(x=x, y=y, z=logits.astype(np.float32), contours=line,
                       line={"color": INK, "width": 2}, **quiet)
        )  # fmt: skip
    # Every slice must have the same number of traces for the slider to count them.
    while len(traces) < 3:
        traces.append(go.Scatter(x=[None], y=[None], hoverinfo="skip", showlegend=False))
    return traces


def hover(string: str, logit: float, wrong: bool) -> str:
    verdict = (", a false positive" if logit > 0 else ", a false negative") if wrong else ""
    return f"{string}: logit {logit:.4g}{verdict}"


def pair_string(pair: str, counts: Sequence[int]) -> str:
    return "".join(
        letter if n == 1 else f"{letter}{{{n}}}" for letter, n in zip(pair, counts, strict=True)
    )


def in_triangle(counts: Sequence[int]) -> NDArray[np.float64]:
    second, third = np.array(counts[1:], dtype=float) / sum(counts)
    return np.array([second + third / 2, third * HEIGHT])


def mark(
    figure: go.Figure,
    points: Sequence[tuple[NDArray[np.float64], Marked]],
    ranges: Sequence[Sequence[float]],
    avoid: Sequence[Label] = (),
) -> None:
    """First errors as crosses, given strings as circles, with their names beside them."""
    if not points:
        return
    figure.add_scatter(
        x=[float(at[0]) for at, _ in points],
        y=[float(at[1]) for at, _ in points],
        mode="markers",
        marker={
            "symbol": ["circle" if one.given else "x" for _, one in points],
            "size": 11,
            "color": [WRONG if one.wrong else INK for _, one in points],
            "line": {"width": 1.5, "color": "#f4f4f4"},
        },
        hovertext=[hover(one.string, one.logit, one.wrong) for _, one in points],
        hoverinfo="text",
        showlegend=False,
    )
    labels = place_labels(
        [at for at, _ in points],
        [one.string for _, one in points],
        ranges,
        plot_pixels=(180, 340, 520),  # beside a colour bar, a phone leaves no more
        avoid=avoid,
    )
    for label in labels:
        add_label(figure, label)


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
            }
        ]
    )


def power_ticks(update: Any, reach: int) -> None:
    """Ticks that read 1 : 1000 rather than 3."""
    places = [power for power in range(-reach, reach + 1) if power % max(1, -(-reach // 3)) == 0]
    superscript = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
    names = ["1" if p == 0 else f"10{str(p).translate(superscript)}" for p in places]
    update(tickvals=places, ticktext=names)
