"""Chapter 6: causes. Change a part of the model, and decide every string again.

    python examples/ch6_causes.py

The source report describes a model; this chapter intervenes on it. A changed classifier is again a
classifier of letter counts, so the effect of a change can be counted over every string.
"""

# --8<-- [start:intervene]
import textwrap

import tsc_interp as tsc
from tsc_interp.checkpoints import load_checkpoint

model = tsc.load("generalization-errors")
outcome = tsc.intervene(model, ["bc{70}", "ab", "aac"], "head0.value[c]=like(b)")
for string, before, after in zip(
    ["bc{70}", "ab", "aac"], outcome.before, outcome.after, strict=True
):
    print(f"{string:8} {before:+9.4f} -> {after:+9.4f}")
# --8<-- [end:intervene]


# --8<-- [start:edit]
def errors(checkpoint: tsc.Checkpoint) -> str:
    """Every string up to 200 letters, by its counts: how many of each kind are wrong."""
    tally = tsc.verify(checkpoint).tally
    return (
        f"{tally.false_positives.total_vectors:6,} false positives, "
        f"{tally.false_negatives.total_vectors:6,} false negatives"
    )


original = load_checkpoint("generalization-errors")
print("as trained                ", errors(original))
for change in (
    "head0.value[c]=like(b)",
    "head0=zero",
    "head1=zero",
    "neuron0=zero",
    "neuron1=zero",
):
    print(f"{change:26}", errors(tsc.edit(original, change)))
# --8<-- [end:edit]

# --8<-- [start:diff]
edited = tsc.edit(original, "head0.value[c]=like(b)")
found = tsc.diff(original, edited)
for sentence in found.sentences():
    print(textwrap.fill(sentence, 88))
print("accepted:", tsc.check(found, original, edited).conclusion())
# --8<-- [end:diff]

# --8<-- [start:circuit]
strings = ["aac", "ab", "abc", "bcc"]
report = tsc.analyze("walkthrough", strings, probes=["circuit"])
result = report["circuit"]
for finding in result.findings:
    print(textwrap.fill(f"- {finding.text}", 88, subsequent_indent="  "))
print("kept:", ", ".join(result.circuit.kept))
# --8<-- [end:circuit]

# --8<-- [start:prune]
pruned = tsc.prune("many-heads", keep_horizon=True)
for sentence in pruned.sentences():
    print(textwrap.fill(sentence, 88))
# --8<-- [end:prune]

# --8<-- [start:report]
print("report:", report.save("tsc-report/ch6"))
# --8<-- [end:report]
