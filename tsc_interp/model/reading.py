"""`reading=`, which some functions took: an external model is now imported first."""

from __future__ import annotations

from typing import Any

from tsc_interp.deprecation import Arguments


def _imported(args: tuple[Any, ...], keywords: dict[str, Any], reading: Any) -> Arguments:
    from tsc_interp.model.importing import taken_over

    if reading is None:
        return args, keywords
    if args:
        return (taken_over(args[0], reading), *args[1:]), keywords
    return args, keywords | {"model": taken_over(keywords.get("model"), reading)}


READING = ("for a model imported before: tsc.from_transformer_lens(model, **reading)", _imported)
"""For `old_keywords`."""
