"""How did the model become what it is?

For every epoch that a run directory kept, epoch 0 (the initial weights) included, the probe shows
losses, errors on the test set, the exact horizon (the largest length with no error at all), each
head's scores and values, norms of the weights, and the positions of embeddings and CLS. All epochs
are one ensemble, so a hook shows all of them at once: `hook_attn_scores` and `hook_v` on a string
with every letter once, `hook_resid_post` on the strings given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from einops import rearrange, reduce
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import ConfigError, UnsupportedError, UsageError
from tsc_interp.probes.inputs import Inputs, need_one_logit
from tsc_interp.probes.probe import probe
from tsc_interp.results.base import Cell, Finding, LabeledArray, ProbeResult, that_hold
from tsc_interp.results.views import Lines, shown

if TYPE_CHECKING:
    from tsc_interp.checkpoints import Checkpoint
    from tsc_interp.checkpoints.run_records import EpochMetrics
    from tsc_interp.model.classifier import Classifier
    from tsc_interp.plots.figure import Figure

_BUDGET = 20_000
_MOST_LETTERS = 5
_MARKED = " The dotted line marks the chosen epoch, if one is chosen."


class DynamicsResult(ProbeResult):
    probe: ClassVar[str] = "dynamics"

    chosen_epoch: int | None
    losses: Annotated[
        LabeledArray | None,
        Lines(
            "Losses", "The axis is logarithmic." + _MARKED, along="epoch",
            y="loss, summed over strings", log_y=True, form=".4g",
        ),
    ]  # fmt: skip
    """`[epoch set]`, sums over an epoch's strings; nan where none was recorded."""
    errors: Annotated[
        LabeledArray | None,
        Lines(
            "Errors on the test set",
            "Of the 9,984 test strings, how many each epoch gets wrong." + _MARKED,
            name="test-errors", along="epoch", y="strings answered wrongly", form=",.0f",
        ),
    ]  # fmt: skip
    """`[epoch kind]`: false positives and false negatives on the test set."""
    horizons: Annotated[
        LabeledArray | None,
        Lines(
            "Right on every string up to this length",
            "Exact, not sampled: below the curve there is no string the model gets wrong."
            + _MARKED,
            along="epoch", y="length", form=",.0f",
        ),
    ]  # fmt: skip
    """`[epoch]`: no error up to this length, proved."""
    scores: Annotated[
        LabeledArray | None,
        Lines(
            "Scores of the letters",
            "The letter with the highest score is the one the head reads; its lead decides how "
            "many others it takes to drown it." + _MARKED,
            name="head-scores", along="epoch", y="score", per=("head",), form=".4f", table=False,
        ),
    ]  # fmt: skip
    """`[epoch head letter]`: CLS's scores in the first layer, every letter occurring once."""
    values: LabeledArray | None
    """`[epoch head letter component]`, first layer."""
    magnitudes: Annotated[
        LabeledArray,
        Lines(
            "How large the weights become",
            "The typical size of the entries of each weight matrix." + _MARKED,
            name="weight-sizes", along="epoch", y="root mean square", form=".4f",
        ),
    ]  # fmt: skip
    """`[epoch weight]`: root mean square."""
    logits: Annotated[
        LabeledArray,
        Lines(
            "Logits of the strings", "Above the dashed line the model says yes." + _MARKED,
            along="epoch", y="logit", form=".4f",
        ),
    ]  # fmt: skip
    """`[epoch string]`"""
    labels: tuple[int, ...]
    embeddings: LabeledArray
    """`[epoch token dim]`, CLS and letters."""
    transformed: LabeledArray
    """`[epoch string dim]`: CLS at the end."""
    readout: LabeledArray
    """`[epoch dim]`"""

    @property
    def epochs(self) -> list[int]:
        return [int(epoch) for epoch in self.logits.labels["epoch"]]

    @shown(
        Lines(
            "Values of the letters", "What the head contributes for each letter." + _MARKED,
            name="head-values", along="epoch", y="value", per=("head",), form=".4f", table=False,
        )
    )  # fmt: skip
    def numbers(self) -> LabeledArray | None:
        """`[epoch head letter]`: values, where they are single numbers."""
        if self.values is None or self.values.shape[-1] != 1:
            return None
        labels = {dim: self.values.labels[dim] for dim in ("epoch", "head", "letter")}
        return LabeledArray.of(self.values.array[..., 0], **labels)

    def drawn(self) -> list[Figure]:
        """What the fields declare, the chosen epoch marked, and two animations."""
        from tsc_interp.plots.colours import INK
        from tsc_interp.plots.style import decision_line

        declared = list(super().drawn())
        for one in declared:
            if one.name == "logits":
                decision_line(one.figure, y=0)
        if self.chosen_epoch is not None:
            for one in declared:
                line = {"color": INK, "dash": "dot", "width": 1.5}
                one.figure.add_vline(x=self.chosen_epoch, line=line)
        return [*declared, *_animations(self)]

    @property
    def _end(self) -> int:
        """The place of the chosen epoch, or of the last one if none is chosen yet."""
        chosen = self.chosen_epoch
        return self.epochs.index(chosen) if chosen in self.epochs else len(self.epochs) - 1

    # -- what was found ----------------------------------------------------------------------------

    def conclude(self) -> Iterator[Finding]:
        yield self._course()
        if self.errors is not None:
            yield self._best_epoch(self.errors)
        if self.horizons is not None:
            yield self._longest(self.horizons)
        if self.scores is not None:
            yield from self._margins(self.scores)

    def _course(self) -> Finding:
        chosen = self.chosen_epoch
        ended = f"epoch {chosen} was chosen" if chosen is not None else "it is not finished"
        text = f"The run has epochs {self.epochs[0]} to {self.epochs[-1]}; {ended}"
        numbers: dict[str, Cell] = {"last epoch": self.epochs[-1], "chosen epoch": chosen}
        if self.losses is not None and chosen in self.epochs:
            loss = float(self.losses.at(epoch=chosen, set="validation"))
            text += f", with validation loss {loss:.4f}"
            numbers["validation loss"] = loss
        return Finding.of(f"{text}.", numbers)

    def _best_epoch(self, errors: LabeledArray) -> Finding:
        totals = errors.array.sum(axis=1)
        end, best = self._end, int(totals.argmin())
        at_end, at_best = int(totals[end]), int(totals[best])
        text = f"Test errors fall from {int(totals[0]):,} to {at_end:,} at epoch {self.epochs[end]}"
        if at_best < at_end:
            text += (
                f", but epoch {self.epochs[best]} makes only {at_best:,}: the validation loss, on "
                "shorter strings, did not reveal it"
            )
        return Finding.of(
            f"{text}.",
            {
                "errors at the start": int(totals[0]),
                f"errors at epoch {self.epochs[end]}": at_end,
                f"errors at epoch {self.epochs[best]}": at_best,
            },
            "warning" if at_best < at_end else "note",
        )

    def _longest(self, horizons: LabeledArray) -> Finding:
        lengths = horizons.array.astype(int)
        end, best = self._end, int(lengths.argmax())
        return Finding.of(
            f"At epoch {self.epochs[end]} every string of up to {lengths[end]:,} letters is "
            f"proved right; the largest such length in the run is {lengths[best]:,}, at epoch "
            f"{self.epochs[best]}.",
            {f"epoch {e}": int(n) for e, n in zip(self.epochs, lengths, strict=True)},
        )

    def _margins(self, scores: LabeledArray, most: int = 4) -> Iterator[Finding]:
        if len(scores.labels["letter"]) < 2:
            return
        for index, head in enumerate(scores.labels["head"][:most]):
            first, last = scores.array[0, index], scores.array[self._end, index]
            target = int(last.argmax())
            others = np.delete(np.arange(len(last)), target)
            before, after = (row[target] - row[others].max() for row in (first, last))
            letter = scores.labels["letter"][target]
            yield Finding.of(
                f"Head {head} learns to read `{letter}`: the lead of its score over the next "
                f"letter goes from {before:+.4f} at the start to {after:+.4f}.",
                {"margin at the start": float(before), "margin at the end": float(after)},
            )


def _animations(result: DynamicsResult) -> Iterator[Figure]:
    from tsc_interp.plots.animation import animate, common_view
    from tsc_interp.plots.colours import string_style, token_style
    from tsc_interp.plots.figure import Figure
    from tsc_interp.plots.series import each

    tokens = result.embeddings.labels["token"]
    seen = common_view(result.embeddings.array)
    figure = animate(seen, result.epochs, tokens, [token_style(t) for t in tokens])
    lengths = np.linalg.norm(result.embeddings.array, axis=-1)
    spoken = each("{} {:.4f} to {:.4f}", tokens, lengths[0], lengths[-1], between=", ")
    yield Figure(
        "embeddings",
        "Embeddings, epoch by epoch",
        figure,
        f"Press play, or move the slider. {seen.remark}".strip(),
        f"Lengths of the embeddings, first to last epoch: {spoken}.",
    )
    strings = result.transformed.labels["string"]
    logits = result.logits.array
    styles = [
        string_style(label, bool((logit > 0) == bool(label)))
        for label, logit in zip(result.labels, logits[-1], strict=True)
    ]
    seen = common_view(result.transformed.array)
    direction = result.readout.array if seen.exact else None
    figure = animate(seen, result.epochs, strings, styles, normals=direction)
    how = " The dashed line is where the logit is zero." if direction is not None else ""
    spoken = each("{} {:.4f} to {:.4f}", strings, logits[0], logits[-1], between=", ")
    yield Figure(
        "transformed",
        "Transformed CLS, epoch by epoch",
        figure,
        f"Press play, or move the slider: each string on its way.{how} {seen.remark}".strip(),
        f"Logits, first to last epoch: {spoken}.",
    )


# -- what is computed ------------------------------------------------------------------------------


@probe(
    DynamicsResult,
    title="How did training get there?",
    question="How did the model become what it is, epoch by epoch?",
    chapter="4",
    needs_run=True,
)
def dynamics(inputs: Inputs, *, run_directory: str | Path | None = None) -> DynamicsResult:
    """Follow the run in `run_directory`; the model must be one of its epochs."""
    import torch

    from tsc_interp.checkpoints.run_directory import RunDirectory
    from tsc_interp.model.classifier import Classifier
    from tsc_interp.model.initialise import stack_weights

    strings = inputs.given
    if run_directory is None:
        raise UsageError(
            "dynamics needs a run directory (runs/<experiment>/<key>/seed=N) as the checkpoint, "
            "because one model alone has no history; 'tsc-interp train' makes one"
        )
    directory = RunDirectory.open(run_directory)
    history, outcome, config = directory.history(), directory.result(), directory.classifier
    if config != inputs.config:
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
    import torch

    from tsc_interp.data import source_test_set

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
    from tsc_interp.verification import horizon

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
    import torch

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
