"""Every probe there is: one explicit list, in the order a report asks its questions.

Listing is cheap: a probe's module is imported when it is run. To add one, write
`probes/NAME.py` with a `run(model, strings, ...)` and a result class, and add its line here; then
its figures to `plots/registry.py`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from tsc_interp.errors import UsageError
from tsc_interp.probes.base import ProbeResult


@dataclass(frozen=True)
class Probe:
    """One question. `where` is `module:ResultClass`; the module's `run` answers it."""

    name: str
    title: str
    question: str
    chapter: str
    """The part of the source report it comes from, such as `1-2`."""
    where: str
    needs_run: bool = False
    """Whether it is about a run directory: `run` then takes a `run_directory` as well."""

    def run(self, model: Any, strings: Any, **options: Any) -> ProbeResult:
        return cast(ProbeResult, self._module().run(model, strings, **options))

    @property
    def result_type(self) -> type[ProbeResult]:
        return cast("type[ProbeResult]", getattr(self._module(), self.where.split(":")[1]))

    def _module(self) -> Any:
        return import_module(self.where.split(":")[0])


PROBES: tuple[Probe, ...] = (
    Probe(
        name="trace",
        title="Following a string through the model",
        question="What happens to a string on its way to a logit?",
        chapter="1-2",
        where="tsc_interp.probes.trace:TraceResult",
    ),
    Probe(
        name="superposition",
        title="Which letters can pass for which",
        question="Can a mixture of other letters imitate a letter the model looks for?",
        chapter="3",
        where="tsc_interp.probes.superposition:SuperpositionResult",
    ),
    Probe(
        name="cone",
        title="Can a no turn into a yes?",
        question="Can letters that should give a no add up to a yes, and from what length?",
        chapter="3",
        where="tsc_interp.probes.cone:ConeResult",
    ),
    Probe(
        name="margin",
        title="When a letter is outnumbered",
        question="How many other letters does it take before a head loses the one it reads?",
        chapter="3",
        where="tsc_interp.probes.margin:MarginResult",
    ),
    Probe(
        name="specialization",
        title="What each head reads",
        question="Which letter does each head read, and do heads repeat each other?",
        chapter="2, 4",
        where="tsc_interp.probes.specialization:SpecializationResult",
    ),
    Probe(
        name="attribution",
        title="What a logit is made of",
        question="How much does each head, letter and neuron add to the logit?",
        chapter="2",
        where="tsc_interp.probes.attribution:AttributionResult",
    ),
    Probe(
        name="atlas",
        title="Every string it gets wrong",
        question="Which strings does the model get wrong, over all lengths at once?",
        chapter="3",
        where="tsc_interp.probes.atlas:AtlasResult",
    ),
    Probe(
        name="init-norm",
        title="Sizes at the start, and after training",
        question="How large is everything at initialisation, and what did training make of it?",
        chapter="4",
        where="tsc_interp.probes.init_norm:InitNormResult",
    ),
    Probe(
        name="dynamics",
        title="How training got there",
        question="How did the model become what it is, epoch by epoch?",
        chapter="4",
        where="tsc_interp.probes.dynamics:DynamicsResult",
        needs_run=True,
    ),
)


def find_probe(name: str) -> Probe:
    """The probe of that name; an unknown one is refused with the nearest name."""
    for probe in PROBES:
        if probe.name == name:
            return probe
    names = [probe.name for probe in PROBES]
    nearest = difflib.get_close_matches(name.lower().replace("_", "-"), names, n=1, cutoff=0.4)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    raise UsageError(f"no probe {name!r}: {hint}the probes are {', '.join(names)}")
