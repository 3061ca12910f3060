"""Laboratory: what positions cost, and what they make possible.

python examples/lab_positions.py
"""

# --8<-- [start:run]
import textwrap

import tsc_interp as tsc

report = tsc.lab("positions", quick=True, max_length=7)
for finding in report.findings[:2]:
    print(textwrap.fill(f"- {finding.text}", 88, subsequent_indent="  "))
# --8<-- [end:run]
