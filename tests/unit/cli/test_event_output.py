"""What an agent does, told to a person and to a program."""

import io
import json
from collections.abc import Callable
from typing import get_args

import pytest
from rich.console import Console

from infold.agent.events import (
    Notice,
    ReasoningReceived,
    RequestRetried,
    RunEnded,
    RunEnding,
    RunStarted,
    SessionTitled,
    StepFinished,
    SummaryStarted,
    TextReceived,
    ToolAnswered,
    ToolCalled,
    ToolRefused,
)
from infold.agent.loop import EMPTY_REPLY
from infold.agent.run import RunEvent
from infold.cli.agent_options import ENDINGS
from infold.cli.run import ANSWERS, EventPrinter, json_lines, open_output
from infold.core.entries import Handle
from infold.core.events import Clipped, Compacted, SummaryProgressed
from infold.core.messages import Usage

QUIET: list[RunEvent] = [
    RunStarted("s", "m", "/kites"),
    ToolRefused("c1", "shell", "ls", ("shell:ls",)),
    SummaryStarted("s"),
    ReasoningReceived("hm"),
    StepFinished(1, "stop", Usage(1, 1), 0.0, 1, 100),
    SessionTitled("s", "A title"),
    SummaryProgressed("s", "notes"),
    Clipped("s", (Handle("3.0"),), 3_440, 3_410, "arrival"),
]


LOOKED: list[RunEvent] = [
    TextReceived("I look."),
    ToolCalled("c1", "shell", "{}", "ls -l"),
    ToolAnswered("c1", "shell", "a\nb", "completed", 0, 1_200),
    Compacted("s", 12, 9_000, 3_000, "trigger"),
    TextReceived("Two "),
    TextReceived("files."),
    RunEnded("done", "s", 2, "Two files."),
]


class Terminal(io.StringIO):
    """What a person reads along."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def told(*happenings: RunEvent, answer: io.StringIO | None = None) -> tuple[str, str]:
    """What a person is shown: the answer, and everything about the work."""
    answer, notes = answer or Terminal(), io.StringIO()
    console = Console(file=notes, width=120, highlight=False)
    narrator = EventPrinter(open_output(answer, console), console, "infold run --session {}".format)
    for one in happenings:
        narrator.print(one)
    return answer.getvalue(), notes.getvalue()


def piped(*happenings: RunEvent) -> tuple[str, str]:
    """The same where the answer goes into a pipe."""
    return told(*happenings, answer=io.StringIO())


def test_words_stream_to_a_terminal() -> None:
    """A person reads all that the model says as it arrives; calls, results and compactions go to the other stream."""
    answer, notes = told(*LOOKED)

    assert answer == "I look.\nTwo files.\n"
    assert notes.splitlines()[:2] == ["• shell  ls -l", "  2 lines, 1.2 s"]
    assert "9k" in notes.splitlines()[2]


def test_a_pipe_gets_the_answer_alone() -> None:
    """What was said on the way is about the work, and goes where that is told, in its place."""
    answer, notes = piped(*LOOKED)

    assert answer == "Two files.\n"
    assert notes.splitlines()[:2] == ["I look.", "• shell  ls -l"]
    assert "files" not in notes


def test_half_an_answer_is_not_in_the_pipe() -> None:
    """After a stream that broke, only the whole answer counts."""
    answer, notes = piped(
        TextReceived("The fi"), RequestRetried("it broke off"), TextReceived("Well."), RunEnded("done", "s", 1, "Well.")
    )

    assert (answer, notes) == ("Well.\n", "The fi\n  retrying: it broke off\n")


@pytest.mark.parametrize("ending", get_args(RunEnding))
def test_what_is_no_answer_is_not_in_the_pipe(ending: RunEnding) -> None:
    """Of work that was stopped, the words so far are told with the work."""
    answer, notes = piped(TextReceived("So"), RunEnded(ending, "s1", 1, "So"))

    assert (answer, notes.startswith("So\n")) == (("So\n", False) if ending in ANSWERS else ("", True))


@pytest.mark.parametrize("tell", [told, piped])
def test_silence_is_told(tell: Callable[..., tuple[str, str]]) -> None:
    """A model that ends without a word does not leave a person wondering, nor anything in a pipe."""
    assert tell(RunEnded("done", "s", 1, "", EMPTY_REPLY)) == ("", f"{EMPTY_REPLY}\n")


def test_notes_are_told() -> None:
    """What a person should know who wonders has its line."""
    assert told(Notice("a snapshot takes its time")) == ("", "  a snapshot takes its time\n")


@pytest.mark.parametrize(
    ("answered", "line"),
    [
        (ToolAnswered("c", "shell", "", "completed", 0, 0), "  0 lines, 0.0 s"),
        (ToolAnswered("c", "shell", "x", "completed", 2, 50), "  1 line, exit status 2, 0.1 s"),
        (ToolAnswered("c", "read", "there is no a;\nuse list", "error"), "  there is no a; use list"),
        (ToolAnswered("c", "shell", "interrupted by the user", "interrupted"), "  interrupted by the user"),
    ],
)
def test_a_result_is_told_in_one_line(answered: ToolAnswered, line: str) -> None:
    """How much it said and how long it took, or why it failed."""
    assert told(answered)[1] == f"{line}\n"


def test_a_second_try_is_told() -> None:
    """Who waits knows why, and that what was said so far does not count."""
    answer, notes = told(
        TextReceived("The fi"), RequestRetried("m: the reply broke off;\ntry again"), TextReceived("Well.")
    )

    assert answer == "The fi\nWell."
    assert notes == "  retrying: m: the reply broke off; try again\n"
    assert told(RequestRetried("m: slow down", 30.2))[1] == "  retrying in 30 s: m: slow down\n"


@pytest.mark.parametrize("one", QUIET, ids=lambda one: type(one).__name__)
def test_some_things_are_not_told(one: RunEvent) -> None:
    """Reasoning, usage, titles, unfinished summaries and what changes no number are not for this page."""
    assert told(one) == ("", "")


@pytest.mark.parametrize("ending", get_args(RunEnding))
def test_an_ending_has_words(ending: RunEnding) -> None:
    """Work that is done needs none, an error has its own; every ending but the first says how to go on."""
    answer, notes = told(TextReceived("So"), RunEnded(ending, "s1", 1, "So"))
    words = f"{ENDINGS[ending]}\n" if ENDINGS[ending] else ""

    assert answer == "So\n"
    assert notes == ("" if ending == "done" else f"{words}continue with: infold run --session s1\n")
    assert bool(words) == (ending != "failed")


def test_nothing_steers_the_terminal() -> None:
    """Control characters of a model or a tool are shown, not obeyed, and marks are no markup."""
    answer, notes = told(
        TextReceived("\x1b[2Jclean\x07"),
        ToolCalled("c1", "shell", "{}", "printf '\x1b]0;owned\x07' [bold]"),
        ToolAnswered("c1", "shell", "\x1b[31mred", "error"),
    )

    assert "\x1b" not in answer + notes
    assert "\x07" not in answer + notes
    assert "clean" in answer
    assert "[bold]" in notes


def test_a_program_is_told_in_lines() -> None:
    """Each happening is one JSON object on a line of its own, whatever is in it, written at once."""
    out = io.BytesIO()
    tell = json_lines(out)
    happenings: list[RunEvent] = [TextReceived("a\nb \u2028 ü"), *QUIET, RunEnded("done", "s", 1, "x")]
    for one in happenings:
        tell(one)
    lines = out.getvalue().decode("utf-8").split("\n")

    assert lines[-1] == ""
    assert [json.loads(line)["event"] for line in lines[:-1]] == [
        "text",
        "started",
        "tool-refused",
        "summary-begun",
        "reasoning",
        "step",
        "title",
        "summary-progressed",
        "clipped",
        "ended",
    ]
    assert json.loads(lines[0])["text"] == "a\nb \u2028 ü"


def test_where_nothing_goes_on_no_command_is_told() -> None:
    """A session that is kept in memory is named to nobody."""
    notes = io.StringIO()
    console = Console(file=notes)
    EventPrinter(open_output(io.StringIO(), console), console, lambda _: "").print(RunEnded("steps", "s", 1, ""))

    assert notes.getvalue() == f"{ENDINGS['steps']}\n"
