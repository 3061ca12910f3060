"""Laboratory: cheaper attention, its cost, and what is exact at no cost.

python examples/lab_efficient.py
"""

# --8<-- [start:run]
import textwrap

import tsc_interp as tsc

report = tsc.lab("efficient", quick=True)
for finding in report.findings[:3]:
    print(textwrap.fill(f"- {finding.text}", 88, subsequent_indent="  "))
# --8<-- [end:run]

# --8<-- [start:witness]
# Why a window cannot work: CLS reads three of four letters, and these two look the same to it.
model = tsc.load("walkthrough")
for string in ("bbba", "bbbb"):
    logit = model(string[:3]).detach().item()
    print(f"{string}: should be {'yes' if 'a' in string else 'no'}, logit {logit:.4f}")
# --8<-- [end:witness]
