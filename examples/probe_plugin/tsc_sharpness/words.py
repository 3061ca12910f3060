"""Sentences from the result alone."""

from __future__ import annotations

from tsc_interp.results.base import Finding
from tsc_sharpness.result import SharpnessResult


def findings(result: SharpnessResult) -> tuple[Finding, ...]:
    mean = result.sharpness.array.mean(axis=1)
    heads = result.sharpness.labels["head"]
    sharp, vague = int(mean.argmax()), int(mean.argmin())
    text = (
        f"The sharpest is {heads[sharp]}, which gives {mean[sharp]:.0%} of its weight to one "
        f"token on average; the vaguest is {heads[vague]} with {mean[vague]:.0%}."
    )
    numbers = {heads[sharp]: float(mean[sharp]), heads[vague]: float(mean[vague])}
    return (Finding(severity="note", text=text, numbers=numbers),)
