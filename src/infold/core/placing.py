"""A message in its place: measured once, and marked with all that later decisions ask of it.

Decides, as a message is appended, whether its tool results answer calls that are still open, whether the message may be the
first one kept, and which of its parts pruning may hide. All of it follows from the messages before it alone, so that nothing
needs to be looked at again later.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

from msgspec import Struct

from infold.core.likeness import is_callers
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    is_compaction_request,
    is_genuine_user,
    is_signed,
    results_of,
)
from infold.core.policy import Ruler
from infold.core.standins import size_of_interrupted, size_of_late
from infold.core.stubs import is_prunable
from infold.core.tokens import NO_SIZE, Size, measure_message, measure_part, size_of, size_of_parts, token_ruler
from infold.errors import DuplicateId, OrphanResult


class Run(Struct, frozen=True):
    """Where the log stands: the calls of the newest step, answered or not, and whether signed reasoning opened its loop."""

    step: frozenset[str] = frozenset()
    sealed: bool = False


class Placed(Struct, frozen=True):
    """A message, the number of its entry, its measures, and what may be done with it.

    `cuttable`: it may be the first kept message (B12). `prunable`: positions pruning may hide, last first. `late`: positions
    of results that came after their step had closed; the view shows those as text. `beside`: what of its size a view adds to it,
    such as answers to calls that it leaves without one. `is_sent`: a view shows it; `is_blank`: there is nothing in it for a
    model, which some providers refuse. `links`: ids that its opaque parts share with their partners.
    `is_users`: it begins a user turn; `is_persons`: a person said it. `is_business`: it is about compaction, not work;
    `is_summary`: it stands for what was said before it, whoever wrote it; `is_own`: infold made it, and no caller's list has it.
    `has_thinking`: it holds reasoning that its provider sealed.
    """

    sequence: int
    message: Message
    measures: tuple[int, ...]
    measured: int
    size: Size
    beside: Size = NO_SIZE
    calls: tuple[ToolCallPart, ...] = ()
    results: tuple[ToolResultPart, ...] = ()
    late: tuple[int, ...] = ()
    prunable: tuple[int, ...] = ()
    cuttable: bool = True
    is_sent: bool = True
    is_blank: bool = False
    links: tuple[str, ...] = ()
    is_users: bool = False
    is_persons: bool = False
    is_business: bool = False
    is_summary: bool = False
    has_media: bool = False
    is_own: bool = False
    has_thinking: bool = False


class Placing(Struct, frozen=True):
    """A message in its place, and where the log stands after it."""

    placed: Placed
    run: Run


def place(message: Message, sequence: int, run: Run, is_unanswered: Callable[[str], bool], rule: Ruler) -> Placing:
    """Measure a message and fit it to what came before; raise `OrphanResult` for a result whose call is not open."""
    calls, results = calls_of(message), results_of(message)
    _check_calls(calls)
    _check_results(message, results, is_unanswered)
    measures = measure_message(message, rule)
    in_tokens = token_ruler(rule)
    tokens = measures if in_tokens == rule else measure_message(message, in_tokens)
    signed = is_signed(message)
    bound = run.sealed and not signed and isinstance(message, AssistantMessage)
    late = _late_positions(message, run) if results else ()
    business = _is_business(message)
    closes = not (results or business or isinstance(message, SystemMessage | ToolMessage))
    left_open = sum(map(is_unanswered, run.step)) if closes else 0
    beside = _beside(message, late, left_open, rule) if late or left_open else NO_SIZE
    placed = Placed(
        sequence=sequence,
        message=message,
        measures=measures,
        measured=sum(measures),
        size=size_of(message, tokens).plus(beside),
        beside=beside,
        calls=calls,
        results=results,
        late=late,
        prunable=_prunable_positions(message, sealed=signed or bound, late=late) if calls or results else (),
        cuttable=not (results or bound or business or isinstance(message, ToolMessage | SystemMessage)),
        is_sent=not business and (not message.parts or any(map(_is_sendable, message.parts))),
        is_blank=not any(map(_has_content, message.parts)),
        links=tuple(link for part in message.parts if isinstance(part, TextPart) for link in part.links),
        is_users=isinstance(message, UserMessage),
        is_persons=is_genuine_user(message),
        is_business=business,
        is_summary=isinstance(message, AssistantMessage) and (message.summary or message.foreign_summary),
        has_media=media_bytes(message) > 0,
        is_own=not is_callers(message),
        has_thinking=signed and any(map(is_sealed_reasoning, message.parts)),
    )
    return Placing(placed, _run_after(placed, Run(run.step, run.sealed or signed)))


def _beside(message: Message, late: tuple[int, ...], left_open: int, rule: Ruler) -> Size:
    """Return the size of what a view adds: answers to calls left open, and headings of results shown as text."""
    shown = (message.parts[position] for position in late)
    headings = size_of_late((part for part in shown if isinstance(part, ToolResultPart)), rule)
    return headings.plus(size_of_interrupted(left_open, rule))


def run_after(messages: Iterable[Placed]) -> Run:
    """Where a log stands that holds these messages and nothing else."""
    run = Run()
    for placed in messages:
        run = _run_after(placed, Run(run.step, run.sealed or is_signed(placed.message)))
    return run


def media_bytes(message: Message) -> int:
    """The bytes of a message's media, those inside tool results included (I14)."""
    return sum(map(part_bytes, message.parts))


def part_bytes(part: Part) -> int:
    """Return the bytes of a part that is a medium, or of the media inside a tool result."""
    if isinstance(part, ToolResultPart):
        return sum(file.byte_size for file in part.files)
    return part.byte_size if isinstance(part, FilePart) else 0


def measures_of(placed: Placed, wanted: Callable[[Part], bool]) -> int:
    """Return what the wanted parts of a message measure."""
    pairs = zip(placed.message.parts, placed.measures, strict=True)
    return sum(measured for part, measured in pairs if wanted(part))


def size_of_chosen(placed: Placed, wanted: Callable[[Part], bool], rule: Ruler) -> Size:
    """Return the size of the wanted parts of a message."""
    parts = tuple(part for part in placed.message.parts if wanted(part))
    in_tokens = token_ruler(rule)
    return size_of_parts(parts, tuple(measure_part(part, in_tokens) for part in parts))


def is_loose_reasoning(part: Part) -> bool:
    """Whether a part is reasoning that nothing seals; what a provider sealed goes with its whole loop or not at all (B12)."""
    return isinstance(part, ReasoningPart) and not part.provider_data


def is_sealed_reasoning(part: Part) -> bool:
    """Whether a part is reasoning that its provider sealed."""
    return isinstance(part, ReasoningPart) and part.provider_data != ""


def _check_calls(calls: Iterable[ToolCallPart]) -> None:
    seen: set[str] = set()
    for call in calls:
        if call.call_id in seen:
            raise DuplicateId("tool call", call.call_id)
        seen.add(call.call_id)


def _check_results(message: Message, results: Iterable[ToolResultPart], is_unanswered: Callable[[str], bool]) -> None:
    seen: set[str] = set()
    for result in results:
        if result.call_id in seen:
            raise OrphanResult(result.call_id, message_id=message.id, problem="which it answers twice")
        if not is_unanswered(result.call_id):
            raise OrphanResult(result.call_id, message_id=message.id, problem="which no earlier message leaves open")
        seen.add(result.call_id)


def _late_positions(message: Message, run: Run) -> tuple[int, ...]:
    return tuple(
        position
        for position, part in enumerate(message.parts)
        if isinstance(part, ToolResultPart) and part.call_id not in run.step
    )


def _prunable_positions(message: Message, *, sealed: bool, late: tuple[int, ...]) -> tuple[int, ...]:
    """What pruning may hide, last first; calls bound to signed reasoning must stay as they are (B24)."""
    parts, shown_as_text = message.parts, frozenset(late)
    return tuple(
        position
        for position in range(len(parts) - 1, -1, -1)
        if position not in shown_as_text
        and is_prunable(parts[position])
        and not (sealed and isinstance(parts[position], ToolCallPart))
    )


def _is_business(message: Message) -> bool:
    return is_compaction_request(message) or (isinstance(message, AssistantMessage) and message.summary)


def _is_sendable(part: Part) -> bool:
    """Whether a part is of a kind that requests hold, with or without content."""
    if isinstance(part, TextPart):
        return not part.ignored
    return isinstance(part, ReasoningPart | ToolCallPart | ToolResultPart | FilePart)


def _has_content(part: Part) -> bool:
    """Whether a part is anything to a provider; reasoning alone is, where the provider sealed it."""
    match part:
        case TextPart():
            return not part.ignored and bool(part.text.strip())
        case ReasoningPart():
            return part.provider_data != ""
        case ToolCallPart() | ToolResultPart() | FilePart():
            return True
        case _:
            return False


def _run_after(placed: Placed, run: Run) -> Run:
    """Return where the log stands after a message; what is about compaction is not sent, and closes nothing."""
    if placed.is_business:
        return run
    match placed.message:
        case AssistantMessage():
            return Run(frozenset(call.call_id for call in placed.calls), run.sealed)
        case UserMessage() if not placed.results:
            return Run()
        case UserMessage() | ToolMessage() | SystemMessage():
            return run
        case _:
            assert_never(placed.message)
