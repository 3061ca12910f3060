"""The source report's nine experiments, as data."""

from __future__ import annotations

from tsc_interp.errors import UsageError, suggest
from tsc_interp.training.experiments import Experiment

_LOW = {
    "d_model": 16,
    "embedding_init": "linear_like",
    "attention_init": "output_fan_out",
    "mlp_init": "output_fan_out",
}

SOURCE_EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment.of(
        "walkthrough",
        5,
        about="the model every internal state of which can be drawn",
        chapter="1, 2",
    ),
    Experiment.of(
        "generalization_errors",
        2,
        about="a model that is wrong on long strings, both ways",
        chapter="3",
    ),
    Experiment.of(
        "attend_cls", 8, {"attend_cls": True}, about="CLS attends to itself too", chapter="4"
    ),
    Experiment.of(
        "all_fixed_length_sequences",
        "0..1",
        training={"train": {"kind": "all_strings", "length": 9}},
        about="trained on all strings of length 9 instead of a balanced stream",
        chapter="4",
    ),
    Experiment.of(
        "all_initializations", "0..7", about="the walk-through model from eight seeds", chapter="4"
    ),
    Experiment.of(
        "increased_dimensionality", "0..7", {"d_model": 16}, about="d_model 16", chapter="4"
    ),
    Experiment.of(
        "lower_magnitude_initializations",
        "0..7",
        _LOW,
        about="d_model 16, all initial weights of low magnitude",
        chapter="4",
    ),
    Experiment.of(
        "default_embeddings_initialization",
        "0..7",
        {**_LOW, "embedding_init": "default"},
        about="as before, but standard-normal embeddings",
        chapter="4",
    ),
    Experiment.of(
        "increased_num_attention_heads",
        "0..7",
        {**_LOW, "n_heads": 16},
        about="d_model 16, low magnitude, 16 heads",
        chapter="4",
    ),
)


def experiment_named(name: str) -> Experiment:
    """One of the source report's nine."""
    for experiment in SOURCE_EXPERIMENTS:
        if experiment.name == name.replace("-", "_"):
            return experiment
    names = [experiment.name for experiment in SOURCE_EXPERIMENTS]
    raise UsageError(
        f"no experiment {name!r}: {suggest(name, names)}the experiments are {', '.join(names)}"
    )
