"""The files that have to be trusted, read off the folder that holds them."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "tsc_interp" / "trusted"


def trusted_files() -> str:
    """A table of all of them, and their lines in all."""
    files = [path for path in sorted(FOLDER.glob("*.py")) if path.stem != "__init__"]
    rows = [(path.name, _lines(path), _purpose(path)) for path in files]
    return "\n".join(
        [
            f"{len(files)} files, {sum(lines for _, lines, _ in rows):,} lines in all.",
            "",
            "| file | lines | purpose |",
            "|---|---:|---|",
            *(f"| `{name}` | {lines} | {purpose} |" for name, lines, purpose in rows),
            "",
        ]
    )


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _purpose(path: Path) -> str:
    """The first sentence of a module's docstring, in one line."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first = " ".join(said.split("\n\n")[0].split())
    return first.replace("|", "\\|")
