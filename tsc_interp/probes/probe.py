"""What the package knows of a question before it is asked: its name, its words, where it lives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from tsc_interp.probes.base import ProbeResult

if TYPE_CHECKING:
    from tsc_interp.plots.figure import Figures


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question and the folder that answers it, with `result`, `run`, `words` and `figures`."""

    kind: ClassVar[str]
    """What this is a question of; its folder is `tsc_interp/ROOM/NAME`."""
    room: ClassVar[str]

    name: str
    title: str
    question: str
    result: str
    """The name of its result's class."""
    folder: str = ""
    """The package its modules are in, where it is another's; empty for `tsc_interp.ROOM.NAME`."""

    def module(self, part: str) -> Any:
        """`result`, `run`, `words` or `figures`."""
        folder = self.folder or f"tsc_interp.{self.room}.{self.name.replace('-', '_')}"
        return import_module(f"{folder}.{part}")

    @property
    def result_type(self) -> type[ProbeResult]:
        return cast("type[ProbeResult]", getattr(self.module("result"), self.result))

    def figures(self, result: ProbeResult) -> Figures:
        """Every figure of a result, in reading order."""
        from tsc_interp.plots.figure import Figures

        return Figures(self.module("figures").figures(result))

    def of_tokens(self) -> Self:
        """The same in the words of a model whose inputs are tokens and not letters."""

        def said(text: str) -> str:
            return text.replace("letter", "token").replace("logit", "read-out")

        return replace(self, title=said(self.title), question=said(self.question))


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
    """Whether it reads any TransformerLens model: token ids for strings, and `query=`."""

    def run(self, model: Any, strings: Any, **options: Any) -> ProbeResult:
        return cast(ProbeResult, self.module("run").run(model, strings, **options))
