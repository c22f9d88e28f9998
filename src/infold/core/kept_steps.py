"""Choose the old steps that a fold keeps in their own form.

A step is a reply of the assistant and the results of its calls. Kept are its words and its calls; a result becomes a stub with
the handle by which it can be recalled, so that no content which may have changed since is shown as if it were current. A reply
with data that its provider signed is kept as it was, or without its thinking where that is bound. The newest steps that fit
the room are kept; those of the last fold compete with those of the head that is folded now.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from msgspec.structs import replace

from infold.core.cut import Cut
from infold.core.entries import Handle, KeptStep, handle_of
from infold.core.extract import arguments_of, command_of, file_operations, is_failure, todos_after, tool_named
from infold.core.ledger import TodoFact, is_lookup, shell_parts
from infold.core.log import Log, size_of_state
from infold.core.logged_message import (
    LONGEST_KEPT_VALUE,
    LoggedMessage,
    Rendering,
    is_kept_stub,
    is_prunable,
    is_sealed_reasoning,
    shorten_arguments,
)
from infold.core.messages import (
    KEPT_ID,
    AssistantMessage,
    FilePart,
    MessageId,
    Part,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    calls_of,
    is_signed,
    media_label,
    recall_name,
    results_of,
    text_of,
)
from infold.core.tokens import NO_SIZE, Size, total_size

LONGEST_SAID = 1_200
"""Characters of the assistant's own words that a kept step shows."""

LONGEST_VALUES = (1_600, LONGEST_KEPT_VALUE)
"""Characters of an argument's value that a kept step shows where there is no room for all of it: an edit mostly fits, a whole
file does not."""

LARGEST_SHARE = 0.25
"""Share of the room that one step may take if it can be shown in a smaller form."""

LEAST_STEP_TOKENS = 24
"""Hardly any step is smaller: with less room, older ones are not looked at."""

MOST_MISSES = 40
"""How many steps in a row may be too large before older ones are not looked at."""

_FAILED = "[pruned, failed"

_HANDLE = re.compile(r"; \w+ \d+\.\d+")

_FROM_OUTSIDE = re.compile(r"://|\b(?:curl|wget|gh|ssh|scp|nc)\b")
"""What commands have in them that bring something from outside the project."""

_ANY_TODOS = (TodoFact("", ""),)


class KeptSteps(NamedTuple):
    """Steps that a fold keeps, oldest first, and their size in the view."""

    steps: tuple[KeptStep, ...]
    size: Size


NO_STEPS = KeptSteps((), NO_SIZE)


class OldSteps:
    """The steps before a cut, newest first; each is read once, when it is first looked at."""

    def __init__(self, log: Log, cut: Cut) -> None:
        self._log = log
        self._cut = cut
        self._unread = _newest_first(log, cut)
        self._read: list[_OldStep] = []

    def __iter__(self) -> Iterator["_OldStep"]:
        yield from self._read
        for step in self._unread:
            self._read.append(step)
            yield step

    def wanted_tokens(self, most: int) -> int:
        """Return the tokens of all steps that may be kept, counted until they are more than that."""
        wanted = 0
        for step in self:
            wanted += step.size.measure
            if wanted > most:
                break
        return wanted

    def keep(self, room_tokens: int) -> KeptSteps:
        """Return the newest steps that fit into so many tokens.

        A step that failed where a later one succeeded is kept only together with that one, and of repetitions in a row the
        newest: waiting for something says little, while an edit, its test, an edit and its test again show how the work is done.
        """
        kept: list[tuple[KeptStep, Size]] = []
        following: tuple[str, ...] = ()
        succeeded: dict[str, bool] = {}  # what succeeded in a later step, and whether such a step is kept
        left, misses, wants_signatures = room_tokens, 0, self._wants_signatures()
        for step in self:
            if left < LEAST_STEP_TOKENS or misses > MOST_MISSES:
                break
            content = step.content()
            if content and content == following:
                continue
            outcomes = tuple(step.outcomes())
            is_settled = any(failed and not succeeded.get(origin, True) for origin, failed in outcomes)
            may_stand = not is_settled and step.may_stand_before(kept) and (not wants_signatures or step.is_signed)
            chosen = step.fitting(left, int(room_tokens * LARGEST_SHARE)) if may_stand else None
            for origin, failed in outcomes:
                if not failed:
                    succeeded[origin] = succeeded.get(origin, False) or chosen is not None
            if chosen is not None:
                kept.append(chosen)
                following = content
                left -= chosen[1].measure
                misses = 0
            elif step.full is not None:
                misses += 1
        if self._is_reply_next():  # two replies in a row would have to be joined, and the tail stays as it is
            words_alone = takewhile(lambda one: len(one[0].messages) == 1, kept)
            kept = kept[len(list(words_alone)) :]
        return KeptSteps(tuple(step for step, _ in reversed(kept)), total_size(size for _, size in kept))

    def _is_reply_next(self) -> bool:
        """Return whether the view goes on with a reply behind the cut."""
        tail = self._log.live[self._cut.index :]
        shown = (logged.message for logged in tail if logged.is_sent and not logged.is_blank)
        return isinstance(next(shown, None), AssistantMessage)

    def _wants_signatures(self) -> bool:
        """Return whether kept calls would belong to a turn whose calls are signed: Gemini refuses any without a signature
        there."""
        tail = self._log.live[self._cut.index :]
        is_turn_begun = any(logged.is_users and not logged.results for logged in tail)
        return not is_turn_begun and any(call.provider_data for logged in tail for call in logged.calls)


class _OldStep:
    """A step in its fullest form, if it may be kept at all, and what is asked about it when a fold chooses.

    `answered` are its calls that have a result, with it. `asked` is its reply if it may be kept in smaller forms too.
    """

    def __init__(
        self,
        answered: Sequence[tuple[ToolCallPart, ToolResultPart]],
        full: KeptStep | None,
        size: Size,
        rendering: Rendering,
        asked: LoggedMessage | None = None,
    ) -> None:
        self.full = full
        self.size = size
        self._answered = answered
        self._rendering = rendering
        self._asked = asked

    def content(self) -> tuple[str, ...]:
        """Return what it says and calls; nothing if it may not be kept."""
        if self.full is None:
            return ()
        reply = self.full.messages[0]
        return (text_of(reply), *(text for call in calls_of(reply) for text in (call.tool, call.arguments)))

    def outcomes(self) -> Iterator[tuple[str, bool]]:
        """Yield what each answered call is about (a file, a command, a tool), and whether it failed."""
        for call, result in self._answered:
            arguments = arguments_of(call)
            command = command_of(call, arguments)
            failed = result.output.startswith(_FAILED) or is_failure(result, command)
            origins = [path for path, _ in file_operations(call, arguments)] or [command or call.tool]
            yield from ((origin, failed) for origin in origins)

    def may_stand_before(self, newer: Sequence[tuple[KeptStep, Size]]) -> bool:
        """Return whether it may stand before the oldest of the newer ones: words alone join it, whose thinking has to come
        first."""
        if self.full is None:
            return False
        is_joined = bool(newer) and len(self.full.messages) == 1
        return not is_joined or _begins_with_thinking(self.full) or not _begins_with_thinking(newer[-1][0])

    @property
    def is_signed(self) -> bool:
        """Whether its first call is signed, if it has calls."""
        calls = calls_of(self.full.messages[0]) if self.full is not None else ()
        return not calls or bool(calls[0].provider_data)

    def fitting(self, left: int, most: int) -> tuple[KeptStep, Size] | None:
        """Return the fullest form that fits, with its size; a large one only if there is no smaller form."""
        assert self.full is not None
        if self.size.measure <= min(left, most):
            return self.full, self.size
        shorter = ((form, size_of_step(form, self._rendering)) for form in self._shorter(self.full))
        forms = [(self.full, self.size), *shorter]
        fitting = (form for form in forms if form[1].measure <= left and (form[1].measure <= most or form is forms[-1]))
        return next(fitting, None)

    def _shorter(self, full: KeptStep) -> Iterator[KeptStep]:
        """Yield the smaller forms, the fullest first."""
        asked = self._asked
        if asked is None or all(len(call.arguments) <= LONGEST_KEPT_VALUE for call in asked.calls):
            return
        reply, *answers = full.messages
        before = reply.parts
        for longest in LONGEST_VALUES:
            parts = tuple(
                _shortened(part, handle_of(asked.sequence, position), self._rendering, longest)
                for position, part in _reply_parts(asked)
            )
            if parts != before:
                yield KeptStep(asked.sequence, (replace(reply, parts=parts), *answers))
            before = parts


def _begins_with_thinking(step: KeptStep) -> bool:
    return is_sealed_reasoning(step.messages[0].parts[0])


def size_of_step(step: KeptStep, rendering: Rendering) -> Size:
    """Return the size of a kept step in the view."""
    return size_of_state(step.messages, rendering)


def _newest_first(log: Log, cut: Cut) -> Iterator[_OldStep]:
    """Yield the steps before a cut, the newest first, and then those that the last fold kept."""
    results: dict[str, tuple[LoggedMessage, int]] = {}
    for index in range(cut.index - 1, -1, -1):
        logged = log.live[index]
        if logged.results and not logged.late:
            for position, part in enumerate(logged.message.parts):
                if isinstance(part, ToolResultPart):
                    results.setdefault(part.call_id, (logged, position))
            continue
        if isinstance(logged.message, AssistantMessage):
            yield _read_step(logged, results, log)
        results = {}
    for kept, size in zip(reversed(log.steps), reversed(log.step_sizes), strict=True):
        reply, *answers = kept.messages
        answered = zip(calls_of(reply), (result for message in answers for result in results_of(message)), strict=True)
        yield _OldStep(tuple(answered), kept, size, log.rendering)


def _read_step(asked: LoggedMessage, results: Mapping[str, tuple[LoggedMessage, int]], log: Log) -> _OldStep:
    """Return a reply with the results of its calls; it may not be kept if a call has no result, or nothing is left of it."""
    answered = [(call, *results[call.call_id]) for call in asked.calls if call.call_id in results]
    told = tuple((call, _result_at(logged, position)) for call, logged, position in answered)
    is_answered = len(answered) == len(asked.calls)
    parts = tuple(part for _, part in _reply_parts(asked)) if is_answered and _may_be_kept(asked) else ()
    if not parts:
        return _OldStep(told, None, NO_SIZE, log.rendering)
    stubs = tuple(_result(call, logged, position, log.rendering) for call, logged, position in answered)
    is_whole = is_signed(asked.message) and not log.binds_thinking
    step = _kept_step(asked, tuple(map(_without_medium, asked.message.parts)) if is_whole else parts, stubs)
    return _OldStep(told, step, size_of_step(step, log.rendering), log.rendering, None if is_whole else asked)


def _result_at(logged: LoggedMessage, position: int) -> ToolResultPart:
    part = logged.message.parts[position]
    assert isinstance(part, ToolResultPart)
    return part


def _may_be_kept(logged: LoggedMessage) -> bool:
    """Return whether a message is a reply that can be shown without its surroundings.

    Blocks of unknown types, what sets something, older todo lists, and calls of infold's own tools are left out.
    """
    if not logged.is_sent or logged.is_business or logged.is_summary or logged.is_blank or logged.is_own:
        return False
    if logged.has_state or logged.links:
        return False
    if any(isinstance(part, TextPart) and part.opaque for part in logged.message.parts):
        return False
    return not any(_is_left_out(call) for call in logged.calls)


def _is_left_out(call: ToolCallPart) -> bool:
    named = tool_named(call.tool)
    return named.is_own or (named.plans and todos_after(_ANY_TODOS, call, arguments_of(call), "") != _ANY_TODOS)


def _shortened(part: Part, handle: Handle, rendering: Rendering, longest: int) -> Part:
    if isinstance(part, ToolCallPart) and is_prunable(part) and len(part.arguments) > longest:
        return shorten_arguments(part, handle, rendering, longest)
    return part


def _kept_step(asked: LoggedMessage, parts: tuple[Part, ...], results: tuple[ToolResultPart, ...]) -> KeptStep:
    """Return a copy of a step; only what is sent is copied, since usage and cost belong to the recorded reply."""
    reply = AssistantMessage(MessageId(f"{KEPT_ID}{asked.sequence}"), parts, created_ms=asked.message.created_ms)
    if not results:
        return KeptStep(asked.sequence, (reply,))
    return KeptStep(asked.sequence, (reply, ToolMessage(MessageId(f"{KEPT_ID}{asked.sequence}.0"), results)))


def _reply_parts(asked: LoggedMessage) -> Iterator[tuple[int, Part]]:
    """Yield the calls and words of a reply and the lines of its media, each with its position."""
    for position, part in enumerate(map(_without_medium, asked.message.parts)):
        if isinstance(part, ToolCallPart):
            yield position, part
        elif isinstance(part, TextPart) and not part.ignored and part.text.strip():
            yield position, TextPart(_beginning(part.text))


def _without_medium(part: Part) -> Part:
    return TextPart(media_label(part)) if isinstance(part, FilePart) else part


def _beginning(text: str) -> str:
    """Return a text, cut between two words if it is long."""
    if len(text) <= LONGEST_SAID:
        return text
    return f"{text[:LONGEST_SAID].rsplit(None, 1)[0]} …"


def _result(call: ToolCallPart, logged: LoggedMessage, position: int, rendering: Rendering) -> ToolResultPart:
    """Return a result as a stub, with the lines of its media; a command's outcome that is no longer than its stub stays."""
    part = _result_at(logged, position)
    if is_kept_stub(part.output):  # of another session, whose handles name other parts here
        return ToolResultPart(part.call_id, part.tool, _HANDLE.sub("", part.output, count=1), status=part.status)
    command = command_of(call, arguments_of(call))
    begin = _FAILED if is_failure(part, command) else "[pruned"
    hint = f"; {recall_name(rendering.recall)} {handle_of(logged.sequence, position)}" if rendering.recall else ""
    stub = "\n".join((f"{begin}{hint}]", *map(media_label, part.files)))
    is_short = len(part.output) <= len(stub) and not part.files
    output = part.output if is_short and _says_outcome(call.tool, command) else stub
    return ToolResultPart(part.call_id, part.tool, output, status=part.status)


def _says_outcome(tool: str, command: str) -> bool:
    """Return whether a call runs a command whose output says how it ended: not a file, which may have changed since, and
    nothing from outside the project."""
    if not command or tool.startswith("mcp") or _FROM_OUTSIDE.search(command):
        return False
    return not any(map(is_lookup, shell_parts(command)))
