"""How far is the letter a head reads ahead of the others, and when is it outweighed? Chapter 3.

A head reads the letter t with the highest score s_t; its margin over letter o is s_t - s_o. In a
string with one t and k o's the weight of t is 1 / (1 + k exp(-margin)): exp(margin) o's per t halve
it. (Where scores grow with log n, a margin above 1 is never outweighed; below, k solves
(k + 1)^margin = k.) Weight moves the read-out: with r_t the direct effect of giving t all the
weight, a head's effect changes sign at k = exp(margin) · (-r_t / r_o), if the signs differ.

For our classifier: the exact counts at which families such as `ab{n}`, `a{n}b`, `abc{n}` flip,
predicted from scores and values against measured on the model (`families` says how); the first
error of all from a closed formula against the exact one (`formula`); and for false negatives which
head lost its letter, and whether the other letters matter.

Reads `hook_q`, `hook_k`, `hook_v`, `hook_pattern`; edits `hook_z` of our own classifier to predict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from einops import rearrange
from scipy.optimize import brentq

from tsc_interp.probes.attention import Layer, Reading, RowOptions, read_beside_chance
from tsc_interp.probes.inputs import Floats, as_array, classifier_config, logits_of
from tsc_interp.probes.margin.families import (
    CAP,
    LIMIT,
    counts_of,
    families,
    first_error,
    predicted_error,
    varied_letters,
)
from tsc_interp.probes.margin.formula import formula_applies, predicted_first_error
from tsc_interp.probes.margin.lost import lost_letters
from tsc_interp.probes.margin.result import MarginResult, Prediction
from tsc_interp.results.base import LabeledArray, that_hold

if TYPE_CHECKING:
    from torch import Tensor

    from tsc_interp.config import ClassifierConfig

GRID = tuple(np.unique(np.geomspace(1, CAP, 91).astype(np.int64)).tolist())
"""The n at which curves are drawn."""


def run(model: Any, strings: Sequence[str] | Tensor, **options: Unpack[RowOptions]) -> MarginResult:
    """On any TransformerLens model: token ids `[batch pos]` for strings, and a query position."""
    reading, chance = read_beside_chance(model, strings, options)
    config = classifier_config(model)
    scores = np.stack([layer.scores for layer in reading.layers])
    margins = scores.max(axis=-1, keepdims=True) - scores
    grows = config is not None and config.log_n
    half = np.vectorize(lambda margin: half_weight_count(float(margin), grows))(margins)
    axes = {"layer": reading.layer_names, "head": reading.heads, "letter": reading.tokens}
    turns = None
    if (direction := reading.direction) is not None:
        turns = np.stack([_sign_change(layer, direction) for layer in reading.layers])
    result = MarginResult(
        not_applicable=(*reading.caveats(), *_not_applicable(config)),
        n_layers=reading.n_layers,
        needs=reading.needs,
        **reading.certainty(chance),
        scores=LabeledArray.of(scores, **axes),
        margins=LabeledArray.of(margins, **axes),
        half_weight=LabeledArray.of(half, **axes),
        sign_change=None if turns is None else LabeledArray.of(turns, **axes),
    )
    if config is not None and not _no_flips(config):
        flips = _flips(model, config, reading, result)
        if config.n_layers == 1 and not config.needs_order:
            flips["lost"] = lost_letters(model, config, reading)
        flips["predicted"] = _prediction(model, config)
        result = result.model_copy(update=flips)
    return result


def _prediction(model: Any, config: ClassifierConfig) -> Prediction | None:
    """The closed formula beside the exact answer; None where either is out of reach."""
    if not formula_applies(config):
        return None
    from tsc_interp.probes.searched import searched
    from tsc_interp.verification.bounds.exact import checkpoint_of
    from tsc_interp.verification.horizons import horizon
    from tsc_interp.verification.summaries import DEFAULT_LIMIT, summarise

    checkpoint = checkpoint_of(model)
    predicted = predicted_first_error(checkpoint)
    # From the search that an atlas makes too; where that has too few boxes, from a longer one.
    exact = summarise(*searched(checkpoint), DEFAULT_LIMIT)
    exact = exact if exact.complete else horizon(checkpoint, prove=False)
    if not exact.complete:
        return None
    return Prediction(
        predicted=None if predicted is None else predicted.string,
        predicted_length=None if predicted is None else predicted.length,
        exact=None if exact.shortest is None else exact.shortest.string,
        exact_length=None if exact.shortest is None else exact.shortest.length,
        searched=exact.limit,
    )


def half_weight_count(margin: float, grows: bool = False) -> float:
    """How many of another letter, beside one of the letter read, take half of the weight."""
    if not grows:
        return float(np.exp(min(margin, 700.0)))
    if margin >= 1:
        return float("inf")
    # m log(k + 1) - log k falls from m log 2 at k = 1 towards minus infinity.
    log_k = brentq(lambda x: margin * np.logaddexp(x, 0) - x, 0.0, 1e9)
    return float(np.exp(min(log_k, 700.0)))


def _sign_change(layer: Layer, direction: Floats) -> Floats:
    readout = layer.readout(direction)
    rows = np.arange(len(readout))
    top = layer.scores.argmax(axis=1)
    margins = layer.scores[rows, top][:, None] - layer.scores
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = -readout[rows, top][:, None] / readout
    return np.where(ratio > 0, np.exp(np.minimum(margins, 700)) * ratio, np.inf)


def _flips(
    model: Any, config: ClassifierConfig, reading: Reading, result: MarginResult
) -> dict[str, Any]:
    """The families with their flips, and the curves behind the figures."""
    closed_form = config.n_layers == 1 and not config.needs_order
    made = []
    for family in families(config, reading.rows):
        if family.cap < 1:
            continue
        ends = [1, LIMIT if family.cap == CAP else family.cap]
        start, limit = logits_of(model, counts_of(config, family, ends))
        measured = {
            "start": float(start),
            "limit": float(limit) if family.cap == CAP else None,
            "first_error": first_error(model, family),
            "predicted": predicted_error(model, reading.layers[0], reading.tokens, family)
            if closed_form
            else None,
        }
        made.append(family.model_copy(update=measured))
    if config.needs_order:
        return {"families": tuple(made)}
    names, grid = [family.name for family in made], [str(n) for n in GRID]
    counts = np.stack([counts_of(config, family, GRID) for family in made])
    logits = logits_of(model, rearrange(counts, "family n letter -> (family n) letter"))
    return {
        "families": tuple(made),
        "logits": LabeledArray.of(
            rearrange(logits, "(family n) -> family n", n=len(grid)), family=names, n=grid
        ),
        "weights": LabeledArray.of(
            _target_weights(model, reading, result, counts),
            layer=reading.layer_names,
            family=names,
            head=reading.heads,
            n=grid,
        ),
    }


def _target_weights(model: Any, reading: Reading, result: MarginResult, counts: Floats) -> Floats:
    """`[layer family head n]`: how much each head keeps on the letter it reads."""
    import torch

    config: ClassifierConfig = model.config
    layout = ("CLS", *config.alphabet.letters)
    with torch.no_grad():
        cache = model.run_with_cache(
            model.counts(rearrange(counts, "family n letter -> (family n) letter")),
            names_filter=lambda name: name.endswith("hook_pattern"),
        )[1]
    kept = []
    for i, layer in enumerate(reading.layers):
        pattern = as_array(cache[f"blocks.{layer.index}.attn.hook_pattern"])[:, :, 0]
        targets = [layout.index(letter) for letter in result.reads[i]]
        picked = pattern[:, np.arange(len(targets)), targets]
        kept.append(
            rearrange(picked, "(family n) head -> family head n", family=len(counts), n=len(GRID))
        )
    return np.stack(kept)


def _no_flips(config: ClassifierConfig) -> str | None:
    """Why there are no families whose answers could be followed; None where there are."""
    if config.n_outputs > 1:
        return f"flips are of the sign of one logit, and this model has {config.n_outputs} outputs"
    if config.task.ordered:
        return "flips of families such as ab{n} are of counts, and this task is about order"
    if config.needs_order and not config.has_positions:
        return "flips of families such as ab{n} are of counts, and this model sees order"
    return None


def _not_applicable(config: ClassifierConfig | None) -> list[str]:
    if config is None:
        return [
            "flips of families such as ab{n} need a task with labels, which only our classifier has"
        ]
    if (reason := _no_flips(config)) is not None:
        return [reason]
    varied = varied_letters(config)
    return list(that_hold({
        "flips are measured but not predicted: with several layers scores and values change with "
        "the string": config.n_layers > 1,
        "flips are measured up to the last learned position, on sorted strings; there is no limit "
        "and no prediction, since order matters": config.has_positions,
        f"of {config.n_letters} letters only {', '.join(varied)} are varied to look for flips; "
        "name strings to ask about others": config.n_letters > len(varied),
        "scores are per unit of log n, so exp(margin) does not apply: a letter is outweighed only "
        "if its margin is below 1": config.log_n,
    }))  # fmt: skip
