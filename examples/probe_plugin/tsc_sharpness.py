"""How sharply does each head look? max_t sum_{i is t} pattern_i, for the query of each string.

Copies of one token count together. Reads `hook_pattern`; works on any TransformerLens model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np

from tsc_interp.probes.inputs import Inputs
from tsc_interp.probes.probe import probe
from tsc_interp.results.base import Finding, LabeledArray, ProbeResult
from tsc_interp.results.views import Heat


class SharpnessResult(ProbeResult):
    probe: ClassVar[str] = "sharpness"

    sharpness: Annotated[
        LabeledArray,
        Heat(
            "How sharply each head looks",
            "The share of a head's weight that the token it looks at most gets.",
            share=True,
            form=".0%",
        ),
    ]
    """`[head string]`: 1 is all weight on one token."""

    def conclude(self) -> Iterator[Finding]:
        mean, heads = self.sharpness.array.mean(axis=1), self.sharpness.labels["head"]
        sharp, vague = int(mean.argmax()), int(mean.argmin())
        yield Finding.of(
            f"The sharpest is {heads[sharp]}, which gives {mean[sharp]:.0%} of its weight to one "
            f"token on average; the vaguest is {heads[vague]} with {mean[vague]:.0%}.",
            {heads[sharp]: float(mean[sharp]), heads[vague]: float(mean[vague])},
        )


@probe(
    SharpnessResult,
    title="How sharply heads look",
    question="How much of its weight does each head give to the one token it looks at most?",
    any_model=True,
    accepts=("query", "attention_mask"),
)
def sharpness(inputs: Inputs) -> SharpnessResult:
    seen = inputs.run("hook_pattern")  # strings and token ids alike; once for all probes
    rows, names = [], []
    for layer in range(inputs.model.cfg.n_layers):
        pattern = seen.pattern(layer)  # [row head key]
        by_token = [
            (pattern * (seen.tokens == token)[:, None]).sum(-1) for token in np.unique(seen.tokens)
        ]
        rows.append(np.stack(by_token, axis=-1).max(axis=-1).T)
        names += [f"layer {layer} head {head}" for head in range(pattern.shape[1])]
    return SharpnessResult(
        sharpness=LabeledArray.of(np.concatenate(rows), head=names, string=seen.rows)
    )
