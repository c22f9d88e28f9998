"""Write or check `docs/reference/api.md`, which is made from the signatures and docstrings of the public names.

python docs/api_reference.py           exits 1 and shows the difference if the page is stale
python docs/api_reference.py --write   brings it up to date
"""

import argparse
import ast
import difflib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args

from msgspec import Struct

import infold
from infold.core.events import Event

__all__ = ["PAGE", "main", "page"]

PAGE = Path(__file__).parent / "reference" / "api.md"
WIDTH = 100

OPENING = """\
# The Python API

Written by `docs/api_reference.py --write` from signatures and docstrings. Names without a module are imported from `infold`
(`from infold import fit`). Words such as *view* and *head* are in the [glossary](../../GLOSSARY.md); the guides show the calls at
work: [fit](../guides/fit.md), [sessions](../guides/session.md), [wrap](../guides/wrap.md), [events](../guides/observe.md),
[plugins](../guides/plugins.md).
"""


class Group(NamedTuple):
    """A section of the page: its names, `infold`'s own or with their module, and a sentence on what they are for."""

    title: str
    about: str
    names: tuple[str, ...]


GROUPS = (
    Group("Make one request fit", "One call, no state: messages in, messages that fit out.", ("fit", "Fitted")),
    Group(
        "Sessions",
        "A session stores a history, prepares each request and records each reply.",
        ("Session", "AsyncSession", "SessionSettings", "Ready", "Preview", "open_store"),
    ),
    Group("Clients", "The provider's own client, kept inside the window.", ("wrap",)),
    Group(
        "Policies",
        "When to compact, how far, and what stays.",
        (
            "preset",
            "Policy",
            "infold.core.policy.PrunePolicy",
            "infold.core.policy.TailPolicy",
            "infold.core.policy.SummaryPolicy",
            "infold.core.policy.Amount",
            "tokens",
            "share",
            "remaining",
            "Window",
        ),
    ),
    Group("Plugins", "Change what a compaction does.", ("hook", "installed_plugins")),
)


def main(arguments: list[str] | None = None) -> int:
    """Check the page or, asked to, write it; the answer is the exit status."""
    parser = argparse.ArgumentParser(description="check api.md, or bring it up to date")
    parser.add_argument("--write", action="store_true", help="write the page instead of checking it")
    wanted = page()
    if parser.parse_args(arguments).write:
        PAGE.write_text(wanted, "utf-8")
        return 0
    found = PAGE.read_text("utf-8") if PAGE.exists() else ""
    before, after = found.splitlines(keepends=True), wanted.splitlines(keepends=True)
    sys.stdout.writelines(difflib.unified_diff(before, after, PAGE.name, "as it should be", n=0))
    return int(found != wanted)


def page() -> str:
    """The page as it should be now."""
    return "\n".join([OPENING, *(_section(group) for group in _groups())])


def _groups() -> Iterator[Group]:
    """The groups above, then what `infold` exports besides, then events and errors as their modules have them."""
    events = tuple(_home(event) for event in get_args(Event))
    errors = tuple(f"infold.errors.{name}" for name in _errors())
    shown = {_value(name) for group in GROUPS for name in group.names} | {_value(name) for name in (*events, *errors)}
    rest = tuple(name for name in infold.__all__ if name != "Bus" and _value(name) not in shown)
    yield from GROUPS
    if rest:
        yield Group("Other names", "What else `infold` exports.", rest)
    yield Group("Events", "What infold did, as values; a `Bus` passes them to callbacks.", ("Bus", *events))
    yield Group("Errors", "Every error infold raises on purpose; each message ends with what to do.", errors)


def _errors() -> list[str]:
    module = import_module("infold.errors")
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, infold.InfoldError)
    ]


def _home(value: Any) -> str:
    return f"{value.__module__}.{value.__name__}"


def _value(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module or "infold"), last)


# One name.


def _section(group: Group) -> str:
    return "\n".join([f"## {group.title}\n\n{group.about}\n", *(_described(name) for name in group.names)])


def _described(name: str) -> str:
    """A name with its signature, its docstring and, of a class, what can be called and read."""
    value = _value(name)
    if isinstance(value, UnionType):
        return f"### {name}\n\nOne of {', '.join(f'`{one.__name__}`' for one in get_args(value))}.\n"
    title = value.__name__
    home = "" if hasattr(infold, title) else f"`from {value.__module__} import {title}`\n\n"
    tree = _tree(value)
    if isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"### {title}\n\n{home}{_code(_call(title, tree))}\n\n{_doc(value)}\n"
    if issubclass(value, infold.InfoldError):
        return f"### {title}\n\n{home}{_error(value, tree)}\n"
    members = {node.name: node for node in tree.body if _is_shown(node, value)}
    alike = [name for name in members if value is infold.AsyncSession and name in vars(infold.Session)]
    pieces = [f"### {title}\n\n{home}{_code(_constructor(value, tree))}\n\n{_doc(value)}\n"]
    pieces += [_member(title, value, node) for name, node in members.items() if name not in alike]
    if alike:
        pieces.append(f"As in `Session`, those that act awaited: {', '.join(f'`{name}`' for name in alike)}.\n")
    return "\n".join(pieces)


def _tree(value: Any) -> Any:
    """The definition as it stands in the source; annotations there are shorter than those Python has resolved."""
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]


def _is_shown(node: ast.stmt, value: type) -> bool:
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return is_function and not node.name.startswith("_") and bool(getattr(value, node.name).__doc__)


def _member(owner: str, value: type, node: Any) -> str:
    title = f"{owner}.{node.name}"
    doc = _doc(getattr(value, node.name))
    if any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list):
        return f"#### {title}\n\n{_code(f'{title}: {_annotation(node.returns)}')}\n\n{doc}\n"
    return f"#### {title}\n\n{_code(_call(title, node, is_method=True))}\n\n{doc}\n"


def _constructor(value: type, tree: ast.ClassDef) -> str:
    name = value.__name__
    fields = [_written(node) for node in tree.body if isinstance(node, ast.AnnAssign)]
    if issubclass(value, Struct):
        is_named = any(word.arg == "kw_only" for word in tree.keywords)
        return _laid_out(name, ["*", *fields] if is_named else fields, "")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return _laid_out(name, _parameters(node.args, is_method=True), "")
    return _laid_out(name, fields, "")


def _error(value: type, tree: ast.ClassDef) -> str:
    base = value.__mro__[1].__name__
    kept = [
        node.targets[0].attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)
    ]
    attributes = f" It keeps {', '.join(f'`{name}`' for name in dict.fromkeys(kept))}." if kept else ""
    kind = f"A kind of `{base}`." if base != "Exception" else "All of them are of this kind."
    return f"{_doc(value)}\n\n{kind}{attributes}"


def _call(name: str, node: Any, *, is_method: bool = False) -> str:
    is_awaited = isinstance(node, ast.AsyncFunctionDef)
    returns = f" -> {_annotation(node.returns)}" if node.returns is not None else ""
    is_static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in node.decorator_list)
    parameters = _parameters(node.args, is_method=is_method and not is_static)
    return _laid_out(f"{'await ' if is_awaited else ''}{name}", parameters, returns)


def _parameters(arguments: ast.arguments, *, is_method: bool) -> list[str]:
    """Each parameter as it is written, with the bare star where one stands."""
    places = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(places) - len(arguments.defaults)) + list(arguments.defaults)
    shown = [_parameter(one, default) for one, default in zip(places, defaults, strict=True)][int(is_method) :]
    if arguments.vararg is not None:
        shown.append(f"*{_parameter(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        shown.append("*")
    shown += [_parameter(one, value) for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return shown if arguments.kwarg is None else [*shown, f"**{_parameter(arguments.kwarg, None)}"]


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    kind = f": {_annotation(one.annotation)}" if one.annotation is not None else ""
    equals = " = " if kind else "="
    return f"{one.arg}{kind}{f'{equals}{_written(default)}' if default is not None else ''}"


def _annotation(node: ast.expr) -> str:
    """An annotation as it is written, without the quotes that some stand in."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else _written(node)


def _written(node: ast.AST) -> str:
    return ast.unparse(node).replace("'", '"')


def _laid_out(name: str, parameters: list[str], returns: str) -> str:
    line = f"{name}({', '.join(parameters)}){returns}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in parameters), f"){returns}"])


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _doc(value: Any) -> str:
    return inspect.getdoc(value) or ""


if __name__ == "__main__":
    sys.exit(main())
