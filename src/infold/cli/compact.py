"""`infold compact`: fold a recorded session into a window, and show or write the resulting request."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, to_builtins
from msgspec.structs import replace
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from infold.catalogue import Known, Lookup, lookup
from infold.cli import options
from infold.cli.files import (
    OUTPUT_FORMATS,
    InputFile,
    choose_session,
    encode_sessions,
    input_options,
    read_input,
    write_file,
)
from infold.cli.render import (
    CATEGORIES,
    Bar,
    frame,
    heading,
    make_table,
    open_console,
    print_json,
    titled,
    to_json,
    working,
)
from infold.core.budget import budget_for
from infold.core.compact import Simulation, advance, compact
from infold.core.events import Clipped, Compacted, Exceeded, Pruned
from infold.core.gauge import PlanInputs, estimated_tokens, gauge
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import AssistantMessage, Message, SessionId, text_of
from infold.core.plan import Stuck
from infold.core.policy import Policy
from infold.core.view import view
from infold.errors import PolicyError, UsageError, WindowExceeded
from infold.reports.contents import session_tokens
from infold.reports.text import (
    author_of,
    describe_part,
    event_line,
    one_line,
    part_text,
    plural,
    printable,
    short_number,
)
from infold.session.context import window_exceeded
from infold.session.counting import count_overhead, counting_for, split_preamble
from infold.session.fit import fit
from infold.session.report import Report
from infold.session.settings import rates_of, resolve_policy, resolve_window
from infold.transcripts.record import RecordedSession

BAR_CELLS = 20
MOST_EVENTS = 8
MOST_PARTS = 6
MOST_CHECKPOINT_LINES = 40


class CompactedSession(Struct, frozen=True):
    """A session before and after: the report of `fit`, tokens by category, and the request if the file holds one."""

    report: Report
    session: RecordedSession
    before: dict[str, int]
    after: dict[str, int]
    body: Any = None

    @property
    def checkpoint(self) -> str:
        """The text that replaces what was folded; empty if nothing was."""
        prefixes = ("checkpoint-", "summary-")
        return next((text_of(message) for message in self.report.sent if message.id.startswith(prefixes)), "")

    @property
    def kept(self) -> list[Message]:
        """The messages of the history that are sent unchanged."""
        history = {id(message) for message in self.report.history}
        return [message for message in self.report.sent if id(message) in history]


@click.command("compact")
@click.argument("file", type=options.EXISTING)
@options.window
@options.working_window
@options.model
@options.policy
@input_options
@click.option(
    "-o", "output", type=click.Path(path_type=Path), metavar="OUT", help="Write the request there, '-' to stdout."
)
@click.option(
    "--to",
    type=click.Choice(OUTPUT_FORMATS),
    help="The format of OUT: openai if FILE is a transcript, else that of FILE.",
)
@click.option("--preview", is_flag=True, help="Show the request part by part, and write nothing.")
@options.force
@options.as_json
def compact_verb(**given: Any) -> None:
    """Compact a session until its next request fits a window: old tool results become stubs, old turns a checkpoint.

    The session is replayed from its beginning and compacted where a running agent would have been, by code alone: without a
    model, a key or a network. The output shows what fills the window before and after, what was done and why, the checkpoint,
    and what was kept. Give --window, or --model to use its window; by default the recorded model's is used.

    \b
    Example:
      infold compact session.jsonl --window 64k -o request.json
    """
    file, output = given["file"], given["output"]
    found = read_input(file, given["format"])
    session = choose_session(found, given["session"])
    try:
        policy = resolve_policy(given["policy"], {}, given["working_window"])
        with working(f"compacting {plural(len(session.messages), 'message')}"):
            result = compact_session(found, session, window=given["window"], model=given["model"], policy=policy)
    except WindowExceeded as error:
        smallest = f"the smallest request has {error.floor_tokens:,} tokens"
        raise click.ClickException(f"{smallest}, {error.usable_tokens:,} are usable; give a larger --window") from error
    except PolicyError as error:
        raise click.ClickException(f"{error.problem}; give a larger --window") from error
    written = None
    if output is not None and not given["preview"]:
        is_request = given["to"] is None and found.request is not None
        content = to_json(result.body) if is_request else encode_sessions(given["to"] or "openai", (result.session,))
        if str(output) == "-":
            click.echo(content, nl=False)
            return
        write_file(output, content, source=file, force=given["force"])
        written = str(output)
    if given["as_json"]:
        print_json(_to_json(found, result, written))
        return
    print_result(open_console(), result, preview=given["preview"])
    hint = "" if given["preview"] else "; -o OUT writes the request"
    click.echo(f"nothing was written{hint}" if written is None else f"written to {written}")


# Compacting.


def compact_session(
    found: InputFile, session: RecordedSession, *, window: int | None, model: str | None, policy: str | Policy
) -> CompactedSession:
    """Compact a session into a window, or into that of a model.

    Raise `WindowExceeded` if even the smallest view does not fit, `UsageError` if no window is known.
    """
    recorded = None if session.model is None else lookup(session.model.id)
    model = model or (recorded.matched if isinstance(recorded, Known) else None)
    if model is None and window is None:
        raise UsageError("the window of this session is not known; give --window TOKENS or --model NAME")
    if found.request is None:
        report = _replay(session, window, resolve_policy(policy, {}), None if model is None else lookup(model))
        sent = replace(session, messages=report.sent, compactions=())
        return _measure(report, session, sent)
    fitted = fit(
        list(found.request.items),
        model=model,
        window=window,
        system=session.system,
        tools=session.tools,
        policy=policy,
        format=found.request.wire.name,
        environ={},  # environment variables may switch compaction off, but the user asked for it
    )
    sent = replace(session, messages=fitted.report.sent)
    return _measure(fitted.report, session, sent, found.request.with_items(fitted.messages))


def _measure(report: Report, before: RecordedSession, sent: RecordedSession, body: Any = None) -> CompactedSession:
    ruler = report.counting.ruler
    return CompactedSession(report, sent, session_tokens(before, ruler), session_tokens(sent, ruler, before), body)


def _replay(session: RecordedSession, window: int | None, policy: Policy, known: Lookup | None) -> Report:
    exact = policy.estimate == "features"
    counting = counting_for(known.entry.family if known else "o200k", exact=exact, scaled=exact)
    history = tuple(
        replace(message, usage=None) if isinstance(message, AssistantMessage) else message
        for message in session.messages
    )
    preamble = split_preamble(history)[0]
    inputs = PlanInputs(
        policy,
        budget_for(resolve_window(window, known), policy),
        overhead_tokens=count_overhead(preamble, session.system, session.tools, counting.ruler).tokens,
        bound=counting.margin,
        wide_bound=counting.wide_margin,
        rates=rates_of(known.entry.prices if known else None, known.entry.family if known else None),
        reports_usage=False,
    )
    rendering = Rendering(counting.ruler if exact else policy.estimate, policy.stub)
    played = advance(Simulation(Log(SessionId(session.id), rendering)), history[len(preamble) :], inputs)
    final = compact(played.log, inputs)
    if isinstance(final.final, Stuck):
        raise window_exceeded(final.final)
    return Report(
        format="transcript",
        policy=policy.name,
        budget=inputs.budget,
        tokens_after=estimated_tokens(final.log, inputs),
        upper_tokens=gauge(final.log, inputs).upper_tokens,
        overhead_tokens=inputs.overhead_tokens,
        counting=counting,
        events=(*played.events, *final.events),
        model=known,
        history=history,
        sent=(*preamble, *view(final.log, policy.summary)),
        sequences=(*(-1 for _ in preamble), *played.sequences),
    )


# Printing.


def print_result(console: Console, result: CompactedSession, *, preview: bool) -> None:
    """Print a compaction; `preview` adds the request, a line for each part."""
    report, plain = result.report, not console.is_terminal
    for piece in (*_summary(result, plain=plain), *_events(report), *_removed(report)):
        console.print(piece)
    if result.checkpoint:
        lines = printable(result.checkpoint).splitlines()
        more = len(lines) - MOST_CHECKPOINT_LINES
        shown = [*lines[:MOST_CHECKPOINT_LINES], *([f"({more} more lines; -o writes them all)"] if more > 0 else [])]
        console.print(Text())
        console.print(frame(shown, "the checkpoint, which replaces everything that was folded", plain=plain))
    console.print(heading(_kept(result)))
    if preview:
        console.print(heading(f"The request: {plural(len(report.sent), 'message')}"))
        console.print(_request(report))


def _summary(result: CompactedSession, *, plain: bool) -> Iterator[RenderableType]:
    report, before, after = result.report, result.before, result.after
    counted = "counted exactly" if report.counting.is_exact else "estimated"
    limit = f"of {report.budget.limit_tokens:,} usable" if report.budget.bounded else "of a window without limit"
    sizes = f"{sum(before.values()):,} -> {sum(after.values()):,} tokens ({counted})"
    fits = "fits" if report.changed else "fits unchanged"
    yield Text.assemble(
        (f"{fits}: ", "bold green"), f"{sizes}, at most {report.upper_tokens:,} {limit}, policy {report.policy}"
    )
    table = make_table("category", "before", "", "after", "")
    largest = max((*before.values(), *after.values(), 1))
    for name in before:
        if before[name] or after[name]:
            colour = CATEGORIES[name].colour
            bars = [
                Bar(tokens[name] / largest, width=BAR_CELLS, colour=colour, plain=plain) for tokens in (before, after)
            ]
            table.add_row(name, short_number(before[name]), bars[0], short_number(after[name]), bars[1])
    totals = (short_number(sum(before.values())), "", short_number(sum(after.values())), "")
    table.add_row("total", *totals, style="bold")
    yield titled("By category", table)


def _events(report: Report) -> Iterator[RenderableType]:
    if not report.events:
        return
    done = Counter(type(event) for event in report.events)
    sums = f"folds: {done[Compacted]}, prunings: {done[Pruned]}, clips: {done[Clipped]}"
    stuck = f", requests that could not fit on the way: {done[Exceeded]}" if done[Exceeded] else ""
    newest = f"; the newest {MOST_EVENTS}" if len(report.events) > MOST_EVENTS else ""
    yield heading(f"Done in the course of the session ({sums}{stuck}){newest}")
    yield from (Text(f"  {event_line(event)}") for event in report.events[-MOST_EVENTS:])


def _removed(report: Report) -> Iterator[RenderableType]:
    removed = report.left
    if not removed:
        return
    tokens = short_number(sum(part.tokens for part in removed))
    yield heading(f"No longer sent: {plural(len(removed), 'part')}, {tokens} tokens; the largest")
    for part in sorted(removed, key=lambda part: (-part.tokens, part.index))[:MOST_PARTS]:
        yield Text(f"  message {part.index:>5}  {one_line(part.what, 40):<40} {short_number(part.tokens):>6} tokens")


def _kept(result: CompactedSession) -> str:
    report, kept = result.report, result.kept
    if not report.changed:
        return "Kept: everything"
    places = {id(message): place for place, message in enumerate(report.history)}
    first = next((places[id(message)] for message in kept if places[id(message)] or len(kept) == 1), None)
    where = "" if first is None else f", from message {first} on"
    return f"Kept unchanged: {len(kept):,} of {plural(len(report.history), 'message')}{where}"


def _request(report: Report) -> Table:
    table = make_table("message", "who", "what", left=("who", "what"), free="begins")
    for number, message in enumerate(report.sent):
        for part in message.parts:
            author, what = one_line(author_of(message, part), 24), one_line(describe_part(part), 32)
            table.add_row(str(number), author, what, one_line(part_text(part)))
    return table


def _to_json(found: InputFile, result: CompactedSession, written: str | None) -> dict[str, Any]:
    report, before, after = result.report, result.before, result.after
    return {
        "file": str(found.path),
        "format": found.format,
        "session": result.session.id,
        "policy": report.policy,
        "budget": report.budget,
        "counting": {"exact": report.counting.is_exact, "margin": report.counting.margin},
        "changed": report.changed,
        "tokens": {"before": sum(before.values()), "after": sum(after.values()), "upper": report.upper_tokens},
        "by_category": {"before": before, "after": after},
        "events": [to_builtins(event) for event in report.events],
        "left": report.left,
        "checkpoint": result.checkpoint,
        "kept": [message.id for message in result.kept],
        "messages": {"before": len(report.history), "after": len(report.sent)},
        "written": written,
    }
