"""Study: length-generalisation bounds. Numbers and figures from studies/results/lengths.csv.gz."""

import numpy as np

from studies.plots import costs, dots_by_group, grouped, horizon_of, told
from studies.tables import read
from tsc_interp.plots.style import Figure
from tsc_interp.results.intervals import told_median

rows = read("lengths")
cells = grouped(rows, lambda row: (row["attention"], row["train_length"]))
lengths = sorted({row["train_length"] for row in rows})
grows = [row for row in rows if row["attention"] == "log n"]
proved = [row for row in grows if row["outcome"] == "proved"]
wrong = [row for row in grows if row["outcome"] == "wrong"]
undecided = [row for row in grows if row["outcome"] == "open"]
plain = [row for row in rows if row["attention"] == "plain"]


def needed(length: int) -> int:
    """The least N such that all models right up to N are right at every length, open ones aside."""
    return max(row["first_error"] for row in wrong if row["train_length"] == length)


first = np.array([row["first_error"] for row in wrong])
enough = int(first.max())
late = [row for row in wrong if row["first_error"] > row["train_length"]]
assert len(late) < len(wrong) / 3
assert enough > 10_000
assert needed(4) > needed(10) > needed(20)
assert all(row["outcome"] != "proved" for row in plain)

# --8<-- [start:conclusions]
right = told(grows, lambda row: row["outcome"] == "proved")
print(
    f"- **Most wrong models fail at short lengths, but a few fail very late.** Of {len(grows):,} "
    f"log n models, {right} are proved right at every length, {len(wrong)} are wrong and "
    f"{len(undecided)} are undecided. {told(wrong, lambda r: r not in late)} of the wrong ones "
    f"fail within the training length. The other {len(late)} first fail at a median length of "
    f"{told_median([row['first_error'] for row in late])} letters, the latest at {enough:,}. So "
    "no short test can decide."
)
print(
    "- **After training on longer strings, a shorter test is enough.** The latest first error is "
    + ", ".join(f"{needed(n):,} after training on up to {n}" for n in lengths)
    + " letters."
)
print(
    "- **Without log n no length is enough.** No plain model is proved right at every length. "
    "Median horizons are "
    + ", ".join(
        f"{told_median([horizon_of(row) for row in cells['plain', n]])} after training on up to {n}"
        for n in lengths
    )
    + " letters."
)
# --8<-- [end:conclusions]

# --8<-- [start:table]
print(
    f"{'attention':10} {'trained up to':>13} {'models':>7} {'proved':>7} {'wrong':>6} {'open':>5} "
    f"{'latest first error':>19}  median horizon of the wrong"
)
for (attention, length), group in cells.items():
    outcome = {
        name: sum(r["outcome"] == name for r in group) for name in ("proved", "wrong", "open")
    }
    errors = [row["first_error"] for row in group if row["first_error"]]
    print(
        f"{attention:10} {length:13} {len(group):7} {outcome['proved']:7} {outcome['wrong']:6} "
        f"{outcome['open']:5} {max(errors):19,}  {told_median(np.array(errors) - 1)}"
    )
# --8<-- [end:table]

# --8<-- [start:cost]
print(costs("lengths"))
# --8<-- [end:cost]

figure = Figure(
    name="lengths",
    title="First errors by training length",
    figure=dots_by_group(
        {
            f"{attention}, up to {length}": [r["first_error"] for r in group if r["first_error"]]
            for (attention, length), group in cells.items()
        },
        "letters",
    ),
    caption="One dot per wrong model, the mark is the median. With log n most wrong models fail at "
    "once and a few very late; plain softmax fails at lengths of all sizes.",
    alt=f"First errors with log n: median {np.median(first):,.0f}, at most {enough:,}.",
)
