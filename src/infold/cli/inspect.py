"""`infold inspect`: what fills the window of a recorded session or a request."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from infold.catalogue import Assumed
from infold.cli import options
from infold.cli.input_files import Recording, chosen_session, open_recording
from infold.cli.render import (
    CATEGORIES,
    Bar,
    console_for,
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
from infold.cli.window_contents import Filling, Yardstick, filling_of, size_of_session, standing_from, yardstick_for
from infold.errors import InfoldError
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


class Asked(Struct, frozen=True):
    """The command line."""

    files: tuple[Path, ...]
    format: str | None
    session: str | None
    model: str | None
    window: int | None
    as_json: bool


@click.command("inspect", short_help="Show what fills the window of a recorded session.")
@click.argument("files", nargs=-1, required=True, type=options.EXISTING, metavar="FILE...")
@options.reading
@options.model
@options.window
@options.as_json
def inspect(**given: Any) -> None:
    """Show what fills the window: by category, by turn and by tool, the largest parts, recorded usage and compactions.

    FILE is a transcript of any agent infold knows, gzip-compressed or not, or a JSON file with the messages of a request
    (OpenAI chat or Responses, Anthropic, Gemini). Nothing is sent and nothing is written.

    \b
    Example:
      infold inspect session.jsonl --window 200k
    """
    asked = Asked(**given)
    inspections, faults = _inspected(asked)
    if asked.as_json:
        page = msgspec.json.encode({"files": [_as_json(inspection) for inspection in inspections]})
        click.echo(msgspec.json.format(page, indent=2))
    else:
        _show(inspections)
    for fault in faults:
        click.echo(f"Error: {fault}", err=True)
    raise click.exceptions.Exit(1 if faults else 0)


def _inspected(asked: Asked) -> tuple[list[Inspection], list[str]]:
    """All files that can be read, measured, and a line for each that cannot."""
    inspections: list[Inspection] = []
    faults: list[str] = []
    for path in asked.files:
        try:
            inspections.append(_inspection(path, asked))
        except InfoldError as error:
            faults.append(" ".join(str(error).split()))
    return inspections, faults


def _inspection(path: Path, asked: Asked) -> Inspection:
    recording = open_recording(path, asked.format)
    session = chosen_session(recording, asked.session)
    yardstick = yardstick_for(session, asked.model, asked.window)
    return Inspection(recording, session, yardstick, filling_of(session, yardstick))


def _show(inspections: Sequence[Inspection]) -> None:
    console = console_for(plain=False)
    for inspection in inspections:
        show_inspection(console, inspection, plain=not console.is_terminal)


def _as_json(inspection: Inspection) -> dict[str, Any]:
    session, filling, yardstick = inspection.session, inspection.filling, inspection.yardstick
    return {
        "file": str(inspection.recording.path),
        "format": inspection.recording.format,
        "session": session.id,
        "model": _model(inspection),
        "window_tokens": yardstick.window_tokens,
        "counting": {"exact": yardstick.counting.is_exact, "margin": yardstick.counting.margin},
        "messages": filling.messages,
        "tokens": {"now": filling.now_tokens, "whole": filling.whole_tokens},
        "by_category": {"now": filling.now, "whole": filling.whole},
        "by_turn": filling.turns,
        "by_tool": filling.tools,
        "largest": filling.largest,
        "usage": filling.usage,
        "compactions": [_compaction(inspection, index) for index in range(len(session.compactions))],
        "cost_dollars": filling.cost_dollars,
        "sessions": [
            {
                "id": one.id,
                "parent": one.parent,
                "messages": len(one.messages),
                "tokens": size_of_session(one, yardstick.counting.ruler),
            }
            for one in inspection.recording.sessions
        ],
        "skipped": [
            {"reason": one.reason, "line": one.line, "count": one.count, "repaired": one.repaired}
            for one in inspection.recording.skipped
        ],
    }


def _model(inspection: Inspection) -> dict[str, Any]:
    found, recorded = inspection.yardstick.model, inspection.session.model
    return {
        "recorded": recorded.id if recorded else None,
        "matched": None if found is None or isinstance(found, Assumed) else found.matched,
    }


def _compaction(inspection: Inspection, index: int) -> dict[str, Any]:
    one = inspection.session.compactions[index]
    return {
        "position": one.position,
        "tokens_before": one.tokens_before,
        "first_kept": one.first_kept,
        "summary": one.summary,
    }
