"""Keep inspect_ai agents inside their model's window: `react(tools=[…], compaction=InfoldCompaction(window=8_192))`.

inspect_ai decides when to compact, keeps the compacted messages, and gives them back with those that follow. Messages are
converted to OpenAI Chat to be counted and folded; those that are kept are inspect_ai's own objects.
"""

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    CompactionStrategy,
    ContentImage,
    ContentReasoning,
    ContentText,
)
from inspect_ai.tool import Tool, ToolDef, ToolParams

from infold.core.budget import Window
from infold.formats.codec import arguments_object
from infold.formats.tools import recall_tool
from infold.integrations.sessions import NOTHING_RECALLED, Call, KnownSession, PlugOptions, Sessions, SharedThread

FORMAT = "openai-chat"

THRESHOLD = 0.8
"""The share of the window at which inspect_ai asks for a compaction; it sets nothing aside for the reply."""

REFUSED = {"error": {"code": "context_length_exceeded"}}
"""Why inspect_ai asks for a compaction of what was just compacted; it does not pass on what the provider wrote."""

THREAD = "infold_thread"
"""The metadata of a checkpoint's message that names its session."""


class InfoldCompaction(CompactionStrategy):
    """Compacts the messages of agents when inspect_ai asks for it, by its own count or after a refusal.

    The options are those of `PlugOptions`. Conversations are kept apart by the ids of their first messages. Give the agent
    `recall_tool()` among its tools if the model shall bring back what was folded.
    """

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        self.sessions = Sessions.from_options(options, format=FORMAT, recovers=False)
        window = options.get("window")
        size = window.context_tokens if isinstance(window, Window) else window
        super().__init__(type="summary", threshold=int(size * THRESHOLD) if size else THRESHOLD, memory=False)
        self._call: ContextVar[Call | None] = ContextVar("infold_call", default=None)  # of the agent that runs here

    @property
    def preserve_prefix(self) -> bool:
        """Return false: the user's first words are in the checkpoint, and would be sent twice."""
        return False

    async def compact(
        self, model: Any, messages: list[ChatMessage], tools: Sequence[Any]
    ) -> tuple[list[ChatMessage], ChatMessageUser | None]:
        """Return the messages to send; they are fewer at each call, since inspect_ai calls only if it needs that."""
        written: dict[str, Any] = {message.text: message for message in messages if THREAD in (message.metadata or {})}
        first = next((message for message in messages if not isinstance(message, ChatMessageSystem)), messages[0])
        known = next((KnownSession(message.metadata[THREAD]) for message in written.values()), None)
        offered = [{"type": "function", "function": tool.model_dump(exclude_none=True)} for tool in tools]
        wire = list(map(_to_chat, messages))
        ours = recall_tool(FORMAT, self.sessions.recall_name)["function"]
        is_offered = any((tool.name, tool.description) == (ours["name"], ours["description"]) for tool in tools)
        call = await self.sessions.aprepare(
            known or SharedThread(first.id),  # samples of several epochs, and agents that were forked, begin alike
            wire,
            tools=offered,
            model=str(model),
            recall=ours["name"] if is_offered else "",
        )
        build = partial(_build, call.session.log.session_id, written)
        sent = call.restore(messages, build)
        if _is_same(sent, messages):
            call = await call.acompact()
            sent = call.restore(messages, build)
        if _is_same(sent, messages) and (again := await call.arecover(REFUSED)) is not None:
            call = again
            sent = call.restore(messages, build)
        self._call.set(call)
        return sent, None

    def recall_tool(self) -> Tool:
        """Return the recall tool, for an agent's `tools`."""

        async def recall(query: str) -> str:
            call = self._call.get()
            return NOTHING_RECALLED if call is None else await call.arecall({"query": query})

        offered = recall_tool(FORMAT, self.sessions.recall_name)["function"]
        return ToolDef(
            recall,
            name=offered["name"],
            description=offered["description"],
            parameters=ToolParams.model_validate(offered["parameters"]),
        ).as_tool()


def _is_same(sent: list[Any], messages: list[Any]) -> bool:
    return list(map(id, sent)) == list(map(id, messages))


def _to_chat(message: Any) -> dict[str, Any]:
    """Return a message in OpenAI's shape; calls that could not be parsed are calls, because they are answered too."""
    content = message.content if isinstance(message.content, str) else list(map(_block, message.content))
    if isinstance(message, ChatMessageTool):
        text = message.error.message if message.error is not None and not message.text else content
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": text}
    if not isinstance(message, ChatMessageAssistant) or not message.tool_calls:
        return {"role": message.role, "content": content}
    calls = [
        {
            "type": "function",
            "id": call.id,
            "function": {"name": call.function, "arguments": json.dumps(call.arguments)},
        }
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def _block(content: Any) -> dict[str, Any]:
    if isinstance(content, ContentImage):
        return {"type": "image_url", "image_url": {"url": content.image}}
    if isinstance(content, ContentText | ContentReasoning):
        return {"type": "text", "text": content.text if isinstance(content, ContentText) else content.reasoning}
    return {"type": "text", "text": content.model_dump_json(exclude_none=True)}


def _build(thread: str | None, written: Mapping[str, Any], item: dict[str, Any], original: Any) -> Any:
    """Return a message of inspect_ai's: a copy of the original with the new content, or what infold wrote, now or before."""
    content = item.get("content") or ""
    text = content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
    if original is None:
        kinds = {"assistant": ChatMessageAssistant, "system": ChatMessageSystem}
        make = kinds.get(item["role"], ChatMessageUser)
        return written.get(text) or make(content=text, metadata={THREAD: thread})
    update: dict[str, Any] = {}
    if item.get("content") != _to_chat(original)["content"]:
        update = {"content": text, **({"error": None} if isinstance(original, ChatMessageTool) else {})}
    if isinstance(original, ChatMessageAssistant) and original.tool_calls:
        given = {call["id"]: arguments_object(call["function"]["arguments"]) for call in item.get("tool_calls") or ()}
        calls = [replace(call, arguments=given[call.id]) for call in original.tool_calls if call.id in given]
        update["tool_calls"] = calls or None
    return original.model_copy(update=update)
