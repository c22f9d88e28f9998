"""The status line tells what matters, in whatever room there is."""

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from infold.cli.chat.status import Status, status_pieces

FULL = Status(
    model="claude-sonnet-4-5-20250929",
    session_id="20260105-0123abcd",
    tokens=46_200,
    limit_tokens=170_000,
    cost=1.5,
    cached_share=0.87,
    compactions=2,
)


def line(status: Status, width: int = 200, *, ascii_only: bool = False) -> str:
    """The line as it reads."""
    return "".join(piece.text for piece in status_pieces(status, width, ascii_only=ascii_only))


def test_everything_is_told_where_there_is_room() -> None:
    """Model, session, gauge, cost, cache hits and compactions stand in a line."""
    assert line(FULL) == (
        "claude-sonnet-4-5-20250929  20260105-0123abcd  ███░░░░░░░░░  46.2k of 170k  $1.50  cache 87%  2 compactions"
    )


def test_no_line_is_too_wide() -> None:
    """The line fits whatever the width, and the gauge is the last to go."""
    shown = [line(FULL, width) for width in range(121)]

    assert all(cell_len(text) <= width for width, text in enumerate(shown))
    assert [width for width, text in enumerate(shown) if "46.2k of 170k" in text] == list(range(21, 121))


def test_eighty_columns_hold_what_matters() -> None:
    """In an ordinary terminal nothing but the end of a long name is missing."""
    assert line(FULL, 79) == "claude-sonnet-4-  20260105-0123abcd  ██░░░░  46.2k of 170k  $1.50  2 folded"
    assert line(replace(FULL, model="gpt-5"), 79).endswith("$1.50  cache 87%  2 folded")


@pytest.mark.parametrize(("tokens", "colour"), [(0, "green"), (119_000, "yellow"), (153_000, "red"), (999_000, "red")])
def test_the_gauge_warns(tokens: int, colour: str) -> None:
    """It turns yellow and red as the window fills, and is never longer than its frame."""
    gauge = status_pieces(replace(FULL, tokens=tokens), 200)[2]

    assert gauge.colour == colour
    assert len(gauge.text.strip()) == 12


def test_what_is_not_known_is_left_out() -> None:
    """A session without cost, reports and compactions says nothing of them; one without a limit has no gauge."""
    assert line(Status("m", "s", tokens=10, limit_tokens=100)) == "m  s  █░░░░░░░░░░░  10 of 100"
    assert line(Status("m", "s", tokens=10)) == "m  s  10 tokens"


def test_plain_consoles_get_plain_signs() -> None:
    """Where the encoding has no blocks, the gauge is drawn with signs it has; names cannot command the terminal."""
    assert line(Status("m\x1b", "s", tokens=50, limit_tokens=100), ascii_only=True) == "m?  s  ######......  50 of 100"
