"""Cases of the wider family for tests/js: every option, Python's outputs and patterns beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.cases import ATTENTION, FAMILY, POSITIONED, PUBLIC
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_strings
from tsc_interp.playground.payload import encoded_weights


def random_checkpoint(config: ClassifierConfig, seed: int) -> Checkpoint:
    """No weight is left at zero or one, where initialised biases and norms would be."""
    generator = np.random.default_rng(seed)
    weights = {
        name: generator.normal(0, 0.9, shape).astype(np.float32)
        for name, shape in config.weight_shapes().items()
    }
    return Checkpoint(config, weights)


def strings_of(config: ClassifierConfig, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    letters = np.array(list(config.alphabet.letters))
    if config.needs_order:
        return ["".join(generator.choice(letters, n)) for n in (7, 1, 2, 12, 9, 12, 5)]
    counts = np.floor(10 ** generator.uniform(-0.7, 4, (8, config.n_letters))).astype(int)
    counts[:, -1] += counts.sum(axis=1) == 0
    return [config.alphabet.write(row) for row in counts]


def family_case(config: ClassifierConfig, seed: int) -> dict[str, Any]:
    checkpoint, strings = random_checkpoint(config, seed), strings_of(config, seed)
    weights = {name: torch.from_numpy(w).double() for name, w in checkpoint.weights.items()}
    patterns: dict[str, Any] = {}

    def keep(name: str, activation: torch.Tensor) -> torch.Tensor:
        if name.endswith("hook_pattern"):
            patterns[name] = activation[0].tolist()
        return activation

    with torch.no_grad():
        outputs = forward(config, weights, from_strings(config, strings))
        forward(config, weights, from_strings(config, strings[:1]), tap=keep)
    return {
        "config": config.to_dict(),
        "weights": encoded_weights(checkpoint),
        "shapes": {name: list(shape) for name, shape in config.weight_shapes().items()},
        "ordered": config.needs_order,
        "strings": strings,
        "outputs": outputs.reshape(len(strings), -1).tolist(),
        "patterns": patterns,
    }


def family_cases() -> list[dict[str, Any]]:
    configs = [*FAMILY, *ATTENTION, *PUBLIC, POSITIONED]
    return [family_case(config, seed) for seed, config in enumerate(configs)]
