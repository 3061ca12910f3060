"""Can other letters pass for this one? Chapter 3: false positives by imitation.

A head returns a mixture of the values of the letters it sees, its weights non-negative and summing
to one. A letter t is safe when its value v_t is far from every mixture of the others:

    hull distance   min |v_t - sum_i w_i v_i|   over w >= 0, sum w = 1
    cone distance   the same without sum w = 1: its direction can be imitated, at some length

For heads of size one this is a number line, and imitation means lying between (or near) the others.
All heads must be fooled at once, so the same is asked of the letters' stacked values. (One mixture
for all heads is a simplification: `cone` asks with each head's actual attention weights.)

For false positives of our classifier it also says how each head's value reads as a mixture of the
letters the task names. Reads `hook_q`, `hook_k`, `hook_v`, `hook_z`, `hook_pattern`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tsc_interp.probes.base import LabeledArray, ProbeResult, Table
from tsc_interp.probes.hull import nearest_in_cone, nearest_in_hull
from tsc_interp.probes.reading import Layer, read
from tsc_interp.probes.running import Floats
from tsc_interp.probes.superposition_words import findings
from tsc_interp.probes.wording import write_mixture, write_vector

if TYPE_CHECKING:
    from torch import Tensor

ALL_HEADS = "all"


class SuperpositionResult(ProbeResult):
    probe: ClassVar[str] = "superposition"

    values: LabeledArray
    """`[layer head letter component]`: each letter's value."""
    reads: tuple[tuple[str, ...], ...]
    """`[layer][head]`: the letter each head scores highest."""
    hull_distance: LabeledArray
    """`[layer head letter]`, the head `all` being the stacked values."""
    cone_distance: LabeledArray
    """`[layer head letter]`."""
    spread: LabeledArray
    """`[layer head]`: the largest distance between two letters, what distances are relative to."""
    mixture: LabeledArray
    """`[layer head letter other]`: the mixture of others that comes nearest (hull)."""
    string_values: LabeledArray
    """`[layer string head component]`: what each head returns for each string."""
    string_weights: LabeledArray
    """`[layer string head letter]`."""

    @property
    def relative(self) -> Floats:
        """Hull distances as a fraction of the values' range: `[layer head letter]`."""
        spread = self.spread.array[:, :, None]
        return np.asarray(self.hull_distance.array / np.where(spread > 0, spread, 1.0))

    def tables(self) -> tuple[Table, ...]:
        hull, cone, mixture = self.hull_distance, self.cone_distance.array, self.mixture.array
        letters = hull.labels["letter"]
        rows = tuple(
            (
                *(hull.labels[dim][i] for dim, i in zip(hull.dims, at, strict=True)),
                self._value(at),
                self._same_sign(at),
                float(hull.array[at]),
                float(self.relative[at]),
                float(cone[at]),
                write_mixture(mixture[at], letters),
            )
            for at in np.ndindex(hull.shape)
        )
        columns = ("layer", "head", "letter", "value", "same sign", "hull distance", "of the range",
                   "cone distance", "nearest mixture")  # fmt: skip
        return (Table(title="How near the others come to each letter", columns=columns, rows=rows),)

    def _value(self, at: tuple[int, ...]) -> str:
        layer, head, letter = at
        heads = self.values.array[layer, :, letter]
        return write_vector(heads[head] if head < len(heads) else heads)

    def _same_sign(self, at: tuple[int, ...]) -> str | None:
        """The other letters on its side of zero, for one head of size one."""
        layer, head, letter = at
        if self.values.shape[-1] != 1 or head == self.values.shape[1]:
            return None
        sides = np.sign(self.values.array[layer, head, :, 0])
        same = np.flatnonzero(sides == sides[letter])
        letters = self.values.labels["letter"]
        return ", ".join(letters[t] for t in same if t != letter) or "none"


def run(
    model: Any,
    strings: Sequence[str] | Tensor,
    *,
    query: int | None = None,
    layer: int | None = None,
    direction: ArrayLike | Tensor | None = None,
    token_names: Sequence[str] | None = None,
) -> SuperpositionResult:
    """On any TransformerLens model: token ids `[batch pos]` for strings, and a query position."""
    reading = read(
        model, strings, query=query, layer=layer, direction=direction, token_names=token_names
    )
    hull, cone, mixture, spread = (
        np.stack(part) for part in zip(*map(_measure, reading.layers), strict=True)
    )
    layers, heads = reading.layer_names, (*reading.heads, ALL_HEADS)
    axes = {"layer": layers, "head": heads, "letter": reading.tokens}
    per_string = {"layer": layers, "string": reading.rows, "head": reading.heads}
    components = range(reading.layers[0].values.shape[-1])
    result = SuperpositionResult(
        findings=(),
        not_applicable=reading.caveats(),
        values=LabeledArray.of(
            np.stack([layer.values for layer in reading.layers]),
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
        string_values=LabeledArray.of(
            np.stack([layer.head_values for layer in reading.layers]),
            **per_string,
            component=components,
        ),
        string_weights=LabeledArray.of(
            np.stack([layer.weights for layer in reading.layers]),
            **per_string,
            letter=reading.tokens,
        ),
    )
    return result.model_copy(update={"findings": findings(model, reading, result)})


def _measure(layer: Layer) -> tuple[Floats, Floats, Floats, Floats]:
    """Distances `[head letter]`, mixtures and ranges; the stacked values are the last head."""
    letters = layer.values.shape[1]
    sets = [*layer.values, layer.values.transpose(1, 0, 2).reshape(letters, -1)]
    hull, cone = np.zeros((2, len(sets), letters))
    mixture = np.zeros((len(sets), letters, letters))
    for h, values in enumerate(sets):
        for t in range(letters):
            others = np.delete(values, t, axis=0)
            hull[h, t], weights = nearest_in_hull(values[t], others)
            mixture[h, t] = np.insert(weights, min(t, len(weights)), 0.0)
            cone[h, t], _ = nearest_in_cone(values[t], others)
    spread = [np.linalg.norm(v[:, None] - v[None], axis=-1).max() for v in sets]
    return hull, cone, mixture, np.array(spread)
