"""How did the model become what it is?

For every epoch that a run directory kept, epoch 0 (the initial weights) included, the probe shows
losses, errors on the test set, the exact horizon (the largest length with no error at all), each
head's scores and values, norms of the weights, and the positions of embeddings and CLS. All epochs
are one ensemble, so a hook shows all of them at once: `hook_attn_scores` and `hook_v` on a string
with every letter once, `hook_resid_post` on the strings given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from einops import rearrange, reduce
from numpy.typing import NDArray

from tsc_interp.checkpoints import Checkpoint
from tsc_interp.checkpoints.run_directory import RunDirectory
from tsc_interp.checkpoints.run_records import EpochMetrics
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import source_test_set
from tsc_interp.errors import ConfigError, UnsupportedError, UsageError
from tsc_interp.model.classifier import Classifier
from tsc_interp.model.initialise import stack_weights
from tsc_interp.probes.dynamics.result import DynamicsResult
from tsc_interp.probes.inputs import need_one_logit
from tsc_interp.results.base import LabeledArray, that_hold
from tsc_interp.verification import horizon

_BUDGET = 20_000
_MOST_LETTERS = 5


def run(
    model: Classifier, strings: Sequence[str], *, run_directory: str | Path | None
) -> DynamicsResult:
    """Follow the run in `run_directory`; `model` must be one of its epochs."""
    if run_directory is None:
        raise UsageError(
            "dynamics needs a run directory (runs/<experiment>/<key>/seed=N) as the checkpoint, "
            "because one model alone has no history; 'tsc-interp train' makes one"
        )
    directory = RunDirectory.open(run_directory)
    history, outcome, config = directory.history(), directory.result(), directory.classifier
    if config != model.config:
        raise UsageError(
            f"the model is not an epoch of {directory.path}: its configuration differs"
        )
    need_one_logit(config, "dynamics")
    if not history:
        raise UsageError(f"{directory.path} has no checkpoint yet, so there is nothing to follow")
    epochs = list(history)
    weights = [
        {name: torch.from_numpy(np.array(array)) for name, array in checkpoint.weights.items()}
        for checkpoint in history.values()
    ]
    ensemble = Classifier(config, stack_weights(weights))
    last = f"blocks.{config.n_layers - 1}.hook_resid_post"
    with torch.no_grad():
        logits, cache = ensemble.run_with_cache(
            list(strings), names_filter=[last], return_cache_object=False
        )
    tokens = [0, *range(2, config.alphabet.vocab_size)]
    scores, values = _heads(ensemble, epochs)
    return DynamicsResult(
        not_applicable=_remarks(config),
        chosen_epoch=None if outcome is None else outcome.chosen_epoch,
        losses=_losses(directory.metrics(), epochs),
        errors=_errors(ensemble, epochs),
        horizons=_horizons(history),
        scores=scores,
        values=values,
        magnitudes=_magnitudes(ensemble, epochs),
        logits=LabeledArray.of(logits.numpy(), epoch=epochs, string=strings),
        labels=tuple(config.classes(strings).tolist()),
        embeddings=LabeledArray.of(
            ensemble.W_E.detach().numpy()[:, tokens],
            epoch=epochs,
            token=("CLS", *config.alphabet.letters),
            dim=range(config.d_model),
        ),
        transformed=LabeledArray.of(
            cache[last][..., 0, :].numpy(), epoch=epochs, string=strings, dim=range(config.d_model)
        ),
        readout=LabeledArray.of(
            ensemble.W_U.detach().numpy()[..., 0], epoch=epochs, dim=range(config.d_model)
        ),
    )


def _losses(metrics: Sequence[EpochMetrics], epochs: Sequence[int]) -> LabeledArray | None:
    if not metrics:
        return None
    rows = {row.epoch: (row.train_loss, row.validation_loss) for row in metrics}
    values = [rows.get(epoch, (np.nan, np.nan)) for epoch in epochs]
    return LabeledArray.of(values, epoch=epochs, set=("train", "validation"))


def _errors(ensemble: Classifier, epochs: Sequence[int]) -> LabeledArray | None:
    config = ensemble.config
    if config.needs_order:
        return None
    try:
        counts = source_test_set(config)
    except ConfigError:
        return None
    # Strings in a few parts, so that many epochs at once stay small.
    with torch.no_grad():
        parts = [ensemble(ensemble.counts(part.copy())) for part in np.array_split(counts, 10)]
    predicted: NDArray[np.bool_] = (torch.cat(parts, dim=-1) > 0).numpy()
    labels = config.task.labels(counts)
    wrong = [(predicted & ~labels).sum(axis=1), (~predicted & labels).sum(axis=1)]
    kinds = ("false positives", "false negatives")
    return LabeledArray.of(np.transpose(wrong), epoch=epochs, kind=kinds)


def _horizons(history: Mapping[int, Checkpoint]) -> LabeledArray | None:
    if next(iter(history.values())).config.n_letters > _MOST_LETTERS:
        return None
    try:
        lengths = [horizon(c, boxes=_BUDGET).verified_length for c in history.values()]
    except UnsupportedError:
        return None
    return LabeledArray.of(lengths, epoch=list(history))


def _heads(
    ensemble: Classifier, epochs: Sequence[int]
) -> tuple[LabeledArray | None, LabeledArray | None]:
    """Scores and values of the first layer's heads, where letters have them."""
    config = ensemble.config
    if not config.has_attention or config.needs_order:
        return None, None
    letters = config.alphabet.letters
    names = [f"blocks.0.attn.hook_{name}" for name in ("attn_scores", "v")]
    with torch.no_grad():
        _, cache = ensemble.run_with_cache(letters, names_filter=names, return_cache_object=False)
    axes = {"epoch": epochs, "head": range(config.n_heads), "letter": letters}
    scores = cache[names[0]][:, 0, :, 0, 1:].numpy()
    values = rearrange(
        cache[names[1]][:, 0, 1:], "epoch letter head component -> epoch head letter component"
    ).numpy()
    components = range(config.d_head)
    return LabeledArray.of(scores, **axes), LabeledArray.of(values, **axes, component=components)


def _magnitudes(ensemble: Classifier, epochs: Sequence[int]) -> LabeledArray:
    sizes = {
        name: reduce(weight.detach().double().square(), "epoch ... -> epoch", "mean").sqrt().numpy()
        for name, weight in ensemble.named_parameters()
        if name.rsplit(".", 1)[1].startswith("W_")
    }
    return LabeledArray.of(np.transpose(list(sizes.values())), epoch=epochs, weight=list(sizes))


def _remarks(config: ClassifierConfig) -> tuple[str, ...]:
    ordered = config.needs_order
    too_many = config.n_letters > _MOST_LETTERS and not ordered
    return that_hold({
        "Heads, test errors and horizons are not followed: this model has positions, so counts do "
        "not describe its input.": ordered,
        "No head is followed: this model has no attention.":
        not config.has_attention and not ordered,
        f"Horizons are followed for up to {_MOST_LETTERS} letters only.": too_many,
        "Scores and values are those of the first layer.": config.n_layers > 1,
    })  # fmt: skip
