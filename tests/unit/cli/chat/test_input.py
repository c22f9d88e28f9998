"""The line a person types on: what keys do, and what is kept."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from infold.cli.chat.input import LONGEST_KEPT, PromptHistory, PromptLine, _CommandCompleter, open_history
from infold.cli.chat.status import StatusPiece

ENTER, NEW_LINE, CTRL_C, CTRL_D = "\r", "\x1b\r", "\x03", "\x04"
PASTE = "\x1b[200~one\ntwo\x1b[201~"


@contextmanager
def typing(history: History | None = None) -> Iterator[tuple[PromptLine, PipeInput]]:
    """A line, and what is typed on it."""
    with create_pipe_input() as source:
        line = PromptLine(
            history or InMemoryHistory(),
            lambda _: (StatusPiece("status", "cyan"),),
            source=source,
            output=DummyOutput(),
        )
        yield line, source


def read(keys: str) -> str | None:
    """What is said by these keys."""
    with typing() as (line, source):
        source.send_text(keys)
        return line.read()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (f"hello{ENTER}", "hello"),
        (f"one{NEW_LINE}two{ENTER}", "one\ntwo"),
        (f"{PASTE}{ENTER}", "one\ntwo"),
        (f"{ENTER} {ENTER}hello{ENTER}", " hello"),
        (f"数据库 🪁{ENTER}", "数据库 🪁"),
        (f"forget{CTRL_C}hello{ENTER}", "hello"),
        (f"{CTRL_C}h{CTRL_C}hello{ENTER}", "hello"),
        (f"forget{CTRL_C}{CTRL_C}", None),
        (f"{CTRL_C}{CTRL_C}", None),
        (CTRL_D, None),
    ],
)
def test_keys(keys: str, said: str | None) -> None:
    """Enter says it, Alt-Enter and a paste make lines, Ctrl-C forgets it and leaves when pressed twice, Ctrl-D leaves."""
    assert read(keys) == said


def test_ctrl_d_inside_a_line_does_not_leave() -> None:
    """Only an empty line is left by it."""
    assert read(f"hello{CTRL_D}{ENTER}") == "hello"


@pytest.mark.parametrize(
    ("keys", "answer"),
    [(f"y{ENTER}", "yes"), (f"always{ENTER}", "always"), (f"what?{ENTER} N {ENTER}", "no"), (CTRL_D, None)],
)
def test_a_question_is_asked_until_it_is_answered(keys: str, answer: str | None) -> None:
    """An answer is its word or its first letter; anything else is asked again, and leaving is none."""
    with typing() as (line, source):
        source.send_text(keys)
        assert line.ask("? ", ("yes", "always", "no")) == answer


def test_an_interrupt_passes_a_question() -> None:
    """Ctrl-C at a question is an interrupt, as elsewhere while the agent works."""
    with typing() as (line, source):
        source.send_text(CTRL_C)
        with pytest.raises(KeyboardInterrupt):
            line.ask("? ", ("yes", "no"))


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/co", ["/compact", "/context", "/continue"]),
        ("/undo", ["/undo"]),
        ("/compact the", []),
        ("co", []),
        ("/xyz", []),
    ],
)
def test_commands_are_completed(typed: str, offered: list[str]) -> None:
    """The first word is completed where it is a command."""
    found = _CommandCompleter().get_completions(Document(typed), CompleteEvent())

    assert [completion.text for completion in found] == offered


def test_the_status_is_asked_for_a_width() -> None:
    """What stands below the prompt is made for the terminal's width, less the last cell."""
    widths: list[int] = []

    def status(width: int) -> tuple[StatusPiece, ...]:
        widths.append(width)
        return (StatusPiece("status"),)

    with create_pipe_input() as source:
        source.send_text(f"hello{ENTER}")
        PromptLine(InMemoryHistory(), status, source=source, output=DummyOutput()).read()

    assert set(widths) == {79}


def test_what_was_typed_is_kept_for_its_owner(tmp_path: Path) -> None:
    """Prompts are found again by the next chat, in a file that nobody else may read; very long ones are not kept."""
    path = tmp_path / "data" / "prompts"
    with typing(open_history(path)) as (line, source):
        source.send_text(f"fly the kite{ENTER}")
        line.read()
    history = open_history(path)
    history.append_string("x" * (LONGEST_KEPT + 1))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(open_history(path).load_history_strings()) == ["fly the kite"]


def test_a_history_that_cannot_be_kept_is_no_harm(tmp_path: Path) -> None:
    """Where the file cannot be made, prompts are kept in memory; where it cannot be written, they are forgotten."""
    (tmp_path / "file").write_text("")

    assert isinstance(open_history(tmp_path / "file" / "prompts"), InMemoryHistory)
    PromptHistory(tmp_path / "gone" / "prompts").store_string("lost \ud800")
