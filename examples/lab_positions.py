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

# --8<-- [start:trace]
result = report.result
head = result.order_head()
print(f"{result.traced}, head {head}")
for string in ("ab", "ba", "cab", "cba"):
    weights = result.weights.at(string=string, head=head)
    shares = "  ".join(f"{letter} {w:6.1%}" for letter, w in zip("abc", weights, strict=True))
    print(f"{string:4} {shares}   logit {float(result.logits.at(string=string)):+8.3f}")
# --8<-- [end:trace]
