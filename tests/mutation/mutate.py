"""All the small changes of one source file: a comparison, an operator, a constant, a missing line.

Each is a slip somebody could make. Annotations, docstrings, messages and named limits are left
alone: changing them changes no behaviour, or only a stated budget. So is `strict=True` of `zip`: it
turns a slip made elsewhere into an error.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

_COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "all": "any", "any": "all", "minimum": "maximum",
          "maximum": "minimum", "lower": "upper", "upper": "lower", "is_less": "is_at_most",
          "is_positive": "is_not_positive", "is_not_positive": "is_positive"}  # fmt: skip

_NOT_RUN = ("annotation", "returns", "args", "decorator_list", "type_comment")


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    function: str
    before: str
    after: str
    make: Callable[[], str] = dataclasses.field(compare=False)
    """The changed source; made when it is needed, because most mutants are never tried."""
    which: int = 1
    """The same change may be possible at several places of a function: the first, second, ..."""

    @property
    def name(self) -> str:
        """Stays the same when lines move."""
        name = f"{self.file}::{self.function}: {self.before} -> {self.after}"
        return name if self.which == 1 else f"{name} (#{self.which})"


def mutants(file: str, source: str) -> Iterator[Mutant]:
    tree = ast.parse(source)
    seen: Counter[tuple[str, str, str]] = Counter()
    for path, node, function in _sites(tree):
        for changed in _changes(node):
            before, after = _short(ast.unparse(node)), _short(ast.unparse(changed))
            if ast.unparse(node) != ast.unparse(changed):
                seen[function, before, after] += 1
                which = seen[function, before, after]
                make = partial(_changed_source, tree, path, changed)
                yield Mutant(file, node.lineno, function, before, after, make, which)


def _changed_source(tree: ast.AST, path: Path, new: ast.AST) -> str:
    other = copy.deepcopy(tree)
    _replace(other, path, new)
    return ast.unparse(ast.fix_missing_locations(other))


Path = tuple[tuple[str, int | None], ...]


def _sites(
    node: ast.AST, path: Path = (), function: str = "", inside: bool = False
) -> Iterator[tuple[Path, ast.AST, str]]:
    """Every node of a function's body that means something at run time."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        function = f"{function}.{node.name}".strip(".")
    if inside and hasattr(node, "lineno"):
        yield path, node, function
    for field, value in ast.iter_fields(node):
        if field in _NOT_RUN and not (field == "args" and isinstance(node, ast.Call)):
            continue
        below = inside or (isinstance(node, ast.FunctionDef) and field == "body")
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST) and not _says_nothing(child):
                at = index if isinstance(value, list) else None
                yield from _sites(child, (*path, (field, at)), function, below)


def _says_nothing(node: ast.AST) -> bool:
    """Messages, docstrings, and what only guards against slips elsewhere."""
    return (
        isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.keyword) and node.arg == "strict")
    )


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            new = copy.deepcopy(node)
            new.ops[i] = _COMPARISONS[type(op)]()
            yield new
    elif isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in _OPERATORS:
        new = copy.deepcopy(node)
        new.op = _OPERATORS[type(node.op)]()
        yield new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield copy.deepcopy(node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = not node.value if isinstance(node.value, bool) else node.value + 1
        yield ast.copy_location(ast.Constant(value), node)
    elif isinstance(node, ast.IfExp):
        yield ast.copy_location(ast.IfExp(node.test, node.orelse, node.body), node)
    elif isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _NAMES:
            new = copy.deepcopy(node)
            setattr(new.func, "id" if isinstance(node.func, ast.Name) else "attr", _NAMES[name])
            yield new
    elif isinstance(node, (ast.Expr, ast.Continue, ast.Break, ast.AugAssign)):
        yield ast.copy_location(ast.Pass(), node)


def _replace(tree: ast.AST, path: Path, new: ast.AST) -> None:
    for field, index in path[:-1]:
        value = getattr(tree, field)
        tree = value if index is None else value[index]
    field, index = path[-1]
    if index is None:
        setattr(tree, field, new)
    else:
        getattr(tree, field)[index] = new


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 90 else f"{text[:60]} ... {text[-25:]}"
