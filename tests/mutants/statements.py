"""Find a statement by its text in a tree that was reorganised, and replace it.

A statement is compared in a normal form (`ast.unparse`, on one line, a compound statement without its body), so moving it to
another module, indenting it, wrapping it or rewriting the docstrings and comments around it changes nothing.
"""

import ast
import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from pathlib import Path

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
BODIES = ("body", "orelse", "finalbody", "handlers", "cases", "decorator_list")
"""The fields of a compound statement that hold other statements, or stand before it."""

Names = Mapping[str, frozenset[str]]
"""Old identifiers and what each may be called now; one old name may have become several."""

_TOKEN = re.compile(
    r"""[rbfRBF]{0,2}(?:'{3}.*?'{3}|"{3}.*?"{3}|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
    r"|[A-Za-z_]\w*|\d[\w.]*|\.{3}|\*\*=?|//=?|->|:=|<<=?|>>=?|[-+*/%&|^@=!<>]=|\S",
    re.DOTALL,
)
_STRING = re.compile(r"[rbfRBF]{0,2}['\"]")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Statement:
    """One statement of a function: its normal form, and where it is."""

    text: str
    path: Path
    function: str
    node: ast.AST

    @property
    def lines(self) -> range:
        """The source lines of the statement, of a compound one without its body."""
        first: int = getattr(self.node, "lineno", 0) or min(part.lineno for part in _located(self.node))
        last: int = getattr(self.node, "end_lineno", 0) or max(part.lineno for part in _located(self.node))
        body = [part for field in BODIES[:-1] for part in getattr(self.node, field, [])]
        inner = min((line for part in body for line in _lines(part)), default=last + 1)
        return range(first, max(first + 1, inner))


@dataclass(frozen=True)
class Anchor:
    """What a statement is found by: its text, up to two statements on each side in the same function, and the function's name."""

    line: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    function: str
    file: str


@dataclass(frozen=True)
class Found:
    """The statement of an anchor, and its file under the folder that was searched."""

    statement: Statement
    file: str


@dataclass(frozen=True)
class Missing:
    """No statement, or more than one equally good, fits an anchor."""

    reason: str


class Tree:
    """The statements of all functions under a folder or of one file in it, each function a list in source order."""

    def __init__(self, folder: Path, file: str = "") -> None:
        self.folder = folder
        paths = [folder / file] if file else sorted(folder.rglob("*.py"))
        self.modules = {path: ast.parse(path.read_text("utf-8")) for path in paths}
        self.functions = [found for path, module in self.modules.items() for found in functions(path, module)]

    def locate(self, anchor: Anchor, names: Names) -> Found | Missing:
        """Find the statement that fits an anchor best: by its neighbours, then by its function, then by its file."""
        matches = [
            (_score(anchor, statements, index, names), statement)
            for statements in self.functions
            for index, statement in enumerate(statements)
            if align(anchor.line, statement.text, names) is not None
        ]
        if not matches:
            return Missing(self._nearest(anchor))
        best = max(score for score, _ in matches)
        chosen = [statement for score, statement in matches if score == best]
        if len(chosen) > 1:
            same = [statement for statement in chosen if statement.path.name == Path(anchor.file).name]
            chosen = same if len(same) == 1 else chosen
        if len(chosen) > 1:
            places = ", ".join(f"{one.path.relative_to(self.folder)}:{one.lines.start}" for one in chosen[:4])
            return Missing(f"{len(chosen)} statements fit equally well: {places}")
        if best == 0 and (len(matches) > 1 or len(tokens(anchor.line)) < SHORT):
            return Missing(f"only the text fits, at {chosen[0].path.relative_to(self.folder)}:{chosen[0].lines.start}")
        return Found(chosen[0], chosen[0].path.relative_to(self.folder).as_posix())

    def _nearest(self, anchor: Anchor) -> str:
        every = {statement.text: statement for statements in self.functions for statement in statements}
        near = get_close_matches(anchor.line, every, n=1, cutoff=0.6)
        if not near:
            return "no statement is like it"
        statement = every[near[0]]
        return f"nearest, {statement.path.relative_to(self.folder)}:{statement.lines.start}: {statement.text[:160]}"


SHORT = 8
"""A statement of fewer tokens (`return None`) says too little to be found without any of its neighbours."""


def functions(path: Path, module: ast.Module) -> Iterator[list[Statement]]:
    """Yield the statements of each outermost function and method of a module, its `def` first."""

    def walk(node: ast.AST, prefix: str) -> Iterator[list[Statement]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FUNCTION):
                name = prefix + child.name
                yield [Statement(head(inner), path, name, inner) for inner in _statements(child)]
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f"{prefix}{child.name}.")
            else:
                yield from walk(child, prefix)

    yield from walk(module, "")


def anchor_of(statements: list[Statement], index: int, file: str) -> Anchor:
    """Return what finds a statement again."""
    return Anchor(
        line=statements[index].text,
        before=tuple(one.text for one in statements[max(0, index - 2) : index]),
        after=tuple(one.text for one in statements[index + 1 : index + 3]),
        function=statements[index].function,
        file=file,
    )


def head(node: ast.AST) -> str:
    """Return the normal form of a statement, of a compound one without its body."""
    if not getattr(node, "body", None) and not getattr(node, "cases", None):
        return " ".join(ast.unparse(node).splitlines())
    bare = bare_copy(node)
    if isinstance(bare, ast.Match):
        return f"match {ast.unparse(bare.subject)}:"
    whole = ast.unparse(bare)
    return " ".join(whole.strip().splitlines()).removesuffix("pass").rstrip()


def bare_copy(node: ast.AST) -> ast.AST:
    """Copy a statement without the statements in it."""
    bare = copy.copy(node)
    for field in BODIES:
        if isinstance(getattr(bare, field, None), list):
            setattr(bare, field, [ast.Pass()] if field == "body" else [])
    return copy.deepcopy(bare)


@cache
def tokens(text: str) -> tuple[str, ...]:
    """Split a statement into tokens; a string is one token."""
    return tuple(_TOKEN.findall(text))


def align(old: str, new: str, names: Names) -> list[tuple[str, str]] | None:
    """Pair the tokens of two statements that differ only in renamed identifiers and reworded prose; else return `None`."""
    pairs = list(zip(tokens(old), tokens(new), strict=False))
    if len(tokens(old)) != len(tokens(new)) or not all(_is_same(was, now, names) for was, now in pairs):
        return None
    return pairs


def replace(statement: Statement, anchor: Anchor, replacement: str, names: Names) -> None:
    """Put the replacement of an anchor's line in the place of the statement, in the names that it has now."""
    pairs = align(anchor.line, statement.text, names)
    assert pairs is not None
    was, wanted, now = [old for old, _ in pairs], tokens(replacement), dict(pairs)
    written = [now.get(token, token) for token in wanted]
    for old, new, size in SequenceMatcher(None, was, wanted, autojunk=False).get_matching_blocks():
        written[new : new + size] = [pair[1] for pair in pairs[old : old + size]]
    _graft(statement.node, _parsed(" ".join(written)))


def _graft(node: ast.AST, new: ast.AST) -> None:
    if not hasattr(node, "body") and not hasattr(node, "cases"):
        place = {field: getattr(node, field) for field in ("lineno", "col_offset", "end_lineno", "end_col_offset")}
        node.__class__ = new.__class__  # the parent keeps its reference
        node.__dict__ = {**new.__dict__, **place}
        return
    for field in new._fields:
        if field not in BODIES:
            setattr(node, field, getattr(new, field))


def _parsed(text: str) -> ast.AST:
    if text.startswith("case "):
        match = ast.parse(f"match x:\n    {text}\n        pass").body[0]
        assert isinstance(match, ast.Match)
        return match.cases[0]
    inner = " case _: pass" if text.startswith("match ") else " pass"
    whole = f"{text}\n{inner}" if text.endswith(":") else text
    return ast.parse(whole).body[
        0
    ]  # `return` and `await` outside a function are refused by the compiler, not by the parser


def _score(anchor: Anchor, statements: list[Statement], index: int, names: Names) -> int:
    here = anchor_of(statements, index, "")
    before = zip(reversed(anchor.before), reversed(here.before), strict=False)
    after = zip(anchor.after, here.after, strict=False)
    near = sum(align(old, new, names) is not None for old, new in [*before, *after])
    old_name, new_name = anchor.function.split(".")[-1], here.function.split(".")[-1]
    return 2 * near + _is_same(old_name, new_name, names)


def _is_same(old: str, new: str, names: Names) -> bool:
    if old == new:
        return True
    if _STRING.match(old) and _STRING.match(new):
        return (" " in old and " " in new) or _renamed_string(old, new, names)
    return new in names.get(old, ())


def _renamed_string(old: str, new: str, names: Names) -> bool:
    was, now = _IDENTIFIER.findall(old), _IDENTIFIER.findall(new)
    rest_is_same = len(was) == len(now) and _IDENTIFIER.sub("", old) == _IDENTIFIER.sub("", new)
    return rest_is_same and all(a == b or b in names.get(a, ()) for a, b in zip(was, now, strict=False))


def _statements(function: ast.AST) -> Iterator[ast.AST]:
    yield function
    for field in BODIES[:-1]:
        for child in getattr(function, field, []):
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            if isinstance(child, ast.Try):
                yield from list(_statements(child))[1:]
            else:
                yield from _statements(child)


def _located(node: ast.AST) -> list[ast.expr]:
    return [part for part in ast.walk(node) if isinstance(part, ast.expr | ast.pattern)]  # type: ignore[misc]


def _lines(node: ast.AST) -> list[int]:
    return [line for part in ast.walk(node) if (line := getattr(part, "lineno", None)) is not None]
