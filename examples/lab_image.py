"""Laboratory: attention over a picture, with the words so far as the context.

python examples/lab_image.py
"""

# --8<-- [start:image]
import textwrap

import tsc_interp as tsc

report = tsc.lab("image", quick=True)
for finding in report.findings:
    print(textwrap.fill(finding.text, 88))
    print()
for row in report.result.to_pandas("The sentences that are drawn").itertuples(index=False):
    print(f"{row[0]:14} {row[2]} (it is {row[1]})")
# --8<-- [end:image]
