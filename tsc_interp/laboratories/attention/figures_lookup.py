"""The look-up's figure: every table's distance from the look-up, under the bound."""

from __future__ import annotations

import numpy as np

from tsc_interp.laboratories.attention.result import Lookup
from tsc_interp.plots.colours import INK
from tsc_interp.plots.series import add_series
from tsc_interp.plots.style import Figure, new_figure

_FLOOR = 1e-9


def look_up(lookup: Lookup) -> Figure:
    """Return distance against lead, one mark per table and temperature, and the bound above."""
    figure = new_figure("lead over T", "distance from the look-up, in D", height=460, legend=True)
    spoken = []
    for place, (temperature, found) in enumerate(
        zip(lookup.sharp.labels["temperature"], lookup.sharp.array, strict=True)
    ):
        seen = found[:, 1] > _FLOOR
        name = f"T = {float(temperature):g}"
        add_series(figure, found[seen, 0], found[seen, 1], name, "lead %{x:.2f} T: %{y:.2g} D",
                   place=place, mode="markers", size=6, marker={"opacity": 0.7})  # fmt: skip
        spoken.append(f"{name}: median {np.median(found[:, 1]):.2g} D")
    leads = np.geomspace(1e-3, np.log((lookup.keys - 1) / _FLOOR), 200)
    rest = (lookup.keys - 1) * np.exp(-leads)
    add_series(figure, leads, rest / (1 + rest), "bound", "at most %{y:.2g} D", mode="lines",
               colour=INK, width=3)  # fmt: skip
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
