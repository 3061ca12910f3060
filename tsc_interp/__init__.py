"""tsc-interp: find the shortest input a small transformer gets wrong, with a proof.

`__init__.pyi` lists the public names: twenty in the order of the work, and the types and helpers
that go with them. Each is loaded when it is first used, so that `import tsc_interp` costs nothing.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from tsc_interp._version import __version__ as __version__

_IMPORT = re.compile(r"^from (\S+) import (\w+)", re.MULTILINE)
_TEXT = Path(__file__).with_name("__init__.pyi").read_text()
_PUBLIC = {name: module for module, name in _IMPORT.findall(_TEXT)}

__all__ = re.findall(r'"(\w+)"', _TEXT)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        from tsc_interp.errors import suggest

        hint = "" if name.startswith("_") else suggest(name, _PUBLIC).rstrip()
        problem = f"module 'tsc_interp' has no attribute {name!r}"
        raise AttributeError(f"{problem}: {hint}" if hint else problem)
    if _PUBLIC[name] == "tsc_interp":
        return import_module(f"tsc_interp.{name}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
