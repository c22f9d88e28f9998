"""From the log to the messages the model is sent.

`standing` is what the log holds after its newest checkpoint, as the documents' *filterCompacted* returns it. `view` is
that, made ready to send. While nothing is hidden or folded, a list that the caller passes whole is sent unchanged,
except that calls without any result are answered as interrupted. Where something is hidden or folded, or infold
assembled the view from what it recorded, late results also become text, and replies without content are left out. A
user message is never left out for having no content: as the newest one it is what the model is to answer. The same log
always gives the same messages, and an unchanged message is the very object that was appended.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from infold.core.log import Log
from infold.core.logged_message import BETWEEN_TURNS, LoggedMessage, interrupted_result, late_heading
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Part,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    results_of,
)
from infold.core.policy import SummaryPolicy

_INTERRUPTED = "interrupted-"
"""Prefix of the ids of messages that answer calls without a result."""

REQUEST_TEXT = "Summarise the work so far, so that it can go on from the summary alone."
"""The text of a compaction request if a view shows it as a message."""


def filter_compacted(log: Log) -> tuple[Message, ...]:
    """Return the newest request and summary, then every message they did not fold, oldest first (*filterCompacted*)."""
    pair = () if log.checkpoint is None else (log.checkpoint.request, log.checkpoint.summary)
    return (*(message for message in pair if message is not None), *(logged.message for logged in log.live))


def view(log: Log, summary: SummaryPolicy, *, brought: bool = False) -> tuple[Message, ...]:
    """Return the messages to send now; not empty unless the log is.

    `brought`: the caller passes its whole list with each request and expects every message in it to be sent. Otherwise
    a recorded reply without content is left out, and so is one that ended in an error if nothing follows it; and a
    result that came after its step becomes text, since an earlier request has already answered its call as interrupted.
    """
    messages = tuple(_sendable(log, brought=brought))
    if messages and not brought and _ended_in_error(messages[-1]):
        messages = messages[:-1]
    if log.native:
        return (*log.native, *_with_note(log, messages))
    first = (message for message in log.state if isinstance(message, AssistantMessage))  # as providers want summaries
    rest = (message for message in log.state if not isinstance(message, AssistantMessage))
    return (*first, *_checkpoint_messages(log, summary), *log.kept, *rest, *messages)


def answered_as_interrupted(messages: Iterable[Message]) -> frozenset[str]:
    """Return the ids of the calls that a view answers because they have no result."""
    own = (message for message in messages if message.id.startswith(_INTERRUPTED))
    return frozenset(result.call_id for message in own for result in results_of(message))


def _ended_in_error(message: Message) -> bool:
    """Return whether a reply ended in an error: half an answer cannot be continued."""
    return isinstance(message, AssistantMessage) and (bool(message.error) or message.finish == "error")


def _with_note(log: Log, messages: Sequence[Message]) -> Iterator[Message]:
    """Yield messages with the state and the note of a checkpoint that the provider summarised, where it was appended.

    Nothing may come between the provider's summary and the first kept message, and a note that moved would outdate all
    thinking after it. Results stay with their calls.
    """
    note = UserMessage(MessageId(f"note-{log.checkpoint_sequence}"), (TextPart(log.checkpoint_text, synthetic=True),))
    later = {
        logged.message.id for logged in log.live if logged.sequence > log.checkpoint_sequence and not logged.results
    }
    due = (*log.state, *((note,) if log.checkpoint_text else ()))
    for message in messages:
        if due and message.id in later:
            yield from due
            due = ()
        yield message
    yield from due


def _checkpoint_messages(log: Log, summary: SummaryPolicy) -> tuple[Message, ...]:
    """Return the messages that replace the folded head."""
    checkpoint, number = log.checkpoint, log.checkpoint_sequence
    if checkpoint is None or not checkpoint.text:
        return ()
    if summary.shape == "marked":
        return (UserMessage(MessageId(f"checkpoint-{number}"), (TextPart(checkpoint.text, synthetic=True),)),)
    asked = checkpoint.request or UserMessage(MessageId(f"request-{number}"), ())
    told = checkpoint.summary or AssistantMessage(
        MessageId(f"summary-{number}"),
        (),
        parent_id=asked.id,
        mode="compaction",
        agent="compaction",
        summary=True,
        finish="stop",
    )
    answer = replace(told, parts=(TextPart(checkpoint.text),))
    if summary.shape == "alone":
        return (answer,)
    return (replace(asked, parts=(TextPart(REQUEST_TEXT, synthetic=True),)), answer)


def _sendable(log: Log, *, brought: bool) -> Iterator[Message]:
    live, shows_all = log.live, _shows_all_reasoning(log)
    is_changed = log.checkpoint is not None or bool(log.altered) or not shows_all
    is_repaired = is_changed or not brought
    answered = _calls_answered_elsewhere(log.linked, late_counts=not is_repaired)
    step: _Step | None = None
    for index, logged in enumerate(live):
        if step is not None and not logged.results and not isinstance(logged.message, BETWEEN_TURNS):
            yield from step.closed(in_order=is_changed)
            step = None
        if not logged.is_sent or (
            logged.is_blank and (is_changed or not (brought or _is_callers_message(logged.message)))
        ):
            continue
        message = log.shown(logged) if log.altered else logged.message
        if is_repaired and logged.late:
            message = _with_late_as_text(message, logged)
        if not shows_all and (left_out := log.left_out_of(logged)) is not None:
            message = without(message, left_out)
            if not any(map(_says_something, message.parts)):
                continue
        if logged.calls:
            is_answered_next = index + 1 < len(live) and _call_ids(live[index + 1].results) == _call_ids(logged.calls)
            step = None if is_answered_next else _Step(logged, answered)
        elif step is not None and step.holds_back(logged.results):
            step.held.append((logged, message))
            continue
        yield message
    if step is not None:
        yield from step.closed(in_order=is_changed)


def _calls_answered_elsewhere(linked: Sequence[LoggedMessage], *, late_counts: bool) -> frozenset[str]:
    """Return the calls that an opaque part names, and those with a late result that stays a result."""
    late = (result.call_id for logged in linked if late_counts and logged.late for result in logged.results)
    return frozenset((*late, *(link for logged in linked for link in logged.links)))


def _is_callers_message(message: Message) -> bool:
    """Return whether the caller wrote this message, instead of a recorded reply."""
    return not isinstance(message, AssistantMessage) or message.finish is None


def _call_ids(parts: Sequence[ToolCallPart | ToolResultPart]) -> list[str]:
    return [part.call_id for part in parts]


class _Step:
    """The calls of one message while their results are read; messages after the first missing result are held back.

    `answered` are calls whose result is elsewhere.
    """

    def __init__(self, asking: LoggedMessage, answered: frozenset[str]) -> None:
        self.held: list[tuple[LoggedMessage, Message]] = []
        self._sequence = asking.sequence
        self._calls = asking.calls
        self._places = {call.call_id: place for place, call in enumerate(self._calls)}
        self._answered = set(answered)
        self._next = 0

    def holds_back(self, results: Sequence[ToolResultPart]) -> bool:
        """Take in results; return whether their message must wait until it is known which earlier calls have none."""
        while self._next < len(self._calls) and self._calls[self._next].call_id in self._answered:
            self._next += 1
        if self._next == len(self._calls) and not self.held:
            return False
        is_next = bool(results) and not self.held and results[0].call_id == self._calls[self._next].call_id
        self._answered.update(result.call_id for result in results)
        return not is_next

    def closed(self, *, in_order: bool) -> Iterator[Message]:
        """Yield what was held back, with an answer for each call that has none.

        Answers are in the order of their calls, followed by notes of programs. A step without a missing result is left
        unchanged, unless it is put `in_order` because infold changes the request anyway.
        """
        missing = [call for call in self._calls if call.call_id not in self._answered]
        if not missing and not in_order:
            yield from (message for _, message in self.held)
            return
        notes: list[Message] = []
        told = 0
        for logged, message in self.held:
            places = [self._places[result.call_id] for result in logged.results if result.call_id in self._places]
            if not places:
                notes.append(message)
                continue
            begun = told
            while told < len(missing) and self._places[missing[told].call_id] < min(places):
                told += 1
            yield from self._interrupted(missing[begun:told])
            yield message
        yield from self._interrupted(missing[told:])
        yield from notes

    def _interrupted(self, calls: Sequence[ToolCallPart]) -> Iterator[ToolMessage]:
        if calls:
            number = f"{self._sequence}.{self._places[calls[0].call_id]}"
            yield ToolMessage(MessageId(f"{_INTERRUPTED}{number}"), tuple(map(interrupted_result, calls)))


def _with_late_as_text(message: Message, logged: LoggedMessage) -> Message:
    message = replace(message, parts=_late_as_text(message.parts, logged.late))
    if isinstance(message, ToolMessage) and len(logged.late) == len(logged.results):
        return UserMessage(message.id, message.parts, message.created_ms)
    return message


def _shows_all_reasoning(log: Log) -> bool:
    """Return whether the view shows all reasoning of the live messages; cheaper than checking each."""
    is_cleaned = log.checkpoint is not None and log.checkpoint.cleaned
    return not is_cleaned and not (log.binds_thinking and log.live and log.live[0].sequence < log.thinking_from)


def without(message: Message, left_out: Callable[[Part], bool]) -> Message:
    """Return a message without these parts; the same object if it has none of them."""
    if not any(map(left_out, message.parts)):
        return message
    return replace(message, parts=tuple(part for part in message.parts if not left_out(part)))


def _says_something(part: Part) -> bool:
    if isinstance(part, TextPart):
        return not part.ignored and bool(part.text.strip())
    return not isinstance(part, StepStartPart | StepFinishPart)


def _late_as_text(parts: tuple[Part, ...], late: tuple[int, ...]) -> tuple[Part, ...]:
    positions = frozenset(late)
    return tuple(
        TextPart(f"{late_heading(part)}{part.output}", synthetic=True)
        if position in positions and isinstance(part, ToolResultPart)
        else part
        for position, part in enumerate(parts)
    )
