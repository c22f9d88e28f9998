"""Results of tools are shorten_result to a line or two, and edits shown as differences."""

import json

import pytest

from infold.agent.events import ToolAnswered, ToolCalled
from infold.cli.chat.screen import MOST_COMPARED, MOST_KEPT, Results, ToolRun, changes_in, shorten_result
from infold.core.messages import ResultStatus


def done(
    output: str = "", tool: str = "shell", *, status: ResultStatus = "completed", exit_status: int | None = None,
    took: int = 0, before: str = "", **arguments: str,
) -> ToolRun:  # fmt: skip
    """A call with its result, the third of a chat."""
    called = ToolCalled("c", tool, json.dumps(arguments), "")
    return ToolRun(3, called, ToolAnswered("c", tool, output, status, exit_status, took), before)


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        (done(""), ("(nothing)",)),
        (done("one line"), ("one line",)),
        (done("\n\none\ntwo\n\nthree\n"), ("one", "2 more lines, /show 3")),
        (done("x" * 50), ("x" * 40, "/show 3")),
        (done("bad", exit_status=2, took=1_240), ("bad", "exit status 2, 1.2 s")),
        (done("gone\x1b[2J\nmore"), ("gone?[2J", "1 more line, /show 3")),
    ],
)
def test_a_result_is_folded(result: ToolRun, lines: tuple[str, ...]) -> None:
    """The first line that says something stands for it, then how much more there is and what opens it."""
    assert shorten_result(result, 40) == lines


def test_an_edit_is_shown_as_lines() -> None:
    """Lines taken away and put there are marked, those beside them stay, tabs and controls cannot disturb."""
    edit = done("edited", "edit", path="a", old="one\ntwo\n\tthree", new="one\n2\x1b\n\tthree")

    assert changes_in(edit) == (" one", "-two", "+2?", "     three")


def test_a_written_file_is_compared_with_what_was_there() -> None:
    """What was there and stays is not repeated; a new file is all new."""
    write = done("replaced a: 5 lines", "write", before="1\n2\n3\n4\n5\n", path="a", content="1\n2\n3\n4\nfive\n")

    assert changes_in(write) == (" 4", "-5", "+five")
    assert changes_in(done("made a", "write", path="a", content="x\n")) == ("+x",)


@pytest.mark.parametrize(
    "result",
    [
        done("no such text", "edit", status="error", path="a", old="x", new="y"),
        done("1", "shell", command="ls"),
        done("made", "write", path="a", content="x" * (MOST_COMPARED + 1)),
        ToolRun(1, ToolCalled("c", "edit", "no JSON", ""), ToolAnswered("c", "edit", "edited", "completed")),
        ToolRun(1, ToolCalled("c", "edit", "[1]", ""), ToolAnswered("c", "edit", "edited", "completed")),
    ],
)
def test_what_changed_nothing_has_no_changes(result: ToolRun) -> None:
    """A failed edit, another tool, a text too large to compare and broken arguments show none."""
    assert changes_in(result) == ()


def test_results_are_numbered() -> None:
    """Results are found by their number or as the newest; old ones are let go, and a result without its call is one too."""
    results = Results()
    assert results.find() is None
    for number in range(MOST_KEPT + 1):
        results.call(ToolCalled(f"c{number}", "shell", "{}", f"command {number}"))
        results.answer(ToolAnswered(f"c{number}", "shell", f"{number}", "completed"))

    newest, oldest = results.find(), results.find(2)
    assert newest is not None
    assert oldest is not None
    assert (newest.number, newest.called.what) == (MOST_KEPT + 1, f"command {MOST_KEPT}")
    assert oldest.answered.output == "1"
    assert results.find(1) is None
    assert results.answer(ToolAnswered("unknown", "read", "x", "completed")).called.tool == "read"
