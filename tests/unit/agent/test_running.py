"""Calls that a model made, run."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from infold.agent.permissions import BUILD_RULES
from infold.agent.toolbox import INTERRUPTED, Running, broken_off, gist_of, not_started, run_call
from infold.agent.tools.registry import select_tools
from infold.agent.tools.tool import ActionRequest, CallProgress, Workspace
from infold.core.entries import Handle
from infold.core.logged_message import Rendering, prune_part
from infold.core.messages import ToolCallPart, ToolResultPart


class Ticking:
    """A clock that goes on by a second whenever it is asked."""

    def __init__(self) -> None:
        self.now = 0

    def now_ms(self) -> int:
        """The next second."""
        self.now += 1_000
        return self.now


def make(
    root: Path, allow: Callable[[ActionRequest], bool] = lambda _: True, rendering: Rendering = Rendering()
) -> Running:
    """All tools in a folder, with leave for everything."""
    return Running(
        select_tools(BUILD_RULES, lambda query: f"found {query}"), Workspace(root), allow, rendering, Ticking()
    )


def call(tool: str, arguments: str = "", **given: Any) -> ToolCallPart:
    """A call, its arguments as text or by name."""
    return ToolCallPart("c1", tool, arguments or json.dumps(given))


def test_a_call_is_carried_out(tmp_path: Path) -> None:
    """S5.5: a call is answered with what its tool said, how it ended, and when it began, once permitted, and ended."""
    assert run_call(call("shell", command="echo hi; exit 2"), make(tmp_path)) == ToolResultPart(
        "c1", "shell", "hi\n[exit status 2]", "completed", exit_status=2, started_ms=2_000, finished_ms=3_000
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("bash", "{}", "there is no tool 'bash'; call one of shell, read, write"),
        ("read", '{"path": "a', "no JSON (Input data was truncated); read takes an object"),
        ("read", '["a"]', "no JSON object; read takes an object"),
        ("read", "", "missing required field `path`"),
        ("read", '{"file_path": "a"}', "unknown field `file_path`; read takes an object"),
        (
            "read",
            '{"path": "a", "offset": 3}',
            'unknown field `offset`; read takes an object {"path": string, "first_line": integer',
        ),
        ("read", '{"path": "a", "first_line": 0}', ">= 1 - at `$.first_line`"),
        ("todo", '{"items": "x"}', 'todo takes an object {"items": list of {content, status}}'),
        ("write", '{"path": "a", "content": "\ud800"}', "no JSON"),
        ("read", "[" * 5_000, "no JSON"),
    ],
)
def test_a_call_that_is_wrong_is_told_what_is_expected(tmp_path: Path, tool: str, arguments: str, told: str) -> None:
    """An unknown tool, broken JSON and wrong arguments give an error that names what would be right."""
    found = run_call(call(tool, arguments or "{}"), make(tmp_path))

    assert found.status == "error"
    assert told in found.output
    assert list(tmp_path.iterdir()) == []


def test_arguments_are_read_with_good_will(tmp_path: Path) -> None:
    """A null is nothing given, a number may come as text, and no arguments are none."""
    (tmp_path / "a").write_text("one\ntwo\n")

    assert run_call(call("read", path="a", first_line="2", lines=None), make(tmp_path)).output == "2\ttwo"
    assert run_call(ToolCallPart("c1", "list", " "), make(tmp_path)).output == "a"


def test_a_stub_is_not_acted_on(tmp_path: Path) -> None:
    """B24: a call whose arguments carry a stub's text changes nothing, and the model is told to recall the text."""
    written = call("write", path="a.py", content="x" * 5_000)
    pruned = prune_part(written, Handle("3.0"), Rendering(recall=True))
    assert isinstance(pruned, ToolCallPart)
    own = Rendering(stub="[Old tool result content cleared]")

    for repeated, rendering in ((pruned, Rendering(recall=True)), (call("write", path="a", content=own.stub), own)):
        found = run_call(repeated, make(tmp_path, rendering=rendering))

        assert found.status == "error"
        assert "recall" in found.output
    assert list(tmp_path.iterdir()) == []
    assert run_call(written, make(tmp_path)).output == "made a.py: 1 line"


def test_a_stub_may_be_recalled(tmp_path: Path) -> None:
    """B24: asking for what a stub stands for, in its own words, is what it is there for."""
    query = "[pruned: 5,120 characters of shell output; recall 42.1]"

    assert run_call(call("recall", query=query), make(tmp_path)).output == f"found {query}"


def test_what_is_not_permitted_is_not_done(tmp_path: Path) -> None:
    """A call is shown to whoever decides, and without leave it is an error that says so."""
    actions: list[ActionRequest] = []

    def never(action: ActionRequest) -> bool:
        actions.append(action)
        return False

    found = run_call(call("write", path="../a", content="x"), make(tmp_path / "project", never))

    assert actions == [ActionRequest("write", str(tmp_path / "a"), outside=True)]
    assert found.status == "error"
    assert f"not permitted: write: {tmp_path / 'a'}." in found.output
    assert list(tmp_path.iterdir()) == []


def test_what_fails_is_told(tmp_path: Path) -> None:
    """What a tool refuses and what the system refuses are errors in words."""
    (tmp_path / "file").touch()
    refused = run_call(call("read", path="nothing"), make(tmp_path))
    failed = run_call(call("write", path="file/below", content="x"), make(tmp_path))

    assert (refused.status, failed.status) == ("error", "error")
    assert "there is no nothing" in refused.output
    assert failed.output.startswith("write failed: ")
    assert str(tmp_path / "file") in failed.output


def test_an_interrupt_passes_through(tmp_path: Path) -> None:
    """B13: whoever interrupts is not answered with a result."""

    def interrupt(action: ActionRequest) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_call(call("list"), make(tmp_path, interrupt))


def test_a_call_that_was_broken_off_has_a_result(tmp_path: Path) -> None:
    """B12, B13: it is answered all the same, with what it had said by then; one that nobody permitted had not begun."""
    begun, asked = CallProgress(), CallProgress()
    shell = call("shell", command="make")
    run_call(call("list"), replace(make(tmp_path), workspace=Workspace(tmp_path, trace=begun)))
    begun.leave("half a\0 line\n")

    assert broken_off(shell, asked) == not_started(shell, "the user interrupted before it was permitted")
    assert broken_off(shell, begun) == ToolResultPart(
        "c1", "shell", f"{INTERRUPTED}; until then it had said:\nhalf a\ufffd line", "interrupted"
    )
    begun.leave("")
    assert broken_off(shell, begun).output == INTERRUPTED


def test_a_call_is_told_in_short(tmp_path: Path) -> None:
    """Who watches sees a command or a path; of a call that makes no sense, what the model wrote."""
    running = make(tmp_path)

    assert gist_of(call("shell", command="ls -l"), running) == "ls -l"
    assert gist_of(call("read", path="./a/../b"), running) == "b"
    assert gist_of(call("search", pattern="def \\w+", path="./src"), running) == "def \\w+ in src"
    assert gist_of(call("search", pattern="x", glob="*.py"), running) == "x in ., *.py"
    assert gist_of(call("list", path="src", glob="*.py"), running) == "*.py in src"
    assert gist_of(call("list"), running) == "."
    assert gist_of(call("read", "{broken"), running) == "{broken"
    assert gist_of(call("none", "{}"), running) == "{}"


def test_output_can_be_kept(tmp_path: Path) -> None:
    """A name that no text can hold does not keep its result from the log."""
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")  # noqa: PTH102 - a path of bytes

    assert run_call(call("list"), make(tmp_path)).output == "caf\ufffd/"


def test_no_tools_is_told(tmp_path: Path) -> None:
    """An agent without tools is told that it has none."""
    assert "there are none" in run_call(call("read"), replace(make(tmp_path), tools={})).output
