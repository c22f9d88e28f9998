"""A recorded session as a sequence of calls to a model: what was added before each, the reply, its time and its usage.

Tells apart what was a call and what only looks like one, and which messages a recorded compaction put into the session: those
belong to the policy that was really at work, and no other policy is shown them.
"""

from collections.abc import Iterator

from msgspec import Struct

from infold.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    Usage,
    is_compaction_request,
    is_genuine_user,
    results_of,
    text_of,
)
from infold.transcripts.record import RecordedCompaction, RecordedSession


class RecordedCall(Struct, frozen=True):
    """One request and its reply.

    `messages[start:end]` of the session were added since the reply before, `messages[end]` is the reply. `sent_ms` is the
    time of the newest message that was sent, `answered_ms` that of the reply; none where the record has no times.
    """

    number: int
    start: int
    end: int
    sent_ms: int | None = None
    answered_ms: int | None = None
    usage: Usage | None = None


class RecordedRun(Struct, frozen=True):
    """A session, its calls, and the positions of the messages that recorded compactions wrote."""

    session: RecordedSession
    calls: tuple[RecordedCall, ...]
    artefacts: frozenset[int] = frozenset()
    preamble: int = 0

    def reply_to(self, call: RecordedCall) -> AssistantMessage:
        """The recorded reply."""
        reply = self.session.messages[call.end]
        assert isinstance(reply, AssistantMessage)
        return reply

    def added_before(self, call: RecordedCall) -> tuple[Message, ...]:
        """What was said since the reply before, without what a recorded compaction put there and without the preamble."""
        messages = self.session.messages
        start = max(call.start, self.preamble)
        return tuple(messages[index] for index in range(start, call.end) if index not in self.artefacts)

    def compactions_before(self, call: RecordedCall) -> tuple[RecordedCompaction, ...]:
        """The recorded compactions between the reply before and this request."""
        begin = 0 if call.number == 0 else call.start
        return tuple(found for found in self.session.compactions if begin <= found.position <= call.end)

    @property
    def answered(self) -> frozenset[str]:
        """The calls that were ever answered; one that never was is nobody's broken pair."""
        return frozenset(result.call_id for message in self.session.messages for result in results_of(message))

    @property
    def opening_position(self) -> int | None:
        """Which message holds what the user asked for first, if anybody asked for anything."""
        return next((index for index, message in enumerate(self.session.messages) if is_genuine_user(message)), None)

    @property
    def opening(self) -> str:
        """What the user asked for first, word for word; empty where nobody did."""
        position = self.opening_position
        return "" if position is None else text_of(self.session.messages[position]).strip()


def find_calls(session: RecordedSession) -> RecordedRun:
    """The calls of a session, in order."""
    artefacts = frozenset(_artefacts(session))
    preamble = next((i for i, m in enumerate(session.messages) if not isinstance(m, SystemMessage)), 0)
    return RecordedRun(session, tuple(_calls(session, preamble)), artefacts, preamble)


def _calls(session: RecordedSession, preamble: int) -> Iterator[RecordedCall]:
    told = _reports_usage(session)
    start = number = 0
    for end, message in enumerate(session.messages):
        if end <= preamble or not isinstance(message, AssistantMessage) or not _is_call(message, told=told):
            continue
        before = session.messages[end - 1].created_ms
        usage = message.usage if message.usage is not None and message.usage.prompt else None
        yield RecordedCall(number, start, end, before or message.created_ms, message.created_ms or before, usage)
        start, number = end + 1, number + 1


def _reports_usage(session: RecordedSession) -> bool:
    """Whether a reply without usage was no call: true where most replies report some."""
    replies = [message for message in session.messages if isinstance(message, AssistantMessage) and not message.summary]
    told = sum(1 for reply in replies if reply.usage is not None and reply.usage.context)
    return 2 * told > len(replies)


def _is_call(reply: AssistantMessage, *, told: bool) -> bool:
    """Whether a model was asked: not for a summary, a command the user ran, an error, or a reply the client made up."""
    if reply.summary or reply.agent == "user":
        return False
    if told:
        return reply.usage is not None and reply.usage.context > 0
    return not reply.error


def _artefacts(session: RecordedSession) -> Iterator[int]:
    """Requests to compact, summaries, and the user messages that carry one."""
    summaries = {compaction.summary.strip() for compaction in session.compactions if compaction.summary}
    for index, message in enumerate(session.messages):
        summarises = isinstance(message, AssistantMessage) and message.summary
        if summarises or is_compaction_request(message) or text_of(message).strip() in summaries:
            yield index
