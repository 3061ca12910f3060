"""Figures of a trace's residual stream: embeddings, each stage at CLS, and the decision."""

from __future__ import annotations

import numpy as np

from tsc_interp.plots.colours import INK, token_style
from tsc_interp.plots.series import each
from tsc_interp.plots.style import Figure, add_arrow, decision_line, decision_shape
from tsc_interp.plots.vectors import Field, choice, plane, space, string_styles, vector_words, view
from tsc_interp.probes.trace.figures_heads import MAX_MENU
from tsc_interp.probes.trace.result import TraceResult
from tsc_interp.results.base import LabeledArray


def embeddings(result: TraceResult) -> Figure:
    tokens = [token for token in result.embeddings.labels["token"] if token != "PAD"]
    points = np.stack([result.embeddings.at(token=token) for token in tokens])
    styles = [token_style(token) for token in tokens]
    if points.shape[1] >= 3 and len(tokens) == 4:
        figure = space(points, tokens, styles)
        remark = (
            "Four points span three dimensions, so nothing is lost: every distance is exact. "
            "Drag to turn it."
        )
    else:
        seen = view(points)
        figure = plane(seen, tokens, styles)
        remark = seen.remark or "Each arrow is what the model knows of a token before attention."
    return Figure(
        "embeddings", "Embeddings", figure, remark, f"Embeddings: {vector_words(tokens, points)}."
    )


_STAGE_WORDS = {
    "attn_out": ("Attention output", "What attention adds to CLS, for each string."),
    "resid_mid": ("CLS after attention", "CLS's embedding plus the attention output."),
    "mlp_out": ("MLP output", "What the MLP adds to CLS, for each string."),
}


def stage(result: TraceResult, name: str) -> Figure:
    points = result.states.at(stage=name, token="CLS")[-1]
    seen = view(points)
    field = field_of(result.residual_field) if name == "resid_mid" else None
    figure = plane(seen, result.strings, string_styles(result.labels, result.right), field=field)
    title, caption = _STAGE_WORDS[name]
    if field is not None:
        caption += " Behind it what MLP and read-out make of each point: blue no, vermillion yes."
    return Figure(
        name.replace("_", "-"),
        title,
        figure,
        f"{caption} {seen.remark}".strip(),
        f"{title}: {vector_words(result.strings, points)}.",
    )


def readout(result: TraceResult) -> Figure:
    points = result.states.at(stage="resid_post", token="CLS")[-1]
    direction = result.readout.array
    seen = view(points, first_axis=direction, first_name="along the read-out")
    line = [] if seen.exact else [[0.0, float(seen.points[:, 1].mean())]]
    figure = plane(seen, result.strings, string_styles(result.labels, result.right), show=line)
    if seen.exact and points.shape[1] == 2:
        figure.add_shape(decision_shape(direction))
        reach = 0.5 * float(np.abs(seen.points).max()) / (float(np.hypot(*direction)) or 1.0)
        add_arrow(figure, direction * reach, colour=INK, hover="read-out direction", dash="dot")
        how = "The dotted arrow is the read-out direction; on the dashed line the logit is zero."
    else:
        decision_line(figure, x=0)
        how = "The read-out direction runs across, so the dashed line is exactly logit zero."
    return Figure(
        "transformed",
        "Transformed CLS and the decision",
        figure,
        f"{how} {seen.remark}".strip(),
        f"Transformed CLS: {vector_words(result.strings, points)}. Read-out: "
        + vector_words(["w"], direction[None, :])
        + ".",
    )


_NORMALISED = {"resid_mid": "CLS after attention", "resid_post": "Transformed CLS"}


def normalised(result: TraceResult, name: str) -> Figure:
    """CLS's hidden states divided by their lengths: directions only, on the unit circle."""
    states = result.states.at(stage=name, token="CLS")[-1]
    lengths = np.linalg.norm(states, axis=1, keepdims=True)
    points = np.divide(states, lengths, where=lengths > 0, out=np.zeros_like(states))
    flat = points.shape[1] == 2
    seen = view(points)
    circle = [[-1.0, -1.0], [1.0, 1.0]] if flat else []
    styles = string_styles(result.labels, result.right)
    figure = plane(seen, result.strings, styles, show=circle)
    how = "Each state divided by its length, so that only its direction is left."
    if flat:
        figure.add_shape(type="circle", x0=-1, x1=1, y0=-1, y1=1, line={"color": INK, "width": 1})
    if flat and name == "resid_post":
        figure.add_shape(decision_shape(result.readout.array))
        how += " The dashed line is at right angles to the read-out."
    size = float(np.linalg.norm(result.readout.array)) or 1.0
    cosines = points @ result.readout.array / size
    spoken = each("{} {:+.4f}", result.strings, cosines, between=", ")
    title = f"{_NORMALISED[name]}, normalised"
    return Figure(
        f"normalised-{name.replace('_', '-')}",
        title,
        figure,
        f"{how} {seen.remark}".strip(),
        f"{title}. Cosines with the read-out: {spoken}.",
    )


def journeys(result: TraceResult) -> Figure:
    """Every token before and after the model, one string at a time."""
    before, after = (result.states.at(stage=s) for s in ("resid_pre", "resid_post"))
    tokens = list(result.states.labels["token"])
    panels = []
    for index, string in enumerate(result.strings[:MAX_MENU]):
        present = [t for t in tokens if t == "CLS" or t in string]
        rows = [tokens.index(t) for t in present]
        start, end = before[0, index][rows], after[-1, index][rows]
        seen = view(np.vstack([start, end]))
        names = [*(f"{t} before" for t in present), *(f"{t} after" for t in present)]
        styles = [token_style(t) for t in present] * 2
        panel = plane(seen, names, styles, arrows=False)
        for place, token in enumerate(present):
            add_arrow(
                panel,
                seen.points[len(present) + place],
                seen.points[place],
                colour=token_style(token).colour,
                hover=token,
            )
        panels.append((string, panel))
    moves = np.linalg.norm(after[-1, :, 0] - before[0, :, 0], axis=1)
    spoken = each("{} {:.4f}", result.strings, moves, between=", ")
    return Figure(
        "journeys",
        "Every token, before and after",
        choice(panels),
        "Choose a string: arrows lead from each token's embedding to what it has become.",
        f"CLS moves by: {spoken}.",
    )


def field_of(array: LabeledArray | None) -> Field | None:
    if array is None:
        return None
    x, y = ([float(label) for label in array.labels[axis]] for axis in ("x", "y"))
    return x, y, array.array
