"""Figures of the circuit probe: the front, the circuit as a graph, the rankings."""

from __future__ import annotations

from math import log10

import numpy as np

from tsc_interp.interventions.parts import Edge, Part, place
from tsc_interp.plots.series import add_nodes, add_series, name_rows
from tsc_interp.plots.style import INK, MUTED, WRONG, Figure, new_figure
from tsc_interp.probes.circuit.result import CircuitResult, listed

_NONE = 0.2
"""Where none stands on a logarithmic axis."""
_TEXT_AT = {"head": "middle left", "embed": "bottom center"}
_TEXT_AT_VALUES = {"value": "middle left"}
_COLUMNS = {"embed": 0.0, "value": 0.2, "head": 1.35, "neuron": 2.2, "logit": 3.0}


def figures(result: CircuitResult) -> list[Figure]:
    drawn = [_front(result)]
    if result.circuit is not None:
        drawn.append(_graph(result))
    return [*drawn, _ranking(result)]


def _front(result: CircuitResult) -> Figure:
    """Size against what is answered differently; none at all has a row of its own."""
    counts = [choice.vectors for choice in result.front]
    most = max([*counts, 10])
    figure = new_figure(
        f"{result.kinds} kept", f"{result.counted} answered differently", height=380
    )
    words = [
        f"{choice.size} {result.kinds}: {choice.vectors:,} {result.counted}"
        + (f", first {choice.first}" if choice.first else "")
        for choice in result.front
    ]
    add_series(figure, [choice.size for choice in result.front],
               [count or _NONE for count in counts], "", "%{text}<extra></extra>",
               symbol=["x" if count else "circle" for count in counts], size=11,
               marker={"color": [WRONG if count else MUTED[5] for count in counts]}, text=words,
               cliponaxis=False)  # fmt: skip
    figure.update_traces(line_shape="vh")
    add_series(figure, [len(result.parts)], [_NONE], "", "the whole model", mode="markers",
               colour=INK, symbol="circle-open", size=11, cliponaxis=False)  # fmt: skip
    powers = range(int(log10(most)) + 1)
    figure.update_yaxes(
        type="log",
        tickvals=[_NONE, *(10**k for k in powers)],
        ticktext=["none", *(f"{10**k:,}" for k in powers)],
        range=[log10(_NONE) - 0.3, log10(most) + 0.3],
    )
    figure.update_xaxes(range=[-0.5, len(result.parts) + 0.5])
    spoken = "; ".join(f"{choice.size}: {choice.vectors:,}" for choice in result.front)
    return Figure(
        "front",
        "How small can it be?",
        figure,
        f"Each mark is the best part of the model of its size ({result.search}). Up is worse: how "
        f"many of the {result.vectors:,} {result.over} it answers differently than the model"
        f"{'' if result.rows else ', an exact number'}; a circle is none at all, and the open one "
        "is the whole model.",
        f"{result.counted.capitalize()} answered differently, by number of {result.kinds} kept: "
        f"{spoken}.",
    )


def _graph(result: CircuitResult) -> Figure:
    """Embedding, heads, neurons and logit from left to right; what is kept is drawn full."""
    assert result.circuit is not None
    kept = set(result.circuit.kept)
    wires = _wires(result)
    nodes = list(dict.fromkeys(_node(part) for wire in wires for part in wire))
    columns = _columns(nodes)
    spots = {
        node: (x, 1.0 - (row + 0.5) / len(column))
        for x, column in columns.items()
        for row, node in enumerate(column)
    }
    figure = new_figure(height=max(300, 40 * max(*map(len, columns.values()), 6)))
    effects = dict(zip(result.parts, result.effects.array.tolist(), strict=True))
    largest = max(effects.values(), default=0.0) or 1.0
    # A head that is no part itself stays if one of its values does; the logit always does.
    full = {part for wire in wires for part in wire if part.kind == "logit" or str(part) in kept}
    full |= {Part("head", part.layer, part.index) for part in full if part.kind == "value"}
    for wire in wires:
        name = f"{wire[0]}->{wire[1]}"
        inside = name in kept if result.graph == "edges" else full.issuperset(wire)
        if result.rows and not inside:
            continue  # of a deep model there are hundreds
        (x0, y0), (x1, y1) = spots[_node(wire[0])], spots[_node(wire[1])]
        effect = effects.get(str(wire[0]) if wire[0].kind == "value" else name, largest / 3)
        width = 1.0 + 5.0 * effect / largest
        add_series(figure, [x0, (x0 + x1) / 2, x1], [y0, (y0 + y1) / 2, y1], "",
                   f"{name}: {'kept' if inside else 'not needed'}<extra></extra>", mode="lines",
                   colour=MUTED[2] if inside else INK, dash="solid" if inside else "dot",
                   width=width if inside else 1, opacity=0.9 if inside else 0.45)  # fmt: skip
    text_at = _TEXT_AT_VALUES if result.graph == "values" else _TEXT_AT
    add_nodes(figure, [spots[node] for node in nodes], [f"{_short(node)} " for node in nodes],
              [text_at.get(node.kind, "top center") for node in nodes])  # fmt: skip
    figure.update_layout(xaxis_range=[-0.3, 3.3], yaxis_range=[-0.15, 1.2])
    gone = listed(result.circuit.removed) or "nothing"
    by_value = result.graph == "values"
    first = "each letter's value in each head" if by_value else "embedding of CLS"
    return Figure(
        "graph",
        "The circuit",
        figure,
        "Full lines are the circuit, as wide as the logit moves when one alone is removed. "
        + (
            "Edges that are not needed are not drawn. From left to right: embedding, then heads "
            "and MLP of each layer, logit."
            if result.rows
            else f"Dotted lines are not needed. From left to right: {first}, heads, neurons, logit."
        ),
        f"Kept: {listed(result.circuit.kept)}. Not needed: {gone}.",
    )


def _wires(result: CircuitResult) -> list[tuple[Part, Part]]:
    """(from, to): the edges themselves; for other graphs, how their parts are wired."""
    parts = [place(part) for part in result.parts]
    if result.graph == "edges":
        return [(part.source, part.target) for part in parts if isinstance(part, Edge)]
    nodes = [part for part in parts if isinstance(part, Part)]
    values = [part for part in nodes if part.kind == "value"]
    heads = [part for part in nodes if part.kind == "head"]
    heads += dict.fromkeys(Part("head", part.layer, part.index) for part in values)
    neurons = [part for part in nodes if part.kind == "neuron"]
    into = [(value, Part("head", value.layer, value.index)) for value in values]
    out = [(head, target) for head in heads for target in [*neurons, Part("logit")]]
    return [*into, *out, *((neuron, Part("logit")) for neuron in neurons)]


def _node(part: Part) -> Part:
    """The head that a query, key or value belongs to; anything else is a node itself."""
    in_head = part.kind in ("query", "key") or (part.kind == "value" and part.letter is None)
    return Part("head", part.layer, part.index) if in_head else part


def _columns(nodes: list[Part]) -> dict[float, list[Part]]:
    """Nodes by where they stand from left to right: one layer has a column for each kind."""
    deep = any(node.layer or node.kind == "mlp" for node in nodes)
    last = 2 * max(node.layer for node in nodes) + 3
    columns: dict[float, list[Part]] = {}
    for node in nodes:
        at = {"embed": 0, "logit": last}.get(node.kind, 2 * node.layer + 1 + (node.kind == "mlp"))
        x = 3.0 * at / last if deep else _COLUMNS[node.kind]
        columns.setdefault(x, []).append(node)
    return columns


def _short(node: Part) -> str:
    layer = f"{node.layer}." if node.layer else ""
    numbered = {"head": f"head {layer}{node.index}", "neuron": f"neuron {node.index}"}
    numbered["mlp"] = f"MLP {node.layer}"
    return (node.letter or numbered.get(node.kind, node.kind)).strip()


def _ranking(result: CircuitResult) -> Figure:
    """Every method's scores, scaled to its largest, the circuit's parts marked."""
    inside = set(result.circuit.kept) if result.circuit else set()
    scores = result.scores.array
    largest = np.where(scores.max(axis=1) > 0, scores.max(axis=1), 1.0)
    order = np.argsort(-scores[0])[:24]
    figure = new_figure("score, of the method's largest", height=130 + 24 * len(order), legend=True)
    for row, method in enumerate(result.scores.labels["method"]):
        add_series(figure, scores[row, order] / largest[row], list(range(len(order))), method,
                   f"{method}: %{{x:.3f}}<extra></extra>", mode="markers", place=row, size=10,
                   symbol=("circle", "diamond", "square")[row % 3])  # fmt: skip
    names = [result.parts[i] for i in order]
    name_rows(figure, [f"<b>{name}</b>" if name in inside else name for name in names])
    figure.update_layout(margin_t=40)
    scored = zip(result.auc.labels["method"], result.auc.array.tolist(), strict=True)
    ranked = ", ".join(f"{method} {value:.2f}" for method, value in scored)
    first = f"{names[0]} moves the logit most when removed alone, by {scores[0, order[0]]:.3f}"
    return Figure(
        "ranking",
        "Do cheaper methods find it?",
        figure,
        "How much each method thinks of each part, the most important on top. Bold parts are in "
        "the circuit: a good ranking has them above the others.",
        f"{first}. ROC AUC against the circuit: {ranked}.",
    )
