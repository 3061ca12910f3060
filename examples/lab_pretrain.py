"""Laboratory: when pre-training on corrupted strings helps, and when it does not.

python examples/lab_pretrain.py
"""

# --8<-- [start:pretrain]
import tsc_interp as tsc

report = tsc.lab("pretrain", quick=True)
table = report.result.to_pandas("A letter's partner")
for row in table[table.names == "held out"].itertuples(index=False):
    print(f"{row.training:24} {row.right:6.1%} ± {row[3]:.1%}")
# --8<-- [end:pretrain]
