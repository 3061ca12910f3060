"""Plain softmax at every length: models whose logit vanishes as strings grow.

A plain-softmax model that is right at every length has a limit of exactly zero on long strings
(documentation, laboratories/construct). That can be built. All scores are zero, so that one head
returns the shares p of its tokens, CLS attended to; with E(x) = GELU(x) + GELU(-x), which is even
and convex on [0, 1], the logit is

    E(p_a + p_b) - E(p_a - p_b) - E(p_CLS).

Without a or without b the first two terms cancel. With both, they are at least E(2 p_CLS), which is
twice the third or more. It falls like 1 / n^2, which float32 cannot hold for long.
"""

from __future__ import annotations

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.laboratories.construct.written import Construction, embedding, written


def contains_two(config: ClassifierConfig, positive: str) -> Construction:
    """GELU(x) - GELU(-x) = x, so three neurons and the residual stream do for six."""
    if len(positive) != 2:
        raise UnsupportedError(
            f"plain softmax at every length is written down for two letters, not {len(positive)}: "
            "give max_length, or scores='log_n'"
        )
    wide = config.replace(d_model=4, n_heads=1, d_head=3, d_mlp=3, attend_cls=True)
    # Coordinates: the shares of the two letters and of CLS, and CLS's own embedding.
    first, second, cls, own = np.eye(4)
    weights = {
        "W_E": embedding(wide, own, {positive[0]: first, positive[1]: second}),
        "W_V": np.stack([first, second, own], axis=1),
        "W_O": np.stack([first, second, cls]),
        "W_in": np.stack([first + second, first - second, cls], axis=1),
        "W_out": 2 * np.stack([cls, -cls, -cls]),
        "W_U": cls - 2 * second,
    }
    how = "uniform attention and an even function of sums and differences of shares"
    return written(wide, weights, how, None)
