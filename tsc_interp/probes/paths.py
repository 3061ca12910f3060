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
corrupted) of that input. The result shows its error. The estimate is exact where everything after
the reader is linear, as from a neuron to the logit.

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

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Edge, Part, Place, edges
from tsc_interp.probes.inputs import Inputs, as_array
from tsc_interp.probes.pairs import By, Pair, PairRun, Pairs, pair_runs
from tsc_interp.probes.probe import probe
from tsc_interp.probes.wording import SCALE, part_name, short, stage
from tsc_interp.results.base import Cell, Finding, ProbeResult, Record, Shown, Table
from tsc_interp.results.views import Drawing, Each, Rows, shown

MOST_MEASURED = 512
MOST_EDGES = 20_000
MOST_ROWS = 40
MOST_DRAWN = 40
LEAST_DRAWN = 0.01
SAME = 1e-5
"""Two float32 activations that differ by less are the same."""


class PathEdge(Record):
    source: str
    """A letter (or a position), a head or a neuron."""
    target: str
    """A head, a neuron or the logit."""
    stages: tuple[int, int]
    """The columns of the two in the graph."""
    through: str
    """What of the target receives it: `count`, `query`, `key`, `value`, or empty."""
    notation: str
    """The intervention that measures it."""
    effect: float
    """(patched - corrupted) / (clean - corrupted), the edge alone patched from the clean run."""
    estimate: float
    """The same by attribution patching: gradient times (clean - corrupted)."""

    @property
    def name(self) -> str:
        return f"{self.source} → {self.target}{self.through and f' ({self.through})'}"


class Paths(Shown):
    """One pair, and what each edge carries from its clean into its corrupted run."""

    pair: Pair
    edges: tuple[PathEdge, ...]
    """Those measured, the largest effect first."""
    same: int
    """Edges whose source is the same in both runs, so that they carry nothing."""
    left_out: int = 0
    """Edges that were only estimated, because there are many."""
    left_out_estimate: float = 0.0
    """The largest estimate among them."""

    @property
    def effects(self) -> NDArray[np.float64]:
        return np.array([edge.effect for edge in self.edges])

    @property
    def estimates(self) -> NDArray[np.float64]:
        return np.array([edge.estimate for edge in self.edges])

    @property
    def scale(self) -> str:
        return self.pair.scale()

    @shown(
        Drawing(
            "Which edges carry the difference: {result.pair.clean} into {result.pair.corrupted}",
            "{result.scale} A line's width is the effect of that edge alone; vermillion goes "
            "towards the clean logit, dashed blue away from it. From a letter to a head: its count "
            "there, or by position its key or value.",
        )
    )
    def graph(self) -> tuple[Any, str, str]:
        from tsc_interp.plots.graph import Wire, graph

        drawn = [edge for edge in self.edges if abs(edge.effect) >= LEAST_DRAWN][:MOST_DRAWN]
        # Of a small model also the parts that carry nothing: that is half of the story.
        every = self.edges if len(self.edges) <= MOST_DRAWN else (*drawn, *self.edges[:1])
        spots = {
            (edge.stages[end], name): (edge.stages[end], short(name))
            for edge in every
            for end, name in enumerate((edge.source, edge.target))
        }
        wires = [
            Wire(spots[edge.stages[0], edge.source], spots[edge.stages[1], edge.target],
                 edge.effect, edge.through,
                 f"{edge.name}: {edge.effect:.4f} (estimated {edge.estimate:.4f})")
            for edge in drawn
        ]  # fmt: skip
        names = {spot: name for (_, name), spot in spots.items()}
        spoken = "; ".join(f"{edge.name} {edge.effect:.2f}" for edge in drawn[:5])
        alt = f"{len(drawn)} edges; the largest: {spoken or 'no edge reaches 0.01'}."
        few = len(drawn) < len(self.edges)
        left = f"Of {len(self.edges):,} edges, the {len(drawn)} largest are drawn." if few else ""
        return graph(names, wires), alt, left

    @shown(Rows("Edges"))
    def table(self) -> Table:
        many = len(self.edges) > MOST_ROWS
        most = f", the largest {MOST_ROWS} of {len(self.edges):,}" if many else ""
        return Table.from_rows(
            f"Edges from {self.pair.clean} into {self.pair.corrupted}{most}",
            ("edge", "effect", "estimate by gradient", "error of the estimate", "intervention"),
            (
                (edge.name, edge.effect, edge.estimate, edge.estimate - edge.effect, edge.notation)
                for edge in self.edges[:MOST_ROWS]
            ),
        )

    def conclude(self) -> Iterator[Finding]:
        largest = [edge for edge in self.edges[:5] if abs(edge.effect) >= 0.005]
        told = ", ".join(f"{edge.name} {edge.effect:.2f}" for edge in largest) or "none"
        text = f"{self.pair.sentence()} These edges have the largest effects ({SCALE}): {told}."
        effects: dict[str, Cell] = {edge.name: edge.effect for edge in largest}
        string, clean = self.pair.corrupted, self.pair.clean
        yield Finding.of(text, effects, self.pair.severity, string=string, clean=clean)
        if not self.edges:
            return
        errors = np.abs(self.estimates - self.effects)
        worst = self.edges[int(errors.argmax())]
        text = (
            f"Attribution patching estimates these {len(errors):,} effects by gradients, with an "
            f"error of at most {errors.max():.2f} ({worst.name}: exact {worst.effect:.2f}, "
            f"estimated {worst.estimate:.2f})."
        )
        yield Finding.of(text, {"largest error": float(errors.max())}, string=string)


class PathsResult(ProbeResult):
    """The effect of every edge, exactly and by gradients."""

    probe: ClassVar[str] = "paths"

    by: str
    """`letter` (letters are counted) or `position` (letters stand somewhere)."""
    n_layers: int
    pairs: Annotated[tuple[Paths, ...], Each()]

    def conclude(self) -> Iterator[Finding]:
        for paths in self.pairs:
            yield from paths.conclude()
        same = sum(paths.same for paths in self.pairs)
        measured = sum(len(paths.edges) for paths in self.pairs)
        left = sum(paths.left_out for paths in self.pairs)
        text = (
            f"{measured:,} edges were measured one by one. The sources of {same:,} more are the "
            "same in both runs, so they carry nothing."
        )
        if self.by == "letter":
            text += (
                " The same holds for the edges from the embedding, which are not counted: the two "
                "strings differ only in how often each letter occurs."
            )
        if left:
            most = max(paths.left_out_estimate for paths in self.pairs)
            text += (
                f" {left:,} edges were left out because there are many: those with the smallest "
                f"estimates, {most:.2g} at most."
            )
        yield Finding.of(text, {"measured": measured, "same": same, "left out": left})


@probe(
    PathsResult,
    title="Which edges matter?",
    question="Along which edges does the difference between two strings travel?",
    chapter="3",
    on_request=True,
    accepts=("query", "answer", "token_names"),
    why_not="it compares pairs of rows: tsc.run_probe('paths', model, tokens, pairs=...)",
)
def paths(inputs: Inputs, *, pairs: Pairs | None = None, by: By | None = None) -> PathsResult:
    """`pairs=[(clean, corrupted), ...]`; without, as the patching probe finds them.

    On any TransformerLens model: token ids `[batch pos]` for strings, pairs of rows,
    and the logit of token `answer` at position `query`.
    """
    runs = pair_runs(inputs, pairs, by)
    return PathsResult(
        by=runs[0].by,
        n_layers=inputs.model.cfg.n_layers,
        pairs=tuple(_paths(run) for run in runs),
    )


def _paths(run: PairRun) -> Paths:
    from tsc_interp.interventions.singly import expected, singly

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
    return Paths(
        pair=run.pair,
        edges=tuple(measured),
        same=int((~moved).sum()),
        left_out=len(rest),
        left_out_estimate=float(np.abs(estimates[rest]).max(initial=0.0)),
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
    place, layers = wanted.place, run.model.cfg.n_layers
    if isinstance(place, Part):  # a letter's count in a head
        assert place.seen is not None
        target, through = place, "count"
        start, source = 0, run.pair.positions[place.seen]
    else:
        assert isinstance(place, Edge)
        target = place.target
        through = target.kind if _of_a_head(target) else ""
        start, source = stage(place.source, layers), part_name(place.source, layers)
        if place.source.kind == "embed" and target.position is not None:
            source = run.pair.positions[target.position]
    return PathEdge(
        source=source,
        target=part_name(target, layers),
        stages=(start, stage(target, layers)),
        through=through,
        notation=str(wanted),
        effect=effect,
        estimate=estimate,
    )
