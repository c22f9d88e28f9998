"""Lines that are commands are told from lines that are said."""

import pytest

from infold.cli.chat.commands import COMMANDS, Order, order_in
from infold.errors import UsageError


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("/compact", Order("compact")),
        ("  /Compact  the string \n and the tail ", Order("compact", "the string \n and the tail")),
        ("/pin 12.0", Order("pin", "12.0")),
        ("/exit please", Order("quit", "please")),
        ("/clear", Order("new")),
    ],
)
def test_a_command_has_a_name_and_a_rest(line: str, order: Order) -> None:
    """What stands after the name is taken as it is, but for the space around it."""
    assert order_in(line) == order


@pytest.mark.parametrize("line", ["compact this", "/etc/hosts says what?", "/", "/ compact", "//compact", "/2"])
def test_other_lines_are_said(line: str) -> None:
    """A path at the beginning is no command."""
    assert order_in(line) is None


@pytest.mark.parametrize(
    ("line", "meant"), [("/compat", "/compact?"), ("/ctx", "/context?"), ("/undu", "/undo?"), ("/unpinn x", "/unpin?")]
)
def test_a_slip_is_told_the_nearest(line: str, meant: str) -> None:
    """A command that does not exist is refused with the one that was meant."""
    with pytest.raises(UsageError, match=meant.replace("?", r"\?")):
        order_in(line)


def test_nonsense_is_told_where_to_look() -> None:
    """Where nothing is near, the help is named."""
    with pytest.raises(UsageError, match="no command /xyzzy; /help lists all"):
        order_in("/xyzzy")


def test_commands_say_what_they_do() -> None:
    """Each has its own name and a line of help."""
    assert all(name == command.name and command.does for name, command in COMMANDS.items())
