"""Build sessions in the words of the domain: `session(user("hi"), calls("bash"), result(9_000), replies("done"))`.

Ids are assigned in order, so equal calls build equal sessions.
"""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec.structs import replace

from infold.core.entries import Entry, MessageEntry
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    Finish,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    ResultStatus,
    SessionId,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from infold.core.policy import INFOLD, Policy

Draft: TypeAlias = Message
"""A message without ids; `session` assigns them."""

_UNNAMED = MessageId("")


def tokens_of_text(tokens: int) -> str:
    """Return text of exactly that many tokens by the documents' rules (four characters each)."""
    return "word" * tokens


def user(text: str = "go on", *, synthetic: bool = False) -> UserMessage:
    """Return a user message, from a person unless it is synthetic."""
    return UserMessage(_UNNAMED, (TextPart(text, synthetic=synthetic),))


def replies(
    text: str = "done", *, usage: Usage | None = None, finish: Finish = "stop", reasoning: str = ""
) -> AssistantMessage:
    """Return a reply of text."""
    thought: tuple[Part, ...] = (ReasoningPart(reasoning),) if reasoning else ()
    return AssistantMessage(_UNNAMED, (*thought, TextPart(text)), usage=usage, finish=finish)


def calls(*tools: str, arguments: str = "{}", usage: Usage | None = None) -> AssistantMessage:
    """Return a reply that calls tools, in parallel if there are several."""
    parts = tuple(ToolCallPart("", tool, arguments) for tool in tools)
    return AssistantMessage(_UNNAMED, parts, usage=usage, finish="tool-calls")


def result(tokens: int = 10, *, output: str | None = None, status: ResultStatus = "completed") -> ToolMessage:
    """Return the result of the oldest call that is still open, of that many tokens or with that output."""
    return ToolMessage(
        _UNNAMED, (ToolResultPart("", "", tokens_of_text(tokens) if output is None else output, status),)
    )


def requests_compaction(*, auto: bool = True, first_kept_id: str | None = None) -> UserMessage:
    """Return a durable request to compact."""
    kept = None if first_kept_id is None else MessageId(first_kept_id)
    return UserMessage(_UNNAMED, (CompactionPart("part", auto, first_kept_id=kept),))


def summary(text: str = "summary", *, finish: Finish | None = "stop", error: str = "") -> AssistantMessage:
    """Return a summary that answers the newest request to compact."""
    return AssistantMessage(
        _UNNAMED, (TextPart(text),), mode="compaction", agent="compaction", summary=True, finish=finish, error=error
    )


def numbered(drafts: Iterable[Draft], *, prefix: str = "m") -> tuple[Message, ...]:
    """Return drafts with ids `m0`, `m1`, … and with tool calls and results paired in order."""
    messages: list[Message] = []
    waiting: list[ToolCallPart] = []
    request: MessageId | None = None
    for number, draft in enumerate(drafts):
        identity = draft.id or MessageId(f"{prefix}{number}")
        parts = tuple(_paired(part, identity, position, waiting) for position, part in enumerate(draft.parts))
        message = replace(draft, id=identity, parts=parts)
        if isinstance(message, AssistantMessage) and message.summary and message.parent_id is None:
            message = replace(message, parent_id=request)
        if any(isinstance(part, CompactionPart) for part in parts):
            request = identity
        messages.append(message)
    return tuple(messages)


def session(*drafts: Draft, policy: Policy = INFOLD, recall: bool = False) -> Log:
    """Return a log of these messages, under a policy's way of sizing and stubbing."""
    return log_of(numbered(drafts), policy=policy, recall=recall)


def log_of(messages: Iterable[Message], *, policy: Policy = INFOLD, recall: bool = False) -> Log:
    """Return a log of messages that have their ids."""
    log = Log(SessionId("session"), Rendering(policy.estimate, policy.stub, recall))
    entries: Iterable[Entry] = (MessageEntry(message) for message in messages)
    return log.extend(entries)


def _paired(part: Part, message_id: str, position: int, waiting: list[ToolCallPart]) -> Part:
    if isinstance(part, ToolCallPart) and not part.call_id:
        part = replace(part, call_id=f"{message_id}-call{position}")
    if isinstance(part, ToolCallPart):
        waiting.append(part)
    if isinstance(part, ToolResultPart) and not part.call_id and waiting:
        call = waiting.pop(0)
        return replace(part, call_id=call.call_id, tool=part.tool or call.tool)
    return part
