"""What every report can do: be printed, be written to disk, be JSON and be read back."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from tsc_interp._version import __version__
from tsc_interp.arguments import checked
from tsc_interp.errors import TscError, UsageError
from tsc_interp.output.display import Displayed
from tsc_interp.output.json_form import to_json
from tsc_interp.report.files import replace_report
from tsc_interp.report.plotlyjs import PLOTLY_FILE, check_plotlyjs

FILES = {"html": "index.html", "md": "report.md", "json": "report.json"}


def check_options(formats: Sequence[str], plotlyjs: str) -> None:
    """Refuse a format or a way to load plotly that there is not."""
    if not formats or not set(formats) <= set(FILES):
        raise UsageError(
            f"formats are any of {', '.join(FILES)}; got {', '.join(formats) or 'none'}"
        )
    check_plotlyjs(plotlyjs)


class SavedReport(Displayed):
    """The report of a model, of two side by side, or of a laboratory."""

    schema: ClassVar[str]

    @property
    @abstractmethod
    def default_directory(self) -> Path:
        """Where it is saved if nobody says where."""

    @abstractmethod
    def show(self, *, tables: bool = False) -> None:
        """Print the findings that matter first; with `tables`, every finding and every table."""

    @abstractmethod
    def to_html(self, *, plotlyjs: str = "inline") -> str:
        """The page as HTML."""

    @abstractmethod
    def to_markdown(self) -> str:
        """The report as Markdown."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """What is in the JSON document, beside its schema and the version."""

    @classmethod
    @abstractmethod
    def from_content(cls, data: Mapping[str, Any]) -> Self:
        """The report that `content` describes."""

    @checked
    def save(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        formats: Sequence[str] = ("html", "md", "json"),
        plotlyjs: str = "inline",
        force: bool = False,
    ) -> Path:
        """Write the report, all of it or nothing.

        Args:
            directory: Where to; `default_directory` if not given.
            formats: Any of `html`, `md` and `json`.
            plotlyjs: `inline` for one page that needs no network, `cdn`, or `directory` for a file
                beside the page.
            force: Write among files that are not a report's.

        Returns:
            The path of the page, or of the first file if there is no page.

        Raises:
            UsageError: An option is unknown, or the directory holds other files.
            OutputError: The files could not be written; nothing was changed.
        """
        check_options(formats, plotlyjs)
        place = self.default_directory if directory is None else Path(directory)
        replace_report(place, lambda folder: self._write(folder, formats, plotlyjs), force=force)
        return place / FILES[next(name for name in FILES if name in formats)]

    def _write(self, folder: Path, formats: Sequence[str], plotlyjs: str) -> None:
        renderers: dict[str, Callable[[], str]] = {
            "html": lambda: self.to_html(plotlyjs=plotlyjs),
            "md": lambda: self.to_markdown(),
            "json": lambda: self.to_json() + "\n",
        }
        for name in formats:
            (folder / FILES[name]).write_text(renderers[name](), encoding="utf-8")
        if plotlyjs == "directory" and "html" in formats:
            from plotly.offline import get_plotlyjs

            (folder / PLOTLY_FILE).write_text(get_plotlyjs(), encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        return {"schema": self.schema, "version": __version__, **self.content()}

    def to_json(self) -> str:
        """Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity"."""
        return to_json(self.to_dict(), indent=1)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        if data.get("schema") != cls.schema:
            raise TscError(f"not a report: schema {data.get('schema')!r}, expected {cls.schema!r}")
        return cls.from_content(data)

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_dict(json.loads(text))
