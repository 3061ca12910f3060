"""Which arithmetic trains a configuration, and the strings in the form that arithmetic reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from tsc_interp.checkpoints.checkpoint import WeightArrays
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import AllStrings, BalancedStream
from tsc_interp.strings import counts_of_tokens, letters_of_tokens
from tsc_interp.tasks.base import Classes
from tsc_interp.training import closed_form
from tsc_interp.training.autograd import Autograd
from tsc_interp.training.losses import Labels, Loss

Array = NDArray[np.float32]


class Engine(Protocol):
    """Many models of one shape: `[model, parameter]` in, logits and gradients out."""

    config: ClassifierConfig

    @property
    def uses_tokens(self) -> bool: ...

    @property
    def one_at_a_time(self) -> bool: ...

    def pack(self, many: Sequence[WeightArrays]) -> Array: ...

    def unpack(self, flat: Array) -> list[dict[str, Array]]: ...

    def prepare(self, strings: NDArray[np.int64]) -> Any: ...

    def logits(self, flat: Array, strings: Any) -> Array: ...

    def gradient(self, flat: Array, strings: Any, labels: Any) -> tuple[Array, Array]: ...


def engine_for(config: ClassifierConfig, loss: Loss) -> Engine:
    return (
        closed_form.ClosedForm(config, loss)
        if closed_form.covers(config)
        else Autograd(config, loss)
    )


def shape_of(config: ClassifierConfig) -> ClassifierConfig:
    """The configuration without what only decides initial weights: equal shapes train together."""
    return config.replace(embedding_init="default", attention_init="default", mlp_init="default")


def batches(
    engine: Engine, source: BalancedStream | AllStrings, epoch: int, batch_size: int | None = None
) -> Iterator[tuple[Any, Labels]]:
    """An epoch's strings as the engine reads them, with their labels, batch by batch."""
    strings, classes = labelled(engine, source, epoch)
    # One output learns numbers to be above or below 0, several a class.
    labels = classes.astype(np.float32) if engine.config.n_outputs == 1 else classes
    size = batch_size or source.batch_size
    for start in range(0, len(strings), size):
        part = slice(start, start + size)
        yield engine.prepare(strings[part]), labels[part]


def labelled(
    engine: Engine, source: BalancedStream | AllStrings, epoch: int
) -> tuple[NDArray[np.int64], Classes]:
    """An epoch's strings, tokens with CLS in front or counts, and the class of each."""
    config = engine.config
    if not engine.uses_tokens:
        counts = source.epoch(config, epoch)
        return counts, config.task.classes(counts)
    tokens = source.epoch_tokens(config, epoch)
    if config.task.ordered:
        return tokens, config.task.classes_of_all(letters_of_tokens(tokens))
    return tokens, config.task.classes(counts_of_tokens(tokens, config.n_letters))


def seed_dropout(engine: Engine, seed: int, epoch: int) -> None:
    """Dropout's noise depends on the model's seed and the epoch alone, so a run can be resumed."""
    if engine.one_at_a_time:
        torch.manual_seed((seed * 1_000_003 + epoch) % 2**63)
