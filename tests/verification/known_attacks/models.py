"""Models whose answers are read off their few weights that are not zero."""

from __future__ import annotations

from typing import Any

import numpy as np

import tsc_interp as tsc
from tsc_interp.checkpoints import Checkpoint


def zeros(**options: Any) -> Checkpoint:
    """A model that only looks at the last letter, all of whose weights are zero."""
    plain = {"n_letters": 2, "n_positions": 6, "n_heads": 0, "d_mlp": 0, "d_model": 1}
    config = tsc.ClassifierConfig(**plain | {"reads": "last_letter", "attend_cls": True} | options)
    shapes = config.weight_shapes()
    return Checkpoint(config, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})


def last_is_b(**options: Any) -> Checkpoint:
    """Class 1 where the last letter is b."""
    checkpoint = zeros(**options)
    checkpoint.weights["embed.W_E"][2:4, 0] = [-1, 1]
    checkpoint.weights["unembed.W_U"][0] = 1
    return checkpoint
