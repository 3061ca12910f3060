"""Figures of specialization: what each head reads, and which heads are alike."""

from __future__ import annotations

import numpy as np

from tsc_interp.plots.colours import SHARE
from tsc_interp.plots.heat import heat
from tsc_interp.plots.series import each
from tsc_interp.plots.style import Figure
from tsc_interp.probes.specialization.result import SpecializationResult
from tsc_interp.probes.wording import of_layer
from tsc_interp.results.base import HeadsResult


def figures(result: SpecializationResult) -> list[Figure]:
    if result.many_heads:
        return [leads(result), _chosen(result)]
    drawn = []
    for i, layer in enumerate(result.attention.labels["layer"]):
        drawn.append(_reading(result, i, layer))
        if result.overlap.shape[1] > 1:
            drawn.append(_overlap(result, i, layer))
    return drawn


def leads(result: HeadsResult) -> Figure:
    """Every head of a large model: how far ahead the token it scores highest is."""
    assert result.lead is not None
    lead, labels = result.lead.array, result.lead.labels
    cells = np.array(
        [[x if result.stands_out(i, h) else 0.0 for h, x in enumerate(row)] for i, row in
         enumerate(lead)]
    )  # fmt: skip
    rows = [f"layer {layer}" for layer in labels["layer"]]
    top = max(float(cells.max()), 1e-9)
    figure = heat(
        cells, rows, labels["head"], show=".2f", colours={**SHARE, "zmin": 0.0, "zmax": top}
    )
    clear = int((cells > 0).sum())
    return Figure(
        "leads",
        "Heads that read one token clearly",
        figure,
        "One cell per head: how far the score of the token it scores highest is ahead of the next. "
        "Empty cells are no further ahead than heads with shuffled weights, or by less than one "
        "token's scores differ from place to place.",
        f"{clear} of {lead.size} heads read one token clearly; the largest lead is "
        f"{float(cells.max()):.2f}.",
    )


def _chosen(result: SpecializationResult) -> Figure:
    labels = result.attention.labels
    shown = result.shown_by_name()
    rows = [name for _, _, name in shown]
    cells = np.array([result.attention.array[i, h] for i, h, _ in shown])
    figure = heat(cells, rows, labels["letter"], show=".0%", hover=".2%", colours=SHARE)
    reads = [result.reads[i][h] for i, h, _ in shown[:8]]
    spoken = each("{} reads {} ({:.0%})", rows[:8], reads, cells[:8].max(-1))
    return Figure(
        "reading",
        f"Which token heads read{result.of_all_heads()}",
        figure,
        "A head's attention if each of these tokens occurred once; each row sums to 100%. Of many "
        "heads those that read one token most clearly are drawn.",
        f"{spoken}.",
    )


def _reading(result: SpecializationResult, i: int, layer: str) -> Figure:
    heads, letters = result.attention.labels["head"], result.attention.labels["letter"]
    rows = [f"head {head}" for head in heads]
    figure = heat(result.attention.array[i], rows, letters, show=".2%", colours=SHARE)
    most = result.attention.array[i].max(-1)
    spoken = each("{} reads {} ({:.2%})", rows, result.reads[i], most)
    return Figure(
        f"reading-{layer}" if i else "reading",
        of_layer(f"Which {result.unit} each head reads", layer, result.attention.labels["layer"]),
        figure,
        f"A head's attention if every {result.unit} occurred once; each row sums to 100%. A head "
        "that has specialised has one dark cell"
        + (", and each letter the task needs should have such a head." if result.needs else "."),
        f"{spoken}.",
    )


def _overlap(result: SpecializationResult, i: int, layer: str) -> Figure:
    heads = [f"head {head}" for head in result.overlap.labels["head"]]
    columns = heads if len(heads) <= 4 else list(result.overlap.labels["head"])
    cells = result.overlap.array[i]
    figure = heat(cells, heads, columns, show=".0%", hover=".2%", colours=SHARE)
    pairs = [(float(cells[h, g]), h, g) for g in range(len(heads)) for h in range(g)]
    most, h, g = max(pairs)
    return Figure(
        f"overlap-{layer}" if i else "overlap",
        of_layer("Do heads repeat each other?", layer, result.attention.labels["layer"]),
        figure,
        "The share of their attention two heads have in common. Dark cells off the diagonal are "
        "heads that read the same.",
        f"The most alike are {heads[h]} and {heads[g]}, which share {most:.2%} of their attention.",
    )
