"""What harnesses inject under the user's role."""

import pytest

from infold.formats.harness_text import OPENINGS, WRAPPERS, announces_text, split_injected

def all_injected(text: str) -> bool:
    """Whether a harness wrote all of this text."""
    return all(piece.injected for piece in split_injected(text))


REMINDER = "<system-reminder>\nBe brief.\n</system-reminder>"


@pytest.mark.parametrize("name", [name for names in WRAPPERS.values() for name in names])
def test_every_known_wrapper_is_recognised(name: str) -> None:
    """A text that one known wrapper encloses is injected."""
    assert all_injected(f"\n <{name}>\nsome text\n</{name}>\n")


@pytest.mark.parametrize("opening", OPENINGS)
def test_every_known_opening_is_recognised(opening: str) -> None:
    """A text that begins with a known phrase is injected to its end."""
    text = f"{opening} and more"
    assert all_injected(text)
    assert [piece.injected for piece in split_injected(text)] == [True]


@pytest.mark.parametrize(
    "text", ["", "  ", "fix it", "<div>x</div>", "what does <system-reminder> do?", f"see {REMINDER}"]
)
def test_a_users_own_text_is_not_injected(text: str) -> None:
    """Markup, blanks and talk about wrappers are the user's."""
    assert not all_injected(text)


def test_text_beside_a_wrapper_stays_the_users() -> None:
    """A reminder below a request is split off, and the pieces joined are the text."""
    text = f"Fix the test.\n\n{REMINDER}\n"

    pieces = split_injected(text)

    assert [(piece.text, piece.injected) for piece in pieces] == [("Fix the test.\n\n", False), (f"{REMINDER}\n", True)]
    assert not all_injected(text)


def users(text: str) -> list[str]:
    """What of a text is the user's, after holding the pieces against the text."""
    pieces = split_injected(text)
    assert "".join(piece.text for piece in pieces) == text
    return [piece.text for piece in pieces if not piece.injected]


def test_a_commands_arguments_are_the_users() -> None:
    """What the user typed after a slash command is kept as the user's words, without its tags; an empty field is not."""
    assert all_injected("<command-name>/init</command-name>\n   <command-args></command-args>")
    assert users("<command-name>/goal</command-name>\n<command-args>ship it</command-args>") == ["ship it"]


@pytest.mark.parametrize("name", ["model", "plugin", "clear", "compact", "config", "login"])
def test_the_arguments_of_a_local_command_are_no_request(name: str) -> None:
    """A command that the agent carries out itself asks the model for nothing."""
    told = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"
    assert all_injected(f"{told}\n<command-args>opus</command-args>")


def test_what_a_command_stands_for_all_injected() -> None:
    """Text below a slash command is the command's to its end, whatever tags it holds; the arguments stay the user's."""
    command = "<command-message>pr</command-message>\n<command-name>/pr</command-name>"
    expansion = f"\n\n## Context\n\n{REMINDER}\n\nYou MUST do all of the above."
    assert users(command + expansion) == []
    assert users(f"{REMINDER}\n{command}\n<command-args>for #3</command-args>{expansion}") == ["for #3"]


@pytest.mark.parametrize(
    "command",
    [
        "<command-name>/model</command-name>\n<command-args>opus</command-args>",
        "<command-name>/own</command-name>\n<local-command-stdout>done</local-command-stdout>",
    ],
)
def test_what_is_said_after_a_local_command_is_the_users(command: str) -> None:
    """A command that was carried out stands for no text, so what follows was typed."""
    assert users(f"{command}\n\nNow fix it.") == ["\n\nNow fix it."]
    assert not announces_text(command)


def test_a_command_in_a_users_text_stands_for_nothing() -> None:
    """A user may quote a command and go on."""
    text = "What is this?\n<command-name>/pr</command-name>\nIt came by mail."
    assert users(text) == ["What is this?\n", "\nIt came by mail."]


def test_a_command_alone_announces_its_text() -> None:
    """What a command stands for comes next only where it is not there yet."""
    command = "<command-name>/pr</command-name>\n<command-args>for #3</command-args>\n"
    assert announces_text(command)
    assert not announces_text(f"{command}\n## Context")
    assert not announces_text("pr")


def test_lines_right_below_a_notification_are_the_harnesses() -> None:
    """A notification goes with the lines that touch it; after a blank line, and in the next wrapper, others speak."""
    notification = (
        "<task-notification>\n<result>a\n\nb</result>\n</task-notification>\nFull transcript available at: /tmp/a"
    )
    assert all_injected(notification)
    assert all_injected(f"{notification}\n{notification}\n")
    assert users(f"{notification}\n\nGo on.") == ["\n\nGo on."]


def test_arguments_never_closed_are_the_users() -> None:
    """A clipped field of arguments is no wrapper."""
    assert users("<command-args>ship it") == ["<command-args>ship it"]


def test_a_clipped_wrapper_counts_at_the_beginning_only() -> None:
    """A wrapper that never closes is injected where the text begins with it, else the user's."""
    assert all_injected("<environment_context>\n  <cwd>/work")
    assert not all_injected("Look:\n<environment_context>\n  <cwd>/work")


def test_wrappers_may_follow_one_another_on_a_line() -> None:
    """Neighbours need no line of their own."""
    assert all_injected("<bash-stdout>ok</bash-stdout><bash-stderr></bash-stderr>")


def test_attributes_do_not_hide_a_wrapper() -> None:
    """A tag with attributes is the same tag."""
    assert all_injected('<ide_selection path="a.py" lines="1-2">x</ide_selection>')


def test_hostile_text_takes_linear_time() -> None:
    """Thousands of wrappers that never close are read in one pass."""
    assert not all_injected("x" + "\n<skill>" * 20_000)


@pytest.mark.parametrize("name", ["command-name", "command-args", "task-notification"])
def test_hostile_commands_take_linear_time(name: str) -> None:
    """Thousands of commands, their arguments and notifications are read in one pass too."""
    split_injected(f"<{name}>x</{name}>\nline\n" * 10_000)
