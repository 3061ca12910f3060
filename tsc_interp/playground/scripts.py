"""From small JavaScript modules to one script: pages opened from disk cannot import files.

Each module becomes a function that is called once and returns what it exports, so modules keep
their private names to themselves and nothing but `import { a, b } from "./other.mjs"` and
`export function|const|class` has to be understood. What is not understood is refused.

Pages should be light, so the script stands in them gzipped (`packed`), a quarter of its size; the
few lines of `template.html` that unpack it are all that is plain.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from importlib.resources import files
from importlib.resources.abc import Traversable

from tsc_interp.errors import TscError

ASSETS: Traversable = files("tsc_interp.playground") / "assets"

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.mjs)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|const|class) (\w+))", re.MULTILINE)
_LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def read_asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def assemble_script(entry: str) -> str:
    """`entry` and every module it imports, dependencies first, as one script without imports."""
    done: dict[str, list[str]] = {}
    parts: list[str] = []
    _add_module(entry, (), done, parts)
    owners: dict[str, str] = {}
    for module, names in done.items():
        for name in names:
            if owners.setdefault(name, module) != module:
                raise TscError(
                    f"{module} and {owners[name]} both export {name}; rename one of them"
                )
    return "\n".join(parts)


def _add_module(
    name: str, importers: tuple[str, ...], done: dict[str, list[str]], parts: list[str]
) -> None:
    if name in importers:
        raise TscError(f"modules import each other in a circle: {' -> '.join([*importers, name])}")
    if name in done:
        return
    source = read_asset(name)
    for imported in _IMPORT.finditer(source):
        _add_module(imported[2], (*importers, name), done, parts)
        wanted = {part.strip() for part in imported[1].split(",")} - {""}
        missing = sorted(wanted - set(done[imported[2]]))
        if missing:
            raise TscError(
                f"{name} imports {', '.join(missing)}, which {imported[2]} does not export"
            )
    body = _IMPORT.sub("", source)
    exports = [export[1] for export in _EXPORT.finditer(body)]
    body = _EXPORT.sub("", body)
    if left_over := _LEFT_OVER.findall(body):
        raise TscError(f"{name}: cannot assemble the line {left_over[0]!r}")
    listed = ", ".join(exports)
    opening, closing = f"const {{ {listed} }} = (() => {{", f"return {{ {listed} }};\n}})();"
    parts.append(f"// {name}\n{opening}\n{body.strip()}\n{closing}\n")
    done[name] = exports


def packed(script: str) -> str:
    """Gzipped, in base64; the same for the same script."""
    return b64encode(gzip.compress(script.encode(), mtime=0)).decode()


def assemble_style(*names: str) -> str:
    """Style sheets as one, without comments and the spaces that nobody needs."""
    text = " ".join(re.sub(r"/\*.*?\*/", "", read_asset(name), flags=re.DOTALL) for name in names)
    return re.sub(r"\s*([{};])\s*|([:,])\s+", r"\1\2", re.sub(r"\s+", " ", text)).strip()
