"""Every regular expression of the package takes time that grows with its text and not with the square of it.

Texts are built to be the worst for each expression: the beginning of a match, then the body of one of its repeats over and over,
then something that does not match; and runs of common characters. Expressions that are only matched at a given place are timed
there, the others wherever they may begin. `INFOLD_EXPRESSION_CHARACTERS=16000` makes the texts longer than an ordinary run does.
"""

import ast
import importlib
import os
import pkgutil
import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from time import thread_time
from typing import Any

import pytest
from msgspec import Struct

import infold

CHARACTERS = int(os.environ.get("INFOLD_EXPRESSION_CHARACTERS", "2000"))
SLOW_SECONDS, SLOW_RATIO = 0.006, 2.6
"""What a text takes at least to be looked at again, and how much more than half of it, twice, to count as more than linear."""

LIMIT_SECONDS = 0.5
PACKAGE = Path(infold.__file__).parent
COMMON = (
    *(" ", "a", "1", "A", '"', "'", "(", "[", "{", "\n", "\t", "/", "-", ".", "_", "=", ":", "<", "`", "*", "#", "\\"),
    *("a ", "a.", "a/", "1,", "a\n", " \n", "ab_", "a-", "é", "\r\n", "Aa", "a: ", "- a\n", '"a",'),
)
CALLS = r"search|match|fullmatch|finditer|findall|sub|subn|split"
ANCHORED = {"match", "fullmatch"}

ALLOWED: Mapping[str, str] = {}
"""Expressions that may take longer, each with the reason."""


class Expression(Struct, frozen=True):
    """An expression, where it stands, and whether it is only matched at a given place."""

    name: str
    compiled: re.Pattern[Any]
    anchored: bool = False


class _Late(Exception):
    """Raised by the timer."""


# Which expressions there are.


def expressions() -> list[Expression]:
    """All expressions of the package: in modules, in tables and values, and written where they are used."""
    texts = {_module_of(path): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    found: dict[tuple[Any, int], Expression] = {}
    for module in pkgutil.walk_packages(infold.__path__, "infold."):
        if module.name.endswith("__main__"):
            continue
        try:
            members = vars(importlib.import_module(module.name))
        except ImportError:  # what it needs is not installed
            continue
        for name, value in members.items():
            for compiled in _compiled_in(value):
                using = texts.values() if not name.startswith("_") else [texts[module.name]]
                one = Expression(f"{module.name}.{name}", compiled, _is_anchored(name, using))
                found.setdefault((compiled.pattern, compiled.flags), one)
    for name, text in texts.items():
        for compiled, call in _written_in(text):
            one = Expression(name, compiled, call in ANCHORED)
            found.setdefault((compiled.pattern, compiled.flags), one)
    return list(found.values())


def _module_of(path: Path) -> str:
    parts = ("infold", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _compiled_in(value: object, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4:
        inner: list[object] = []
        if isinstance(value, Mapping):
            inner = [*value.keys(), *value.values()]
        elif isinstance(value, tuple | list | set | frozenset):
            inner = list(value)
        elif isinstance(value, Struct):
            inner = [getattr(value, name) for name in value.__struct_fields__]
        for one in inner:
            yield from _compiled_in(one, depth + 1)


def _written_in(text: str) -> Iterator[tuple[re.Pattern[Any], str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "re":
            pattern = node.args[0] if node.args else None
            is_used = isinstance(pattern, ast.Constant) and node.func.attr != "compile"
            if is_used and isinstance(pattern, ast.Constant) and isinstance(pattern.value, str | bytes):
                yield re.compile(pattern.value), node.func.attr


def _is_anchored(name: str, texts: Iterable[str]) -> bool:
    calls = {call for text in texts for call in re.findall(rf"\b{re.escape(name)}\.({CALLS})\b", text)}
    return bool(calls) and calls <= ANCHORED


# Which texts are the worst for one.


def units_of(nodes: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The bodies of all long repeats of a parsed expression, each with what stands before it."""
    for code, argument in nodes:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            _, most, body = argument
            if most is codes.MAXREPEAT or most >= 64:
                yield prefix, example_of(body)
                yield from ((prefix, example_of(choice)) for choice in _choices(body))
            yield from units_of(body, prefix)
        elif code is codes.SUBPATTERN:
            yield from units_of(argument[3], prefix)
        elif code is codes.ATOMIC_GROUP:
            yield from units_of(argument, prefix)
        elif code is codes.BRANCH:
            for choice in argument[1]:
                yield from units_of(choice, prefix)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from units_of(argument[1], prefix)
        prefix += example_of([(code, argument)])


def _choices(body: Any) -> list[Any]:
    if len(body) != 1:
        return []
    code, argument = body[0]
    if code is codes.SUBPATTERN:
        return _choices(argument[3])
    return list(argument[1]) if code is codes.BRANCH else []


def example_of(nodes: Any) -> str:
    """A short text that a parsed expression matches, nearly."""
    return "".join(_example(code, argument) for code, argument in nodes)


def _example(code: Any, argument: Any) -> str:
    if code is codes.LITERAL:
        return chr(int(argument))
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return example_of(argument[2]) * max(1, min(int(argument[0]), 50))
    if code in (codes.SUBPATTERN, codes.ATOMIC_GROUP, codes.BRANCH):
        inner = argument if code is codes.ATOMIC_GROUP else argument[3] if code is codes.SUBPATTERN else argument[1][0]
        return example_of(inner)
    if code is codes.IN:
        return _member(argument)
    return "a" if code in (codes.NOT_LITERAL, codes.ANY) else ""


def _member(items: Any) -> str:
    """A character of a class."""
    known = {codes.CATEGORY_DIGIT: "1", codes.CATEGORY_SPACE: " ", codes.CATEGORY_NOT_WORD: "-"}
    named = [
        chr(argument)
        if code is codes.LITERAL
        else chr(argument[0])
        if code is codes.RANGE
        else known.get(argument, "a")
        for code, argument in items
        if code is not codes.NEGATE
    ]
    is_negated = bool(items) and items[0][0] is codes.NEGATE
    return next((one for one in "a1 -Z/.~" if one not in named), "~") if is_negated else named[0]


# How long they take.


def too_slow(expression: Expression, characters: int) -> str:
    """What takes an expression more than linear time; empty if nothing does."""
    pattern, flags = expression.compiled.pattern, expression.compiled.flags
    source = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
    tree = parser.parse(source, flags if isinstance(pattern, str) else flags & ~re.UNICODE)
    begun = example_of(tree)[:200]
    units = {*units_of(tree), *((before, unit) for before in ("", begun) for unit in COMMON)}
    for before, unit in sorted((before, unit) for before, unit in units if unit):
        sizes = [characters // 2, characters, characters * 2]
        texts = [before + (unit * (size // len(unit) + 1))[:size] + "\0" for size in sizes]
        if took(expression, texts[1]) < SLOW_SECONDS:
            continue
        half, whole, twice = (min(took(expression, text) for _ in range(3)) for text in texts)
        grows = whole > SLOW_RATIO * half and twice > SLOW_RATIO * whole
        if whole >= LIMIT_SECONDS or (whole > SLOW_SECONDS and grows):
            return f"{expression.name}: {half:.4f}, {whole:.4f}, {twice:.4f} s for {before[:40]!r} + {unit!r} × …"
    return ""


def took(expression: Expression, text: str) -> float:
    """The processor time that an expression takes on a text; the limit where it takes longer."""
    compiled, subject = expression.compiled, text if isinstance(expression.compiled.pattern, str) else text.encode()
    began = thread_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_SECONDS)
        try:
            if expression.anchored:
                compiled.match(subject)
                compiled.fullmatch(subject)
            else:
                for _ in compiled.finditer(subject):
                    pass
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _Late:
        return LIMIT_SECONDS
    return thread_time() - began


@pytest.fixture
def timer() -> Iterator[None]:
    """An alarm that ends an expression which runs for ever; it counts processor time, so that a busy machine sets none off."""

    def late(*_: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGVTALRM, late)
    yield
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.slow
@pytest.mark.usefixtures("timer")
def test_no_expression_is_slower_than_linear() -> None:
    """B41: no text, however it is built, keeps an expression busy for more than a time that grows with its length."""
    every = expressions()

    assert len(every) > 200
    assert [told for one in every if one.name not in ALLOWED and (told := too_slow(one, CHARACTERS))] == []


@pytest.mark.usefixtures("timer")
@pytest.mark.parametrize("pattern", [r"\s+$", r"(?:a|b|ab)*c", r"(a+)+b", r"\w*\d", r"\d[\d,]* more"])
def test_a_slow_expression_is_found(pattern: str) -> None:
    """Quadratic and exponential expressions are told of."""
    assert too_slow(Expression("one", re.compile(pattern)), CHARACTERS)


@pytest.mark.usefixtures("timer")
def test_the_place_of_a_match_counts() -> None:
    """What is slow wherever it may begin is linear where it is only matched at one place."""
    assert too_slow(Expression("one", re.compile(r"\w*\d")), CHARACTERS)
    assert not too_slow(Expression("one", re.compile(r"\W*\d"), anchored=True), CHARACTERS)
