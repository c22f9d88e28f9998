"""A message as the log holds it: its sizes, what may be done with it, and how it looks with parts hidden.

The message itself never changes. A `ShownMessage` is kept with it until the entries that hid its parts are undone. Calls
without a result are answered by a synthetic one, late results become text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.core.budget import LEAST_ESTIMATED
from infold.core.entries import Clip, Clipping, Handle, Pruning, handle_of
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    decode_arguments,
    has_state,
    is_compaction_request,
    is_from_caller,
    is_genuine_user,
    is_provider_summary,
    is_signed,
    is_summary,
    recall_name,
    results_of,
)
from infold.core.policy import Ruler
from infold.core.tokens import (
    NO_SIZE,
    Calibration,
    Size,
    measure,
    measure_message,
    measure_part,
    size_of,
    size_of_parts,
    token_ruler,
)
from infold.errors import DuplicateId, OrphanResult

INTERRUPTED_TEXT = "[no result: the call was interrupted]"


def interrupted_result(call: ToolCallPart) -> ToolResultPart:
    """Return the synthetic result of a call that has none."""
    return ToolResultPart(call.call_id, call.tool, INTERRUPTED_TEXT, status="interrupted")


def late_heading(result: ToolResultPart) -> str:
    """Return the heading of a result whose call can no longer be answered."""
    return f"[late result of {result.tool or 'a tool'}, call {result.call_id}]\n"


def size_of_interrupted(calls: int, rule: Ruler) -> Size:
    """Return the size of the synthetic results of that many calls."""
    said = calls * _one_interrupted(token_ruler(rule)) if calls else 0
    return Size(material=said, loose=said) if said else NO_SIZE


def size_of_late(results: Iterable[ToolResultPart], rule: Ruler) -> Size:
    """Return the size of the headings of late results."""
    return Size(prose=sum(measure(late_heading(result), token_ruler(rule)) for result in results))


@lru_cache(maxsize=8)
def _one_interrupted(ruler: Ruler) -> int:
    answer = ToolMessage(MessageId(""), (interrupted_result(ToolCallPart("", "", "")),))
    return size_of(answer, measure_message(answer, ruler)).measure


_STUB = re.compile(r"\[(?:pruned|clipped): [\d,]+ characters|\[pruned(?:, failed)?(?:; \w+ \d+\.\d+)?\]")


_WHOLE_STUB, _KEEPS_LINES = re.compile(r"\[pruned: [\d,]+ characters[^\]\n]{0,200}\]"), ", except these lines"
"""The stub of a result, as a caller brings it back that stores what it was given."""

_KEPT_STUB = re.compile(r"\[pruned(?:, failed)?(?:; \w+ \d+\.\d+)?\](?:\n\[attached: [^\n]*\])*")
"""The stub of a kept step's result, with the lines of its media."""


LONGEST_KEPT_VALUE, LONGEST_EXCERPT = 400, 400
"""Characters of an argument's value that pruning leaves alone: names, paths and flags are shorter, contents longer. And of the
lines of a result that its stub keeps, at most."""


_JSON_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"(?P<key>\s*+:)?')


class Rendering(Struct, frozen=True):
    """How hidden parts look and how text is sized: fixed for a session, so that equal logs give equal bytes.

    `stub` is a preset's own text; if it is empty, the stub names what was there. `recall`: whether handles are named.
    `least`: the smallest share of a size that a provider's count can be. `binds_thinking`: the model accepts its
    thinking only after the messages it was created after. `shows_native`: the provider is sent its own summaries. `recall` may
    be the name of the tool that takes handles, if that is not `recall`.
    """

    estimate: Ruler = "features"
    stub: str = ""
    recall: bool | str = False
    least: Calibration = LEAST_ESTIMATED
    binds_thinking: bool = False
    shows_native: bool = False


def is_prunable(part: Part) -> bool:
    """Return whether pruning may hide this part: a completed result, or an unsealed call with a large value."""
    match part:
        case ToolResultPart():
            return part.status == "completed" and not (is_result_stub(part.output) or is_kept_stub(part.output))
        case ToolCallPart():
            return len(part.arguments) > LONGEST_KEPT_VALUE and not part.provider_data
        case _:
            return False


def is_result_stub(output: str) -> bool:
    """Return whether a result is the stub of a pruned one, with the lines that it keeps."""
    if not output.startswith("[pruned"):
        return False
    first, _, lines = output.partition("\n")
    return _WHOLE_STUB.fullmatch(first) is not None and len(lines) <= (LONGEST_EXCERPT if _KEEPS_LINES in first else 0)


def lines_of_stub(output: str) -> str:
    """Return the lines that the stub of a pruned result keeps."""
    return output.partition("\n")[2] if is_result_stub(output) else ""


def is_kept_stub(output: str) -> bool:
    """Return whether a result is the stub that a kept step has in its place; it says nothing of what the call came to."""
    return output.startswith("[pruned") and _KEPT_STUB.fullmatch(output) is not None


def prune_part(part: Part, handle: Handle, rendering: Rendering, excerpt: str = "") -> Part:
    """Return a pruned part as the view shows it; the call/result pair and the shape of the arguments stay.

    `excerpt` are the lines of a result that its stub keeps.
    """
    match part:
        case ToolResultPart():
            return replace(part, output=_result_stub(part, handle, rendering, excerpt), files=())
        case ToolCallPart():
            return shorten_arguments(part, handle, rendering, LONGEST_KEPT_VALUE)
        case _:
            return part


def is_clippable(part: Part) -> bool:
    """Return whether a part can be shortened: text, tool output and media, but not reasoning or calls.

    An opaque part is left out whole, and only if no other part depends on it and it sets nothing.
    """
    is_needed = isinstance(part, TextPart) and bool(part.links or (part.opaque and part.state))
    return isinstance(part, TextPart | ToolResultPart | FilePart) and not is_needed


def clip_part(part: Part, clip: Clip, rendering: Rendering) -> Part:
    """Return a clipped part as the view shows it: head and tail, or a note in place of a medium."""
    match part:
        case TextPart(opaque=True):
            note = f"[left out: a block of {len(part.text):,} characters{_hint(clip.handle, rendering)}]"
            return TextPart(note, synthetic=True)
        case TextPart():
            return replace(part, text=_clip_text(part.text, clip, rendering))
        case ToolResultPart():
            notes = (_file_note(file, clip.handle, rendering) for file in part.files)
            return replace(part, output="\n".join((_clip_text(part.output, clip, rendering), *notes)), files=())
        case FilePart():
            return TextPart(_file_note(part, clip.handle, rendering), synthetic=True)
        case _:
            return part


def repeats_stub(part: Part, rendering: Rendering) -> bool:
    """Return whether a part of a reply contains the text of a stub."""
    text = part.arguments if isinstance(part, ToolCallPart) else part.text if isinstance(part, TextPart) else ""
    return bool(_STUB.search(text)) or (bool(rendering.stub) and rendering.stub in text)


def _result_stub(part: ToolResultPart, handle: Handle, rendering: Rendering, excerpt: str) -> str:
    if rendering.stub:
        return rendering.stub
    kept = _KEEPS_LINES if excerpt else ""
    what = f"{len(part.output):,} characters of {part.tool or 'tool'} output{kept}"
    return "\n".join((f"[pruned: {what}{_hint(handle, rendering)}]", *((excerpt,) if excerpt else ())))


def shorten_arguments(call: ToolCallPart, handle: Handle, rendering: Rendering, longest: int) -> ToolCallPart:
    """Return a call with stubs in place of the values that have more than so many characters; all else stays as it was
    written, since a model continues in the style that it sees."""
    if not isinstance(decode_arguments(call.arguments), dict):
        return call

    def shortened(found: re.Match[str]) -> str:
        if found["key"] or len(found[0]) <= longest:
            return found[0]
        length = len(msgspec.json.decode(found[0].encode("utf-8", "replace")))
        stub = rendering.stub or f"[pruned: {length:,} characters{_hint(handle, rendering)}]"
        return msgspec.json.encode(stub).decode() if length > longest else found[0]

    return replace(call, arguments=_JSON_STRING.sub(shortened, call.arguments))


def _clip_text(text: str, clip: Clip, rendering: Rendering) -> str:
    left_out = len(text) - clip.head_chars - clip.tail_chars
    if left_out <= 0:
        return text
    tail = text[len(text) - clip.tail_chars :]
    return f"{text[: clip.head_chars]}\n[clipped: {left_out:,} characters{_hint(clip.handle, rendering)}]\n{tail}"


def _file_note(part: FilePart, handle: Handle, rendering: Rendering) -> str:
    return f"[left out: {part.name or part.media_type}, {part.tokens:,} tokens{_hint(handle, rendering)}]"


def _hint(handle: Handle, rendering: Rendering) -> str:
    return f"; {recall_name(rendering.recall)} {handle}" if rendering.recall else ""


class StepState(Struct, frozen=True):
    """The state of the step in progress: its calls, answered or not, and whether signed reasoning opened its loop."""

    step: frozenset[str] = frozenset()
    sealed: bool = False


class LoggedMessage(Struct, frozen=True, gc=False):
    """A message, the number of its entry, its measures, and what may be done with it.

    `cuttable`: it may be the first kept message. `prunable`: positions that pruning may hide, last first. `late`:
    positions of results that came after their step had closed; the view shows them as text. `beside`: the part of its
    size that a view adds, such as answers to its unanswered calls. `is_sent`: a view shows it. `is_blank`: it is a
    reply without content, which some providers refuse. `links`: ids that its opaque parts share with their partners.
    `is_users`: it begins a user turn. `is_persons`: a person wrote it. `is_business`: it is about compaction, not work.
    `is_summary`: it replaces earlier messages. `is_own`: infold made it, so that it is missing from the caller's list.
    `has_thinking`: it holds sealed reasoning. `has_state`: folds may carry a part of it on. `is_boundary`: it holds a
    summary of the provider's own.
    """

    sequence: int
    message: Message
    measures: tuple[int, ...]
    measured: int
    size: Size
    added_size: Size = NO_SIZE
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
    has_state: bool = False
    is_boundary: bool = False


BETWEEN_TURNS = (ToolMessage, SystemMessage)
"""Messages that do not begin a turn; a tuple, because a union would be made again at each message."""

_MEDIA_PARTS = frozenset((FilePart, ToolResultPart))

_SENT_PARTS = (ReasoningPart, ToolCallPart, ToolResultPart, FilePart)


class LoggedStep(Struct, frozen=True):
    """A logged message and the state of the step after it."""

    logged: LoggedMessage
    run: StepState


def measure_for_log(
    message: Message, sequence: int, run: StepState, is_unanswered: Callable[[str], bool], rule: Ruler
) -> LoggedStep:
    """Measure a message and match it with earlier calls; raise `OrphanResult` for a result whose call is not open."""
    kinds = set(map(type, message.parts))  # most messages have one or two, and most of what follows is about another
    calls = calls_of(message) if ToolCallPart in kinds else ()
    results = results_of(message) if ToolResultPart in kinds else ()
    _check_pairs(message, calls, results, is_unanswered)
    measures = measure_message(message, rule)
    in_tokens = token_ruler(rule)
    tokens = measures if in_tokens == rule else measure_message(message, in_tokens)
    signed, sets_state = is_signed(message), has_state(message)
    bound = run.sealed and not signed and isinstance(message, AssistantMessage)
    late = _late_positions(message, run) if results else ()
    business = is_compaction_request(message) or (isinstance(message, AssistantMessage) and message.summary)
    is_between = isinstance(message, BETWEEN_TURNS)
    closes = not (results or business or is_between)
    left_open = sum(map(is_unanswered, run.step)) if closes else 0
    added_size = _added_size(message, late, left_open, rule) if late or left_open else NO_SIZE
    logged = LoggedMessage(
        sequence=sequence,
        message=message,
        measures=measures,
        measured=sum(measures),
        size=size_of(message, tokens).plus(added_size),
        added_size=added_size,
        calls=calls,
        results=results,
        late=late,
        prunable=_prunable_positions(message, sealed=signed or bound, late=late) if calls or results else (),
        cuttable=not (results or bound or business or is_between),
        is_sent=not business and (not message.parts or any(map(_is_sendable, message.parts))),
        is_blank=isinstance(message, AssistantMessage) and not any(map(_has_content, message.parts)),
        links=_links(message) if TextPart in kinds else (),
        is_users=isinstance(message, UserMessage),
        is_persons=is_genuine_user(message),
        is_business=business,
        is_summary=is_summary(message),
        has_media=not kinds.isdisjoint(_MEDIA_PARTS) and media_bytes(message) > 0,
        is_own=not is_from_caller(message),
        has_thinking=signed and any(map(is_sealed_reasoning, message.parts)),
        has_state=sets_state,
        is_boundary=sets_state and any(map(is_provider_summary, message.parts)),
    )
    return LoggedStep(logged, _state_after(logged, StepState(run.step, run.sealed or signed)))


def _late_positions(message: Message, run: StepState) -> tuple[int, ...]:
    """Return the positions of the results whose call is not one of the step in progress."""
    return tuple(
        position
        for position, part in enumerate(message.parts)
        if isinstance(part, ToolResultPart) and part.call_id not in run.step
    )


def _links(message: Message) -> tuple[str, ...]:
    """Return the ids that opaque parts of a message share with their partners."""
    return tuple(link for part in message.parts if isinstance(part, TextPart) for link in part.links)


def _added_size(message: Message, late: tuple[int, ...], left_open: int, rule: Ruler) -> Size:
    """Return the size of what a view adds: answers to open calls, and headings of results shown as text."""
    shown = (message.parts[position] for position in late)
    headings = size_of_late((part for part in shown if isinstance(part, ToolResultPart)), rule)
    return headings.plus(size_of_interrupted(left_open, rule))


def state_after(messages: Iterable[LoggedMessage]) -> StepState:
    """Return the state of the step after these messages alone."""
    run = StepState()
    for logged in messages:
        run = _state_after(logged, StepState(run.step, run.sealed or is_signed(logged.message)))
    return run


def media_bytes(message: Message) -> int:
    """Return the bytes of a message's media, including those inside tool results."""
    return sum(map(part_bytes, message.parts))


def part_bytes(part: Part) -> int:
    """Return the bytes of a medium, or of the media inside a tool result."""
    if isinstance(part, ToolResultPart):
        return sum(file.byte_size for file in part.files)
    return part.byte_size if isinstance(part, FilePart) else 0


def measures_of(logged: LoggedMessage, wanted: Callable[[Part], bool]) -> int:
    """Return the measure of the wanted parts of a message."""
    pairs = zip(logged.message.parts, logged.measures, strict=True)
    return sum(measured for part, measured in pairs if wanted(part))


def size_of_chosen(logged: LoggedMessage, wanted: Callable[[Part], bool], rule: Ruler) -> Size:
    """Return the size of the wanted parts of a message."""
    parts = tuple(part for part in logged.message.parts if wanted(part))
    in_tokens = token_ruler(rule)
    return size_of_parts(parts, tuple(measure_part(part, in_tokens) for part in parts))


def is_loose_reasoning(part: Part) -> bool:
    """Return whether a part is unsealed reasoning; sealed reasoning goes with its whole loop or not at all."""
    return isinstance(part, ReasoningPart) and not part.provider_data


def is_sealed_reasoning(part: Part) -> bool:
    """Return whether a part is reasoning that its provider sealed."""
    return isinstance(part, ReasoningPart) and part.provider_data != "" and not part.state


def _check_pairs(
    message: Message,
    calls: Iterable[ToolCallPart],
    results: Iterable[ToolResultPart],
    is_unanswered: Callable[[str], bool],
) -> None:
    called: set[str] = set()
    for call in calls:
        if call.call_id in called:
            raise DuplicateId("tool call", call.call_id)
        called.add(call.call_id)
    seen: set[str] = set()
    for result in results:
        if result.call_id in seen:
            raise OrphanResult(result.call_id, message_id=message.id, problem="which it answers twice")
        if not is_unanswered(result.call_id):
            raise OrphanResult(result.call_id, message_id=message.id, problem="which no earlier message leaves open")
        seen.add(result.call_id)


def _prunable_positions(message: Message, *, sealed: bool, late: tuple[int, ...]) -> tuple[int, ...]:
    """Return the positions that pruning may hide, last first; calls bound to signed reasoning must stay as they are."""
    parts, shown_as_text = message.parts, frozenset(late)
    return tuple(
        position
        for position in range(len(parts) - 1, -1, -1)
        if position not in shown_as_text
        and is_prunable(parts[position])
        and not (sealed and isinstance(parts[position], ToolCallPart))
    )


def _is_sendable(part: Part) -> bool:
    """Return whether a part is of a kind that requests hold, with or without content."""
    if isinstance(part, TextPart):
        return not part.ignored
    return isinstance(part, _SENT_PARTS)


def _has_content(part: Part) -> bool:
    """Return whether a part has content for a provider; reasoning alone counts if the provider sealed it."""
    match part:
        case TextPart():
            return not part.ignored and bool(part.text.strip())
        case ReasoningPart():
            return part.provider_data != ""
        case ToolCallPart() | ToolResultPart() | FilePart():
            return True
        case _:
            return False


def _state_after(logged: LoggedMessage, run: StepState) -> StepState:
    """Return the state after a message; messages about compaction are not sent and close nothing."""
    if logged.is_business:
        return run
    match logged.message:
        case AssistantMessage():
            return StepState(frozenset(call.call_id for call in logged.calls), run.sealed)
        case UserMessage() if not logged.results:
            return StepState()
        case UserMessage() | ToolMessage() | SystemMessage():
            return run
        case _:
            assert_never(logged.message)


class HiddenBy(Struct, frozen=True):
    """An entry that hides a part: its number, and what stays visible: the ends if it clips, lines if it prunes."""

    by: int
    kept: Clip | str


class ShownMessage(Struct, frozen=True):
    """A message as the view shows it, its measure and size then, and what hides each part, newest last."""

    message: Message
    measured: int
    size: Size
    hidden_by: Mapping[int, tuple[HiddenBy, ...]]

    def is_hidden_by(self, entry: int) -> bool:
        """Return whether that entry hides any part of the message."""
        return any(hiding.by == entry for stack in self.hidden_by.values() for hiding in stack)


def hidden_parts(entry: Pruning | Clipping) -> Iterator[tuple[Handle, Clip | str]]:
    """Yield the parts an entry hides, with what stays visible: the ends of a clipped part, lines of a pruned one."""
    if isinstance(entry, Pruning):
        yield from ((handle, entry.excerpts.get(handle, "")) for handle in entry.targets)
    else:
        yield from ((clip.handle, clip) for clip in entry.clips)


def hide_in_message(
    message: Message,
    sequence: int,
    kept: Mapping[int, Clip | str],
    *,
    by: int,
    before: ShownMessage | None,
    rendering: Rendering,
) -> ShownMessage:
    """Return the message numbered `sequence` with these parts hidden by entry `by`, in addition to what hid them
    before."""
    hidden_by = {} if before is None else dict(before.hidden_by)
    for position, visible in kept.items():
        hidden_by[position] = (*hidden_by.get(position, ()), HiddenBy(by, visible))
    return _shown_message(message, sequence, hidden_by, rendering)


def show_in_message(
    message: Message, sequence: int, before: ShownMessage, *, by: int, rendering: Rendering
) -> ShownMessage | None:
    """Return the message without what entry `by` hid; `None` if no other entry hides a part of it."""
    left = {at: tuple(hiding for hiding in stack if hiding.by != by) for at, stack in before.hidden_by.items()}
    return _still_hidden(message, sequence, left, rendering)


def show_part(
    message: Message, sequence: int, before: ShownMessage, *, position: int, rendering: Rendering
) -> ShownMessage | None:
    """Return the message with the part at a position shown if it was pruned; `None` if no part of it is hidden any more."""
    stack = before.hidden_by[position]
    left = {**before.hidden_by, position: tuple(hiding for hiding in stack if isinstance(hiding.kept, Clip))}
    return _still_hidden(message, sequence, left, rendering)


def _still_hidden(
    message: Message, sequence: int, left: Mapping[int, tuple[HiddenBy, ...]], rendering: Rendering
) -> ShownMessage | None:
    hidden_by = {position: stack for position, stack in left.items() if stack}
    return _shown_message(message, sequence, hidden_by, rendering) if hidden_by else None


def _shown_message(
    message: Message, sequence: int, hidden_by: Mapping[int, tuple[HiddenBy, ...]], rendering: Rendering
) -> ShownMessage:
    parts = list(message.parts)
    for position, stack in hidden_by.items():
        part, kept, handle = parts[position], stack[-1].kept, handle_of(sequence, position)
        if isinstance(kept, Clip):
            parts[position] = clip_part(part, kept, rendering)
        else:
            parts[position] = prune_part(part, handle, rendering, kept)
    shown = replace(message, parts=tuple(parts))
    measures = measure_message(shown, rendering.estimate)
    in_tokens = token_ruler(rendering.estimate)
    tokens = measures if in_tokens == rendering.estimate else measure_message(shown, in_tokens)
    return ShownMessage(shown, sum(measures), size_of(shown, tokens), hidden_by)
