"""Compact the conversation of a Haystack agent: `CompactionHook(InfoldCompactor(window=8_192), context_window=8_192)`.

Haystack decides when, by its own count; what the compactor returns replaces the messages in the agent's state. Messages are
converted to OpenAI Chat to be counted and folded; those that are kept are Haystack's own objects. A checkpoint that comes back
in the next call is known by its metadata, and replaced by the next one.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from haystack.core.serialization import default_from_dict, default_to_dict
from haystack.dataclasses import ChatMessage
from haystack.hooks.compaction.types import Compactor
from haystack.token_counters import TokenCounter
from haystack.tools.tool import Tool
from msgspec import structs

from infold.core.messages import AssistantMessage
from infold.errors import UsageError, WindowExceeded
from infold.formats.registry import format_named
from infold.formats.tools import recall_tool
from infold.integrations.sessions import Call, KnownSession, PlugOptions, Sessions, SharedThread
from infold.proxy.request import fingerprint_of
from infold.session.history import DecodedHistory, decode_history

FORMAT = "openai-chat"

MARK = "context_compaction"
"""Where Haystack's compactors note in a message's metadata that they wrote it; here, also for which session."""


class InfoldCompactor(Compactor):
    """Folds the older part of a conversation when the hook asks for it.

    The options are those of `PlugOptions`; `window` or `model` is needed, because the hook does not tell it. Conversations are
    kept apart by their first message and what follows it. `recall` is the tool to give to the agent.
    """

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        if options.get("window") is None and options.get("model") is None:
            raise UsageError("the hook does not tell its window; give `window`, the same as the hook's, or `model`")
        self._options = options
        self.sessions = Sessions.from_options(options, format=FORMAT, recovers=False)
        offered = recall_tool(FORMAT, self.sessions.recall_name)["function"]
        both: Any = {"function": self._recall, "async_function": self._arecall}
        self.recall = Tool(**offered, **both, inputs_from_state={"messages": "messages"})

    def compact(
        self, messages: list[ChatMessage], target_tokens: int, token_counter: TokenCounter
    ) -> list[ChatMessage] | None:
        """Return a shorter list, or `None` if it cannot be made shorter."""
        try:
            call = self.sessions.prepare(_thread(messages), _decode(messages), recall=self.recall.name)
            if token_counter.count(_restore(call, messages)) > target_tokens:
                call = call.compact()
        except WindowExceeded:
            return None
        return _if_shorter(_restore(call, messages), messages, token_counter)

    async def compact_async(
        self, messages: list[ChatMessage], target_tokens: int, token_counter: TokenCounter
    ) -> list[ChatMessage] | None:
        """Do the same for an agent that is awaited; the summariser may be async."""
        try:
            call = await self.sessions.aprepare(_thread(messages), _decode(messages), recall=self.recall.name)
            if token_counter.count(_restore(call, messages)) > target_tokens:
                call = await call.acompact()
        except WindowExceeded:
            return None
        return _if_shorter(_restore(call, messages), messages, token_counter)

    def to_dict(self) -> dict[str, Any]:
        """Return the options; raise `UsageError` for one that is not plain, such as an opened store."""
        for name, value in self._options.items():
            if not isinstance(value, str | int | None):
                raise UsageError(f"{name!r} is {value!r}, which cannot be written down; give a name or an address")
        return default_to_dict(self, **self._options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "InfoldCompactor":
        """Return a compactor with these options."""
        return default_from_dict(cls, data)

    def close(self) -> None:
        """Close the sessions, and the store if it was given as an address."""
        self.sessions.close()

    def _recall(self, query: str, messages: Sequence[ChatMessage] = ()) -> str:
        return self.sessions.recall(_thread(messages), query, _decode(messages))

    async def _arecall(self, query: str, messages: Sequence[ChatMessage] = ()) -> str:
        return await self.sessions.arecall(_thread(messages), query, _decode(messages))


def _thread(messages: Sequence[ChatMessage]) -> SharedThread:
    """Return the id that the checkpoint has in its metadata, or the fingerprint of what the user said first."""
    marks = (message.meta.get(MARK) for message in messages)
    known = (KnownSession(mark["session"]) for mark in marks if isinstance(mark, dict) and "session" in mark)
    first = next((message for message in messages if not message.is_from("system")), None)
    return next(known, None) or SharedThread(fingerprint_of(str(first and first.text)))


def _decode(messages: Sequence[ChatMessage]) -> DecodedHistory:
    """Return messages in OpenAI's shape, decoded, with the usage that replies have in their metadata."""
    wire = format_named(FORMAT)
    history = decode_history(wire, list(map(_to_chat, messages)))
    decoded = history.decoded.messages
    with_usage = tuple(
        structs.replace(one, usage=wire.usage(message.meta)) if isinstance(one, AssistantMessage) else one
        for one, message in zip(decoded, messages[len(messages) - len(decoded) :], strict=True)
    )
    return structs.replace(history, decoded=structs.replace(history.decoded, messages=with_usage))


def _to_chat(message: ChatMessage) -> dict[str, Any]:
    try:
        return message.to_openai_dict_format(require_tool_call_ids=False)
    except ValueError:  # something that OpenAI does not take; its text is counted
        result = message.tool_call_result
        if result is None:
            return {"role": message.role.value, "content": str(message.text or "")}
        return {"role": "tool", "tool_call_id": result.origin.id, "content": str(result.result)}


def _restore(call: Call, messages: list[ChatMessage]) -> list[ChatMessage]:
    return call.restore(messages, partial(_build, call.session.log.session_id))


def _if_shorter(
    shorter: list[ChatMessage], messages: list[ChatMessage], counter: TokenCounter
) -> list[ChatMessage] | None:
    return shorter if counter.count(shorter) < counter.count(messages) else None


def _build(session: str, item: dict[str, Any], original: ChatMessage | None) -> ChatMessage:
    """Return a message: the original with the new content, or a new one, marked as Haystack's own compactors mark theirs."""
    new = ChatMessage.from_openai_dict_format(item)
    if original is None:
        return replace(new, _meta={MARK: {"strategy": "infold", "session": session}})
    if original.tool_call_result is not None and new.tool_call_result is not None:
        return replace(original, _content=[replace(original.tool_call_result, result=new.tool_call_result.result)])
    return replace(original, _content=[*original.reasonings, *new._content])  # noqa: SLF001  # its only form with all parts
