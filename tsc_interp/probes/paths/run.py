"""Along which edges does the difference between two strings travel? Path patching. Chapter 3.

An edge is the input that one part of the model receives from another: a head from a letter, a
neuron from a head, the logit from a head or a neuron, or a head's query, key or value from heads
and neurons of earlier layers. The model reads the corrupted string, except that along one edge the
reader receives the source's output from the clean run. All other readers receive the source
unchanged, and everything after the reader is recomputed. The effect, as for `patching`,

    (patched - corrupted) / (clean - corrupted)     of the logit

is 1 where this edge alone restores the clean string's logit and 0 where it carries nothing.

For comparison, attribution patching (which larger models have to rely on) estimates the effect: the
gradient of the corrupted run's logit at the reader's input, times the difference (clean -
corrupted) of that input. The result shows its error: signed, the largest, and the rank correlation
(Spearman's). The estimate is exact where everything after the reader is linear, as from a neuron to
the logit.

**By letter** (models without positions) strings differ in how often each letter occurs and in
nothing else, so embeddings carry no difference; letter → head is the letter's count in that head:
its scores for the letter, which hold the logarithm of the count, come from the clean run. Their
estimate is taken after the softmax, because the logarithm of no letters is minus infinity.
**By position** the strings must be of one length; letter → head is the embedding at one place as
that head's key or value receives it.

At most 512 edges are measured. If there are more, those with the largest estimates are, and the
result says how many are left out. With norms, the reader's own copy of the residual stream is
changed before its norm, and the norm is computed again.

Reads `hook_embed`, `hook_z`, `mlp.hook_post` and, with norms, `hook_resid_pre` and
`hook_resid_mid`; replaces inputs at `hook_q`, `hook_k`, `hook_v`, `hook_attn_scores`,
`mlp.hook_pre` and the last `hook_resid_post`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from tsc_interp.errors import UnsupportedError
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Edge, Part, Place, edges
from tsc_interp.interventions.singly import expected, singly
from tsc_interp.probes.inputs import as_array
from tsc_interp.probes.pairs import PairOptions, PairRun, pair_runs
from tsc_interp.probes.paths.result import Node, PathEdge, Paths, PathsResult

if TYPE_CHECKING:
    from torch import Tensor

MOST_MEASURED = 512
MOST_EDGES = 20_000
SAME = 1e-5
"""Two float32 activations that differ by less are the same."""


def run(model: Any, strings: Sequence[str] | Tensor, **options: Unpack[PairOptions]) -> PathsResult:
    """`pairs=[(clean, corrupted), ...]`; without, as the patching probe finds them.

    On any TransformerLens model: token ids `[batch pos]` for strings, pairs of rows,
    and the logit of token `answer` at position `query`.
    """
    runs = pair_runs(model, strings, **options)
    return PathsResult(
        by=runs[0].by,
        n_layers=model.cfg.n_layers,
        pairs=tuple(_paths(run) for run in runs),
    )


def _paths(run: PairRun) -> Paths:
    places = list(_places(run))
    if len(places) > MOST_EDGES:
        raise UnsupportedError(
            f"this model has {len(places):,} edges; up to {MOST_EDGES:,} can be estimated"
        )
    wanted = [Intervention(place, run.patch) for place in places]
    scale = run.pair.clean_logit - run.pair.corrupted_logit
    estimates = as_array(expected(run.model, run.corrupted, wanted, metric=run.metric)) / scale
    order = np.argsort(-np.abs(estimates), kind="stable")
    kept, rest = order[:MOST_MEASURED], order[MOST_MEASURED:]
    effects = singly(run.model, run.corrupted, [wanted[k] for k in kept], metric=run.metric)
    shares = as_array(effects.changes) / scale
    moved = as_array(effects.moved) > SAME
    measured = [
        _edge(run, wanted[k], float(share), float(estimates[k]))
        for k, share, differs in zip(kept.tolist(), shares, moved, strict=True)
        if differs
    ]
    measured.sort(key=lambda edge: -abs(edge.effect))
    exact, estimated, ranks = shares[moved], estimates[kept][moved], None
    if len(exact) >= 3 and np.ptp(exact) and np.ptp(estimated):
        from scipy.stats import spearmanr

        ranks = float(spearmanr(exact, estimated).statistic)
    return Paths(
        pair=run.pair,
        edges=tuple(measured),
        same=int((~moved).sum()),
        left_out=len(rest),
        left_out_estimate=float(np.abs(estimates[rest]).max(initial=0.0)),
        rank_correlation=ranks,
    )


def _places(run: PairRun) -> Iterator[Place]:
    """Every edge that can carry a difference, and letters into heads."""
    cfg = run.model.cfg
    if run.by == "letter":
        letters = [p for p, name in enumerate(run.pair.positions) if name != "CLS"]
        for layer in range(cfg.n_layers):
            for head in range(cfg.n_heads):
                yield from (Part("score", layer, head, seen=letter) for letter in letters)
    for edge in edges(cfg):
        if edge.source.kind != "embed":
            yield edge
        elif run.by == "position" and edge.target.layer == 0 and _of_a_head(edge.target):
            target = edge.target
            for at in run.differ:
                reader = Part(target.kind, target.layer, target.index, position=at)
                yield Edge(edge.source, reader)
        elif run.by == "position":
            yield edge


def _of_a_head(target: Part) -> bool:
    return target.kind in ("query", "key", "value")


def _edge(run: PairRun, wanted: Intervention, effect: float, estimate: float) -> PathEdge:
    place, deep = wanted.place, run.model.cfg.n_layers > 1
    last = 2 * run.model.cfg.n_layers + 1
    if isinstance(place, Part):  # a letter's count in a head
        assert place.seen is not None
        name = run.pair.positions[place.seen]
        source = Node(name=name, short=name, stage=0)
        target, through = _node(Part("head", place.layer, place.index), deep, last), "count"
    else:
        assert isinstance(place, Edge)
        at = place.target.position
        if place.source.kind == "embed":
            name = "embedding" if at is None else run.pair.positions[at]
            source = Node(name=name, short="embed" if at is None else name, stage=0)
        else:
            source = _node(place.source, deep, last)
        target = _node(place.target, deep, last)
        through = place.target.kind if _of_a_head(place.target) else ""
    return PathEdge(
        source=source,
        target=target,
        through=through,
        notation=str(wanted),
        effect=effect,
        estimate=estimate,
    )


def _node(part: Part, deep: bool, last: int) -> Node:
    if part.kind == "logit":
        return Node(name="logit", short="logit", stage=last)
    word, column = ("neuron", 2) if part.kind == "neuron" else ("head", 1)
    where = f"layer {part.layer} " if deep else ""
    short = f"{word[0]}{f'{part.layer}.' if deep else ''}{part.index}"
    return Node(name=f"{where}{word} {part.index}", short=short, stage=2 * part.layer + column)
