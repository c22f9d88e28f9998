"""The changes that make a mutant of a statement."""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .statements import FUNCTION, bare_copy, head

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
SHIFTED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
}
EMPTY = {
    "tuple": "()",
    "Sequence": "()",
    "list": "[]",
    "dict": "{}",
    "Mapping": "{}",
    "str": "''",
    "bytes": "b''",
    "int": "0",
    "float": "0.0",
    "frozenset": "frozenset()",
    "set": "set()",
}
"""What a function of a type returns for nothing; `None` for every other type."""

DROPPED = (ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)

Edit = Callable[[ast.AST], None]


@dataclass(frozen=True)
class Change:
    """One operator at one place of a statement: the statement's text after it."""

    operator: str
    replacement: str


def changes(statement: ast.AST, function: ast.AST) -> Iterator[Change]:
    """Yield every change of a statement that an operator makes; of a compound statement, the changes of its head."""
    if isinstance(statement, (*FUNCTION, ast.ClassDef, ast.ExceptHandler)) or _is_exhaustive(statement):
        return
    text = head(statement)
    bare = bare_copy(statement)
    for place, node in enumerate(_expressions(bare)):
        for operator, edit in _edits(node, statement):
            changed = copy.deepcopy(bare)
            edit(_expressions(changed)[place])
            if (replacement := head(changed)) != text:
                yield Change(operator, replacement)
    yield from _whole(statement, function)


def _whole(statement: ast.AST, function: ast.AST) -> Iterator[Change]:
    if isinstance(statement, ast.Return) and statement.value is not None:
        returns = getattr(function, "returns", None)
        annotation = ast.unparse(returns) if returns else ""
        if annotation == "bool":
            if not isinstance(statement.value, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
                yield Change("negation", f"return not {ast.unparse(statement.value)}")
        else:
            empty = "None" if "| None" in annotation else EMPTY.get(annotation.partition("[")[0], "None")
            if ast.unparse(statement.value) != empty:
                yield Change("return", f"return {empty}")
    is_change = isinstance(statement, ast.Assign) and not any(
        isinstance(one, ast.Name | ast.Tuple) for one in statement.targets
    )
    is_kept = is_change and getattr(function, "name", "") != "__init__"
    is_effect = isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant)
    is_bare_return = isinstance(statement, ast.Return) and statement.value is None
    if is_kept or is_effect or is_bare_return or isinstance(statement, DROPPED):
        yield Change("drop", "pass")


def _edits(node: ast.AST, statement: ast.AST) -> Iterator[tuple[str, Edit]]:
    match node:
        case ast.Compare():
            for place, compared in enumerate(node.ops):
                yield "comparison", _comparing(place, FLIPPED[type(compared)])
                if type(compared) in SHIFTED:
                    yield "boundary", _comparing(place, SHIFTED[type(compared)])
        case ast.BoolOp():
            yield "and/or", _setting("op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.BinOp() | ast.AugAssign() if type(node.op) in CALCULATED and not _is_joining(node):
            yield "arithmetic", _setting("op", CALCULATED[type(node.op)]())
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield "constant", _setting("value", value + 1)
            yield "constant", _setting("value", value - 1)
        case ast.Constant(value=bool() as value):
            yield "negation", _setting("value", not value)
        case ast.UnaryOp(op=ast.Not()):
            yield "negation", _remove_not
        case _:
            yield from _edits_of_branches(node, statement)


def _edits_of_branches(node: ast.AST, statement: ast.AST) -> Iterator[tuple[str, Edit]]:
    match node:
        case ast.IfExp():
            yield "branches", _swap_branches
        case ast.comprehension():
            for place, condition in enumerate(node.ifs):
                if _can_be_negated(condition):
                    yield "negation", _negating_condition(place)
        case ast.If() | ast.While() if _can_be_negated(node.test):
            yield ("branches" if getattr(statement, "orelse", None) else "negation"), _negate_test
        case _:
            pass


def _expressions(node: ast.AST) -> list[ast.AST]:
    """List a statement and its expressions, without annotations and the inside of f-strings, which mostly is prose."""
    found = [node]
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns") or isinstance(node, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.pattern):
                found += _expressions(child)
    return found


def _is_exhaustive(statement: ast.AST) -> bool:
    """Tell an `assert`, and the `assert_never` at the end of a match: neither has an effect in a correct program."""
    text = head(statement)
    return isinstance(statement, ast.Assert) or "assert_never" in text


def _is_joining(node: ast.BinOp | ast.AugAssign) -> bool:
    """Tell `+` of texts and sequences, which no other operator can replace."""
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
    literal = (ast.JoinedStr, ast.Tuple, ast.List, ast.ListComp)
    return any(
        isinstance(one, literal) or (isinstance(one, ast.Constant) and isinstance(one.value, str | bytes))
        for one in sides
    )


def _can_be_negated(test: ast.expr) -> bool:
    """A comparison or a `not` has an operator of its own that does the same."""
    return not (isinstance(test, ast.Compare) and len(test.ops) == 1) and not isinstance(test, ast.UnaryOp)


def _setting(field: str, value: object) -> Edit:
    return lambda node: setattr(node, field, value)


def _comparing(place: int, operator: type[ast.cmpop]) -> Edit:
    def edit(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops[place] = operator()

    return edit


def _negating_condition(place: int) -> Edit:
    def edit(node: ast.AST) -> None:
        assert isinstance(node, ast.comprehension)
        node.ifs[place] = ast.UnaryOp(ast.Not(), node.ifs[place])

    return edit


def _negate_test(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.While)
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _remove_not(node: ast.AST) -> None:
    assert isinstance(node, ast.UnaryOp)
    operand = node.operand
    node.__class__ = operand.__class__  # type: ignore[assignment]  # the parent keeps its reference
    node.__dict__ = operand.__dict__


def _swap_branches(node: ast.AST) -> None:
    assert isinstance(node, ast.IfExp)
    node.body, node.orelse = node.orelse, node.body
