"""Every probe there is: one explicit list, in the order a report asks its questions.

Listing is cheap, and so is drawing a result: a probe imports torch only while it asks a model. To
add one, write `probes/NAME.py` and add its line here. Probes of other packages come in by entry
point (`plugins.py`) and are asked when they are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import HoldsEpochs
from tsc_interp.errors import UsageError, suggest
from tsc_interp.model.framing import FrameLike, with_frame
from tsc_interp.probes.ablation import ablation
from tsc_interp.probes.attribution import attribution
from tsc_interp.probes.circuit import circuit
from tsc_interp.probes.circuits_weights import circuits_weights
from tsc_interp.probes.cone import cone
from tsc_interp.probes.dynamics import dynamics
from tsc_interp.probes.init_norm import init_norm
from tsc_interp.probes.margin import margin
from tsc_interp.probes.patching import patching
from tsc_interp.probes.paths import paths
from tsc_interp.probes.patterns import patterns
from tsc_interp.probes.plugins import Plugins, load_plugins
from tsc_interp.probes.probe import Probe, Question
from tsc_interp.probes.specialization import specialization
from tsc_interp.probes.superposition import superposition
from tsc_interp.probes.trace import trace
from tsc_interp.results.base import ProbeResult
from tsc_interp.strings import as_strings

if TYPE_CHECKING:
    from tsc_interp.plots.figure import Figures

Q = TypeVar("Q", bound=Question)

PROBES: tuple[Probe, ...] = (
    trace,
    superposition,
    cone,
    margin,
    patterns,
    circuits_weights,
    specialization,
    attribution,
    init_norm,
    circuit,
    dynamics,
    ablation,
    patching,
    paths,
)


def plugins() -> Plugins:
    """The probes of other packages that are installed here, and those that cannot be loaded."""
    return load_plugins({probe.name for probe in PROBES})


def find_probe(name: str) -> Probe:
    """The probe of that name; an unknown one is refused with the nearest name."""
    if any(probe.name == name for probe in PROBES):
        return find_named(name, PROBES)
    others = plugins()
    for broken in others.broken:
        if broken.name == name:
            raise UsageError(f"the probe {broken.sentence()}")
    return find_named(name, (*PROBES, *others.probes))


def find_named(name: str, known: Sequence[Q]) -> Q:
    """The question of that name among these."""
    for question in known:
        if isinstance(name, str) and question.name == name:
            return question
    names = [question.name for question in known]
    kind, room = known[0].kind, known[0].room
    raise UsageError(f"no {kind} {name!r}: {suggest(name, names)}the {room} are {', '.join(names)}")


@checked
def run_probe(
    name: str, model: Any, strings: Any = None, *, frame: FrameLike | None = None, **options: Any
) -> ProbeResult:
    """Ask one probe about a model.

    Args:
        name: Of the probe; `tsc-interp list` shows all.
        model: A hooked model, a checkpoint, a bundled name, a path, or a run. Some probes also take
            any TransformerLens model.
        strings: One or more in run-length notation; token ids `[batch pos]` for a TransformerLens
            model.
        frame: What inputs look like, for a model that was not imported with a frame (`tsc.Frame`).
        options: The probe's own, as its page in the documentation lists them.

    Returns:
        The probe's result: findings, arrays with labels, `to_dict()`.

    Raises:
        UsageError: No such probe, or wrong strings.
        UnsupportedError: The probe does not support this model.

    Example:
        >>> result = run_probe("attribution", "walkthrough", ["aab"])
        >>> type(result).__name__
        'AttributionResult'
    """
    probe = find_probe(name)
    if strings is None:
        raise UsageError(f"which strings? run_probe({name!r}, model, ['aab', 'ab{{66}}'])")
    model = with_frame(model, frame)
    if isinstance(model, str | PathLike | Checkpoint | HoldsEpochs):
        from tsc_interp.model.classifier import open_classifier

        model = open_classifier(model)
    if not _token_ids(strings):
        strings = as_strings(strings)
        if not strings:
            raise UsageError("a probe needs at least one string, such as 'aab'; got none")
    return probe.run(model, strings, **options)


def _token_ids(given: Any) -> bool:
    """Whether these are rows of token ids: an array or a tensor, or lists of whole numbers."""
    if hasattr(given, "shape"):
        return True
    rows = given if isinstance(given, list | tuple) else ()
    return bool(rows) and all(
        isinstance(row, list | tuple) and all(isinstance(token, int) for token in row)
        for row in rows
    )


def figures(result: ProbeResult) -> Figures:
    """Every figure of a probe's result, in reading order."""
    return find_probe(result.probe).figures(result)
