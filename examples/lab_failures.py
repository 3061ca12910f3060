"""Laboratory: which failures can be predicted, and how wrong the wrong answers are.

python examples/lab_failures.py        needs scikit-learn: pip install 'tsc-interp[labs]'
"""

# --8<-- [start:failures]
import tsc_interp as tsc

report = tsc.lab("failures", quick=True)
for row in report.result.to_pandas("What predicts a failure").itertuples(index=False):
    print(f"{row.rule:14} precision {row.precision:6.1%}   recall {row.recall:6.1%}")
# --8<-- [end:failures]
