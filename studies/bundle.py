"""The six models that come with the package, trained anew.

    python -m studies.bundle [DIR]

Each is one run of the source report. What is written is that run's chosen checkpoint with the
experiment added to its provenance. Without a directory the package's own copies are replaced.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tsc_interp.checkpoints.checkpoint import SUFFIX, Checkpoint
from tsc_interp.checkpoints.locate import bundled_path
from tsc_interp.reproduction.experiments import experiment_named
from tsc_interp.training.config import Job
from tsc_interp.training.jobs import train

# The bundled name, the experiment, the seed.
BUNDLED: Mapping[str, tuple[str, int]] = {
    "walkthrough": ("walkthrough", 5),
    "generalization-errors": ("generalization_errors", 2),
    "attend-cls": ("attend_cls", 8),
    "increased-dimensionality": ("increased_dimensionality", 0),
    "lower-magnitude": ("lower_magnitude_initializations", 2),
    "many-heads": ("increased_num_attention_heads", 0),
}


def train_bundled(runs: str | Path) -> dict[str, Checkpoint]:
    """All six by name, from runs in this directory, trained where missing."""
    jobs = [
        Job(name, experiment_named(name).cells[0].config, seed) for name, seed in BUNDLED.values()
    ]
    bundled = {}
    for name, run in zip(BUNDLED, train(jobs, runs), strict=True):
        chosen = run.directory.checkpoint()
        provenance = {
            "experiment": run.job.experiment,
            **chosen.provenance,
            "confusion_matrix": run.result.test.matrix(),
        }
        bundled[name] = Checkpoint(chosen.config, chosen.weights, provenance, source=name)
    return bundled


def main(directory: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as runs:
        for name, checkpoint in train_bundled(runs).items():
            path = Path(directory, f"{name}{SUFFIX}") if directory else bundled_path(name)
            checkpoint.save(path)
            sys.stdout.write(f"{path}  {checkpoint.weight_hash()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
