"""Figures as files, through kaleido, which drives a browser."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import plotly.graph_objects as go

from tsc_interp.errors import TscError
from tsc_interp.plots.figure import Figure

HOW_TO_GET = (
    "images need kaleido and a Chrome or Chromium browser: pip install 'tsc-interp[images]', then "
    "install a browser or run plotly_get_chrome"
)


class ImagesUnavailable(TscError):
    """No image could be made; the message says how to get what is missing."""


def check_images(kind: str) -> None:
    """Draw nothing, once: better to learn before the work than after it that images fail."""
    import plotly.io

    with _explained():
        plotly.io.to_image(go.Figure(), format=kind)


def write_images(figures: Mapping[str, Figure], directory: Path, kind: str) -> dict[str, str]:
    """One file per figure on a white ground: anchor to path relative to the report."""
    import plotly.io

    drawn: dict[str, go.Figure] = {}
    for key, figure in figures.items():
        titled = go.Figure(figure.figure)
        titled.update_layout(title=figure.title, margin_t=64, paper_bgcolor="white", width=800)
        drawn[key] = titled
    directory.mkdir()
    files = [directory / f"{key}.{kind}" for key in drawn]
    with _explained():
        plotly.io.write_images(
            fig=list(drawn.values()), file=files, scale=2 if kind == "png" else 1
        )
    return {key: f"{directory.name}/{file.name}" for key, file in zip(drawn, files, strict=True)}


@contextmanager
def _explained() -> Iterator[None]:
    """kaleido raises whatever its browser driver raised; to the reader it is all the same."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise _unavailable(error) from None
    except Exception as error:
        raise _unavailable(error) from None


def _unavailable(error: Exception) -> ImagesUnavailable:
    first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ImagesUnavailable(f"no images can be made ({first_line}); {HOW_TO_GET}")
