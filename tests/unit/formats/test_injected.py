"""What harnesses inject under the user's role."""

import pytest

from infold.formats.injected import OPENINGS, WRAPPERS, is_injected, split_injected

REMINDER = "<system-reminder>\nBe brief.\n</system-reminder>"


@pytest.mark.parametrize("name", [name for names in WRAPPERS.values() for name in names])
def test_every_known_wrapper_is_recognised(name: str) -> None:
    """A text that one known wrapper encloses is injected."""
    assert is_injected(f"\n <{name}>\nsome text\n</{name}>\n")


@pytest.mark.parametrize("opening", OPENINGS)
def test_every_known_opening_is_recognised(opening: str) -> None:
    """A text that begins with a known phrase is injected to its end."""
    text = f"{opening} and more"
    assert is_injected(text)
    assert [piece.injected for piece in split_injected(text)] == [True]


@pytest.mark.parametrize(
    "text", ["", "  ", "fix it", "<div>x</div>", "what does <system-reminder> do?", f"see {REMINDER}"]
)
def test_a_users_own_text_is_not_injected(text: str) -> None:
    """Markup, blanks and talk about wrappers are the user's."""
    assert not is_injected(text)


def test_text_beside_a_wrapper_stays_the_users() -> None:
    """A reminder below a request is split off, and the pieces joined are the text."""
    text = f"Fix the test.\n\n{REMINDER}\n"

    pieces = split_injected(text)

    assert [(piece.text, piece.injected) for piece in pieces] == [("Fix the test.\n\n", False), (f"{REMINDER}\n", True)]
    assert not is_injected(text)


def test_a_commands_arguments_are_the_users() -> None:
    """What the user typed after a slash command is kept as the user's words; an empty field is not."""
    assert is_injected("<command-name>/init</command-name>\n   <command-args></command-args>")
    typed = split_injected("<command-name>/goal</command-name>\n<command-args>ship it</command-args>")
    assert [piece.injected for piece in typed] == [True, False]


def test_a_clipped_wrapper_counts_at_the_beginning_only() -> None:
    """A wrapper that never closes is injected where the text begins with it, else the user's."""
    assert is_injected("<environment_context>\n  <cwd>/work")
    assert not is_injected("Look:\n<environment_context>\n  <cwd>/work")


def test_wrappers_may_follow_one_another_on_a_line() -> None:
    """Neighbours need no line of their own."""
    assert is_injected("<bash-stdout>ok</bash-stdout><bash-stderr></bash-stderr>")


def test_attributes_do_not_hide_a_wrapper() -> None:
    """A tag with attributes is the same tag."""
    assert is_injected('<ide_selection path="a.py" lines="1-2">x</ide_selection>')


def test_hostile_text_takes_linear_time() -> None:
    """Thousands of wrappers that never close are read in one pass."""
    assert not is_injected("x" + "\n<skill>" * 20_000)
