"""Figures of patching: the effect of single parts, of the residual stream, and inside each head."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from tsc_interp.plots.colours import MUTED
from tsc_interp.plots.heat import heat
from tsc_interp.plots.series import signed_bars
from tsc_interp.plots.style import INK, Figure
from tsc_interp.probes.patching.result import Patched, PatchingResult, Site
from tsc_interp.results.base import largest

MOST_ROWS = 32
_STREAM = ("resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post")
_IN_HEAD = ("z", "pattern", "q", "k", "v")
_SAME = "= marks what is the same in both runs, where there is nothing to patch."


def figures(result: PatchingResult) -> list[Figure]:
    drawn: list[Figure] = []
    for number, patched in enumerate(result.pairs):
        mark = f"-{number + 1}" if number else ""
        drawn.append(_parts(result, patched, mark))
        drawn.append(_stream(result, patched, mark))
        if patched.has("z_all_pos"):
            drawn.append(_heads(result, patched, mark))
            drawn.append(_inside(result, patched, mark))
    return drawn


def _parts(result: PatchingResult, patched: Patched, mark: str) -> Figure:
    rows: list[tuple[str, float, str]] = []
    for i in range(result.n_layers):
        if patched.has("z_all_pos"):
            heads = patched.site("z_all_pos").effect.array[i].tolist()
            rows += [(_name(result, i, f"head {h}"), e, MUTED[0]) for h, e in enumerate(heads)]
        if patched.has("post"):
            neurons = patched.site("post").effect.array[i, result.query].tolist()
            rows += [(_name(result, i, f"neuron {n}"), e, MUTED[1]) for n, e in enumerate(neurons)]
    kept = largest([abs(effect) for _, effect, _ in rows], MOST_ROWS)
    names, effects, colours = zip(*(rows[k] for k in kept), strict=True)
    figure = signed_bars(
        effects,
        names,
        x="effect on the logit",
        colours=colours,
        hatched=[False] * len(kept),
        notes=[""] * len(kept),
        hover=[f"{name}: {effect:.4f}" for name, effect in zip(names, effects, strict=True)],
    )
    low, high = figure.layout.xaxis.range
    figure.update_xaxes(range=[low, max(high, 1.04)])
    figure.add_shape(
        type="line", x0=1, x1=1, y0=0, y1=1, yref="y domain", line={"color": INK, "width": 1}
    )
    left = "" if len(kept) == len(rows) else f" The largest {len(kept)} of {len(rows)} parts."
    best = int(np.abs(effects).argmax())
    return Figure(
        f"parts{mark}",
        f"What restores the clean logit: {patched.pair.clean} into {patched.pair.corrupted}",
        figure,
        f"{patched.pair.scale()} Each head's output, and each neuron at "
        f"{patched.place(result.query)}, patched alone; the thin line is at 1.{left}",
        f"The largest effect is that of {names[best]}: {effects[best]:.4f}.",
    )


def _stream(result: PatchingResult, patched: Patched, mark: str) -> Figure:
    rows, cells, words = [], [], []
    for i in range(result.n_layers):
        for name in _STREAM:
            if patched.has(name):
                site = patched.site(name)
                rows.append(_name(result, i, name))
                cells.append(site.effect.array[i])
                words.append(_words(site.same[i]))
    figure = heat(np.stack(cells), rows, patched.pair.positions, words=words)
    places = (
        "A position is a kind of token, all copies of a letter at once."
        if result.by == "letter"
        else "b|c: b in the clean string, c in the corrupted one."
    )
    last = patched.site("resid_post").effect.array[-1, result.query]
    return Figure(
        f"stream{mark}",
        f"Where the difference is: {patched.pair.clean} into {patched.pair.corrupted}",
        figure,
        f"{patched.pair.scale()} The residual stream and what is added to it, patched at one "
        f"position at a time. {places} {_SAME}",
        f"The last residual stream at {patched.place(result.query)} restores {float(last):.2f}; "
        + "; ".join(
            f"{row} {patched.pair.positions[int(np.abs(cell).argmax())]} "
            f"{cell[int(np.abs(cell).argmax())]:.2f}"
            for row, cell in zip(rows[:-1], cells[:-1], strict=True)
        )
        + ".",
    )


def _heads(result: PatchingResult, patched: Patched, mark: str) -> Figure:
    sites = [patched.site(f"{name}_all_pos") for name in _IN_HEAD]
    cells = np.stack([site.effect.array.ravel() for site in sites], axis=1)
    same = np.stack([site.same.ravel() for site in sites], axis=1)
    figure, kept, names = _by_head(result, sites[0], cells, same, list(_IN_HEAD))
    best = int(np.abs(cells[:, 0]).argmax())
    return Figure(
        f"heads{mark}",
        f"Inside each head: {patched.pair.clean} into {patched.pair.corrupted}",
        figure,
        f"{patched.pair.scale()} What a head returns (z), how it spreads its attention (pattern), "
        f"its queries, keys and values, each patched at all positions at once. {_SAME}{kept}",
        f"The largest output effect is that of {names[best]}: {cells[best, 0]:.4f}.",
    )


def _inside(result: PatchingResult, patched: Patched, mark: str) -> Figure:
    """By letter, whose count matters to which head; by position, whose value."""
    pair = patched.pair
    if patched.has("scores_by_src"):
        site = patched.site("scores_by_src")
        cells = site.effect.array.reshape(-1, site.effect.shape[-1])
        same = site.same.reshape(cells.shape)
        change = (
            "One head sees one letter as often as the clean string has it: its scores for that "
            "letter, which hold the count, come from the clean run."
            if result.by == "letter"
            else "One head's scores for one position come from the clean run."
        )
        title = "Whose count matters to which head" if result.by == "letter" else "Which keys"
    else:
        site = patched.site("v")
        cells = np.moveaxis(site.effect.array, 1, 2).reshape(-1, len(pair.positions))
        same = np.moveaxis(site.same, 1, 2).reshape(cells.shape)
        change, title = "One head's value at one position comes from the clean run.", "Which values"
    heads = patched.site("z_all_pos")
    figure, kept, names = _by_head(result, heads, cells, same, list(pair.positions))
    row, column = np.unravel_index(int(np.abs(cells).argmax()), cells.shape)
    return Figure(
        f"counts{mark}",
        f"{title}: {pair.clean} into {pair.corrupted}",
        figure,
        f"{pair.scale()} {change} {_SAME}{kept}",
        f"The largest effect is {names[int(row)]} with {pair.positions[int(column)]}: "
        f"{cells[row, column]:.4f}.",
    )


def _by_head(
    result: PatchingResult,
    site: Site,
    cells: NDArray[np.float64],
    same: NDArray[np.bool_],
    columns: list[str],
) -> tuple[go.Figure, str, list[str]]:
    """One row per head, the largest effects if there are many."""
    names = [_name(result, int(i), f"head {h}") for i, h in np.ndindex(site.effect.shape)]
    kept = largest(np.abs(cells).max(axis=1), MOST_ROWS)
    words = [_words(row) for row in same[kept]]
    figure = heat(cells[kept], [names[k] for k in kept], columns, words=words)
    left = "" if len(kept) == len(names) else f" The {len(kept)} largest of {len(names)} heads."
    return figure, left, names


def _words(same: NDArray[np.bool_]) -> list[str]:
    return ["=" if unchanged else "" for unchanged in same]


def _name(result: PatchingResult, layer: int, name: str) -> str:
    return name if result.n_layers == 1 else f"{layer}: {name}"
