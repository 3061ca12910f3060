"""All the small changes of one source file: a comparison, an operator, a constant, a missing line.

Each is a slip somebody could make. Annotations, docstrings, messages and named limits are left
alone: changing them changes no behaviour, or only a stated budget.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

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
    source: str

    @property
    def name(self) -> str:
        """Stays the same when lines move."""
        return f"{self.file}::{self.function}: {self.before} -> {self.after}"


def mutants(file: str, source: str) -> Iterator[Mutant]:
    tree = ast.parse(source)
    for path, node, function in _sites(tree):
        for changed in _changes(node):
            other = copy.deepcopy(tree)
            _replace(other, path, changed)
            ast.fix_missing_locations(other)
            before, after = ast.unparse(node), ast.unparse(changed)
            if before != after:
                yield Mutant(file, node.lineno, function, _short(before), _short(after),
                             ast.unparse(other))  # fmt: skip


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
            if isinstance(child, ast.AST) and not _is_text(child):
                at = index if isinstance(value, list) else None
                yield from _sites(child, (*path, (field, at)), function, below)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
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
