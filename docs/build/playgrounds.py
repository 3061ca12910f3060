"""The bundled models' playgrounds, one page each, embedded in the site."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tsc_interp.checkpoints import bundled_names
from tsc_interp.playground import read_history, write_playground
from tsc_interp.reproduction.experiments import experiment_named
from tsc_interp.training.jobs import train


def write_playgrounds(folder: Path) -> None:
    """One per bundled model, and one with a training run to scrub through."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in bundled_names():
        write_playground(name, folder / f"{name}.html")
    with tempfile.TemporaryDirectory() as place:
        run = train(experiment_named("generalization_errors").jobs(), place)[0].directory.path
        write_playground(run, folder / "training.html", history=read_history(run))
