"""The write tool."""

from pathlib import Path

import pytest

from infold.agent.tools.edit import WRITE
from infold.agent.tools.files import RUNS_LATER
from infold.agent.tools.tool import ActionRequest, ToolFailed, ToolOutput

from .conftest import ActionOf, RunTool


def test_a_file_is_made_or_replaced(root: Path, run_tool: RunTool) -> None:
    """S5.5: a file is written as given, with the folders it needs, and the answer says whether it is new."""
    assert run_tool(WRITE, path="a/b.txt", content="one\r\ntwo") == ToolOutput("made a/b.txt: 2 lines")
    assert run_tool(WRITE, path="a/b.txt", content="é\n") == ToolOutput("replaced a/b.txt: 1 line")
    assert (root / "a" / "b.txt").read_bytes() == "é\n".encode()


def test_what_is_no_file_is_not_written(root: Path, run_tool: RunTool) -> None:
    """A folder and a device are refused in words."""
    with pytest.raises(ToolFailed, match="is a folder"):
        run_tool(WRITE, path=".", content="x")
    with pytest.raises(ToolFailed, match="device"):
        run_tool(WRITE, path="/dev/null", content="x")


def test_a_link_stays_a_link(root: Path, run_tool: RunTool, action_of: ActionOf) -> None:
    """The target of a link is written, and the action names it."""
    (root / "real").write_text("old")
    (root / "link").symlink_to("real")
    run_tool(WRITE, path="link", content="new")

    assert (root / "link").is_symlink()
    assert (root / "real").read_text() == "new"
    assert action_of(WRITE, path="link", content="x") == ActionRequest("write", "real")


def test_gits_own_files_are_asked_for(action_of: ActionOf) -> None:
    """A change of what git runs programs by counts as one outside the project."""
    assert action_of(WRITE, path=".git/config", content="x") == ActionRequest(
        "write", ".git/config", outside=True, why=RUNS_LATER
    )
