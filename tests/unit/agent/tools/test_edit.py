"""The edit tool."""

import stat
from pathlib import Path

import pytest

from infold.agent.tools.edit import EDIT
from infold.agent.tools.files import RUNS_LATER
from infold.agent.tools.tool import ActionRequest, ToolFailed, ToolOutput

from .conftest import ActionOf, RunTool

CODE = "def a():\n    return 1\n\n\ndef b():\n    return 1\n"


@pytest.fixture
def code(root: Path) -> Path:
    """A small module."""
    (root / "code.py").write_text(CODE)
    return root / "code.py"


def refusal(run_tool: RunTool, **given: object) -> str:
    """Return the message of an edit that cannot be made."""
    with pytest.raises(ToolFailed) as refused:
        run_tool(EDIT, path="code.py", **given)
    return str(refused.value)


def test_text_is_replaced(code: Path, run_tool: RunTool, action_of: ActionOf) -> None:
    """S5.5: text that occurs once is replaced, and the answer names its line."""
    assert run_tool(EDIT, path="code.py", old="def b():\n    return 1", new="def b():\n    return 2") == ToolOutput(
        "edited code.py at line 5"
    )
    assert code.read_text() == CODE[:-2] + "2\n"
    assert action_of(EDIT, path="code.py", old="x", new="y") == ActionRequest("edit", "code.py")


def test_text_that_is_there_twice_is_asked_about(code: Path, run_tool: RunTool) -> None:
    """A text with several places changes none of them, unless all are meant."""
    message = refusal(run_tool, old="return 1", new="return 2")

    assert "2 times, at lines 2, 6;" in message
    assert code.read_text() == CODE
    assert run_tool(EDIT, path="code.py", old="return 1", new="return 2", all=True) == ToolOutput(
        "edited code.py at line 2, 6"
    )
    assert code.read_text() == CODE.replace("1", "2")


def test_many_places_are_shown_in_part(code: Path, run_tool: RunTool) -> None:
    """Of very many places the first are named."""
    code.write_text("x\n" * 100)

    assert run_tool(EDIT, path="code.py", old="x", new="y", all=True).output.endswith(", 12 and 88 more places")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "x", "use write for a whole file"),
        ("x", "x", "nothing would change"),
        ("1\tdef a():\n2\t    return 1", "x", "it has the line numbers"),
        ("def a():\n  return 1", "x", "with other spaces or tabs; copy it from here:\n1\tdef a():\n2\t    return 1"),
        ("def b():\n\n    return 1\n", "x", "copy it from here:\n5\tdef b():\n6\t    return 1"),
        ("def c(x):\n    return 1", "def b():", "new is there already"),
        (
            "def bb():\n    return 3",
            "x",
            "the closest is this; copy what you mean from here:\n5\tdef b():\n6\t    return 1",
        ),
        ("completely different", "x", "read the file and copy"),
        ("   \t   \t", "x", "read the file and copy"),
    ],
)
def test_near_misses_are_shown(code: Path, run_tool: RunTool, old: str, new: str, message: str) -> None:
    """An edit that does not fit changes nothing, and says what is there instead."""
    assert message in refusal(run_tool, old=old, new=new)
    assert code.read_text() == CODE


def test_line_ends_and_mode_stay(code: Path, run_tool: RunTool) -> None:
    """A file with Windows line ends keeps them, whichever the model writes; so does its mode."""
    code.write_bytes(CODE.replace("\n", "\r\n").encode())
    code.chmod(0o755)
    run_tool(EDIT, path="code.py", old="def a():\n    return 1", new="def a():\n    # why\n    return 3")
    run_tool(EDIT, path="code.py", old="    # why\r\n", new="    # because\r\n")

    assert (
        code.read_bytes()
        == CODE.replace("1", "3", 1).replace("    ", "    # because\n    ", 1).replace("\n", "\r\n").encode()
    )
    assert stat.S_IMODE(code.stat().st_mode) == 0o755


def test_line_ends_may_be_mixed(code: Path, run_tool: RunTool) -> None:
    """Text is found whichever line ends it has in the file; what comes in its place has the same, else those of the file."""
    code.write_bytes(b"a\nb\nc\nd\r\ne\r\n")
    run_tool(EDIT, path="code.py", old="d\ne", new="1\n2")
    run_tool(EDIT, path="code.py", old="c\n1", new="3\n4")
    run_tool(EDIT, path="code.py", old="b", new="5\n6")

    assert code.read_bytes() == b"a\n5\n6\n3\n4\r\n2\r\n"


@pytest.mark.parametrize(
    ("content", "old", "message"),
    [
        (b"one\ntwo", "one\ntwo\n", "it ends the file, which has no line break behind its last line"),
        (b"caf\xe9\n", "caf\ufffd", "\ufffd is how read shows bytes that are no UTF-8; leave them out of old"),
    ],
)
def test_what_read_does_not_show_is_explained(
    code: Path, run_tool: RunTool, content: bytes, old: str, message: str
) -> None:
    """A model that copies what it was shown learns why that is not in the file."""
    code.write_bytes(content)

    assert message in refusal(run_tool, old=old, new="x")


def test_other_bytes_stay(code: Path, run_tool: RunTool) -> None:
    """Bytes that are not UTF-8, and a byte order mark, survive an edit."""
    code.write_bytes(b"\xef\xbb\xbfcaf\xe9 = 1\n")
    run_tool(EDIT, path="code.py", old="= 1", new="= 2")

    assert code.read_bytes() == b"\xef\xbb\xbfcaf\xe9 = 2\n"


def test_what_is_not_there_is_not_edited(run_tool: RunTool) -> None:
    """A missing file is refused in words."""
    assert "there is no code.py" in refusal(run_tool, old="a", new="b")


def test_gits_own_files_are_asked_for(action_of: ActionOf) -> None:
    """A change of what git runs programs by counts as one outside the project."""
    assert action_of(EDIT, path=".git/config", old="a", new="b") == ActionRequest(
        "edit", ".git/config", outside=True, why=RUNS_LATER
    )
