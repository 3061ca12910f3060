"""tsc-interp: find the shortest input a small transformer gets wrong, with a proof.

`__init__.pyi` lists the public names. Each is loaded when it is first used, so that
`import tsc_interp` costs nothing. Names that were public before still work, with a warning.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from tsc_interp._version import __version__ as __version__

_IMPORT = re.compile(r"^from (\S+) import (\w+)", re.MULTILINE)
_PUBLIC = {
    name: module
    for module, name in _IMPORT.findall(Path(__file__).with_name("__init__.pyi").read_text())
}

_MOVED = {
    "bundled_names": "tsc_interp.checkpoints",
    "load_checkpoint": "tsc_interp.checkpoints",
    "RunDirectory": "tsc_interp.checkpoints.run_directory",
    "Hooks": "tsc_interp.interventions.hooks",
    "Construction": "tsc_interp.laboratories.construct.written",
    "Evaluation": "tsc_interp.model.evaluation",
    "Pruned": "tsc_interp.pruning",
    "LabReport": "tsc_interp.report.laboratory",
    "sweep_report": "tsc_interp.report.sweep",
    "Alphabet": "tsc_interp.strings",
    "Sweep": "tsc_interp.sweeps",
    "AtLeast": "tsc_interp.tasks",
    "Before": "tsc_interp.tasks",
    "ContainsAll": "tsc_interp.tasks",
    "Majority": "tsc_interp.tasks",
    "Maximum": "tsc_interp.tasks",
    "MostFrequent": "tsc_interp.tasks",
    "OwnTask": "tsc_interp.tasks",
    "Parity": "tsc_interp.tasks",
    "RunConfig": "tsc_interp.training.config",
    "load_experiment": "tsc_interp.training.experiments",
    "make_experiment": "tsc_interp.training.experiments",
    "Diff": "tsc_interp.verification",
    "Difference": "tsc_interp.verification",
    "Float32Horizon": "tsc_interp.verification",
    "OrderedVerdict": "tsc_interp.verification",
    "check_agreement": "tsc_interp.verification",
    "check_ordered": "tsc_interp.verification",
    "difference": "tsc_interp.verification",
    "float32_answers": "tsc_interp.verification",
    "float32_horizon": "tsc_interp.verification",
    "read_certificate": "tsc_interp.verification",
    "verify_ordered": "tsc_interp.verification",
}
"""Names that were public before, and the modules that have them now."""

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        import warnings

        place = _MOVED[name]
        warnings.warn(
            f"tsc_interp.{name} has moved: from {place} import {name}",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(import_module(place), name)
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tsc_interp' has no attribute {name!r}")
    if _PUBLIC[name] == "tsc_interp":
        return import_module(f"tsc_interp.{name}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
