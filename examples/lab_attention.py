"""Laboratory: what one head can do by construction, and what takes two.

python examples/lab_attention.py
"""

# --8<-- [start:keys]
import textwrap

import tsc_interp as tsc

for spread in (0.5, 0.05):
    report = tsc.lab("attention", quick=True, spread=spread)
    print(textwrap.fill(report.findings[0].text, 88))
    print()
# --8<-- [end:keys]

# --8<-- [start:construction]
for row in report.result.to_pandas("The construction at γ = 6").itertuples(index=False):
    print(" ".join(f"{cell:8.2f}" if isinstance(cell, float) else f"{cell:15}" for cell in row))
# --8<-- [end:construction]
