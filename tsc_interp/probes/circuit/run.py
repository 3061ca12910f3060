"""What is the smallest part of the model that does what the model does?

The parts are edges (the input that a neuron or the logit receives from the embedding, a head or a
neuron), nodes (heads and neurons), or values (the value that a head gives to a letter, and
neurons). Parts outside the circuit are set to zero, or to their mean over stated strings. With up
to 12 parts all choices (at most 4,096) are tried; with more, parts are removed one at a time, the
one that changes the fewest answers first.

Faithfulness is counted, not sampled: the circuit is a classifier of its own
(`interventions/weights.py`), so the strings up to `max_length` that it answers differently are
counted exactly, and the first one of all is searched for and proved (`tsc.diff`). The result is the
front of size against exact disagreement.

Three cheaper rankings of parts are compared with it: the effect of removing one part alone, the
gradient of the logit (attribution), and thresholds as in ACDC (from the output backwards, a part is
removed if that moves the logits by less than the threshold). Each is scored by ROC AUC: does it
rank the circuit's parts above the others?

That is for one layer without norms and positions. The circuits of all other models, and of any
TransformerLens model, are searched by hooks and measured on the given rows (`rows.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from scipy.special import ndtr

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.interventions.parts import Edge
from tsc_interp.interventions.weights import edit
from tsc_interp.probes.circuit.choosing import (
    Graph,
    Ranking,
    auc,
    by_threshold,
    chosen,
)
from tsc_interp.probes.circuit.result import Choice, Circuit, CircuitResult
from tsc_interp.probes.circuit.rows import run_rows
from tsc_interp.probes.circuit.wiring import Array, Wiring, wiring
from tsc_interp.probes.inputs import classifier_config
from tsc_interp.results.base import LabeledArray
from tsc_interp.strings import Counts, as_strings

METHODS = ("removed alone", "attribution", "threshold")
_MOST_FRONT = 24
_RANKED_VECTORS = 25_000
_NUMBERS = 4_000_000
"""Terms of choices that are ranked at once."""
_SECONDS = 5.0
"""For proofs that the circuit and the model agree: five seconds' worth of work."""
_BOXES = 5_000
"""For the search of each set of letters: many models need a few hundred."""


def run(
    model: Any,
    strings: Sequence[str],
    *,
    graph: str = "edges",
    fill: str = "zero",
    max_length: int = 50,
    progress: Callable[[str], None] = lambda doing: None,
    **of_rows: Any,
) -> CircuitResult:
    """`fill` is `zero`, or `mean`: over the given strings.

    Models beyond one layer without norms and positions, and any TransformerLens model on token ids:
    `corrupted` and `query` as in `rows.py`, edges only, measured on the given rows.
    """
    _checked(graph, fill)
    beyond = _beyond(model)
    if beyond:
        if graph != "edges":
            raise UnsupportedError(
                f"graph={graph!r}: this model {beyond}, so only edges are searched"
            )
        return run_rows(model, strings, fill=fill, progress=progress, **of_rows)
    if of_rows:
        raise UsageError(f"{', '.join(of_rows)}: for models whose circuit is measured on rows")
    checkpoint: Checkpoint = model.to_checkpoint()
    texts = [checkpoint.config.alphabet.canonical(text) for text in as_strings(strings)]
    counts = _vectors(checkpoint.config.n_letters, max_length)
    wires = wiring(checkpoint, counts, by_letter=graph == "values")
    usual = None
    if fill == "mean":
        usual = wiring(checkpoint, checkpoint.config.alphabet.count_matrix(texts))
    parts = _graph(wires, graph, with_embedding=fill == "zero")
    ranking = Ranking(
        parts,
        lambda kept: wires.logits(parts.kept_edges(kept), usual),
        _NUMBERS // (len(counts) * (wires.neurons + 1)),
    )
    choices, how = chosen(ranking, progress)
    changes = {"zero": "zero", "mean": f"mean({', '.join(texts)})"}[fill]
    front = _counted(checkpoint, parts, choices, changes, max_length, progress)
    smallest = next((kept for choice, kept in reversed(front) if choice.vectors == 0), None)
    circuit = None if smallest is None else _proved(checkpoint, parts, smallest, changes, progress)
    # From the output backwards: what the logit receives first, then what neurons receive.
    backwards = np.argsort([-np.flatnonzero(edges)[-1] for edges in parts.edges], kind="stable")
    by_gradient = _attribution(wires, usual, parts)
    scores = np.stack([ranking.effects(), by_gradient, by_threshold(ranking, backwards.tolist())])
    inside = np.ones(len(parts.parts), bool) if smallest is None else smallest
    total = sum(checkpoint.config.n_letters**n for n in range(1, max_length + 1))
    return CircuitResult(
        graph=graph,
        fill="zero" if fill == "zero" else f"the mean over {', '.join(texts)}",
        search=how,
        max_length=max_length,
        strings=str(total),
        vectors=comb(max_length + checkpoint.config.n_letters, checkpoint.config.n_letters) - 1,
        parts=parts.parts,
        front=tuple(choice for choice, _ in front),
        circuit=circuit,
        scores=LabeledArray.of(scores, method=METHODS, part=parts.parts),
        auc=LabeledArray.of(np.array([auc(row, inside) for row in scores]), method=METHODS),
        effects=LabeledArray.of(scores[0], part=parts.parts),
    )


def _checked(graph: str, fill: str) -> None:
    if graph not in ("edges", "nodes", "values") or fill not in ("zero", "mean"):
        raise UsageError("graph is edges, nodes or values, and fill is zero or mean")
    if graph == "values" and fill == "mean":
        raise UsageError(
            "a letter's value is the same in every string, so it is its own mean: fill='zero', or "
            "graph='nodes'"
        )


def _beyond(model: Any) -> str:
    """Why a model's circuit is measured on rows instead of counted exactly; empty if it is not."""
    config = classifier_config(model)
    if config is None:
        return "is not one of our classifiers"
    if config.beyond_report:
        return f"has {', '.join(config.beyond_report)}"
    if config.n_layers > 1 or config.has_norm or config.needs_order:
        return "has several layers, norms or positions"
    if not config.has_attention:
        raise UnsupportedError("this model has no attention, so there is no circuit to search")
    return ""


def _vectors(letters: int, max_length: int) -> Counts:
    """Every count vector up to the length, or up to the longest that stays affordable."""
    longest = max_length
    while longest > 1 and comb(longest + letters, letters) > _RANKED_VECTORS:  # 50 for 3 letters
        longest -= 1
    # Bars and stars, in the order of the alphabet: counts are the gaps between the bars.
    bars = np.array(list(combinations(range(longest + letters), letters)), dtype=np.int64)
    return (np.diff(bars, axis=1, prepend=-1) - 1)[1:]


def _graph(wires: Wiring, kind: str, *, with_embedding: bool) -> Graph:
    """The embedding of CLS is its own mean, so it is no part where parts are set to their mean."""
    pairs = wires.pairs()
    if kind == "edges":
        chosen = [i for i, (w, _) in enumerate(pairs) if with_embedding or w.kind != "embed"]
        names = tuple(str(Edge(*pairs[i])) for i in chosen)
        return Graph(names, np.eye(len(pairs), dtype=bool)[chosen])
    nodes = list(dict.fromkeys(writer for writer, _ in pairs if writer.kind != "embed"))
    touched = np.array([[writer == node for writer, _ in pairs] for node in nodes])
    return Graph(tuple(map(str, nodes)), touched)


def _circuit(checkpoint: Checkpoint, graph: Graph, kept: Any, change: str) -> Checkpoint:
    """The model with every part changed that is not kept."""
    changes = [f"{part}={change}" for part in graph.named(~kept)]
    return edit(checkpoint, changes) if changes else checkpoint


def _counted(
    checkpoint: Checkpoint,
    graph: Graph,
    choices: list[Any],
    change: str,
    max_length: int,
    progress: Callable[[str], None],
) -> list[tuple[Choice, Any]]:
    """Exactly, in how many strings each choice differs; only those better than any smaller one."""
    from tsc_interp.verification.bounds.supports import Supports
    from tsc_interp.verification.counting.differences import compare

    front: list[tuple[Choice, Any]] = []
    least: int | None = None
    # The whole model is the last resort: ranked on shorter strings, none may be without error.
    tried = [*reversed(choices[:_MOST_FRONT]), np.ones(len(graph.parts), dtype=bool)]
    for number, kept in enumerate(tried, start=1):
        progress(f"counting circuit {number} of {len(tried)}")
        circuit = Supports(_circuit(checkpoint, graph, kept, change))
        differing = compare(Supports(checkpoint), circuit, max_length)
        if differing.undecided:
            continue  # a logit too close to zero for any precision: nothing is said of this one
        if least is not None and differing.vectors >= least:
            continue
        least = differing.vectors
        strings = [differing.shortest_first_only, differing.shortest_second_only]
        alphabet = checkpoint.config.alphabet
        known = [s for s in strings if s is not None]
        first = min(known, key=lambda s: (int(alphabet.counts(s).sum()), s), default=None)
        names, many = graph.named(kept), str(differing.differing)
        choice = Choice(size=len(names), kept=names, vectors=least, differing=many, first=first)
        front.append((choice, kept))
        if least == 0:
            break
    return front[::-1]


def _proved(
    checkpoint: Checkpoint, graph: Graph, kept: Any, change: str, progress: Callable[[str], None]
) -> Circuit:
    from tsc_interp.verification.comparison import diff
    from tsc_interp.verification.horizons import horizon

    progress("proving where the circuit and the model agree")
    smaller = _circuit(checkpoint, graph, kept, change)
    compared = diff(checkpoint, smaller, max_length=10, boxes=_BOXES, seconds=_SECONDS)
    exact = compared.proved.first_difference is not None
    return Circuit(
        kept=graph.named(kept),
        removed=graph.named(~kept),
        agree_through=compared.proved.agree_through,
        first_difference=compared.shortest if exact else None,
        statements=compared.proved.sentences,
        verified_length=horizon(smaller, boxes=_BOXES, prove=False).verified_length,
        model_verified_length=horizon(checkpoint, boxes=_BOXES, prove=False).verified_length,
        weight_hash=smaller.weight_hash(),
    )


def _attribution(wires: Wiring, fill: Wiring | None, graph: Graph) -> Array:
    """`[part]`: |Σ over its edges of ∂logit/∂term · (fill - term)|, averaged over strings."""
    neurons = wires.neurons
    total = wires.heard.sum(axis=0)
    x = total[:, :neurons]
    density = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    slope = np.concatenate([(ndtr(x) + x * density) * wires.outputs, np.ones((len(x), 1))], axis=1)
    usual = np.zeros((len(wires.writers), neurons + 1))
    resting = np.zeros(neurons)
    if fill is not None:
        usual = fill.heard.mean(axis=1)
        quiet = fill.heard.sum(axis=0)[:, :neurons]
        resting = (quiet * ndtr(quiet)).mean(axis=0)
    into = (usual[:, None] - wires.heard) * slope[None]  # [writer vector reader]
    out = (resting - x * ndtr(x)) * wires.outputs
    per_edge = np.concatenate([into.transpose(2, 0, 1).reshape(-1, len(x)), out.T])
    return np.asarray(np.abs(graph.edges.astype(float) @ per_edge).mean(axis=1))
