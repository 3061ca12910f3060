"""From small JavaScript modules to one script: pages opened from disk cannot import files.

Each module becomes a function that is called once and returns what it exports, so modules keep
their private names to themselves and nothing but `import { a, b } from "./other.mjs"` and
`export function|const|class` has to be understood. What is not understood is refused.

Pages should be light, so what is for readers of the package stays behind: comments, indentation,
spaces and line breaks around punctuation. Strings keep theirs, and what may hold a regular
expression or a template in a template is left as it is.
"""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

from tsc_interp.errors import TscError

ASSETS: Traversable = files("tsc_interp.playground") / "assets"

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.mjs)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|const|class) (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^ *(?://.*|/\*\*[\s\S]*?\*/)\n", re.MULTILINE)
_REMARK = re.compile(r"(?<=[;,{}()\[\]]) // [^\"'`\n]*$", re.MULTILINE)  # no string ends after it
_SPACES = re.compile(r" *([=,(){}\[\]:?;<>&|*]+) *")
_SIGNS = re.compile(r"(?<![+-]) ?([+-]) ?(?![+-])")  # not those of `a - -b`, which is not `a--b`
_BREAKS = re.compile(r",?\n(?=[)\]}])|(?<=[,({\[=>?:&|])\n|\n(?=[.?:&|])")
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
    body = _REMARK.sub("", _COMMENT.sub("", _IMPORT.sub("", source)))
    exports = [found[1] for found in _EXPORT.finditer(body)]
    body = _EXPORT.sub("", body)
    left_over = _LEFT_OVER.findall(body)
    left_over += [line for line in body.splitlines() if line.count("`") % 2]
    if left_over:
        raise TscError(f"{name}: cannot assemble the line {left_over[0]!r}")
    # Strings end on their line, so a break beside a bracket or between operands is only a break.
    body = _BREAKS.sub("", "\n".join(_squeezed(line.strip()) for line in body.strip().splitlines()))
    listed = ", ".join(exports)
    opening, closing = f"const {{ {listed} }} = (() => {{", f"return {{ {listed} }};\n}})();"
    parts.append(f"// {name}\n{opening}\n{body}\n{closing}\n")
    done[name] = exports


def _squeezed(line: str) -> str:
    """A line without the spaces that nobody needs."""
    parts = re.split(r'([`"])', line)
    inside = ""
    for i, part in enumerate(parts):
        if part in ('"', "`") and inside in ("", part):
            inside = "" if inside else part
        elif not inside:
            if re.search(r"['/\\]", part):
                return line  # a regular expression, perhaps, or a quote that is escaped
            parts[i] = _SIGNS.sub(r"\1", _SPACES.sub(r"\1", part))
        elif inside == "`" and part.count("${") != part.count("}"):
            return line  # a template inside a template
    return "".join(parts)


def assemble_style(*names: str) -> str:
    """Style sheets as one, without comments and the spaces that nobody needs."""
    text = " ".join(re.sub(r"/\*.*?\*/", "", read_asset(name), flags=re.DOTALL) for name in names)
    return re.sub(r"\s*([{};])\s*|([:,])\s+", r"\1\2", re.sub(r"\s+", " ", text)).strip()
