"""What fills a context window, by category: of a log's view, or of a recorded session.

A log's view is measured by kind of content, so that the sum over all categories is the log's own size exactly and a
provider's calibration applies; a recorded session is counted by the tokeniser of its model. Both use the categories of
`infold.session.report`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from heapq import nlargest
from itertools import groupby

from msgspec import Struct

from infold.catalogue import Assumed, Lookup, Prices, lookup
from infold.core.entries import handle_of
from infold.core.log import Log
from infold.core.logged_message import LoggedMessage
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Overhead,
    Part,
    ToolSchema,
    Usage,
    calls_of,
    is_genuine_user,
    results_of,
    text_of,
)
from infold.core.policy import Ruler
from infold.core.tokens import (
    MESSAGE_OVERHEAD_TOKENS,
    NO_SIZE,
    Calibration,
    Size,
    measure,
    measure_message,
    measure_part,
    size_of_parts,
    token_ruler,
)
from infold.reports.text import describe_part, part_text
from infold.session.counting import Counting, counting_for, tool_schemas
from infold.session.report import CATEGORIES, category_of, cost_of, speaker_category, tokens_by_category
from infold.transcripts.record import RecordedCompaction, RecordedSession

LARGEST_PARTS = 8
EXCERPT_CHARACTERS = 200

_FRAME = Size(prose=MESSAGE_OVERHEAD_TOKENS, loose=MESSAGE_OVERHEAD_TOKENS)


class LargePart(Struct, frozen=True):
    """One of the largest parts, by its handle `<message>.<part>`."""

    handle: str
    what: str
    tokens: int
    excerpt: str


# A log's view.


class ViewSizes(Struct, frozen=True):
    """The size of a log's view by category, without the system prompt and tools that are sent with it."""

    sizes: Mapping[str, Size]

    def plus(self, other: "ViewSizes") -> "ViewSizes":
        """Return the sum of both."""
        added = {name: self.sizes.get(name, NO_SIZE).plus(size) for name, size in other.sizes.items()}
        return ViewSizes({**self.sizes, **added})

    def minus(self, other: "ViewSizes") -> "ViewSizes":
        """Return what is left without the other, which is a part of this one."""
        left = {name: self.sizes.get(name, NO_SIZE).minus(size) for name, size in other.sizes.items()}
        return ViewSizes({**self.sizes, **left})

    def tokens(self, calibration: Calibration, overhead: Overhead) -> dict[str, int]:
        """Return the tokens by category, calibrated by reported usage, with system prompt and tools."""
        sent = {"system": overhead.system, "tools": overhead.tools}
        sums = {name: sent.get(name, 0) + calibration.apply(self.sizes.get(name, NO_SIZE)) for name in CATEGORIES}
        return {name: tokens for name, tokens in sums.items() if tokens}


def view_sizes(log: Log) -> ViewSizes:
    """Measure the view of a log."""
    sizes = ViewSizes({"summary": log.checkpoint_size})
    for placed in log.live:
        sizes = sizes.plus(message_sizes(log, placed))
    return sizes


def message_sizes(log: Log, placed: LoggedMessage) -> ViewSizes:
    """Measure one live message as the view shows it."""
    shown = log.shown(placed)
    ruler = token_ruler(log.rendering.estimate)
    is_measured = shown is placed.message and ruler == log.rendering.estimate
    measures = placed.measures if is_measured else measure_message(shown, ruler)
    sizes = {speaker_category(shown): _FRAME}
    for part, measured in zip(shown.parts, measures, strict=True):
        category = category_of(shown, part)
        if measured and not (category == "reasoning" and log.is_cleaned(placed)):
            sizes[category] = sizes.get(category, NO_SIZE).plus(size_of_parts((part,), (measured,)))
    return ViewSizes({**sizes, "results": sizes.get("results", NO_SIZE).plus(placed.added_size)})


class ViewContents(Struct, frozen=True):
    """What fills the window of an open session: tokens by category, the limit of a request, and the largest parts.

    `limit_tokens` and `window_tokens` are 0 if the window has no limit. `pinned` are handles.
    """

    tokens: Mapping[str, int]
    limit_tokens: int
    window_tokens: int
    largest: tuple[LargePart, ...]
    pinned: frozenset[str] = frozenset()

    @property
    def total_tokens(self) -> int:
        """All categories together."""
        return sum(self.tokens.values())

    @property
    def free_tokens(self) -> int:
        """How much may still be added to the request."""
        return max(0, self.limit_tokens - self.total_tokens)


def view_contents(
    log: Log, overhead: Overhead, *, tokens: int, limit_tokens: int, window_tokens: int, most_parts: int
) -> ViewContents:
    """Return what fills the window of a session whose next request was counted as that many `tokens`."""
    measured = view_sizes(log).tokens(log.calibration, overhead)
    factor = tokens / (sum(measured.values()) or 1)
    by_category = {name: round(count * factor) for name, count in measured.items()}
    parts = (
        (handle_of(placed.sequence, position), part)
        for placed in log.live
        for position, part in enumerate(log.shown(placed).parts)
    )
    largest = _largest(parts, token_ruler(log.rendering.estimate), most=most_parts, factor=factor)
    return ViewContents(by_category, limit_tokens, window_tokens, largest, frozenset(log.pins))


# A recorded session. "Now" is what its window holds at the end of the record, "whole" is the whole record.


class MeasuredBy(Struct, frozen=True):
    """How a recorded session is measured: the way of counting, its window and its model, if they are known."""

    counting: Counting
    window_tokens: int | None
    model: Lookup | None
    working_window_tokens: int | None = None

    def prices_at(self, tokens: int) -> Prices | None:
        """Return the model's prices for a request of that size, or `None` if they are not known."""
        return None if self.model is None else self.model.entry.prices_at(tokens)


def measured_by(session: RecordedSession, model: str | None, window_tokens: int | None) -> MeasuredBy:
    """Return how to measure a session: by the given model, or by the recorded one if the catalogue has it."""
    name = model or (session.model.id if session.model else None)
    found = None if name is None else lookup(name)
    if model is None and isinstance(found, Assumed):
        found = None
    window = window_tokens or (None if found is None else found.entry.input_limit_tokens)
    return MeasuredBy(counting_for(found.entry.family if found else "o200k"), window, found)


class TurnContents(Struct, frozen=True):
    """One turn: its first message, the user's words and its size; turn 0 is everything before the first user message."""

    number: int
    first_message: int
    said: str
    messages: int
    tokens: int


class ToolContents(Struct, frozen=True):
    """One tool: its calls, how many failed, and the tokens of calls and results."""

    tool: str
    calls: int
    failed: int
    call_tokens: int
    result_tokens: int

    @property
    def tokens(self) -> int:
        """Calls and results together."""
        return self.call_tokens + self.result_tokens


class SchemaContents(Struct, frozen=True):
    """The definition of one tool, which every request sends; `is_called`: the session has called the tool."""

    tool: str
    tokens: int
    is_called: bool


def schema_contents(schemas: Iterable[ToolSchema], called: Set[str]) -> tuple[SchemaContents, ...]:
    """Return the tools of a request, the largest definition first."""
    largest_first = sorted(schemas, key=lambda schema: (-schema.tokens, schema.name))
    return tuple(SchemaContents(schema.name, schema.tokens, schema.name in called) for schema in largest_first)


class RecordedUsage(Struct, frozen=True):
    """The sums of reported usage, the largest and the newest request, and the recorded cost."""

    replies: int
    input: int
    output: int
    reasoning: int
    cache_read: int
    cache_write: int
    largest_request_tokens: int
    newest_context_tokens: int
    cost_dollars: float


class RecordedContents(Struct, frozen=True):
    """What fills the window of a recorded session."""

    messages: int
    now: dict[str, int]
    whole: dict[str, int]
    turns: tuple[TurnContents, ...]
    tools: tuple[ToolContents, ...]
    schemas: tuple[SchemaContents, ...]
    largest: tuple[LargePart, ...]
    usage: RecordedUsage | None
    cost_dollars: dict[str, float] | None

    @property
    def now_tokens(self) -> int:
        """What the window holds at the end of the record."""
        return sum(self.now.values())

    @property
    def whole_tokens(self) -> int:
        """The whole record."""
        return sum(self.whole.values())


def recorded_contents(session: RecordedSession, measured: MeasuredBy) -> RecordedContents:
    """Measure a recorded session."""
    ruler = measured.counting.ruler
    extras = _extras(session, ruler)
    by_message = _by_message(session, ruler, _summary_ids(session))
    now = _sum(extras, by_message[first_in_window(session) :])
    prices = measured.prices_at(sum(now.values()))
    parts = (
        (handle_of(index, position), part)
        for index, message in enumerate(session.messages)
        for position, part in enumerate(message.parts)
    )
    tools = _tools(session.messages, ruler)
    return RecordedContents(
        messages=len(session.messages),
        now=now,
        whole=_sum(extras, by_message),
        turns=tuple(_turns(session.messages, [sum(tokens.values()) for tokens in by_message])),
        tools=tools,
        schemas=schema_contents(_schemas(session, ruler), {tool.tool for tool in tools if tool.calls}),
        largest=_largest(parts, ruler, most=LARGEST_PARTS),
        usage=_usage(session.messages),
        cost_dollars=None if prices is None else cost_of(now, prices),
    )


def session_tokens(session: RecordedSession, ruler: Ruler, original: RecordedSession | None = None) -> dict[str, int]:
    """Return the tokens of a whole record by category, with system prompt and tools.

    `original` is the session it was made of, which knows the recorded summaries.
    """
    summaries = _summary_ids(session if original is None else original)
    return _sum(_extras(session, ruler), _by_message(session, ruler, summaries))


def first_in_window(session: RecordedSession) -> int:
    """Return the index of the first message that the last recorded compaction left in the window."""
    if not session.compactions:
        return 0
    last = session.compactions[-1]
    return last.position if last.first_kept is None else min(last.first_kept, last.position)


def _summary_ids(session: RecordedSession) -> frozenset[MessageId]:
    """Return the messages that hold a recorded summary, whatever role the record gave them."""
    messages = session.messages
    return frozenset(messages[n].id for compaction in session.compactions for n in _summary_at(compaction, messages))


def _summary_at(compaction: RecordedCompaction, messages: Sequence[Message]) -> Iterator[int]:
    beginning = compaction.summary.strip()[:EXCERPT_CHARACTERS]
    for index in range(compaction.position, min(compaction.position + 3, len(messages))):
        if beginning and beginning in text_of(messages[index]):
            yield index
            return


def _extras(session: RecordedSession, ruler: Ruler) -> dict[str, int]:
    return {"system": measure(session.system, ruler), "tools": measure(session.tools, ruler)}


def _by_message(session: RecordedSession, ruler: Ruler, summaries: Set[MessageId]) -> list[dict[str, int]]:
    counted = [tokens_by_category((message,), ruler) for message in session.messages]
    return [
        {"summary": sum(tokens.values())} if message.id in summaries or _is_summary(message) else tokens
        for message, tokens in zip(session.messages, counted, strict=True)
    ]


def _is_summary(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and message.summary


def _sum(extras: Mapping[str, int], by_message: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums = Counter(extras)
    for tokens in by_message:
        sums.update(tokens)
    return {category: sums[category] for category in CATEGORIES}


def _turns(messages: Sequence[Message], tokens: Sequence[int]) -> Iterator[TurnContents]:
    number = 0
    numbers: list[int] = []
    for message in messages:
        number += is_genuine_user(message)
        numbers.append(number)
    for number, indices in groupby(range(len(messages)), key=numbers.__getitem__):
        held = list(indices)
        said = text_of(messages[held[0]])[:EXCERPT_CHARACTERS] if number else ""
        yield TurnContents(number, held[0], said, len(held), sum(tokens[index] for index in held))


def _tools(messages: Iterable[Message], ruler: Ruler) -> tuple[ToolContents, ...]:
    calls, failed, in_calls, in_results = (Counter[str]() for _ in range(4))
    for message in messages:
        for call in calls_of(message):
            calls[call.tool] += 1
            in_calls[call.tool] += measure_part(call, ruler)
        for result in results_of(message):
            failed[result.tool] += result.status != "completed"
            in_results[result.tool] += measure_part(result, ruler)
    names = {*in_calls, *in_results}
    tools = (ToolContents(name, calls[name], failed[name], in_calls[name], in_results[name]) for name in names)
    return tuple(sorted(tools, key=lambda tool: (-tool.tokens, tool.tool)))


def _schemas(session: RecordedSession, ruler: Ruler) -> tuple[ToolSchema, ...]:
    """Return the size of each tool: of the recorded tools, or as infold stored it with a reply."""
    if session.tools:
        return tool_schemas(session.tools, ruler)
    stored = (message.overhead for message in reversed(session.messages) if isinstance(message, AssistantMessage))
    return next((overhead.schemas for overhead in stored if overhead is not None and overhead.schemas), ())


def _largest(
    parts: Iterable[tuple[str, Part]], ruler: Ruler, *, most: int, factor: float = 1.0
) -> tuple[LargePart, ...]:
    measured = ((round(measure_part(part, ruler) * factor), handle, part) for handle, part in parts)
    largest = nlargest(most, (one for one in measured if one[0]), key=lambda one: one[0])
    return tuple(
        LargePart(handle, describe_part(part), tokens, part_text(part)[:EXCERPT_CHARACTERS])
        for tokens, handle, part in largest
    )


def _usage(messages: Iterable[Message]) -> RecordedUsage | None:
    replies = [message for message in messages if isinstance(message, AssistantMessage)]
    reports: list[Usage] = [reply.usage for reply in replies if reply.usage]
    if not reports:
        return None
    return RecordedUsage(
        replies=len(reports),
        input=sum(report.input for report in reports),
        output=sum(report.output for report in reports),
        reasoning=sum(report.reasoning for report in reports),
        cache_read=sum(report.cache_read for report in reports),
        cache_write=sum(report.cache_write for report in reports),
        largest_request_tokens=max(report.prompt for report in reports),
        newest_context_tokens=reports[-1].context,
        cost_dollars=sum(reply.cost for reply in replies),
    )
