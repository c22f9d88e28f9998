"""A person is asked whether an agent may do what it wishes."""

import io
import os

import pytest
from rich.console import Console

from infold.agent.events import ToolRefused
from infold.agent.permissions import Consent
from infold.agent.tools.tool import ActionRequest
from infold.cli.agent_options import MOST_NAMED, denied_hint, permission_prompt

LIST = ActionRequest("shell", "ls -l")


class Keyboard(io.StringIO):
    """A terminal at which these lines are typed."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def asked(typed: str, action: ActionRequest = LIST) -> tuple[Consent, str]:
    """What somebody who types this answers, and what they were shown."""
    shown = io.StringIO()
    return permission_prompt(Keyboard(typed), Console(file=shown, width=100))(action), shown.getvalue()


@pytest.mark.parametrize(
    ("typed", "consent"),
    [
        ("y\n", "once"),
        ("YES\n", "once"),
        (" a \n", "always"),
        ("always\n", "always"),
        ("n\n", "no"),
        ("no\n", "no"),
        ("\nwhat?\ny\n", "once"),
        ("", "no"),
        ("maybe\n", "no"),
    ],
)
def test_an_answer_is_understood(typed: str, consent: Consent) -> None:
    """Yes, always and no, in short or in full; anything else is asked again, and a terminal that has gone says no."""
    assert asked(typed)[0] == consent


def test_the_wish_is_shown() -> None:
    """The person sees what is to be done, and whether it reaches out of the project."""
    assert "? shell: ls -l" in asked("y\n")[1]
    assert (
        "? read (outside the project): /etc/hosts" in asked("n\n", ActionRequest("read", "/etc/hosts", outside=True))[1]
    )


def test_what_always_means_is_shown() -> None:
    """Who gives leave for good knows for what: of some programs it is more than the command."""
    action = ActionRequest("shell", "git status -s")

    assert "always would allow shell:git status -s, shell:git status, shell:git status *\n" in asked("y\n", action)[1]


class Answering(io.StringIO):
    """A screen before which somebody types an answer once they are asked."""

    def __init__(self, keyboard: int) -> None:
        super().__init__()
        self._keyboard = keyboard

    def write(self, text: str) -> int:
        """Show it."""
        if "or no:" in text:
            os.write(self._keyboard, b"n\n")
        return super().write(text)


def test_what_was_typed_before_is_no_answer() -> None:
    """A key that was pressed while nothing was asked gives leave for nothing."""
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"y\n")
    with os.fdopen(terminal) as source:
        consent = permission_prompt(source, Console(file=Answering(keyboard), width=100))(LIST)
    os.close(keyboard)

    assert consent == "no"


def test_a_wish_cannot_paint_over_the_question() -> None:
    """Control characters in a command are shown as such, so that what is seen is what is run."""
    shown = asked("n\n", ActionRequest("shell", "rm -rf x\r\x1b[2K? shell: ls [bold]"))[1]

    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "rm -rf x" in shown
    assert "[bold]" in shown


def test_a_wish_hides_nothing() -> None:
    """B41: gaps are counted, further lines are indented, and of a command that is cut "always" is no answer."""
    consent, shown = asked("always\ny\n", ActionRequest("shell", "ls" + "\n" * 200 + "x" * 20_000 + "; rm -rf ~"))

    assert consent == "once"
    assert "? shell: ls[200 blank characters]xxx" in shown.replace(" \n", " ")
    assert "; rm -rf ~" in shown.replace(" \n", " ")
    assert "always" not in shown
    assert "? shell: ls\n      always: \n" in asked("n\n", ActionRequest("shell", "ls\n  always: "))[1]


@pytest.mark.parametrize("source", [None, io.StringIO("y\n")])
def test_without_a_terminal_nobody_is_asked(source: io.StringIO | None) -> None:
    """A pipe cannot consent."""
    shown = io.StringIO()

    assert permission_prompt(source, Console(file=shown))(LIST) == "no"
    assert shown.getvalue() == ""


def test_leave_that_was_wanted_is_told() -> None:
    """Each wish once, with options to copy as they are."""
    wishes = [
        ToolRefused(str(n), "shell", what, (f"shell:{what}",)) for n, what in enumerate(("ls", "ls", "rm -r 'x'"))
    ]

    assert denied_hint(wishes) == (
        "not permitted without a terminal to ask on: shell:ls, shell:rm -r 'x'; "
        """allow it with --allow shell:ls --allow 'shell:rm -r '"'"'x'"'"''"""
    )


def test_much_that_was_wanted_is_told_in_short() -> None:
    """Long commands are named by how they begin, and are no option to copy; of many, the first are."""
    long = ToolRefused("0", "shell", "x\n" * 300, ("shell:" + "x\n" * 300,))
    many = [
        ToolRefused(str(number), "shell", f"ls {number}", (f"shell:ls {number}",)) for number in range(MOST_NAMED + 2)
    ]

    assert "\n" not in denied_hint([long])
    assert len(denied_hint([long])) < 300
    assert "shell:ls 4 and 2 more; allow it with" in denied_hint(many)
