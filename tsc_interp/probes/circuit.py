"""What is the smallest part of the model that does what the model does?

The parts are edges (the input that a neuron or the logit receives from the embedding, a head or a
neuron) or nodes (heads and neurons). Parts outside the circuit are set to zero, or to their mean
over stated strings. With up to 12 parts all choices (at most 4,096) are tried. With more, parts are
removed one at a time, the one that changes the fewest answers first; with very many, each is tried
once.

Faithfulness is counted, not sampled: the circuit is a classifier of its own
(`interventions/weights.py`), so the strings up to `max_length` that it answers differently are
counted exactly, and the first one of all is searched for and proved (`tsc.diff`). The result is the
front of size against exact disagreement.

Two cheaper rankings of parts are compared with it: the effect of removing one part alone, and the
gradient of the logit (attribution). Each is scored by ROC AUC: does it rank the circuit's parts
above the others?

That is for one layer without norms and positions. Of all other models, and of any TransformerLens
model, edges lead into queries, keys, values, MLPs and the logit. A removed edge carries zero, the
writer's mean over the rows at each position, or what it writes on `corrupted` rows. How faithful a
circuit is, is then measured on the given rows: nothing is said of other inputs, nothing is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, isnan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.interventions.parts import Edge, Part, place
from tsc_interp.probes.inputs import Inputs
from tsc_interp.probes.probe import probe
from tsc_interp.probes.wording import part_name, short, stage
from tsc_interp.results.base import Cell, Finding, LabeledArray, ProbeResult, Record, Table
from tsc_interp.results.views import Drawing, Heat, Lines, Rows, shown
from tsc_interp.strings import Counts

if TYPE_CHECKING:
    from tsc_interp.probes.wiring import Wiring

Array = NDArray[np.float64]
Masks = NDArray[np.bool_]
Progress = Callable[[str], None]
METHODS = ("removed alone", "attribution")
MOST_CHOICES = 4096
MOST_AT_A_TIME = 100
"""Parts of which all that are left are tried before each removal; of more, each is tried once."""
MOST_EDGES = 2_000
MOST_FRONT = 24
RANKED_VECTORS = 25_000
NUMBERS = 4_000_000
"""Terms of choices that are ranked at once."""
ROWS_AT_ONCE = 2_048
STEP = 1e-5
"""By how much a gate is closed to see the slope."""
SECONDS = 60.0
"""At most, for a proof that the circuit and the model agree: one takes about a second."""
BOXES = 5_000
"""For the search of each set of letters: many models need a few hundred."""


class Choice(Record):
    """The best circuit found of one size."""

    size: int
    kept: tuple[str, ...]
    vectors: int
    """How many count vectors up to `max_length` it answers differently than the model; exact."""
    differing: str
    """How many strings those are; exact."""
    first: str | None
    """The shortest of them."""


class Circuit(Record):
    """The smallest choice that answers every string up to `max_length` as the model does."""

    kept: tuple[str, ...]
    removed: tuple[str, ...]
    agree_through: int | None = 0
    """Alike on every string up to this length, proved; None is every length, proved or shown."""
    first_difference: str | None = None
    """The first string they answer differently, where that is proved to be the first."""
    verified_length: int = 0
    """The circuit's own horizon, as far as the search went."""
    model_verified_length: int = 0
    weight_hash: str = ""


class CircuitResult(ProbeResult):
    """How small a part of the model does what the model does."""

    probe: ClassVar[str] = "circuit"

    graph: str
    """`edges`, or `nodes` (heads and neurons)."""
    fill: str
    """What is put in a removed part's place: `zero`, or the mean over which strings."""
    search: str
    """How choices were found: `all 2,048 choices` or `one removal at a time`."""
    max_length: int
    strings: str
    """How many strings there are up to that length."""
    vectors: int
    """How many count vectors those are: strings that differ only in order are one."""
    rows: int | None = None
    """On how many rows of tokens it was measured, of a model whose strings cannot all be decided;
    choices then count rows instead of count vectors, and nothing is proved."""
    parts: tuple[str, ...]
    front: tuple[Choice, ...]
    """Larger first; each answers fewer strings differently than any smaller one."""
    circuit: Circuit | None
    scores: LabeledArray
    """`[method part]`: how much each way of ranking thinks of each part."""
    auc: LabeledArray
    """`[method]`: how well the ranking tells the circuit's parts from the others; 0.5 is chance."""
    effects: LabeledArray
    """`[part]`: mean change of the logit when the part alone is removed."""

    @property
    def counted(self) -> str:
        """What answers are counted over."""
        return "count vectors" if self.rows is None else "rows"

    @property
    def over(self) -> str:
        """The same, with how far they go."""
        return self.counted + ("" if self.rows else f" up to {self.max_length} letters")

    @shown(
        Lines(
            "How small can it be?",
            "The share of the {result.vectors:,} {result.over} that is answered as by the whole "
            "model, by the best part of each size ({result.search}).",
            name="front", x="parts kept", y="answered as by the model", form=".2%",
            table=False,
        )
    )  # fmt: skip
    def faithfulness(self) -> LabeledArray:
        """`[size]`."""
        known = {choice.size: 1 - choice.vectors / self.vectors for choice in reversed(self.front)}
        return LabeledArray.of(list(known.values()), size=list(known))

    @shown(
        Drawing(
            "The circuit",
            "Full lines are the circuit, as wide as the logit moves when one alone is removed; "
            "dotted lines are not needed (in a deep model they are left out). From left to right: "
            "embedding, heads and MLP of each layer, logit.",
            name="graph",
        )
    )
    def drawn_graph(self) -> tuple[Any, str] | None:
        from tsc_interp.plots.graph import Wire, graph

        if self.circuit is None:
            return None
        kept = set(self.circuit.kept)
        pairs = self._wires()
        every = {part for pair in pairs for part in pair}
        full = {part for part in every if part.kind == "logit" or str(part) in kept}
        effects = dict(zip(self.parts, self.effects.array.tolist(), strict=True))
        layers = 1 + max(part.layer for part in every)
        told: dict[tuple[int, str], str] = {}

        def spot(part: Part) -> tuple[int, str]:
            name = part_name(part, layers)
            told[at := (stage(part, layers), short(name))] = name
            return at

        wires = []
        for source, target in pairs:
            name = f"{source}->{target}"
            inside = name in kept if self.graph == "edges" else full.issuperset((source, target))
            start, end = spot(source), spot(target)
            effect = effects.get(name if self.graph == "edges" else str(source), 0.0)
            hover = f"{name}: {'kept' if inside else 'not needed'}"
            if inside or not self.rows:
                wires.append(Wire(start, end, effect, target.kind, hover, full=inside))
        removed = listed(self.circuit.removed) or "nothing"
        return graph(told, wires), f"Kept: {listed(self.circuit.kept)}. Not needed: {removed}."

    def _wires(self) -> list[tuple[Part, Part]]:
        """(from, to): the edges themselves; for other graphs, how their parts are wired."""
        parts = [place(part) for part in self.parts]
        if self.graph == "edges":
            return [(part.source, part.target) for part in parts if isinstance(part, Edge)]
        heads = [part for part in parts if isinstance(part, Part) and part.kind == "head"]
        neurons = [part for part in parts if isinstance(part, Part) and part.kind == "neuron"]
        out = [(head, target) for head in heads for target in [*neurons, Part("logit")]]
        return [*out, *((neuron, Part("logit")) for neuron in neurons)]

    @shown(
        Heat(
            "Do cheaper methods find it?",
            "How much each method thinks of each part, of its largest. A good ranking has the "
            "circuit's parts, marked •, above the others.",
            share=True, form=".2f", most=24,
        )
    )  # fmt: skip
    def ranking(self) -> LabeledArray:
        """`[part method]`, the most important first."""
        inside = set(self.circuit.kept) if self.circuit else set()
        scores, order = self.scores.array, np.argsort(-self.scores.array[0], kind="stable")
        largest = np.where(scores.max(axis=1) > 0, scores.max(axis=1), 1.0)
        names = [f"{'• ' * (self.parts[i] in inside)}{self.parts[i]}" for i in order]
        cells = (scores / largest[:, None]).T[order]
        return LabeledArray.of(cells, part=names, method=self.scores.labels["method"])

    @shown(Rows("The smallest parts that do what the model does"))
    def choices(self) -> Table:
        return Table.from_rows(
            "The smallest parts that do what the model does",
            ("size", self.counted, "strings", "the first", "kept"),
            (
                (c.size, c.vectors, c.differing, c.first or "none", ", ".join(c.kept) or "nothing")
                for c in self.front
            ),
        )

    # -- in sentences --

    def conclude(self) -> Iterator[Finding]:
        yield self._kept() if self.rows is None else self._measured(self.rows)
        if smaller := next((choice for choice in self.front if choice.vectors), None):
            text = (
                f"The best circuit found with {smaller.size} of the {self.graph} answers "
                f"{smaller.vectors:,} of the {self.vectors:,} {self.over} differently; the first "
                f"is `{smaller.first}`."
            )
            yield Finding.of(text, {"size": smaller.size, "vectors": smaller.vectors})
        if self.circuit is not None and self.rows is None:
            before, after = self.circuit.model_verified_length, self.circuit.verified_length
            text = f"Circuit and model are both right up to {before:,} letters."
            if after > before:
                text = (
                    f"The circuit is right for longer than the model: up to {after:,} letters "
                    f"instead of {before:,}. The removed parts did harm."
                )
            elif after < before:
                text = f"The circuit is right up to {after:,} letters, the model up to {before:,}."
            yield Finding.of(text, {"model": before, "circuit": after})
        scores = zip(self.auc.labels["method"], self.auc.array.tolist(), strict=True)
        known: dict[str, Cell] = {name: value for name, value in scores if not isnan(value)}
        if known and self.circuit is not None:
            ranked = ", ".join(f"{name} {value:.2f}" for name, value in known.items())
            text = (
                "Cheaper rankings separate the circuit's parts from the others with a ROC AUC (1 "
                f"is perfect, 0.5 is chance) of: {ranked}."
            )
            yield Finding.of(text, known)

    def _kept(self) -> Finding:
        many, circuit = len(self.parts), self.circuit
        numbers: dict[str, Cell] = {"parts": many, "max length": self.max_length}
        if circuit is None or len(circuit.kept) == many:
            text = (
                f"No smaller part of the model was found that answers every string of up to "
                f"{self.max_length} letters as it does ({many} {self.graph}, {self.search})."
            )
            return Finding.of(text, numbers)
        text = (
            f"{len(circuit.kept)} of {many} {self.graph} "
            f"{'answers' if len(circuit.kept) == 1 else 'answer'} "
            f"every string of up to {self.max_length} letters as the whole model does "
            f"({self.search}; exact): {listed(circuit.kept)}."
        )
        if circuit.agree_through is None:
            text += " They agree on every string of every length, proved or shown in fractions."
        elif circuit.first_difference is not None:
            text += (
                f" The first string they answer differently is `{circuit.first_difference}`; up to "
                f"{circuit.agree_through:,} letters they agree, proved."
            )
        else:
            text += f" They agree up to {circuit.agree_through:,} letters, proved."
        return Finding.of(text, numbers | {"kept": len(circuit.kept)}, kept=circuit.kept)

    def _measured(self, rows: int) -> Finding:
        assert self.circuit is not None
        kept, many = self.circuit.kept, len(self.parts)
        text = (
            f"{len(kept)} of {many} edges give the model's answer on "
            f"{f'all {rows} rows' if rows > 1 else 'the row'} "
            f"({self.search}; measured on these rows, not proved): {listed(kept)}. "
            f"The others carry {self.fill}."
        )
        return Finding.of(text, {"parts": many, "kept": len(kept), "rows": rows}, kept=kept)


def listed(parts: tuple[str, ...]) -> str:
    """The first few of them by name."""
    names = ", ".join(parts[:8])
    return names if len(parts) <= 8 else f"{names} and {len(parts) - 8} more"


@probe(
    CircuitResult,
    title="Which part is enough?",
    question="How small a part of the model does what the whole model does?",
    on_request=True,
    any_model=True,
    accepts=("query",),
)
def circuit(
    inputs: Inputs,
    *,
    graph: str = "edges",
    fill: str = "zero",
    max_length: int = 50,
    corrupted: Any = None,
    progress: Progress = lambda doing: None,
) -> CircuitResult:
    """`fill` is `zero`, or `mean`: over the given strings. `graph` is edges or nodes.

    Models beyond one layer without norms, and any TransformerLens model on token ids, are measured
    on the given rows, edges only. There a removed edge may also carry what its writer writes on
    `corrupted`: as many rows (or strings), of the same lengths.
    """
    if graph not in ("edges", "nodes") or fill not in ("zero", "mean"):
        raise UsageError("graph is edges or nodes, and fill is zero or mean")
    if not (beyond := _beyond(inputs)):
        if corrupted is not None or inputs.query is not None:
            raise UsageError("query and corrupted: for models whose circuit is measured on rows")
        return _exactly(inputs, graph, fill, max_length, progress)
    if graph != "edges":
        raise UnsupportedError(f"graph={graph!r}: this model {beyond}, so only edges are searched")
    return _on_rows(inputs, fill, corrupted, progress)


def _beyond(inputs: Inputs) -> str:
    """Why a model's circuit is measured on rows instead of counted exactly; empty if it is not."""
    config = inputs.config
    if config is None:
        return "is not one of our classifiers"
    if config.beyond_report:
        return f"has {', '.join(config.beyond_report)}"
    if config.n_layers > 1 or config.has_norm or config.needs_order:
        return "has several layers, norms or positions"
    if not config.has_attention:
        raise UnsupportedError("this model has no attention, so there is no circuit to search")
    return ""


def _exactly(
    inputs: Inputs, graph: str, fill: str, max_length: int, progress: Progress
) -> CircuitResult:
    """Of one layer without norms: every count vector is ranked on, and the best are counted."""
    from tsc_interp.probes.wiring import wiring

    checkpoint: Checkpoint = inputs.model.to_checkpoint()
    letters, texts = checkpoint.config.n_letters, inputs.given
    counts = _vectors(letters, max_length)
    wires, usual = wiring(checkpoint, counts), None
    if fill == "mean":
        usual = wiring(checkpoint, checkpoint.config.alphabet.count_matrix(texts))
    parts = _graph(wires, graph, with_embedding=fill == "zero")

    def logits(gates: Array) -> Array:
        """Of choices of gates `[choice part]`; edges go with their parts."""
        return wires.logits(1 - (1 - gates) @ parts.edges, usual)

    ranking = Ranking(parts.names, logits, NUMBERS // (len(counts) * (wires.neurons + 1)))
    choices, how = chosen(ranking, progress)
    changes = {"zero": "zero", "mean": f"mean({', '.join(texts)})"}[fill]
    front = _counted(checkpoint, parts, choices, changes, max_length, progress)
    smallest = next((kept for choice, kept in reversed(front) if choice.vectors == 0), None)
    circuit = None if smallest is None else _proved(checkpoint, parts, smallest, changes, progress)
    slopes = ranking.effects(STEP) / STEP
    return CircuitResult(
        graph=graph,
        fill="zero" if fill == "zero" else f"the mean over {', '.join(texts)}",
        search=how,
        max_length=max_length,
        strings=str(sum(letters**n for n in range(1, max_length + 1))),
        vectors=comb(max_length + letters, letters) - 1,
        parts=parts.names,
        front=tuple(choice for choice, _ in front),
        circuit=circuit,
        **_scores(parts.names, ranking.effects(), slopes, smallest),
    )


def _scores(
    names: tuple[str, ...], alone: Array, slopes: Array, inside: Masks | None
) -> dict[str, Any]:
    """What each ranking thinks of each part, and how well it separates those in the circuit."""
    known = np.ones(len(names), bool) if inside is None else inside
    return {
        "effects": LabeledArray.of(alone, part=names),
        "scores": LabeledArray.of(np.stack([alone, slopes]), method=METHODS, part=names),
        "auc": LabeledArray.of([auc(row, known) for row in (alone, slopes)], method=METHODS),
    }


def _vectors(letters: int, max_length: int) -> Counts:
    """Every count vector up to the length, or up to the longest that stays affordable."""
    longest = max_length
    while longest > 1 and comb(longest + letters, letters) > RANKED_VECTORS:  # 50 for 3 letters
        longest -= 1
    # Bars and stars, in the order of the alphabet: counts are the gaps between the bars.
    bars = np.array(list(combinations(range(longest + letters), letters)), dtype=np.int64)
    return (np.diff(bars, axis=1, prepend=-1) - 1)[1:]


def _graph(wires: Wiring, kind: str, *, with_embedding: bool) -> Graph:
    """The embedding of CLS is its own mean, so it is no part where parts are set to their mean."""
    pairs = wires.pairs()
    if kind == "edges":
        chosen = [i for i, (w, _) in enumerate(pairs) if with_embedding or w.kind != "embed"]
        return Graph(tuple(str(Edge(*pairs[i])) for i in chosen), np.eye(len(pairs))[chosen])
    nodes = list(dict.fromkeys(writer for writer, _ in pairs if writer.kind != "embed"))
    touched = np.array([[writer == node for writer, _ in pairs] for node in nodes], dtype=float)
    return Graph(tuple(map(str, nodes)), touched)


def _circuit(checkpoint: Checkpoint, graph: Graph, kept: Any, change: str) -> Checkpoint:
    """The model with every part changed that is not kept."""
    from tsc_interp.interventions.weights import edit

    changes = [f"{part}={change}" for part in graph.named(~kept)]
    return edit(checkpoint, changes) if changes else checkpoint


def _counted(
    checkpoint: Checkpoint,
    graph: Graph,
    choices: list[Any],
    change: str,
    max_length: int,
    progress: Progress,
) -> list[tuple[Choice, Any]]:
    """Exactly, in how many strings each choice differs; only those better than any smaller one."""
    from tsc_interp.verification.count_model import CountModel
    from tsc_interp.verification.counting.differences import compare

    front: list[tuple[Choice, Any]] = []
    least: int | None = None
    # The whole model is the last resort: ranked on shorter strings, none may be without error.
    tried = [*reversed(choices[:MOST_FRONT]), np.ones(len(graph.names), dtype=bool)]
    for number, kept in enumerate(tried, start=1):
        progress(f"counting circuit {number} of {len(tried)}")
        circuit = CountModel(_circuit(checkpoint, graph, kept, change))
        differing = compare(CountModel(checkpoint), circuit, max_length)
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
    checkpoint: Checkpoint, graph: Graph, kept: Any, change: str, progress: Progress
) -> Circuit:
    from tsc_interp.verification.comparison import diff
    from tsc_interp.verification.horizons import horizon

    progress("proving where the circuit and the model agree")
    smaller = _circuit(checkpoint, graph, kept, change)
    compared = diff(checkpoint, smaller, max_length=10, boxes=BOXES, seconds=SECONDS)
    exact = compared.proved.first_difference is not None
    return Circuit(
        kept=graph.named(kept),
        removed=graph.named(~kept),
        agree_through=None if compared.same else compared.proved.agree_through,
        first_difference=compared.shortest if exact else None,
        verified_length=horizon(smaller, boxes=BOXES, prove=False).verified_length,
        model_verified_length=horizon(checkpoint, boxes=BOXES, prove=False).verified_length,
        weight_hash=smaller.weight_hash(),
    )


def _on_rows(inputs: Inputs, fill: str, corrupted: Any, progress: Progress) -> CircuitResult:
    """Of any model, by gates: which edges give its answers on the given rows."""
    from tsc_interp.probes.wiring import Gated

    graph = Gated(inputs)
    runs, written, edges = graph.runs, graph.written(), len(graph.edges)
    if corrupted is not None:
        graph.reference = graph.other(Inputs(inputs.model, corrupted, query=inputs.query))
        fill = "what the writer writes on the corrupted rows"
    elif fill == "mean":
        if not bool(runs.present.all()) and not runs.compressed:
            raise UsageError("a mean at each position needs rows of one length; fill='zero'")
        graph.reference = [values.mean(0, keepdim=True) for values in written]
        fill = "the mean over the given rows"
    if edges > MOST_EDGES:
        raise UnsupportedError(f"this model has {edges:,} edges; {MOST_EDGES:,} can be searched")
    inputs.check_work(3 * edges, f"removing each of {edges:,} edges")
    parts, n_rows = Graph(tuple(map(str, graph.edges)), np.eye(edges)), len(runs.tokens)
    ranking = Ranking(parts.names, graph.leads, ROWS_AT_ONCE // n_rows)
    choices, how = chosen(ranking, progress)
    front = []
    for kept in choices:
        changed = (ranking.choice_logits(kept) > 0) != (ranking.logits > 0)
        named, count = parts.named(kept), int(changed.sum())
        first = f"row {int(np.argmax(changed))}" if count else None
        front.append(
            Choice(size=len(named), kept=named, vectors=count, differing=str(count), first=first)
        )
    smallest = choices[max(place for place, choice in enumerate(front) if not choice.vectors)]
    return CircuitResult(
        graph="edges",
        fill=fill,
        search=how,
        max_length=0,
        strings=str(n_rows),
        vectors=n_rows,
        rows=n_rows,
        parts=parts.names,
        front=tuple(front),
        circuit=Circuit(kept=parts.named(smallest), removed=parts.named(~smallest)),
        **_scores(parts.names, ranking.effects(), graph.attribution(), smallest),
    )


# -- which parts to keep: every choice where that is feasible, else one removal after the other ----
#
# Choices are ranked by the number of count vectors (or rows) they answer differently than the
# model, in float64. (Strings would be no measure: nearly all of them have every letter.)


@dataclass(frozen=True)
class Graph:
    """Parts that can be removed, each standing for some edges of the wiring."""

    names: tuple[str, ...]
    edges: Array
    """`[part edge]`: 1 for the edges that go with the part."""

    def named(self, kept: Masks) -> tuple[str, ...]:
        """The names of these parts."""
        return tuple(part for part, stays in zip(self.names, kept, strict=True) if stays)


class Ranking:
    """How many items (count vectors, or rows) each choice answers differently than the model."""

    def __init__(
        self, parts: Sequence[str], logits: Callable[[Array], Array], at_once: int = 1
    ) -> None:
        """`logits`: of gates `[choice part]` between 0 and 1, `[choice item]`; so many at once."""
        self.count, self._logits, self._at_once = len(parts), logits, max(1, at_once)
        self.logits = self.choice_logits(np.ones(self.count))

    def judged(self, gates: Any, progress: Progress = lambda doing: None) -> tuple[Array, Array]:
        """Of each choice, how many answers differ, and the mean change of the logit."""
        differing, moved = [], []
        for start in range(0, len(gates), self._at_once):
            if start % (20 * self._at_once) == 0:
                progress(f"choice {start + 1:,} of {len(gates):,}")
            logits = self._logits(gates[start : start + self._at_once].astype(float))
            differing.append(((logits > 0) != (self.logits > 0)).sum(axis=1).astype(float))
            moved.append(np.abs(logits - self.logits).mean(axis=1))
        return np.concatenate(differing), np.concatenate(moved)

    def choice_logits(self, gates: Any) -> Array:
        return np.asarray(self._logits(gates[None].astype(float))[0])

    def effects(self, step: float = 1.0) -> Array:
        """`[part]`: the mean change of the logit when the part's gate alone is closed so far."""
        return self.judged(1 - step * np.eye(self.count))[1]


def every_choice(count: int) -> Masks:
    numbers = np.arange(2**count)
    return np.asarray((numbers[:, None] >> np.arange(count)) & 1, dtype=bool)


def best_of_each_size(kept: Masks, differing: Array) -> list[Masks]:
    """For every size the choice that differs least, as long as no smaller one does as well."""
    sizes = kept.sum(axis=1)
    best: list[Masks] = []
    least = np.inf
    for size in np.unique(sizes):
        of_size = np.flatnonzero(sizes == size)
        chosen = of_size[differing[of_size].argmin()]
        if differing[chosen] < least:
            least = float(differing[chosen])
            best.append(kept[chosen])
    return best[::-1]


def in_order(ranking: Ranking, order: Sequence[int], progress: Progress) -> Masks:
    """Choices: remove parts in this order where no answer changes, then the rest in this order."""
    kept = np.ones(ranking.count, dtype=bool)
    choices = [kept.copy()]
    for number, part in enumerate(order):
        if number % 50 == 0:
            progress(f"part {number + 1:,} of {len(order):,}")
        kept[part] = False
        if ranking.judged(kept[None])[0][0]:
            kept[part] = True
    choices.append(kept.copy())
    for part in order:
        if kept[part]:
            kept[part] = False
            choices.append(kept.copy())
    return np.array(choices)


def one_at_a_time(ranking: Ranking, progress: Progress) -> Masks:
    """Choices: remove what changes least, then what then changes least, and so on."""
    kept = np.ones(ranking.count, dtype=bool)
    choices = [kept]
    for left in range(ranking.count, 0, -1):
        progress(f"{left} parts left")
        tried = np.flatnonzero(kept)
        masks = np.tile(kept, (len(tried), 1))
        masks[np.arange(len(tried)), tried] = False
        differing, moved = ranking.judged(masks)
        # Of several that change no answer, the one that moves logits least.
        kept = masks[np.lexsort((moved, differing))[0]]
        choices.append(kept)
    return np.array(choices)


def chosen(ranking: Ranking, progress: Progress) -> tuple[list[Masks], str]:
    """The best choice of each size, larger first, and how they were found."""
    count = ranking.count
    how = f"all {2**count:,} choices"
    if 2**count <= MOST_CHOICES:
        masks = every_choice(count)
    elif count <= MOST_AT_A_TIME:
        masks = one_at_a_time(ranking, progress)
        how = f"one removal at a time, because {count} are too many for all choices"
    else:
        masks = in_order(ranking, np.argsort(ranking.effects(), kind="stable").tolist(), progress)
        how = f"one removal after the other, because {count} are too many for all choices"
    return best_of_each_size(masks, ranking.judged(masks, progress)[0]), how


def auc(scores: Array, inside: Masks) -> float:
    """The chance that a part of the circuit has a higher score than one that is not; ties half."""
    if inside.all() or not inside.any():
        return float("nan")
    high, low = scores[inside][:, None], scores[~inside][None]
    return float(((high > low) + 0.5 * (high == low)).mean())
