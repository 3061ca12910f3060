"""Figures as HTML that a page includes, and the one copy of plotly.js the whole site loads."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs
from plotly.utils import PlotlyJSONEncoder

from tsc_interp.output.display import prose
from tsc_interp.plots.figure import CONFIG
from tsc_interp.plots.style import Figure, template


def write_assets(folder: Path) -> None:
    """plotly.js, and the two themes that `assets/figures.js` switches between."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plotly.min.js").write_text(get_plotlyjs(), encoding="utf-8")
    themes = {name: template(dark=name == "dark").to_plotly_json() for name in ("light", "dark")}
    themes["config"] = CONFIG
    (folder / "themes.js").write_text(f"window.tscThemes = {_json(themes)};\n", encoding="utf-8")


def fragment(figure: Figure) -> str:
    """One figure: its title, a place for the plot, how to read it, and its data."""
    drawing = figure.figure.to_plotly_json()
    drawing["layout"] = {k: v for k, v in drawing["layout"].items() if k != "template"}
    height = figure.figure.layout.height or 420
    return (
        f'<figure class="tsc-figure">\n'
        f"<h4>{escape(figure.title)}</h4>\n"
        f'<div class="tsc-plot" role="img" aria-label="{escape(figure.alt)}" '
        f'style="min-height: {height}px"></div>\n'
        f'<script type="application/json">{_json(drawing)}</script>\n'
        f"<figcaption>{prose(figure.caption)}</figcaption>\n"
        f"</figure>\n"
    )


def _json(value: Any) -> str:
    """JSON that can stand inside a script element."""
    text = json.dumps(value, cls=PlotlyJSONEncoder, separators=(",", ":"))
    return text.replace("<", "\\u003c")
