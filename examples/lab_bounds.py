"""Laboratory: what a validation set says about a model, and what it does not.

python examples/lab_bounds.py
"""

# --8<-- [start:bounds]
import textwrap

import tsc_interp as tsc

report = tsc.lab("bounds", quick=True)
for finding in report.findings[:3]:
    print(textwrap.fill(finding.text, 88))
    print()
# --8<-- [end:bounds]
