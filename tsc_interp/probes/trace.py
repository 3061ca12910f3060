"""What happens to a string on its way to a logit?

Every named activation at the CLS position, for every string: embeddings; queries, keys and values;
scores (q·k / sqrt(d_head), before multiplicities), weights, head values z = sum of weight · value;
attention output, residual, MLP, read-out. Hooks read: `hook_q`, `hook_k`, `hook_v`,
`hook_attn_scores`, `hook_pattern`, `hook_z`, `hook_resid_pre`, `hook_attn_out`, `hook_resid_mid`,
`hook_mlp_out`, `hook_resid_post` and `mlp.hook_post` of every block, and with norms
`ln1.hook_normalized` and `ln2.hook_normalized`, which are what attention and MLP read.
Two fields are measured by writing instead of reading: the logit over a plane of head values (at
`hook_z`) and over the plane of the residual after attention (at `hook_resid_mid`). Chapters 1-2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from einops import einsum
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.inputs import Inputs, need_classifier
from tsc_interp.probes.probe import probe
from tsc_interp.results.base import (
    Cell,
    Finding,
    LabeledArray,
    ProbeResult,
    Table,
    that_hold,
)
from tsc_interp.results.views import Drawing, Heat, Rows, shown
from tsc_interp.strings import FIRST_LETTER

if TYPE_CHECKING:
    from tsc_interp.model.classifier import Classifier

STAGES = ("resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post")
MAX_MENU = 16
"""A menu longer than this helps nobody; the table has every head."""
Floats = NDArray[np.float64]
Drawn = tuple[Any, str] | tuple[Any, str, str] | None


class TraceResult(ProbeResult):
    """Activations with their labels. `token` runs over CLS and the letters, in that order."""

    probe: ClassVar[str] = "trace"

    task: str = ""
    """The question each string is asked."""
    logits: LabeledArray
    """[string]"""
    labels: tuple[int, ...]
    embeddings: LabeledArray
    """[token, dim], PAD included."""
    readout: LabeledArray
    """[dim]"""
    states: LabeledArray
    """[layer, stage, string, token, dim]"""
    normed: LabeledArray | None = None
    """[layer, reader, string, token, dim]: what attention and MLP read, where a norm is before."""
    query: LabeledArray | None = None
    """[layer, string, token, head, component]; likewise key and value."""
    key: LabeledArray | None = None
    value: LabeledArray | None = None
    scores: LabeledArray | None = None
    """[layer, string, head, token], CLS's scores; nan for a letter the string does not have."""
    weights: LabeledArray | None = None
    """[layer, string, head, token], CLS's attention weights summed over a letter's copies."""
    head_values: LabeledArray | None = None
    """[layer, string, head, component], what CLS takes from each head."""
    neurons: LabeledArray | None = None
    """[layer, string, neuron], after GELU."""
    magnitudes: LabeledArray
    """[weight, statistic]: root mean square, largest."""
    value_field: LabeledArray | None = None
    """[y, x]: the logit where two one-dimensional heads have values x and y."""
    residual_field: LabeledArray | None = None
    """[y, x]: the logit where CLS's residual after attention is (x, y)."""

    @property
    def strings(self) -> tuple[str, ...]:
        return self.logits.labels["string"]

    @property
    def right(self) -> tuple[bool, ...]:
        answers = zip(self.logits.array, self.labels, strict=True)
        return tuple((logit > 0) == bool(label) for logit, label in answers)

    @property
    def attended(self) -> list[str]:
        """The tokens some head can look at: CLS only where the model attends to it."""
        assert self.weights is not None
        seen = bool(self.weights.at(token="CLS").any())
        return [token for token in self.weights.labels["token"] if token != "CLS" or seen]

    # -- figures, in the order a string travels; with two heads first the one that explains all --

    @shown(
        Drawing(
            "Two heads at once",
            "Each letter is the pair of values it would give alone; each string is the pair CLS "
            "takes, coordinate by coordinate between the letters it contains. Of many heads, these "
            "two tell the letters apart most.",
        )
    )
    def two_heads(self) -> Drawn:
        return self._two_heads() if self._one_number_heads() > 1 else None

    @shown(
        Drawing(
            "What the model answers",
            "A bar to the right of zero means yes. Vermillion strings should be yes, blue ones no; "
            "hatched purple bars point the wrong way.",
            name="logits",
        )
    )
    def answers(self) -> Drawn:
        from tsc_interp.plots.series import each, signed_bars

        order = np.argsort(-self.logits.array, kind="stable").tolist()
        styles, logits = self._styles(), self.logits.array.tolist()
        figure = signed_bars(
            [logits[i] for i in order],
            [self.strings[i] for i in order],
            x="logit (above 0: answers yes)",
            colours=[styles[i].colour for i in order],
            hatched=[not self.right[i] for i in order],
            notes=["" if self.right[i] else " wrong" for i in order],
            hover=[f"{self.strings[i]}: {logits[i]:.4f}" for i in order],
        )
        marks = ["" if right else " (wrong)" for right in self.right]
        spoken = each("{} {:.4f}{}", self.strings, logits, marks, between=", ")
        return figure, f"Logits: {spoken}."

    @shown(Drawing("Embeddings", "What the model knows of a token before attention."))
    def embedding(self) -> Drawn:
        tokens = [token for token in self.embeddings.labels["token"] if token != "PAD"]
        points = np.stack([self.embeddings.at(token=token) for token in tokens])
        return _tokens("Embeddings", tokens, points)

    @shown(
        Drawing(
            "What attention reads, after the norm",
            "Each token's embedding as the norm before the first attention makes it: queries, keys "
            "and values are made of this.",
            name="normed",
        )
    )
    def attention_reads(self) -> Drawn:
        if self.normed is None or "attention" not in self.normed.labels["reader"]:
            return None
        tokens = list(self.normed.labels["token"])
        points = self.normed.at(reader="attention", string=self.strings[0])[0]
        if len(tokens) == 1:  # with positions, what CLS is for each string
            return self._plane("Inputs", self.normed.at(reader="attention", token="CLS")[-1])
        return _tokens("Inputs", tokens, points)

    @shown(
        Drawing(
            "Keys, and the query CLS asks with",
            "A letter's score is its key times CLS's query (divided by √d_head): keys on the "
            "query's side of zero are looked at, keys on the other side ignored.",
        )
    )
    def keys(self) -> Drawn:
        if self.query is None or self.key is None:
            return None
        from tsc_interp.plots.colours import INK, Look, token_style

        vectors = {
            head: [*(self.key.at(layer=0, token=t, head=head)[0] for t in self.attended),
                   self.query.at(layer=0, token="CLS", head=head)[0]]
            for head in self.key.labels["head"]
        }  # fmt: skip
        # A line has room for a word, a plane for a name.
        name = "query" if len(self.key.labels["component"]) == 1 else "CLS's query"
        styles = {**{t: token_style(t) for t in self.attended}, name: Look(INK, "triangle-right")}
        return _by_head(vectors, styles, "key and CLS query")

    @shown(
        Drawing(
            "Values of the letters",
            "What a head contributes when it looks at one letter only. A string's head value is a "
            "weighted average of these, so it lies between them; letters close together are hard "
            "to tell apart.",
        )
    )
    def values(self) -> Drawn:
        if self.value is None:
            return None
        from tsc_interp.plots.colours import token_style

        vectors = {
            head: [self.value.at(layer=0, token=t, head=head)[0] for t in self.attended]
            for head in self.value.labels["head"]
        }
        return _by_head(vectors, {t: token_style(t) for t in self.attended}, "value")

    @shown(
        Heat(
            "Where CLS looks",
            "The share of a head's attention that goes to each letter, all copies together. Within "
            "a head, the shares of a string sum to one.",
            share=True, form=".4f", per=("layer",), name="weights", most=48, most_written=12,
        )
    )  # fmt: skip
    def looks(self) -> LabeledArray | None:
        """`[layer head string token]`."""
        if self.weights is None:
            return None
        cells = np.stack([self.weights.at(token=token) for token in self.attended], axis=-1)
        labels = {dim: self.weights.labels[dim] for dim in ("layer", "head", "string")}
        return LabeledArray.of(cells.transpose(0, 2, 1, 3), **labels, token=self.attended)

    @shown(
        Drawing(
            "What CLS takes from each head",
            "What CLS actually takes from each head: the average of the letters' values, weighted "
            "by attention. Two strings with the same label should end up on the same side.",
            name="head-values",
        )
    )
    def taken(self) -> Drawn:
        if self.head_values is None:
            return None
        from tsc_interp.plots.heat import heat
        from tsc_interp.plots.vectors import choice, plane, view

        heads, layer = self.head_values.labels["head"], len(self.head_values.labels["layer"]) - 1
        values = self.head_values.array[layer]
        if values.shape[-1] == 1:
            names = [f"head {head}" for head in heads]
            figure = heat(values[:, :, 0], self.strings, names, show="+.4f", hover="+.4f")
        else:
            panels = [(f"head {head}", plane(view(values[:, h]), self.strings, self._styles()))
                      for h, head in enumerate(heads[:MAX_MENU])]  # fmt: skip
            figure = choice(panels)
        spoken = "; ".join(
            f"{string} {_digits(values[s, :4].ravel())}" for s, string in enumerate(self.strings)
        )
        return figure, f"Head values: {spoken}."

    def _one_number_heads(self) -> int:
        alone = self.value is not None and self.value.shape[-1] == 1
        return self.value.shape[-2] if self.value is not None and alone else 0

    def _two_heads(self) -> Drawn:
        """The two heads (of many, those whose values differ most over letters) as one plane."""
        from tsc_interp.plots.colours import token_style
        from tsc_interp.plots.series import add_guide
        from tsc_interp.plots.vectors import View, plane, vector_words

        assert self.head_values is not None
        assert self.value is not None
        letters = [t for t in self.value.labels["token"] if t != "CLS"]
        table = np.stack([self.value.at(layer=0, token=t)[0, :, 0] for t in letters])
        first, second = sorted(np.argsort(-np.ptp(table, axis=0), kind="stable")[:2].tolist())
        corners = table[:, [first, second]]
        strings = self.head_values.array[0, :, :, 0][:, [first, second]]
        axes = (f"head {first} value", f"head {second} value")
        styles = [*(token_style(t) for t in letters), *self._styles()]
        figure = plane(
            View(np.vstack([corners, strings]), axes, True, ""),
            [*letters, *self.strings], styles, arrows=False, field=_field_of(self.value_field),
        )  # fmt: skip
        if len(letters) == 3:
            loop = np.vstack([corners, corners[:1]])
            add_guide(figure, loop[:, 0], loop[:, 1], dash="dot")
        behind = (
            "Behind them the logit at each pair of values: blue for no, vermillion for yes, "
            "dashed the line between."
        )
        spoken = (
            f"Letters: {vector_words(letters, corners)}. "
            f"Strings: {vector_words(self.strings, strings)}."
        )
        return figure, spoken, behind if self.value_field is not None else ""

    @shown(Drawing("Attention output", "What attention adds to CLS, for each string."))
    def attn_out(self) -> Drawn:
        return self._stage("attn_out")

    @shown(Drawing("CLS after attention", "CLS's embedding plus the attention output."))
    def resid_mid(self) -> Drawn:
        return self._stage("resid_mid", self.residual_field)

    @shown(
        Drawing(
            "What the MLP reads, after the norm",
            "CLS after attention as the norm before the last MLP makes it, for each string.",
            name="normed-mlp",
        )
    )
    def mlp_reads(self) -> Drawn:
        if self.normed is None or "MLP" not in self.normed.labels["reader"]:
            return None
        return self._plane("Inputs", self.normed.at(reader="MLP", token="CLS")[-1])

    @shown(Drawing("MLP output", "What the MLP adds to CLS, for each string."))
    def mlp_out(self) -> Drawn:
        return self._stage("mlp_out")

    def _stage(self, name: str, field: LabeledArray | None = None) -> Drawn:
        if name not in self.states.labels["stage"]:
            return None
        return self._plane("States", self.states.at(stage=name, token="CLS")[-1], field)

    def _plane(self, what: str, points: Floats, field: LabeledArray | None = None) -> Drawn:
        """A point for each string, in its colour."""
        from tsc_interp.plots.vectors import plane, vector_words, view

        seen = view(points)
        figure = plane(seen, self.strings, self._styles(), field=_field_of(field))
        remark = seen.remark
        if field is not None:
            made = "Behind it what MLP and read-out make of each point: blue no, vermillion yes."
            remark = f"{made} {remark}".strip()
        return figure, f"{what}: {vector_words(self.strings, points)}.", remark

    def _styles(self) -> list[Any]:
        from tsc_interp.plots.vectors import string_styles

        return string_styles(self.labels, self.right)

    @shown(Drawing("Transformed CLS and the decision"))
    def transformed(self) -> Drawn:
        from tsc_interp.plots.colours import INK
        from tsc_interp.plots.style import add_arrow, decision_line, decision_shape
        from tsc_interp.plots.vectors import plane, vector_words, view

        points = self.states.at(stage="resid_post", token="CLS")[-1]
        direction = self.readout.array
        seen = view(points, first_axis=direction, first_name="along the read-out")
        line = [] if seen.exact else [[0.0, float(seen.points[:, 1].mean())]]
        figure = plane(seen, self.strings, self._styles(), show=line)
        if seen.exact and points.shape[1] == 2:
            figure.add_shape(decision_shape(direction))
            reach = 0.5 * float(np.abs(seen.points).max()) / (float(np.hypot(*direction)) or 1.0)
            add_arrow(figure, direction * reach, colour=INK, hover="read-out", dash="dot")
            how = "The dotted arrow is the read-out direction; on the dashed line the logit is 0."
        else:
            decision_line(figure, x=0)
            how = "The read-out direction runs across, so the dashed line is exactly logit zero."
        spoken = vector_words(self.strings, points)
        written = vector_words(["w"], direction[None, :])
        remark = f"{how} {seen.remark}".strip()
        return figure, f"Transformed CLS: {spoken}. Read-out: {written}.", remark

    @shown(
        Drawing(
            "Every token, before and after",
            "Choose a string: arrows lead from each token's embedding to what it has become.",
        )
    )
    def journeys(self) -> Drawn:
        from tsc_interp.plots.colours import token_style
        from tsc_interp.plots.series import each
        from tsc_interp.plots.style import add_arrow
        from tsc_interp.plots.vectors import choice, plane, view

        before, after = (self.states.at(stage=s) for s in ("resid_pre", "resid_post"))
        tokens = list(self.states.labels["token"])
        panels = []
        for index, string in enumerate(self.strings[:MAX_MENU]):
            present = [t for t in tokens if t == "CLS" or t in string]
            rows = [tokens.index(t) for t in present]
            seen = view(np.vstack([before[0, index][rows], after[-1, index][rows]]))
            names = [*(f"{t} before" for t in present), *(f"{t} after" for t in present)]
            styles = [token_style(t) for t in present] * 2
            panel = plane(seen, names, styles, arrows=False)
            for place, token in enumerate(present):
                end, start = seen.points[len(present) + place], seen.points[place]
                add_arrow(panel, end, start, colour=token_style(token).colour, hover=token)
            panels.append((string, panel))
        moves = np.linalg.norm(after[-1, :, 0] - before[0, :, 0], axis=1)
        spoken = each("{} {:.4f}", self.strings, moves, between=", ")
        return choice(panels), f"CLS moves by: {spoken}."

    @shown(Drawing("CLS after attention, normalised"))
    def normalised_resid_mid(self) -> Drawn:
        return self._normalised("resid_mid")

    @shown(Drawing("Transformed CLS, normalised"))
    def normalised_resid_post(self) -> Drawn:
        return self._normalised("resid_post", decided=True)

    def _normalised(self, name: str, *, decided: bool = False) -> Drawn:
        """CLS's hidden states divided by their lengths: directions only, on the unit circle."""
        if name not in self.states.labels["stage"]:
            return None
        from tsc_interp.plots.colours import INK
        from tsc_interp.plots.series import each
        from tsc_interp.plots.style import decision_shape
        from tsc_interp.plots.vectors import plane, view

        states = self.states.at(stage=name, token="CLS")[-1]
        lengths = np.linalg.norm(states, axis=1, keepdims=True)
        points = np.divide(states, lengths, where=lengths > 0, out=np.zeros_like(states))
        flat, seen = points.shape[1] == 2, view(points)
        circle = [[-1.0, -1.0], [1.0, 1.0]] if flat else []
        figure = plane(seen, self.strings, self._styles(), show=circle)
        how = "Each state divided by its length, so that only its direction is left."
        if flat:
            line = {"color": INK, "width": 1}
            figure.add_shape(type="circle", x0=-1, x1=1, y0=-1, y1=1, line=line)
        if flat and decided:
            figure.add_shape(decision_shape(self.readout.array))
            how += " The dashed line is at right angles to the read-out."
        size = float(np.linalg.norm(self.readout.array)) or 1.0
        cosines = points @ self.readout.array / size
        spoken = each("{} {:+.4f}", self.strings, cosines, between=", ")
        return figure, f"Cosines with the read-out: {spoken}.", f"{how} {seen.remark}".strip()

    # -- tables --

    @shown(Rows("Strings and logits"))
    def string_table(self) -> Table:
        final = self.states.array[-1, -1, :, 0]
        dims = final.shape[1] if final.shape[1] <= 4 else 0
        rows: list[tuple[Cell, ...]] = [
            (string, label, float(logit), "right" if right else "wrong", *map(float, state[:dims]))
            for string, label, logit, right, state in zip(
                self.strings, self.labels, self.logits.array, self.right, final, strict=True
            )
        ]
        named = [f"transformed CLS, dimension {dim}" for dim in range(dims)]
        columns = ("string", "label", "logit", "answer", *named)
        return Table.from_rows("Strings and logits", columns, rows)

    @shown(Rows("Query, key and value of each token (first layer)"))
    def value_table(self) -> LabeledArray | None:
        """`[head component token part]`."""
        if self.value is None or self.key is None or self.query is None:
            return None
        every = (self.query, self.key, self.value)
        cells = np.stack([part.array[0, 0].transpose(1, 2, 0) for part in every], -1)
        labels = {dim: self.value.labels[dim] for dim in ("head", "component", "token")}
        return LabeledArray.of(cells, **labels, part=("query", "key", "value"))

    @shown(
        Heat(
            "How large the weights are",
            "For each weight matrix, the typical (root mean square) and the largest of its "
            "entries.",
            form=".4f", name="magnitudes",
        )
    )  # fmt: skip
    def sizes(self) -> LabeledArray:
        return self.magnitudes

    # -- in sentences --

    def conclude(self) -> Iterator[Finding]:
        wrong = [s for s, right in zip(self.strings, self.right, strict=True) if not right]
        total = len(self.strings)
        text = f"All {total} strings traced are answered correctly ({self.task}?)."
        if wrong:
            logits = dict(zip(self.strings, self.logits.array.tolist(), strict=True))
            examples = [
                f"`{string}` (logit {logits[string]:.4f}, should be "
                f"{'below' if logits[string] > 0 else 'above'} 0)"
                for string in wrong[:4]
            ]
            more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
            text = (
                f"{len(wrong)} of the {total} strings traced {'is' if len(wrong) == 1 else 'are'} "
                f"answered wrongly ({self.task}?): {', '.join(examples)}{more}."
            )
        numbers = {"wrong": len(wrong), "strings": total}
        yield Finding.of(text, numbers, "failure" if wrong else "good", string=tuple(wrong))
        if self._one_number_heads() and self.value is not None:
            letters = self.value.labels["token"][1:]
            for head in self.value.labels["head"][:4]:
                values = {
                    letter: float(self.value.at(layer=0, token=letter, head=head)[0, 0])
                    for letter in letters
                }
                told = ", ".join(f"`{letter}` {value:.4f}" for letter, value in values.items())
                said = {f"value of {letter}": value for letter, value in values.items()}
                yield Finding.of(f"The values of head {head}: {told}.", said, head=head)


def _tokens(what: str, tokens: Sequence[str], points: Floats) -> Drawn:
    """A point for each token: four of three dimensions or more as an exact space to turn."""
    from tsc_interp.plots.colours import token_style
    from tsc_interp.plots.vectors import plane, space, vector_words, view

    styles, spoken = [token_style(t) for t in tokens], f"{what}: {vector_words(tokens, points)}."
    if points.shape[1] >= 3 and len(tokens) == 4:
        remark = (
            "Four points span three dimensions, so nothing is lost: every distance is exact. "
            "Drag to turn it."
        )
        return space(points, tokens, styles), spoken, remark
    seen = view(points)
    return plane(seen, tokens, styles), spoken, seen.remark


def _by_head(vectors: Mapping[str, Sequence[Floats]], styles: Mapping[str, Any], x: str) -> Drawn:
    """Each head's named vectors: on a line if they are numbers, else in a plane to choose."""
    from tsc_interp.plots.number_line import number_line
    from tsc_interp.plots.vectors import choice, plane, view

    spoken = "; ".join(
        f"head {head}: " + ", ".join(f"{n} {_digits(v)}" for n, v in zip(styles, own, strict=True))
        for head, own in list(vectors.items())[:4]
    )
    if all(len(own[0]) == 1 for own in vectors.values()):
        rows = [
            (f"head {head}", [(n, float(v[0])) for n, v in zip(styles, own, strict=True)])
            for head, own in vectors.items()
        ]
        return number_line(rows, x=x, styles=styles), f"{spoken}."
    planes = [
        (f"head {head}", plane(view(np.stack(own)), list(styles), list(styles.values())))
        for head, own in list(vectors.items())[:MAX_MENU]
    ]
    return choice(planes), f"{spoken}."


def _digits(values: Floats) -> str:
    return " ".join(f"{value:.4f}" for value in values)


def _field_of(array: LabeledArray | None) -> Any:
    if array is None:
        return None
    x, y = ([float(label) for label in array.labels[axis]] for axis in ("x", "y"))
    return x, y, array.array


@probe(
    TraceResult,
    title="What happens to a string?",
    question="What happens to a string on its way to a logit?",
    chapter="1-2",
    accepts=(),
    why_not="it follows a string of letters to the one logit of a tsc-interp classifier; "
    "attribution, along a direction, takes this model's read-out apart",
)
def trace(inputs: Inputs) -> TraceResult:
    """Each string; of a model with positions CLS only, its weights summed by letter."""
    model, strings = inputs.model, inputs.given
    config = need_classifier(model, "trace")
    if not config.has_cls:
        raise UnsupportedError("a trace follows CLS, and here the last letter reads; there is none")
    run, tokens = inputs.run(), ("CLS", *config.alphabet.letters)
    layers, dims = range(config.n_layers), range(config.d_model)
    by_string: dict[str, Any] = {"layer": layers, "string": strings}

    def at_cls(name: str) -> Floats:
        return np.stack([run.at_query(f"blocks.{i}.{name}") for i in layers])

    def everywhere(name: str) -> Floats:
        return np.stack([run.activation(f"blocks.{i}.{name}") for i in layers])

    def states(axis: str, hooks: Mapping[str, str]) -> LabeledArray | None:
        """`[layer name string token dim]`; None if the model shows none of these."""
        there = {name: hook for name, hook in hooks.items() if f"blocks.0.{hook}" in run.cache}
        if not there:
            return None
        if config.needs_order:
            every = np.stack([at_cls(hook)[:, :, None] for hook in there.values()], 1)
        else:
            every = np.stack([everywhere(hook) for hook in there.values()], 1)
        places = {"string": strings, "token": tokens[: every.shape[3]], "dim": dims}
        return LabeledArray.of(every, layer=layers, **{axis: there}, **places)

    attention: dict[str, Any] = {}
    if config.has_attention:
        heads, components = range(config.n_heads), range(config.d_head)
        ids = [0, *range(FIRST_LETTER, FIRST_LETTER + config.n_letters)]
        members = run.tokens[:, :, None] == ids
        pattern = np.stack([run.pattern(i) for i in layers])
        weights = einsum(pattern, members, "layer string head key, string key token -> "
                         "layer string head token")  # fmt: skip
        by_head = {**by_string, "head": heads}
        attention = {
            "weights": LabeledArray.of(weights, **by_head, token=tokens),
            "head_values": LabeledArray.of(at_cls("attn.hook_z"), **by_head, component=components),
            "value_field": value_field(model, run.cache),
        }
        if not config.needs_order:
            places = {**by_string, "token": tokens, "head": heads, "component": components}
            attention |= {
                name: LabeledArray.of(everywhere(f"attn.hook_{name[0]}"), **places)
                for name in ("query", "key", "value")
            }
            # A letter that k copies stand for has log k added to its score.
            present = run.multiplicity[:, None] > 0
            scores = everywhere("attn.hook_attn_scores")[:, :, :, 0]
            scores = scores - np.log(np.where(present, run.multiplicity[:, None], 1.0))
            scores = np.where(present, scores, np.nan)
            attention["scores"] = LabeledArray.of(scores, **by_head, token=tokens)
    notes = {
        "No head is drawn: this model has no attention.": not config.has_attention,
        "Queries, keys, values and scores are not drawn: this model sees order, so equal letters "
        "differ by where they stand. Weights are sums over a letter's positions.":
        config.needs_order,
        f"With {config.n_layers} layers, what a letter is in a later layer depends on the whole "
        "string; keys and values are drawn for the first layer only.": config.n_layers > 1,
    }  # fmt: skip
    sizes = {
        name: (float(weight.square().mean().sqrt()), float(weight.abs().max()))
        for name, weight in model.state_dict().items()
    }
    stream = states("stage", {stage: f"hook_{stage}" for stage in STAGES})
    assert stream is not None
    neurons = None
    if config.has_mlp:
        post = at_cls("mlp.hook_post")
        neurons = LabeledArray.of(post, **by_string, neuron=range(config.d_mlp))
    return TraceResult(
        not_applicable=that_hold(notes),
        task=config.question,
        logits=LabeledArray.of(run.logits.numpy(), string=strings),
        labels=tuple(config.classes(strings).tolist()),
        embeddings=LabeledArray.of(
            model.W_E.detach().numpy(), token=config.alphabet.token_names, dim=dims
        ),
        readout=LabeledArray.of(model.W_U.detach().numpy()[:, 0], dim=dims),
        states=stream,
        normed=states("reader", {"attention": "ln1.hook_normalized", "MLP": "ln2.hook_normalized"}),
        neurons=neurons,
        magnitudes=LabeledArray.of(
            list(sizes.values()), weight=sizes, statistic=("root mean square", "largest")
        ),
        residual_field=residual_field(model, run.cache),
        **attention,
    )


# -- the logit over a plane, measured by writing points of a grid into a hook at CLS ---------------


_GRID = 41


def value_field(model: Classifier, cache: Any) -> LabeledArray | None:
    """The logit where the two one-dimensional heads of a one-layer model have values (x, y)."""
    config = model.config
    if (config.n_layers, config.n_heads, config.d_head) != (1, 2, 1) or config.needs_order:
        return None
    values = cache["blocks.0.attn.hook_v"][..., 0].double().flatten(0, -2).numpy()
    return _field(model, "blocks.0.attn.hook_z", values, lambda xy: xy[:, :, None])


def residual_field(model: Classifier, cache: Any) -> LabeledArray | None:
    """The logit where CLS's residual after the last attention is (x, y)."""
    config = model.config
    last = f"blocks.{config.n_layers - 1}.hook_resid_mid"
    if config.d_model != 2 or config.needs_order or last not in cache:
        return None
    return _field(model, last, cache[last][:, 0].double().numpy(), lambda xy: xy)


def _field(
    model: Classifier,
    hook_name: str,
    seen: NDArray[np.float64],
    shape: Callable[[Any], Any],
) -> LabeledArray:
    """On a square around the origin and all points that were seen, with room around them."""
    import torch

    low, high = np.minimum(seen.min(axis=0), 0.0), np.maximum(seen.max(axis=0), 0.0)
    half = 0.8 * float((high - low).max()) or 1.0
    x, y = (np.linspace(m - half, m + half, _GRID) for m in (low + high) / 2)
    points = torch.tensor(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), dtype=torch.float32)

    def write(activation: Any, hook: Any) -> Any:
        changed = activation.clone()
        changed[:, 0] = shape(points).to(activation.dtype)
        return changed

    one_letter = np.zeros((len(points), model.config.n_letters), dtype=np.int64)
    one_letter[:, 0] = 1
    with torch.no_grad():
        logits = model.run_with_hooks(model.counts(one_letter), fwd_hooks=[(hook_name, write)])
    grid = logits.double().numpy().reshape(_GRID, _GRID)
    return LabeledArray.of(grid, y=[f"{v:.6g}" for v in y], x=[f"{v:.6g}" for v in x])
