"""What an agent does is shown once, in order, folded, and legibly."""

import io
import time
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from infold.agent.events import (
    Notice,
    ReasoningReceived,
    RequestRetried,
    RunEnded,
    RunStarted,
    SessionTitled,
    StepFinished,
    SummaryStarted,
    TextReceived,
    ToolAnswered,
    ToolCalled,
)
from infold.agent.run import RunEvent
from infold.cli.chat.screen import REFRESHES, Screen
from infold.cli.chat.status import StatusPiece
from infold.core.entries import Handle
from infold.core.events import Clipped, Compacted, PreparedAhead, SummaryProgressed


def screen(root: Path = Path(), *, encoding: str = "utf-8", terminal: bool = False) -> Screen:
    """A screen on a file, in which nothing moves unless it is a terminal."""
    file = io.TextIOWrapper(io.BytesIO(), encoding, errors="replace", write_through=True)
    console = Console(
        file=file, width=60, height=20, color_system=None, force_terminal=terminal, highlight=False, markup=False
    )
    return Screen(console, root, lambda _: (StatusPiece("status"),))


def seen(shown: Screen) -> str:
    """All that was printed."""
    file = shown.console.file
    assert isinstance(file, io.TextIOWrapper)
    assert isinstance(file.buffer, io.BytesIO)
    text = file.buffer.getvalue().decode(file.encoding)
    return "\n".join(line.rstrip() for line in text.splitlines())


def told(*happenings: RunEvent, root: Path = Path()) -> str:
    """What is printed of happenings during one piece of work."""
    shown = screen(root)
    with shown.working("thinking"):
        for happening in happenings:
            shown.show(happening)
    return seen(shown)


def test_an_answer_is_drawn_in_blocks() -> None:
    """Pieces make blocks, each with a line free above it, and the last one is printed when the step ends."""
    pieces = map(TextReceived, ("# Ki", "tes\n", "\nA **r", "ed** one.\n\nAnd the str", "ing"))

    assert told(*pieces, StepFinished(1, "stop", None, 0.0, 1, 2)) == "\nKites\n\nA red one.\n\nAnd the string"


def test_thoughts_are_told_apart() -> None:
    """Reasoning is indented, line by line, before the answer."""
    shown = told(ReasoningReceived("The user wan"), ReasoningReceived("ts\na kite"), TextReceived("Here it is."))

    assert shown == "  The user wants\n  a kite\n\nHere it is."


def test_a_broken_answer_is_kept() -> None:
    """What had arrived when somebody stopped it is printed, then that it was stopped."""
    shown = told(TextReceived("Half an ans"), RunEnded("aborted", "s", 1, ""))

    assert shown == "\nHalf an ans\naborted; the session is stored"


def test_an_interrupt_leaves_what_had_arrived() -> None:
    """An exception in the middle takes nothing from the screen that had been there."""
    shown = screen()
    with suppress(KeyboardInterrupt), shown.working("thinking"):
        shown.show(TextReceived("Half an ans"))
        raise KeyboardInterrupt

    assert seen(shown) == "\nHalf an ans"


def test_calls_are_folded() -> None:
    """A call is a line, its result a line or two; a failed one has what went wrong."""
    shown = told(
        ToolCalled("1", "shell", '{"command": "seq 3"}', "seq 3"),
        ToolAnswered("1", "shell", "1\n2\n3", "completed"),
        ToolCalled("2", "read", "{}", "a\x1b[2Jb"),
        ToolAnswered("2", "read", "there is no file", "error"),
    )

    assert shown == "\n● shell  seq 3\n  1\n  2 more lines, /show 1\n\n● read  a?[2Jb\n  there is no file"


def test_edits_are_shown_short(tmp_path: Path) -> None:
    """A written file is compared with the one it replaces, and a long difference is cut."""
    (tmp_path / "a.txt").write_text("one\ntwo\n", "utf-8")
    content = "one\\n" + "".join(f"{number}\\n" for number in range(20))
    call = ToolCalled("1", "write", f'{{"path": "a.txt", "content": "{content}"}}', "a.txt")
    shown = told(call, ToolAnswered("1", "write", "replaced a.txt: 21 lines", "completed"), root=tmp_path)

    assert "  replaced a.txt: 21 lines\n     one\n    -two\n    +0\n" in shown
    assert shown.endswith("(10 more lines, /show 1)")


@pytest.mark.parametrize("path", ["", "missing.txt", "folder", "broken.bin", "nul\\u0000"])
def test_what_cannot_be_compared_is_no_harm(tmp_path: Path, path: str) -> None:
    """A file that is not there, a folder, bytes that are no text and a path that is none are compared with nothing."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken.bin").write_bytes(b"\xff\xfe")
    call = ToolCalled("1", "write", f'{{"path": "{path}", "content": "x"}}', path)

    assert "    +x" in told(call, ToolAnswered("1", "write", "made", "completed"), root=tmp_path)


def test_what_infold_does_is_told() -> None:
    """Compactions and retries have their line; titles, what is prepared ahead and what changes no number have none."""
    shown = told(
        Compacted("s", 12, 9_000, 400, "trigger"),
        RequestRetried("the server is busy"),
        SessionTitled("s", "Kites"),
        PreparedAhead("s"),
        RunStarted("s", "m", "/kites"),
        SummaryStarted("s"),
        Clipped("s", (Handle("3.0"),), 3_440, 3_410, "arrival"),
        RunEnded("failed", "s", 1, "", "told by the error"),
        RunEnded("done", "s", 1, ""),
    )

    assert "◆ folded 12 messages" in shown
    assert "9k ->    400 tokens" in shown
    assert shown.endswith("retrying: the server is busy")


def test_summaries_are_shown_when_they_were_asked_for() -> None:
    """Only a person who compacts reads along."""
    assert told(SummaryProgressed("s", "The kite\n")) == ""

    shown = screen()
    shown.shows_summary = True
    with shown.working("compacting"):
        shown.show(SummaryProgressed("s", "The ki"))
        shown.show(SummaryProgressed("s", "te\nis red"))
    assert seen(shown) == "  The kite\n  is red"


def test_two_summaries_are_told_apart() -> None:
    """One that was not accepted and the next have a line free between them."""
    shown = screen()
    shown.shows_summary = True
    with shown.working("compacting"):
        for piece in ("No kite", "A red kite\nis meant"):
            shown.show(SummaryStarted("s"))
            shown.show(SummaryProgressed("s", piece))

    assert seen(shown) == "\n  No kite\n\n  A red kite\n  is meant"


def test_silence_is_told() -> None:
    """A model that ends without a word does not leave a person wondering."""
    assert told(RunEnded("done", "s", 1, "", "the model said nothing")) == "the model said nothing"


def test_notes_have_their_line() -> None:
    """What a person should know who wonders is said."""
    assert told(Notice("a snapshot takes its time")) == "a snapshot takes its time"


def test_what_happens_meanwhile_waits() -> None:
    """What is told while nobody works is shown with the next piece of work, and pieces of a summary are not."""
    shown = screen()
    shown.show(Compacted("s", 12, 9_000, 400, "trigger"))
    shown.show(SummaryProgressed("s", "late"))
    assert seen(shown) == ""

    with shown.working("thinking"):
        pass
    assert seen(shown).startswith("◆ folded 12 messages")
    assert "late" not in seen(shown)


def test_pausing_shows_what_had_arrived() -> None:
    """Before a question is asked, the text so far is printed; afterwards it goes on."""
    shown = screen()
    with shown.working("thinking"):
        shown.show(TextReceived("I would run it."))
        with shown.paused():
            assert seen(shown) == "\nI would run it."
        shown.show(TextReceived("I ran it."))
    assert seen(shown) == "\nI would run it.\n\nI ran it."


def test_a_terminal_shows_what_is_arriving() -> None:
    """Below what is printed stand the newest lines, what is being done and the status; in the end they are gone."""
    shown = screen(terminal=True)
    with shown.working("thinking"):
        shown.show(TextReceived("Half an ans\x1b[2J"))
        below = shown._below()
    console = Console(file=io.StringIO(), width=60, color_system=None)
    with console.capture() as captured:
        console.print(below)
    lines = captured.get().splitlines()
    assert lines[:2] == ["", "Half an ans?[2J"]
    assert lines[2].endswith("answering; Ctrl-C stops")
    assert lines[3] == "status"
    assert seen(shown).count("Half an ans?[2J") >= 1


def test_plain_consoles_get_plain_signs() -> None:
    """Where the encoding is ASCII, signs become what it has."""
    shown = screen(encoding="ascii")
    with shown.working("thinking"):
        shown.show(ToolCalled("1", "shell", "{}", "ls 漢"))

    assert seen(shown) == "\n? shell  ls ?"


class SlowToDraw:
    """Something that takes as long to draw as several refreshes, and notes what reached the terminal meanwhile."""

    def __init__(self, shown: Screen) -> None:
        self._shown = shown
        self.meanwhile = "not drawn"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        before = seen(self._shown)
        time.sleep(4 / REFRESHES)
        self.meanwhile = seen(self._shown).removeprefix(before)
        yield Text("drawn")


@pytest.mark.slow
def test_nothing_is_redrawn_while_something_is_printed() -> None:
    """The lines below change their height only between two prints, so that no print leaves half of them behind."""
    shown = screen(terminal=True)
    drawn = SlowToDraw(shown)
    with shown.working("thinking"):
        shown.print(drawn)

    assert drawn.meanwhile == ""
    assert "drawn" in seen(shown)
