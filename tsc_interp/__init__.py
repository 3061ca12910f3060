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
    name: f"tsc_interp.{module}"
    for module, names in {
        "checkpoints": "bundled_names load_checkpoint",
        "checkpoints.run_directory": "RunDirectory",
        "interventions.hooks": "Hooks",
        "construction.written": "Construction",
        "model.evaluation": "Evaluation",
        "pruning": "Pruned",
        "report.laboratory": "LabReport",
        "report.sweep": "sweep_report",
        "strings": "Alphabet",
        "sweeps": "Sweep",
        "tasks": "AtLeast Before ContainsAll Majority Maximum MostFrequent OwnTask Parity",
        "training.config": "RunConfig",
        "training.experiments": "load_experiment make_experiment",
        "verification": (
            "Diff Difference Float32Horizon OrderedVerdict "
            "difference float32_answers float32_horizon read_certificate verify_ordered"
        ),
    }.items()
    for name in names.split()
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
        from tsc_interp.errors import suggest

        hint = "" if name.startswith("_") else suggest(name, _PUBLIC).rstrip()
        problem = f"module 'tsc_interp' has no attribute {name!r}"
        raise AttributeError(f"{problem}: {hint}" if hint else problem)
    if _PUBLIC[name] == "tsc_interp":
        return import_module(f"tsc_interp.{name}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
