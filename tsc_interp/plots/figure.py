"""A plotly figure and the words that belong to it, and how a notebook shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import plotly.graph_objects as go

from tsc_interp.errors import UsageError

CONFIG = {
    "responsive": True,
    "displaylogo": False,
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "modeBarButtonsToRemove": ["toImage", "select2d", "lasso2d"],
}
"""What plotly offers over a figure, in every page and notebook: zoom, and nothing that uploads."""


@dataclass(frozen=True, repr=False)
class Figure:
    """The title stays out of the plot itself: pages and notebooks set it where they want it."""

    name: str
    """A slug, unique within a probe, such as `values-by-head`: file name and anchor."""
    title: str
    figure: go.Figure
    caption: str
    """How to read it, in a sentence or two."""
    alt: str
    """What a person who cannot see it needs to know, with the numbers that matter."""

    def show(self) -> None:
        """Open the figure by itself, with its title."""
        self.titled().show(config=CONFIG)

    def titled(self) -> go.Figure:
        """The plot with its title in it, to stand alone."""
        alone = go.Figure(self.figure)
        top = max(60, 44 + (alone.layout.margin.t or 0))
        return alone.update_layout(title=self.title, margin_t=top)

    def __repr__(self) -> str:
        return f"<Figure {self.name}: {self.title}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """As plotly shows its own: its script is loaded once per notebook, not with each figure."""
        bundle: dict[str, Any] = self.titled()._repr_mimebundle_(include, exclude)
        for shown in bundle.values():
            if isinstance(shown, dict):
                shown["config"] = {**shown.get("config", {}), **CONFIG}
        return bundle


class Figures(Sequence[Figure]):
    """The figures of a result, in reading order, by place or by name."""

    def __init__(self, figures: Sequence[Figure]) -> None:
        self._figures = tuple(figures)

    @overload
    def __getitem__(self, which: int | str) -> Figure: ...
    @overload
    def __getitem__(self, which: slice) -> Figures: ...
    def __getitem__(self, which: int | str | slice) -> Figure | Figures:
        if isinstance(which, slice):
            return Figures(self._figures[which])
        if isinstance(which, int):
            return self._figures[which]
        for figure in self._figures:
            if figure.name == which:
                return figure
        names = ", ".join(figure.name for figure in self._figures)
        raise UsageError(f"no figure {which!r}; the figures are {names}")

    def __len__(self) -> int:
        return len(self._figures)

    def __iter__(self) -> Iterator[Figure]:
        return iter(self._figures)

    def __repr__(self) -> str:
        return f"<Figures: {', '.join(figure.name for figure in self._figures)}>"

    def _ipython_display_(self) -> None:
        from IPython.display import display

        for figure in self._figures:
            display(figure)
