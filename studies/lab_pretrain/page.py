"""The pretrain laboratory, a whole run: studies/results/lab-pretrain.json.

Made by `tsc-interp lab pretrain --seeds 32 --json`.
"""

from studies.tables import laboratory
from tsc_interp.laboratories.pretrain import ARMS, MEASURED, SURE, PretrainResult
from tsc_interp.results.intervals import told_mean

found = PretrainResult.from_dict(laboratory("pretrain"))

# --8<-- [start:arms]
print(f"| means of {found.options.seeds} seeds | " + " | ".join(ARMS) + " |")
print("|---|" + "---|" * len(ARMS))
for measure in MEASURED:
    told = "probability of the answer, " + measure[8:] if measure in SURE else measure
    print(f"| {told} | " + " | ".join(told_mean(found.of(arm, measure)) for arm in ARMS) + " |")
print(f"| constant answer: right | {told_mean(found.constant.array)} | | |")
# --8<-- [end:arms]
