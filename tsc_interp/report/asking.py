"""Asking a probe: ours as it is, one of another package with its mistakes told in a line.

A report leaves out of a large model the questions that would take minutes, each with a reason.
Costs grow with the number of heads in all layers (each is drawn, most are searched), with depth
(exact bounds through a layer are slow) and with the number of parameters. The limits keep every
question below some ten seconds on one core; a probe that is named is asked of any model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError, UnsupportedError, UsageError
from tsc_interp.output.json_form import to_json
from tsc_interp.plots.figure import Figure
from tsc_interp.probes.inputs import Inputs
from tsc_interp.probes.plugins import one_line
from tsc_interp.probes.probe import Probe
from tsc_interp.probes.registry import PROBES, find_probe
from tsc_interp.results.base import ProbeResult
from tsc_interp.strings import as_strings


class ProbeFailed(TscError):
    """A probe of another package made a mistake; the others are asked all the same."""


def chosen_probes(names: str | Sequence[str] | None) -> list[Probe] | None:
    """The probes of these names, each once; None where none is named."""
    if names is None:
        return None
    chosen = [find_probe(name) for name in dict.fromkeys(as_strings(names))]
    if not chosen:
        raise UsageError(f"no probe to run; the probes are {', '.join(p.name for p in PROBES)}")
    return chosen


def ask(probe: Probe, inputs: Inputs, **options: Any) -> ProbeResult:
    """The probe's result. One from outside is told, drawn and read back before it counts."""
    if not probe.external:
        return probe.ask(inputs, **options)
    try:
        result = probe.ask(inputs, **options)
        _check(probe, result)
    except (UnsupportedError, UsageError):
        raise
    except Exception as error:  # whatever somebody else's code does
        raise ProbeFailed(f"probe {probe.name} failed: {one_line(error)}") from error
    return result


def ask_each(
    wanted: Sequence[Probe], run: Callable[[Probe], ProbeResult], progress: Callable[[str], None],
    *, named: bool,
) -> tuple[tuple[ProbeResult, ...], dict[str, str]]:  # fmt: skip
    """Results, and why each of the others was not run; one that was named has to run."""
    results: list[ProbeResult] = []
    not_run: dict[str, str] = {}
    for index, probe in enumerate(wanted, start=1):
        progress(f"{index} of {len(wanted)} {probe.name}: {probe.question}")
        try:
            results.append(run(probe))
        except ProbeFailed as error:
            if len(wanted) == 1:
                raise
            not_run[probe.name] = str(error)
        except UnsupportedError as error:
            if named:
                raise UnsupportedError(f"probe {probe.name}: {error}") from None
            not_run[probe.name] = str(error)
    return tuple(results), not_run


def _check(probe: Probe, result: ProbeResult) -> None:
    """So that a page, its figures and its JSON can be made of it."""
    if not isinstance(result, probe.result_type):
        expected = probe.result_type.__name__
        raise TypeError(f"run gave a {type(result).__name__}, expected {expected}")
    read_back = probe.result_type.from_dict(json.loads(to_json(result.to_dict())))
    if read_back != result:
        raise ValueError("its result is not the same when read back from JSON")
    result.tables()
    for figure in probe.figures(result):
        if not isinstance(figure, Figure):
            raise TypeError(f"figures gave a {type(figure).__name__}, expected a Figure")


# -- what a large model is not asked ---------------------------------------------------------------

_ANY = 10**12


@dataclass(frozen=True)
class Limit:
    heads: int = _ANY
    """In all layers together."""
    layers: int = _ANY
    parameters: int = _ANY

    def exceeded(self, config: ClassifierConfig, parameters: int) -> str | None:
        """The first limit that a model is beyond, in words."""
        for name, size, most in (
            ("heads", config.n_layers * config.n_heads, self.heads),
            ("layers", config.n_layers, self.layers),
            ("parameters", parameters, self.parameters),
        ):
            if size > most:
                return f"this model has {size:,} {name}, and this is asked of up to {most:,}"
        return None


EXACT = Limit(heads=64, layers=4)
"""For the horizon of the verdict too."""

LIMITS = {
    "trace": Limit(heads=256),
    "superposition": Limit(heads=256),
    "cone": EXACT,
    "margin": Limit(heads=64, parameters=250_000),
    "specialization": Limit(heads=128),
    "init-norm": Limit(heads=256, layers=16),
    "dynamics": EXACT,
}


def left_out(probe: str, config: ClassifierConfig, parameters: int) -> str | None:
    """Why a probe is asked only if it is named; None if it is always asked."""
    reason = LIMITS.get(probe, Limit()).exceeded(config, parameters)
    return reason and f"{reason}, to save time; --probe {probe} asks it all the same"
