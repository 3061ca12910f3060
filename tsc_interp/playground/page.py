"""Assemble the page: template, style, script, and the models as JSON.

    page.html = template.html + style.css + the modules + what `payload` says about each model

Its body is `counts.html`; `sequence.html` for models that see order or have several outputs; and
`sums.html` for those that add two numbers. What all show on top is in `template.html`, the string
and its answer in `bar.html`, and the links of the first in `counts-links.html`.

Nothing in it refers to anything outside it.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tsc_interp._version import __version__
from tsc_interp.arguments import checked
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.checkpoints.locate import open_run
from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.checkpoints.run_directory import RunError
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.files import write_output
from tsc_interp.model.framing import FrameLike, with_frame
from tsc_interp.output.json_form import to_json
from tsc_interp.playground.payload import History, blank_payload, loaded, model_payload
from tsc_interp.playground.scripts import assemble_script, assemble_style, packed, read_asset
from tsc_interp.playground.sequences import on_counts
from tsc_interp.playground.sums import SECONDS, adds_numbers


@checked
def write_playground(
    model: ModelLike,
    path: str | os.PathLike[str],
    compare: ModelLike | None = None,
    history: History | None = None,
    *,
    also: Sequence[ModelLike] = (),
    circuit: bool = False,
    frame: FrameLike | None = None,
    seconds: float = SECONDS,
    progress: Callable[[float], None] | None = None,
    force: bool = False,
) -> Path:
    """Write a page that runs a model in the browser, with nothing to install.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        path: The file to write. One that is there is replaced if it is such a page.
        compare: A second model, shown beside the first.
        history: Epochs and their checkpoints (see `read_history`), to scrub through.
        also: More models, which can be chosen in the page.
        circuit: Whether to search for a circuit of each model, which takes seconds; those of the
            bundled models are known.
        frame: What inputs look like, for a model that was not imported with a frame (`tsc.Frame`).
        seconds: The time to decide all pairs of a model that adds two numbers, for its page's map
            and proof; 0 leaves them out.
        progress: Called with the share of pairs that are decided.
        force: Whether to replace a file that is no such page.

    Returns:
        The path of the page.

    Raises:
        UsageError: The models read different alphabets, or need different pages.
        OutputError: The file cannot be written, or is something else.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_playground("walkthrough", f"{folder}/page.html").name
        'page.html'
    """
    target, main = Path(path), loaded(with_frame(model, frame))
    others = [loaded(extra) for extra in also]
    compared = None if compare is None else loaded(compare)
    page = playground_fragment(
        main, compared, history, also=others, circuit=circuit, seconds=seconds, progress=progress
    )
    read = [main, *others, *([compared] if compared else []), *(history or {}).values()]
    write_output(
        target, page.encode(), is_playground, force=force, reads=[model.source for model in read]
    )
    return target


_SHOWN_BY = {
    "counts": "answers by letter counts",
    "sequence": "is order-sensitive or multiclass",
    "sums": "adds two numbers",
}


def page_kind(config: ClassifierConfig) -> str:
    """Which page shows this model: `counts`, `sequence` or `sums`."""
    if on_counts(config):
        return "counts"
    return "sums" if adds_numbers(config) else "sequence"


def is_playground(start: bytes) -> bool:
    """Whether a file that starts so is such a page."""
    return b'<meta name="generator" content="tsc-interp playground">' in start


def playground_fragment(
    model: ModelLike,
    compare: ModelLike | None = None,
    history: History | None = None,
    *,
    also: Sequence[ModelLike] = (),
    circuit: bool = False,
    seconds: float = 0.0,
    progress: Callable[[float], None] | None = None,
) -> str:
    """The text of the page, ready for a file or for an iframe's `srcdoc`."""
    main = loaded(model)
    models = [main]
    if compare is not None:
        models.append(loaded(compare))
        if (second := models[1]).config.n_letters != main.config.n_letters:
            raise UsageError(
                f"a comparison shows both models the same strings, but {main.source} reads "
                f"{main.config.n_letters} letters and {second.source} {second.config.n_letters}"
            )
    models += [loaded(extra) for extra in also]
    kind = page_kind(main.config)
    for checkpoint in models:
        if page_kind(checkpoint.config) != kind:
            raise UsageError(
                f"{main.source} {_SHOWN_BY[kind]}, and {checkpoint.source} "
                f"{_SHOWN_BY[page_kind(checkpoint.config)]}; such models need different pages, so "
                "write one for each"
            )
    if history and kind != "counts":
        raise UsageError("a training history is shown for models on letter counts only")
    payloads = [
        model_payload(
            checkpoint,
            history if checkpoint is main else None,
            circuit=circuit,
            seconds=seconds,
            progress=progress,
        )
        for checkpoint in models
    ]
    payload = {
        "version": __version__,
        "models": _named_apart(payloads),
        "beside": None if compare is None else 1,
        "blank": blank_payload(),
    }
    # No string in it can end the script element that it stands in.
    shown = to_json(payload).replace("<", "\\u003c")
    shown = shown.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return _fill(
        read_asset("template.html"),
        LINKS=read_asset("counts-links.html") if kind == "counts" else "",
        BAR="" if kind == "sums" else read_asset("bar.html"),
        BODY=read_asset(f"{kind}.html"),
        TITLE=html.escape(f"{payloads[0]['name']} · tsc-interp playground"),
        STYLE=assemble_style("style.css", "map.css", *(["sums.css"] if kind == "sums" else [])),
        SCRIPT=_script("page.mjs" if kind == "counts" else f"{kind}.mjs"),
        PAYLOAD=shown,
    )


@cache
def _script(entry: str) -> str:
    return packed(assemble_script(entry))


def _named_apart(models: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Number equal names: a reader chooses a model by its name."""
    used_names: set[str] = set()
    for model in models:
        name, number = model["name"], 1
        while model["name"] in used_names:
            number += 1
            model["name"] = f"{name} ({number})"
        used_names.add(model["name"])
    return models


def read_history(run: str | os.PathLike[str]) -> dict[int, Checkpoint]:
    """Every epoch that a run directory kept."""
    try:
        directory = open_run(run)
    except RunError as error:
        raise UsageError(f"a training history needs a run directory: {error}") from None
    if directory is None:
        raise UsageError(f"a training history needs a run directory; {run} is not one")
    return directory.history()


def _fill(template: str, **parts: str) -> str:
    """Each `__NAME__` replaced; what is put in is never searched again."""
    return re.sub("__([A-Z]+)__", lambda name: parts[name[1]], template)
