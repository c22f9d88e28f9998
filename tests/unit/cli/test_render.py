"""What is drawn is legible, and says what it was given."""

import pytest

from infold.cli.render import bar, counted, dollars, legible, moment, one_line, stacked


@pytest.mark.parametrize(("share", "drawn"), [(0.0, ""), (0.001, "#"), (0.5, "#####"), (1.0, "##########")])
def test_a_bar_is_as_long_as_its_share(share: float, drawn: str) -> None:
    """Nothing is no bar, and what is not nothing is seen."""
    assert bar(share, width=10, colour="red", plain=True).plain == drawn


def test_a_bar_in_a_terminal_has_finer_steps() -> None:
    """Eighths of a cell are drawn."""
    assert bar(0.05, width=10, colour="red", plain=False).plain == "▌"


def test_a_stack_is_never_wider_than_asked() -> None:
    """More than the window holds fills it and no more."""
    assert stacked({"user": 50, "results": 500}, whole=100, width=10, plain=True).plain == "uuuuurrrrr"


def test_controls_become_question_marks() -> None:
    """Escape sequences and direction marks are shown, not obeyed; line breaks stay."""
    assert legible("a\x1b[31mb\nc\td\u202e") == "a?[31mb\nc d?"


def test_one_line_is_one_line() -> None:
    """Breaks become spaces, and no more is shown than asked for."""
    assert one_line("  a\n\n b " + "c" * 900, 6) == "a b cc"


def test_small_words() -> None:
    """Counts, prices and times as people write them."""
    assert (counted(1, "turn"), counted(2_000, "turn")) == ("1 turn", "2,000 turns")
    assert (dollars(0.00123), dollars(1_234.5)) == ("$0.0012", "$1,234.50")
    assert (moment(None), moment(1_767_607_201_000)) == ("", "2026-01-05 10:00")
