"""The edit tool."""

import stat
from pathlib import Path

import pytest

from infold.agent.tools.edit import EDIT
from infold.agent.tools.files import RUNS_LATER
from infold.agent.tools.tool import ActionRequest, ToolFailed, ToolOutput

from .conftest import Ran, Wished

CODE = "def a():\n    return 1\n\n\ndef b():\n    return 1\n"


@pytest.fixture
def code(root: Path) -> Path:
    """A small module."""
    (root / "code.py").write_text(CODE)
    return root / "code.py"


def refusal(ran: Ran, **given: object) -> str:
    """What is said of an edit that cannot be made."""
    with pytest.raises(ToolFailed) as refused:
        ran(EDIT, path="code.py", **given)
    return str(refused.value)


def test_text_is_replaced(code: Path, ran: Ran, wished: Wished) -> None:
    """S5.5: text that is there once is replaced, and the line is told."""
    assert ran(EDIT, path="code.py", old="def b():\n    return 1", new="def b():\n    return 2") == ToolOutput(
        "edited code.py at line 5"
    )
    assert code.read_text() == CODE[:-2] + "2\n"
    assert wished(EDIT, path="code.py", old="x", new="y") == ActionRequest("edit", "code.py")


def test_text_that_is_there_twice_is_asked_about(code: Path, ran: Ran) -> None:
    """A text with several places changes none of them, unless all are meant."""
    told = refusal(ran, old="return 1", new="return 2")

    assert "2 times, at lines 2, 6;" in told
    assert code.read_text() == CODE
    assert ran(EDIT, path="code.py", old="return 1", new="return 2", all=True) == ToolOutput(
        "edited code.py at line 2, 6"
    )
    assert code.read_text() == CODE.replace("1", "2")


def test_many_places_are_not_all_told(code: Path, ran: Ran) -> None:
    """Of very many places the first are named."""
    code.write_text("x\n" * 100)

    assert ran(EDIT, path="code.py", old="x", new="y", all=True).output.endswith(", 12 and 88 more places")


@pytest.mark.parametrize(
    ("old", "new", "told"),
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
def test_near_misses_are_told(code: Path, ran: Ran, old: str, new: str, told: str) -> None:
    """An edit that does not fit changes nothing, and says what is there instead."""
    assert told in refusal(ran, old=old, new=new)
    assert code.read_text() == CODE


def test_line_ends_and_mode_stay(code: Path, ran: Ran) -> None:
    """A file with Windows line ends keeps them, whichever the model writes; so does its mode."""
    code.write_bytes(CODE.replace("\n", "\r\n").encode())
    code.chmod(0o755)
    ran(EDIT, path="code.py", old="def a():\n    return 1", new="def a():\n    # why\n    return 3")
    ran(EDIT, path="code.py", old="    # why\r\n", new="    # because\r\n")

    assert (
        code.read_bytes()
        == CODE.replace("1", "3", 1).replace("    ", "    # because\n    ", 1).replace("\n", "\r\n").encode()
    )
    assert stat.S_IMODE(code.stat().st_mode) == 0o755


def test_line_ends_may_be_mixed(code: Path, ran: Ran) -> None:
    """Text is found whichever line ends it has in the file; what comes in its place has the same, else those of the file."""
    code.write_bytes(b"a\nb\nc\nd\r\ne\r\n")
    ran(EDIT, path="code.py", old="d\ne", new="1\n2")
    ran(EDIT, path="code.py", old="c\n1", new="3\n4")
    ran(EDIT, path="code.py", old="b", new="5\n6")

    assert code.read_bytes() == b"a\n5\n6\n3\n4\r\n2\r\n"


@pytest.mark.parametrize(
    ("content", "old", "told"),
    [
        (b"one\ntwo", "one\ntwo\n", "it ends the file, which has no line break behind its last line"),
        (b"caf\xe9\n", "caf\ufffd", "\ufffd is how read shows bytes that are no UTF-8; leave them out of old"),
    ],
)
def test_what_read_does_not_show_is_told(code: Path, ran: Ran, content: bytes, old: str, told: str) -> None:
    """A model that copies what it was shown learns why that is not in the file."""
    code.write_bytes(content)

    assert told in refusal(ran, old=old, new="x")


def test_other_bytes_stay(code: Path, ran: Ran) -> None:
    """What of a file is no UTF-8, and a byte order mark, come through an edit unchanged."""
    code.write_bytes(b"\xef\xbb\xbfcaf\xe9 = 1\n")
    ran(EDIT, path="code.py", old="= 1", new="= 2")

    assert code.read_bytes() == b"\xef\xbb\xbfcaf\xe9 = 2\n"


def test_what_is_not_there_is_not_edited(ran: Ran) -> None:
    """A missing file is refused in words."""
    assert "there is no code.py" in refusal(ran, old="a", new="b")


def test_gits_own_files_are_asked_for(wished: Wished) -> None:
    """A change of what git runs programs by counts as one outside the project."""
    assert wished(EDIT, path=".git/config", old="a", new="b") == ActionRequest(
        "edit", ".git/config", outside=True, why=RUNS_LATER
    )
