"""What a trace records: every named activation on the way to each logit."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

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
        sizes = Table.of("Sizes of the weights", self.magnitudes, "weight")
        return (_string_table(self), *_weight_tables(self), *_value_tables(self), sizes)


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
    return Table.from_rows(
        "Strings and logits", ("string", "label", "logit", "answer", *dims), rows
    )


def _weight_tables(result: TraceResult) -> list[Table]:
    if result.weights is None:
        return []
    labels, weights = result.weights.labels, result.weights.array
    tokens = [t for t in labels["token"] if t != "CLS" or result.weights.at(token=t).any()]
    kept = [labels["token"].index(token) for token in tokens]
    rows = [
        (string, int(layer), int(head), *weights[i, s, h, kept].tolist())
        for s, string in enumerate(labels["string"])
        for i, layer in enumerate(labels["layer"])
        for h, head in enumerate(labels["head"])
    ]
    title = "CLS attention weight by letter (all copies together)"
    return [Table.from_rows(title, ("string", "layer", "head", *tokens), rows)]


def _value_tables(result: TraceResult) -> list[Table]:
    if result.value is None or result.key is None or result.query is None:
        return []
    labels = result.value.labels
    parts = np.stack([part.array[0, 0] for part in (result.query, result.key, result.value)], -1)
    rows = [
        (int(head), int(component), token, *parts[t, h, c].tolist())
        for h, head in enumerate(labels["head"])
        for c, component in enumerate(labels["component"])
        for t, token in enumerate(labels["token"])
    ]
    columns = ("head", "component", "token", "query", "key", "value")
    return [Table.from_rows("Query, key and value of each token (first layer)", columns, rows)]
