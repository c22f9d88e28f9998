"""The read tool."""

from pathlib import Path

import pytest

from infold.agent.tools.read import LONGEST_LINE, MOST_CHARACTERS, READ, split_lines
from infold.agent.tools.tool import ActionRequest, ToolFailed, ToolOutput

from .conftest import ActionOf, RunTool


def test_lines_have_numbers(root: Path, run_tool: RunTool, action_of: ActionOf) -> None:
    """S5.5: a file is shown with the number of each line; its last line break begins no line."""
    (root / "a.py").write_text("one\n\nthree\n")

    assert run_tool(READ, path="a.py") == ToolOutput("1\tone\n2\t\n3\tthree")
    assert action_of(READ, path="a.py") == ActionRequest("read", "a.py")


def test_a_part_can_be_read(root: Path, run_tool: RunTool) -> None:
    """Lines from any line on, with a note of how to read on where there is more."""
    (root / "a").write_text("\n".join(f"line {number}" for number in range(1, 101)))
    part = run_tool(READ, path="a", first_line=99, lines=1).output
    rest = run_tool(READ, path="a", first_line=100).output

    assert part == "99\tline 99\n[lines 99 to 99 of 100; read on with first_line 100]"
    assert rest == "100\tline 100"
    with pytest.raises(ToolFailed, match="has 100 lines, so there is no line 101"):
        run_tool(READ, path="a", first_line=101)


def test_long_lines_are_cut(root: Path, run_tool: RunTool) -> None:
    """Of a very long line the beginning is shown, and how much there is more."""
    (root / "min.js").write_text("x" * (LONGEST_LINE + 1_234) + "\nshort")
    first, second = run_tool(READ, path="min.js").output.split("\n")

    assert first.endswith("x [1,234 more characters in this line]")
    assert second == "2\tshort"


def test_much_text_is_read_in_pieces(root: Path, run_tool: RunTool) -> None:
    """However many lines are asked for, what is shown at once has a bound, and nothing is passed over on the way."""
    (root / "big").write_text(f"{'y' * 1_000}\n" * 500)
    shown = run_tool(READ, path="big").output
    last = int(shown.rpartition("first_line ")[2].removesuffix("]"))

    assert len(shown) <= MOST_CHARACTERS + 1_000
    assert shown.split("\n")[-2].startswith(f"{last - 1}\t")


def test_every_kind_of_text_is_shown(root: Path, run_tool: RunTool) -> None:
    """Windows line ends, a byte order mark and bytes that are not UTF-8 are not shown; only line feeds end a line."""
    (root / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo \xff\x0c\xe2\x80\xa8still two\r\n")

    assert run_tool(READ, path="a").output == "1\tone\n2\ttwo \ufffd\x0c\u2028still two"


def test_an_empty_file_is_named(root: Path, run_tool: RunTool) -> None:
    """An empty file is not an error."""
    (root / "empty").touch()

    assert run_tool(READ, path="empty") == ToolOutput("[empty is empty]")


def test_lines_are_counted_as_editors_do() -> None:
    """Text without a line break at its end is a line; empty text has no lines."""
    assert [split_lines(text) for text in ("", "\n", "a", "a\n", "a\nb")] == [[], [""], ["a"], ["a"], ["a", "b"]]
