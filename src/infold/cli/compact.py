"""`infold compact`: fold a session into a window, and show or write what would be sent."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, to_builtins
from msgspec.structs import replace
from rich.box import ASCII, ROUNDED
from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from infold.catalogue import Known, Lookup, lookup
from infold.cli import options
from infold.cli.input_files import Recording, chosen_session, open_recording
from infold.cli.output_files import SHAPES, in_shape, json_bytes, write_file
from infold.cli.render import (
    CATEGORIES,
    Bar,
    console_for,
    content_of,
    counted,
    event_text,
    heading,
    legible,
    narrowable,
    one_line,
    thousands,
    what_of,
    who_of,
)
from infold.cli.window_contents import by_category
from infold.core.budget import budget_for
from infold.core.compact import Rehearsal, carry_on, compact
from infold.core.events import Clipped, Compacted, Exceeded, Pruned
from infold.core.gauge import Situation, estimated_tokens, gauge
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import AssistantMessage, Message, SessionId, text_of
from infold.core.plan import Stuck
from infold.core.policy import Policy, preset
from infold.core.view import view
from infold.errors import PolicyError, UsageError, WindowExceeded
from infold.session.counting import Counting, count_overhead, counting_for, split_preamble
from infold.session.fit import fit
from infold.session.report import Report
from infold.session.settings import rates_of, resolve_window
from infold.transcripts.record import RecordedSession


class Aim(Struct, frozen=True):
    """What is asked for: a window or a model that has one, and a preset."""

    window_tokens: int | None
    model: str | None
    policy: str


class Outcome(Struct, frozen=True):
    """What was done: the report, the session before and as it would be sent, and a request in its own shape if it was one."""

    report: Report
    before: RecordedSession
    session: RecordedSession
    body: Any = None


def compacted(recording: Recording, session: RecordedSession, aim: Aim) -> Outcome:
    """Compact a session into the window aimed at.

    Raises `WindowExceeded` when even the smallest view does not fit, `UsageError` when no window is known.
    """
    model = aim.model or _recorded_model(session)
    if model is None and aim.window_tokens is None:
        raise UsageError("no window is known for this session; give --window TOKENS or --model NAME")
    if recording.request is None:
        return _played(session, aim, None if model is None else lookup(model))
    request = recording.request
    fitted = fit(
        list(request.items),
        model=model,
        window=aim.window_tokens,
        system=session.system,
        tools=session.tools,
        policy=aim.policy,
        format=request.wire.name,
        environ={},  # a person asked for this compaction
    )
    sent = replace(session, messages=fitted.report.sent)
    return Outcome(fitted.report, session, sent, request.with_items(fitted.messages))


def checkpoint_of(report: Report) -> str:
    """The text that stands for what was folded; empty if nothing was."""
    return next((text_of(message) for message in report.sent if message.id.startswith(("checkpoint-", "summary-"))), "")


def _recorded_model(session: RecordedSession) -> str | None:
    known = None if session.model is None else lookup(session.model.id)
    return known.matched if isinstance(known, Known) else None


# Playing a transcript.


def _played(session: RecordedSession, aim: Aim, known: Lookup | None) -> Outcome:
    policy = preset(aim.policy)
    exact = policy.estimate == "features"
    counting = counting_for(known.entry.family if known else "o200k", exact=exact, scaled=exact)
    history = tuple(_without_usage(message) for message in session.messages)
    opening = len(split_preamble(history)[0])
    situation = _situation(session, aim, policy, counting, known)
    ruler = counting.ruler if exact else policy.estimate
    start = Rehearsal(Log(SessionId(session.id), Rendering(ruler, policy.stub)))
    played = carry_on(start, history[opening:], situation)
    final = compact(played.log, situation)
    if isinstance(final.final, Stuck):
        stuck = final.final
        raise WindowExceeded(
            floor_tokens=stuck.floor_tokens, usable_tokens=stuck.usable_tokens, overhead_tokens=stuck.overhead_tokens
        )
    sent = (*history[:opening], *view(final.log, policy.summary))
    report = Report(
        format="transcript",
        policy=policy.name,
        budget=situation.budget,
        tokens_after=estimated_tokens(final.log, situation),
        upper_tokens=gauge(final.log, situation).upper_tokens,
        overhead_tokens=situation.overhead_tokens,
        counting=counting,
        events=(*played.events, *final.events),
        model=known,
        history=history,
        sent=sent,
        sequences=(*(-1 for _ in range(opening)), *played.sequences),
    )
    return Outcome(report, session, replace(session, messages=sent, compactions=()))


def _situation(
    session: RecordedSession, aim: Aim, policy: Policy, counting: Counting, known: Lookup | None
) -> Situation:
    opening = split_preamble(session.messages)[0]
    return Situation(
        policy,
        budget_for(resolve_window(aim.window_tokens, known), policy),
        overhead_tokens=count_overhead(opening, session.system, session.tools, counting.ruler).tokens,
        bound=counting.margin,
        wide_bound=counting.wide_margin,
        rates=rates_of(known),
        reports_usage=False,
    )


def _without_usage(message: Message) -> Message:
    return replace(message, usage=None) if isinstance(message, AssistantMessage) else message


BAR_CELLS = 20


MOST_EVENTS = 8


MOST_LEFT = 6


MOST_CHECKPOINT_LINES = 40


INDENT = "  "


class Change(Struct, frozen=True):
    """What fills the window before and after, system prompt and tools included."""

    before: dict[str, int]
    after: dict[str, int]

    @property
    def tokens_before(self) -> int:
        """All that was said."""
        return sum(self.before.values())

    @property
    def tokens_after(self) -> int:
        """All that is sent."""
        return sum(self.after.values())


def change_of(outcome: Outcome) -> Change:
    """What fills the window before and after."""
    ruler = outcome.report.counting.ruler
    return Change(by_category(outcome.before, ruler), by_category(outcome.session, ruler, outcome.before))


def kept_messages(report: Report) -> list[Message]:
    """The messages of the history that are sent as they were."""
    history = {id(message) for message in report.history}
    return [message for message in report.sent if id(message) in history]


def show_outcome(console: Console, outcome: Outcome, *, preview: bool) -> None:
    """Print the page of one compaction; `preview` adds the request, a line for each part."""
    plain = not console.is_terminal
    for piece in _pieces(outcome, plain=plain):
        console.print(piece)
    if preview:
        console.print(heading(f"The request: {counted(len(outcome.report.sent), 'message')}"))
        console.print(_request(outcome.report))


def _pieces(outcome: Outcome, *, plain: bool) -> Iterator[RenderableType]:
    report = outcome.report
    change = change_of(outcome)
    yield _verdict(report, change)
    yield heading("By category")
    yield _categories(change, plain=plain)
    yield from _done(report)
    yield from _left(report)
    checkpoint = checkpoint_of(report)
    if checkpoint:
        yield Text()
        yield _checkpoint(checkpoint, plain=plain)
    yield heading(_kept(report))


def _verdict(report: Report, change: Change) -> Text:
    counted_by = "counted exactly" if report.counting.is_exact else "estimated"
    limit = f"of {report.budget.limit_tokens:,} usable" if report.budget.bounded else "of a window without limit"
    sizes = f"{change.tokens_before:,} -> {change.tokens_after:,} tokens ({counted_by}), at most {report.upper_tokens:,} {limit}"
    fits = "fits as it is" if not report.changed else "fits"
    return Text.assemble((f"{fits}: ", "bold green"), sizes, f", policy {report.policy}")


def _categories(change: Change, *, plain: bool) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("category", "before", "", "after", ""):
        table.add_column(name, justify="right" if name in ("before", "after") else "left", no_wrap=True)
    largest = max((*change.before.values(), *change.after.values(), 1))
    for name in change.before:
        sizes = (change.before[name], change.after[name])
        if any(sizes):
            colour = CATEGORIES[name].colour
            bars = [Bar(size / largest, width=BAR_CELLS, colour=colour, plain=plain) for size in sizes]
            table.add_row(name, thousands(sizes[0]), bars[0], thousands(sizes[1]), bars[1])
    table.add_row("in all", thousands(change.tokens_before), "", thousands(change.tokens_after), "", style="bold")
    return narrowable(table)


def _done(report: Report) -> Iterator[RenderableType]:
    if not report.events:
        return
    done = Counter(type(event) for event in report.events)
    sums = f"folds: {done[Compacted]}, prunings: {done[Pruned]}, clips: {done[Clipped]}"
    stuck = f", requests that could not fit on the way: {done[Exceeded]}" if done[Exceeded] else ""
    newest = f"; the newest {MOST_EVENTS}" if len(report.events) > MOST_EVENTS else ""
    yield heading(f"Done, as the session would have lived it ({sums}{stuck}){newest}")
    yield from (Text(INDENT + event_text(event)) for event in report.events[-MOST_EVENTS:])


def _left(report: Report) -> Iterator[RenderableType]:
    left = report.left
    if not left:
        return
    tokens = sum(part.tokens for part in left)
    yield heading(f"Left the view: {counted(len(left), 'part')}, {thousands(tokens)} tokens; the largest")
    for part in sorted(left, key=lambda part: (-part.tokens, part.index))[:MOST_LEFT]:
        yield Text(f"{INDENT}message {part.index:>5}  {one_line(part.what, 40):<40} {thousands(part.tokens):>6} tokens")


def _checkpoint(text: str, *, plain: bool) -> Panel:
    lines = legible(text).splitlines()
    more = (
        [f"({len(lines) - MOST_CHECKPOINT_LINES} more lines; -o writes them all)"]
        if len(lines) > MOST_CHECKPOINT_LINES
        else []
    )
    body = Text("\n".join((*lines[:MOST_CHECKPOINT_LINES], *more)))
    title = "the checkpoint: what stands for all that was folded"
    return Panel(body, title=title, title_align="left", box=ASCII if plain else ROUNDED)


def _kept(report: Report) -> str:
    kept = kept_messages(report)
    total = f"{len(kept):,} of {counted(len(report.history), 'message')}"
    if not report.changed:
        return "Kept: everything"
    places = {id(message): place for place, message in enumerate(report.history)}
    first = next((places[id(message)] for message in kept if places[id(message)] or len(kept) == 1), None)
    where = "" if first is None else f", from message {first} on"
    return f"Kept as they were: {total}{where}"


def _request(report: Report) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim", expand=True)
    for name in ("message", "who", "what"):
        table.add_column(name, no_wrap=True)
    table.add_column("begins", ratio=1, no_wrap=True, overflow="ellipsis")
    for number, message in enumerate(report.sent):
        for part in message.parts:
            content = one_line(content_of(part))
            table.add_row(str(number), one_line(who_of(message, part), 24), one_line(what_of(part), 32), content)
    return table


class Asked(Struct, frozen=True):
    """The command line."""

    file: Path
    format: str | None
    session: str | None
    model: str | None
    window: int | None
    policy: str
    output: Path | None
    to: str | None
    preview: bool
    force: bool
    as_json: bool


@click.command("compact", short_help="Fold a session into a window and show what was done.")
@click.argument("file", type=options.EXISTING)
@options.window
@options.model
@options.policy
@options.reading
@click.option(
    "-o", "output", type=click.Path(path_type=Path), metavar="OUT", help="Write the request there, '-' to stdout."
)
@click.option(
    "--to", type=click.Choice(SHAPES), help="The shape of OUT: openai if FILE is a transcript, else FILE's own."
)
@click.option("--preview", is_flag=True, help="Show the request part by part, and write nothing.")
@options.force
@options.as_json
def compact_verb(**given: Any) -> None:
    """Compact a session until its next request fits a window: old tool results become stubs, old turns a checkpoint.

    The session is played from its beginning, compacted where a running agent would have been, by code alone: no model, no
    key, no network. Shown are what fills the window before and after, what was done and why, the checkpoint, and what was
    kept. Give --window, or --model to take its window; without either, the recorded model's is taken.

    \b
    Example:
      infold compact session.jsonl --window 64k -o request.json
    """
    asked = Asked(**given)
    recording = open_recording(asked.file, asked.format)
    session = chosen_session(recording, asked.session)
    outcome = _compacted(recording, session, asked)
    written = None if asked.preview or asked.output is None else _written(recording, outcome, asked)
    if written == "-":
        return
    if asked.as_json:
        click.echo(json_bytes(_as_json(recording, outcome, written)), nl=False)
        return
    show_outcome(console_for(plain=False), outcome, preview=asked.preview)
    click.echo(_ending(written, asked))


def _compacted(recording: Recording, session: RecordedSession, asked: Asked) -> Outcome:
    """Compact; what is too small is the window, which is all that this command can change."""
    try:
        return compacted(recording, session, Aim(asked.window, asked.model, asked.policy))
    except WindowExceeded as error:
        smallest = f"the smallest request has {error.floor_tokens:,} tokens"
        raise click.ClickException(f"{smallest}, {error.usable_tokens:,} are usable; give a larger --window") from error
    except PolicyError as error:
        raise click.ClickException(f"{error.problem}; give a larger --window") from error


def _written(recording: Recording, outcome: Outcome, asked: Asked) -> str:
    """Write the request; where it went."""
    assert asked.output is not None, "asked for only with -o"
    own_shape = asked.to is None and recording.request is not None
    content = json_bytes(outcome.body) if own_shape else in_shape(asked.to or "openai", (outcome.session,))
    if str(asked.output) == "-":
        click.echo(content, nl=False)
    else:
        write_file(asked.output, content, source=asked.file, force=asked.force)
    return str(asked.output)


def _ending(written: str | None, asked: Asked) -> str:
    if written is not None:
        return f"written to {written}"
    return "nothing was written" if asked.preview else "nothing was written; -o OUT writes the request"


def _as_json(recording: Recording, outcome: Outcome, written: str | None) -> dict[str, Any]:
    report, change = outcome.report, change_of(outcome)
    return {
        "file": str(recording.path),
        "format": recording.format,
        "session": outcome.session.id,
        "policy": report.policy,
        "budget": report.budget,
        "counting": {"exact": report.counting.is_exact, "margin": report.counting.margin},
        "changed": report.changed,
        "tokens": {"before": change.tokens_before, "after": change.tokens_after, "upper": report.upper_tokens},
        "by_category": {"before": change.before, "after": change.after},
        "events": [to_builtins(event) for event in report.events],
        "left": report.left,
        "checkpoint": checkpoint_of(report),
        "kept": [message.id for message in kept_messages(report)],
        "messages": {"before": len(report.history), "after": len(report.sent)},
        "written": written,
    }
