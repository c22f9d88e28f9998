"""How `infold compact` looks: before and after by category, what was done and why, the checkpoint, what was kept."""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct
from rich.box import ASCII, ROUNDED
from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from infold.api.report import Report
from infold.cli.compacting import Outcome, checkpoint_of
from infold.cli.filling import by_category
from infold.cli.parts import content_of, what_of, who_of
from infold.cli.render import CATEGORIES, Bar, counted, event_text, heading, legible, narrowable, one_line, thousands
from infold.core.events import Clipped, Compacted, Exceeded, Pruned
from infold.core.messages import Message

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
