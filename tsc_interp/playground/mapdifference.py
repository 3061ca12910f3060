"""Where two models answer differently, on the map that shows where one fails."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UsageError
from tsc_interp.playground.mapfields import MapView, SupportField, map_length
from tsc_interp.playground.mapfigure import (
    caption,
    disc,
    figure,
    frame,
    paint,
    shown_letters,
    svg,
    unique_name,
)
from tsc_interp.playground.payload import mapped
from tsc_interp.verification.count_model import CountModel


def difference_map(
    first: ModelLike,
    second: ModelLike,
    *,
    names: tuple[str, str] = ("the first", "the second"),
    lens: float = 4.0,
) -> str:
    """Draw where two models answer differently, on the triangle of `failure_map`.

    Lines show where a logit is zero; the second model's line is dashed. If length matters to
    either model, the map shows strings of length 1,000.

    Args:
        first: A hooked model, a checkpoint, a bundled name, a path, or a run.
        second: Another one with the same alphabet.
        names: What the caption calls the two.
        lens: How much the edges are magnified; 1 is not at all.

    Returns:
        HTML that stands by itself in any page, without a script.

    Example:
        >>> difference_map("walkthrough", "attend-cls")[:24]
        '<figure class="tsc-map">'
    """
    checkpoints = [mapped(model) for model in (first, second)]
    configs = [checkpoint.config for checkpoint in checkpoints]
    if configs[0].n_letters != configs[1].n_letters:
        raise UsageError("the two models read different alphabets, so they have no map in common")
    letters = shown_letters(configs[0], None, [])
    length = next((n for c in configs if (n := map_length(c, None)) is not None), None)
    views = [MapView(config, letters, lens, length) for config in configs]
    if len(letters) < 2:
        return ""
    pairs = zip(
        *(v.fields(CountModel(c)) for v, c in zip(views, checkpoints, strict=True)), strict=True
    )
    return figure(_svg(views[0], list(pairs)), _legend(*names), caption(views[0]))


def _legend(first: str, second: str) -> str:
    keys = {
        "one": f"only {first} says yes",
        "two": f"only {second} says yes",
        "same": "they agree",
    }
    entries = (
        f'<span><i class="map-key {kind}"></i> {html.escape(words)}</span>'
        for kind, words in keys.items()
    )
    return f'<p class="map-legend">{" ".join(entries)}</p>'


def _svg(view: MapView, pairs: Sequence[tuple[SupportField, SupportField]]) -> str:
    """Regions `one` and `two`, where only one of the two says yes, over what they agree on."""
    paths = {"same": "", "one": "", "two": "", "zero": "", "zero two-zero": ""}
    discs, texts = "", []
    for first, second in pairs:
        only = {
            "one": np.minimum(first.logits, -second.logits),
            "two": np.minimum(-first.logits, second.logits),
        }
        names = ", ".join(view.names[place] for place in first.places)
        apart = [word for word, values in only.items() if (values > 0).any()]
        texts.append(f"{names}: {' and '.join(f'only {word}' for word in apart) or 'alike'}")
        if len(first.places) == 1:
            kind = apart[0] if apart else "same"
            discs += disc(view, first.places[0], f'class="{kind} rim"')
        lines = {"zero": first.logits, "zero two-zero": second.logits}
        paint(paths, view, first.places, "same", only, lines)
    drawn = "".join(f'<path class="{name}" d="{d}"/>' for name, d in paths.items() if d)
    words = "Only one says yes, by the letters that occur. " + "; ".join(texts) + "."
    marks = discs + frame(view.names)
    return svg(view, unique_name((paths, words)), f"Difference map. {words}", drawn, marks)
