"""What a trace records: every named activation on the way to each logit."""

from __future__ import annotations

from typing import ClassVar

from tsc_interp.results.base import Cell, LabeledArray, ProbeResult, Table


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
        return tuple(
            (logit > 0) == bool(label)
            for logit, label in zip(self.logits.array, self.labels, strict=True)
        )

    def tables(self) -> tuple[Table, ...]:
        return (
            _string_table(self),
            *_weight_tables(self),
            *_value_tables(self),
            _sizes(self),
        )


def _string_table(result: TraceResult) -> Table:
    final = result.states.array[-1, -1, :, 0]
    shown = final.shape[1] if final.shape[1] <= 4 else 0
    rows: list[tuple[Cell, ...]] = [
        (string, label, float(logit), "right" if right else "wrong", *map(float, state[:shown]))
        for string, label, logit, right, state in zip(
            result.strings, result.labels, result.logits.array, result.right, final, strict=True
        )
    ]
    dims = [f"transformed CLS, dimension {dim}" for dim in range(shown)]
    return Table(
        title="Strings and logits",
        columns=("string", "label", "logit", "answer", *dims),
        rows=tuple(rows),
    )


def _weight_tables(result: TraceResult) -> list[Table]:
    if result.weights is None:
        return []
    labels = result.weights.labels
    tokens = [t for t in labels["token"] if t != "CLS" or result.weights.at(token=t).any()]
    rows: list[tuple[Cell, ...]] = [
        (
            string,
            int(layer),
            int(head),
            *(
                float(result.weights.at(layer=layer, string=string, head=head, token=token))
                for token in tokens
            ),
        )
        for string in labels["string"]
        for layer in labels["layer"]
        for head in labels["head"]
    ]
    return [
        Table(
            title="CLS attention weight by letter (all copies together)",
            columns=("string", "layer", "head", *tokens),
            rows=tuple(rows),
        )
    ]


def _value_tables(result: TraceResult) -> list[Table]:
    if result.value is None or result.key is None or result.query is None:
        return []
    labels = result.value.labels
    rows: list[tuple[Cell, ...]] = [
        (
            int(head),
            int(component),
            token,
            *(
                float(part.at(layer=0, token=token, head=head, component=component)[0])
                for part in (result.query, result.key, result.value)
            ),
        )
        for head in labels["head"]
        for component in labels["component"]
        for token in labels["token"]
    ]
    return [
        Table(
            title="Query, key and value of each token (first layer)",
            columns=("head", "component", "token", "query", "key", "value"),
            rows=tuple(rows),
        )
    ]


def _sizes(result: TraceResult) -> Table:
    rows = zip(result.magnitudes.labels["weight"], result.magnitudes.array.tolist(), strict=True)
    return Table(
        title="Sizes of the weights",
        columns=("weight", "root mean square", "largest"),
        rows=tuple((name, *sizes) for name, sizes in rows),
    )
