"""What the package knows of a question before it is asked: its name, its words, where it lives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from tsc_interp.results.base import ProbeResult

if TYPE_CHECKING:
    from tsc_interp.plots.figure import Figures

Result = TypeVar("Result", bound=ProbeResult)
ROW_OPTIONS = ("query", "token_names", "direction", "attention_mask")
"""What a model of TransformerLens can be asked with, beside its token ids."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question and the folder that answers it, with `result`, `run`, `words` and `figures`."""

    kind: ClassVar[str]
    """What this is a question of; its folder is `tsc_interp/ROOM/NAME`."""
    room: ClassVar[str]

    name: str
    title: str
    question: str
    folder: str = ""
    """The package its modules are in, where it is another's; empty for `tsc_interp.ROOM.NAME`."""
    result: str = ""
    """The name of its result's class; empty for `NameResult`."""

    def module(self, part: str) -> Any:
        """`result`, `run`, `words` or `figures`."""
        folder = self.folder or f"tsc_interp.{self.room}.{self.name.replace('-', '_')}"
        return import_module(f"{folder}.{part}")

    @property
    def result_type(self) -> type[ProbeResult]:
        named = self.result or f"{self.name.title().replace('-', '')}Result"
        return cast("type[ProbeResult]", getattr(self.module("result"), named))

    def told(self, result: Result) -> Result:
        """The result with what it says in sentences."""
        return result.with_findings(self.module("words").findings(result))

    def figures(self, result: ProbeResult) -> Figures:
        """Every figure of a result, in reading order."""
        from tsc_interp.plots.figure import Figures

        return Figures(self.module("figures").figures(result))


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
    """The options that `run` takes with token ids."""
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

    def run(self, model: Any, strings: Any, **options: Any) -> ProbeResult:
        result = cast(ProbeResult, self.module("run").run(model, strings, **options))
        return result if self.folder else self.told(result)  # other packages add findings in `run`
