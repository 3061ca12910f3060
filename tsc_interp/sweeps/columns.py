"""The columns of a sweep's table: options by their own names, then what was found of each model.

The options come first, every field of `ClassifierConfig` and `TrainingConfig` under its own name;
what is nested is joined by `_` (`train_max_length`), and a field that only some kinds of a thing
have is null for the others. A task is its `task` (kind) and `task_options` (JSON).

"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from tsc_interp.training.config import RunConfig

TABLE_FORMAT = "tsc-interp/sweep-rows"
TABLE_VERSION = 2

NORMS = ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "W_U")

RESULTS: dict[str, tuple[type, str]] = {
    "row": (int, "the model's number in the sweep: --checkpoint DIR:ROW"),
    "seed": (int, "of the initial weights"),
    "cell": (str, "the grid's options here, as text"),
    "config_key": (str, "the configuration's key, as in a run's path"),
    "shard": (str, "the ensemble it was trained in: weights/SHARD.safetensors"),
    "weight_hash": (str, "SHA-256 of configuration and weights, as certificates name them"),
    "ending": (str, "good_enough, no_improvement, last_epoch or diverged"),
    "epochs": (int, "trained"),
    "chosen_epoch": (int, "whose weights are kept: the lowest validation loss"),
    "train_loss": (float, "of the chosen epoch, summed over its strings"),
    "validation_loss": (float, "of the chosen epoch, summed over its strings"),
    "test_errors": (int, "test strings that are wrong"),
    "test_false_positives": (int, "of them, label 0"),
    "test_false_negatives": (int, "of them, label 1"),
    "test_margin": (float, "how far the right answer is ahead, at the worst of the test strings"),
    "verified": (str, "prove: the checker derived it; found: the search alone; no: neither"),
    "not_verified": (str, "why not, where verified is no"),
    "horizon": (int, "the largest length without an error; null if no error was found"),
    "infinite": (bool, "proved right at every length"),
    "proved": (bool, "horizon or infinite is what the independent checker derived"),
    "complete": (bool, "the search was exhaustive up to its limit"),
    "verified_length": (int, "every string up to this length is right"),
    "first_error": (str, "the shortest wrong string"),
    "first_error_length": (int, "its length"),
    "first_error_label": (int, "its class; of two, 1: a false negative, 0: a false positive"),
    "first_error_logit": (float, "over the reals, rounded; of multiclass models the margin"),
    **{f"norm_{name}": (float, f"of the weights {name}, over all layers") for name in NORMS},
    **{f"initial_norm_{name}": (float, f"the same of the initial {name}") for name in NORMS},
    "seconds_train": (float, "processor time of the ensemble's training, shared by its models"),
    "seconds_test": (float, "of its tests, shared by its models"),
    "seconds_verify": (float, "of this model's horizon"),
}
"""Name: (type, meaning)."""


@cache
def option_columns() -> dict[str, type]:
    """Every option's column and type, read off the configuration's fields."""
    columns: dict[str, type] = {}
    for part in RunConfig.model_fields.values():
        columns |= dict(_columns(part.annotation, ""))
    return columns


def options_of(config: RunConfig) -> dict[str, Any]:
    """One configuration as the values of those columns."""
    values = _values(config.classifier, "") | _values(config.training, "")
    return {name: values.get(name) for name in option_columns()}


def schema() -> dict[str, type]:
    return {**{name: kind for name, (kind, _) in RESULTS.items()}, **option_columns()}


def _columns(annotation: Any, name: str) -> Iterator[tuple[str, type]]:
    if name == "task":  # any rule, also one's own: its kind, and the rest as JSON
        yield from (("task", str), ("task_options", str))
        return
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        for kind in get_args(annotation):
            yield from _columns(kind, name)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for field, info in annotation.model_fields.items():
            yield from _columns(info.annotation, f"{name}_{field}" if name else field)
    elif annotation is not type(None):
        yield name, _type(annotation)


def _type(annotation: Any) -> type:
    if annotation in (bool, int, float):
        return annotation  # type: ignore[no-any-return]
    if get_origin(annotation) is Literal:
        kinds = {type(value) for value in get_args(annotation)}
        return kinds.pop() if len(kinds) == 1 else str
    return str


def _values(config: BaseModel, name: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in type(config).model_fields:
        value, column = getattr(config, field), f"{name}_{field}" if name else field
        if column == "task":
            stored = value.model_dump(mode="json")
            values["task"] = stored.pop("kind")
            values["task_options"] = json.dumps(stored, sort_keys=True)
        elif isinstance(value, BaseModel):
            values |= _values(value, column)
        elif value is None or isinstance(value, bool | int | float | str):
            values[column] = value
        else:
            plain = list(value) if isinstance(value, tuple | frozenset | set) else value
            values[column] = json.dumps(plain)
    return values


def described() -> Mapping[str, str]:
    """Every result column's meaning, for the documentation."""
    return {name: meaning for name, (_, meaning) in RESULTS.items()}
