"""Any TransformerLens model and rows of token ids, as a report examines them: in bounded time.

Of many rows some are read: at most `MOST_ROWS`, fewer where the activations of one forward pass
would fill more than `MOST_BYTES` or a pass would take longer than `MOST_WORK` allows, evenly spread
over those given, one at least. Of these at most `MOST_SHOWN` are taken apart and kept row by row:
those with the largest and the smallest read-out where there is a direction to read along, else the
first. An input that `tsc.falsify` found comes before all others. Which heads are drawn, the probes
choose themselves (`HeadsResult.heads_to_show`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.falsification.falsify import falsify
from tsc_interp.falsification.result import Falsification
from tsc_interp.frames.frame import Frame
from tsc_interp.model.importing import name_of as model_name
from tsc_interp.probes.inputs import Inputs, readout_direction
from tsc_interp.probes.patterns import PatternsResult
from tsc_interp.probes.probe import Probe
from tsc_interp.probes.readout import readouts
from tsc_interp.probes.registry import PROBES, find_probe
from tsc_interp.probes.standing_out import heads_to_tell
from tsc_interp.probes.token_rows import Query, Rows, TokenNames, name_of, need_method, token_rows
from tsc_interp.report.asked import Asked
from tsc_interp.report.asking import ask
from tsc_interp.report.card import ModelCard
from tsc_interp.report.model_report import ModelReport
from tsc_interp.report.transformer_lens import describe, parameters_of, row_bytes, weight_hash
from tsc_interp.results.arrays import LabeledArray
from tsc_interp.results.base import HeadsResult, ProbeResult, Record
from tsc_interp.telling import say

MOST_ROWS = 64
MOST_BYTES = 500_000_000
MOST_WORK = 100_000_000_000
"""Parameters times tokens; the probes take a minute or two of one processor core then."""
MOST_SHOWN = 8
FIRST = ("patterns", "attribution", "ablation", "circuits-weights")
"""What a page opens with."""
R = TypeVar("R", bound=Record)


class RowSubject:
    """A model, the rows that are read of those given, and what was found of them before.

    Args:
        model: A HookedTransformer or a TransformerBridge.
        tokens: Token ids `[batch pos]`; None for the examples of `found`.
        query: The position that reads: one for all rows, or one per row.
        token_names: What tokens are called: a list by token id, or a dictionary.
        direction: A vector in the residual stream.
        attention_mask: `[batch pos]`, 1 for tokens and 0 for padding.
        answer: The output to account for, one for all rows or one for each.
        found: What `tsc.falsify` returned.
        name: What the page calls the model.
    """

    checkpoint: Checkpoint | None = None
    """The same model as it was imported, if it was."""

    def __init__(
        self,
        model: Any,
        tokens: Any,
        *,
        query: Query | None = None,
        token_names: TokenNames | None = None,
        direction: Any = None,
        attention_mask: Any = None,
        answer: int | Sequence[int] | None = None,
        found: Any = None,
        name: str | None = None,
    ) -> None:
        need_method(model, "run_with_cache")
        tokens = _with_found(tokens, answer, found)
        if found is not None and found.examples:
            query = found.position if query is None else query
            token_names = Frame.parse(found.frame).names if token_names is None else token_names
        if tokens is None:
            raise UsageError(
                f"which tokens? A {type(model).__name__} is analysed on token ids [batch pos]: "
                "tsc.analyze(model, tokens). To have it judged on a task, say how it is read: "
                "tsc.analyze(tsc.from_transformer_lens(model, tokens=..., query=..., task=...))"
            )
        say("reading the input")
        batch = token_rows(model, tokens, query, attention_mask)
        along = readout_direction(model, direction)
        rows = _read_rows(model, batch)
        asked = _asked(model, batch, rows, token_names, along, attention_mask is not None)
        asked = replace(asked, answer=_answers(answer, rows, len(batch.tokens)))
        self.model, self.asked, self.found = model, asked, found
        self.name = model_name(model) if name is None else str(name)
        # Row by row only those to be shown are kept, so they come first, or alone.
        hidden = [row for row in asked.rows if row not in asked.shown]
        self.every = _inputs(model, asked, [*asked.shown, *hidden])
        along_or_answer = asked if along is None else replace(asked, answer=None)
        self.shown = _inputs(model, along_or_answer, asked.shown)

    @classmethod
    def searched(cls, checkpoint: Checkpoint, seconds: float, name: str) -> RowSubject:
        """An imported model that `verify` does not decide, and the wrong input that a search finds.

        The probes run on its TransformerLens form, which answers alike.
        """
        from tsc_interp.model.hooked import load

        search = falsify(checkpoint, seconds=seconds)
        frame = Frame.parse(search.frame)
        size = frame.length(frame.places[1]) + frame.writes
        made = cls(load(checkpoint).to_transformer_lens(n_ctx=size), None, found=search, name=name)
        made.checkpoint = checkpoint
        return made

    def probes(self) -> list[Probe]:
        """What is asked if nobody names a probe."""
        first = [find_probe(name) for name in FIRST]
        return [*first, *(p for p in PROBES if not (p.on_request or p.needs_run or p in first))]

    def ask(self, probe: Probe, *, named: bool) -> ProbeResult:
        """One probe's answer about all rows, or about those that are shown."""
        probe = probe.of_tokens()
        if not probe.any_model:
            about_classifiers = (
                f"it needs a tsc-interp classifier, not a {type(self.model).__name__}"
            )
            raise UnsupportedError(probe.why_not or about_classifiers)
        result = ask(probe, self.shown if probe.row_by_row else self.every)
        if not probe.external:
            places = [self.asked.rows.index(row) for row in self.asked.shown]
            names = {f"row {at}": self.asked.row_name(place) for at, place in enumerate(places)}
            result = _only_shown(result, names)
        if not named and isinstance(result, HeadsResult) and not heads_to_tell(result):
            raise UnsupportedError("no head reads one token more clearly than chance")
        return result

    def report(self, answers: dict[str, Any]) -> ModelReport:
        """The card and the answers."""
        card = ModelCard(
            name=self.name,
            kind=type(self.model).__name__,
            source="",
            task="",
            tested=self.found,
            parameters=parameters_of(self.model),
            weight_hash=weight_hash(self.model),
            config=describe(self.model),
            asked=self.asked,
        )
        if self.checkpoint is not None:
            known = self.checkpoint
            card = replace(
                card, source=known.source or card.name, provenance=known.provenance,
                task=known.config.task.describe(), parameters=known.n_parameters,
                weight_hash=known.weight_hash(),
            )  # fmt: skip
        names = tuple(f"row {row}" for row in self.asked.rows)
        return ModelReport(card, names, **answers, checkpoint=self.checkpoint)


def _with_found(tokens: Any, answer: Any, found: Any) -> Any:
    """The wrong input in front of the rows, to be taken apart first; without rows, its examples."""
    if found is None:
        return tokens
    if not isinstance(found, Falsification):
        raise UsageError(f"found is what tsc.falsify returned, got a {type(found).__name__}")
    examples = found.examples or (() if found.tokens is None else (found.tokens,))
    if tokens is None:
        return np.array(examples) if examples else None
    if found.tokens is None:
        return tokens
    first = np.array(examples[:1])
    rows = np.asarray(tokens.detach().cpu() if hasattr(tokens, "detach") else tokens)
    if rows.ndim != 2 or rows.shape[1] != first.shape[1]:
        raise UsageError(
            f"the wrong input that was found has {first.shape[1]} tokens; rows beside it must have "
            f"as many, not {list(rows.shape)}"
        )
    if answer is not None and np.ndim(answer):
        raise UsageError("with found=, answer is one output for all rows")
    return np.concatenate([first, rows])


def _answers(answer: Any, rows: NDArray[np.int64], count: int) -> tuple[int, ...] | None:
    if answer is None:
        return None
    try:
        every = np.broadcast_to(np.asarray(answer, dtype=np.int64), (count,))
    except (ValueError, TypeError):
        raise UsageError(f"answer is one output, or one for each of the {count} rows") from None
    return tuple(every[rows].tolist())


def _read_rows(model: Any, batch: Rows) -> NDArray[np.int64]:
    """Places of the rows to read, within the bounds."""
    count, width = batch.tokens.shape
    row_size = row_bytes(model.cfg, width)
    if row_size > MOST_BYTES:
        fits = width
        while fits > 1 and row_bytes(model.cfg, fits) > MOST_BYTES:
            fits = fits * 3 // 4
        raise UsageError(
            f"one row of {width:,} tokens makes this model keep {row_size / 1e6:,.0f} MB of "
            f"activations, more than the {MOST_BYTES / 1e6:,.0f} MB of a report; rows of {fits:,} "
            "tokens fit"
        )
    work = width * max(1, parameters_of(model))
    most = max(1, min(MOST_ROWS, MOST_BYTES // row_size, MOST_WORK // work))
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _asked(
    model: Any,
    batch: Rows,
    rows: NDArray[np.int64],
    token_names: TokenNames | None,
    along: NDArray[np.float64] | None,
    masked: bool,
) -> Asked:
    tokens, at = batch.tokens[rows], batch.query[rows]
    seen = np.unique(tokens[batch.kept[rows]]).tolist()
    named, tokenizer = token_names, getattr(model, "tokenizer", None)
    if named is None and tokenizer is not None:  # spaces are shown as dots
        named = {token: str(tokenizer.decode([token])).replace(" ", "·") for token in seen}
    names = {} if named is None else {token: name_of(named, token) for token in seen}
    mask = batch.kept[rows].astype(int) if masked else None
    order = np.arange(len(rows))
    if along is not None:
        read = {"direction": along, "query": at.tolist(), "attention_mask": mask}
        values = readouts(Inputs(model, tokens, **read))
        order = np.argsort(-values, kind="stable")
    if len(order) > MOST_SHOWN:
        half = MOST_SHOWN // 2
        ends = np.concatenate([order[:half], order[-half:]])
        order = order[:MOST_SHOWN] if along is None else ends
    return Asked(
        tokens=tuple(map(tuple, tokens.tolist())),
        rows=tuple(rows.tolist()),
        given=len(batch.tokens),
        query=tuple(at.tolist()),
        names=names,
        direction=None if along is None else tuple(along.tolist()),
        attention_mask=None if mask is None else tuple(map(tuple, mask.tolist())),
        shown=tuple(int(rows[index]) for index in order),
    )


def _inputs(model: Any, asked: Asked, rows: Sequence[int]) -> Inputs:
    """These of the rows that are read, by their numbers among those that were given."""
    places = [asked.rows.index(row) for row in rows]
    mask, answer = asked.attention_mask, asked.answer
    return Inputs(
        model,
        np.array([asked.tokens[place] for place in places]),
        query=[asked.query[place] for place in places],
        token_names=dict(asked.names) or None,
        direction=None if asked.direction is None else np.array(asked.direction),
        attention_mask=None if mask is None else np.array([mask[place] for place in places]),
        answer=None if answer is None else [answer[place] for place in places],
    )


def _only_shown(result: R, names: dict[str, str]) -> R:
    """The result with the rows that are shown, under the names they have in the report."""
    changed: dict[str, Any] = {}
    for field in type(result).model_fields:
        value = getattr(result, field)
        if isinstance(value, LabeledArray) and "string" in value.dims:
            old = value.labels["string"]
            places = [place for place, name in enumerate(old) if name in names]
            labels = {**value.labels, "string": [names[old[place]] for place in places]}
            array = np.take(value.array, places, axis=value.dims.index("string"))
            changed[field] = LabeledArray.of(array, **labels)
        elif isinstance(value, Record) and not isinstance(value, LabeledArray):
            changed[field] = _only_shown(value, names)
    if isinstance(result, PatternsResult):
        strings = [string.model_copy(update={"name": names.get(string.name, string.name)})
                   for string in result.strings]  # fmt: skip
        changed["strings"] = tuple(strings)
    return result.model_copy(update=changed)
