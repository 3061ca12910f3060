"""Study: the size frontier. Certified models are built here, trained ones read from their rows."""

import numpy as np

import tsc_interp as tsc
from studies.plots import costs, dots_by_group, grouped, horizon_of
from studies.tables import read
from tsc_interp.plots.style import Figure
from tsc_interp.results.intervals import told_median

BUILT = (
    # Task, what is built, how far it is searched, the least number of weights, and why.
    ("contains a", {"letters": "a", "max_length": 1000}, 10**6, 10, "attention"),
    ("contains a, log n", {"letters": "a", "scores": "log_n"}, 10**6, 10, "attention"),
    ("contains a and b", {"max_length": 10}, 10**6, 12, "a neuron"),
    ("contains a and b", {"max_length": 1000}, 10**6, 12, "a neuron"),
    ("contains a and b", {"max_length": 100_000}, 10**6, 12, "a neuron"),
    ("contains a and b, log n", {"scores": "log_n"}, 10**6, 12, "a neuron"),
    ("contains a, b, c (4 letters)", {"letters": "abc", "n_letters": 4}, 10**6, 15, "two bends"),
    ("at least 3 a", {"task": "at_least", "k": 3}, 300, 10, "attention"),
    ("majority of a", {"task": "majority", "max_length": 40}, 10**6, 10, "attention"),
    (
        "parity of a (2 letters)",
        {"task": "parity", "n_letters": 2, "max_length": 5},
        100,
        9,
        "attention",
    ),
)

built = []
for name, options, limit, least, why in BUILT:
    asked = {"max_length": 100} | options if "a, b, c" in name else options
    model = tsc.construct(**asked)
    found = tsc.certify(model, limit=limit).horizon
    reach = "every length" if found.infinite else f"{found.verified_length:,}"
    if found.length is None and not found.infinite:
        reach += " (searched)"
    built.append((name, model, found, reach, least, why))
    assert found.infinite or found.verified_length >= (model.length or limit)
    assert model.checkpoint.n_parameters >= least
tight = [row for row in built if row[1].checkpoint.n_parameters == row[4]]
assert len(tight) == 7

rows = read("frontier")
cells = grouped(
    rows, lambda row: (row["task"], row["parameters"], row["d_model"], row["heads"], row["neurons"])
)
trained = {key: np.array([horizon_of(row) for row in group]) for key, group in cells.items()}
contains = {key: value for key, value in trained.items() if key[0] == "contains a and b"}
same = next(value for key, value in contains.items() if key[1] == 12)
ten = next(value for key, value in contains.items() if key[1] == 10)
two_heads = next(value for key, value in contains.items() if key[1] == 14)
largest = max(contains, key=lambda key: key[1])
assert ten.max() < 2
assert same.max() < 1000

# --8<-- [start:conclusions]
print(
    f"- **{len(tight)} of {len(built)} certified points cannot have fewer weights.** Any rule that "
    "depends on the string needs at least ten weights, and ten are enough for one letter, for "
    "majority and for at least k. Contains a and b needs at least twelve, and models with twelve "
    "are certified here for 10, 1,000 and 100,000 letters. The frontier is flat: longer strings "
    "need larger weights, but not more of them."
)
print(
    f"- **Training does not reach the frontier.** Over {len(same)} trained models with the same 12 "
    f"weights, the median horizon is {told_median(same)} and the best is {same.max():,}. With 14 "
    f"weights and two heads the median is {told_median(two_heads)} and the best "
    f"{two_heads.max():,}."
)
print(
    f"- **Trained models obey the lower bound.** None of {len(ten)} models with 10 "
    "weights gets all "
    "strings of two letters right, as the bound requires."
)
print(
    "- **The task does not need more weights, but training does.** With "
    f"{largest[1]} weights the median horizon is {told_median(contains[largest])}."
)
# --8<-- [end:conclusions]

# --8<-- [start:built]
print(f"{'written down':32} {'weights':>7} {'least':>6} {'by':>10} {'certified up to':>22}")
for name, model, _, reach, least, why in built:
    print(f"{name:32} {model.checkpoint.n_parameters:7} {least:6} {why:>10} {reach:>22}")
# --8<-- [end:built]

# --8<-- [start:table]
print(f"{'trained':18} {'weights':>7} {'d, heads, neurons':>18} {'seeds':>6} {'best':>9}  median")
for (task, weights, *shape), value in trained.items():
    print(
        f"{task:18} {weights:7} {', '.join(map(str, shape)):>18} {len(value):6} "
        f"{value.max():9,}  {told_median(value)}"
    )
# --8<-- [end:table]

# --8<-- [start:cost]
print(costs("frontier"))
# --8<-- [end:cost]

figure = Figure(
    name="frontier",
    title="Horizons of trained models by their number of weights",
    figure=dots_by_group(
        {f"{key[1]} weights": value.tolist() for key, value in contains.items()},
        "horizon (letters)",
    ),
    caption="Contains a and b over three letters, 64 seeds each; the mark is the median. "
    "Constructed models with 12 weights reach any horizon up to 100,000. Models without an error "
    "up to a million letters are drawn at a million.",
    alt="; ".join(f"{key[1]} weights: median {np.median(v):,.0f}" for key, v in contains.items()),
)
