"""The second checker, which is no part of the package: in this process, and run as a script."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Maximum, MostFrequent, Parity

SCRIPT = Path(__file__).parents[2] / "checker" / "rational_checker.py"
LOG_N = "sqrt_d_head_log_n"

rational: Any = importlib.import_module("checker.rational_checker")

Rejected: type[Exception] = rational.Rejected

KINDS = [
    ClassifierConfig(n_letters=2, d_model=3, n_layers=layers, attend_cls=cls, score_scale=scale,
                     d_mlp=2 * ((layers + cls) % 2), d_head=1 + cls)
    for layers, cls, scale in product((1, 2), (False, True), ("sqrt_d_head", LOG_N))
]  # fmt: skip
"""Layers, CLS and log n in every combination, with and without an MLP."""

OTHERS = [
    ClassifierConfig(n_letters=2, task=AtLeast(letter="b", k=2)),
    ClassifierConfig(n_letters=2, task=Majority(letter="a"), attend_cls=True),
    ClassifierConfig(n_letters=2, task=Parity(letter="b", odd=False)),
    ClassifierConfig(n_letters=2, task=Parity(letter="a"), score_scale=LOG_N),
    ClassifierConfig(n_letters=2, task=ContainsAll(letters="b"), n_heads=0),
    ClassifierConfig(n_letters=2, d_model=3, biases=True, act_fn="relu", d_head=2, attend_cls=True),
    ClassifierConfig(n_letters=2, n_layers=2, d_model=3, biases=True, act_fn="relu"),
    ClassifierConfig(n_letters=2, biases=True, reads="last", attend_cls=True),
    ClassifierConfig(n_letters=2, n_heads=0, biases=True, act_fn="relu"),
    ClassifierConfig(n_letters=2, d_mlp=0, biases=True, score_scale=LOG_N),
    ClassifierConfig(n_letters=3, n_outputs=3, task=Maximum(), d_model=3),
    ClassifierConfig(n_letters=3, n_outputs=3, task=MostFrequent(), biases=True, attend_cls=True),
]


def name_of(config: ClassifierConfig) -> str:
    flags = [config.task.kind, f"{config.n_layers}-layer"]
    return " ".join(flags + ["cls"] * config.attend_cls + ["log-n"] * config.log_n)


def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """In an isolated Python without site packages: the script has nothing but itself."""
    command = [sys.executable, "-I", "-S", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check(document: Any, *checkpoints: Checkpoint, **options: Any) -> list[str]:
    """What the second checker says to a document and its models, all as bytes."""
    content = json.dumps(document).encode()
    models = [checkpoint.to_bytes() for checkpoint in checkpoints]
    said: list[str] = rational.check(content, models, **options)
    return said


def accepts(document: Any, *checkpoints: Checkpoint, **options: Any) -> bool:
    try:
        check(document, *checkpoints, **options)
    except Exception:
        return False
    return True
