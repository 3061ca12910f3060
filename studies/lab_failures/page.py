"""The failures laboratory, a whole run: studies/results/lab-failures.json.

Made by `tsc-interp lab failures --json`.
"""

import numpy as np

from studies.tables import laboratory
from tsc_interp.laboratories.failures import RULES, FailuresResult
from tsc_interp.results.intervals import told_median, told_share

found = FailuresResult.from_dict(laboratory("failures"))

# --8<-- [start:predictors]
seeds = len(found.predicted.labels["seed"])
print(f"| predictor | {seeds} seeds: precision | recall |")
print("|---|---|---|")
for rule in RULES:
    precision, recall = found.told(rule)
    print(f"| {rule} | {precision} | {recall} |")
# --8<-- [end:predictors]

# --8<-- [start:training]
print(f"| trained on | median horizon of {found.options.seeds} seeds | fail at once "
      "| steps to 99 %, median | reached |")  # fmt: skip
print("|---|---|---|---|---|")
for cell in found.horizons.labels["cell"]:
    lengths, steps = found.horizons.at(cell=cell), found.speed.at(cell=cell)
    at_once, reached = int((lengths == 0).sum()), int(np.isfinite(steps).sum())
    print(f"| {cell} | {told_median(lengths)} | {told_share(at_once, len(lengths))} "
          f"| {told_median(steps)} | {reached} of {len(steps)} |")  # fmt: skip
# --8<-- [end:training]
