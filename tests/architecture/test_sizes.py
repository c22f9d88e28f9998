"""Hold the size of functions and packages; find fragments and names that stand for two things (style.md sections 2 and 5)."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from infold.cli.main import VERBS

from .layers import named_modules
from .sources import Source, modules

MOST_FILES = 30
LONGEST_FRAGMENT = 59
LONGEST_FUNCTION = 60
MOST_PARAMETERS = 6
EXEMPT = {("infold.session.fit", "fit"), ("infold.session.settings", "resolve_settings")}
"""Functions that may have more parameters: each option of the front door is a keyword, there and where it is resolved."""

TABLES = {
    "infold.agent.toolbox": "infold.agent.tools.",
    "infold.agent.run": "infold.agent.tools.",  # the recall tool, which needs a session
    "infold.transcripts.registry": "infold.transcripts.",
}
"""Modules that list the tools and the readers of transcripts, and where those are."""

GENERATED = {"infold.core.weights"}
"""Data that a benchmark writes."""


def test_packages_are_small() -> None:
    """No package has more than 30 files, without those that are generated."""
    written = [source for source in modules() if source.name not in GENERATED]
    files = Counter(source.name if source.package else source.name.rpartition(".")[0] for source in written)

    assert {name: count for name, count in files.items() if count > MOST_FILES} == {}


@pytest.mark.slow
def test_no_module_is_a_fragment() -> None:
    """No module under 60 lines has a single importer: it belongs to that importer."""
    found = fragments()

    assert not found, "\n".join(found)


@pytest.mark.slow
def test_no_types_share_a_name() -> None:
    """No public name stands for a type in two modules."""
    found = [f"{name}: {', '.join(where)}" for name, where in shared_type_names().items()]

    assert not found, "\n".join(found)


@pytest.mark.slow
def test_modules_are_within_the_sizes() -> None:
    """No function over 60 lines, and none outside the command line with more than 6 parameters besides `self`."""
    found = [
        f"{source.name}: {large}"
        for source in modules()
        for large in oversized(source.text)
        if (source.name, large.partition(",")[0]) not in EXEMPT
        if not (source.name.startswith("infold.cli.") and large.endswith("parameters"))
    ]

    assert found == [], "\n".join(found)


def fragments() -> list[str]:
    """Return the small modules that have one importer, with it; fronts of packages and what a table lists may be small."""
    importers, listed = _importers(), _listed()
    return [
        f"{source.name} ({_lines(source.text)} lines), imported by {next(iter(importers[source.name]))}"
        for source in modules()
        if not source.package
        and source.name not in listed
        and _lines(source.text) <= LONGEST_FRAGMENT
        and len(importers[source.name]) == 1
    ]


def shared_type_names() -> dict[str, list[str]]:
    """Return the public type names of more than one module, with the modules; what a table lists may repeat a name."""
    defined = defaultdict[str, list[str]](list)
    listed = _listed()
    for source in modules():
        for name in () if source.name in listed else sorted(type_names(source.text)):
            defined[name].append(source.name)
    return {name: where for name, where in sorted(defined.items()) if len(where) > 1}


def _importers() -> dict[str, set[str]]:
    known = {source.name for source in modules()}
    importers: dict[str, set[str]] = {name: set() for name in known}
    for source in modules():
        for name in _named(source) & known - {source.name}:
            importers[name].add(source.name)
    return importers


def _listed() -> set[str]:
    """Return the modules of verbs, tools, readers and integrations: one of a kind each, found through a table."""
    tables = {source.name: source for source in modules() if source.name in TABLES}
    assert tables.keys() == TABLES.keys()
    listed = {name for table in tables.values() for name in _named(table) if name.startswith(TABLES[table.name])}
    verbs = {verb.target.partition(":")[0] for verb in VERBS.values()}
    return (
        GENERATED
        | listed
        | verbs
        | {source.name for source in modules() if source.name.startswith("infold.integrations.")}
    )


def _named(source: Source) -> set[str]:
    return named_modules(source.name, source.text, package=source.package)


# What is measured in one module.


def type_names(source: str) -> set[str]:
    """Return the public classes and type aliases that a module defines."""
    names: set[str] = set()
    for node in ast.parse(source).body:
        match node:
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="NewType"))):
                names.add(name)
    return {name for name in names if not name.startswith("_")}


def oversized(source: str) -> Iterator[str]:
    """Yield what is too large in a module, with its size."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield f"{node.name}, line {node.lineno}: {length} lines"
            count = _parameters(node)
            if count > MOST_PARAMETERS:
                yield f"{node.name}, line {node.lineno}: {count} parameters"


def test_types_are_read_as_written() -> None:
    """Classes, aliases and new types count; private ones and plain values do not."""
    source = 'class A: ...\nclass _B: ...\nC: TypeAlias = int\nD = NewType("D", str)\nE = 1\nF: int = 2\n'

    assert type_names(source) == {"A", "C", "D"}


def test_oversized_code_is_reported() -> None:
    """A long function and a long list of parameters are each reported; the limits themselves are not."""
    many = ", ".join("abcdefg")

    assert list(oversized("def f():\n" + "    x = 1\n" * 60)) == ["f, line 1: 61 lines"]
    assert list(oversized(f"def f({many}): ...")) == ["f, line 1: 7 parameters"]
    assert list(oversized(f"class A:\n    def f(self, *, {many}): ...")) == ["f, line 2: 7 parameters"]
    assert list(oversized("def f(a, b, c, *d, e, **f): ...\n" + "x = 1\n" * 59)) == []
    assert list(oversized("class A:\n    def f(self, a, b, c, d, e, f):\n" + "        x = 1\n" * 59)) == []


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    rest = [gathered for gathered in (given.vararg, given.kwarg) if gathered]
    return len([name for name in (*named, *rest) if name.arg not in ("self", "cls")])


def _lines(source: str) -> int:
    return source.count("\n")
