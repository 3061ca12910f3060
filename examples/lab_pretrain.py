"""Laboratory: when pre-training on corrupted strings helps, and when it does not.

python examples/lab_pretrain.py
"""

# --8<-- [start:pretrain]
import tsc_interp as tsc

report = tsc.lab("pretrain", quick=True)
for row in report.result.to_pandas("Held-out names answered right").itertuples(index=False):
    print(f"{row.training:24} {row.right:6.1%}   exceptions {row[3]:6.1%}")
# --8<-- [end:pretrain]
