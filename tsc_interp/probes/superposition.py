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

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import numpy as np
from einops import rearrange

from tsc_interp.probes.attention import Layer, Reading, keep_small, read, read_by_chance
from tsc_interp.probes.inputs import Floats, Inputs, as_array
from tsc_interp.probes.probe import probe
from tsc_interp.probes.wording import (
    capital,
    grouped,
    n_letters,
    of_layer,
    write_mixture,
    write_strings,
    write_vector,
)
from tsc_interp.results.base import Finding, HeadsResult, LabeledArray, Number, Record, Severity
from tsc_interp.results.views import Heat, Rows

if TYPE_CHECKING:
    from tsc_interp.plots.figure import Figure

ALL_HEADS = "all heads"
CLOSE = 0.25
"""A letter can be mistaken when the others come within this fraction of the values' range."""
NEGLIGIBLE = 0.05
"""A share of a letter too small to explain anything."""
MOST_TOLD = 4


class Imitation(Record):
    """A false positive: in one head, a letter that is there is taken for one that is missing."""

    string: str
    logit: float
    head: int
    """The head whose value reads most like a missing letter's."""
    missing: str
    by: str
    """The letter with a share of the weight whose value is nearest to the missing one's."""
    weight: float
    """What the head gives to it."""
    reads_as: tuple[float, ...]
    """The mixture of the letters the task names that is nearest to the head's output."""


class SuperpositionResult(HeadsResult):
    probe: ClassVar[str] = "superposition"

    values: LabeledArray | None
    """`[layer head letter component]`: each letter's value; None for a large model."""
    reads: tuple[tuple[str, ...], ...]
    """`[layer][head]`: the letter each head scores highest."""
    hull_distance: LabeledArray
    """`[layer head letter]`, the last head being the stacked values of all."""
    cone_distance: Annotated[
        LabeledArray, Rows("Distance from each {result.unit}'s value to the cone of the others")
    ]
    """`[layer head letter]`."""
    relative: Annotated[
        LabeledArray,
        Heat(
            "How far each {result.unit} is from being mistaken for others",
            "The distance from a {result.unit}'s value to the nearest mixture of the other "
            "{result.unit}s, as a share of the values' range: 0% means that others can give "
            "exactly its value. The row of all heads asks for one mixture that fools them at once.",
            name="distances", share=True, form=".0%", per=("layer",),
        ),
    ]  # fmt: skip
    """`[layer head letter]`: hull distances as a share of the largest distance of two letters."""
    mixture: LabeledArray
    """`[layer head letter other]`: the mixture of others that comes nearest (hull)."""
    string_values: LabeledArray | None
    """`[layer string head component]`: what each head returns; None for a large model."""
    chance_distance: tuple[Number, ...] | None = None
    """Of shuffled heads: the distance of the token they score highest, relative to the range."""
    imitations: tuple[Imitation, ...] = ()
    """The given strings that are false positives because a letter is mistaken for another."""
    other_false_positives: tuple[str, ...] = ()
    """Given strings that are false positives for another reason."""

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters compared."""
        return self.hull_distance.labels["letter"]

    @property
    def close(self) -> float:
        """Mixtures nearer than this, as a share of the range, are mistaken for a letter.

        Without a task it is what chance gives: the nearest of any head with shuffled weights.
        """
        return CLOSE if self.chance_distance is None else min(self.chance_distance)

    def _mixed(self, at: tuple[int, ...]) -> str:
        return write_mixture(self.mixture.array[at], self.letters)

    def _name(self, i: int, h: int) -> str:
        return self.head_name(self.hull_distance.labels["layer"][i], h)

    def drawn(self) -> list[Figure]:
        """On number lines, where heads have size one, before what the fields declare."""
        lines: list[Figure] = []
        if self.values is not None and self.values.shape[-1] == 1 and not self.many_heads:
            lines = [_number_lines(self, self.values, i) for i in range(len(self.reads))]
        return [*lines, *super().drawn()]

    # -- what was found ----------------------------------------------------------------------------

    def conclude(self) -> Iterator[Finding]:
        if len(self.letters) < 2:
            yield Finding.of(f"One {self.unit} alone cannot be mistaken for another.")
            return
        yield from self._heads()
        if self.needs is None:
            return
        for i in range(len(self.reads)):
            yield from self._joint(i)
        shortest_first = sorted(self.imitations, key=lambda one: n_letters(one.string))
        for same in grouped(shortest_first, lambda one: (one.head, one.missing, one.by)):
            yield self._imitation(self.needs, *same)
        if others := self.other_false_positives:
            yield Finding.of(
                "No letter is mistaken for another in the false positive "
                f"{write_strings(others)}: no head's value moves towards that of a missing letter.",
                {"strings": len(others)},
            )

    def _heads(self) -> Iterator[Finding]:
        """For the letter each head scores highest: can the others be mistaken for it?"""
        places = [
            (i, h, self.letters.index(letter))
            for i, heads in enumerate(self.reads)
            for h, letter in enumerate(heads)
            if self.stands_out(i, h)
        ]
        if not places:
            if self.needs is None:
                yield Finding.of("No head reads one token clearly, so none can mistake another.")
            return
        relative = {at: float(self.relative.array[at]) for at in places}
        near = sorted((at for at in places if relative[at] <= self.close), key=relative.__getitem__)
        for at in near[:MOST_TOLD]:
            i, h, t = at
            distance, letter = float(self.hull_distance.array[at]), self.letters[t]
            yield Finding.of(
                f"{capital(self._name(i, h))} reads `{letter}`, and other {self.unit}s can be "
                f"mistaken for it: {self._mixed(at)} comes within {distance:.4f} of its value "
                f"({relative[at]:.0%} of the range).",
                {"distance": distance, "relative": relative[at]},
                layer=i, head=h, letter=letter,
            )  # fmt: skip
        safe = [at for at in places if at not in near]
        if not safe:
            return
        nearest = min(relative[at] for at in safe)
        names = " or ".join(f"`{self.letters[t]}` in {self._name(i, h)}" for i, h, t in safe)
        if len(safe) > 3:
            names = f"the {self.unit} that {len(safe)} of {len(places)} heads read"
        text = (
            f"No mixture of other {self.unit}s can be mistaken for {names}: all stay at least "
            f"{nearest:.0%} of the values' range away"
        )
        if chance := self.chance_distance:
            text += f"; in heads with shuffled weights it is {min(chance):.0%} to {max(chance):.0%}"
        numbers = {"nearest": nearest, "near": len(near), "heads": len(places)}
        yield Finding.of(f"{text}.", numbers, "note" if self.needs is None else "good")

    def _joint(self, i: int) -> Iterator[Finding]:
        """Over all heads at once, for the letters the task names."""
        named = [t for t, letter in enumerate(self.letters) if letter in (self.needs or "")]
        if not named:
            return
        t = min(named, key=lambda t: float(self.relative.array[i, -1, t]))
        letter, relative = self.letters[t], float(self.relative.array[i, -1, t])
        layer = "" if self.n_layers == 1 else f"Layer {self.hull_distance.labels['layer'][i]}: "
        able, severity = ("cannot", "good") if relative > CLOSE else ("can", "warning")
        yield Finding.of(
            f"{layer}Other letters {able} be mistaken for one the task needs in all heads at once: "
            f"the mixture {self._mixed((i, -1, t))} comes nearest, within {relative:.0%} of the "
            f"values' range of `{letter}`.",
            {"relative": relative},
            cast("Severity", severity),
            letter=letter,
        )

    def _imitation(self, needs: str, first: Imitation, *others: Imitation) -> Finding:
        assert self.values is not None
        assert self.string_values is not None
        values = self.values.array[0, first.head]
        own, target = (
            write_vector(values[self.letters.index(t)]) for t in (first.by, first.missing)
        )
        layer = self.values.labels["layer"][0]
        output = self.string_values.at(layer=layer, string=first.string, head=first.head)
        text = (
            f"`{first.string}` (logit {first.logit:+.4f}) is a false positive: it has no "
            f"`{first.missing}`, but `{first.by}` is mistaken for it. "
            f"{capital(self._name(0, first.head))} gives `{first.by}` {first.weight:.0%} of its "
            f"weight, with a value of {own} where `{first.missing}` has {target}; its output "
            f"{write_vector(output)} reads as {write_mixture(first.reads_as, needs)}."
        )
        if others:
            text += f" The same happens in {write_strings([other.string for other in others])}."
        share = first.reads_as[needs.index(first.missing)]
        return Finding.of(
            text,
            {"logit": first.logit, "head": first.head, "share": share},
            "failure",
            string=(first.string, *(other.string for other in others)),
            head=first.head,
            letter=first.missing,
        )


def _number_lines(result: SuperpositionResult, source: LabeledArray, i: int) -> Figure:
    """Letters on a line per head; the one it reads is ringed, and a bar spans what others give."""
    from tsc_interp.plots.figure import Figure
    from tsc_interp.plots.number_line import number_line
    from tsc_interp.plots.series import add_guide, add_series
    from tsc_interp.plots.style import INK

    letters, values = result.letters, source.array[i, :, :, 0]
    rows = [
        (f"head {head}", list(zip(letters, line, strict=True)))
        for head, line in zip(source.labels["head"], values.tolist(), strict=True)
    ]
    figure = number_line(rows, x="value")
    targets = [letters.index(letter) for letter in result.reads[i]]
    for h, t in enumerate(targets):
        others = np.delete(values[h], t)
        ends = [others.min(), others.max()] if len(others) else []
        add_guide(figure, ends, [h] * len(ends), width=9, opacity=0.35)
    add_series(figure, values[np.arange(len(targets)), targets], list(range(len(targets))), "",
               mode="markers", colour=INK, symbol="circle-open", size=20, hoverinfo="skip",
               marker={"line": {"width": 2}}, showlegend=False)  # fmt: skip
    assert result.string_values is not None
    strings = result.string_values.labels["string"]
    for h, (name, _) in enumerate(rows):
        add_series(figure, result.string_values.array[i, :, h, 0], [h + 0.2] * len(strings), name,
                   "%{customdata}: %{x:.4f}", mode="markers", colour=INK, symbol="line-ns-open",
                   size=9, marker={"line": {"width": 2}}, customdata=list(strings),
                   showlegend=False)  # fmt: skip
    spoken = "; ".join(
        f"{name}, which reads {letters[t]}: "
        + ", ".join(f"{letter} {value:.4f}" for letter, value in points)
        for (name, points), t in zip(rows, targets, strict=True)
    )
    layers = source.labels["layer"]
    return Figure(
        f"values-{layers[i]}" if i else "values",
        of_layer(f"Who can pass for the {result.unit} a head reads?", layers[i], layers),
        figure,
        "Each head's value for each letter. The one it reads is ringed; the grey bar is all that "
        "the other letters can be mixed into. A ring on or near the bar can be mistaken for them. "
        "The ticks below are the head's output for the given strings.",
        f"Values by head. {spoken}.",
    )


# -- what is computed ------------------------------------------------------------------------------


@probe(
    SuperpositionResult,
    title="What is mistaken for what?",
    question="Can a mixture of other letters be mistaken for one the model looks for?",
    chapter="3",
    any_model=True,
    token_question="Can a mixture of other tokens be mistaken for a token a head looks for?",
)
def superposition(inputs: Inputs, *, layer: int | None = None) -> SuperpositionResult:
    inputs.refuse_frame("so not every mixture of letters occurs that could be mistaken for one")
    reading = read(inputs, layer)
    chance, ours = read_by_chance(inputs, layer), inputs.config is not None
    hull, cone, mixture, spread = (
        np.stack(part) for part in zip(*map(_measure, reading.layers), strict=True)
    )
    relative = hull / np.where(spread > 0, spread, 1.0)[:, :, None]
    layers = {"layer": reading.layer_names}
    axes = {**layers, "head": (*reading.heads, ALL_HEADS), "letter": reading.tokens}
    by_head = {"head": reading.heads, "component": range(reading.layers[0].values.shape[-1])}
    values, returned = zip(*((one.values, one.head_values) for one in reading.layers), strict=True)
    result = SuperpositionResult(
        not_applicable=reading.caveats(),
        n_layers=reading.n_layers,
        needs=reading.needs,
        **reading.certainty(chance),
        chance_distance=_by_chance(chance),
        values=keep_small(values, always=ours, **(axes | by_head)),
        reads=tuple(
            tuple(reading.tokens[t] for t in layer.scores.argmax(axis=1))
            for layer in reading.layers
        ),
        hull_distance=LabeledArray.of(hull, **axes),
        cone_distance=LabeledArray.of(cone, **axes),
        relative=LabeledArray.of(np.where(np.isfinite(relative), relative, 1.0), **axes),
        mixture=LabeledArray.of(mixture, **axes, other=reading.tokens),
        string_values=keep_small(
            returned, always=ours, **layers, string=reading.rows, **by_head
        ),
    )  # fmt: skip
    # Reported for one logit, and for letters whose values are the same wherever they stand.
    reported = inputs.config is not None and inputs.config.n_outputs == 1 and result.lead is None
    if reported and result.needs_among(reading.tokens):
        result = result.model_copy(update=_false_positives(inputs, reading))
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
    distances = []
    for layer in (layer for reading in readings for layer in reading.layers):
        for values, t in zip(layer.values, layer.scores.argmax(axis=1), strict=True):
            distance = nearest_in_hull(values[t], np.delete(values, t, axis=0))[0]
            distances.append(distance / (_range(values) or 1.0))
    return tuple(distances) or None


def _range(values: Floats) -> float:
    """The largest distance between two rows."""
    from scipy.spatial.distance import pdist

    return float(pdist(values).max(initial=0.0))


def _false_positives(inputs: Inputs, reading: Reading) -> dict[str, Any]:
    """The given strings that lack a letter the task names and are taken for positive."""
    assert inputs.config is not None
    logits, task = as_array(inputs.model(list(reading.rows))), inputs.config.task
    labels = inputs.config.classes(reading.rows)
    imitations, others = [], []
    for row, string in enumerate(reading.rows):
        missing = [letter for letter in task.needs if letter not in string]
        if logits[row] > 0 and not labels[row] and missing:
            imitation = _imitation_in(reading, row, float(logits[row]), missing, task.needs)
            if imitation is None:
                others.append(string)
            else:
                imitations.append(imitation)
    return {"imitations": tuple(imitations), "other_false_positives": tuple(others)}


def _imitation_in(
    reading: Reading, row: int, logit: float, missing: Sequence[str], needs: str
) -> Imitation | None:
    """The head whose value reads most like a letter that is not there, and who plays its part."""
    layer = reading.layers[0]
    named = [reading.tokens.index(letter) for letter in needs]
    reads_as = [  # by head: the mixture of the task's letters nearest to what it returns
        nearest_in_hull(layer.head_values[row, h], layer.values[h, named])[1]
        for h in range(len(reading.heads))
    ]
    share, letter, h = max(
        (float(mixture[needs.index(letter)]), letter, h)
        for h, mixture in enumerate(reads_as)
        for letter in missing
    )
    if share < NEGLIGIBLE:
        return None
    values, weights = layer.values[h], layer.weights[row, h]
    target = values[reading.tokens.index(letter)]
    present = [t for t in range(len(reading.tokens)) if weights[t] >= NEGLIGIBLE]
    t = min(present, key=lambda t: float(np.linalg.norm(values[t] - target)))
    return Imitation(
        string=reading.rows[row], logit=logit, head=h, missing=letter, by=reading.tokens[t],
        weight=float(weights[t]), reads_as=tuple(reads_as[h].tolist()),
    )  # fmt: skip


# -- distances from a point to what other points can be mixed into: convex hulls and cones ---------


def nearest_in_hull(point: Floats, others: Floats) -> tuple[float, Floats]:
    """The distance from `point` to the convex hull of the rows of `others`, and the mixture.

    One non-negative least-squares problem, exactly: for w = s u with u in the simplex,
    |A w|^2 + (1 - sum w)^2 is least over s at |A u|^2 / (1 + |A u|^2), which grows with |A u|.
    """
    from scipy.optimize import nnls

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
    from scipy.optimize import nnls

    if not len(others):
        return float(np.linalg.norm(point)), np.zeros(0)
    weights, distance = nnls(others.T, point)
    return float(distance), weights
