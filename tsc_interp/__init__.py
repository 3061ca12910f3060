"""tsc-interp: why a small transformer sequence classifier is right or wrong, exactly.

The public names, each loaded when it is first used, so that `import tsc_interp` costs nothing.
"""

from importlib import import_module
from typing import Any

from tsc_interp._version import __version__

_PUBLIC = {
    "Alphabet": "tsc_interp.strings",
    "ClassifierConfig": "tsc_interp.config",
    "Checkpoint": "tsc_interp.checkpoints",
    "HookedClassifier": "tsc_interp.model.hooked",
    "TscError": "tsc_interp.errors",
    "Report": "tsc_interp.report",
    "analyze": "tsc_interp.report",
    "bundled_names": "tsc_interp.checkpoints",
    "certify": "tsc_interp.verification",
    "evaluate": "tsc_interp.model.evaluation",
    "horizon": "tsc_interp.verification",
    "load": "tsc_interp.model.hooked",
    "load_checkpoint": "tsc_interp.checkpoints",
    "RunConfig": "tsc_interp.training.config",
    "TrainingConfig": "tsc_interp.training.config",
    "load_experiment": "tsc_interp.training.experiments",
    "make_experiment": "tsc_interp.training.experiments",
    "runs": "tsc_interp.checkpoints.run_list",
    "train": "tsc_interp.training.jobs",
    "train_seeds": "tsc_interp.training.jobs",
    "verify": "tsc_interp.verification",
    "write_playground": "tsc_interp.playground",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tsc_interp' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
