"""Which function draws which probe's result: one explicit table, imported when asked.

Each entry is `module:function`, the function taking the probe's result and returning figures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from tsc_interp.errors import UsageError

if TYPE_CHECKING:
    from tsc_interp.plots.style import Figure
    from tsc_interp.probes.base import ProbeResult

FIGURES: dict[str, str] = {
    "trace": "tsc_interp.plots.trace:figures",
    "superposition": "tsc_interp.plots.superposition:figures",
    "cone": "tsc_interp.plots.cone:figures",
    "margin": "tsc_interp.plots.margin:figures",
    "specialization": "tsc_interp.plots.specialization:figures",
    "attribution": "tsc_interp.plots.attribution:figures",
    "atlas": "tsc_interp.plots.atlas:figures",
    "init-norm": "tsc_interp.plots.init_norm:figures",
    "dynamics": "tsc_interp.plots.dynamics:figures",
}


def figures(result: ProbeResult) -> list[Figure]:
    """Every figure of a result, in reading order."""
    if result.probe not in FIGURES:
        raise UsageError(
            f"no figures are known for probe {result.probe!r}; known: {', '.join(FIGURES)}"
        )
    module, function = FIGURES[result.probe].split(":")
    return cast("list[Figure]", getattr(import_module(module), function)(result))
