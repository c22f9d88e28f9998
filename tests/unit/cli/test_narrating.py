"""What an agent does, told to a person and to a program."""

import io
import json
from typing import get_args

import pytest
from rich.console import Console

from infold.agent.events import Answered, Called, Ended, Ending, Reasoned, Retried, Spoke, Stepped, Titled
from infold.cli.narrating import ENDINGS, Narrator, Told, json_lines
from infold.core.events import Compacted, SummaryProgressed
from infold.core.messages import Usage

QUIET: list[Told] = [
    Reasoned("hm"),
    Stepped(1, "stop", Usage(1, 1), 0.0, 1, 100),
    Titled("s", "A title"),
    SummaryProgressed("s", "notes"),
]


def told(*happenings: Told) -> tuple[str, str]:
    """What a person is shown: the answer, and everything about the work."""
    answer, notes = io.StringIO(), io.StringIO()
    narrator = Narrator(answer, Console(file=notes, width=120, highlight=False))
    for one in happenings:
        narrator.tell(one)
    return answer.getvalue(), notes.getvalue()


def test_only_the_answer_is_on_standard_output() -> None:
    """A pipe gets the model's words; calls, results and compactions go to the other stream."""
    answer, notes = told(
        Spoke("I look."),
        Called("c1", "shell", "{}", "ls -l"),
        Answered("c1", "shell", "a\nb", "completed", 0, 1_200),
        Compacted("s", 12, 9_000, 3_000, "trigger"),
        Spoke("Two "),
        Spoke("files."),
        Ended("done", "s", 2, "Two files."),
    )

    assert answer == "I look.\nTwo files.\n"
    assert notes.splitlines()[:2] == ["• shell  ls -l", "  2 lines, 1.2 s"]
    assert "9.0k" in notes.splitlines()[2]


@pytest.mark.parametrize(
    ("answered", "line"),
    [
        (Answered("c", "shell", "", "completed", 0, 0), "  0 lines, 0.0 s"),
        (Answered("c", "shell", "x", "completed", 2, 50), "  1 line, exit status 2, 0.1 s"),
        (Answered("c", "read", "there is no a;\nuse list", "error"), "  there is no a; use list"),
        (Answered("c", "shell", "interrupted by the user", "interrupted"), "  interrupted by the user"),
    ],
)
def test_a_result_is_told_in_one_line(answered: Answered, line: str) -> None:
    """How much it said and how long it took, or why it failed."""
    assert told(answered)[1] == f"{line}\n"


def test_a_second_try_is_told() -> None:
    """Who waits knows why, and that what was said so far does not count."""
    answer, notes = told(Spoke("The fi"), Retried("m: the reply broke off;\ntry again"), Spoke("Well."))

    assert answer == "The fi\nWell."
    assert notes == "  once more: m: the reply broke off; try again\n"


@pytest.mark.parametrize("one", QUIET, ids=lambda one: type(one).__name__)
def test_some_things_are_not_told(one: Told) -> None:
    """Reasoning, usage, titles and unfinished summaries are not for this page."""
    assert told(one) == ("", "")


@pytest.mark.parametrize("ending", get_args(Ending))
def test_an_ending_has_words(ending: Ending) -> None:
    """Work that is done needs none; every other ending says what to do, and names the session."""
    answer, notes = told(Spoke("So"), Ended(ending, "s1", 1, "So"))

    assert answer == "So\n"
    assert notes == ("" if ending == "done" else f"{ENDINGS[ending]} (session s1)\n")


def test_nothing_steers_the_terminal() -> None:
    """Control characters of a model or a tool are shown, not obeyed, and marks are no markup."""
    answer, notes = told(
        Spoke("\x1b[2Jclean\x07"),
        Called("c1", "shell", "{}", "printf '\x1b]0;owned\x07' [bold]"),
        Answered("c1", "shell", "\x1b[31mred", "error"),
    )

    assert "\x1b" not in answer + notes
    assert "\x07" not in answer + notes
    assert "clean" in answer
    assert "[bold]" in notes


def test_a_program_is_told_in_lines() -> None:
    """Each happening is one JSON object on a line of its own, whatever is in it, written at once."""
    out = io.StringIO()
    tell = json_lines(out)
    happenings: list[Told] = [Spoke("a\nb \u2028 ü"), *QUIET, Ended("done", "s", 1, "x")]
    for one in happenings:
        tell(one)
    lines = out.getvalue().split("\n")

    assert lines[-1] == ""
    assert [json.loads(line)["event"] for line in lines[:-1]] == [
        "text",
        "reasoning",
        "step",
        "title",
        "summary-progressed",
        "ended",
    ]
    assert json.loads(lines[0])["text"] == "a\nb \u2028 ü"
