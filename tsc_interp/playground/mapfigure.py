"""The failure map as a picture by itself: every mixture of letters, coloured by the answer.

    letters' ratios -> logits (mapfields) -> regions between levels (contours) -> SVG in a figure

It is the picture the page draws (`assets/drawmap.mjs`), without a script.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Mapping, Sequence

import numpy as np

from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.playground import contours, geometry
from tsc_interp.playground.geometry import Array
from tsc_interp.playground.mapfields import MapView, Support, SupportField, map_length
from tsc_interp.playground.payload import mapped
from tsc_interp.playground.scripts import assemble_style
from tsc_interp.verification.count_model import CountModel

LEVELS = (-8.0, -3.0, -1.0, 0.0, 1.0, 3.0, 8.0)
"""Logits at which the colour changes."""


def failure_map(
    model: ModelLike,
    *,
    string: str | None = None,
    length: int | None = None,
    letters: str | None = None,
    lens: float = 4.0,
) -> str:
    """Draw the failure map: every ratio of letters, coloured by the logit, errors striped.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        string: A string to mark on the map.
        length: If the answer depends on more than ratios, the length of the strings shown; by
            default that of `string`, or 1,000.
        letters: Two or three letters of a larger alphabet; by default those of the string, then
            those of the task.
        lens: How much the edges are magnified; 1 is not at all.

    Returns:
        HTML that stands by itself in any page: one `figure` with its style and no script. Colours
        follow the reader's light or dark, or a `data-theme` of the page.

    Example:
        >>> failure_map("walkthrough", string="abc{2165}")[:24]
        '<figure class="tsc-map">'
    """
    checkpoint = mapped(model)
    config = checkpoint.config
    counts = None if string is None else config.alphabet.counts(string)
    if length is not None and length < 1:
        raise UsageError(f"a map shows strings of one letter or more; got length {length}")
    if length is None and counts is not None:
        length = int(counts.sum())
    needed = [] if counts is None else [int(i) for i in np.flatnonzero(counts)]
    view = MapView(config, shown_letters(config, letters, needed), lens, map_length(config, length))
    fields = view.fields(CountModel(checkpoint)) if len(view.letters) > 1 else []
    mark = "" if counts is None or not fields else _mark(view, counts.astype(np.float64))
    picture = _svg(view, fields, mark) if fields else ""
    legend = _LEGEND.replace("</p>", f"{_MARKED}</p>" if mark else "</p>") if fields else ""
    return figure(picture, legend, caption(view))


def figure(picture: str, legend: str, words: str) -> str:
    return (
        f'<figure class="tsc-map"><style>{assemble_style("map.css")}</style>{picture}'
        f"<figcaption>{legend}<p>{words}</p></figcaption></figure>"
    )


_LEGEND = (
    '<p class="map-legend"><span>no <i class="map-scale"></i> yes</span> '
    '<span><i class="map-key"></i> wrong</span></p>'
)
_MARKED = ' <span><i class="map-you"></i> the string</span>'


def shown_letters(config: ClassifierConfig, given: str | None, needed: Sequence[int]) -> Support:
    """Up to three letters: as given, or the string's, then the task's, then others."""
    letters = config.alphabet.letters
    if given is None:
        candidates = [*(letters[i] for i in needed), *config.task.needs, *letters]
        given = "".join(sorted(dict.fromkeys(candidates), key=candidates.index)[:3])
        given = "".join(sorted(given))
    if not set(given) <= set(letters) or len(set(given)) != len(given) or not 1 <= len(given) <= 3:
        raise UsageError(f"a map shows up to three different letters of {letters}; got {given!r}")
    return tuple(letters.index(letter) for letter in given)


# -- words -----------------------------------------------------------------------------------------


def caption(view: MapView) -> str:
    if len(view.letters) < 2:
        return "With one letter there is nothing to mix, so there is no map of mixtures."
    *first, last = view.names
    names = f"{', '.join(first)} and {last}"
    opening = f"Every mixture of {names} is a point" + (
        ": inside all three occur, on a band two, on a disc one."
        if len(view.letters) == 3
        else " of the line; the discs are the letters alone."
    )
    opening += " Corners are magnified." if view.lens > 1 else ""
    holds = (
        "Only ratios matter here, so the map holds for every length."
        if view.length is None
        else f"Length matters too: these are the strings of length {view.length:,}."
    )
    left_out = view.config.n_letters - len(view.letters)
    note = f" Strings with any of the other {left_out} letters are not on it." if left_out else ""
    return f"{opening} {holds}{note}"


def summary(view: MapView, fields: Sequence[SupportField]) -> str:
    """What a person who cannot see the map needs to know, support by support."""
    texts = []
    for field in fields:
        wrong = field.wrong > 0
        kinds = sorted({"yes" if logit > 0 else "no" for logit in field.logits[wrong]})
        where = "right" if not wrong.any() else "wrong" if wrong.all() else "wrong in part"
        names = ", ".join(view.names[place] for place in field.places)
        texts.append(f"{names}: {where}" + (f" (says {' or '.join(kinds)})" if kinds else ""))
    return "; ".join(texts) + "."


# -- picture ---------------------------------------------------------------------------------------


def layers(view: MapView, fields: Sequence[SupportField]) -> dict[str, str]:
    """Path text by class: `l0` to `l7` from surest no to surest yes, `wrong`, `zero`."""
    paths = {f"l{level}": "" for level in range(len(LEVELS) + 1)} | {"wrong": "", "zero": ""}
    for field in fields:
        levels = {f"l{level}": field.logits - least for level, least in enumerate(LEVELS, start=1)}
        regions = {**levels, "wrong": field.wrong}
        paint(paths, view, field.places, "l0", regions, {"zero": field.logits})
    return paths


def paint(
    paths: dict[str, str], view: MapView, places: Support, ground: str,
    regions: Mapping[str, Array], lines: Mapping[str, Array],
) -> None:  # fmt: skip
    """Add a support to the paths: regions where values are positive, lines where they are zero."""
    if len(places) == 1:
        return  # one letter alone is a disc
    inside = len(places) == 3
    outline = contours.polygon_path(geometry.CORNERS) if inside else strip(view, places, [(0, 1)])
    paths[ground] += outline
    for name, values in regions.items():
        paths[name] += region(view, places, values)
    for name, values in lines.items() if inside else ():
        paths[name] += contours.line_path(contours.trace(values))


def region(view: MapView, places: Support, values: Array) -> str:
    if len(places) == 3:
        return contours.region_path(contours.trace(values))
    return strip(view, places, contours.stretches(values))


def strip(view: MapView, places: Support, parts: Sequence[tuple[float, float]]) -> str:
    if len(view.letters) == 2:
        return "".join(contours.bar_path(*part) for part in parts)
    edge = (places[0], places[1])
    return "".join(contours.band_path(edge, *part) for part in parts)


def _svg(view: MapView, fields: Sequence[SupportField], mark: str) -> str:
    paths = layers(view, fields)
    words = summary(view, fields)
    unique = unique_name((paths, words))
    drawn = "".join(
        f'<path class="{name}"{_fill(name, unique)} d="{d}"/>' for name, d in paths.items() if d
    )
    hatches = f"<defs>{_hatch(unique, 90)}{_hatch(f'{unique}-s', 9)}</defs>"
    discs = _discs(view, fields, f"{unique}-s") + frame(view.names) + mark
    return svg(view, unique, f"Failure map. {words}", drawn, discs, hatches)


def unique_name(content: object) -> str:
    return "map-" + hashlib.sha256(repr(content).encode()).hexdigest()[:8]


def svg(
    view: MapView, unique: str, words: str, areas: str, marks: str, definitions: str = ""
) -> str:
    """`areas` are paths in tenths of a unit; `marks` come on top."""
    top, height = (0, geometry.HEIGHT) if len(view.letters) == 3 else (100, 170)
    return (
        f'<svg viewBox="0 {top} {geometry.WIDTH} {height}" role="img" aria-labelledby="{unique}-t">'
        f'<title id="{unique}-t">{html.escape(words)}</title>{definitions}'
        f'<g transform="scale(.1)">{areas}</g>{marks}</svg>'
    )


def _hatch(name: str, step: int) -> str:
    return (
        f'<pattern id="{name}" width="{step}" height="{step}" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><path class="hatch" '
        f'd="M0 0h{step * 0.45}v{step}h-{step * 0.45}z"/></pattern>'
    )


def _fill(name: str, hatch: str) -> str:
    return f' fill="url(#{hatch})"' if name == "wrong" else ""


def _discs(view: MapView, fields: Sequence[SupportField], hatch: str) -> str:
    drawn = ""
    for field in [field for field in fields if len(field.places) == 1]:
        level = sum(field.logits[0] > least for least in LEVELS)
        drawn += disc(view, field.places[0], f'class="l{level} rim"')
        if field.wrong[0] > 0:
            drawn += disc(view, field.places[0], f'class="wrong"{_fill("wrong", hatch)}')
    return drawn


def disc(view: MapView, place: int, style: str) -> str:
    x, y = disc_at(view.names, place)
    return f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="{geometry.DISC_RADIUS:.0f}"/>'


def disc_at(names: Sequence[str], place: int) -> Array:
    three = len(names) == 3
    return geometry.disc_centre(place) if three else np.array(geometry.LINE_ENDS[place])


def frame(names: Sequence[str]) -> str:
    """The outline and the letters' names."""
    from tsc_interp.plots.style import token_style

    discs = [disc_at(names, place) for place in range(len(names))]
    if len(names) == 3:
        corners = " ".join(f"{x},{y}" for x, y in geometry.CORNERS)
        outline = f'<polygon class="rim frame" points="{corners}"/>'
        spots = [disc + 0.95 * (disc - geometry.CORNERS[i]) for i, disc in enumerate(discs)]
    else:
        left, top, right, bottom = geometry.LINE
        size = f'width="{right - left}" height="{bottom - top}"'
        outline = f'<rect class="rim frame" x="{left}" y="{top}" {size}/>'
        spots = [np.array([x, top - 2]) for x, _ in discs]
    return outline + "".join(
        f'<text class="corner" x="{x:.1f}" y="{y:.1f}" '
        f'style="--letter:{token_style(name).colour}">{name}</text>'
        for name, (x, y) in zip(names, spots, strict=True)
    )


def _mark(view: MapView, counts: Array) -> str:
    """The string's place, if all its letters are on the map."""
    own = counts[list(view.letters)]
    if own.sum() < counts.sum():
        return ""
    x, y = geometry.mark_place(geometry.through_lens(own / own.sum(), 1 / view.lens))
    return "".join(
        f'<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'
        for name, radius in (("you-halo", 8), ("you-ring", 8), ("you-dot", 2.5))
    )
