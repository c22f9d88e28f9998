"""A recorded session, and the draft of one while it is being read, repaired where it breaks the laws of a record.

Readers append messages in the order of their format; `session()` makes ids unique, puts each result after its call
and finds a place for every result without a call. Nothing is dropped here: a repair changes the shape, and is noted.
"""

from collections import Counter, defaultdict
from collections.abc import Container
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    ModelRef,
    Part,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    is_foreign_summary,
    results_of,
    text_of,
)
from infold.core.policy import PRESETS
from infold.formats.harness_text import mark_foreign, marks_of

FOREIGN = marks_of(PRESETS.values())
"""The marks that the systems behind the presets write into a history."""


class Skipped(Struct, frozen=True, omit_defaults=True):
    """Content that was not read as it stands, reported once per reason.

    `line` is where it was first met (0: nowhere in particular), `count` how often. `repaired`: its content is in
    the messages, in another shape.
    """

    reason: str
    line: int = 0
    count: int = 1
    repaired: bool = False


class RecordedCompaction(Struct, frozen=True, omit_defaults=True):
    """A compaction that really happened while the session ran.

    `messages[:position]` are the messages before it. A summary whose text is known stands among the messages
    from `position` on; an opaque one has no text and no message. `first_kept` is the index of the first message
    that stayed verbatim, if the record has it.
    """

    position: int
    summary: str = ""
    tokens_before: int | None = None
    first_kept: int | None = None


class RecordedSession(Struct, frozen=True, omit_defaults=True):
    """One session: ids are unique, each tool result follows its call, and no call is answered twice.

    `titles` are those of user messages, by id.
    """

    id: str
    messages: tuple[Message, ...] = ()
    model: ModelRef | None = None
    system: str = ""
    tools: str = ""
    compactions: tuple[RecordedCompaction, ...] = ()
    parent: str | None = None
    title: str = ""
    titles: dict[MessageId, str] = {}


def import_session(session: RecordedSession, *, first_kept: int | None = None) -> RecordedSession:
    """Return a foreign record with its marked summaries as compactions and its cleared results marked.

    `first_kept` is the first message that stood after such a compaction, if the caller knows that an earlier one stayed.
    """
    messages = mark_foreign(session.messages, FOREIGN)
    told = {compaction.summary.strip() for compaction in session.compactions}
    found = (
        RecordedCompaction(position, text_of(message), first_kept=first_kept)
        for position, message in enumerate(messages)
        if is_foreign_summary(message) and text_of(message).strip() not in told
    )
    compactions = sorted((*session.compactions, *found), key=lambda compaction: compaction.position)
    return replace(session, messages=messages, compactions=tuple(compactions))


class Transcript(Struct, frozen=True):
    """All sessions of one file, and what could not be read of it."""

    format: str
    sessions: tuple[RecordedSession, ...]
    skipped: tuple[Skipped, ...] = ()


class Issues:
    """Collects what a reader leaves out or repairs, one entry per reason however often it occurs."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, bool], Skipped] = {}

    def skip(self, reason: str, line: int = 0) -> None:
        """Note that content is left out."""
        self._note(Skipped(reason, line))

    def repair(self, reason: str, line: int = 0) -> None:
        """Note that content is kept in another shape."""
        self._note(Skipped(reason, line, repaired=True))

    def _note(self, issue: Skipped) -> None:
        key = (issue.reason, issue.repaired)
        first = self._found.get(key)
        self._found[key] = issue if first is None else replace(first, count=first.count + 1)

    def skipped(self) -> tuple[Skipped, ...]:
        """Return the issues so far, in the order in which the reasons were first met."""
        return tuple(self._found.values())


class SessionDraft:
    """Collects one session's messages in the order of the record."""

    def __init__(self, session_id: str, issues: Issues, *, parent: str | None = None) -> None:
        self.id = session_id
        self.parent = parent
        self.messages: list[Message] = []
        self.model: ModelRef | None = None
        self.system = ""
        self.tools = ""
        self.issues = issues
        self.started_ms: dict[str, int | None] = {}
        self._compactions: list[RecordedCompaction] = []

    def new_id(self, kind: str = "message") -> MessageId:
        """Return an id for a message whose record has none; it is derived from the position, so each reading gives the same."""
        return MessageId(f"{kind}-{len(self.messages) + 1}")

    def add(self, message: Message) -> int:
        """Append a message and return its index."""
        self.messages.append(message)
        return len(self.messages) - 1

    def add_user(self, parts: tuple[Part, ...], message_id: str = "", created_ms: int | None = None) -> None:
        """Append parts under the user's role, unless there are none."""
        if parts:
            self.add(UserMessage(MessageId(message_id) if message_id else self.new_id(), parts, created_ms))

    def add_result(self, result: ToolResultPart, message_id: str = "", finished_ms: int | None = None) -> None:
        """Append a tool's result as a message of its own, with the time of its call if that is known."""
        timed = replace(result, started_ms=self.started_ms.get(result.call_id), finished_ms=finished_ms)
        self.add(ToolMessage(MessageId(message_id) if message_id else self.new_id(), (timed,), finished_ms))

    def start_calls(self, parts: tuple[Part, ...], at: int | None) -> None:
        """Remember when the calls among these parts were made, for the results that answer them."""
        self.started_ms |= {part.call_id: at for part in parts if isinstance(part, ToolCallPart)}

    def add_compaction(
        self, summary: str = "", *, tokens_before: int | None = None, first_kept: int | None = None
    ) -> None:
        """Record a compaction before the next message to be added."""
        self._compactions.append(
            RecordedCompaction(len(self.messages), summary, tokens_before=tokens_before, first_kept=first_kept)
        )

    def set_summary(self, summary: str) -> None:
        """Set the text of the last compaction's summary, if it comes as a reply of its own."""
        if self._compactions and not self._compactions[-1].summary:
            self._compactions[-1] = replace(self._compactions[-1], summary=summary)
        else:
            self._compactions.append(RecordedCompaction(len(self.messages) - 1, summary))

    def sessions(self) -> list[RecordedSession]:
        """Return the one session, or none if there is no message."""
        return [self.session()] if self.messages else []

    def session(self) -> RecordedSession:
        """Return the session, repaired where it breaks the laws of a record."""
        lawful = _Repair(self.issues, self.messages)
        return RecordedSession(
            id=self.id,
            messages=tuple(lawful.messages),
            model=self.model
            or next((m.model for m in self.messages if isinstance(m, AssistantMessage) and m.model), None),
            system=self.system,
            tools=self.tools,
            compactions=tuple(_move_compaction(compaction, lawful.starts) for compaction in self._compactions),
            parent=self.parent,
        )


def _move_compaction(compaction: RecordedCompaction, starts: list[int]) -> RecordedCompaction:
    kept = compaction.first_kept
    return replace(
        compaction,
        position=starts[compaction.position],
        first_kept=None if kept is None else starts[min(kept, len(starts) - 1)],
    )


def _unused(name: str, used: Container[str]) -> str:
    if name not in used:
        return name
    return next(own for again in count(2) if (own := f"{name}#{again}") not in used)


class _Repair:
    """Repairs the messages of a draft in one walk; `starts[i]` is the new index of message `i`, or of what replaces it."""

    def __init__(self, issues: Issues, messages: list[Message]) -> None:
        self.messages: list[Message] = []
        self.starts: list[int] = []
        self._issues = issues
        self._ids: set[str] = set()
        self._called: set[str] = set()
        self._tools: dict[str, str] = {}
        self._unanswered: defaultdict[str, list[str]] = defaultdict(list)
        self._to_come = Counter(call.call_id for message in messages for call in calls_of(message))
        self._early: defaultdict[str, list[ToolResultPart]] = defaultdict(list)
        for message in messages:
            self.starts.append(len(self.messages))
            self._take(message)
        self.starts.append(len(self.messages))

    def _take(self, message: Message) -> None:
        calls, results = calls_of(message), results_of(message)
        if calls:
            said = (part for part in message.parts if not isinstance(part, ToolResultPart))
            self._emit(message, tuple(self._placed_call(part) for part in said))
            self._emit_early(message, calls)
            self._take_results(message, results)
        elif results:
            self._take_results(message, message.parts)
        elif message.parts or isinstance(message, AssistantMessage):
            self._emit(message, message.parts)

    def _emit(self, message: Message, parts: tuple[Part, ...]) -> None:
        name = _unused(message.id, self._ids)
        self._ids.add(name)
        self.messages.append(replace(message, id=MessageId(name), parts=parts))

    def _placed_call(self, part: Part) -> Part:
        """Return a call under an id of its own; records reuse ids, and some give none."""
        if not isinstance(part, ToolCallPart):
            return part
        self._to_come[part.call_id] -= 1
        self._called.add(part.call_id)
        own = _unused(part.call_id or "call", self._tools)
        if own != (part.call_id or "call"):
            self._issues.repair("a call id was used again; the later call has an id of its own")
        self._tools[own] = part.tool
        self._unanswered[part.call_id].append(own)
        return replace(part, call_id=own)

    def _take_results(self, message: Message, parts: tuple[Part, ...]) -> None:
        rest: list[Part] = []
        for part in parts:
            if not isinstance(part, ToolResultPart):
                rest.append(part)
            elif self._unanswered[part.call_id]:
                rest.append(self._answer(part))
            elif self._to_come[part.call_id] > 0 and part.call_id not in self._early:
                self._early[part.call_id].append(part)
                self._issues.repair("a tool result stood before its call; it stands after it now")
            else:
                rest.append(self._homeless(part, message))
        self._emit_mixed(message, rest)

    def _answer(self, part: ToolResultPart) -> ToolResultPart:
        own = self._unanswered[part.call_id].pop(0)
        return replace(part, call_id=own, tool=part.tool or self._tools[own])

    def _homeless(self, part: ToolResultPart, message: Message) -> Part:
        """Turn a second answer into text; give an answer whose call is not in the record that call."""
        if part.call_id in self._called:
            self._issues.repair("a call was answered twice; the later answer is text")
            return TextPart(part.output, synthetic=True)
        self._issues.repair("a tool result had no call in the record; a call without arguments stands before it")
        call = self._placed_call(ToolCallPart(part.call_id, part.tool or "unknown", "{}"))
        self._emit(AssistantMessage(MessageId(f"{message.id}-call"), ()), (call,))
        return self._answer(part)

    def _emit_mixed(self, message: Message, parts: list[Part]) -> None:
        """Keep results together in a tool message; text next to them follows as the user's."""
        answers = tuple(part for part in parts if isinstance(part, ToolResultPart))
        others = tuple(part for part in parts if not isinstance(part, ToolResultPart))
        if answers:
            self._emit(ToolMessage(message.id, (), message.created_ms), answers)
        if others:
            self._emit(UserMessage(message.id, (), message.created_ms), others)

    def _emit_early(self, message: Message, calls: tuple[ToolCallPart, ...]) -> None:
        waiting = tuple(self._answer(part) for call in calls for part in self._early.pop(call.call_id, []))
        if waiting:
            self._emit(ToolMessage(MessageId(f"{message.id}-result"), ()), waiting)
