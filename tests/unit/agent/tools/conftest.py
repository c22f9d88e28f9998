"""A project to work in, and tools run as an agent runs them: from arguments in JSON."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from infold.agent.tools.tool import ActionRequest, Tool, ToolOutput, Workspace

RunTool: TypeAlias = Callable[..., ToolOutput]
ActionOf: TypeAlias = Callable[..., ActionRequest]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an empty project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(root: Path) -> Workspace:
    """Return a workspace at that project."""
    return Workspace(root)


@pytest.fixture
def run_tool(workspace: Workspace) -> RunTool:
    """Return a function that runs a tool with arguments."""

    def run(tool: Tool, **given: Any) -> ToolOutput:
        return tool.run(msgspec.convert(given, tool.arguments), workspace)

    return run


@pytest.fixture
def action_of(workspace: Workspace) -> ActionOf:
    """Return a function that gives the action of a tool with arguments."""

    def action(tool: Tool, **given: Any) -> ActionRequest:
        return tool.action(msgspec.convert(given, tool.arguments), workspace)

    return action


@pytest.fixture
def repository(root: Path) -> Path:
    """Make the project a git repository that ignores `build/` and logs."""
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text("build/\n*.log\n!kept.log\n")
    for path in ("src/app.py", "src/deep/util.py", "build/made.py", "debug.log", "kept.log", "README.md"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"# needle in {path}\nother\n")
    return root
