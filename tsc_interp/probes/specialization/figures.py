"""Figures of specialization: what each head reads, and which heads are alike."""

from __future__ import annotations

from tsc_interp.plots.colours import SHARE
from tsc_interp.plots.heat import heat
from tsc_interp.plots.style import Figure
from tsc_interp.probes.specialization.result import SpecializationResult


def figures(result: SpecializationResult) -> list[Figure]:
    drawn = []
    for i, layer in enumerate(result.attention.labels["layer"]):
        drawn.append(_reading(result, i, layer))
        if result.overlap.shape[1] > 1:
            drawn.append(_overlap(result, i, layer))
    return drawn


def _reading(result: SpecializationResult, i: int, layer: str) -> Figure:
    heads, letters = result.attention.labels["head"], result.attention.labels["letter"]
    rows = [f"head {head}" for head in heads]
    figure = heat(result.attention.array[i], rows, letters, show=".2%", colours=SHARE)
    spoken = "; ".join(
        f"{row} reads {letter} ({result.attention.array[i, h].max():.2%})"
        for h, (row, letter) in enumerate(zip(rows, result.reads[i], strict=True))
    )
    return Figure(
        f"reading-{layer}" if i else "reading",
        _title("Which letter each head reads", result, layer),
        figure,
        "A head's attention if every letter occurred once; each row sums to 100%. A head that has "
        "specialised has one dark cell, and each letter the task needs should have such a head.",
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
        _title("Do heads repeat each other?", result, layer),
        figure,
        "The share of their attention two heads have in common. Dark cells off the diagonal are "
        "heads that read the same.",
        f"The most alike are {heads[h]} and {heads[g]}, which share {most:.2%} of their attention.",
    )


def _title(title: str, result: SpecializationResult, layer: str) -> str:
    return title if len(result.attention.labels["layer"]) == 1 else f"{title}, layer {layer}"
