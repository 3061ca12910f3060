"""The look-up's figure: every table's distance from the look-up, under the bound."""

from __future__ import annotations

import numpy as np

from tsc_interp.laboratories.attention.result import Lookup
from tsc_interp.plots.colours import INK, MUTED
from tsc_interp.plots.style import Figure, new_figure

_FLOOR = 1e-9
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")


def look_up(lookup: Lookup) -> Figure:
    """Return distance against lead, one mark per table and temperature, and the bound above."""
    figure = new_figure("lead over T", "distance from the look-up, in D", height=460, legend=True)
    spoken = []
    for place, (temperature, found) in enumerate(
        zip(lookup.sharp.labels["temperature"], lookup.sharp.array, strict=True)
    ):
        seen = found[:, 1] > _FLOOR
        name = f"T = {float(temperature):g}"
        figure.add_scatter(
            x=found[seen, 0], y=found[seen, 1], mode="markers", name=name,
            marker={"color": MUTED[place % 6], "symbol": _SYMBOLS[place % 6], "size": 6,
                    "opacity": 0.7},
            hovertemplate="lead %{x:.2f} T: %{y:.2g} D<extra>" + name + "</extra>",
        )  # fmt: skip
        spoken.append(f"{name}: median {np.median(found[:, 1]):.2g} D")
    leads = np.geomspace(1e-3, np.log((lookup.keys - 1) / _FLOOR), 200)
    rest = (lookup.keys - 1) * np.exp(-leads)
    figure.add_scatter(
        x=leads, y=rest / (1 + rest), mode="lines", name="bound", line={"color": INK, "width": 3},
        hovertemplate="at most %{y:.2g} D<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(range=[-0.5, float(leads[-1])])
    figure.update_yaxes(type="log", exponentformat="power", range=[np.log10(_FLOOR), 0.3])
    figure.update_layout(margin_t=56)
    return Figure(
        "look-up",
        "Sharp attention is a look-up, as far as one key leads",
        figure,
        "One mark per table and temperature. The line is r/(1 + r) with r = (n - 1) exp(-lead/T): "
        "no mark can lie above it. Marks below one in a thousand million are left out.",
        f"Distances from the look-up. {'; '.join(spoken)}.",
    )
