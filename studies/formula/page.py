"""Study: the horizon from the weights. Numbers and figures from studies/results/formula.csv.gz."""

import re

import numpy as np
from scipy.stats import spearmanr

from studies.plots import LOG, costs, grouped
from studies.tables import read
from tsc_interp.plots.colours import INK, MUTED, WRONG
from tsc_interp.plots.style import Figure, new_figure
from tsc_interp.results.intervals import told_share

rows = read("formula")
known = [row for row in rows if row["exact"] and row["predicted"]]
exact, predicted = (np.array([row[name] for row in known]) for name in ("exact", "predicted"))
rank = spearmanr(exact, predicted).statistic
off = np.abs(np.log(predicted / exact))


def grows_twice(string: str) -> bool:
    """Whether two letters occur often: what the formula does not look at."""
    return len(re.findall(r"\{\d+\}", string)) > 1


twice = np.array([grows_twice(row["exact_string"]) for row in known])
far = off > np.log(1.25)
beyond = [row for row in rows if row["exact"] is None]
at_once = exact == 1  # wrong on a single letter: neither a formula nor a search can miss it
later, off_later = ~at_once, off[~at_once]
within = int((off_later < np.log(1.1)).sum())
assert (predicted[at_once] == 1).all()
assert rank >= 0.95
assert len(known) >= 1000

# --8<-- [start:conclusions]
shapes = grouped(rows, lambda row: row["shape"])
low, high = (end(row["predicted"] for row in beyond) for end in (min, max))
print(
    f"- **A formula predicts the first error from the weights.** Over {len(known):,} "
    "trained models of "
    f"{len(shapes)} shapes the rank correlation between the formula and the exact first error is "
    f"**{rank:.4f}**. {at_once.sum()} of these models already fail on a single letter, which is "
    f"easy to predict. Over the other {later.sum()} the rank correlation is "
    f"{spearmanr(exact[later], predicted[later]).statistic:.4f}, the median error "
    f"{np.expm1(np.median(off_later)):.1%}, and {told_share(within, int(later.sum()))} predictions "
    f"are within 10 %. {len(beyond)} more models without an error up to a million letters are left "
    "out."
)
print(
    "- **The formula fails if two letters grow at once.** "
    f"{far.sum()} predictions are off by more than 25 %. In {(far & twice).sum()} of these the "
    "shortest wrong string has many copies of two letters. Of all "
    f"{twice.sum()} models with such a string, the formula overestimates the first error, or is "
    f"exact, in {np.mean(predicted[twice] >= exact[twice]):.0%}."
)
print(
    f"- **The formula also predicts errors beyond the search.** {len(beyond)} models make no error "
    f"up to a million letters. The formula expects their first errors between {low:,} and "
    f"{high:.1e} letters; these predictions were not checked."
)
# --8<-- [end:conclusions]
assert all(row["predicted"] > 10**6 for row in beyond)

# --8<-- [start:shapes]
print(f"{'shape':20} {'models':>6} {'median first error':>19} {'rank correlation':>17}")
for shape, group in grouped(known, lambda row: row["shape"]).items():
    pairs = [[row[name] for row in group] for name in ("exact", "predicted")]
    correlation = spearmanr(*pairs).statistic
    print(f"{shape:20} {len(group):6} {np.median(pairs[0]):19,.0f} {correlation:17.4f}")
# --8<-- [end:shapes]

# --8<-- [start:cost]
print(costs("formula"))
# --8<-- [end:cost]

plot = new_figure(x="exact first error (letters)", y="predicted", height=460, legend=True)
for name, chosen, style in (
    ("one letter grows", ~twice, {"color": MUTED[0], "symbol": "circle", "size": 5}),
    ("two letters grow", twice, {"color": WRONG, "symbol": "x", "size": 8}),
):
    plot.add_scatter(
        x=exact[chosen], y=predicted[chosen], mode="markers", name=name,
        marker={**style, "opacity": 0.7},
        text=[row["exact_string"] for row, take in zip(known, chosen, strict=True) if take],
        hovertemplate="%{text}: exact %{x:,}, predicted %{y:,}<extra></extra>",
    )  # fmt: skip
ends = [1, float(exact.max())]
plot.add_scatter(
    x=ends, y=ends, mode="lines", line={"color": INK, "dash": "dash", "width": 1.5},
    showlegend=False, hoverinfo="skip",
)  # fmt: skip
plot.update_xaxes(**LOG)
plot.update_yaxes(**LOG)
figure = Figure(
    name="formula",
    title="The first error: predicted from the weights, and exact",
    figure=plot,
    caption="One mark per trained model. On the dashed line the two agree. Above it are models "
    "whose shortest wrong string has many copies of two letters, which the formula ignores.",
    alt=f"Predicted against exact first error of {len(known):,} models on log axes; they lie along "
    f"the diagonal, rank correlation {rank:.4f}.",
)
