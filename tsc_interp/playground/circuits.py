"""The circuit a page shows: which heads and neurons do what the whole model does.

It is the result of the probe `circuit` over nodes, with what is outside set to zero. The search
takes seconds, so it is made on request; those of the bundled models are kept in a file.

    python -m tsc_interp.playground.circuits        writes that file again
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, cast

from tsc_interp.checkpoints import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.playground.scripts import ASSETS, read_asset

KNOWN = "circuits.json"


def circuit_payload(checkpoint: Checkpoint, *, search: bool = False) -> dict[str, Any]:
    """`parts`, which of them are `kept` and a `sentence` about it; or `why` there is none."""
    known = _known().get(checkpoint.weight_hash())
    if known is not None:
        return known
    if not search:
        return {
            "why": "no circuit of this model is known to this page, because none was searched for "
            "(`tsc-interp playground --circuit` does)."
        }
    try:
        return searched(checkpoint)
    except UnsupportedError as error:
        return {"why": f"{error}."}


def searched(checkpoint: Checkpoint) -> dict[str, Any]:
    """By the probe; the sentence is its first finding."""
    from tsc_interp.model.classifier import Classifier
    from tsc_interp.probes.registry import run_probe

    model = Classifier.from_checkpoint(checkpoint)
    result: Any = run_probe("circuit", model, [checkpoint.config.alphabet.letters], graph="nodes")
    sentence = result.findings[0].text
    if result.circuit is None:
        return {"why": sentence}
    kept = list(result.circuit.kept)
    return {"parts": list(result.parts), "kept": kept, "sentence": sentence}


@cache
def _known() -> dict[str, dict[str, Any]]:
    return cast("dict[str, dict[str, Any]]", json.loads(read_asset(KNOWN)))


def bundled_circuits() -> dict[str, dict[str, Any]]:
    """What `KNOWN` holds: by the hash of a bundled model's weights."""
    from tsc_interp.checkpoints import bundled_names, load_checkpoint

    models = [load_checkpoint(name) for name in bundled_names()]
    return {model.weight_hash(): searched(model) for model in models}


if __name__ == "__main__":
    target = Path(str(ASSETS)) / KNOWN
    target.write_text(json.dumps(bundled_circuits(), indent=1) + "\n", encoding="utf-8")
