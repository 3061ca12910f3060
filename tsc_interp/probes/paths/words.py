"""What the paths probe found, in sentences."""

from __future__ import annotations

import numpy as np

from tsc_interp.probes.paths.result import Paths, PathsResult
from tsc_interp.probes.wording import SCALE
from tsc_interp.results.base import Cell, Finding


def findings(result: PathsResult) -> tuple[Finding, ...]:
    statements: list[Finding] = []
    for paths in result.pairs:
        statements.append(_largest(paths))
        if len(paths.edges):
            statements.append(_estimates(paths))
    return (*statements, _nothing(result))


def _largest(paths: Paths) -> Finding:
    shown = [edge for edge in paths.edges[:5] if abs(edge.effect) >= 0.005]
    edges = ", ".join(f"{edge.name} {edge.effect:.2f}" for edge in shown) or "none"
    text = f"{paths.pair.sentence()} These edges have the largest effects ({SCALE}): {edges}."
    return Finding.of(text, {edge.name: edge.effect for edge in shown}, paths.pair.severity)


def _estimates(paths: Paths) -> Finding:
    errors = paths.estimates - paths.effects
    worst = int(np.abs(errors).argmax())
    edge = paths.edges[worst]
    ranks = paths.rank_correlation
    off = (
        "less than 0.01 for every edge"
        if abs(errors[worst]) < 0.005
        else f"{_signed(errors.mean())} on average and by {_signed(errors[worst])} at most "
        f"({edge.name}: exact {edge.effect:.2f}, estimated {edge.estimate:.2f})"
    )
    ranked = (
        "" if ranks is None else f" Exact and estimated ranks have a correlation of {ranks:.2f}."
    )
    text = (
        f"Attribution patching estimates the effects of the {len(errors):,} edges from "
        f"`{paths.pair.clean}` into `{paths.pair.corrupted}` by gradients. Its estimates are off "
        f"by {off}.{ranked}"
    )
    numbers: dict[str, Cell] = {
        "mean error": float(errors.mean()),
        "largest error": float(errors[worst]),
    }
    if ranks is not None:
        numbers["rank correlation"] = ranks
    return Finding.of(text, numbers)  # of the method, not the model


def _signed(error: float) -> str:
    return f"{error:+.2f}" if abs(error) >= 0.005 else "less than 0.01"


def _nothing(result: PathsResult) -> Finding:
    """What was not measured, or carries nothing by construction."""
    same = sum(paths.same for paths in result.pairs)
    measured = sum(len(paths.edges) for paths in result.pairs)
    text = (
        f"{measured:,} edges were measured one by one. The sources of {same:,} more are the same "
        "in both runs, so they carry nothing."
    )
    if result.by == "letter":
        text += (
            " The same holds for the edges from the embedding, which are not counted: the two "
            "strings differ only in how often each letter occurs."
        )
    left = sum(paths.left_out for paths in result.pairs)
    if left:
        most = max(paths.left_out_estimate for paths in result.pairs)
        text += (
            f" {left:,} edges were left out because there are many: those with the smallest "
            f"estimates, {most:.2g} at most."
        )
    return Finding.of(text, {"measured": measured, "same": same, "left out": left})
