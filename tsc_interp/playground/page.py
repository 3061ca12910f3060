"""Assemble the page: template, style, script, and the models as JSON.

    page.html = template.html + style.css + the modules + { config, weights, reference logits }

Nothing in it refers to anything outside it. The reference logits are what this package computes for
a fixed set of strings; the page computes them again and shows the largest difference as a badge.
"""

from __future__ import annotations

import html
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tsc_interp._version import __version__
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.checkpoints.format import SUFFIX
from tsc_interp.checkpoints.locate import open_run
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.checkpoints.run_directory import RunError, run_of
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.files import write_output
from tsc_interp.output.json_form import to_json
from tsc_interp.output.visible import visible
from tsc_interp.playground.scripts import assemble_script, read_asset

History = Mapping[int, Checkpoint]

MAX_PARAMETERS = 50_000
_EXAMPLES = ("aac", "baac", "ab{100}", "ab{100}c{55}", "b{2}c{152}", "abc{1000000}")
_RANDOM_REFERENCES = 34


def write_playground(
    model: ModelLike,
    path: str | os.PathLike[str],
    compare: ModelLike | None = None,
    history: History | None = None,
    *,
    force: bool = False,
) -> Path:
    """Write the page for one model, next to a second one if given, with its training if given.

    Each is a hooked model, a checkpoint, a bundled name, a path, or a run; `history` maps epochs to
    checkpoints (see `read_history`). A file that is there is replaced, as a whole or not at all, if
    it is such a page; anything else only with `force`, and never a file that is being read.
    """
    target, main = Path(path), loaded(model)
    other = None if compare is None else loaded(compare)
    page = playground_fragment(main, other, history)
    reads = [one.source for one in (main, other, *(history or {}).values()) if one]
    write_output(target, page.encode(), is_playground, force=force, reads=reads)
    return target


def is_playground(start: bytes) -> bool:
    """Whether a file that starts so is such a page."""
    return b'<meta name="generator" content="tsc-interp playground">' in start


def playground_fragment(
    model: ModelLike, compare: ModelLike | None = None, history: History | None = None
) -> str:
    """The text of the page, ready for a file or for an iframe's `srcdoc`."""
    main = loaded(model)
    models = [_model(main, history or {})]
    if compare is not None:
        other = loaded(compare)
        if other.config.n_letters != main.config.n_letters:
            raise UsageError(
                f"a comparison shows both models the same strings, but {main.source} reads "
                f"{main.config.n_letters} letters and {other.source} {other.config.n_letters}"
            )
        models.append(_model(other, {}))
    examples = _examples(main.config)
    payload = {
        "version": __version__,
        "start": examples[min(1, len(examples) - 1)],
        "examples": examples,
        "models": models,
    }
    return _fill(
        read_asset("template.html"),
        TITLE=html.escape(f"{models[0]['name']} · tsc-interp playground"),
        STYLE=f"{read_asset('style.css').strip()}\n{read_asset('map.css').strip()}",
        SCRIPT=assemble_script("page.mjs").strip(),
        PAYLOAD=_as_json(payload),
    )


def read_history(run: str | os.PathLike[str]) -> dict[int, Checkpoint]:
    """Every epoch that a run directory kept."""
    try:
        found = open_run(run)
    except RunError as error:
        raise UsageError(f"a training history needs a run directory: {error}") from None
    if found is None:
        raise UsageError(f"a training history needs a run directory; {run} is not one")
    return found.history()


def loaded(given: ModelLike) -> Checkpoint:
    """The checkpoint that is meant, if a page about letter counts can show it."""
    checkpoint = as_checkpoint(given)
    if checkpoint.config.has_positions:
        raise UnsupportedError(
            f"{checkpoint.source} has positions, so letter counts do not describe its input; the "
            "playground works on counts and cannot show it"
        )
    if checkpoint.n_parameters > MAX_PARAMETERS:
        raise UnsupportedError(
            f"{checkpoint.source} has {checkpoint.n_parameters} parameters; the playground carries "
            f"its model inside the page and takes up to {MAX_PARAMETERS}"
        )
    return checkpoint


def _model(checkpoint: Checkpoint, history: History) -> dict[str, Any]:
    strings = reference_strings(checkpoint.config)
    for epoch, version in history.items():
        if version.config != checkpoint.config:
            raise UsageError(
                f"epoch {epoch} of the history has another configuration than the model"
            )
    return {
        "name": page_name(checkpoint),
        "source": _source(checkpoint.source),
        "epoch": checkpoint.provenance.get("epoch"),
        "config": checkpoint.config.to_dict(),
        "weights": _weights(checkpoint),
        "strings": strings,
        "logits": _logits(checkpoint, strings),
        "history": [
            {
                "epoch": epoch,
                "source": _source(version.source),
                "weights": _weights(version),
                "logits": _logits(version, strings),
            }
            for epoch, version in sorted(history.items())
        ],
    }


def reference_strings(config: ClassifierConfig) -> list[str]:
    """What the badge is about: the examples, and counts from one to a million, always the same."""
    generator = np.random.default_rng(0)
    magnitudes = generator.uniform(0, 6, (_RANDOM_REFERENCES, config.n_letters))
    counts = np.floor(10**magnitudes).astype(np.int64)
    # Letters are left out at random too, as long as one remains.
    counts *= generator.random(counts.shape) < 0.7
    counts[:, 0] += counts.sum(axis=1) == 0
    return [*_examples(config), *(config.alphabet.write(row) for row in counts)]


def _examples(config: ClassifierConfig) -> list[str]:
    letters = set(config.alphabet.letters)
    known = [text for text in _EXAMPLES if set(filter(str.isalpha, text)) <= letters]
    return known or ["a", "a{100}"]


def _weights(checkpoint: Checkpoint) -> dict[str, str]:
    """The bits of the float32 numbers, in base64: exact, and half as long as decimals."""
    return {
        name: b64encode(np.ascontiguousarray(weight, dtype="<f4").tobytes()).decode()
        for name, weight in checkpoint.weights.items()
    }


def _logits(checkpoint: Checkpoint, strings: Sequence[str]) -> list[float]:
    """In float64, as the page computes, so that float32 rounding is no part of the difference."""
    import torch

    from tsc_interp.model.forward import forward
    from tsc_interp.model.inputs import from_strings

    weights = {name: torch.from_numpy(w).double() for name, w in checkpoint.weights.items()}
    with torch.no_grad():
        logits = forward(checkpoint.config, weights, from_strings(checkpoint.config, strings))
    if not logits.isfinite().all():
        raise UnsupportedError(
            f"{checkpoint.source} has weights so large that its logits are not finite numbers; the "
            "playground cannot show it"
        )
    return [float(logit) for logit in logits]


def page_name(checkpoint: Checkpoint) -> str:
    """What to call the model: a bundled name, a file's stem, or a run's experiment and seed."""
    if checkpoint.source == "memory":
        return "unsaved model"
    path = Path(checkpoint.source)
    if found := run_of(path):
        run = found[0].parts
        return visible("/".join([*run[-3:-2], run[-1]]))
    return visible(path.stem)


def _source(source: str) -> str:
    return f"model{SUFFIX}" if source == "memory" else source


def _as_json(payload: object) -> str:
    """JSON that cannot end the script element it stands in, whatever its strings hold."""
    text = to_json(payload)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _fill(template: str, **parts: str) -> str:
    """Each `__NAME__` replaced once, in pieces: what is put in is never searched again."""
    pieces = [template]
    for name, text in parts.items():
        placeholder = f"__{name}__"
        for index, piece in enumerate(pieces):
            if index % 2 == 0 and placeholder in piece:
                before, after = piece.split(placeholder)
                pieces[index : index + 1] = [before, text, after]
                break
    return "".join(pieces)
