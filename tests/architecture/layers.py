"""Which module may import what, and what the core may not do: style.md section 3 as pure functions over source text.

`problems` reads one module and says, in sentences with line numbers, where it breaks a rule. It never imports the module.
"""

import ast
import sys
from collections.abc import Iterator
from itertools import chain

__all__ = ["MAY_IMPORT", "bound_names", "layer_of", "named_modules", "problems", "stated_exports"]

ROOT = "infold"

FOUNDATION = frozenset({"core", "errors"})
DATA = FOUNDATION | {"catalogue", "formats", "ports", "transcripts"}
OUTER = DATA | {"session", "models", "observers", "plugins", "stores", "testing", "settings"}
FACES = frozenset({"agent", "gateway", "integrations", "mcp", "replay", "cli"})
FOR_FACES = DATA | {"session", "observers", "plugins", "reports", "settings", "wiring"}

MAY_IMPORT: dict[str, frozenset[str]] = {
    "": FOR_FACES | {"wrapper"},
    "__main__": frozenset(),
    "errors": FOUNDATION,
    "core": FOUNDATION,
    "catalogue": FOUNDATION | {"catalogue"},
    "formats": FOUNDATION | {"formats"},
    "transcripts": FOUNDATION | {"formats", "transcripts"},
    "ports": FOUNDATION | {"ports"},
    # A session is opened by a caller who names no adapter: it has its own bus and plugins, and finds a model by its name.
    "session": DATA | {"session", "observers", "plugins", "settings", "wiring"},
    "models": DATA | {"models"},
    "observers": DATA | {"observers"},
    "plugins": DATA | {"plugins"},
    "stores": DATA | {"stores"},
    "testing": DATA | {"testing"},
    "settings": FOUNDATION | {"catalogue", "settings"},
    "wiring": OUTER,
    "reports": DATA | {"session", "reports"},
    **{face: FOR_FACES | {face} for face in FACES},
    "proxy": FOR_FACES | {"proxy"},
    "wrapper": FOR_FACES | {"proxy", "wrapper"},
    "agent": FOR_FACES | {"agent"},
    "gateway": FOR_FACES | {"gateway", "proxy"},
    "integrations": FOR_FACES | {"integrations", "proxy"},
    "cli": FOR_FACES | FACES | {"testing"},
}
"""From each layer (a package or module directly under `infold`; "" is `infold` itself) to those it may import."""

THIRD_PARTY: dict[str, frozenset[str]] = {
    **dict.fromkeys((*DATA, "session"), frozenset({"msgspec"})),
    "testing": frozenset({"msgspec"}),
}
"""The packages a layer may import from outside; a layer that is not named here is an edge and may choose its own."""

PURE = frozenset(
    {
        *(
            "__future__",
            "abc",
            "array",
            "base64",
            "binascii",
            "bisect",
            "collections",
            "copy",
            "dataclasses",
            "decimal",
        ),
        *("difflib", "enum", "fractions", "functools", "hashlib", "heapq", "html", "itertools", "json", "keyword"),
        *("math", "numbers", "operator", "re", "statistics", "string", "struct", "textwrap", "types", "typing"),
        *("unicodedata", "zlib"),
    }
)
"""Standard modules that know no clock, chance, file, network, process or log: all that `core` may use."""

FORBIDDEN_CALLS = frozenset({"open", "print", "input", "exec", "eval", "compile", "breakpoint", "__import__"})
ACTING_METHODS = frozenset(
    {
        *("basicConfig", "getenv", "putenv", "mkdir", "makedirs", "connect", "open", "system", "popen"),
        *("read_text", "read_bytes", "write_text", "write_bytes", "urlopen"),
    }
)
"""Methods that touch the world wherever they come from; calling one while a module is read is an act."""

ASYNC = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def problems(module: str, source: str, *, package: bool = False) -> list[str]:
    """Where a module breaks the rules; `package` says that the source is an `__init__.py`."""
    tree = ast.parse(source)
    layer = layer_of(module)
    found = chain(
        _import_problems(module, layer, tree, package=package),
        _hidden_imports(tree),
        _acts_on_import(tree),
        _impurities(tree) if layer == "core" else (),
    )
    return [f"{module}:{line}: {problem}" for line, problem in sorted(set(found))]


def layer_of(module: str) -> str:
    """The layer a dotted name belongs to: what follows `infold.`, or "" for `infold` itself."""
    return [*module.split("."), ""][1]


def named_modules(module: str, source: str, *, package: bool = False) -> set[str]:
    """Return every name that a module imports or has in a table of things to import: some are modules, some are in one."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, module, package=package)
            named |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named.add(node.value.partition(":")[0])
    return named


def bound_names(source: str) -> set[str]:
    """Every name that can be taken from a module by reading it: made there or imported there."""
    body = ast.parse(source).body
    imports = (node for node in body if isinstance(node, ast.Import | ast.ImportFrom))
    imported = {alias.asname or alias.name.split(".")[0] for node in imports for alias in node.names}
    return imported | set(_made_names(body))


def stated_exports(source: str) -> list[str] | None:
    """A module's `__all__` as written, or none where there is none; anything but a literal list is a `ValueError`."""
    for node in ast.parse(source).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            stated = None if value is None else ast.literal_eval(value)
            if not isinstance(stated, list) or not all(isinstance(name, str) for name in stated):
                raise ValueError("__all__ is not a list of strings")
            return stated
    return None


# Imports: direction, origin, place.


def _import_problems(module: str, layer: str, tree: ast.Module, *, package: bool) -> Iterator[tuple[int, str]]:
    if layer not in MAY_IMPORT:
        yield 1, f"layer {layer!r} is not in the table of layers"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level > 1:
            yield node.lineno, "relative import upwards; name the module in full"
        for name in _imported(node, module, package=package):
            problem = _import_problem(layer, name)
            if problem:
                yield _line(node), problem


def _import_problem(layer: str, name: str) -> str:
    top = name.split(".")[0]
    if top == ROOT:
        target = layer_of(name)
        return "" if target in MAY_IMPORT[layer] else f"{layer or ROOT} may not import {name}"
    if top in sys.stdlib_module_names:
        return f"core may not import {name}, which is not pure" if layer == "core" and top not in PURE else ""
    allowed = THIRD_PARTY.get(layer)
    return "" if allowed is None or top in allowed else f"{layer} may not import the third-party package {top}"


def _imported(node: ast.AST, module: str, *, package: bool) -> Iterator[str]:
    """The modules a statement imports, in full; `from infold import core` imports `infold.core`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _base(node, module, package=package)
        yield from (f"{ROOT}.{alias.name}" for alias in node.names) if base == ROOT else (base,)


def _base(node: ast.ImportFrom, module: str, *, package: bool) -> str:
    if node.level == 0:
        return node.module or ""
    above = module.split(".") if package else module.split(".")[:-1]
    kept = above[: len(above) - node.level + 1]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _hidden_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for function in ast.walk(tree):
        if isinstance(function, FUNCTIONS):
            yield from (
                (_line(node), "project import inside a function") for node in ast.walk(function) if _is_ours(node)
            )


def _is_ours(node: ast.AST) -> bool:
    match node:
        case ast.Import():
            return any(_is_project_name(alias.name) for alias in node.names)
        case ast.ImportFrom():
            return node.level > 0 or _is_project_name(node.module or "")
        case ast.Call(args=[ast.Constant(value=str() as name), *_]) if _called(node) in ("import_module", "__import__"):
            return _is_project_name(name) or name.startswith(".")
        case _:
            return False


def _is_project_name(name: str) -> bool:
    return name.split(".")[0] == ROOT


# What importing a module must not do, and what the core must never do.


def _acts_on_import(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in _run_on_import(tree.body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node.lineno, "importing acts: a call for its effect alone"
        elif isinstance(node, ast.Call) and _acts(node):
            yield node.lineno, f"importing acts: {_called(node)}()"
        elif isinstance(node, ast.Attribute) and node.attr == "environ":
            yield node.lineno, "importing reads the environment"


def _run_on_import(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every node that is run when the module is read: all but function bodies and the main guard."""
    waiting: list[ast.AST] = [statement for statement in body if not _is_main_guard(statement)]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*node.decorator_list, *node.args.defaults, *(value for value in node.args.kw_defaults if value)]
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _is_main_guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _acts(call: ast.Call) -> bool:
    names = FORBIDDEN_CALLS - {"compile"} if isinstance(call.func, ast.Name) else ACTING_METHODS
    return _called(call) in names


def _impurities(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ASYNC) or (isinstance(node, ast.comprehension) and node.is_async):
            yield _line(node), "async in core"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            yield node.lineno, f"{node.func.id}() in core"


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return str(name)
        case _:
            return ""


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _made_names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If() | ast.Try():
                yield from _made_names([child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)])
            case _:
                pass
