"""A report of any TransformerLens model: the probes that need no task, in bounded time and space.

Of many rows some are read: at most `MOST_ROWS`, fewer where the activations of one forward pass
would fill more than `MOST_BYTES` or a pass would take longer than `MOST_WORK` allows, evenly spread
over those given, one at least. Of these at most `MOST_SHOWN` are taken apart and kept row by row:
those with the largest and the smallest read-out where there is a direction to read along, else the
first. Which heads are drawn, the probes choose themselves (`HeadsResult.heads_to_show`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.probes.arrays import LabeledArray
from tsc_interp.probes.attribution.run import readouts
from tsc_interp.probes.base import ProbeResult
from tsc_interp.probes.registry import PROBES, Probe
from tsc_interp.probes.rows import Query, Rows, TokenNames, name_of, need_cache, token_rows
from tsc_interp.probes.running import readout_direction
from tsc_interp.report.asking import ProbeFailed, ask
from tsc_interp.report.model_report import ModelReport
from tsc_interp.report.outside_card import Asked, OutsideCard
from tsc_interp.report.outside_model import describe, parameters_of, row_bytes, weight_hash
from tsc_interp.report.report import Report

if TYPE_CHECKING:
    from torch import Tensor

MOST_ROWS = 64
MOST_BYTES = 500_000_000
MOST_WORK = 100_000_000_000
"""Parameters times tokens; four probes take some 30 seconds of one processor core then."""
MOST_SHOWN = 8
Progress = Callable[[str], None]

_WHY_NOT = {
    "trace": "it follows a string of letters to the one logit of a tsc-interp classifier; "
    "attribution, along a direction, takes this model's read-out apart",
    "cone": "it asks whether letters that call for a no can add up to a yes, and no task is known",
    "atlas": "it asks which strings are answered wrongly, and no task is known; for a model that "
    "can be taken over, tsc.analyze(model, reading={...}) names one",
    "init-norm": "it compares a model with fresh ones, and how this one was initialised is not "
    "known",
    "patching": "it compares pairs of rows: tsc.run_probe('patching', model, tokens, pairs=...)",
    "paths": "it compares pairs of rows: tsc.run_probe('paths', model, tokens, pairs=...)",
}


def analyze_outside(
    model: Any,
    tokens: Any,
    *,
    chosen: Sequence[Probe] | None,
    query: Query | None,
    token_names: TokenNames | None,
    direction: ArrayLike | Tensor | None,
    attention_mask: ArrayLike | Tensor | None,
    progress: Progress,
) -> Report:
    """The probes named, or all that apply; what does not apply says why."""
    need_cache(model)
    if tokens is None:
        raise UsageError(
            f"which tokens? A {type(model).__name__} is analysed on token ids [batch pos]: "
            "tsc.analyze(model, tokens). To have it judged on a task, say how it is read: "
            "tsc.analyze(model, reading={'tokens': ..., 'query': ..., 'task': ...})"
        )
    progress("reading the input")
    given = token_rows(model, tokens, query, attention_mask)
    along = readout_direction(model, direction)
    rows = _read_rows(model, given)
    asked = _asked(model, given, rows, token_names, along, attention_mask is not None)
    card = OutsideCard(
        name=describe(model).pop("name"),
        parameters=parameters_of(model),
        weight_hash=weight_hash(model),
        shape={key: value for key, value in describe(model).items() if key != "name"},
        asked=asked,
    )
    results, not_run = _ask_all(model, asked, chosen, progress)
    names = tuple(f"row {row}" for row in asked.rows)
    return Report((ModelReport(card, names, results, not_run),))


def _read_rows(model: Any, given: Rows) -> NDArray[np.int64]:
    """Places of the rows to read, within the bounds."""
    count, width = given.tokens.shape
    each = row_bytes(model.cfg, width)
    if each > MOST_BYTES:
        fits = width
        while fits > 1 and row_bytes(model.cfg, fits) > MOST_BYTES:
            fits = fits * 3 // 4
        raise UsageError(
            f"one row of {width:,} tokens makes this model keep {each / 1e6:,.0f} MB of "
            f"activations, more than the {MOST_BYTES / 1e6:,.0f} MB of a report; rows of {fits:,} "
            "tokens fit"
        )
    work = width * max(1, parameters_of(model))
    most = max(1, min(MOST_ROWS, MOST_BYTES // each, MOST_WORK // work))
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _asked(
    model: Any,
    given: Rows,
    rows: NDArray[np.int64],
    token_names: TokenNames | None,
    along: NDArray[np.float64] | None,
    masked: bool,
) -> Asked:
    tokens, at = given.tokens[rows], given.query[rows]
    seen = np.unique(tokens[given.kept[rows]]).tolist()
    named = _from_tokenizer(model, seen) if token_names is None else token_names
    names = {} if named is None else {token: name_of(named, token) for token in seen}
    kept = given.kept[rows].astype(int) if masked else None
    order = np.arange(len(rows))
    if along is not None:
        said = readouts(model, tokens, direction=along, query=at.tolist(), attention_mask=kept)
        order = np.argsort(-said, kind="stable")
    if len(order) > MOST_SHOWN:
        half = MOST_SHOWN // 2
        ends = np.concatenate([order[:half], order[-half:]])
        order = order[:MOST_SHOWN] if along is None else ends
    return Asked(
        tokens=tuple(map(tuple, tokens.tolist())),
        rows=tuple(rows.tolist()),
        given=len(given.tokens),
        query=tuple(at.tolist()),
        names=names,
        direction=None if along is None else tuple(along.tolist()),
        attention_mask=None if kept is None else tuple(map(tuple, kept.tolist())),
        shown=tuple(int(rows[index]) for index in order),
    )


def _from_tokenizer(model: Any, tokens: Sequence[int]) -> dict[int, str] | None:
    """What the model's own tokenizer calls them, a space as a dot; None without one."""
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None:
        return None
    return {token: str(tokenizer.decode([token])).replace(" ", "·") for token in tokens}


# -- asking ------------------------------------------------------------------------------------


def _ask_all(
    model: Any, asked: Asked, chosen: Sequence[Probe] | None, progress: Progress
) -> tuple[tuple[ProbeResult, ...], dict[str, str]]:
    results: list[ProbeResult] = []
    not_run: dict[str, str] = {}
    wanted = chosen or [p for p in PROBES if not p.on_request and not p.needs_run]
    for index, probe in enumerate(wanted, start=1):
        progress(f"{index} of {len(wanted)} {probe.name}: {probe.of_tokens().question}")
        try:
            results.append(_ask(model, asked, probe, named=chosen is not None))
        except ProbeFailed as error:
            if len(wanted) == 1:
                raise
            not_run[probe.name] = str(error)
        except UnsupportedError as error:
            if chosen is not None:
                raise UnsupportedError(f"probe {probe.name}: {error}") from None
            not_run[probe.name] = str(error)
    return tuple(results), not_run


def _ask(model: Any, asked: Asked, probe: Probe, *, named: bool) -> ProbeResult:
    if not probe.any_model:
        about_classifiers = f"it needs a tsc-interp classifier, not a {type(model).__name__}"
        raise UnsupportedError(_WHY_NOT.get(probe.name, about_classifiers))
    if probe.name == "attribution" and asked.direction is None and not named:
        raise UnsupportedError(
            "it needs a direction to read along: direction=model.W_U[:, token] is that token's "
            "logit, the difference of two columns what tells two answers apart"
        )
    # Row by row only those to be shown are kept, and these alone are taken apart.
    rows = range(len(asked.rows))
    if probe.name == "attribution":
        rows = [asked.rows.index(row) for row in asked.shown]  # type: ignore[assignment]
    result = ask(probe, model, np.array([asked.tokens[row] for row in rows]),
                 **_options(probe, asked, rows))  # fmt: skip
    if probe.folder:
        return result
    names = {f"row {place}": (asked.rows[row], asked.row_name(row))
             for place, row in enumerate(rows)}  # fmt: skip
    return _only_shown(result, {old: new for old, (row, new) in names.items()
                                if row in asked.shown})  # fmt: skip


def _options(probe: Probe, asked: Asked, rows: Sequence[int]) -> dict[str, Any]:
    """What the probe's `run` takes of all that was asked."""
    mask = asked.attention_mask
    every = {
        "query": [asked.query[row] for row in rows],
        "token_names": dict(asked.names) or None,
        "direction": None if asked.direction is None else np.array(asked.direction),
        "attention_mask": None if mask is None else np.array([mask[row] for row in rows]),
    }
    taken = inspect.signature(probe.module("run").run).parameters
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in taken.values())
    return {name: value for name, value in every.items() if open_ended or name in taken}


def _only_shown(result: ProbeResult, names: dict[str, str]) -> ProbeResult:
    """The result with the rows that are shown, under the names they have in the report."""
    changed = {}
    for field in type(result).model_fields:
        array = getattr(result, field)
        if not isinstance(array, LabeledArray) or "string" not in array.dims:
            continue
        old = array.labels["string"]
        places = [place for place, name in enumerate(old) if name in names]
        labels = {**array.labels, "string": tuple(names[old[place]] for place in places)}
        kept = np.take(array.array, places, axis=array.dims.index("string"))
        changed[field] = LabeledArray.of(kept, **{dim: labels[dim] for dim in array.dims})
    return result.model_copy(update=changed)
