"""What `fit` or a session did and why, as values and as text; and the events of a session as sentences."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, assert_never

from msgspec import Struct

from infold.catalogue import Assumed, Lookup, Prices, nearest_models
from infold.core import events
from infold.core.budget import Budget
from infold.core.entries import Checkpoint, Reason, handle_of
from infold.core.events import Clipped, Compacted, Event, Pruned
from infold.core.gauge import Gauge
from infold.core.messages import (
    KEPT_ID,
    AssistantMessage,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
    is_attached_or_own,
    is_summary,
    results_of,
)
from infold.core.policy import Ruler
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, measure, measure_part
from infold.session.counting import Counting, extra_text

CATEGORIES = ("system", "tools", "user", "injected", "assistant", "reasoning", "calls", "results", "media", "summary")
"""What fills a window, in the order it is shown."""


class RemovedPart(Struct, frozen=True):
    """Something that is no longer in the view: the item of the caller's list it stood in, what it is, and its tokens."""

    index: int
    handle: str
    what: str
    tokens: int


class Report(Struct, frozen=True):
    """All that `fit` did.

    `tokens_after` is what is sent, system prompt and tools included; `upper_tokens` the most it can be by the provider's
    count. `model` says where the window came from; none where it was given. `sources`, `edited` and `output_tokens` are those of
    `Fitted`. What takes a walk over all messages is worked out when it is asked for.
    """

    format: str
    policy: str
    budget: Budget
    tokens_after: int
    upper_tokens: int
    overhead_tokens: int
    counting: Counting
    events: tuple[Event, ...]
    model: Lookup | None
    history: tuple[Message, ...]
    sent: tuple[Message, ...]
    sequences: tuple[int, ...]
    items: tuple[int, ...] = ()
    beside: Mapping[str, int] = {}
    sources: tuple[int | None, ...] = ()
    edited: frozenset[int] = frozenset()
    prices: Prices | None = None
    output_tokens: int = 0

    @property
    def changed(self) -> bool:
        """Whether the request shows anything else than the history: something was hidden, folded or mended."""
        return bool(self.events) or self.sent != self.history

    @property
    def tokens_before(self) -> int:
        """The whole history, with system prompt and tools."""
        inside = tuple(message for message, number in zip(self.history, self.sequences, strict=True) if number >= 0)
        return self.overhead_tokens + sum(tokens_by_category(inside, self.counting.ruler).values())

    @property
    def before(self) -> dict[str, int]:
        """What fills the history, by category, system prompt and tools included."""
        return with_beside(tokens_by_category(self.history, self.counting.ruler), self.beside)

    @property
    def after(self) -> dict[str, int]:
        """What fills the request, by category, system prompt and tools included."""
        return with_beside(tokens_by_category(self.sent, self.counting.ruler), self.beside)

    @property
    def left(self) -> tuple[RemovedPart, ...]:
        """Everything of the caller's messages that the request does not show as it was."""
        return tuple(_left(self)) if self.changed else ()

    @property
    def cost(self) -> dict[str, float] | None:
        """Dollars for sending the request once, uncached, by category; none where the price is not known."""
        prices = self.prices or (None if self.model is None else self.model.entry.prices_at(self.tokens_after))
        return None if prices is None else cost_of(self.after, prices)

    def explain(self) -> str:
        """The report in words, a line each."""
        return "\n".join(_lines(self))


class RequestReport(Struct, frozen=True):
    """What a session did for one request, and what fills the request.

    `tokens_after` is what is sent, system prompt and tools included; `upper_tokens` the most it can be; `limit_tokens` the most
    it may be, 0 if the window has no limit. `is_exact`: the policy counts by the model's own tokeniser. `sent` are the messages
    as infold has them. `folded_messages` and `shortened_messages` are no longer in the view as they were, from this request or an
    earlier one.
    """

    policy: str
    tokens_after: int
    upper_tokens: int
    limit_tokens: int
    is_exact: bool
    ruler: Ruler
    events: tuple[Event, ...]
    model: Lookup | None
    sent: tuple[Message, ...]
    system: object = None
    tools: object = None
    folded_messages: int = 0
    shortened_messages: int = 0

    @property
    def changed(self) -> bool:
        """Whether something was hidden, folded or mended for this request."""
        return bool(self.events)

    @property
    def after(self) -> dict[str, int]:
        """What fills the request, by category, system prompt and tools included."""
        given = (("system", self.system), ("tools", self.tools))
        beside = {name: measure(extra_text(value), self.ruler) for name, value in given if value}
        return with_beside(tokens_by_category(self.sent, self.ruler), beside)

    def describe_size(self) -> str:
        """Return how full the window is, in a line."""
        counted = "counted exactly" if self.is_exact else "estimated"
        usable = f"{self.limit_tokens:,} usable" if self.limit_tokens else "a window without limit"
        return f"{self.policy}: {self.tokens_after:,} tokens ({counted}), at most {self.upper_tokens:,} of {usable}"

    def _describe_unchanged(self) -> str:
        earlier = ((self.folded_messages, "folded"), (self.shortened_messages, "shortened"))
        told = " and ".join(f"{_number(count, 'message')} {what}" for count, what in earlier if count)
        return f"nothing more was changed; {told} earlier" if told else "nothing was changed: it fits as it is"

    def explain(self) -> str:
        """Return the report in words, a line each."""
        done = map(describe_event, self.events) if self.events else (self._describe_unchanged(),)
        lines = (self.describe_size(), *_describe_window(self.model), *done, describe_contents(self.after))
        return "\n".join(lines)


class Ready(Struct, frozen=True):
    """A request that fits: its messages in the caller's shape, how full the window is, and what was done for it.

    The messages are typed as anything, so that a checker lets them be sent with whatever SDK they are for. `limit_tokens` is
    the most the request might have been; 0 if the window was declared to have no limit. `betas` are what the header
    `anthropic-beta` must name, because the provider's own summary is among the messages.

    `sources` has for each message the index of the one it is or was made from, in the list of the newest `prepare` or
    `prepare_new`; `None` for what infold wrote, and for what the session has of earlier calls. A message with a source is the
    given object itself, unless its position is in `edited`: then its content differs, as that of a result that was pruned.
    One that infold wrote may be the same object in the next request: change a copy.

    `output_tokens` is the most to ask for in reply: what was given, or less if the window has no room for both; 0 if nothing
    was. `end` is the number that the log's next entry had; `record` compares it with the log.
    """

    messages: list[Any]
    gauge: Gauge
    report: RequestReport
    betas: tuple[str, ...] = ()
    sources: tuple[int | None, ...] = ()
    edited: frozenset[int] = frozenset()
    output_tokens: int = 0
    end: int = 0

    @property
    def events(self) -> tuple[Event, ...]:
        """What was done for this request."""
        return self.report.events

    @property
    def limit_tokens(self) -> int:
        """The most that the request might have been; 0 if the window has no limit."""
        return self.report.limit_tokens

    def explain(self) -> str:
        """Return what was done for this request and why in words, a line each."""
        return self.report.explain()


class SessionReport(Struct, frozen=True):
    """How a session stands: how much it holds, how much of that was folded, and what its next request would be.

    `messages` counts those of the caller and the model, `folded` those of them that a checkpoint stands for. `cost` is in US
    dollars. `is_requested`: a compaction was requested and not carried out yet. `kept_steps` counts the folded steps that the
    view shows in their own form.
    """

    session_id: str
    request: RequestReport
    messages: int
    folded: int
    cost: float
    pinned: tuple[str, ...] = ()
    is_requested: bool = False
    kept_steps: int = 0

    def explain(self) -> str:
        """Return the report in words, a line each."""
        folded = f", {self.folded:,} of them folded{_describe_kept(self.kept_steps)}" if self.folded else ""
        cost = f"; ${self.cost:,.4f} so far" if self.cost else ""
        lines = [f"{self.session_id}: {_number(self.messages, 'message')}{folded}{cost}", self.request.describe_size()]
        lines += _describe_window(self.request.model)
        if self.pinned:
            lines.append(f"pinned: {', '.join(self.pinned)}")
        if self.is_requested:
            lines.append("a compaction is requested; the next request begins with it")
        return "\n".join([*lines, describe_contents(self.request.after)])


def describe_contents(after: Mapping[str, int]) -> str:
    """Return what fills a request in one line."""
    return "contents: " + (", ".join(f"{category} {count:,}" for category, count in after.items()) or "none")


def _describe_window(model: Lookup | None) -> Iterator[str]:
    """Yield that the window is a guess, and which known model may have been meant; nothing if it is known."""
    if isinstance(model, Assumed):
        near = nearest_models(model.entry.name)
        meant = f"did you mean {' or '.join(map(repr, near))}? Or " if near else ""
        yield f"window: {model.reason}; {meant}{model.advice}"


def tokens_by_category(messages: Iterable[Message], ruler: Ruler) -> dict[str, int]:
    """How many tokens of each category these messages hold; only categories that occur. Kept steps are part of the summary."""
    sums = dict.fromkeys(CATEGORIES, 0)
    for message in messages:
        is_kept = message.id.startswith(KEPT_ID)
        for part in message.parts:
            sums["summary" if is_kept else category_of(message, part)] += measure_part(part, ruler)
        sums[speaker_category(message)] += MESSAGE_OVERHEAD_TOKENS
    return {category: tokens for category, tokens in sums.items() if tokens}


def with_beside(tokens: Mapping[str, int], beside: Mapping[str, int]) -> dict[str, int]:
    """Both by category, in the order categories are shown."""
    sums = {category: tokens.get(category, 0) + beside.get(category, 0) for category in CATEGORIES}
    return {category: count for category, count in sums.items() if count}


def cost_of(tokens: Mapping[str, int], prices: Prices) -> dict[str, float]:
    """Dollars for sending that many tokens of each category as fresh input."""
    return {category: count * prices.input / 1_000_000 for category, count in tokens.items()}


def _left(report: Report) -> Iterator[RemovedPart]:
    kept = {message.id: message for message in report.sent}
    in_own_form = {part for message in report.sent if message.id.startswith(KEPT_ID) for part in message.parts}
    item = 0
    for index, (message, number) in enumerate(zip(report.history, report.sequences, strict=True)):
        items = report.items[index] if report.items else 1
        now = kept.get(message.id)
        if now is None and is_empty(message):
            yield RemovedPart(item, handle_of(number, 0), "empty message", 0)
        for position, part in enumerate(() if now is message or is_empty(message) else message.parts):
            if part not in in_own_form if now is None else not _is_shown(part, position, message, now):
                tokens = measure_part(part, report.counting.ruler)
                yield RemovedPart(item + min(position, items - 1), handle_of(number, position), part_name(part), tokens)
        item += items


def _is_shown(part: Part, position: int, message: Message, now: Message) -> bool:
    """Whether a message shows a part as it was, at its place or, where others are gone, at another."""
    if len(now.parts) == len(message.parts):
        return now.parts[position] == part
    return part in now.parts


def is_empty(message: Message) -> bool:
    """Return whether a message has no content at all."""
    return all(isinstance(part, TextPart) and not part.text.strip() for part in message.parts)


def part_name(part: Part) -> str:
    """Return what a part is, in a word or two."""
    if isinstance(part, ToolResultPart):
        return f"{part.tool or 'tool'} result"
    if isinstance(part, ToolCallPart):
        return f"{part.tool} call"
    return type(part).__name__.removesuffix("Part").lower()


def category_of(message: Message, part: Part) -> str:
    """Return the category of one part of a message."""
    match part:
        case ReasoningPart():
            return "reasoning"
        case ToolCallPart():
            return "calls"
        case ToolResultPart():
            return "results"
        case FilePart():
            return "media"
        case TextPart() if isinstance(message, UserMessage) and not is_attached_or_own(part) and not _is_own(message):
            return "injected"
        case _:
            return speaker_category(message)


def speaker_category(message: Message) -> str:
    """Return the category of a message's own words, by its role."""
    if _is_own(message) or is_summary(message):
        return "summary"
    if isinstance(message, SystemMessage):
        return "system"
    if isinstance(message, AssistantMessage):
        return "assistant"
    return "user" if isinstance(message, UserMessage) else "results"


def _is_own(message: Message) -> bool:
    return message.id.startswith(("checkpoint-", "request-", "summary-", KEPT_ID))


def _lines(report: Report) -> Iterator[str]:
    counted = "counted exactly" if report.counting.is_exact else "estimated"
    usable = f"{report.budget.limit_tokens:,} usable" if report.budget.bounded else "a window without limit"
    yield (
        f"{report.policy}: {report.tokens_before:,} → {report.tokens_after:,} tokens ({counted}), at most "
        f"{report.upper_tokens:,} of {usable}"
    )
    yield from _describe_window(report.model)
    if not report.events:
        yield "nothing was cut: it fits as it is" if report.changed else "nothing was changed: it fits as it is"
    for event in report.events:
        yield describe_event(event)
    left = report.left
    if left and report.events:
        yield f"no longer sent: {_number(len(left), 'part')}, {sum(part.tokens for part in left):,} tokens"
    if report.changed:
        yield from _mended(report)
    yield describe_contents(report.after)


def _mended(report: Report) -> Iterator[str]:
    """Yield what was changed because no provider accepts it."""
    empty = sum(left.what == "empty message" for left in report.left)
    known = {message.id for message in report.history}
    added = [message for message in report.sent if message.id not in known]
    answered = sum(result.status == "interrupted" for message in added for result in results_of(message))
    mended = (
        f"{_number(empty, 'empty message')} left out" if empty else "",
        f"{_number(answered, 'call')} without a result answered as interrupted" if answered else "",
    )
    if any(mended):
        yield f"mended: {', '.join(filter(None, mended))}"


REASONS: dict[Reason, str] = {
    "trigger": "the trigger was reached",
    "price": "continuing without it would have cost more",
    "task": "a task had ended and the trigger was near",
    "asked": "the model asked for it",
    "forced": "a reply was cut off for length",
    "overflow": "the provider refused the request as too large",
    "manual": "the user asked for it",
    "safety": "the request would not have fitted",
    "arrival": "it was too long",
    "import": "it was read from a transcript",
}
"""Why something was pruned, clipped or folded; each reads well after "because"."""


def _describe_change(event: Pruned | Clipped | Compacted) -> str:
    match event:
        case Pruned():
            what = f"pruned {_number(len(event.targets), 'old tool part')}"
        case Clipped():
            what = f"clipped {_number(len(event.targets), 'part')} too large for the window"
        case Compacted(folded_messages=0):
            what = "rewrote the checkpoint"
        case Compacted():
            what = f"folded {_number(event.folded_messages, 'message')}"
    own = "; this step is infold's own, the preset has none" if event.reason == "safety" else ""
    beyond = describe_saving(event) if isinstance(event, Pruned) else ""
    if isinstance(event, Compacted):
        beyond = f"{_describe_kept(event.kept_steps)}{describe_saving(event)}{_describe_review(event)}{describe_safety(event)}"
    change = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
    if not isinstance(event, Clipped) and event.counted_tokens:
        change += f" ({event.counted_tokens:,} before it by the preset's own measure)"
    return f"{what}: {change}, because {REASONS[event.reason]}{own}{beyond}"


def _describe_kept(steps: int) -> str:
    """Return how many of the folded steps stay in their own form; empty if none does."""
    return f"; {_number(steps, 'earlier step')} kept" if steps else ""


def describe_saving(step: Compacted | Pruned | Checkpoint) -> str:
    """Return what a step made for its price is expected to save; empty for any other step, and if it was not stored."""
    if step.reason != "price" or not (step.saving or step.saving_tokens):
        return ""
    if step.saving:
        return f"; it is expected to save ${step.saving:.{2 if step.saving >= 0.1 else 4}f}"
    return (
        f"; it is expected to save the price of {step.saving_tokens:,} tokens of input, at the usual ratios of prices, assumed "
        "because the model's own are not known"
    )


def _describe_review(event: Compacted) -> str:
    """Return what the judge did to the summary's sentences; empty if nothing."""
    done = ((event.marked, "marked"), (event.corrected, "corrected"), (event.removed, "removed"))
    told = ", ".join(f"{count} {what}" for count, what in done if count)
    return f"; sentences of the summary: {told}" if told else ""


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


SAFETY_STEPS = {
    "code-fold": "the summary failed; folding by code is infold's own step, the preset has none",
    "flattened": "the history was too large for the summariser as messages, so it read a flattened text",
}
"""What infold did beyond a document's preset, in words."""


def describe_event(event: Event) -> str:  # noqa: C901, PLR0911, PLR0912 - a sentence for each kind
    """What happened, in a sentence."""
    match event:
        case Pruned() | Clipped() | Compacted():
            return _describe_change(event)
        case events.InstructionStubbed():
            instructions = _number(len(event.handles), "instruction")
            return f"no longer shown word for word, too little room: {instructions} of the user"
        case events.StubRepeated():
            return f"message {event.message_id} repeats the text of a stub"
        case events.SummaryRejected():
            return f"a summary was rejected ({', '.join(event.faults)}){f': {event.error}' if event.error else ''}"
        case events.SummariserPaused():
            return f"code alone folds for {event.seconds:,} s, since summaries failed ({event.failures:,} in a row)"
        case events.SummariserResumed():
            return f"the summariser is asked again after {event.failures:,} failed compactions"
        case events.SummaryProgressed():
            return f"a summary is being written: {len(event.text):,} characters more"
        case events.CompactionVetoed():
            return f"a plugin vetoed the compaction: {event.why}"
        case events.PluginFailed():
            return f"the plugin {event.plugin} failed and was passed over: {event.problem}"
        case events.Rejected():
            return _describe_refusal(event)
        case events.OutputLowered():
            return f"the request asks for {event.sent_tokens:,} tokens of output, not {event.asked_tokens:,}, so that it fits"
        case events.PreparedAhead():
            return f"a summary was written ahead of need in {event.duration_ms / 1000:.1f} s"
        case events.PreparationDiscarded():
            return f"a summary written ahead was discarded: {event.why}"
        case events.Restored():
            return f"entry {event.sequence} was undone; the view has {event.tokens_after:,} tokens again"
        case events.FailedOpen():
            return f"a request was relayed unchanged: {event.problem}"
        case events.MediaNotStored():
            what = f"{event.name} ({event.media_type})" if event.name else event.media_type
            return f"{what} has {event.byte_size:,} bytes, over the limit of {event.limit_bytes:,}, and is not stored"
        case events.CacheMissed():
            return _describe_miss(event)
        case events.NotManaged():
            return f"a request was relayed at its own size: {event.why}"
        case events.WindowFound():
            return f"the window of {event.model} is {event.window_tokens:,} tokens, as {event.source} reports"
        case events.Repaired():
            return f"answered as interrupted, because there is no result: {_number(len(event.call_ids), 'call')}"
        case events.Exceeded():
            return f"still {event.floor_tokens:,} tokens for {event.usable_tokens:,} usable"
        case _:
            assert_never(event)


def _describe_refusal(event: events.Rejected) -> str:
    if event.outdated_thinking:
        messages = _number(event.outdated_thinking, "message")
        return f"the provider refused the thinking of {messages}, which is bound to another conversation; removed"
    if event.native:
        return "the provider refused a summary of its own; infold's text stands in its place"
    told = f", its limit is {event.limit_tokens:,}" if event.limit_tokens else ""
    return f"the provider refused a request estimated at {event.estimated_tokens:,} tokens{told}"


def _describe_miss(event: events.CacheMissed) -> str:
    lost = f"{event.tokens:,} tokens were read again{f', ${event.cost:.4f} more' if event.cost else ''}"
    if event.cause == "changed":
        return f"{lost}: the provider reports {event.reported}"
    idle, kept = f"{event.idle_seconds:,} s", f"{event.lifetime_seconds:,} s"
    return f"{lost}: the session was idle for {idle}, and the provider's cache keeps a request for {kept}"


def describe_safety(event: Compacted) -> str:
    """Return what a compaction did that its preset's document does not have, as the end of a line; empty for nothing."""
    return "".join(f"; {SAFETY_STEPS.get(name, name)}" for name in event.safety)
