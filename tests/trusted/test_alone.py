"""The trusted base needs numpy, flint, the standard library and itself, and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import tsc_interp.trusted

FOLDER = Path(tsc_interp.trusted.__file__ or "").parent
ALLOWED = {"numpy", "flint", "__future__", *sys.stdlib_module_names}

ALONE = '''
import sys

class Refusing:
    """Finds no module but the trusted base, numpy, flint and the standard library."""

    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        own = name in ("tsc_interp", "tsc_interp._version")
        own = own or name.split(".")[:2] == ["tsc_interp", "trusted"]
        if not own and top not in {"numpy", "flint", *sys.stdlib_module_names}:
            raise ImportError(f"not needed: {name}")

sys.meta_path.insert(0, Refusing())
import tsc_interp.trusted.replay
try:
    import tsc_interp.tasks
except ImportError:
    print(*sorted(name for name in sys.modules if name.startswith("tsc_interp")))
'''


def test_it_runs_where_nothing_else_can_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    files = {f"tsc_interp.trusted.{path.stem}" for path in FOLDER.glob("*.py")}
    assert loaded == {"tsc_interp", "tsc_interp._version", "tsc_interp.trusted", *files} - {
        "tsc_interp.trusted.__init__"
    }


def test_no_file_imports_anything_else() -> None:
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                own = name.startswith("tsc_interp.trusted")
                assert own or name.split(".")[0] in ALLOWED, (path.name, name)
