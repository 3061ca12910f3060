"""The pretrain laboratory, a whole run: studies/results/lab-pretrain.json.

Made by `tsc-interp lab pretrain --seeds 64 --json`.
"""

import numpy as np

from studies.tables import laboratory
from tsc_interp.laboratories.pretrain.result import ARMS, BOTH, GROUPS, LONGER, PretrainResult
from tsc_interp.laboratories.pretrain.words import points, sign_test
from tsc_interp.results.intervals import told_mean, told_median

found = PretrainResult.from_dict(laboratory("pretrain"))
held_out = GROUPS[1]

# --8<-- [start:partners]
print(f"| a letter's partner ({found.questions:,} held-out questions) | right, mean of seeds "
      "| median seed | best seed | confidence |")  # fmt: skip
print("|---|---|---|---|---|")
for arm in ARMS:
    right = found.partners.at(arm=arm, group=held_out)
    sure = float(found.confidence.at(arm=arm, group=held_out).mean())
    print(f"| {arm} | {told_mean(right, 1)} | {np.median(right):.1%} | {right.max():.1%} "
          f"| {sure:.0%} |")  # fmt: skip
print(f"| always the same partner | {told_mean(found.constant.array, 1)} | | | |")
# --8<-- [end:partners]

# --8<-- [start:contains]
print("| contains a and b | pre-trained | fine-tuned alone, as many steps | difference, seed by "
      "seed | sign test |")  # fmt: skip
print("|---|---|---|---|---|")
for labels in found.options.labels:
    means = [f"{found.contains.at(arm=arm, labels=labels).mean():.1%}" for arm in (BOTH, LONGER)]
    gains = found.gains(LONGER, labels)
    print(f"| {labels} labels | {means[0]} | {means[1]} | {points(gains)} "
          f"| p = {sign_test(gains):.2f} |")  # fmt: skip
both, alone = (found.horizons.at(arm=arm, labels=labels) for arm in (BOTH, LONGER))
further, less = int((both > alone).sum()), int((both < alone).sum())
p = sign_test(both - alone)
print(f"| {labels} labels: median horizon | {told_median(both)} | {told_median(alone)} "
      f"| {further} seeds go further with it, {less} less far | p = {p:.2f} |")  # fmt: skip
# --8<-- [end:contains]
