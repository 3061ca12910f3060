"""Show the doctests of docstrings as code: griffe knows `Examples:`, and we write `Example:`.

Without this a `>>>` in an example would become a quotation in a quotation in a quotation.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Rename the section before docstrings are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE
            )
