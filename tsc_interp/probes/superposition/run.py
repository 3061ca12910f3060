"""Can other letters pass for this one? Chapter 3: letters mistaken for others.

A head returns a mixture of the values of the letters it sees, its weights non-negative and summing
to one. A letter t is safe when its value v_t is far from every mixture of the others:

    hull distance   min |v_t - sum_i w_i v_i|   over w >= 0, sum w = 1
    cone distance   the same without sum w = 1: its direction can be matched, at some length

For heads of size one this is a number line: a letter between (or near) the others can be mistaken.
All heads must be fooled at once, so the probe also measures the letters' stacked values. (One
mixture for all heads is a simplification: `cone` uses each head's actual attention weights.)

For false positives of our classifier it also says how each head's value reads as a mixture of the
letters the task names. Reads `hook_q`, `hook_k`, `hook_v`, `hook_z`, `hook_pattern`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from einops import rearrange
from scipy.optimize import nnls
from scipy.spatial.distance import pdist

from tsc_interp.probes.attention import Layer, Reading, RowOptions, keep_small, read_beside_chance
from tsc_interp.probes.inputs import Floats, as_array, classifier_config
from tsc_interp.probes.superposition.result import ALL_HEADS, Imitation, SuperpositionResult
from tsc_interp.results.base import LabeledArray

if TYPE_CHECKING:
    from torch import Tensor

    from tsc_interp.config import ClassifierConfig

NEGLIGIBLE = 0.05
"""A share of a letter too small to explain anything."""


def run(
    model: Any, strings: Sequence[str] | Tensor, **options: Unpack[RowOptions]
) -> SuperpositionResult:
    """On any TransformerLens model: token ids `[batch pos]` for strings, and a query position."""
    reading, chance = read_beside_chance(model, strings, options)
    config = classifier_config(model)
    hull, cone, mixture, spread = (
        np.stack(part) for part in zip(*map(_measure, reading.layers), strict=True)
    )
    layers, heads = reading.layer_names, (*reading.heads, ALL_HEADS)
    axes = {"layer": layers, "head": heads, "letter": reading.tokens}
    per_string = {"layer": layers, "string": reading.rows, "head": reading.heads}
    components = range(reading.layers[0].values.shape[-1])
    result = SuperpositionResult(
        not_applicable=reading.caveats(),
        n_layers=reading.n_layers,
        needs=reading.needs,
        **reading.certainty(chance),
        chance_distance=_by_chance(chance),
        values=keep_small(
            [layer.values for layer in reading.layers],
            always=config is not None,
            **(axes | {"head": reading.heads, "component": components}),
        ),
        reads=tuple(
            tuple(reading.tokens[t] for t in layer.scores.argmax(axis=1))
            for layer in reading.layers
        ),
        hull_distance=LabeledArray.of(hull, **axes),
        cone_distance=LabeledArray.of(cone, **axes),
        spread=LabeledArray.of(spread, layer=layers, head=heads),
        mixture=LabeledArray.of(mixture, **axes, other=reading.tokens),
        string_values=keep_small(
            [layer.head_values for layer in reading.layers],
            always=config is not None,
            **per_string,
            component=components,
        ),
        string_weights=LabeledArray.of(
            np.stack([layer.weights for layer in reading.layers]),
            **per_string,
            letter=reading.tokens,
        ),
    )
    # Reported for one logit, and for letters whose values are the same wherever they stand.
    reported = config is not None and config.n_outputs == 1 and result.lead is None
    if config is not None and reported and result.needs_among(reading.tokens):
        result = result.model_copy(update=_false_positives(model, config, reading))
    return result


def _measure(layer: Layer) -> tuple[Floats, Floats, Floats, Floats]:
    """Distances `[head letter]`, mixtures and ranges; the stacked values are the last head."""
    letters = layer.values.shape[1]
    stacked = rearrange(layer.values, "head letter component -> letter (head component)")
    sets = [*layer.values, stacked]
    hull, cone = np.zeros((2, len(sets), letters))
    mixture = np.zeros((len(sets), letters, letters))
    for h, values in enumerate(sets):
        for t in range(letters):
            others = np.delete(values, t, axis=0)
            hull[h, t], weights = nearest_in_hull(values[t], others)
            mixture[h, t] = np.insert(weights, min(t, len(weights)), 0.0)
            cone[h, t], _ = nearest_in_cone(values[t], others)
    return hull, cone, mixture, np.array([_range(values) for values in sets])


def _by_chance(readings: Sequence[Reading]) -> tuple[float, ...] | None:
    """For shuffled heads: how far their token is from the others, as a share of the range."""
    if not readings:
        return None
    distances = []
    for layer in (layer for reading in readings for layer in reading.layers):
        for values, t in zip(layer.values, layer.scores.argmax(axis=1), strict=True):
            distance = nearest_in_hull(values[t], np.delete(values, t, axis=0))[0]
            distances.append(distance / (_range(values) or 1.0))
    return tuple(distances)


def _range(values: Floats) -> float:
    """The largest distance between two rows."""
    return float(pdist(values).max(initial=0.0))


# -- strings ---------------------------------------------------------------------------------


def _false_positives(model: Any, config: ClassifierConfig, reading: Reading) -> dict[str, Any]:
    """The given strings that lack a letter the task names and are taken for positive."""
    logits = as_array(model(list(reading.rows)))
    labels = config.classes(reading.rows)
    imitations, others = [], []
    for row, string in enumerate(reading.rows):
        missing = [letter for letter in config.task.needs if letter not in string]
        if logits[row] > 0 and not labels[row] and missing:
            imitation = _imitation(reading, row, float(logits[row]), missing, config.task.needs)
            if imitation is None:
                others.append(string)
            else:
                imitations.append(imitation)
    return {"imitations": tuple(imitations), "other_false_positives": tuple(others)}


def _imitation(
    reading: Reading, row: int, logit: float, missing: Sequence[str], needs: str
) -> Imitation | None:
    """The head whose value reads most like a letter that is not there, and who plays its part."""
    layer = reading.layers[0]
    share, letter, h = max(
        (float(_reads_as(reading, layer, row, h, needs)[needs.index(letter)]), letter, h)
        for h in range(len(reading.heads))
        for letter in missing
    )
    if share < NEGLIGIBLE:
        return None
    values, weights = layer.values[h], layer.weights[row, h]
    target = values[reading.tokens.index(letter)]
    present = [t for t in range(len(reading.tokens)) if weights[t] >= NEGLIGIBLE]
    t = min(present, key=lambda t: float(np.linalg.norm(values[t] - target)))
    return Imitation(
        string=reading.rows[row],
        logit=logit,
        head=h,
        missing=letter,
        by=reading.tokens[t],
        weight=float(weights[t]),
        reads_as=tuple(_reads_as(reading, layer, row, h, needs).tolist()),
    )


def _reads_as(reading: Reading, layer: Layer, row: int, h: int, needs: str) -> Floats:
    """The mixture of the task's letters nearest to what the head returns."""
    named = [reading.tokens.index(letter) for letter in needs]
    return nearest_in_hull(layer.head_values[row, h], layer.values[h, named])[1]


# -- distances from a point to what other points can be mixed into: convex hulls and cones ---------


def nearest_in_hull(point: Floats, others: Floats) -> tuple[float, Floats]:
    """The distance from `point` to the convex hull of the rows of `others`, and the mixture.

    One non-negative least-squares problem, exactly: for w = s u with u in the simplex,
    |A w|^2 + (1 - sum w)^2 is least over s at |A u|^2 / (1 + |A u|^2), which grows with |A u|.
    """
    if not len(others):
        return float("inf"), np.zeros(0)
    # Scaled to order one, so that the appended row of ones is neither lost nor dominant.
    unit = float(np.abs(others - point).max()) or 1.0
    system = np.vstack([(others - point).T / unit, np.ones(len(others))])
    weights = nnls(system, np.append(np.zeros(len(point)), 1.0))[0]
    weights = weights / weights.sum()
    return float(np.linalg.norm(weights @ others - point)), weights


def nearest_in_cone(point: Floats, others: Floats) -> tuple[float, Floats]:
    """The distance from `point` to the cone the rows of `others` span, and the combination."""
    if not len(others):
        return float(np.linalg.norm(point)), np.zeros(0)
    weights, distance = nnls(others.T, point)
    return float(distance), weights
