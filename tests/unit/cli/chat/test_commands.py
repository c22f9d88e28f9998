"""Lines that are commands are told from lines that are said."""

import pytest

from infold.cli.chat.commands import COMMANDS, GivenCommand, parse_command
from infold.errors import UsageError


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("/compact", GivenCommand("compact")),
        ("  /Compact  the string \n and the tail ", GivenCommand("compact", "the string \n and the tail")),
        ("/pin 12.0", GivenCommand("pin", "12.0")),
        ("/exit please", GivenCommand("quit", "please")),
        ("/clear", GivenCommand("new")),
    ],
)
def test_a_command_has_a_name_and_a_rest(line: str, order: GivenCommand) -> None:
    """What stands after the name is taken as it is, but for the space around it."""
    assert parse_command(line) == order


@pytest.mark.parametrize("line", ["compact this", "/etc/hosts says what?", "/", "/ compact", "//compact", "/2"])
def test_other_lines_are_said(line: str) -> None:
    """A path at the beginning is no command."""
    assert parse_command(line) is None


@pytest.mark.parametrize(
    ("line", "meant"), [("/compat", "/compact?"), ("/ctx", "/context?"), ("/undu", "/undo?"), ("/unpinn x", "/unpin?")]
)
def test_a_slip_is_told_the_nearest(line: str, meant: str) -> None:
    """A command that does not exist is refused with the one that was meant."""
    with pytest.raises(UsageError, match=meant.replace("?", r"\?")):
        parse_command(line)


def test_nonsense_is_told_where_to_look() -> None:
    """Where nothing is near, the help is named."""
    with pytest.raises(UsageError, match="unknown command /xyzzy; /help lists all"):
        parse_command("/xyzzy")


def test_commands_say_what_they_do() -> None:
    """Each has its own name and a line of help."""
    assert all(name == command.name and command.does for name, command in COMMANDS.items())
