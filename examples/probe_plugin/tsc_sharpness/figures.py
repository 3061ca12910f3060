"""One heat map, drawn from the result alone."""

from __future__ import annotations

from tsc_interp.plots.colours import SHARE
from tsc_interp.plots.heat import heat
from tsc_interp.plots.style import Figure
from tsc_sharpness.result import SharpnessResult


def figures(result: SharpnessResult) -> list[Figure]:
    shares, labels = result.sharpness.array, result.sharpness.labels
    return [
        Figure(
            name="sharpness",
            title="How sharply each head looks",
            figure=heat(shares, labels["head"], labels["string"], show=".0%", colours=SHARE),
            caption="The share of a head's weight that the token it looks at most gets.",
            alt=f"Shares between {shares.min():.0%} and {shares.max():.0%}.",
        )
    ]
