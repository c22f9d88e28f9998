"""How `infold inspect` looks: a bar of the window, charts by category, turn and tool, and what the record says of itself."""

from collections.abc import Iterable, Iterator
from heapq import nlargest

from msgspec import Struct
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from infold.catalogue import Assumed
from infold.cli.filling import Filling, size_of_session, standing_from
from infold.cli.opening import Recording
from infold.cli.render import (
    CATEGORIES,
    Bar,
    counted,
    dollars,
    heading,
    legend,
    legible,
    moment,
    narrowable,
    one_line,
    stacked,
    thousands,
)
from infold.cli.yardstick import Yardstick
from infold.transcripts.record import RecordedCompaction, RecordedSession

BAR_CELLS = 30
MOST_ROWS = 10
"""Rows of a table by turn, tool or session; JSON has them all."""


class Inspection(Struct, frozen=True):
    """One session of one file, measured."""

    recording: Recording
    session: RecordedSession
    yardstick: Yardstick
    filling: Filling


def show_inspection(console: Console, inspection: Inspection, *, plain: bool) -> None:
    """Print the page of one file."""
    console.rule(legible(str(inspection.recording.path)), characters="-" if plain else "─", style="bold")
    for piece in _pieces(inspection, width=console.width, plain=plain):
        console.print(piece)


def _pieces(inspection: Inspection, *, width: int, plain: bool) -> Iterator[RenderableType]:
    filling, session = inspection.filling, inspection.session
    yield from _facts(inspection)
    yield from _window(inspection, width=width, plain=plain)
    yield from _categories(inspection, plain=plain)
    yield from _turns(filling, plain=plain)
    yield from _tools(filling, plain=plain)
    yield from _largest(filling)
    yield from _recorded(session, filling)
    yield from _others(inspection)


# What it is.


def _facts(inspection: Inspection) -> Iterator[RenderableType]:
    session, filling = inspection.session, inspection.filling
    turns = sum(turn.number > 0 for turn in filling.turns)
    said = f"{counted(filling.messages, 'message')} in {counted(turns, 'turn')}"
    yield Text(f"{inspection.recording.format} session {legible(session.id)}")
    yield Text(f"{said}{_span(session)}")
    yield Text(_measure(inspection.yardstick, session))
    if not session.system and not filling.whole["system"]:
        yield Text("the system prompt is not in the record, so it is not counted", style="dim")


def _span(session: RecordedSession) -> str:
    times = [message.created_ms for message in session.messages if message.created_ms is not None]
    return f", {moment(min(times))} to {moment(max(times))} UTC" if times else ""


def _measure(yardstick: Yardstick, session: RecordedSession) -> str:
    counting = yardstick.counting
    counted_by = (
        "counted exactly"
        if counting.is_exact
        else f"estimated, the provider may count up to {counting.margin:g} times as many"
    )
    if yardstick.model is None:
        recorded = (
            f"model {legible(session.model.id)} is not in the catalogue" if session.model else "no model recorded"
        )
        hint = "" if yardstick.window_tokens else "; name one with --model, or a --window"
        return f"{recorded}{hint}; tokens {counted_by}"
    if isinstance(yardstick.model, Assumed):
        return f"{yardstick.model.reason}; tokens {counted_by}"
    return f"model {yardstick.model.entry.name}; tokens {counted_by}"


def _window(inspection: Inspection, *, width: int, plain: bool) -> Iterator[RenderableType]:
    window, filling = inspection.yardstick.window_tokens, inspection.filling
    if not window:
        return
    cells = min(80, width - 2)
    drawn = stacked(filling.now, whole=max(window, filling.now_tokens), width=cells, plain=plain)
    drawn.append(("." if plain else "·") * (cells - len(drawn)), style="dim")
    share = filling.now_tokens / window
    full = f"{share:.0%} of" if share <= 1 else f"{share:.1f} times"
    told = f"; the provider last reported {thousands(filling.usage.newest_context_tokens)}" if filling.usage else ""
    yield heading(f"The window: {thousands(filling.now_tokens)} tokens, {full} its {thousands(window)}{told}")
    yield drawn
    yield legend(plain=plain, shown=[name for name in CATEGORIES if filling.now.get(name)])


# Charts.


def _categories(inspection: Inspection, *, plain: bool) -> Iterator[RenderableType]:
    filling = inspection.filling
    compacted = standing_from(inspection.session) > 0
    table = _table("category", "", "tokens", "share", *(["dollars"] if filling.cost_dollars else []))
    if compacted:
        table.add_column("whole record", justify="right")
    shown = [name for name in filling.now if filling.whole[name] or filling.now[name]]
    largest = max((filling.now[name] for name in shown), default=0) or 1
    for name in shown:
        tokens = filling.now[name]
        drawn = Bar(tokens / largest, width=BAR_CELLS, colour=CATEGORIES[name].colour, plain=plain)
        cells = [thousands(tokens), f"{tokens / max(1, filling.now_tokens):.0%}"]
        cells += [dollars(filling.cost_dollars[name])] if filling.cost_dollars else []
        table.add_row(name, drawn, *cells, *([thousands(filling.whole[name])] if compacted else []))
    total = [thousands(filling.now_tokens), ""]
    total += [dollars(sum(filling.cost_dollars.values()))] if filling.cost_dollars else []
    table.add_row("in all", "", *total, *([thousands(filling.whole_tokens)] if compacted else []), style="bold")
    after = ", after the last recorded compaction" if compacted else ""
    priced = "; dollars are for sending it once, uncached" if filling.cost_dollars else ""
    yield heading(f"By category{after}{priced}")
    yield narrowable(table)


def _turns(filling: Filling, *, plain: bool) -> Iterator[RenderableType]:
    turns = filling.turns
    chosen = {turn.number for turn in nlargest(MOST_ROWS, turns, key=lambda turn: turn.tokens)}
    largest = max((turn.tokens for turn in turns), default=0) or 1
    table = _table("turn", "", "tokens", "messages", "from", free="said")
    for turn in turns:
        if turn.number in chosen:
            drawn = Bar(turn.tokens / largest, width=BAR_CELLS // 2, colour="cyan", plain=plain)
            said = one_line(turn.said) if turn.number else "(before the user spoke)"
            row = (str(turn.number), drawn, thousands(turn.tokens), f"{turn.messages:,}", f"{turn.first_message}", said)
            table.add_row(*row)
    yield heading(_titled("By turn", len(turns), "turns"))
    yield narrowable(table)


def _tools(filling: Filling, *, plain: bool) -> Iterator[RenderableType]:
    if not filling.tools:
        return
    largest = filling.tools[0].tokens or 1
    table = _table("tool", "", "tokens", "calls", "failed", "in calls", "in results")
    for tool in filling.tools[:MOST_ROWS]:
        drawn = Bar(tool.tokens / largest, width=BAR_CELLS // 2, colour="red", plain=plain)
        sizes = (thousands(tool.call_tokens), thousands(tool.result_tokens))
        table.add_row(
            one_line(tool.tool, 32), drawn, thousands(tool.tokens), f"{tool.calls:,}", f"{tool.failed or ''}", *sizes
        )
    yield heading(_titled("By tool", len(filling.tools), "tools"))
    yield narrowable(table)


def _largest(filling: Filling) -> Iterator[RenderableType]:
    table = _table("handle", "what", "tokens", left={"what"}, free="begins")
    for part in filling.largest:
        table.add_row(part.handle, one_line(part.what, 32), thousands(part.tokens), one_line(part.excerpt))
    yield heading("Largest parts (infold recall FILE HANDLE shows one whole)")
    yield narrowable(table)


# What the record says of itself.


def _recorded(session: RecordedSession, filling: Filling) -> Iterator[RenderableType]:
    usage = filling.usage
    if usage is not None:
        cost = f", cost {dollars(usage.cost_dollars)}" if usage.cost_dollars else ""
        yield heading(f"Recorded usage: {counted(usage.replies, 'reply').replace('replys', 'replies')}{cost}")
        yield Text(
            f"  input {thousands(usage.input)}, from cache {thousands(usage.cache_read)}, "
            f"to cache {thousands(usage.cache_write)}, output {thousands(usage.output + usage.reasoning)}\n"
            f"  largest request {thousands(usage.largest_request_tokens)}, "
            f"in the window at the end {thousands(usage.newest_context_tokens)}"
        )
    if session.compactions:
        newest = f", the newest {MOST_ROWS}" if len(session.compactions) > MOST_ROWS else ""
        yield heading(f"Recorded compactions: {len(session.compactions)}{newest}")
        yield _compactions(session.compactions[-MOST_ROWS:])


def _compactions(compactions: Iterable[RecordedCompaction]) -> Table:
    table = _table("before message", "at tokens", "kept from", free="summary")
    for one in compactions:
        at = "" if one.tokens_before is None else thousands(one.tokens_before)
        kept = "" if one.first_kept is None or one.first_kept >= one.position else str(one.first_kept)
        table.add_row(str(one.position), at, kept, one_line(one.summary) or "(sealed by the provider)")
    return narrowable(table)


def _others(inspection: Inspection) -> Iterator[RenderableType]:
    others = [session for session in inspection.recording.sessions if session is not inspection.session]
    if not others:
        return
    ruler = inspection.yardstick.counting.ruler
    table = _table("session", "tokens", "messages", "sub-agent of", left={"session", "sub-agent of"})
    for session in others[:MOST_ROWS]:
        size = thousands(size_of_session(session, ruler))
        table.add_row(one_line(session.id), size, f"{len(session.messages):,}", one_line(session.parent or ""))
    more = f", the first {MOST_ROWS}" if len(others) > MOST_ROWS else ""
    agents = sum(session.parent is not None for session in others)
    yield heading(f"Other sessions in this file: {len(others)}, sub-agents: {agents}{more} (--session ID shows one)")
    yield narrowable(table)


def _titled(title: str, count: int, noun: str) -> str:
    return title if count <= MOST_ROWS else f"{title}: the {MOST_ROWS} largest of {count} {noun}"


def _table(*columns: str, left: Iterable[str] = (), free: str = "") -> Table:
    """A table without lines; numbers stand right, the first column, bars and what is named in `left` stand left.

    `free` is one more column, for text, that takes the room the others leave.
    """
    table = Table(box=None, padding=(0, 1), header_style="dim", expand=bool(free))
    for place, name in enumerate(columns):
        is_left = place == 0 or not name or name in left
        table.add_column(name, justify="left" if is_left else "right", no_wrap=True, overflow="ellipsis")
    if free:
        table.add_column(free, ratio=1, no_wrap=True, overflow="ellipsis")
    return table
