"""What a person is asked in a chat."""

import io

from rich.console import Console

from infold.agent.tools.tool import ActionRequest
from infold.cli.agent_options import MOST_SHOWN, PermissionQuestion
from infold.cli.chat.app import _show_question


def asked(action: ActionRequest) -> str:
    """The question as it is printed."""
    console = Console(file=io.StringIO(), width=60, color_system=None, highlight=False)
    with console.capture() as captured:
        for piece in _show_question(PermissionQuestion.of(action)):
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


def test_a_gap_hides_nothing() -> None:
    """B41: blanks that would push the rest of a command off the screen are counted, not shown."""
    for blank in (" ", "\t", "\u3000", "\u2800", "\n", " \n"):
        shown = asked(ActionRequest("shell", f"ls{blank * 20_000}; rm -rf ~"))

        assert f"\n    ls[{len(blank) * 20_000:,} blank characters]; rm -rf ~\n" in shown
        assert len(shown.splitlines()) < 12


def test_ordinary_gaps_stay() -> None:
    """Indents and empty lines are shown as they are."""
    assert "\n    cat x |\n\n            sort\n" in asked(ActionRequest("shell", "cat x |\n\n        sort"))


def test_of_a_long_command_both_ends_are_shown() -> None:
    """B41: how much is missing is said where it is missing, and "always" is not offered."""
    long = PermissionQuestion.of(ActionRequest("shell", f"ls {'x' * 20_000}; rm -rf ~"))

    assert long.action.startswith("ls xxx")
    assert "\n[10,013 characters are not shown here]\n" in long.action
    assert long.action.endswith("; rm -rf ~")
    assert long.granted == ""
    assert "always" not in asked(ActionRequest("shell", "x" * (MOST_SHOWN + 5)))


def test_all_that_always_means_is_shown() -> None:
    """B41: what leave for good would cover beyond a long command is not cut off."""
    shown = asked(ActionRequest("shell", f"git status && echo {'x' * 300} && git push"))

    assert "shell:git push *" in " ".join(shown.split())
