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
    f"- **Before training it is chance.** At the start all needed letters are read in "
    f"{told(pair, lambda r: covered(r, 'reads_at_first'))} of the two-head models for two "
    f"letters; heads that pick among three letters at random would give {chance(3, 2, 2):.0%}."
)
print(
    f"- **Training does better than luck.** Afterwards it is {told(pair, covered)} with two "
    f"heads (each picking `a` or `b` at random: {chance(2, 2, 2):.0%}) and "
    f"{told(triple, covered)} with three ({chance(2, 2, 3):.0%}): heads move to letters that "
    "are missing."
)
seeing = [row for row in two if row["heads"] > 1 and covered(row)]
blind = [row for row in two if row["heads"] > 1 and not covered(row)]
print(
    "- **Reading every letter decides whether a model works at all.** Of the models for two "
    f"letters with two heads or more that read both, {told(seeing, works)} get every string "
    f"of up to two letters right; of the others {told(blind, works)}."
)
print(
    f"- **Sixteen heads buy safety**: all letters are read in {told(many, covered, digits=1)} "
    f"of them, whatever the width and initialisation, and {told(many, works, digits=1)} work."
)
before = np.array([min(horizon_of(row), PRUNE_LIMIT) for row in kept])
after = np.array([row["kept_horizon"] for row in kept])
strongest = np.mean([r["kept_ranks"] == "1 1" for r in kept])
print(
    "- **What pruning keeps: one head per letter.** Pruned to the best two by exact horizon, "
    f"{told(kept, lambda r: set(r['kept_reads']) == {'a', 'b'})} of {len(kept)} sixteen-head "
    f"models keep one head for each letter; in {strongest:.0%} these are the two with the largest "
    f"margins. The horizon grows in {np.mean(after > before):.0%} of them "
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
    caption="The share of trained models in which every letter the task needs is read by some "
    "head, all widths and initialisations together. Chance: every head picks a needed letter.",
    alt="Shares of models that read all needed letters, by number of heads: "
    + "; ".join(
        f"{name}: " + ", ".join(f"{h} heads {y:.0%}" for h, y in zip(*curve, strict=True))
        for name, curve in curves.items()
    ),
)
