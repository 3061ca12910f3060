"""Which arithmetic trains a configuration, and the strings in the form that arithmetic reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from tsc_interp.checkpoints.format import WeightArrays
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import AllStrings, BalancedStream
from tsc_interp.errors import UnsupportedError
from tsc_interp.strings import counts_of_tokens
from tsc_interp.training import closed_form
from tsc_interp.training.autograd import Autograd
from tsc_interp.training.losses import Loss

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

    def gradient(self, flat: Array, strings: Any, labels: Array) -> tuple[Array, Array]: ...


def engine_for(config: ClassifierConfig, loss: Loss) -> Engine:
    if config.n_outputs > 1 or config.causal:
        raise UnsupportedError(
            "the trainer makes classifiers with one output and attention both ways; train others "
            "with TransformerLens and take them over (tsc.from_transformer_lens)"
        )
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
) -> Iterator[tuple[Any, Array]]:
    """An epoch's strings as the engine reads them, with their labels, batch by batch."""
    if engine.uses_tokens:
        strings = source.epoch_tokens(engine.config, epoch)
        counts = counts_of_tokens(strings, engine.config.n_letters)
    else:
        strings = counts = source.epoch(engine.config, epoch)
    labels = engine.config.task.labels(counts).astype(np.float32)
    size = batch_size or source.batch_size
    for start in range(0, len(strings), size):
        part = slice(start, start + size)
        yield engine.prepare(strings[part]), labels[part]


def seed_dropout(engine: Engine, seed: int, epoch: int) -> None:
    """Dropout's noise depends on the model's seed and the epoch alone, so a run can be resumed."""
    if engine.one_at_a_time:
        torch.manual_seed((seed * 1_000_003 + epoch) % 2**63)
