"""Study: heads and luck. Numbers and figures from studies/results/heads.csv.gz."""

from math import comb

import numpy as np

from studies.heads.run import PRUNE_LIMIT
from studies.plots import costs, grouped, horizon_of, lines, share, told
from studies.tables import read
from tsc_interp.plots.style import Figure

rows = read("heads")
cells = grouped(rows, lambda row: (row["needed"], row["heads"], row["d_model"], row["init"]))
HEADS = sorted({row["heads"] for row in rows})


def chance(letters: int, needed: int, heads: int) -> float:
    """All `needed` letters are read if each head picks one of `letters` alike, by itself."""
    return sum(
        (-1) ** j * comb(needed, j) * ((letters - j) / letters) ** heads for j in range(needed + 1)
    )


def covered(row: dict, when: str = "reads") -> bool:
    return set("abc"[: row["needed"]]) <= set(row[when])


def works(row: dict) -> bool:
    return horizon_of(row) > row["needed"]


two = [row for row in rows if row["needed"] == 2]
kept = [row for row in rows if row["kept_reads"] is not None]
assert len(kept) >= 32
assert abs(chance(2, 2, 2) - 0.5) < 1e-12  # two heads, two letters: one in two
assert abs(chance(3, 2, 2) - 2 / 9) < 1e-12

# --8<-- [start:conclusions]
pair, triple = ([r for r in two if r["heads"] == h] for h in (2, 3))
many = [row for row in rows if row["heads"] == 16]
print(
    "- **Before training, chance decides.** At the start, the heads of "
    f"{told(pair, lambda r: covered(r, 'reads_at_first'))} of the two-head models read both "
    f"needed letters. Heads that pick one of three letters at random would do so in "
    f"{chance(3, 2, 2):.0%}."
)
print(
    f"- **Training does better than chance.** After training, {told(pair, covered)} of the models "
    f"with two heads read both letters, and {told(triple, covered)} of those with three. "
    "Heads that "
    f"pick `a` or `b` at random would do so in {chance(2, 2, 2):.0%} and {chance(2, 2, 3):.0%}. So "
    "heads move to letters that no other head reads."
)
seeing = [row for row in two if row["heads"] > 1 and covered(row)]
blind = [row for row in two if row["heads"] > 1 and not covered(row)]
print(
    "- **A model works only if its heads read every needed letter.** Of the models for two letters "
    f"with two heads or more that read both, {told(seeing, works)} get every string of up to two "
    f"letters right. Of the others, {told(blind, works)} do."
)
print(
    f"- **With sixteen heads, no letter is missed.** {told(many, covered, digits=1)} of "
    "these models "
    f"read all needed letters, whatever the width and initialisation, and "
    f"{told(many, works, digits=1)} work."
)
before = np.array([min(horizon_of(row), PRUNE_LIMIT) for row in kept])
after = np.array([row["kept_horizon"] for row in kept])
strongest = np.mean([r["kept_ranks"] == "1 1" for r in kept])
print(
    "- **Pruning keeps one head per letter.** Pruned to the two heads with the longest exact "
    f"horizon, {told(kept, lambda r: set(r['kept_reads']) == {'a', 'b'})} of {len(kept)} "
    f"sixteen-head models keep one head for each letter. In {strongest:.0%} these are the heads "
    f"with the largest margins. The horizon grows in {np.mean(after > before):.0%} of the models "
    f"(median {np.median(before):,.0f} before, {np.median(after):,.0f} after; searched up to "
    f"{PRUNE_LIMIT:,} letters)."
)
# --8<-- [end:conclusions]

# --8<-- [start:table]
print(f"{'letters':>7} {'heads':>5} {'d_model':>7} {'init':>8} {'seeds':>5} {'at first':>9} "
      f"{'trained':>8} {'chance':>7} {'work':>6} {'median horizon':>15}")  # fmt: skip
for (needed, heads, d_model, begins), group in cells.items():
    lengths = [horizon_of(row) for row in group if works(row)]
    print(
        f"{needed:7} {heads:5} {d_model:7} {begins:>8} {len(group):5} "
        f"{share(group, lambda r: covered(r, 'reads_at_first')):9.0%} {share(group, covered):8.0%} "
        f"{chance(needed, needed, heads):7.0%} {share(group, works):6.0%} "
        f"{np.median(lengths) if lengths else 0:15,.0f}"
    )
# --8<-- [end:table]

# --8<-- [start:cost]
print(costs("heads"))
# --8<-- [end:cost]

curves = {}
for needed in (2, 3):
    group = [row for row in rows if row["needed"] == needed]
    heads = sorted({row["heads"] for row in group})
    curves[f"{needed} letters, trained"] = (
        heads, [share([r for r in group if r["heads"] == h], covered) for h in heads]
    )  # fmt: skip
    curves[f"{needed} letters, chance"] = (heads, [chance(needed, needed, h) for h in heads])
plot = lines(curves, "heads", "all needed letters are read", log_x=True)
plot.update_xaxes(tickvals=HEADS, ticktext=[str(h) for h in HEADS], dtick=None)
plot.update_yaxes(tickformat=".0%", range=[-0.03, 1.05])
figure = Figure(
    name="heads",
    title="Does every letter get a head?",
    figure=plot,
    caption="The share of trained models in which some head reads each letter that the task needs, "
    "over all widths and initialisations. Chance: every head picks a needed letter at random.",
    alt="Shares of models that read all needed letters, by number of heads: "
    + "; ".join(
        f"{name}: " + ", ".join(f"{h} heads {y:.0%}" for h, y in zip(*curve, strict=True))
        for name, curve in curves.items()
    ),
)
