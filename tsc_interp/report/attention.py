"""Attention patterns in one call, for notebooks."""

from __future__ import annotations

from typing import Any

from tsc_interp.arguments import checked
from tsc_interp.model.framing import FrameLike
from tsc_interp.plots.attention import AttentionView
from tsc_interp.probes.patterns import PatternsResult
from tsc_interp.probes.registry import run_probe
from tsc_interp.probes.token_rows import Query, TokenNames


@checked
def show_attention(
    model: Any,
    strings: Any,
    *,
    frame: FrameLike | None = None,
    layer: int | None = None,
    query: Query | None = None,
    token_names: TokenNames | None = None,
    attention_mask: Any = None,
) -> AttentionView:
    """Show where every head of a model attends, to point at in a notebook.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run; or any model of
            TransformerLens.
        strings: One or more strings; token ids `[batch pos]`, or one row of them, for a
            TransformerLens model.
        frame: What inputs look like, for a model that was not imported with a frame (`tsc.Frame`).
        layer: The layer to show; by default all.
        query: The position that is read, which the view marks.
        token_names: What tokens are called.
        attention_mask: 1 for each token to attend to, 0 for padding.

    Returns:
        A view that a notebook displays; `save(path)` writes it as a page.

    Raises:
        UsageError: The strings or token ids do not fit the model.
        UnsupportedError: The model shows no attention patterns.

    Example:
        >>> show_attention("walkthrough", "baac")
        <AttentionView: 2 heads on baac>
    """
    if getattr(strings, "ndim", None) == 1:
        strings = strings[None]
    elif isinstance(strings, list | tuple) and all(isinstance(token, int) for token in strings):
        strings = [strings]
    options = {"query": query, "token_names": token_names, "attention_mask": attention_mask}
    given = {name: value for name, value in options.items() if value is not None}
    result = run_probe("patterns", model, strings, frame=frame, layer=layer, **given)
    assert isinstance(result, PatternsResult)
    return result.view()
