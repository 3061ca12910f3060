"""Screen one of a TransformerLens model's page: what it is, a row taken apart, what is missing.

Made from what the report holds: no model is run here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tsc_interp.plots.colours import MUTED
from tsc_interp.probes.attribution.result import AttributionResult
from tsc_interp.probes.specialization.result import SpecializationResult
from tsc_interp.report.front import Bar, Head, Share, bars
from tsc_interp.report.model_report import ModelReport
from tsc_interp.report.outside_card import OutsideCard

MOST_PARTS = 8
MOST_HEADS = 4
MOST_SHARES = 6


@dataclass(frozen=True)
class RowApart:
    """One row, from the tokens that get the weight to the read-out."""

    name: str
    position: int
    heads: tuple[Head, ...]
    parts: tuple[Bar, ...]
    zero: float
    readout: float


@dataclass(frozen=True)
class OutsideFront:
    facts: tuple[tuple[str, str], ...]
    row: RowApart | None
    no_row: str
    not_asked: tuple[tuple[str, str], ...]


def outside_front(model: ModelReport, card: OutsideCard) -> OutsideFront:
    section = model.sections.get("attribution")
    told = None if section is None else section.result
    row = _apart(model, card, told) if isinstance(told, AttributionResult) else None
    return OutsideFront(
        facts=tuple(card.facts()),
        row=row,
        no_row="No row is taken apart: that needs attribution, and a direction to read along.",
        not_asked=tuple(model.not_run.items()),
    )


def _apart(model: ModelReport, card: OutsideCard, told: AttributionResult) -> RowApart:
    """The row with the largest read-out in size."""
    logits, names = told.logits.array, told.logits.labels["string"]
    row = int(np.abs(logits).argmax())
    place = card.asked.rows.index(card.asked.shown[row])
    parts, zero = bars(_largest(told, row))
    return RowApart(
        name=names[row],
        position=card.asked.query[place],
        heads=_heads(model, told, row),
        parts=parts,
        zero=zero,
        readout=float(logits[row]),
    )


def _largest(told: AttributionResult, row: int) -> dict[str, float]:
    """The groups that add most, and all others together."""
    groups, adds = told.by_group.labels["group"], told.by_group.array[row]
    order = np.argsort(-np.abs(adds), kind="stable")
    kept, rest = sorted(order[:MOST_PARTS].tolist()), order[MOST_PARTS:]
    found = {groups[g]: float(adds[g]) for g in kept}
    if len(rest):
        found[f"{len(rest)} others"] = float(adds[rest].sum())
    return found


def _heads(model: ModelReport, told: AttributionResult, row: int) -> tuple[Head, ...]:
    """What the heads that add most look at in this row; none without specialization."""
    section = model.sections.get("specialization")
    seen = None if section is None else section.result
    if not isinstance(seen, SpecializationResult):
        return ()
    of_row = seen.observed.array[:, row]  # both results have the rows in one order
    tokens, layers = seen.observed.labels["letter"], seen.observed.labels["layer"]
    groups, adds = list(told.by_group.labels["group"]), told.by_group.array[row]
    found = []
    for i, layer in enumerate(layers):
        for h in range(of_row.shape[1]):
            name = seen.head_name(layer, h)
            if name in groups:
                found.append(
                    Head(name, _shares(of_row[i, h], tokens), float(adds[groups.index(name)]))
                )
    return tuple(sorted(found, key=lambda head: -abs(head.adds))[:MOST_HEADS])


def _shares(weights: np.ndarray, tokens: tuple[str, ...]) -> tuple[Share, ...]:
    """The tokens with the most weight; what is left of the row is left blank."""
    order = np.argsort(-weights, kind="stable")[:MOST_SHARES]
    return tuple(
        Share(tokens[t], round(100 * float(weights[t]), 2), MUTED[place % len(MUTED)])
        for place, t in enumerate(order)
        if weights[t] > 0.0005
    )
