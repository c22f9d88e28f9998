"""From log to the messages the model is sent.

`standing` is what the log holds after its newest checkpoint, as the documents' *filterCompacted* gives it. `view` is that, made
fit to send: hidden parts as stubs, unanswered calls answered as interrupted, late answers as text, nothing empty (B12).
The same log always gives the same messages, and a message that nothing changed is the very object that was appended.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Part,
    StepFinishPart,
    StepStartPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.core.placing import Placed
from infold.core.policy import SummaryPolicy
from infold.core.standins import interrupted, late_heading

__all__ = ["REQUEST_TEXT", "standing", "view", "without"]

REQUEST_TEXT = "Summarise the work so far, so that it can go on from the summary alone."
"""How a compaction request reads where a view shows it as something that was said."""


def standing(log: Log) -> tuple[Message, ...]:
    """The newest request and summary, then every message they did not fold, oldest first (*filterCompacted*, S4.1)."""
    pair = () if log.checkpoint is None else (log.checkpoint.request, log.checkpoint.summary)
    return (*(message for message in pair if message is not None), *(placed.message for placed in log.live))


def view(log: Log, summary: SummaryPolicy) -> tuple[Message, ...]:
    """The messages to send now; not empty unless the log is."""
    messages = tuple(_sendable(log))
    if messages and _broke_off(messages[-1]):
        messages = messages[:-1]
    return (*_opening(log, summary), *messages)


def _broke_off(message: Message) -> bool:
    """Whether a reply ended in an error: half an answer is nothing to go on from (I4)."""
    return isinstance(message, AssistantMessage) and (bool(message.error) or message.finish == "error")


def _opening(log: Log, summary: SummaryPolicy) -> tuple[Message, ...]:
    """What stands for the folded head."""
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


def _sendable(log: Log) -> Iterator[Message]:
    asking: Placed | None = None
    open_calls: dict[str, ToolCallPart] = {}
    held: list[tuple[Placed, Message]] = []
    altered, shows_all = log.altered, _shows_all_reasoning(log)
    for placed in log.live:
        if open_calls and not _may_follow_calls(placed):
            yield from _closed(asking, open_calls, held)
            open_calls, held = {}, []
        if not placed.is_sent:
            continue
        message = altered[placed.sequence].message if placed.sequence in altered else placed.message
        if placed.late:
            message = _with_late_as_text(message, placed)
        if not shows_all and (left_out := log.left_out_of(placed)) is not None:
            message = without(message, left_out)
            if not any(map(_says_something, message.parts)):
                continue
        if open_calls and (held or not placed.results or placed.results[0].call_id != next(iter(open_calls))):
            held.append((placed, message))  # until it is known which calls before it are never answered
            continue
        yield message
        if placed.calls:
            asking, open_calls = placed, {call.call_id: call for call in placed.calls}
        elif open_calls:
            for result in placed.results:
                open_calls.pop(result.call_id, None)
    yield from _closed(asking, open_calls, held)


def _may_follow_calls(placed: Placed) -> bool:
    """Whether a message answers a call of the step before it, or is a program's note in the midst of one."""
    return len(placed.late) < len(placed.results) or isinstance(placed.message, SystemMessage)


def _closed(
    asking: Placed | None, open_calls: dict[str, ToolCallPart], held: Sequence[tuple[Placed, Message]]
) -> Iterator[Message]:
    """What was held back of a step, with an answer for each call that has none.

    Answers stand in the order of their calls, and what a program noted in between comes after them (I1).
    """
    if asking is None or not open_calls:
        return
    places = {call.call_id: place for place, call in enumerate(asking.calls)}
    unanswered = set(open_calls).difference(result.call_id for placed, _ in held for result in placed.results)
    missing = [call for call_id, call in open_calls.items() if call_id in unanswered]
    notes: list[Message] = []
    for placed, message in held:
        answered = [places[result.call_id] for result in placed.results if result.call_id in open_calls]
        if not answered:
            notes.append(message)
            continue
        before = [call for call in missing if places[call.call_id] < min(answered)]
        yield from _interrupted(asking, places, before)
        missing = missing[len(before) :]
        yield message
    yield from _interrupted(asking, places, missing)
    yield from notes


def _with_late_as_text(message: Message, placed: Placed) -> Message:
    message = replace(message, parts=_late_as_text(message.parts, placed.late))
    if isinstance(message, ToolMessage) and len(placed.late) == len(placed.results):
        return UserMessage(message.id, message.parts, message.created_ms)
    return message


def _shows_all_reasoning(log: Log) -> bool:
    """Whether no live message has reasoning that the view leaves out; cheaper than asking for each."""
    is_cleaned = log.checkpoint is not None and log.checkpoint.cleaned
    return not is_cleaned and not (log.binds_thinking and log.live and log.live[0].sequence < log.thinking_from)


def without(message: Message, left_out: Callable[[Part], bool]) -> Message:
    """Return a message without these parts; the same one where it has none of them."""
    if not any(map(left_out, message.parts)):
        return message
    return replace(message, parts=tuple(part for part in message.parts if not left_out(part)))


def _says_something(part: Part) -> bool:
    if isinstance(part, TextPart):
        return not part.ignored and bool(part.text.strip())
    return not isinstance(part, StepStartPart | StepFinishPart)


def _late_as_text(parts: tuple[Part, ...], late: tuple[int, ...]) -> tuple[Part, ...]:
    return tuple(
        TextPart(f"{late_heading(part)}{part.output}", synthetic=True)
        if position in late and isinstance(part, ToolResultPart)
        else part
        for position, part in enumerate(parts)
    )


def _interrupted(asking: Placed, places: dict[str, int], calls: Sequence[ToolCallPart]) -> Iterator[ToolMessage]:
    if calls:
        number = f"{asking.sequence}.{places[calls[0].call_id]}"
        yield ToolMessage(MessageId(f"interrupted-{number}"), tuple(map(interrupted, calls)))
