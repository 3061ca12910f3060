"""The training loop: many models of one shape, one pass over the data, each with its own ending."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints.checkpoint import WeightArrays
from tsc_interp.checkpoints.run_records import Ending, EpochMetrics
from tsc_interp.model.initialise import initial_weights
from tsc_interp.model.threads import one_thread
from tsc_interp.training.config import RunConfig, TrainingConfig
from tsc_interp.training.engine import Engine, batches, engine_for, seed_dropout, shape_of
from tsc_interp.training.losses import Labels, Loss, loss_named
from tsc_interp.training.optimizer import AdamW
from tsc_interp.training.stopping import ending

Array = NDArray[np.float32]


@dataclass(frozen=True)
class TrainingState:
    """One model at the end of an epoch: all it takes to go on from there, exactly."""

    config: RunConfig
    seed: int
    weights: WeightArrays
    mean: WeightArrays
    """AdamW's running mean of gradients, under the weights' names."""
    square: WeightArrays
    metrics: tuple[EpochMetrics, ...] = ()

    @property
    def epoch(self) -> int:
        return len(self.metrics)

    @property
    def ending(self) -> Ending | None:
        """Why training ended here, or None if it goes on."""
        return ending([row.validation_loss for row in self.metrics], self.config.training)


def start(config: RunConfig, seed: int) -> TrainingState:
    """Epoch 0: the initial weights."""
    weights = {name: w.numpy() for name, w in initial_weights(config.classifier, seed).items()}
    zeros = {name: np.zeros_like(weight) for name, weight in weights.items()}
    return TrainingState(config, seed, weights, zeros, zeros)


def train_ensemble(members: Sequence[TrainingState]) -> Iterator[list[TrainingState]]:
    """Train until every member has ended; after each epoch, the members that took part in it.

    The members must share their shape, their training and their epoch. What becomes of one does not
    depend on the others: the arithmetic never mixes them. (`Autograd` says what rounding may do.)
    """
    members = [member for member in members if member.ending is None]
    if not members:
        return
    _check_alike(members)
    training = members[0].config.training
    loss = loss_named(training.loss, members[0].config.classifier.n_outputs)
    engine = engine_for(shape_of(members[0].config.classifier), loss)
    if engine.one_at_a_time and len(members) > 1:
        for member in members:
            yield from train_ensemble([member])
        return
    parameters = engine.pack([member.weights for member in members])
    optimizer = AdamW(
        engine.pack([member.mean for member in members]),
        engine.pack([member.square for member in members]),
        steps=members[0].epoch * training.train.batches_of(engine.config),
        weight_decay=training.weight_decay,
    )
    validation = list(batches(engine, training.validation, 0, batch_size=960))
    while members:
        epoch = members[0].epoch + 1
        with one_thread(), np.errstate(all="ignore"):  # an ending reports overflow
            seed_dropout(engine, members[0].seed, epoch)
            train_losses = _train_epoch(engine, loss, training, parameters, optimizer, epoch)
            validation_losses = _total_loss(engine, loss, parameters, validation)
        members = _advance(
            engine, members, parameters, optimizer, epoch, train_losses, validation_losses
        )
        yield members
        going_on = np.flatnonzero([member.ending is None for member in members])
        if len(going_on) < len(members):
            members = [members[index] for index in going_on]
            parameters = parameters[going_on]
            optimizer.keep(going_on)


def _train_epoch(
    engine: Engine,
    loss: Loss,
    training: TrainingConfig,
    parameters: Array,
    optimizer: AdamW,
    epoch: int,
) -> NDArray[np.float64]:
    """One pass over the epoch's batches; each model's summed loss, as it was when it saw them."""
    rate = training.rate(epoch)
    all_logits, all_labels = [], []
    for strings, labels in batches(engine, training.train, epoch - 1):
        gradient, logits = engine.gradient(parameters, strings, labels)
        optimizer.step(parameters, gradient, rate)
        all_logits.append(logits)
        all_labels.append(labels)
    values = loss.values(np.concatenate(all_logits, axis=1), np.concatenate(all_labels))
    return np.asarray(values.sum(axis=1, dtype=np.float64))


def _total_loss(
    engine: Engine, loss: Loss, parameters: Array, strings: Sequence[tuple[Any, Labels]]
) -> NDArray[np.float64]:
    total = np.zeros(len(parameters))
    for batch, labels in strings:
        total += loss.values(engine.logits(parameters, batch), labels).sum(axis=1, dtype=np.float64)
    return total


def _advance(
    engine: Engine,
    members: Sequence[TrainingState],
    parameters: Array,
    optimizer: AdamW,
    epoch: int,
    train_losses: NDArray[np.float64],
    validation_losses: NDArray[np.float64],
) -> list[TrainingState]:
    """The members one epoch further."""
    rate = members[0].config.training.rate(epoch)
    states = zip(
        *(engine.unpack(part) for part in (parameters, optimizer.mean, optimizer.square)),
        strict=True,
    )
    advanced = []
    for member, (weights, mean, square), train_loss, validation_loss in zip(
        members, states, train_losses, validation_losses, strict=True
    ):
        row = EpochMetrics(
            epoch=epoch,
            learning_rate=rate,
            train_loss=float(train_loss),
            validation_loss=float(validation_loss),
        )
        metrics = (*member.metrics, row)
        advanced.append(replace(member, weights=weights, mean=mean, square=square, metrics=metrics))
    return advanced


def _check_alike(members: Sequence[TrainingState]) -> None:
    alike: dict[str, set[Any]] = {
        "shapes": {shape_of(member.config.classifier) for member in members},
        "training": {member.config.training for member in members},
        "epochs": {member.epoch for member in members},
    }
    for shared, values in alike.items():
        if len(values) > 1:
            raise ValueError(f"an ensemble trains together, but its members differ in {shared}")
