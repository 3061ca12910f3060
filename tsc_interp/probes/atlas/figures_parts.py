"""What the atlas's maps are drawn from: coloured cells that name their string, marks, ticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from tsc_interp.plots.colours import INK, WRONG, diverging, faint
from tsc_interp.plots.style import Label, add_label, place_labels
from tsc_interp.probes.atlas.result import AtlasResult, Marked
from tsc_interp.strings import Alphabet

SCALE_BELOW = {
    "title": {"text": " logit", "side": "right"},
    "orientation": "h",
    "thickness": 10,
    "len": 0.6,
    "y": -0.02,
    "yanchor": "top",
}
_VEIL = [(0.0, "rgba(0,0,0,0)"), (1.0, faint(WRONG, 0.6))]


def logit_map(
    x: NDArray[Any], y: NDArray[Any], logits: NDArray[Any], wrong: NDArray[Any],
    counts: NDArray[np.int64], *, scale: NDArray[Any], showscale: bool = False,
) -> list[Any]:  # fmt: skip
    """Logits as colours, the wrong ones veiled in purple, the decision curve on top."""
    alphabet = Alphabet(counts.shape[-1])
    words = [
        [
            "" if np.isnan(logit) else alphabet.write(count) + (" (wrong)" if bad else "")
            for count, logit, bad in zip(*row, strict=True)
        ]
        for row in zip(counts.tolist(), logits, wrong, strict=True)
    ]
    quiet = {"showscale": False, "hoverinfo": "skip"}
    traces = [
        go.Heatmap(
            x=x, y=y, z=logits.astype(np.float32), **diverging(scale), customdata=words,
            hovertemplate="%{customdata}: logit %{z:.4g}<extra></extra>", hoverongaps=False,
            showscale=showscale, colorbar=SCALE_BELOW,
        ),
    ]  # fmt: skip
    if np.nansum(wrong):
        veil = wrong.astype(np.float32)
        traces.append(go.Heatmap(x=x, y=y, z=veil, zmin=0, zmax=1, colorscale=_VEIL, **quiet))
    decided = logits[np.isfinite(logits)]
    if len(decided) and decided.min() < 0 < decided.max():
        line = {"start": 0, "end": 0, "coloring": "none", "showlabels": False}
        traces.append(
            go.Contour(x=x, y=y, z=logits.astype(np.float32), contours=line, **quiet)
        )  # fmt: skip
    # Every slice must have the same number of traces for the slider to count them.
    while len(traces) < 3:
        traces.append(go.Scatter(x=[None], y=[None], hoverinfo="skip", showlegend=False))
    return traces


def hover(string: str, logit: float, wrong: bool) -> str:
    kind = (", a false positive" if logit > 0 else ", a false negative") if wrong else ""
    return f"{string}: logit {logit:.4g}{kind}"


def pair_string(pair: str, counts: Sequence[int]) -> str:
    return "".join(
        letter if n == 1 else f"{letter}{{{n}}}" for letter, n in zip(pair, counts, strict=True)
    )


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
        plot_pixels=(250, 340, 520),
        avoid=avoid,
    )
    for label in labels:
        add_label(figure, label)


def power_ticks(update: Any, reach: int) -> None:
    """Ticks that read 1 : 1000 rather than 3."""
    places = [power for power in range(-reach, reach + 1) if power % max(1, -(-reach // 3)) == 0]
    superscript = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
    names = ["1" if p == 0 else f"10{str(p).translate(superscript)}" for p in places]
    update(tickvals=places, ticktext=names)


def first_errors(result: AtlasResult) -> str:
    """For the alternative texts."""
    first = [f"{one.letters}: {one.first_error}" for one in result.sets if one.first_error]
    if not first:
        return f"No error up to {result.right_through:,} letters."
    return f"First errors: {'; '.join(first[:8])}."
