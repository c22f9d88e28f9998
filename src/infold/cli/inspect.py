"""`infold inspect`: show what fills the window of a recorded session or a request."""

from collections.abc import Iterator
from heapq import nlargest
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import asdict, replace
from rich.console import Console, RenderableType
from rich.text import Text

from infold.catalogue import Assumed
from infold.cli import options, render
from infold.cli.files import InputFile, choose_session, input_options, read_input
from infold.errors import InfoldError
from infold.reports.contents import (
    MeasuredBy,
    RecordedContents,
    first_in_window,
    measured_by,
    recorded_contents,
    session_tokens,
)
from infold.reports.text import dollars, moment, one_line, plural, printable, short_number
from infold.transcripts.record import RecordedSession

BAR_CELLS = 30

MOST_ROWS = 10
"""Rows of a table by turn, tool or session; JSON has them all."""


class Inspection(Struct, frozen=True):
    """One session of one file, measured."""

    file: InputFile
    session: RecordedSession
    measured: MeasuredBy
    contents: RecordedContents

    def tokens_of(self, session: RecordedSession) -> int:
        """Return the size of a session, measured like this one."""
        return sum(session_tokens(session, self.measured.counting.ruler).values())


@click.command("inspect")
@click.argument("files", nargs=-1, required=True, type=options.EXISTING, metavar="FILE...")
@input_options
@options.model
@options.window
@options.working_window
@options.as_json
def inspect(files: tuple[Path, ...], *, as_json: bool, **given: Any) -> None:
    """Show what fills the window: by category, by turn and by tool, the largest parts, recorded usage and compactions.

    Each tool's definition is listed with its share of the window, and whether the session ever called the tool.

    FILE is a transcript of any agent infold knows, gzip-compressed or not, or a JSON file with the messages of a request
    (OpenAI chat or Responses, Anthropic, Gemini). Nothing is sent and nothing is written.

    \b
    Example:
      infold inspect session.jsonl --window 200k
    """
    inspections: list[Inspection] = []
    errors: list[str] = []
    for path in files:
        try:
            found = read_input(path, given["format"])
            chosen = choose_session(found, given["session"], is_listed=True)
            with render.working(f"counting {printable(path.name)}"):
                measured = measured_by(chosen, given["model"], given["window"])
                measured = replace(measured, working_window_tokens=given["working_window"])
                inspections.append(Inspection(found, chosen, measured, recorded_contents(chosen, measured)))
        except InfoldError as error:
            errors.append(" ".join(str(error).split()))
    if as_json:
        render.print_json({"files": [_to_json(inspection) for inspection in inspections]})
    else:
        console = render.open_console()
        for inspection in inspections:
            print_inspection(console, inspection, plain=not console.is_terminal)
    for problem in errors:
        click.echo(f"Error: {problem}", err=True)
    raise click.exceptions.Exit(1 if errors else 0)


def print_inspection(console: Console, inspection: Inspection, *, plain: bool) -> None:
    """Print the page of one file."""
    console.rule(printable(str(inspection.file.path)), characters="-" if plain else "─", style="bold")
    for section in (
        _facts(inspection),
        _window(inspection, width=console.width, plain=plain),
        _categories(inspection, plain=plain),
        _turns(inspection.contents, plain=plain),
        _tools(inspection.contents, plain=plain),
        _schemas(inspection, plain=plain),
        _largest(inspection.contents),
        _recorded(inspection),
        _other_sessions(inspection),
    ):
        for piece in section:
            console.print(piece)


def _facts(inspection: Inspection) -> Iterator[RenderableType]:
    session, contents = inspection.session, inspection.contents
    turns = sum(turn.number > 0 for turn in contents.turns)
    times = [message.created_ms for message in session.messages if message.created_ms is not None]
    span = f", {moment(min(times))} to {moment(max(times))} UTC" if times else ""
    count, is_longest = len(inspection.file.sessions), session is inspection.file.longest
    among = f", {'the longest' if is_longest else 'one'} of {count} in this file (listed below)" if count > 1 else ""
    yield Text(f"{inspection.file.format} session {printable(session.id)}{among}")
    yield Text(f"{plural(contents.messages, 'message')} in {plural(turns, 'turn')}{span}")
    yield Text(f"{_model_line(inspection)}; tokens {_counting_line(inspection.measured)}")
    if not session.system and not contents.whole["system"]:
        yield Text("the system prompt was not recorded, so it is not counted", style="dim")


def _counting_line(measured: MeasuredBy) -> str:
    if measured.counting.is_exact:
        return "counted exactly"
    return f"estimated, the provider may count up to {measured.counting.margin:g} times as many"


def _model_line(inspection: Inspection) -> str:
    measured, recorded = inspection.measured, inspection.session.model
    if measured.model is None:
        known = f"model {printable(recorded.id)} is not in the catalogue" if recorded else "no model recorded"
        return known if measured.window_tokens else f"{known}; name one with --model, or a --window"
    return measured.model.reason if isinstance(measured.model, Assumed) else f"model {measured.model.entry.name}"


def _window(inspection: Inspection, *, width: int, plain: bool) -> Iterator[RenderableType]:
    window, contents = inspection.measured.window_tokens, inspection.contents
    if not window:
        return
    whole = max(window, contents.now_tokens)
    share = contents.now_tokens / window
    full = f"{share:.0%} of" if share <= 1 else f"{share:.1f} times"
    newest = contents.usage.newest_context_tokens if contents.usage else 0
    reported = f"; the provider last reported {short_number(newest)}" if contents.usage else ""
    working = inspection.measured.working_window_tokens
    if working and working < window:
        reported = f"; {contents.now_tokens / working:.0%} of the working window of {short_number(working)}{reported}"
    yield render.heading(
        f"The window: {short_number(contents.now_tokens)} tokens, {full} its {short_number(window)}{reported}"
    )
    yield render.window_bar(contents.now, window=whole, limit=whole, width=min(80, width - 2), plain=plain)
    yield render.legend([name for name in render.CATEGORIES if contents.now.get(name)], plain=plain)


def _categories(inspection: Inspection, *, plain: bool) -> Iterator[RenderableType]:
    contents, costs = inspection.contents, inspection.contents.cost_dollars
    compacted = first_in_window(inspection.session) > 0
    columns = ("category", "", "tokens", "share", *(("dollars",) if costs else ()))
    table = render.make_table(*columns, *(("whole record",) if compacted else ()))
    shown = [name for name in contents.now if contents.whole[name] or contents.now[name]]
    largest = max((contents.now[name] for name in shown), default=0) or 1
    for name in shown:
        tokens = contents.now[name]
        bar = render.Bar(tokens / largest, width=BAR_CELLS, colour=render.CATEGORIES[name].colour, plain=plain)
        cells = [short_number(tokens), f"{tokens / max(1, contents.now_tokens):.0%}"]
        cells += [dollars(costs[name])] if costs else []
        table.add_row(name, bar, *cells, *([short_number(contents.whole[name])] if compacted else []))
    total = [short_number(contents.now_tokens), "", *([dollars(sum(costs.values()))] if costs else [])]
    table.add_row("total", "", *total, *([short_number(contents.whole_tokens)] if compacted else []), style="bold")
    after = ", after the last recorded compaction" if compacted else ""
    priced = "; dollars are for sending it once, uncached" if costs else ""
    yield render.titled(f"By category{after}{priced}", table)


def _turns(contents: RecordedContents, *, plain: bool) -> Iterator[RenderableType]:
    turns = contents.turns
    chosen = {turn.number for turn in nlargest(MOST_ROWS, turns, key=lambda turn: turn.tokens)}
    largest = max((turn.tokens for turn in turns), default=0) or 1
    table = render.make_table("turn", "", "tokens", "messages", "from", free="user message")
    for turn in turns:
        if turn.number in chosen:
            bar = render.Bar(turn.tokens / largest, width=BAR_CELLS // 2, colour="cyan", plain=plain)
            said = one_line(turn.said) if turn.number else "(before the first user message)"
            numbers = (short_number(turn.tokens), f"{turn.messages:,}", f"{turn.first_message}")
            table.add_row(str(turn.number), bar, *numbers, said)
    yield render.titled(_title("By turn", len(turns), "turns"), table)


def _tools(contents: RecordedContents, *, plain: bool) -> Iterator[RenderableType]:
    if not contents.tools:
        return
    largest = contents.tools[0].tokens or 1
    table = render.make_table("tool", "", "tokens", "calls", "failed", "in calls", "in results")
    for tool in contents.tools[:MOST_ROWS]:
        bar = render.Bar(tool.tokens / largest, width=BAR_CELLS // 2, colour="red", plain=plain)
        sizes = (short_number(tool.call_tokens), short_number(tool.result_tokens))
        counts = (short_number(tool.tokens), f"{tool.calls:,}", f"{tool.failed or ''}")
        table.add_row(one_line(tool.tool, 32), bar, *counts, *sizes)
    yield render.titled(_title("By tool", len(contents.tools), "tools"), table)


def _schemas(inspection: Inspection, *, plain: bool) -> Iterator[RenderableType]:
    """List the definitions that every request sends, with their share of the window."""
    schemas, window = inspection.contents.schemas, inspection.measured.window_tokens
    if not schemas:
        return
    table = render.make_table("tool", "", "tokens", *(("of window",) if window else ()), "called", left={"called"})
    for schema in schemas[:MOST_ROWS]:
        bar = render.Bar(schema.tokens / (schemas[0].tokens or 1), width=BAR_CELLS // 2, colour="magenta", plain=plain)
        share = (f"{schema.tokens / window:.1%}",) if window else ()
        called = "yes" if schema.is_called else "never"
        table.add_row(one_line(schema.tool, 32), bar, short_number(schema.tokens), *share, called)
    total, unused = sum(schema.tokens for schema in schemas), [one for one in schemas if not one.is_called]
    whole = (f"{total / window:.1%}",) if window else ()
    table.add_row(
        "total", "", short_number(total), *whole, f"{len(schemas) - len(unused)} of {len(schemas)}", style="bold"
    )
    title = _title("Tool definitions", len(schemas), "tools")
    if unused:
        title += (
            f"; never called: {len(unused)}, {short_number(sum(one.tokens for one in unused))} tokens in each request"
        )
    yield render.titled(title, table)


def _largest(contents: RecordedContents) -> Iterator[RenderableType]:
    table = render.make_table("handle", "what", "tokens", left={"what"}, free="begins")
    for part in contents.largest:
        table.add_row(part.handle, one_line(part.what, 32), short_number(part.tokens), one_line(part.excerpt))
    yield render.titled("Largest parts (infold recall FILE HANDLE shows one whole)", table)


def _recorded(inspection: Inspection) -> Iterator[RenderableType]:
    usage, compactions = inspection.contents.usage, inspection.session.compactions
    if usage is not None:
        cost = f", cost {dollars(usage.cost_dollars)}" if usage.cost_dollars else ""
        yield render.heading(f"Recorded usage: {plural(usage.replies, 'reply')}{cost}")
        yield Text(
            f"  input {short_number(usage.input)}, from cache {short_number(usage.cache_read)}, "
            f"to cache {short_number(usage.cache_write)}, output {short_number(usage.output + usage.reasoning)}\n"
            f"  largest request {short_number(usage.largest_request_tokens)}, "
            f"in the window at the end {short_number(usage.newest_context_tokens)}"
        )
    if compactions:
        newest = f", the newest {MOST_ROWS}" if len(compactions) > MOST_ROWS else ""
        table = render.make_table("before message", "at tokens", "kept from", free="summary")
        for one in compactions[-MOST_ROWS:]:
            at = "" if one.tokens_before is None else short_number(one.tokens_before)
            kept = "" if one.first_kept is None or one.first_kept >= one.position else str(one.first_kept)
            table.add_row(str(one.position), at, kept, one_line(one.summary) or "(sealed by the provider)")
        yield render.titled(f"Recorded compactions: {len(compactions)}{newest}", table)


def _other_sessions(inspection: Inspection) -> Iterator[RenderableType]:
    others = [session for session in inspection.file.sessions if session is not inspection.session]
    if not others:
        return
    table = render.make_table("session", "tokens", "messages", "sub-agent of", left={"session", "sub-agent of"})
    for session in others[:MOST_ROWS]:
        size = short_number(inspection.tokens_of(session))
        table.add_row(one_line(session.id), size, f"{len(session.messages):,}", one_line(session.parent or ""))
    more = f", the first {MOST_ROWS}" if len(others) > MOST_ROWS else ""
    agents = sum(session.parent is not None for session in others)
    title = f"Other sessions in this file: {len(others)}, sub-agents: {agents}{more} (--session ID shows one)"
    yield render.titled(title, table)


def _title(title: str, count: int, noun: str) -> str:
    return title if count <= MOST_ROWS else f"{title}: the {MOST_ROWS} largest of {count} {noun}"


def _to_json(inspection: Inspection) -> dict[str, Any]:
    session, contents, measured = inspection.session, inspection.contents, inspection.measured
    matched = None if measured.model is None or isinstance(measured.model, Assumed) else measured.model.matched
    return {
        "file": str(inspection.file.path),
        "format": inspection.file.format,
        "session": session.id,
        "model": {"recorded": session.model.id if session.model else None, "matched": matched},
        "window_tokens": measured.window_tokens,
        "working_window_tokens": measured.working_window_tokens,
        "counting": {"exact": measured.counting.is_exact, "margin": measured.counting.margin},
        "messages": contents.messages,
        "tokens": {"now": contents.now_tokens, "whole": contents.whole_tokens},
        "by_category": {"now": contents.now, "whole": contents.whole},
        "by_turn": contents.turns,
        "by_tool": contents.tools,
        "tool_schemas": contents.schemas,
        "largest": contents.largest,
        "usage": contents.usage,
        "compactions": [asdict(one) for one in session.compactions],
        "cost_dollars": contents.cost_dollars,
        "sessions": [
            {"id": one.id, "parent": one.parent, "messages": len(one.messages), "tokens": inspection.tokens_of(one)}
            for one in inspection.file.sessions
        ],
        "skipped": [asdict(one) for one in inspection.file.skipped],
    }
