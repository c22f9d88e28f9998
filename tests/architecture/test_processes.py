"""Programs are started in few places, and git in one, so that no call of it goes by the settings of a project."""

import ast

from .sources import Source, modules

STARTERS = {
    "infold.__main__",
    "infold.agent.git",
    "infold.agent.tools.processes",
    "infold.models.embedded",
    "infold.replay.engines",
}
"""Modules that may start a program; a replay starts workers of its own, the command itself under `uvx` with its packages."""

RUNNERS = {"infold.agent.tools.search", "infold.agent.tools.shell"}
"""Modules that hand a command to `run_process`."""

STARTING = {"subprocess", "multiprocessing", "pty"}
EXECUTING = ("system", "popen", "exec", "spawn", "posix_spawn", "fork")


def test_few_modules_start_programs() -> None:
    """B41: only the listed modules start programs or hand over a command."""
    starting = {source.name for source in modules() if _starts(source)}
    running = {source.name for source in modules() if "run_process(" in source.text}

    assert starting == STARTERS
    assert running == {*RUNNERS, "infold.agent.tools.processes"}


def test_git_is_named_in_one_module() -> None:
    """B41: of the modules that start programs only one names git, except to ask whether it is installed."""
    named = {source.name for source in modules() if source.name in STARTERS | RUNNERS and _names_git(source)}

    assert named == {"infold.agent.git"}


def _starts(source: Source) -> bool:
    tree = ast.parse(source.text)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    called = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os"]
    return bool(imported & STARTING) or any(node.attr.startswith(EXECUTING) for node in called)


def _names_git(source: Source) -> bool:
    tree = ast.parse(source.text)
    asked = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "find_program" and source.name in RUNNERS
        for argument in node.args
    }
    return any(
        isinstance(node, ast.Constant) and node.value == "git" and id(node) not in asked for node in ast.walk(tree)
    )
