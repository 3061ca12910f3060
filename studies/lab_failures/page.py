"""The failures laboratory, a whole run: studies/results/lab-failures.json.

Made by `tsc-interp lab failures --json`.
"""

from studies.tables import laboratory
from tsc_interp.laboratories.failures.result import RULES, SCORES, TESTS, FailuresResult
from tsc_interp.results.intervals import told_mean, told_median, told_share

found = FailuresResult.from_dict(laboratory("failures"))
assert found.by_seed is not None

# --8<-- [start:predictors]
print(f"| predictor | {found.tested} other seeds: precision | recall | seed "
      f"{found.options.fit_seed} alone, longer strings: precision, recall |")  # fmt: skip
print("|---|---|---|---|")
for rule in sorted(RULES, key=lambda rule: -found.by_seed.at(rule=rule).mean()):
    each = [told_mean(found.by_seed.at(rule=rule, score=score)) for score in SCORES]
    own = found.scores.at(rule=rule, test=TESTS[1], weight="vectors").tolist()
    print(f"| {rule} | {each[0]} | {each[1]} | {own[0]:.1%}, {own[1]:.1%} |")
# --8<-- [end:predictors]

# --8<-- [start:training]
print(f"| trained on | median horizon of {found.options.seeds} seeds | fail at once |")
print("|---|---|---|")
for cell in found.horizons.labels["cell"]:
    lengths = found.horizons.at(cell=cell)
    at_once = int((lengths == 0).sum())
    print(f"| {cell} | {told_median(lengths)} | {told_share(at_once, len(lengths))} |")
# --8<-- [end:training]
