"""A project to work in, and tools run as an agent runs them: from arguments in JSON."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from infold.agent.tools.tool import Done, Tool, Wish, Workplace

Ran: TypeAlias = Callable[..., Done]
Wished: TypeAlias = Callable[..., Wish]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def workplace(root: Path) -> Workplace:
    """A workplace at that project."""
    return Workplace(root)


@pytest.fixture
def ran(workplace: Workplace) -> Ran:
    """Runs a tool with arguments."""

    def run(tool: Tool, **given: Any) -> Done:
        return tool.run(msgspec.convert(given, tool.arguments), workplace)

    return run


@pytest.fixture
def wished(workplace: Workplace) -> Wished:
    """What a tool would do with arguments."""

    def wish(tool: Tool, **given: Any) -> Wish:
        return tool.wish(msgspec.convert(given, tool.arguments), workplace)

    return wish


@pytest.fixture
def repository(root: Path) -> Path:
    """The project as a git repository that ignores `build/` and logs."""
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text("build/\n*.log\n!kept.log\n")
    for path in ("src/app.py", "src/deep/util.py", "build/made.py", "debug.log", "kept.log", "README.md"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"# needle in {path}\nother\n")
    return root
