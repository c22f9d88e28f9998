"""What a person is asked in a chat."""

import io

from rich.console import Console

from infold.agent.tools.tool import ActionRequest
from infold.cli.chat.app import MOST_SHOWN, _question


def asked(action: ActionRequest) -> str:
    """The question as it is printed."""
    console = Console(file=io.StringIO(), width=60, color_system=None, highlight=False)
    with console.capture() as captured:
        for piece in _question(action):
            console.print(piece)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def test_a_question_shows_the_whole_wish() -> None:
    """All lines of a command stand there, and what leave for good would mean."""
    shown = asked(ActionRequest("shell", "git status\nrm -rf build\x1b[2K"))

    assert shown.startswith("? shell\n    git status\n    rm -rf build?[2K\n")
    assert "always would allow shell:git status" in shown


def test_what_lies_outside_is_said() -> None:
    """A wish that leads out of the project is marked."""
    assert asked(ActionRequest("read", "/etc/hosts", outside=True)).startswith(
        "? read (outside the project)\n    /etc/hosts\n"
    )


def test_what_is_too_long_is_said_to_be() -> None:
    """Nothing is hidden beyond the end of a long command without a word."""
    assert "(and 5 more characters)" in asked(ActionRequest("shell", "x" * (MOST_SHOWN + 5)))
