"""The pages of a chat: what fills the window, and where a session stands."""

import io
import re

import pytest
from msgspec.structs import replace
from rich.console import Console, RenderableType

from infold.cli.chat.commands import COMMANDS
from infold.cli.chat.pages import LastTurn, context_page, help_page, last_turn, turn_page
from infold.core.entries import Checkpoint, Handle, Pin
from infold.core.log import Log
from infold.core.messages import Message, Overhead
from infold.reports.contents import ViewContents, view_contents
from infold.testing.builders import calls, replies, result, session, user

KITE = (user("Paint the kite."), calls("bash"), result(400), replies("Painted.", reasoning="red, I think"))


def printed(*pieces: RenderableType, width: int = 80) -> str:
    """Pieces as a console without colours shows them."""
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False, highlight=False)
    with console.capture() as captured:
        for piece in pieces:
            console.print(piece)
    return captured.get()


def contents_of(log: Log, overhead: Overhead, **sizes: int) -> ViewContents:
    """What fills the window of a session, with its five largest parts."""
    return view_contents(log, overhead, most_parts=5, **sizes)


def test_the_chart_adds_up_to_the_gauge() -> None:
    """Categories share out the counted tokens, system prompt and tools included, and the rest is free or kept in reserve."""
    contents = contents_of(session(*KITE), Overhead(100, 300), tokens=2_000, limit_tokens=8_000, window_tokens=10_000)

    assert abs(contents.total_tokens - 2_000) <= len(contents.tokens)
    assert set(contents.tokens) == {"system", "tools", "user", "assistant", "reasoning", "calls", "results"}
    assert contents.free_tokens == 8_000 - contents.total_tokens
    assert (contents.largest[0].handle, contents.largest[0].what) == ("2.0", "bash result")


def test_the_page_names_everything() -> None:
    """Each category has its row, what is free and the reserve too, and the largest parts have handles; pins are marked."""
    log = session(*KITE).append(Pin(Handle("2.0")))
    contents = contents_of(log, Overhead(100, 300), tokens=2_000, limit_tokens=8_000, window_tokens=10_000)
    page = printed(*context_page(contents, width=80, plain=True))

    assert "The next request: 2k tokens of 8k that may be sent" in page
    assert all(name in page for name in (*contents.tokens, "free", "reserve", "2.0     bash result, pinned"))
    assert max(map(len, page.splitlines())) <= 80


@pytest.mark.parametrize("width", [36, 40])
def test_numbers_outlast_bars(width: int) -> None:
    """In a narrow terminal every row has its mark, its tokens and its share, and the largest parts their handles and pins."""
    log = session(*KITE).append(Pin(Handle("2.0")))
    contents = contents_of(log, Overhead(1_000, 300), tokens=27_000, limit_tokens=880_000, window_tokens=1_000_000)
    page = printed(*context_page(contents, width=width, plain=True), width=width)

    rows = re.findall(r"^ ([a-z.-])  (\w+) +#* +[\d.]+k? +\d+% *$", page, re.MULTILINE)
    assert [name for _, name in rows] == [*contents.tokens, "free", "reserve"]
    assert re.search(r"^ 2\.0 +bash r, pinned +[\d.]+k ", page, re.MULTILINE)
    assert max(map(len, page.splitlines())) <= width


def test_a_window_without_a_limit_has_no_rest() -> None:
    """Where nothing is known of a limit, nothing is said to be free."""
    contents = contents_of(session(*KITE), Overhead(), tokens=500, limit_tokens=0, window_tokens=0)

    assert "free" not in printed(*context_page(contents, width=60, plain=False))


def test_a_folded_head_is_a_summary() -> None:
    """What stands for folded messages is shown as such."""
    log = session(*KITE, user("And the string?")).append(Checkpoint("A red kite was wanted.", first_kept=4))
    contents = contents_of(log, Overhead(), tokens=100, limit_tokens=1_000, window_tokens=1_000)

    assert set(contents.tokens) == {"summary", "user"}


@pytest.mark.parametrize(
    ("said", "exchange"),
    [
        ((), None),
        ((user("Hello"),), LastTurn("Hello", 0, "", is_complete=False)),
        ((user("Hello"), replies("Hi")), LastTurn("Hello", 0, "Hi", is_complete=True)),
        ((user("Old"), replies("Old"), *KITE), LastTurn("Paint the kite.", 1, "Painted.", is_complete=True)),
        (KITE[:2], LastTurn("Paint the kite.", 1, "", is_complete=False)),
        (KITE[:3], LastTurn("Paint the kite.", 1, "", is_complete=False)),
        ((user("Hello"), replies("Hi", finish="abort")), LastTurn("Hello", 0, "Hi", is_complete=False)),
        ((user("Hello"), user("injected", synthetic=True)), LastTurn("Hello", 0, "", is_complete=False)),
    ],
)
def test_the_last_exchange_is_found(said: tuple[Message, ...], exchange: LastTurn | None) -> None:
    """It begins with what a person said last; it is whole if a reply ended it that neither calls nor was broken off."""
    assert last_turn(session(*said)) == exchange


def test_a_folded_request_is_not_made_up() -> None:
    """Where a compaction folded what was asked, only what followed is shown."""
    log: Log = session(*KITE).append(Checkpoint("A red kite.", first_kept=3))

    assert last_turn(log) == LastTurn("", 0, "Painted.", is_complete=True)


def test_an_exchange_is_shown_short() -> None:
    """Long texts end with an ellipsis, calls are counted, and a turn that was broken off says how to go on."""
    whole = LastTurn("Paint\x1b it.", 3, "Painted. " * 900, is_complete=True)
    page = printed(*turn_page(whole, "> "))

    assert page.startswith("> Paint? it.\n(3 tool calls)\nPainted. Painted.")
    assert page.rstrip().endswith("…")
    assert "broken off" not in page
    assert "/continue" in printed(*turn_page(replace(whole, is_complete=False), "> "))


def test_help_names_every_command() -> None:
    """Each command and the keys that matter are listed."""
    page = printed(help_page())

    assert all(f"/{name}" in page for name in COMMANDS)
    assert "Ctrl-C" in page
