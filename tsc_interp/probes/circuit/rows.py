"""The circuit of any model, by hooks: which edges give its answers on the given rows.

For models that have norms, positions, biases, layers or outputs beyond the source report's
classifier, ours or TransformerLens's. Edges lead into queries, keys, values, MLPs and the logit
(`gated.py`). A removed edge carries zero, the writer's mean over the rows at each position, or what
the writer writes on `corrupted` rows. How faithful a circuit is, is measured on the given rows:
nothing is said of other inputs, and nothing is proved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.interventions.constants import Runs
from tsc_interp.probes.circuit.choosing import (
    Graph,
    Ranking,
    auc,
    best_of_each_size,
    chosen,
    in_order,
)
from tsc_interp.probes.circuit.gated import Gated, Hook
from tsc_interp.probes.circuit.result import Choice, Circuit, CircuitResult
from tsc_interp.probes.circuit.wiring import Array
from tsc_interp.probes.inputs import classifier_config
from tsc_interp.probes.token_rows import Query, device_of, need_method, token_rows
from tsc_interp.results.base import LabeledArray

METHODS = ("removed alone", "attribution")
MOST_EDGES = 2_000
MOST_WORK = 100_000_000_000
"""Parameters times tokens times passes: some 30 seconds of one processor core."""
_ROWS_AT_ONCE = 2_048


def run_rows(
    model: Any,
    rows: Any,
    *,
    fill: str = "zero",
    corrupted: Any = None,
    query: Query | None = None,
    progress: Callable[[str], None] = lambda doing: None,
) -> CircuitResult:
    """Search the circuit of a model on strings or rows of token ids.

    Args:
        model: Our classifier, or a TransformerLens model.
        rows: Strings for ours, token ids `[batch pos]` for the other.
        fill: What a removed edge carries: `zero` or `mean`.
        corrupted: As many rows (or strings) as `rows`, of the same lengths; a removed edge then
            carries what its writer writes there, and `fill` is ignored.
        query: The position that is read, of a TransformerLens model; by default the last.
        progress: Called with what is being done.
    """
    runs, answer = _answering(model, rows, query)
    graph = Gated(runs, answer)
    written = graph.written()
    if corrupted is not None:
        graph.reference = _elsewhere(model, corrupted, query, runs)
        fill = "what the writer writes on the corrupted rows"
    elif fill == "mean":
        if not bool(runs.present.all()) and not runs.compressed:
            raise UsageError("a mean at each position needs rows of one length; fill='zero'")
        graph.reference = [values.mean(0, keepdim=True) for values in written]
        fill = "the mean over the given rows"
    names = tuple(map(str, graph.edges))
    parts = Graph(names, np.eye(len(names), dtype=bool))
    n_rows = len(runs.tokens)
    ranking = Ranking(parts, graph.leads, _ROWS_AT_ONCE // n_rows)
    attribution = _attribution(graph)
    choices, how = _choices(ranking, attribution, model, runs.tokens.numel(), progress)
    front = []
    for kept in choices:
        changed = (ranking.choice_logits(kept) > 0) != (ranking.logits > 0)
        named, count = parts.named(kept), int(changed.sum())
        first = f"row {int(np.argmax(changed))}" if count else None
        front.append(
            Choice(size=len(named), kept=named, vectors=count, differing=str(count), first=first)
        )
    at = max(place for place, choice in enumerate(front) if not choice.vectors)
    smallest = choices[at]
    scores = np.stack([ranking.effects(), attribution])
    return CircuitResult(
        graph="edges",
        fill=fill,
        search=how,
        max_length=0,
        strings=str(n_rows),
        vectors=n_rows,
        rows=n_rows,
        parts=names,
        front=tuple(front),
        circuit=Circuit(kept=parts.named(smallest), removed=parts.named(~smallest)),
        scores=LabeledArray.of(scores, method=METHODS, part=names),
        auc=LabeledArray.of(np.array([auc(row, smallest) for row in scores]), method=METHODS),
        effects=LabeledArray.of(scores[0], part=names),
    )


def _answering(model: Any, rows: Any, query: Query | None) -> tuple[Runs, Any]:
    """The rows, and a function that runs copies of them: the lead of the model's own answers."""
    if classifier_config(model) is not None:
        given: Any = model.inputs(rows if hasattr(rows, "shape") else list(rows))
        read: Any = None
    else:
        need_method(model, "run_with_hooks")
        checked = token_rows(model, rows, query, None)
        given, read = torch.from_numpy(checked.tokens).to(device_of(model)), checked.query

    def outputs(copies: int, hooks: list[Hook]) -> Tensor:
        batch = given.repeat(copies, 1) if read is not None else given.repeated(copies)
        out: Tensor = model.run_with_hooks(batch, fwd_hooks=hooks)
        if read is not None:
            out = out[torch.arange(len(out)), torch.from_numpy(np.tile(read, copies))]
        out = out.reshape(len(out), -1)
        return torch.cat([torch.zeros_like(out), out], 1) if out.shape[1] == 1 else out

    with torch.no_grad():
        answers = outputs(1, []).argmax(1)

    def lead(copies: int, hooks: list[Hook]) -> Tensor:
        """Above zero where the model's own answer stays the largest output."""
        out, own = outputs(copies, hooks), answers.repeat(copies)[:, None]
        return out.gather(1, own)[:, 0] - out.scatter(1, own, -torch.inf).max(1).values

    return Runs(model, given), lead


def _elsewhere(model: Any, corrupted: Any, query: Query | None, runs: Runs) -> list[Tensor]:
    other, answer = _answering(model, corrupted, query)
    if other.tokens.shape != runs.tokens.shape:
        raise UsageError(
            f"corrupted rows are shaped {list(other.tokens.shape)}, the rows "
            f"{list(runs.tokens.shape)}; give one of the same length for each row"
        )
    return Gated(other, answer).written()


def _attribution(graph: Gated) -> Array:
    """`[edge]`: |∂ lead / ∂ gate|, the first-order change without the edge, averaged over rows."""
    gates = torch.ones(len(graph.edges), 1, len(graph.runs.tokens), requires_grad=True)
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(graph(gates).sum(), gates)
    return np.asarray(slope.abs().mean((1, 2)).double().numpy())


def _choices(
    ranking: Ranking,
    attribution: Array,
    model: Any,
    tokens: int,
    progress: Callable[[str], None],
) -> tuple[list[Any], str]:
    edges = len(attribution)
    per_pass = tokens * sum(parameter.numel() for parameter in model.parameters())
    if edges > MOST_EDGES or 3 * edges * per_pass > MOST_WORK:
        raise UnsupportedError(
            f"this model has {edges:,} edges, and removing each takes a pass over {tokens:,} "
            f"tokens; up to {MOST_EDGES:,} edges, and fewer rows, can be searched"
        )
    if min(2.0**edges, edges * edges) * per_pass <= MOST_WORK:
        return chosen(ranking, progress)
    masks = in_order(ranking, np.argsort(attribution, kind="stable").tolist(), progress)
    return best_of_each_size(masks, ranking.judged(masks)[0]), (
        f"in the order of attribution, because {edges} are too many for more"
    )
