"""Run a script section by section, keeping what each one printed.

A section is what stands between `# --8<-- [start:name]` and `# --8<-- [end:name]`, the same marks
by which a page includes its code. So a page can show a piece of code and, below it, what that very
piece printed during this build.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MARK = re.compile(r"\s*# --8<-- \[(start|end):([\w-]+)\]\s*")


@dataclass(frozen=True)
class Finished:
    """A script that has run: its variables, what it printed, and how long it took."""

    name: str
    variables: dict[str, Any]
    printed: dict[str, str]
    """By section; everything together under the empty name."""
    seconds: float


def run(script: Path) -> Finished:
    """Run it in an empty directory of its own, as `python script` would."""
    source = script.read_text(encoding="utf-8")
    variables: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    printed: dict[str, str] = {"": ""}
    started = time.perf_counter()
    with inside():
        for name, code in pieces(source):
            text = _run_piece(code, str(script), variables)
            printed[""] += text
            if name:
                printed[name] = printed.get(name, "") + text
    return Finished(script.stem, variables, printed, time.perf_counter() - started)


def pieces(source: str) -> Iterator[tuple[str, str]]:
    """(section, code) in order; code outside any section has the empty name.

    Each piece is padded with empty lines, so that line numbers in an error are the script's own.
    """
    name, start = "", 0
    lines = source.splitlines()
    for number, line in enumerate([*lines, "# --8<-- [end:]"]):
        mark = _MARK.fullmatch(line)
        if number < len(lines) and mark is None:
            continue
        yield name, "\n" * start + "\n".join(lines[start:number])
        name, start = (mark[2] if mark and mark[1] == "start" else ""), number + 1


def _run_piece(code: str, script: str, variables: dict[str, Any]) -> str:
    caught = io.StringIO()
    # The future import holds for the pieces behind it, as it does in the script itself.
    flags = _future_flags(variables)
    with contextlib.redirect_stdout(caught):
        exec(compile(code, script, "exec", flags=flags, dont_inherit=True), variables)
    return caught.getvalue()


def _future_flags(variables: dict[str, Any]) -> int:
    feature = variables.get("annotations")
    return int(getattr(feature, "compiler_flag", 0))


@contextlib.contextmanager
def inside() -> Iterator[None]:
    """An empty directory to work in, no colours, and tables as wide as a page's column."""
    before, arguments, environment = Path.cwd(), sys.argv, dict(os.environ)
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ |= {"COLUMNS": "92", "NO_COLOR": "1", "TERM": "dumb"}
        os.chdir(place)
        sys.argv = ["script"]
        try:
            yield
        finally:
            os.chdir(before)
            sys.argv = arguments
            os.environ.clear()
            os.environ |= environment
