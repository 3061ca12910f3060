"""What Python draws and trains, for the page to draw and train again."""

from __future__ import annotations

from itertools import islice
from typing import Any

from tsc_interp.checkpoints.checkpoint import WeightArrays
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import BalancedStream
from tsc_interp.training.config import RunConfig, TrainingConfig
from tsc_interp.training.ensemble import start, train_ensemble

TRAINED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"seed": 5, "max_length": 10, "alpha": 1.0}),
    ({"d_model": 5, "n_heads": 3, "d_head": 2, "d_mlp": 4}, {"seed": 1, "max_length": 60}),
    ({"norm": "rms", "d_model": 3, "n_heads": 1}, {"seed": 2, "alpha": 0.1}),
    ({"norm": "layer", "d_model": 4, "d_mlp": 0}, {"seed": 3, "learning_rate": 0.003}),
    ({"attend_cls": True}, {"seed": 4, "weight_decay": 0.3, "alpha": 0.5}),
]


def training_run(classifier: dict[str, Any], recipe: dict[str, Any], batches: int) -> RunConfig:
    """Python's configuration of what the page trains with these options."""
    train = {name: recipe[name] for name in ("max_length", "alpha") if name in recipe}
    rest = {name: recipe[name] for name in ("learning_rate", "weight_decay") if name in recipe}
    return RunConfig(
        classifier=ClassifierConfig(**classifier),
        training=TrainingConfig(
            train=BalancedStream(batches=batches, **train), check_from=99, **rest
        ),
    )


def training_cases() -> list[dict[str, Any]]:
    """What Python draws and trains, for the page to do again."""
    return [training_case(classifier, recipe) for classifier, recipe in TRAINED]


def training_case(classifier: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    batches = 12
    run = training_run(classifier, recipe, batches)
    config, stream = run.classifier, run.training.train
    assert isinstance(stream, BalancedStream)
    first = start(run, recipe["seed"])
    per_epoch, per_check = batches * stream.batch_size, 15 * 64
    return {
        "config": config.to_dict(),
        "config_text": config.to_json(),
        "base": ClassifierConfig().to_json(),
        "recipe": {
            "max_length": stream.longest,
            "alpha": stream.alpha,
            "batches": batches,
            "batch_size": stream.batch_size,
            **recipe,
        },
        "initial": flat_lists(first.weights),
        "rows": stream.epoch(config, 0)[: 3 * stream.batch_size].tolist(),
        "epochs": [
            {
                "weights": flat_lists(state.weights),
                "train_loss": state.metrics[-1].train_loss / per_epoch,
                "validation_loss": state.metrics[-1].validation_loss / per_check,
            }
            for [state] in islice(train_ensemble([first]), 2)
        ],
    }


def flat_lists(weights: WeightArrays) -> dict[str, list[float]]:
    return {name: weight.ravel().tolist() for name, weight in weights.items()}
