"""How a model is trained: data, optimiser, stopping. The defaults are the source report's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from tsc_interp.config import ClassifierConfig
from tsc_interp.data import TEST, TRAIN, VALIDATION, BalancedStream, Source
from tsc_interp.errors import ConfigError, UsageError, shorten
from tsc_interp.frozen import FrozenConfig

LossName = Literal["cross_entropy", "sigmoid_scaled"]


class TrainingConfig(FrozenConfig):
    """The options of training: data, loss, learning rate, and the stopping rule.

    The optimiser is AdamW with a learning rate that falls linearly by epoch; losses are sums over
    items. The defaults are those of the source report.

    Example:
        >>> TrainingConfig(max_epochs=10, learning_rate=0.003).schedule_epochs
        30
    """

    train: Source = TRAIN
    validation: BalancedStream = VALIDATION
    test: BalancedStream = TEST
    loss: LossName = "cross_entropy"

    learning_rate: float = Field(default=1e-2, gt=0)
    final_factor: float = Field(default=0.5, gt=0, description="of the rate, after schedule_epochs")
    schedule_epochs: int = Field(default=30, ge=1)
    weight_decay: float = Field(default=0.01, ge=0)

    max_epochs: int = Field(default=30, ge=1, le=999)
    check_from: int = Field(default=5, ge=1, description="the epoch the stopping rule begins with")
    stop_below: float = Field(default=0.05, ge=0, description="validation loss that is good enough")
    patience: int = Field(default=3, ge=1, description="epochs without a new best, from check_from")

    def rate(self, epoch: int) -> float:
        """Return the learning rate during `epoch` (1, 2, ...)."""
        if type(epoch) is not int or epoch < 1:
            raise UsageError(f"epoch is a whole number from 1, got {shorten(epoch)}")
        progress = min(epoch - 1, self.schedule_epochs) / self.schedule_epochs
        return self.learning_rate * (1.0 + (self.final_factor - 1.0) * progress)


class RunConfig(FrozenConfig):
    """Everything that decides a run's weights, except its seed. Its key names the run on disk."""

    classifier: ClassifierConfig = ClassifierConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse now what would fail in the middle of training."""
        if self.classifier.n_outputs > 1 and self.training.loss != "cross_entropy":
            raise ValueError(
                f"loss = {self.training.loss!r} is for one output; the classifier has "
                f"{self.classifier.n_outputs}, which train with 'cross_entropy'"
            )
        sources = {name: getattr(self.training, name) for name in ("train", "validation", "test")}
        in_order = [name for name, source in sources.items() if source.in_order]
        if self.classifier.task.ordered and in_order:
            raise ValueError(
                f"the task ({self.classifier.task.describe()}) is about the order of letters, but "
                f"the strings of {', '.join(in_order)} are sorted: each needs order = 'shuffled'"
            )
        for name, source in sources.items():
            try:
                source.check(self.classifier)
            except ConfigError as error:
                raise ValueError(f"{name} data: {error}") from None
            longest = source.longest + self.classifier.has_cls
            if self.classifier.has_positions and self.classifier.n_positions < longest:
                raise ValueError(
                    f"n_positions = {self.classifier.n_positions} is too small: "
                    f"{'with CLS ' if self.classifier.has_cls else ''}the {name} strings have up "
                    f"to {longest} positions"
                )
        return self


@dataclass(frozen=True)
class Job:
    """One run that is wanted, and the experiment it is wanted for."""

    experiment: str
    config: RunConfig
    seed: int
