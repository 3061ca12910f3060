"""The one way to the terminal: strings are data, never markup, and cannot take control of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tsc_interp.output.visible import visible

# Lines through a pipe or into a file are as long as they are: nobody wraps for a program.
_NO_LIMIT = 100_000


class SafeConsole(Console):
    """Rich's console without markup and emoji codes, and with everything unprintable visible."""

    def __init__(self, *, stderr: bool = False, quiet: bool = False, **options: Any) -> None:
        super().__init__(
            stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False, **options
        )
        if not self.is_terminal and "width" not in options and "COLUMNS" not in os.environ:
            self.width = _NO_LIMIT

    def render_str(self, text: str, **options: Any) -> Text:
        """Before layout, so that widths are those of what will be seen."""
        return super().render_str(visible(text, keep="\n"), **{**options, "markup": False})

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The last line of defence: what arrives as a ready-made `Text`."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(visible(segment.text, keep="\n"), segment.style)
