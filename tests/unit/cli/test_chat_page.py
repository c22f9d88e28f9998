"""The pages of a chat: what fills the window, and where a session stands."""

import io
import re

import pytest
from msgspec.structs import replace
from rich.console import Console, RenderableType

from infold.cli.chat.commands import COMMANDS
from infold.cli.chat.pages import Exchange, context_page, exchange_page, fill_of, help_page, last_exchange
from infold.core.entries import Checkpoint, Handle, Pin
from infold.core.log import Log
from infold.core.messages import Message, Overhead
from infold.testing.builders import calls, replies, result, session, user

KITE = (user("Paint the kite."), calls("bash"), result(400), replies("Painted.", reasoning="red, I think"))


def printed(*pieces: RenderableType, width: int = 80) -> str:
    """Pieces as a console without colours shows them."""
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False, highlight=False)
    with console.capture() as captured:
        for piece in pieces:
            console.print(piece)
    return captured.get()


def test_the_chart_adds_up_to_the_gauge() -> None:
    """Categories share out the counted tokens, system prompt and tools included, and the rest is free or kept in reserve."""
    fill = fill_of(session(*KITE), Overhead(100, 300), tokens=2_000, limit_tokens=8_000, window_tokens=10_000)

    assert abs(fill.sum_tokens - 2_000) <= len(fill.tokens)
    assert set(fill.tokens) == {"system", "tools", "user", "assistant", "reasoning", "calls", "results"}
    assert fill.free_tokens == 8_000 - fill.sum_tokens
    assert (fill.largest[0].handle, fill.largest[0].what) == ("2.0", "bash result")


def test_the_page_names_everything() -> None:
    """Each category has its row, what is free and the reserve too, and the largest parts have handles; pins are marked."""
    log = session(*KITE).append(Pin(Handle("2.0")))
    fill = fill_of(log, Overhead(100, 300), tokens=2_000, limit_tokens=8_000, window_tokens=10_000)
    page = printed(*context_page(fill, width=80, plain=True))

    assert "The next request: 2.0k tokens of 8.0k that may be sent" in page
    assert all(name in page for name in (*fill.tokens, "free", "reserve", "2.0     bash result, pinned"))
    assert max(map(len, page.splitlines())) <= 80


@pytest.mark.parametrize("width", [36, 40])
def test_numbers_outlast_bars(width: int) -> None:
    """In a narrow terminal every row has its mark, its tokens and its share, and the largest parts their handles and pins."""
    log = session(*KITE).append(Pin(Handle("2.0")))
    fill = fill_of(log, Overhead(1_000, 300), tokens=27_000, limit_tokens=880_000, window_tokens=1_000_000)
    page = printed(*context_page(fill, width=width, plain=True), width=width)

    rows = re.findall(r"^ ([a-z.-])  (\w+) +#* +[\d.]+k? +\d+% *$", page, re.MULTILINE)
    assert [name for _, name in rows] == [*fill.tokens, "free", "reserve"]
    assert re.search(r"^ 2\.0 +bash r, pinned +[\d.]+k ", page, re.MULTILINE)
    assert max(map(len, page.splitlines())) <= width


def test_a_window_without_a_limit_has_no_rest() -> None:
    """Where nothing is known of a limit, nothing is said to be free."""
    fill = fill_of(session(*KITE), Overhead(), tokens=500, limit_tokens=0, window_tokens=0)

    assert "free" not in printed(*context_page(fill, width=60, plain=False))


def test_a_folded_head_is_a_summary() -> None:
    """What stands for folded messages is shown as such."""
    log = session(*KITE, user("And the string?")).append(Checkpoint("A red kite was wanted.", first_kept=4))
    fill = fill_of(log, Overhead(), tokens=100, limit_tokens=1_000, window_tokens=1_000)

    assert set(fill.tokens) == {"summary", "user"}


@pytest.mark.parametrize(
    ("said", "exchange"),
    [
        ((), None),
        ((user("Hello"),), Exchange("Hello", 0, "", is_whole=False)),
        ((user("Hello"), replies("Hi")), Exchange("Hello", 0, "Hi", is_whole=True)),
        ((user("Old"), replies("Old"), *KITE), Exchange("Paint the kite.", 1, "Painted.", is_whole=True)),
        (KITE[:2], Exchange("Paint the kite.", 1, "", is_whole=False)),
        (KITE[:3], Exchange("Paint the kite.", 1, "", is_whole=False)),
        ((user("Hello"), replies("Hi", finish="abort")), Exchange("Hello", 0, "Hi", is_whole=False)),
        ((user("Hello"), user("injected", synthetic=True)), Exchange("Hello", 0, "", is_whole=False)),
    ],
)
def test_the_last_exchange_is_found(said: tuple[Message, ...], exchange: Exchange | None) -> None:
    """It begins with what a person said last; it is whole if a reply ended it that neither calls nor was broken off."""
    assert last_exchange(session(*said)) == exchange


def test_a_folded_request_is_not_made_up() -> None:
    """Where a compaction folded what was asked, only what followed is shown."""
    log: Log = session(*KITE).append(Checkpoint("A red kite.", first_kept=3))

    assert last_exchange(log) == Exchange("", 0, "Painted.", is_whole=True)


def test_an_exchange_is_shown_short() -> None:
    """Long texts end with an ellipsis, calls are counted, and a turn that was broken off says how to go on."""
    whole = Exchange("Paint\x1b it.", 3, "Painted. " * 900, is_whole=True)
    page = printed(*exchange_page(whole, "> "))

    assert page.startswith("> Paint? it.\n(3 tool calls)\nPainted. Painted.")
    assert page.rstrip().endswith("…")
    assert "broken off" not in page
    assert "/continue" in printed(*exchange_page(replace(whole, is_whole=False), "> "))


def test_help_names_every_command() -> None:
    """Each command and the keys that matter are listed."""
    page = printed(help_page())

    assert all(f"/{name}" in page for name in COMMANDS)
    assert "Ctrl-C" in page
