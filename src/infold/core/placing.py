"""A message in its place: measured once, and marked with all that later decisions ask of it.

Decides, as a message is appended, whether its tool results answer calls that are still open, whether the message may be the
first one kept, and which of its parts pruning may hide. All of it follows from the messages before it alone, so that nothing
needs to be looked at again later.
"""

from collections.abc import Callable, Iterable, Set
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

__all__ = [
    "Placed",
    "Placing",
    "Run",
    "is_loose_reasoning",
    "is_sealed_reasoning",
    "measures_of",
    "media_bytes",
    "place",
    "run_after",
    "size_of_chosen",
]


class Run(Struct, frozen=True):
    """Where the log stands: the newest step's unanswered calls, and whether its loop was opened by signed reasoning."""

    open_calls: frozenset[str] = frozenset()
    sealed: bool = False


class Placed(Struct, frozen=True):
    """A message, the number of its entry, its measures, and what may be done with it.

    `cuttable`: it may be the first kept message (B12). `prunable`: positions pruning may hide, last first. `late`: positions
    of results that came after their step had closed; the view shows those as text. `beside`: what of its size a view adds to it,
    such as answers to calls that it leaves without one. `is_sent`: a view shows anything of it.
    `is_users`: it begins a user turn; `is_persons`: a person said it. `is_business`: it is about compaction, not work;
    `is_own`: infold made it, and no caller's list has it. `has_thinking`: it holds reasoning that its provider sealed.
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
    is_users: bool = False
    is_persons: bool = False
    is_business: bool = False
    has_media: bool = False
    is_own: bool = False
    has_thinking: bool = False


class Placing(Struct, frozen=True):
    """A message in its place, and where the log stands after it."""

    placed: Placed
    run: Run


def place(message: Message, sequence: int, run: Run, unanswered: Set[str], rule: Ruler) -> Placing:
    """Measure a message and fit it to what came before; raises `OrphanResult` for a result nobody is waiting for."""
    calls, results = calls_of(message), results_of(message)
    _check_calls(calls)
    _check_results(message, results, run, unanswered)
    measures = measure_message(message, rule)
    in_tokens = token_ruler(rule)
    tokens = measures if in_tokens == rule else measure_message(message, in_tokens)
    signed = is_signed(message)
    bound = run.sealed and not signed and isinstance(message, AssistantMessage)
    late = _late_positions(message, run) if results else ()
    beside = _beside(message, results, late, run, rule) if late or run.open_calls else NO_SIZE
    business = _is_business(message)
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
        is_sent=not business and any(map(_has_content, message.parts)),
        is_users=isinstance(message, UserMessage),
        is_persons=is_genuine_user(message),
        is_business=business,
        has_media=media_bytes(message) > 0,
        is_own=not is_callers(message),
        has_thinking=signed and any(map(is_sealed_reasoning, message.parts)),
    )
    return Placing(placed, _run_after(message, calls, results, Run(run.open_calls, run.sealed or signed)))


def _beside(
    message: Message, results: tuple[ToolResultPart, ...], late: tuple[int, ...], run: Run, rule: Ruler
) -> Size:
    """What a view says before a message that leaves calls unanswered, and before results that it shows as text."""
    closes = not results and not isinstance(message, SystemMessage | ToolMessage)
    told = (part for position, part in enumerate(message.parts) if position in late)
    headings = size_of_late((part for part in told if isinstance(part, ToolResultPart)), rule)
    return headings.plus(size_of_interrupted(len(run.open_calls) if closes else 0, rule))


def run_after(messages: Iterable[Placed]) -> Run:
    """Where a log stands that holds these messages and nothing else."""
    run = Run()
    for placed in messages:
        opened = Run(run.open_calls, run.sealed or is_signed(placed.message))
        run = _run_after(placed.message, placed.calls, placed.results, opened)
    return run


def media_bytes(message: Message) -> int:
    """The bytes of a message's media, those inside tool results included (I14)."""
    files = (part.files if isinstance(part, ToolResultPart) else (part,) for part in message.parts)
    return sum(file.byte_size for group in files for file in group if isinstance(file, FilePart))


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


def _check_results(message: Message, results: Iterable[ToolResultPart], run: Run, unanswered: Set[str]) -> None:
    seen: set[str] = set()
    for result in results:
        if result.call_id in seen:
            raise OrphanResult(result.call_id, message_id=message.id, problem="which it answers twice")
        if result.call_id not in run.open_calls and result.call_id not in unanswered:
            raise OrphanResult(result.call_id, message_id=message.id, problem="which no earlier message leaves open")
        seen.add(result.call_id)


def _late_positions(message: Message, run: Run) -> tuple[int, ...]:
    return tuple(
        position
        for position, part in enumerate(message.parts)
        if isinstance(part, ToolResultPart) and part.call_id not in run.open_calls
    )


def _prunable_positions(message: Message, *, sealed: bool, late: tuple[int, ...]) -> tuple[int, ...]:
    """What pruning may hide, last first; calls bound to signed reasoning must stay as they are (B24)."""
    parts = message.parts
    return tuple(
        position
        for position in range(len(parts) - 1, -1, -1)
        if position not in late
        and is_prunable(parts[position])
        and not (sealed and isinstance(parts[position], ToolCallPart))
    )


def _is_business(message: Message) -> bool:
    return is_compaction_request(message) or (isinstance(message, AssistantMessage) and message.summary)


def _has_content(part: Part) -> bool:
    """Whether a part is anything to a provider; reasoning alone is no message."""
    match part:
        case TextPart():
            return not part.ignored and bool(part.text.strip())
        case ToolCallPart() | ToolResultPart() | FilePart():
            return True
        case _:
            return False


def _run_after(message: Message, calls: tuple[ToolCallPart, ...], results: tuple[ToolResultPart, ...], run: Run) -> Run:
    match message:
        case AssistantMessage():
            return Run(frozenset(call.call_id for call in calls), run.sealed)
        case UserMessage() if not results:
            return Run()
        case UserMessage() | ToolMessage():
            return Run(run.open_calls.difference(result.call_id for result in results), run.sealed)
        case SystemMessage():
            return run
        case _:
            assert_never(message)
