"""The calls to a model in a recorded session: the messages added before each, the reply, its time and its usage.

This module distinguishes calls from replies that only look like one, and finds the messages that a recorded
compaction wrote: those belong to the recorded policy, and no other policy is shown them.
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

    `messages[start:end]` of the session were added since the previous reply; `messages[end]` is the reply. `sent_ms`
    is the time of the newest message sent, `answered_ms` that of the reply; `None` if the record has no times.
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
        """Return the recorded reply."""
        reply = self.session.messages[call.end]
        assert isinstance(reply, AssistantMessage)
        return reply

    def added_before(self, call: RecordedCall) -> tuple[Message, ...]:
        """Return the messages added since the previous reply, without the preamble and without those of a recorded
        compaction.
        """
        messages = self.session.messages
        start = max(call.start, self.preamble)
        return tuple(messages[index] for index in range(start, call.end) if index not in self.artefacts)

    def compactions_before(self, call: RecordedCall) -> tuple[RecordedCompaction, ...]:
        """Return the recorded compactions between the previous reply and this request."""
        begin = 0 if call.number == 0 else call.start
        return tuple(found for found in self.session.compactions if begin <= found.position <= call.end)

    @property
    def answered(self) -> frozenset[str]:
        """The ids of the tool calls that have a result; a call without one is not a broken pair."""
        return frozenset(result.call_id for message in self.session.messages for result in results_of(message))

    @property
    def opening_position(self) -> int | None:
        """The position of the user's first request, or `None`."""
        return next((index for index, message in enumerate(self.session.messages) if is_genuine_user(message)), None)

    @property
    def opening(self) -> str:
        """The user's first request, verbatim; empty if there is none."""
        position = self.opening_position
        return "" if position is None else text_of(self.session.messages[position]).strip()


def find_calls(session: RecordedSession) -> RecordedRun:
    """Return the calls of a session, in order."""
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
    """Return whether most replies report usage, so that one without it was not a call."""
    replies = [message for message in session.messages if isinstance(message, AssistantMessage) and not message.summary]
    told = sum(1 for reply in replies if reply.usage is not None and reply.usage.context)
    return 2 * told > len(replies)


def _is_call(reply: AssistantMessage, *, told: bool) -> bool:
    """Return whether a model was called: not for a summary, a user's command, an error, or a reply the client made
    up.
    """
    if reply.summary or reply.agent == "user":
        return False
    if told:
        return reply.usage is not None and reply.usage.context > 0
    return not reply.error


def _artefacts(session: RecordedSession) -> Iterator[int]:
    """Yield the positions of requests to compact, summaries, and the user messages that carry one."""
    summaries = {compaction.summary.strip() for compaction in session.compactions if compaction.summary}
    for index, message in enumerate(session.messages):
        summarises = isinstance(message, AssistantMessage) and message.summary
        if summarises or is_compaction_request(message) or text_of(message).strip() in summaries:
            yield index
