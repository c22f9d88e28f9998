"""What is drawn is printable, and says what it was given."""

import pytest
from rich.console import Console
from rich.table import Column, Table

from infold.cli.render import Bar, titled, window_bar
from infold.reports.text import dollars, moment, one_line, plural, printable


@pytest.mark.parametrize(("share", "drawn"), [(0.0, ""), (0.001, "#"), (0.5, "#####"), (1.0, "##########")])
def test_a_bar_is_as_long_as_its_share(share: float, drawn: str) -> None:
    """Nothing is no bar, and what is not nothing is seen."""
    assert Bar(share, width=10, colour="red", plain=True).draw(10).plain == drawn


def test_a_bar_in_a_terminal_has_finer_steps() -> None:
    """Eighths of a cell are drawn."""
    assert Bar(0.05, width=10, colour="red", plain=False).draw(10).plain == "▌"


@pytest.mark.parametrize("width", [28, 40, 60, 100])
def test_numbers_stay_whole_in_a_narrow_terminal(width: int) -> None:
    """Bars get shorter and keep their proportions; no number and no heading of numbers is cut."""
    table = Table("category", Column("", no_wrap=True), Column("tokens", justify="right", no_wrap=True), box=None)
    for name, tokens in (("results", 128_000), ("reasoning", 64_000)):
        table.add_row(name, Bar(tokens / 128_000, width=30, colour="red", plain=True), f"{tokens:,}")
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(titled("Sizes", table))
    _, title, *lines = captured.get().splitlines()

    assert title == "Sizes"
    assert [line.split()[-1] for line in lines if line.strip()] == ["tokens", "128,000", "64,000"]
    assert all(len(line) <= width for line in lines)
    assert lines[1].count("#") in (2 * lines[2].count("#"), 2 * lines[2].count("#") - 1)


def test_a_bar_is_never_wider_than_asked() -> None:
    """More than the window holds fills it and no more."""
    tokens = {"user": 50, "results": 500}

    assert window_bar(tokens, window=100, limit=100, width=10, plain=True).plain == "uuuuurrrrr"


def test_controls_become_question_marks() -> None:
    """Escape sequences and direction marks are shown, not obeyed; line breaks stay."""
    assert printable("a\x1b[31mb\nc\td\u202e") == "a?[31mb\nc d?"


def test_one_line_is_one_line() -> None:
    """Breaks become spaces, and no more is shown than asked for."""
    assert one_line("  a\n\n b " + "c" * 900, 6) == "a b cc"


def test_small_words() -> None:
    """Counts, prices and times as people write them."""
    assert (plural(1, "turn"), plural(2_000, "turn")) == ("1 turn", "2,000 turns")
    assert (dollars(0.00123), dollars(1_234.5)) == ("$0.0012", "$1,234.50")
    assert (moment(None), moment(1_767_607_201_000)) == ("", "2026-01-05 10:00")
