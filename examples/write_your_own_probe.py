"""Which letter must be repeated to flip the model's answer?

    python examples/write_your_own_probe.py

For each string, the count of one letter is doubled and the logit is read again: the change is
f(n + n_x e_x) - f(n) for the counts n and each letter x. A probe is one file like this one.
"""

# --8<-- [start:result]
from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np

import tsc_interp as tsc
from tsc_interp.probes.inputs import Inputs
from tsc_interp.probes.probe import probe
from tsc_interp.results.base import Finding, LabeledArray, ProbeResult
from tsc_interp.results.views import Heat, Rows, shown


class DoublingResult(ProbeResult):
    """What doubling each letter's count does to each string's logit."""

    probe: ClassVar[str] = "doubling"

    logits: Annotated[LabeledArray, Rows("Logits")]
    """`[string]`"""
    doubled: Annotated[LabeledArray, Rows("Logits with one letter's count doubled")]
    """`[string letter]`"""

    @shown(
        Heat(
            "What doubling a letter does to the logit",
            "Each row is a string, each column the letter whose count is doubled.",
            table=False,
        )
    )
    def change(self) -> LabeledArray:
        """`[string letter]`: by how much the logit grows."""
        change = self.doubled.array - self.logits.array[:, None]
        return LabeledArray.of(change, **self.doubled.labels)

    def conclude(self) -> Iterator[Finding]:
        """Sentences from the result alone: no model is asked here."""
        letters, found = self.doubled.labels["letter"], False
        for string in self.logits.labels["string"]:
            logit, doubled = float(self.logits.at(string=string)), self.doubled.at(string=string)
            turned = [
                x for x, value in zip(letters, doubled, strict=True) if (value > 0) != (logit > 0)
            ]
            if turned:
                found = True
                text = f"Doubling {' or '.join(turned)} in `{string}` changes the answer."
                yield Finding.of(text, {"logit": logit}, "warning", string=string)
        if not found:
            yield Finding.of("Doubling one letter changes no answer.", severity="good")


# --8<-- [end:result]


# --8<-- [start:run]
@probe(
    DoublingResult,
    title="What does repeating do?",
    question="Which letter must be repeated to flip the model's answer?",
)
def doubling(inputs: Inputs) -> DoublingResult:
    """One forward pass for the strings, one for each letter doubled."""
    model, alphabet = inputs.model, inputs.model.config.alphabet
    counts = alphabet.count_matrix(inputs.given)
    doubled = np.empty((len(counts), alphabet.size))
    for column in range(alphabet.size):
        more = counts.copy()
        more[:, column] *= 2
        doubled[:, column] = model(model.counts(more)).detach().numpy()
    logits = model(model.counts(counts)).detach().numpy()
    return DoublingResult(
        logits=LabeledArray.of(logits, string=inputs.given),
        doubled=LabeledArray.of(doubled, string=inputs.given, letter=alphabet.letters),
    )


# --8<-- [end:run]

# --8<-- [start:use]
model = tsc.load("generalization-errors")
strings = ["aac", "baac", "ab{40}", "ab{60}", "a{40}b", "b{2}c{100}", "abc{50}"]
result = doubling.run(model, strings)
for finding in result.findings:
    print(f"{finding.severity}: {finding.text} {finding.numbers}")
figure = result.figures["change"]
# --8<-- [end:use]

# --8<-- [start:round-trip]
# A result is plain data: it goes through JSON and comes back equal, without the model.
again = DoublingResult.from_dict(result.to_dict())
assert again == result
assert again.concluded().findings == result.findings
print("doubling b in ab{60}:", float(again.doubled.at(string="ab{60}", letter="b")))
# --8<-- [end:round-trip]
