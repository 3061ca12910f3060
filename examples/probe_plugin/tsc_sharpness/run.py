"""How sharply does each head look? max_t sum_{i is t} pattern_i, for the query of each string.

Copies of one token count together. Reads `hook_pattern`; works on any TransformerLens model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tsc_interp.probes.running import start
from tsc_interp.results.base import LabeledArray
from tsc_sharpness.result import SharpnessResult
from tsc_sharpness.words import findings


def run(
    model: Any, strings: Any, *, query: Any = None, attention_mask: Any = None
) -> SharpnessResult:
    """One forward pass; `start` knows strings and token ids, and where each row is read."""
    seen = start(
        model, strings, reads=("hook_pattern",), query=query, attention_mask=attention_mask
    )
    rows, names = [], []
    for layer in range(model.cfg.n_layers):
        pattern = seen.pattern(layer)  # [row head key]
        tokens = np.unique(seen.tokens)
        by_token = np.stack(
            [(pattern * (seen.tokens == token)[:, None]).sum(-1) for token in tokens], axis=-1
        )
        rows.append(by_token.max(axis=-1).T)
        names += [f"layer {layer} head {head}" for head in range(pattern.shape[1])]
    sharpness = LabeledArray.of(np.concatenate(rows), head=names, string=seen.rows)
    result = SharpnessResult(findings=(), sharpness=sharpness)
    return result.with_findings(findings(result))
