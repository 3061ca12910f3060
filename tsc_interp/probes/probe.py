"""What the package knows of a question: its name, its words, the function that answers it.

    @probe(SharpnessResult, title="How sharply heads look", question="How much ...?")
    def sharpness(inputs: Inputs) -> SharpnessResult: ...

`sharpness` is then a `Probe`, which `registry.py` lists: there is no registration by import.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from tsc_interp.errors import UsageError
from tsc_interp.probes.inputs import Inputs
from tsc_interp.results.base import ProbeResult

if TYPE_CHECKING:
    from tsc_interp.plots.figure import Figures

Result = TypeVar("Result", bound=ProbeResult)
ROW_OPTIONS = ("query", "token_names", "direction", "attention_mask")
"""What most probes heed of `Inputs.OPTIONS`."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question, the function that answers it and the type of its answer."""

    kind: ClassVar[str]
    """What this is a question of, such as `probe`."""
    room: ClassVar[str]
    """The plural, for errors."""

    name: str
    title: str
    question: str
    answer: type[ProbeResult] | None = None
    """The type of its result, whose `conclude`, `figures` and `tables` say the rest."""
    function: Callable[..., ProbeResult] | None = None

    @property
    def result_type(self) -> type[ProbeResult]:
        """The type of its result."""
        assert self.answer is not None
        return self.answer

    @property
    def explanation(self) -> str:
        """What is computed, and what is read: the docstring of the file that answers."""
        assert self.function is not None
        return inspect.getdoc(sys.modules[self.function.__module__]) or ""

    def told(self, result: Result) -> Result:
        """Return the result with its findings."""
        return result.concluded()

    def figures(self, result: ProbeResult) -> Figures:
        """Return every figure of a result, in reading order."""
        return result.figures


@dataclass(frozen=True, kw_only=True)
class Probe(Question):
    """A question about a model and its strings."""

    kind: ClassVar[str] = "probe"
    room: ClassVar[str] = "probes"

    chapter: str = ""
    """The part of the source report it comes from, such as `1-2`; empty if none."""
    needs_run: bool = False
    """Whether it is about a run directory: `run` then takes a `run_directory` as well."""
    on_request: bool = False
    """Whether it is asked only when named: the probes that intervene take seconds each."""
    any_model: bool = False
    """Whether it reads any TransformerLens model: token ids for strings, and `accepts`."""
    accepts: tuple[str, ...] = ROW_OPTIONS
    """What it heeds of `Inputs.OPTIONS`; a report passes over the others."""
    row_by_row: bool = False
    """Whether it takes rows apart one by one, so that a report asks about those it shows."""
    token_title: str = ""
    """The title where inputs are tokens and not letters; empty if it is the same."""
    token_question: str = ""
    why_not: str = ""
    """Why it cannot be asked of a model without a task; empty if it can, or for want of a
    better reason than that it needs a classifier."""

    def of_tokens(self) -> Self:
        """The same in the words of a model whose inputs are tokens and not letters."""
        return replace(
            self,
            title=self.token_title or self.title,
            question=self.token_question or self.question,
        )

    @property
    def external(self) -> bool:
        """Whether another package brought it."""
        function = self.function
        return function is not None and not function.__module__.startswith("tsc_interp.")

    def run(self, model: Any, strings: Any, **options: Any) -> ProbeResult:
        """Ask the probe about a model and strings, or token ids: its result, with findings.

        Raises:
            UsageError: An option that the probe does not take.
        """
        given = {name: options.pop(name) for name in Inputs.OPTIONS if name in options}
        if ignored := sorted(name for name in given if name not in self.accepts):
            raise UsageError(
                f"the {self.name} probe takes no {' or '.join(ignored)}, but "
                f"{', '.join(self.accepts)}"
            )
        return self.ask(Inputs(model, strings, **given), **options)

    def ask(self, inputs: Inputs, **options: Any) -> ProbeResult:
        """Ask the probe about inputs that several probes share."""
        assert self.function is not None
        signature = inspect.signature(self.function)
        try:
            signature.bind(inputs, **options)
        except TypeError as error:
            known = ", ".join(list(signature.parameters)[1:]) or "none"
            raise UsageError(f"the {self.name} probe: {error}; its options are {known}") from None
        result = self.function(inputs, **options)
        return result.concluded() if isinstance(result, ProbeResult) else result


def probe(
    answer: type[ProbeResult], *, title: str, question: str, **settings: Any
) -> Callable[[Callable[..., ProbeResult]], Probe]:
    """Make a probe of the function below, which takes `Inputs` and options of its own.

    Args:
        answer: The type of its result, which holds the probe's name.
        title: A few words, for headings.
        question: The question it answers.
        settings: Other fields of `Probe`, such as `any_model=True`.
    """

    def made(function: Callable[..., ProbeResult]) -> Probe:
        named = {"name": getattr(answer, "probe", ""), **settings}
        return Probe(title=title, question=question, answer=answer, function=function, **named)

    return made
