"""Playgrounds that the site embeds: the bundled models, a training run, and an adder."""

from __future__ import annotations

import tempfile
from pathlib import Path

from studies.constructed import carry_adder
from tsc_interp.checkpoints import bundled_names
from tsc_interp.playground import read_history, write_playground
from tsc_interp.reproduction.experiments import experiment_named
from tsc_interp.training.jobs import train


def write_playgrounds(folder: Path) -> None:
    """One per bundled model, one with a training run to scrub through, one of an adder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in bundled_names():
        write_playground(name, folder / f"{name}.html")
    with tempfile.TemporaryDirectory() as place:
        adder = Path(place) / "adder-of-3-digits.safetensors"
        carry_adder(3, shift=1.5).save(adder)
        write_playground(adder, folder / "adder.html")
        run = train(experiment_named("generalization_errors").jobs(), place)[0].directory.path
        write_playground(run, folder / "training.html", history=read_history(run))
