"""The files that a certificate's reader has to trust, read off the folder that holds them."""

from __future__ import annotations

import ast
from pathlib import Path

CHECKER = Path(__file__).resolve().parents[2] / "tsc_interp" / "verification" / "checker"


KINDS = {
    "check": "A certificate about one model",
    "agreement": "A certificate about two models",
    "trellis": "A certificate about an order-sensitive model",
}
"""By the file that checks them."""


def trusted_files() -> str:
    """How many files each kind of certificate needs, and a table of all of them."""
    files = [path for path in sorted(CHECKER.glob("*.py")) if path.stem != "__init__"]
    rows = [(path.name, _lines(path), _purpose(path)) for path in files]
    kinds = []
    for name, kind in KINDS.items():
        needed = needed_by(name)
        lines = sum(_lines(CHECKER / f"{one}.py") for one in needed)
        kinds.append(f"- {kind} needs {len(needed)} files, {lines:,} lines (`{name}.py`).")
    return "\n".join(
        [
            *kinds,
            "",
            "| file | lines | purpose |",
            "|---|---:|---|",
            *(f"| `{name}` | {lines} | {purpose} |" for name, lines, purpose in rows),
            "",
        ]
    )


def needed_by(name: str) -> set[str]:
    """A file of the checker and all files of the checker that it imports, at any depth."""
    start = "tsc_interp.verification.checker"
    needed, waiting = set(), [name]
    while waiting:
        one = waiting.pop()
        if one in needed:
            continue
        needed.add(one)
        for node in ast.walk(ast.parse((CHECKER / f"{one}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == start:
                waiting += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{start}."):
                waiting.append(str(node.module).rsplit(".", 1)[1])
    return needed


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _purpose(path: Path) -> str:
    """The first sentence of a module's docstring, in one line."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first = " ".join(said.split("\n\n")[0].split())
    return first.replace("|", "\\|")
