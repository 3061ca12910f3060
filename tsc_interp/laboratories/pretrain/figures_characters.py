"""The figure of names that share letters."""

from __future__ import annotations

import numpy as np

from tsc_interp.laboratories.pretrain.result import BOTH, Characters
from tsc_interp.plots.colours import INK
from tsc_interp.plots.series import add_bar, add_series, name_rows
from tsc_interp.plots.style import Figure, new_figure


def similar_names(found: Characters) -> Figure:
    """Return each measure with one mark per seed and arm, and a bar at the arm's mean."""
    figure = new_figure("share", "", height=440, legend=True)
    measures = found.measured.labels["measure"]
    spoken = []
    for place, arm in enumerate(found.measured.labels["arm"]):
        x: list[float] = []
        y: list[float] = []
        for row, measure in enumerate(measures):
            shares = found.measured.at(arm=arm, measure=measure)
            middle, at = float(shares.mean()), row + (place - 0.5) * 0.36
            x.extend(shares)
            y.extend(at + np.linspace(-0.08, 0.08, len(shares)))
            add_bar(figure, middle, at, 0.15)
            if arm == BOTH:
                spoken.append(f"{measure} {middle:.0%}")
        add_series(figure, x, y, arm, "%{x:.0%}", place=2 * place, mode="markers")
    figure.add_vline(x=1 / found.places, line={"color": INK, "dash": "dash", "width": 1.5})
    figure.update_xaxes(tickformat=".0%", range=[-0.03, 1.03])
    name_rows(figure, measures)
    return Figure(
        "similar-names",
        "Similar names get similar answers, also where that is wrong",
        figure,
        "Right: held-out names answered right, those from their family's home and the exceptions. "
        "Home: answered with that home. Same answer: pairs of names. One mark per seed, the bar is "
        "the mean; dashed is one of the places by chance.",
        f"Pre-trained and fine-tuned: {'; '.join(spoken)}. Chance: {1 / found.places:.1%}.",
    )
