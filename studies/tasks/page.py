"""Study: other tasks. Numbers and figures from studies/results/tasks.csv.gz."""

import numpy as np

from studies.plots import costs, dots_by_group, grouped, told
from studies.tables import read
from studies.tasks.run import GROWS, LIMIT, PLAIN, TASKS
from tsc_interp.plots.style import Figure
from tsc_interp.results.intervals import told_median

rows = read("tasks")
cells = grouped(rows, lambda row: (row["task"], row["scale"], row["attend_cls"]))
KINDS = {
    (PLAIN, 0): "plain, CLS not attended to",
    (PLAIN, 1): "plain, CLS attended to",
    (GROWS, 1): "log n, CLS attended to",
}


def horizon(row: dict) -> int:
    return LIMIT if row["first_error"] is None else row["first_error"] - 1


def lengths(task: str, scale: str, cls: int) -> np.ndarray:
    return np.array([horizon(row) for row in cells[task, scale, cls]])


def proved(task: str) -> str:
    return told(cells[task, GROWS, 1], lambda row: row["outcome"] == "proved")


# What the impossibility argument says of models that do not attend to CLS: f(a) = f(aa).
for task in ("at least 2 a", "at least 3 a", "parity of a"):
    shared = 1 if task != "at least 3 a" else 2
    assert lengths(task, PLAIN, 0).max() <= shared

# --8<-- [start:conclusions]
print(
    "- **With log n, more letters make the task no harder.** These shares of seeds are "
    "proved right at every length: "
    + ", ".join(
        f"{task.removeprefix('contains ')} {proved(task)}"
        for task in TASKS
        if task.startswith("contains")
    )
    + ". With plain softmax the median horizons are "
    + ", ".join(
        f"{told_median(lengths(task, PLAIN, 0))}" for task in TASKS if task.startswith("contains")
    )
    + f" (searched to {LIMIT:,})."
)
print(
    "- **Counting needs attention to CLS.** Without it, `a` and `aa` have the same logit, so *at "
    "least 2* and *parity* fail at length 2 at the latest, and *at least 3* at length 3, in all "
    f"{3 * 32} models, whatever they learn. With it the median horizons of at least 2 and 3 are "
    f"{told_median(lengths('at least 2 a', PLAIN, 1))} and "
    f"{told_median(lengths('at least 3 a', PLAIN, 1))} (plain), "
    f"{told_median(lengths('at least 2 a', GROWS, 1))} and "
    f"{told_median(lengths('at least 3 a', GROWS, 1))} (log n; searched to {LIMIT:,})."
)
print(
    "- **Majority needs a boundary at exactly one half, and no model has it.** Median horizons are "
    + ", ".join(
        f"{told_median(lengths('majority of a', *kind))} ({name})" for kind, name in KINDS.items()
    )
    + "."
)
print(
    "- **The most frequent of three letters needs three exact boundaries that meet** "
    "(three outputs, "
    "ties to the earlier letter). Median horizons are "
    + ", ".join(
        f"{told_median(lengths('most frequent letter', *kind))} ({name})"
        for kind, name in KINDS.items()
    )
    + f"; the longest is {max(lengths('most frequent letter', *kind).max() for kind in KINDS)}."
)
print(
    "- **Parity is not learned.** No model gets beyond "
    f"{max(lengths('parity of a', *kind).max() for kind in KINDS)} letters."
)
# --8<-- [end:conclusions]

# --8<-- [start:table]
print(f"{'task':24} {'':28} {'proved':>7} {'open':>5} {'least':>7} {'median':>7} {'most':>7}")
for (task, scale, cls), group in cells.items():
    found = lengths(task, scale, cls)
    kinds = [sum(row["outcome"] == kind for row in group) for kind in ("proved", "open")]
    print(
        f"{task:24} {KINDS[scale, cls]:28} {kinds[0]:7} {kinds[1]:5} {found.min():7,} "
        f"{np.median(found):7,.0f} {found.max():7,}"
    )
# --8<-- [end:table]

# --8<-- [start:cost]
print(costs("tasks"))
# --8<-- [end:cost]

groups = {task: lengths(task, GROWS, 1) for task in TASKS}
figure = Figure(
    name="tasks",
    title="How long each task is right: scores times log n, CLS attended to",
    figure=dots_by_group(groups, "horizon (letters)"),
    caption=f"One dot per seed; the bar is the median. Models are searched up to "
    f"{LIMIT:,} letters. Models without an error are drawn there, whether proved or not.",
    alt="Median horizons: "
    + ", ".join(f"{task} {np.median(found):,.0f}" for task, found in groups.items()),
)
