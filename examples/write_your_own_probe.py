"""Write a probe of your own: a result, a run, words, figures.

    python examples/write_your_own_probe.py

The probe asks: *which letter must be repeated to flip the model's answer?* For each string, it
doubles the count of one letter and reads the logit again. In the package, each of the four parts is
a file of the probe's folder.
"""

# --8<-- [start:result]
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import plotly.graph_objects as go

import tsc_interp as tsc
from tsc_interp.plots.style import Figure, diverging, new_figure
from tsc_interp.results.base import Finding, LabeledArray, ProbeResult, Table


class DoublingResult(ProbeResult):
    """What doubling each letter's count does to each string's logit."""

    probe: ClassVar[str] = "doubling"

    logits: LabeledArray
    """`[string]`"""
    doubled: LabeledArray
    """`[string letter]`: the logit with this letter's count doubled."""

    def tables(self) -> tuple[Table, ...]:
        labels = self.doubled.labels
        rows = zip(labels["string"], self.logits.array, self.doubled.array.tolist(), strict=True)
        return (
            Table(
                title="Logits, as they are and with one letter's count doubled",
                columns=("string", "logit", *labels["letter"]),
                rows=tuple((string, float(logit), *row) for string, logit, row in rows),
            ),
        )


# --8<-- [end:result]


# --8<-- [start:run]
def run(model: tsc.HookedClassifier, strings: Sequence[str]) -> DoublingResult:
    """One forward pass for the strings, one for each letter doubled."""
    letters = model.config.alphabet.letters
    counts = model.config.alphabet.count_matrix(strings)
    doubled = np.empty((len(strings), len(letters)))
    for column in range(len(letters)):
        more = counts.copy()
        more[:, column] *= 2
        doubled[:, column] = model(model.counts(more)).detach().numpy()
    logits = model(model.counts(counts)).detach().numpy()
    result = DoublingResult(
        findings=(),
        logits=LabeledArray.of(logits, string=strings),
        doubled=LabeledArray.of(doubled, string=strings, letter=letters),
    )
    return result.with_findings(findings(result))


# --8<-- [end:run]


# --8<-- [start:words]
def findings(result: DoublingResult) -> tuple[Finding, ...]:
    """Sentences from the result alone: no model is asked here."""
    found = []
    letters = result.doubled.labels["letter"]
    for string in result.logits.labels["string"]:
        logit, doubled = float(result.logits.at(string=string)), result.doubled.at(string=string)
        turned = [
            x for x, value in zip(letters, doubled, strict=True) if (value > 0) != (logit > 0)
        ]
        if turned:
            text = f"Doubling {' or '.join(turned)} in `{string}` changes the answer."
            found.append(Finding(severity="warning", text=text, numbers={"logit": logit}))
    nothing = Finding(severity="good", text="Doubling one letter changes no answer.")
    return tuple(found) or (nothing,)


# --8<-- [end:words]


# --8<-- [start:figures]
def figures(result: DoublingResult) -> list[Figure]:
    """A heat map, blue where doubling lowers the logit and vermillion where it raises it."""
    change, labels = result.doubled.array - result.logits.array[:, None], result.doubled.labels
    plot = new_figure("letter that is doubled", height=120 + 36 * len(change))
    plot.add_trace(
        go.Heatmap(z=change, x=labels["letter"], y=labels["string"], **diverging(change))
    )
    plot.update_yaxes(autorange="reversed")
    strongest = float(np.abs(change).max())
    return [
        Figure(
            name="doubling",
            title="What doubling a letter does to the logit",
            figure=plot,
            caption="Each row is a string, each column the letter whose count is doubled.",
            alt=f"Heat map of logit changes; the largest is {strongest:.3f}.",
        )
    ]


# --8<-- [end:figures]

# --8<-- [start:use]
model = tsc.load("generalization-errors")
strings = ["aac", "baac", "ab{40}", "ab{60}", "a{40}b", "b{2}c{100}", "abc{50}"]
result = run(model, strings)
for finding in result.findings:
    print(f"{finding.severity}: {finding.text} {finding.numbers}")
figure = figures(result)[0]
# --8<-- [end:use]

# --8<-- [start:round-trip]
# A result is plain data: it goes through JSON and comes back equal, without the model.
again = DoublingResult.from_dict(result.to_dict())
assert again == result
assert findings(again) == result.findings
print("doubling b in ab{60}:", float(result.doubled.at(string="ab{60}", letter="b")))
# --8<-- [end:round-trip]
