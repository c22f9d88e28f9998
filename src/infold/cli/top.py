"""`infold top`: watch the sessions of a running gateway in the terminal.

The gateway is asked for its list of sessions every few seconds; nothing is changed there. Only the standard library speaks HTTP
here, so that the verb needs no more than the command line itself.
"""

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException, InvalidURL
from pathlib import Path
from time import monotonic, strftime
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import click
import msgspec
from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from infold.cli import options
from infold.cli.render import Bar, keep_numbers, make_table, open_console
from infold.errors import UsageError, without_secrets
from infold.reports.text import ago, dollars, one_line, printable, short_number
from infold.settings import read_settings

TIMEOUT_SECONDS = 5.0
LARGEST_ANSWER = 4 * 2**20
ACTIVE_MS = 10_000
"""A session that changed within this time is shown as active."""

PLAIN_WIDTH = 120
"""Columns if there is no terminal."""

ROOM, TWO_LINES = 100, 6
"""Rows asked for if there is no terminal, and lines of a screen that are not rows."""

FULL_SHARE, NEAR_SHARE = 0.95, 0.8
"""Shares of the usable window from which its fill is drawn in red and yellow."""

WITH_COST, WITH_CACHE, WITH_CHANGED, WITH_BAR, WITH_MODEL = 58, 72, 92, 108, 124
"""Columns of a terminal from which more of each session is shown; narrower ones leave columns out and cut no number."""

BAR_CELLS = 14


class WatchedSession(Struct, frozen=True):
    """A session as the gateway reports it."""

    id: str
    title: str = ""
    model: str = ""
    view_tokens: int = 0
    usable_tokens: int | None = None
    requests: int = 0
    compactions: int = 0
    cost: float = 0.0
    cost_is_partial: bool = False
    cached_share: float | None = None
    changed_ms: int = 0
    problem: str = ""


class SessionList(Struct, frozen=True):
    """The gateway's newest sessions, at its own time."""

    now_ms: int
    sessions: tuple[WatchedSession, ...]
    has_more: bool = False


class _Refusal(Struct, frozen=True):
    """An answer of the gateway's own that is an error."""

    error: dict[str, str | int]


class _NoGateway(UsageError):
    """No gateway of infold answers at an address."""


@click.command("top")
@click.argument("address", required=False)
@click.option(
    "--every",
    "seconds",
    type=click.FloatRange(0.2, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="Print the list once and end, as always in a pipe.")
@options.as_json
def top(address: str | None, seconds: float, *, once: bool, as_json: bool) -> None:
    """Watch the sessions of a gateway: how full each usable window is, requests, folds, cost, and the share read from the cache.

    ADDRESS is as `infold serve` prints it; by default that of your settings, http://127.0.0.1:8377. Where its pages have a token,
    set INFOLD_PAGE_TOKEN, or give an address that ends in /t/TOKEN. q ends it. Titles are the first words of each session.

    \b
    Examples:
      infold top
      infold top http://127.0.0.1:9000 --once
    """
    url = _base_url(address)
    if as_json:
        click.echo(_fetch(url, ROOM), nl=False)
        click.echo()
        return
    console = open_console(plain_width=PLAIN_WIDTH)
    if once or not console.is_terminal:
        console.print(draw_frame(_ask(url, ROOM), url, console))
        return
    _watch(console, url, seconds)


def _base_url(address: str | None) -> str:
    if address is None:
        gateway = read_settings(os.environ, Path.cwd()).gateway
        host = f"[{gateway.host}]" if ":" in gateway.host else gateway.host
        return f"http://{'127.0.0.1' if host in ('0.0.0.0', '[::]') else host}:{gateway.port}"
    given = address.strip().rstrip("/")
    return given if given.startswith(("http://", "https://")) else f"http://{given}"


# Asking the gateway.


def _ask(url: str, most: int) -> SessionList:
    """Return the gateway's newest sessions; raise `UsageError` if none answers there."""
    try:
        return msgspec.json.decode(_fetch(url, most), type=SessionList)
    except msgspec.MsgspecError as error:
        raise _not_infold(url) from error


def _fetch(url: str, most: int) -> bytes:
    token = os.environ.get("INFOLD_PAGE_TOKEN", "")
    headers = {"accept": "application/json", **({"x-infold-token": token} if token else {})}
    shown = _shown(url)
    try:
        request = Request(f"{url}/sessions.json?most={most}", headers=headers)
        with build_opener(ProxyHandler({})).open(request, timeout=TIMEOUT_SECONDS) as answer:
            content: bytes = answer.read(LARGEST_ANSWER)
            if not answer.headers.get("content-type", "").startswith("application/json"):
                raise _not_infold(url)
            return content
    except (InvalidURL, ValueError) as error:
        raise UsageError(f"not an address: {shown!r}; give one such as http://127.0.0.1:8377") from error
    except HTTPError as error:
        with error:
            refusal = _refusal_in(error.read(LARGEST_ANSWER))
        if error.code == 401:
            raise _NoGateway(
                f"the gateway at {shown} needs the token of its pages; set INFOLD_PAGE_TOKEN, or give {shown}/t/TOKEN"
            ) from error
        if error.code == 403 and refusal:
            raise _NoGateway(f"the gateway at {shown} refused: {refusal}") from error
        if error.code in (404, 405) or error.headers.get("x-infold"):  # another server, or relayed by an older gateway
            raise _not_infold(url) from error
        raise _NoGateway(f"the gateway at {shown} answered with status {error.code}; see its log") from error
    except (URLError, HTTPException, OSError) as error:
        reason = without_secrets(str(getattr(error, "reason", "") or error or type(error).__name__))
        problem = f"no gateway answers at {shown} ({reason}); start one with: infold serve"
        raise _NoGateway(f"{problem}, or give the address that it printed") from error


def _refusal_in(content: bytes) -> str:
    """Return the message of an answer of the gateway's own; empty if it is another."""
    try:
        return one_line(str(msgspec.json.decode(content, type=_Refusal).error.get("message", "")))
    except msgspec.MsgspecError:
        return ""


def _not_infold(url: str) -> _NoGateway:
    return _NoGateway(
        f"what answers at {_shown(url)} is not a gateway of this version; give the address that serve printed"
    )


def _shown(url: str) -> str:
    """Return an address without the token that may stand in it."""
    return printable(without_secrets(url.partition("/t/")[0]))


# Drawing.


def draw_frame(
    found: SessionList, url: str, console: Console, *, most: int = ROOM, problem: str = ""
) -> RenderableType:
    """Return one view of the sessions: totals, a row for each, and what is wrong if the gateway no longer answers."""
    sessions, plain = found.sessions, not console.is_terminal
    active = sum(found.now_ms - one.changed_ms < ACTIVE_MS for one in sessions)
    spent = sum(one.cost for one in sessions)
    more = "+" if found.has_more else ""
    totals = f"{len(sessions):,}{more} {'session' if len(sessions) == 1 else 'sessions'}, {active:,} active"
    head = Text.assemble(("infold top", "bold"), f"  {_shown(url)}  {totals}, {dollars(spent)}")
    lines: list[RenderableType] = [head, Text()]
    if problem:
        lines.append(Text(problem, style="bold red"))
    if not sessions:
        lines.append(Text(f"no sessions yet; point a client at {_shown(url)}/v1, and its sessions appear here"))
        return Group(*lines)
    lines.append(_table(sessions[:most], found.now_ms, console.width, plain=plain))
    if len(sessions) > most or found.has_more:
        lines.append(Text("more sessions, changed earlier, are not shown", style="dim"))
    return Group(*lines)


def _table(sessions: Sequence[WatchedSession], now_ms: int, width: int, *, plain: bool) -> Table:
    has_cost, has_cache, has_changed, has_bar, has_model = (
        width >= least for least in (WITH_COST, WITH_CACHE, WITH_CHANGED, WITH_BAR, WITH_MODEL)
    )
    table = make_table(header_style="bold", expand=True)
    table.add_column("session", ratio=1, no_wrap=True, overflow="ellipsis", min_width=12)
    if has_model:
        table.add_column("model", no_wrap=True, overflow="ellipsis", max_width=24)
    if has_bar:
        table.add_column("", width=BAR_CELLS)
    table.add_column("full", justify="right", no_wrap=True)
    if has_cost:
        table.add_column("of usable", justify="right", no_wrap=True)
    table.add_column("requests" if has_changed else "req", justify="right", no_wrap=True)
    table.add_column("folds", justify="right", no_wrap=True)
    if has_cost:
        table.add_column("cost", justify="right", no_wrap=True)
    if has_cache:
        table.add_column("cached", justify="right", no_wrap=True)
    if has_changed:
        table.add_column("changed", justify="right", no_wrap=True)
    for one in sessions:
        is_active = now_ms - one.changed_ms < ACTIVE_MS
        share = one.view_tokens / one.usable_tokens if one.usable_tokens else None
        name = Text(
            one_line(one.problem or one.title or one.id), style="red" if one.problem else "bold" if is_active else ""
        )
        cells: list[RenderableType] = [name]
        cells += [Text(one_line(one.model))] if has_model else []
        cells += [Bar(min(1.0, share or 0.0), width=BAR_CELLS, colour=_colour(share), plain=plain)] if has_bar else []
        cells.append(Text("" if share is None else f"{share:.0%}", style=_colour(share)))
        cells += [Text(_fill(one))] if has_cost else []
        cells += [Text(f"{one.requests:,}"), Text(str(one.compactions))]
        cells += [Text(f"{'≥' if one.cost_is_partial else ''}{dollars(one.cost)}")] if has_cost else []
        if has_cache:
            cached = "" if one.cached_share is None else f"{one.cached_share:.0%}"
            cells.append(Text(cached))
        cells += [Text(ago(one.changed_ms, now_ms))] if has_changed else []
        table.add_row(*cells)
    return keep_numbers(table)


def _fill(one: WatchedSession) -> str:
    of = f" of {short_number(one.usable_tokens)}" if one.usable_tokens else ""
    return f"{short_number(one.view_tokens)}{of}"


def _colour(share: float | None) -> str:
    if share is None or share < NEAR_SHARE:
        return "green"
    return "red" if share >= FULL_SHARE else "yellow"


# Watching.


def _watch(console: Console, url: str, seconds: float) -> None:
    """Draw the list again and again until q is pressed; a gateway that stops answering is reported and asked again."""
    found, problem = _ask(url, _rows(console)), ""
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            most = _rows(console)
            foot = Text(f"\n{strftime('%H:%M:%S')}  q ends", style="dim")
            live.update(Group(draw_frame(found, url, console, most=most, problem=problem), foot), refresh=True)
            if pressed(seconds):
                return
            try:
                found, problem = _ask(url, _rows(console)), ""
            except UsageError as error:
                problem = one_line(str(error))


def _rows(console: Console) -> int:
    return max(1, min(ROOM, console.height - TWO_LINES))


@contextmanager
def _keys() -> Iterator["_Pressed"]:
    """Read single keys while the block runs; without a terminal to read from, only an interrupt ends the verb."""
    if not options.can_ask(sys.stdin):
        yield _Pressed(None)
        return
    source = sys.stdin.fileno()
    before = termios.tcgetattr(source)
    try:
        tty.setcbreak(source)
        yield _Pressed(source)
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, before)


class _Pressed:
    """Waits for a key that ends the verb."""

    def __init__(self, source: int | None) -> None:
        self._source = source

    def __call__(self, seconds: float) -> bool:
        """Whether q was pressed, or the input ended, within so many seconds."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            ready, _, _ = select.select([] if self._source is None else [self._source], [], [], left)
            if (
                ready
                and self._source is not None
                and os.read(self._source, 32).lower() in (b"q", b"\x1b", b"\x04", b"")
            ):
                return True
        return False
