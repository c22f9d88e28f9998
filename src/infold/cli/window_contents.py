"""What fills a session's window: by category, by turn, by tool; its largest parts; what it recorded of itself.

Counts and sorts, draws nothing. *Now* is what a window would hold at the end of the record, that is after its last real
compaction; *whole* is everything that was ever said.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from heapq import nlargest
from itertools import groupby

from msgspec import Struct

from infold.catalogue import Assumed, Lookup, Prices, lookup
from infold.cli.render import content_of, what_of
from infold.core.entries import handle_of
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Usage,
    calls_of,
    is_genuine_user,
    results_of,
    text_of,
)
from infold.core.policy import Ruler
from infold.core.tokens import measure, measure_part
from infold.session.counting import Counting, counting_for
from infold.session.report import CATEGORIES, cost_of, tokens_by_category
from infold.transcripts.record import RecordedCompaction, RecordedSession


class Yardstick(Struct, frozen=True):
    """What a session is measured by: the way of counting, the window if one is known, and the model it is from."""

    counting: Counting
    window_tokens: int | None
    model: Lookup | None

    def prices_at(self, tokens: int) -> Prices | None:
        """The model's prices for a request of that size, where they are known."""
        return None if self.model is None else self.model.entry.prices_at(tokens)


def yardstick_for(session: RecordedSession, model: str | None, window_tokens: int | None) -> Yardstick:
    """How to measure a session: by the model asked for, else by the one it recorded if that is known."""
    name = model or (session.model.id if session.model else None)
    found = None if name is None else lookup(name)
    if model is None and isinstance(found, Assumed):
        found = None
    window = window_tokens or (None if found is None else found.entry.input_limit_tokens)
    return Yardstick(counting_for(found.entry.family if found else "o200k"), window, found)


LARGEST_PARTS = 8


EXCERPT_CHARACTERS = 200


class TurnFilling(Struct, frozen=True):
    """One turn: the number of its first message, what the user said, and how much it holds; turn 0 is what came before."""

    number: int
    first_message: int
    said: str
    messages: int
    tokens: int


class ToolFilling(Struct, frozen=True):
    """One tool: how often it was called, how often that failed, and what calls and results take."""

    tool: str
    calls: int
    failed: int
    call_tokens: int
    result_tokens: int

    @property
    def tokens(self) -> int:
        """Calls and results together."""
        return self.call_tokens + self.result_tokens


class LargePart(Struct, frozen=True):
    """One of the largest parts, by its handle `<message>.<part>`."""

    handle: str
    what: str
    tokens: int
    excerpt: str


class RecordedUsage(Struct, frozen=True):
    """The sums of what a provider reported, the largest and the newest request, and the cost the record names."""

    replies: int
    input: int
    output: int
    reasoning: int
    cache_read: int
    cache_write: int
    largest_request_tokens: int
    newest_context_tokens: int
    cost_dollars: float


class Filling(Struct, frozen=True):
    """All that can be said of what fills a session's window."""

    messages: int
    now: dict[str, int]
    whole: dict[str, int]
    turns: tuple[TurnFilling, ...]
    tools: tuple[ToolFilling, ...]
    largest: tuple[LargePart, ...]
    usage: RecordedUsage | None
    cost_dollars: dict[str, float] | None

    @property
    def now_tokens(self) -> int:
        """What the window holds at the end."""
        return sum(self.now.values())

    @property
    def whole_tokens(self) -> int:
        """All that was ever said."""
        return sum(self.whole.values())


def filling_of(session: RecordedSession, yardstick: Yardstick) -> Filling:
    """Measure a session."""
    ruler = yardstick.counting.ruler
    beside = _beside(session, ruler)
    tallies = _tallies(session, ruler, _summary_ids(session))
    now = _added(beside, tallies[standing_from(session) :])
    whole = _added(beside, tallies)
    prices = yardstick.prices_at(sum(now.values()))
    return Filling(
        messages=len(session.messages),
        now=now,
        whole=whole,
        turns=tuple(_turns(session.messages, [sum(tally.values()) for tally in tallies])),
        tools=_tools(session.messages, ruler),
        largest=_largest(session.messages, ruler),
        usage=_usage(session.messages),
        cost_dollars=None if prices is None else cost_of(now, prices),
    )


def by_category(session: RecordedSession, ruler: Ruler, recorded: RecordedSession | None = None) -> dict[str, int]:
    """The tokens of a session's whole record, with system prompt and tools, by category.

    `recorded` is the session it was made of, which knows what of it is a summary.
    """
    tallies = _tallies(session, ruler, _summary_ids(session if recorded is None else recorded))
    return _added(_beside(session, ruler), tallies)


def size_of_session(session: RecordedSession, ruler: Ruler) -> int:
    """The tokens of a session's whole record, with system prompt and tools."""
    return sum(_beside(session, ruler).values()) + sum(tokens_by_category(session.messages, ruler).values())


# What stands, and what is a summary.


def standing_from(session: RecordedSession) -> int:
    """The first message that the last real compaction left in the window."""
    if not session.compactions:
        return 0
    last = session.compactions[-1]
    return last.position if last.first_kept is None else min(last.first_kept, last.position)


def _summary_ids(session: RecordedSession) -> frozenset[MessageId]:
    """The messages that bear a recorded summary, whatever role the record gave them."""
    messages = session.messages
    return frozenset(messages[n].id for compaction in session.compactions for n in _summary_at(compaction, messages))


def _summary_at(compaction: RecordedCompaction, messages: Sequence[Message]) -> Iterator[int]:
    beginning = compaction.summary.strip()[:EXCERPT_CHARACTERS]
    for index in range(compaction.position, min(compaction.position + 3, len(messages))):
        if beginning and beginning in text_of(messages[index]):
            yield index
            return


# Adding up.


def _beside(session: RecordedSession, ruler: Ruler) -> dict[str, int]:
    return {"system": measure(session.system, ruler), "tools": measure(session.tools, ruler)}


def _tallies(session: RecordedSession, ruler: Ruler, summaries: Set[MessageId]) -> list[dict[str, int]]:
    return [_tally(message, ruler, is_summary=message.id in summaries) for message in session.messages]


def _tally(message: Message, ruler: Ruler, *, is_summary: bool) -> dict[str, int]:
    tally = tokens_by_category((message,), ruler)
    is_summary = is_summary or (isinstance(message, AssistantMessage) and message.summary)
    return {"summary": sum(tally.values())} if is_summary else tally


def _added(beside: Mapping[str, int], tallies: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums = Counter(beside)
    for tally in tallies:
        sums.update(tally)
    return {category: sums[category] for category in CATEGORIES}


def _turns(messages: Sequence[Message], tokens: Sequence[int]) -> Iterator[TurnFilling]:
    number = 0
    numbers: list[int] = []
    for message in messages:
        number += is_genuine_user(message)
        numbers.append(number)
    for number, indices in groupby(range(len(messages)), key=numbers.__getitem__):
        held = list(indices)
        said = text_of(messages[held[0]])[:EXCERPT_CHARACTERS] if number else ""
        yield TurnFilling(number, held[0], said, len(held), sum(tokens[index] for index in held))


def _tools(messages: Iterable[Message], ruler: Ruler) -> tuple[ToolFilling, ...]:
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    asked: defaultdict[str, int] = defaultdict(int)
    answered: defaultdict[str, int] = defaultdict(int)
    for message in messages:
        for call in calls_of(message):
            calls[call.tool] += 1
            asked[call.tool] += measure_part(call, ruler)
        for result in results_of(message):
            failed[result.tool] += result.status != "completed"
            answered[result.tool] += measure_part(result, ruler)
    tools = (
        ToolFilling(name, calls[name], failed[name], asked[name], answered[name]) for name in {**asked, **answered}
    )
    return tuple(sorted(tools, key=lambda tool: (-tool.tokens, tool.tool)))


def _largest(messages: Iterable[Message], ruler: Ruler) -> tuple[LargePart, ...]:
    measured = (
        (measure_part(part, ruler), -index, -position, part)
        for index, message in enumerate(messages)
        for position, part in enumerate(message.parts)
    )
    largest = nlargest(LARGEST_PARTS, measured, key=lambda found: found[:3])
    return tuple(
        LargePart(handle_of(-index, -position), what_of(part), tokens, content_of(part)[:EXCERPT_CHARACTERS])
        for tokens, index, position, part in largest
        if tokens
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
