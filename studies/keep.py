"""The first model of each study that trains with TransformerLens, kept as a small file.

    python -m studies.keep NAME

Files are in `studies/models`, results of whole runs in `studies/results` (the last line that such a
study prints). Tests derive the results of these models again; the pages draw them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import tsc_interp as tsc
from studies.max_of_four import run as max_of_four
from studies.own_models import run as own_models
from tsc_interp.checkpoints import load_checkpoint

HERE = Path(__file__).parent
FIRST: dict[str, Callable[[], tsc.Checkpoint]] = {
    "own_models": lambda: tsc.from_transformer_lens(own_models.trained(0), **own_models.READING),
    "max_of_four": lambda: max_of_four.taken(max_of_four.trained(max_of_four.SEEDS[0])),
}


def model(name: str) -> tsc.Checkpoint:
    return load_checkpoint(HERE / "models" / f"{name}.safetensors")


def results(name: str, version: int = 4) -> list[dict[str, Any]]:
    """The rows of a run under TransformerLens 3.x or 4.x."""
    text = (HERE / "results" / f"{name}-{version}.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)["models"]
    return rows


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        FIRST[name]().save(HERE / "models" / f"{name}.safetensors")
