"""The small changes of a module: comparisons, conditions, constants, arithmetic, removed statements, returned values.

Changes are made in the syntax tree, so that line numbers stay, and are counted: a module and a number name a mutant.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_EXACT = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""The negation of these is the same change as the opposite comparison."""
_UNCHANGED_FIELDS = {
    ("AnnAssign", "annotation"),
    ("arg", "annotation"),
    ("FunctionDef", "returns"),
    ("AsyncFunctionDef", "returns"),
    ("ClassDef", "keywords"),
    ("ClassDef", "bases"),
    ("FormattedValue", "format_spec"),
    ("MatchClass", "cls"),
}
"""Types and declarations: a type checker reads them, no test does."""


@final
class Mutant(Struct, frozen=True):
    """One change of a module."""

    file: str
    number: int
    """Of the changes of this module, in order."""
    kind: str
    line: int
    lines: tuple[int, int]
    """Of the statement without the statements inside it: who runs none of these cannot notice the change."""
    before: str
    after: str
    in_function: bool

    @property
    def name(self) -> str:
        return f"{self.file}:{self.number}"


class _Place(Struct, frozen=True):
    """Where a walk through the tree is."""

    in_function: bool = False
    lines: tuple[int, int] = (1, 1)


class _Edit(Struct, frozen=True):
    """A node that takes the place of another one; None removes a statement."""

    kind: str
    place: _Place
    holder: ast.AST
    field: str
    index: int | None
    old: ast.AST
    new: ast.AST

    def apply(self) -> None:
        self._put(self.new)

    def undo(self) -> None:
        self._put(self.old)

    def _put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.holder, self.field, node)
        else:
            getattr(self.holder, self.field)[self.index] = node


def mutants_of(source: str, file: str) -> list[Mutant]:
    """Every change of a module."""
    return [
        Mutant(
            file,
            number,
            edit.kind,
            getattr(edit.old, "lineno", edit.place.lines[0]),
            edit.place.lines,
            _written(edit.old),
            _written(edit.new),
            edit.place.in_function,
        )
        for number, edit in enumerate(_edits(ast.parse(source)))
    ]


def mutated(source: str, number: int) -> ast.Module:
    """The tree of a module with one change."""
    tree = ast.parse(source)
    for at, edit in enumerate(_edits(tree)):
        if at == number:
            edit.apply()
            return ast.fix_missing_locations(tree)
    message = f"This module has no change number {number}: was it edited since?"
    raise SystemExit(message)


def _written(node: ast.AST) -> str:
    if isinstance(node, ast.match_case):
        return f"case {ast.unparse(node.pattern)}"
    text = ast.unparse(node)
    return text.split("\n", 1)[0]


def _edits(tree: ast.Module) -> Iterator[_Edit]:
    yield from _inside(tree, _Place())


def _inside(node: ast.AST, place: _Place) -> Iterator[_Edit]:
    if isinstance(node, ast.stmt):
        place = _Place(place.in_function, _own_lines(node))
    for field, value in ast.iter_fields(node):
        if (type(node).__name__, field) in _UNCHANGED_FIELDS:
            continue
        # Only the body of a function is run anew in a child: defaults and decorators are not.
        runs = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and field == "body"
        inner = _Place(in_function=True, lines=place.lines) if runs else place
        children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if isinstance(child, ast.AST) and not _is_declaration(node, child):
                for kind, new in _changes(node, field, child):
                    yield _Edit(kind, _at(child, inner), node, field, index, child, _located(new, child))
                yield from _inside(child, inner)


def _at(node: ast.AST, place: _Place) -> _Place:
    return _Place(place.in_function, _own_lines(node)) if isinstance(node, ast.stmt) else place


def _own_lines(node: ast.stmt) -> tuple[int, int]:
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if not body:
        return node.lineno, node.end_lineno or node.lineno
    first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
    return node.lineno, max(node.lineno, first.lineno - 1)


def _located(new: ast.AST, old: ast.AST) -> ast.AST:
    return ast.copy_location(new, old) if hasattr(old, "lineno") else new


def _is_declaration(holder: ast.AST, node: ast.AST) -> bool:
    match node:
        case (
            ast.Import()
            | ast.ImportFrom()
            | ast.Expr(value=ast.Constant())  # a docstring, or `...`
            | ast.Expr(value=ast.Call(func=ast.Name(id="assert_never")))
            | ast.If(test=ast.Name(id="TYPE_CHECKING"))
            | ast.AnnAssign(annotation=ast.Name(id="TypeAlias"))
            | ast.FunctionDef(decorator_list=[ast.Name(id="overload"), *_])
            | ast.Call(func=ast.Name(id="TypeVar" | "cast"))
        ):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name.startswith("__")
        case ast.Constant():
            return isinstance(holder, ast.JoinedStr)
    return False


def _changes(holder: ast.AST, field: str, node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.expr):
        yield from _changed_expressions(node)
        if _is_condition(holder, field) and not _negation_is_listed(node):
            yield "condition", ast.UnaryOp(ast.Not(), node)
    elif isinstance(node, ast.stmt):
        yield from _changed_statements(node)
    elif isinstance(node, ast.match_case):
        if node.guard is not None:
            yield "condition", ast.match_case(node.pattern, None, node.body)
        if len(getattr(holder, field)) > 1 and not _is_never(node.body):
            yield "removed", ast.match_case(node.pattern, ast.Constant(value=False), node.body)


def _changed_expressions(node: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare(left, ops, comparators):
            for at, op in enumerate(ops):
                new = [*ops[:at], _COMPARISONS[type(op)](), *ops[at + 1 :]]
                yield "comparison", ast.Compare(left, new, comparators)
        case ast.BoolOp(op, values):
            yield "boolean", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "boolean", operand
        case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
            yield "arithmetic", ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.Constant(value=value):
            if (changed := _other_constant(value)) is not None:
                yield "constant", ast.Constant(changed)


def _changed_statements(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Return(value=value) if value is not None and not _is_empty(value):
            yield "returned value", ast.Return(ast.Constant(None))
        case ast.AugAssign(target, op, value):
            if type(op) in _ARITHMETIC:
                yield "arithmetic", ast.AugAssign(target, _ARITHMETIC[type(op)](), value)
            yield "removed", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "removed", ast.Pass()
        case ast.Expr() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            yield "removed", ast.Pass()


def _is_condition(holder: ast.AST, field: str) -> bool:
    tests = isinstance(holder, ast.If | ast.While | ast.IfExp) and field == "test"
    return tests or (isinstance(holder, ast.comprehension) and field == "ifs")


def _negation_is_listed(node: ast.expr) -> bool:
    match node:
        case ast.UnaryOp(op=ast.Not()) | ast.Constant():
            return True
        case ast.Compare(ops=[op]):
            return isinstance(op, _EXACT)
    return False


def _other_constant(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 2 + 1
        case str() if not any(letter.isspace() for letter in value):
            return f"{value}XX"
    return None  # words for people, bytes, None, ...


def _is_empty(node: ast.expr) -> bool:
    """None, or as good as None for whoever asks whether there is something; constants change in their own way."""
    return isinstance(node, ast.Constant)


def _is_never(body: list[ast.stmt]) -> bool:
    return len(body) == 1 and _is_declaration(ast.Module([], []), body[0])
