"""Keep Pydantic AI agents inside their model's window: `Agent(…, capabilities=[Infold(window=8_192)])`.

Each model request is made to fit on its own; the run's history is not changed. Messages are converted to Anthropic's format,
in which one message holds all results of a step, as a `ModelRequest` does; those that are kept are sent as they are.
"""

from copy import copy
from dataclasses import replace
from typing import Any, Unpack

import pydantic_ai
from pydantic_ai import messages as parts
from pydantic_ai.capabilities import AbstractCapability

from infold.formats.tools import recall_tool
from infold.integrations.sessions import Call, PlugOptions, Sessions

FORMAT = "anthropic-messages"
RetryModelRequest: Any = getattr(pydantic_ai, "RetryModelRequest", None)  # new in 2.66, as `prepare_model_request` is


class Infold(AbstractCapability[Any]):
    """Makes each model request fit, records its usage, and recovers once from a refusal; the options are `PlugOptions`."""

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        self.sessions = Sessions.from_options(options, format=FORMAT, recovers=True)
        self._call: Call | None = None

    async def for_run(self, ctx: Any) -> "Infold":  # noqa: ARG002  # the framework's signature
        """Return a copy for one run, since runs may overlap; the sessions are shared."""
        return copy(self)

    def get_toolset(self) -> Any:
        """Offer the recall tool."""
        name, description, schema = (recall_tool(FORMAT)[field] for field in ("name", "description", "input_schema"))
        tool = pydantic_ai.Tool.from_schema(self._recall, name, description, schema, takes_ctx=True)
        return pydantic_ai.FunctionToolset([tool], id="infold")

    async def _recall(self, ctx: Any, **arguments: Any) -> str:
        return await self.sessions.arecall(ctx.conversation_id, arguments)

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Make a request fit; for another attempt after a refusal, take the smaller one."""
        if self._call is None or getattr(request_context, "attempt", 1) == 1:
            messages, sent = request_context.messages, request_context.model_request_parameters
            prompts = [prompt.content for prompt in (*_prompts(messages), *(sent.instruction_parts or ()))]
            tools = [
                {"name": tool.name, "description": tool.description or "", "input_schema": tool.parameters_json_schema}
                for tool in (*sent.function_tools, *sent.output_tools)
            ]
            extras = {"system": "\n\n".join(prompts), "tools": tools, "model": request_context.model.model_name}
            self._call = await self.sessions.aprepare(ctx.conversation_id, list(map(_to_wire, messages)), **extras)
        return _fitted(request_context, self._call)

    async def on_model_request_error(self, ctx: Any, *, request_context: Any, error: Exception) -> Any:  # noqa: ARG002
        """Ask for another attempt if a request was refused for its size; otherwise raise the error."""
        self._call = await self._call.arecover(error) if self._call is not None else None
        if self._call is None:
            raise error
        if RetryModelRequest is not None:
            raise RetryModelRequest from error
        sent = _fitted(request_context, self._call)
        return await sent.model.request(sent.messages, sent.model_settings, sent.model_request_parameters)

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:  # noqa: ARG002
        """Record the reply."""
        if self._call is not None:
            await self._call.arecord(_reply(response))
        return response

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        """Make a request fit before 2.66, where no hook is called for each attempt."""
        is_old = RetryModelRequest is None
        return await handler(await self.prepare_model_request(ctx, request_context) if is_old else request_context)


def _prompts(messages: Any) -> list[Any]:
    return [part for message in messages for part in message.parts if isinstance(part, parts.SystemPromptPart)]


def _fitted(request: Any, call: Call) -> Any:
    """Return the request as it is sent; system prompts of messages that are not sent come first."""
    if not call.is_cut:
        return request
    sent = call.restore(request.messages, _build)
    lost = [one for one in _prompts(request.messages) if all(one is not kept for kept in _prompts(sent))]
    return replace(request, messages=[*([parts.ModelRequest(parts=lost)] if lost else []), *sent])


def _to_wire(message: Any) -> dict[str, Any]:
    """Return a message in Anthropic's shape; each block has the index of its part, by which `_build` finds it."""
    blocks = [{**block, "part": index} for index, part in enumerate(message.parts) for block in _blocks(part)]
    return {"role": "assistant" if isinstance(message, parts.ModelResponse) else "user", "content": blocks}


def _blocks(part: Any) -> list[dict[str, Any]]:
    if isinstance(part, parts.SystemPromptPart):
        return []
    if isinstance(part, parts.ThinkingPart):
        return [{"type": "thinking", "thinking": part.content, "signature": part.signature or ""}]
    if isinstance(part, parts.ToolCallPart):
        return [{"type": "tool_use", "id": part.tool_call_id, "name": part.tool_name, "input": part.args}]
    if part.part_kind in ("tool-return", "retry-prompt") and part.tool_name is not None:
        held = [part.model_response_str(), *part.files] if part.part_kind == "tool-return" else [part.model_response()]
        result = {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": list(map(_block, held))}
        return [{**result, "is_error": getattr(part, "outcome", "failed") in ("failed", "retried")}]
    content = getattr(part, "content", part)
    return list(map(_block, content if isinstance(content, list | tuple) else [content]))


def _block(content: Any) -> dict[str, Any]:
    if not isinstance(content, parts.BinaryContent | parts.FileUrl):
        return {"type": "text", "text": str(getattr(content, "content", content))}
    kind = "image" if isinstance(content, parts.ImageUrl) or getattr(content, "is_image", False) else "document"
    if isinstance(content, parts.FileUrl):
        return {"type": kind, "source": {"url": content.url}}
    return {"type": kind, "source": {"media_type": content.media_type, "data": content.base64}}


def _build(item: dict[str, Any], original: Any) -> Any:
    """Return a message of Pydantic AI's: a copy of the original with the parts that changed, or a new one."""
    content = item["content"] if isinstance(item["content"], list) else [{"type": "text", "text": item["content"]}]
    text_part = parts.TextPart if item["role"] == "assistant" else parts.UserPromptPart
    new: list[Any] = [text_part(block["text"]) for block in content if "part" not in block and "text" in block]
    if original is None:
        return (parts.ModelResponse if text_part is parts.TextPart else parts.ModelRequest)(parts=new)
    given = _to_wire(original)["content"]
    for index, part in enumerate(original.parts):
        now, before = ([one for one in blocks if one.get("part") == index] for blocks in (content, given))
        new += [part if now == before else _edited(part, now, before)] if now else []
    return replace(original, parts=new)


def _edited(part: Any, blocks: list[dict[str, Any]], before: list[dict[str, Any]]) -> Any:
    if "input" in blocks[0]:
        return replace(part, args=blocks[0]["input"])
    if isinstance(part, parts.UserPromptPart) and not isinstance(part.content, str):
        kept = dict(zip(map(repr, before), part.content, strict=True))  # files that are left stay
        return replace(part, content=[kept.get(repr(block), block.get("text", "")) for block in blocks])
    held = blocks[0].get("content", blocks)
    return replace(part, content=held if isinstance(held, str) else "".join(one.get("text", "") for one in held))


def _reply(response: Any) -> dict[str, Any]:
    """Return the reply as a body of Anthropic's; its input excludes the cache, which Pydantic AI's includes."""
    used = response.usage
    read, written = used.cache_read_tokens, used.cache_write_tokens
    counts = {"input_tokens": max(0, used.input_tokens - read - written), "output_tokens": used.output_tokens}
    usage = {**counts, "cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    return {**_to_wire(response), "stop_reason": response.finish_reason, "usage": usage}
