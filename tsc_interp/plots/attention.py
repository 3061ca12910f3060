"""Attention patterns as people look at them: thumbnails of heads, one large, tokens to point at.

A fragment of HTML with its data, style and script in it: it loads nothing, follows light and dark
pages, and works in a notebook, in a report and by itself.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.files import write_output
from tsc_interp.output.visible import visible

_START = '<!doctype html><html lang="en" class="tsc-attention-page">'


@dataclass(frozen=True)
class Head:
    layer: str
    head: str
    name: str


@dataclass(frozen=True, eq=False)
class Shown:
    """One string, or an average: its tokens, the position that is read, and the weights."""

    name: str
    tokens: Sequence[str]
    reads: int
    weights: NDArray[np.float64]
    """`[head query key]`."""


@dataclass(frozen=True, repr=False)
class AttentionView:
    """Attention patterns to look at and point at. A notebook displays it; `save()` writes a page.

    Args:
        heads: The heads, in the order of the weights.
        strings: What can be chosen from, the first one shown first.
        first: Which head is shown large at the start.
    """

    heads: tuple[Head, ...]
    strings: tuple[Shown, ...]
    first: int = 0

    def __repr__(self) -> str:
        names = ", ".join(visible(string.name) for string in self.strings[:3])
        more = ", ..." if len(self.strings) > 3 else ""
        return f"<AttentionView: {len(self.heads)} heads on {names}{more}>"

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self, *, shared: bool = False) -> str:
        """The fragment. With `shared`, a page has the style and the script already."""
        own = "" if shared else f"<style>{asset('attention.css')}</style>"
        script = "" if shared else asset("attention.js")
        # No name of its own: the script fills every view that is still empty.
        start = 'document.querySelectorAll(".tsc-attention").forEach(tscAttention);'
        return (
            f'{own}<div class="tsc-attention"><script type="application/json">{self._json()}'
            f"</script></div><script>{script}\n{start}</script>"
        )

    def save(self, path: str | PathLike[str], *, force: bool = False) -> Path:
        """Write a page of its own.

        Args:
            path: The HTML file to write.
            force: Whether a file that is not such a page may be replaced.

        Returns:
            The path.
        """
        names = html.escape(visible(self.strings[0].name))
        look = (
            "body{margin:1rem auto;max-width:70rem;padding:0 1rem;background:#fff;color:#1f2328}"
            "@media(prefers-color-scheme:dark){body{background:#15181c;color:#e6e6e6}}"
        )
        page = (
            f'{_START}<head><meta charset="utf-8"><meta name="viewport" '
            f'content="width=device-width, initial-scale=1"><title>Attention: {names}</title>'
            f"<style>{look}</style></head><body>{self.to_html()}</body></html>"
        )
        write_output(
            Path(path), page.encode(), lambda start: start.startswith(_START.encode()), force=force
        )
        return Path(path)

    def _json(self) -> str:
        def shades(weights: NDArray[np.float64]) -> str:
            """One byte a weight: what a shade of colour and a whole percentage need."""
            whole = np.clip(np.rint(255 * weights), 0, 255).astype(np.uint8)
            return base64.b64encode(whole.tobytes()).decode()

        data: dict[str, Any] = {
            "first": self.first,
            "layers": len({head.layer for head in self.heads}),
            "heads": [vars(head) for head in self.heads],
            "strings": [
                {
                    "name": visible(string.name),
                    "tokens": [visible(token) for token in string.tokens],
                    "reads": string.reads,
                    "weights": shades(string.weights),
                }
                for string in self.strings
            ],
        }
        return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


@cache
def asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
