"""Write a probe of your own: a question, a result, a figure.

    python examples/write_your_own_probe.py

The question here: *which letter would have to be repeated to change the model's mind?* For each
string, double the count of one letter and see what happens to the logit.
"""

# --8<-- [start:result]
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import plotly.graph_objects as go

import tsc_interp as tsc
from tsc_interp.plots.style import Figure, diverging, new_figure
from tsc_interp.probes.base import Finding, LabeledArray, ProbeResult, Table


class DoublingResult(ProbeResult):
    """What doubling each letter's count does to each string's logit."""

    probe: ClassVar[str] = "doubling"
    change: LabeledArray

    def tables(self) -> tuple[Table, ...]:
        labels = self.change.labels
        rows = [
            (string, *row)
            for string, row in zip(labels["string"], self.change.array.tolist(), strict=True)
        ]
        columns = ("string", *labels["letter"])
        return (Table(title="Change of the logit", columns=columns, rows=tuple(rows)),)


# --8<-- [end:result]


# --8<-- [start:run]
def run(model: tsc.HookedClassifier, strings: Sequence[str]) -> DoublingResult:
    """One forward pass for the strings, one for each letter doubled."""
    letters = model.config.alphabet.letters
    counts = model.config.alphabet.count_matrix(strings)
    before = model(model.counts(counts)).detach().numpy()
    after = np.empty((len(strings), len(letters)))
    for column in range(len(letters)):
        doubled = counts.copy()
        doubled[:, column] *= 2
        after[:, column] = model(model.counts(doubled)).detach().numpy()
    findings = []
    for string, logit, row in zip(strings, before, after, strict=True):
        turned = [letter for letter, x in zip(letters, row, strict=True) if (x > 0) != (logit > 0)]
        if turned:
            text = f"Doubling {' or '.join(turned)} in `{string}` changes the answer."
            findings.append(Finding(severity="warning", text=text, numbers={"logit": float(logit)}))
    if not findings:
        findings.append(Finding(severity="good", text="Doubling one letter changes no answer."))
    change = LabeledArray.of(after - before[:, None], string=strings, letter=letters)
    return DoublingResult(findings=tuple(findings), change=change)


# --8<-- [end:run]


# --8<-- [start:figure]
def draw(result: DoublingResult) -> Figure:
    """A heat map, blue where doubling lowers the logit and vermillion where it raises it."""
    values, labels = result.change.array, result.change.labels
    plot = new_figure("letter that is doubled", height=120 + 36 * len(values))
    plot.add_trace(
        go.Heatmap(z=values, x=labels["letter"], y=labels["string"], **diverging(values))
    )
    plot.update_yaxes(autorange="reversed")
    strongest = float(np.abs(values).max())
    return Figure(
        name="doubling",
        title="What doubling a letter does to the logit",
        figure=plot,
        caption="Each row is a string, each column the letter whose count is doubled.",
        alt=f"Heat map of logit changes; the largest is {strongest:.3f}.",
    )


# --8<-- [end:figure]

# --8<-- [start:use]
model = tsc.load("generalization-errors")
strings = ["aac", "baac", "ab{40}", "ab{60}", "a{40}b", "b{2}c{100}", "abc{50}"]
result = run(model, strings)
for finding in result.findings:
    print(f"{finding.severity}: {finding.text} {finding.numbers}")
figure = draw(result)
# --8<-- [end:use]

# --8<-- [start:round-trip]
# A result is plain data: it goes through JSON and comes back equal, without the model.
assert DoublingResult.from_dict(result.to_dict()) == result
print("largest change:", float(np.abs(result.change.array).max()))
print("doubling b in ab{60}:", float(result.change.at(string="ab{60}", letter="b")))
# --8<-- [end:round-trip]
