"""The folder listing is the data flow: a room imports only from rooms that stand before it.

Every import counts, also inside a function and under `TYPE_CHECKING`: a type is knowledge too.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tsc_interp"

ROOMS = (
    "_version",
    "source_report",
    "trusted",
    "errors",
    "memory",
    "telling",
    "arguments",
    "files",
    "processes",
    "output",
    "frozen",
    "plots",
    "results",
    "strings",
    "frames",
    "tasks",
    "config",
    "data",
    "checkpoints",
    "model",
    "training",
    "reproduction",
    "interventions",
    "enumeration",
    "verification",
    "formal",
    "pruning",
    "probes",
    "falsification",
    "construction",
    "laboratories",
    "sweeps",
    "playground",
    "report",
    "cli",
)

VERIFICATION = (
    "labels", "documents", "guess", "count_model", "search", "counting", "order",
)  # fmt: skip
"""Inside verification: each imports from those before it, the files beside them from all."""


@cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Read once: a dozen tests ask about the same files."""
    found = ast.walk(ast.parse(path.read_text()))
    return [node for node in found if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path, package: Path = PACKAGE) -> Iterator[tuple[str, str]]:
    """(the module, a module of ours that it imports), for every import statement in a file."""
    parts = (package.name, *path.relative_to(package).with_suffix("").parts)
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif node.level:
            base = parts[: -node.level]
            found = [".".join((*base, *filter(None, [node.module])))]
        elif node.module == package.name:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            found = [node.module or ""]
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
    assert against_the_flow() == set()


def test_every_room_has_its_place():
    present = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert present - {"__init__", "__pycache__", "py"} <= set(ROOMS)
    assert len(set(ROOMS)) == len(ROOMS)


def part(module: str) -> str:
    """The room inside verification; the files beside the rooms stand after all of them."""
    inside = module.split(".")[2:3]
    return inside[0] if inside and inside[0] in VERIFICATION else "top"


def module_graph(package: Path = PACKAGE) -> dict[str, set[str]]:
    """Every module and the modules of ours that it imports."""
    files = [path for path in package.rglob("*.py") if path != package / "__init__.py"]
    graph: dict[str, set[str]] = {}
    names = {".".join((package.name, *f.relative_to(package).with_suffix("").parts)) for f in files}
    for path in files:
        for module, other in imports(path, package):
            found = graph.setdefault(module, set())
            if other in names:
                found.add(other)
            else:  # a name of a package: what it stands for is elsewhere, or one of its files
                found.update(set(_files_named(path, other)) & names)
    return graph


def _files_named(path: Path, package: str) -> Iterator[str]:
    for node in import_statements(path):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            yield from (f"{package}.{alias.name}" for alias in node.names)


def cycles(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return [tuple(error.args[1])]
    return []


def test_no_file_imports_itself_by_way_of_others():
    assert cycles(module_graph()) == []


def test_rooms_of_verification_follow_each_other():
    order = (*VERIFICATION, "top")
    against = {
        (part(module), part(other))
        for path in (PACKAGE / "verification").rglob("*.py")
        if path != PACKAGE / "verification" / "__init__.py"  # names everything, loads nothing
        for module, other in imports(path)
        if room(other) == "verification" and order.index(part(other)) > order.index(part(module))
    }
    assert against == set()


def test_the_trusted_base_runs_where_nothing_else_can_be_imported() -> None:
    """A proof is replayed in a process that has no pydantic, and none of our other rooms."""
    code = """
import sys, importlib.abc, json
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        ours = name.startswith("tsc_interp.") and name.split(".")[1] not in ("trusted", "_version")
        if ours or name.split(".")[0] in ("pydantic", "torch", "scipy", "safetensors"):
            raise ImportError(f"{name} is out of reach")
sys.meta_path.insert(0, Refuse())
from tsc_interp.trusted.replay import replay
from tsc_interp.trusted.spec import read_model
content, document = open(sys.argv[1], "rb").read(), json.load(open(sys.argv[2]))
print(replay(document, [read_model(content)])["horizon"])
"""
    import tsc_interp as tsc

    with tempfile.TemporaryDirectory() as folder:
        model, proof = Path(folder) / "m.safetensors", Path(folder) / "proof.json"
        tsc.load("generalization-errors").to_checkpoint().save(model)
        tsc.certify("generalization-errors", limit=100).save(proof)
        command = [sys.executable, "-c", code, str(model), str(proof)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "66"


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


def test_every_folder_of_modules_is_a_package() -> None:
    """Without an __init__.py it would be missing from the wheel."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert not [str(one) for one in folders if not (one / "__init__.py").is_file()]
