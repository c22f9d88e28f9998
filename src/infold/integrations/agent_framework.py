"""Keep agents of Microsoft's Agent Framework inside their window: `Agent(…, middleware=[InfoldChatMiddleware(window=8_192)])`.

Each model call is made to fit on its own; the session's history is not changed. Messages are converted to Anthropic's shape to be
counted and folded, because there too one message may hold several results; those that are kept are the framework's own objects.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from copy import copy
from typing import Any, Unpack

from agent_framework import ChatContext, ChatMiddleware, ChatResponse, Content, FunctionTool, Message, ResponseStream

from infold.formats.codec import arguments_object, arguments_text
from infold.formats.tools import recall_tool
from infold.integrations.sessions import NOTHING_RECALLED, Call, PlugOptions, Sessions

FORMAT = "anthropic-messages"


class InfoldChatMiddleware(ChatMiddleware):
    """Makes each model call of an agent fit, records its usage, and recovers once from a refusal.

    The options are those of `PlugOptions`. Conversations are kept apart by the id of their session, or by their messages if
    there is none. `recall` is the tool to give to the agent: middleware cannot add one.
    """

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        self.sessions = Sessions.from_options(options, format=FORMAT, recovers=True)
        self._call: ContextVar[Call | None] = ContextVar(
            "infold_call", default=None
        )  # the newest of the agent that runs here
        tool = recall_tool(FORMAT, self.sessions.recall_name)
        schema = tool.pop("input_schema")
        self.recall = FunctionTool(func=lambda query: self._recall(query), input_model=schema, **tool)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Send the request made to fit; once more if it is refused for its size."""
        start = next((place for place, one in enumerate(context.messages) if one.role != "system"), None)
        if start is None or (context.options or {}).get("conversation_id"):  # the server has the earlier ones
            await call_next()
            return
        system, given = list(context.messages[:start]), list(context.messages[start:])
        thread = getattr(getattr(context, "session", None), "session_id", None)
        offered = any(tool is self.recall for tool in (context.options or {}).get("tools") or ())
        call = await self.sessions.aprepare(
            thread,
            list(map(_to_wire, given)),
            **_extras(context, system),
            recall=self.recall.name if offered else "",
        )

        async def send(call: Call) -> Any:
            self._call.set(call)
            if call.is_cut:
                context.messages = [*system, *call.restore(given, _build)]
            await call_next()
            return context.result

        if context.stream:
            context.result = _recovering(call, send, await send(call))
        else:
            await _record(call, await call.asend(send))

    async def _recall(self, query: str) -> str:
        call = self._call.get()
        return NOTHING_RECALLED if call is None else await call.arecall(query)


def _recovering(call: Call, send: Callable[[Call], Awaitable[Any]], stream: Any) -> Any:
    """Return a stream that records its reply, and begins again if it fails for its size before the first update."""
    streams = [stream]

    async def updates() -> AsyncIterator[Any]:
        is_begun = False
        try:
            async for update in stream:
                is_begun = True
                yield update
        except Exception as error:
            again = None if is_begun else await call.arecover(error)
            if again is None:
                raise
            streams.append(await send(again))
            async for update in streams[-1]:
                yield update
        await _record(call, await streams[-1].get_final_response())

    return ResponseStream(updates(), finalizer=lambda _: streams[-1].get_final_response())


def _extras(context: ChatContext, system: list[Message]) -> dict[str, Any]:
    """Return what is sent with the messages, to be counted, and the model's name."""
    options: Any = context.options or {}
    tools = [(tool, getattr(tool, "to_json_schema_spec", tool.__repr__)()) for tool in options.get("tools") or ()]
    name = options.get("model") or getattr(context.client, "model", None)
    return {
        "system": [str(options.get("instructions") or ""), *(message.text for message in system)],
        "tools": [{"name": getattr(tool, "name", ""), "definition": spec} for tool, spec in tools],
        "model": name if isinstance(name, str) else None,
    }


def _to_wire(message: Message) -> dict[str, Any]:
    role = message.role if message.role in ("assistant", "system") else "user"
    return {"role": role, "content": list(map(_block, message.contents))}


def _block(one: Content) -> dict[str, Any]:
    """Return a content as a block; what has no place there is counted by its text."""
    match one.type:
        case "text":
            return {"type": "text", "text": str(one.text)}
        case "text_reasoning":
            return {"type": "thinking", "thinking": one.text or "", "signature": one.protected_data or ""}
        case "function_call" if not any(getattr(one, mark, False) for mark in ("hosted", "informational_only")):
            read = arguments_object(arguments_text(one.arguments))
            return {"type": "tool_use", "id": one.call_id, "name": one.name, "input": read}
        case "function_result":
            inner = [_block(item) for item in one.items or ()] or str(one.result or one.exception or "")
            result = {"type": "tool_result", "tool_use_id": one.call_id, "content": inner}
            return {**result, "is_error": True} if one.exception else result
        case "data" | "uri" if str(one.media_type).startswith("image/"):
            inline = {"type": "base64", "media_type": one.media_type, "data": str(one.uri).partition(",")[2]}
            return {"type": "image", "source": inline if one.type == "data" else {"type": "url", "url": one.uri}}
        case _:
            return {"type": "text", "text": json.dumps(one.to_dict(), default=str)}


def _build(item: dict[str, Any], original: Any) -> Any:
    """Return a message for an item: a copy of the original, with its own contents where they did not change, or a new one."""
    known = {} if original is None else {json.dumps(_block(one)): one for one in original.contents}
    blocks = [{"type": "text", "text": item["content"]}] if isinstance(item["content"], str) else item["content"]
    contents = [known.get(json.dumps(block)) or _content(block) for block in blocks]
    new = copy(original) or Message("tool" if contents[0].type == "function_result" else item["role"])
    new.contents = contents
    return new


def _content(block: dict[str, Any]) -> Content:
    if block["type"] == "tool_use":
        return Content.from_function_call(block["id"], block["name"], arguments=json.dumps(block["input"]))
    if block["type"] == "tool_result":
        inner = block.get("content") or ""
        text = inner if isinstance(inner, str) else "\n".join(one.get("text", "") for one in inner)
        return Content.from_function_result(block["tool_use_id"], result=text)
    return Content.from_text(block.get("text", ""))


async def _record(call: Call, response: Any) -> None:
    if isinstance(response, ChatResponse):
        await call.arecord(response, _reply)


def _reply(response: ChatResponse) -> dict[str, Any]:
    """Return a reply as a body of Anthropic's: where a total is reported, as by OpenAI, the input includes what the cache had."""
    counts: Any = response.usage_details or {}
    read, written = (counts.get(f"cache_{one}_input_token_count") or 0 for one in ("read", "creation"))
    sent = (counts.get("input_token_count") or 0) - (read + written if counts.get("total_token_count") else 0)
    usage = {"input_tokens": max(sent, 0), "output_tokens": counts.get("output_token_count") or 0}
    usage |= {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    blocks = [block for message in response.messages for block in _to_wire(message)["content"]]
    body = {"content": blocks, "stop_reason": "max_tokens" if response.finish_reason == "length" else "end_turn"}
    return {"role": "assistant", **body, **({"usage": usage} if counts else {})}
