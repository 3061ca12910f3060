"""The folder listing is the data flow: a room imports only from rooms that stand before it.

Every import counts, also inside a function and under `TYPE_CHECKING`: a type is knowledge too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tsc_interp"

ROOMS = (
    "_version",
    "source_report",
    "errors",
    "files",
    "output",
    "frozen",
    "strings",
    "task",
    "config",
    "data",
    "checkpoints",
    "model",
    "training",
    "reproduction",
    "interventions",
    "verification",
    "pruning",
    "plots",
    "probes",
    "laboratories",
    "sweeps",
    "playground",
    "report",
    "cli",
)

# Being moved by others; a line leaves when its import does.
KNOWN: frozenset[tuple[str, str]] = frozenset()


def imports(path: Path, package: Path = PACKAGE) -> Iterator[tuple[str, str]]:
    """(the module, a module of ours that it imports), for every import statement in a file."""
    parts = (package.name, *path.relative_to(package).with_suffix("").parts)
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = parts[: -node.level]
            found = [".".join((*base, *filter(None, [node.module])))]
        elif isinstance(node, ast.ImportFrom) and node.module == package.name:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [node.module or ""]
        else:
            continue
        yield from ((name, other) for other in found if f"{other}.".startswith(f"{package.name}."))


def room(module: str) -> str:
    return module.split(".")[1]


def against_the_flow(package: Path = PACKAGE) -> set[tuple[str, str]]:
    return {
        (module, other)
        for path in package.rglob("*.py")
        if path != package / "__init__.py"  # names everything, loads nothing
        for module, other in imports(path, package)
        if ROOMS.index(room(other)) > ROOMS.index(room(module))
    }


def test_nothing_imports_from_a_room_after_its_own():
    assert against_the_flow() == KNOWN


def test_every_room_has_its_place():
    present = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert present - {"__init__", "__pycache__", "py"} <= set(ROOMS)
    assert len(set(ROOMS)) == len(ROOMS)


@pytest.mark.parametrize("statement", [
    "import tsc_interp.cli.app",
    "from tsc_interp.cli import app",
    "from tsc_interp import cli",
    "from ..cli import app",
    "def f():\n    from tsc_interp.cli.app import main",
    "if TYPE_CHECKING:\n    from tsc_interp.cli.app import main",
])  # fmt: skip
def test_the_check_sees_every_way_of_importing(statement, tmp_path):
    package = tmp_path / "tsc_interp"
    (package / "model").mkdir(parents=True)
    (package / "model" / "bad.py").write_text(statement)
    found = against_the_flow(package)
    assert {room(module) for module, _ in found} == {"model"}
    assert {room(other) for _, other in found} == {"cli"}
