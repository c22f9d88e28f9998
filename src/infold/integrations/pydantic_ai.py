"""Keep Pydantic AI agents inside their model's window: `Agent(…, capabilities=[Infold(window=8_192)])`.

Each model request is made to fit on its own; the run's history is not changed. Messages are converted to Anthropic's format,
in which one message holds all results of a step, as a `ModelRequest` does; those that are kept are sent as they are.
"""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Unpack

import pydantic_ai
from pydantic import TypeAdapter
from pydantic_ai import messages as parts
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from infold.formats.tools import free_recall_name, recall_tool
from infold.integrations.sessions import Call, PlugOptions, Sessions

FORMAT = "anthropic-messages"
MARK = "infold"  # in the metadata of the recall tool, by which it is known
ARGUMENTS: Any = TypeAdapter(dict[str, Any]).validator
RetryModelRequest: Any = getattr(pydantic_ai, "RetryModelRequest", None)  # new in 2.66, as `prepare_model_request` is


class Infold(AbstractCapability[Any]):
    """Makes each model request fit, records its usage, and recovers once from a refusal; the options are `PlugOptions`."""

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        self.sessions = Sessions.from_options(options, format=FORMAT, recovers=True)
        self._call: Call | None = None

    async def for_run(self, ctx: Any) -> "Infold":  # noqa: ARG002  # the framework's signature
        """Return a copy for one run, since runs may overlap; the sessions are shared."""
        return copy(self)

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        """Add the recall tool to the agent's own, under a name that none of them has."""
        return _WithRecall(toolset, self)

    async def recall(self, ctx: Any, arguments: dict[str, Any]) -> str:
        """Answer a call of the recall tool in this run."""
        if self._call is not None:
            return await self._call.arecall(arguments)
        return await self.sessions.arecall(ctx.conversation_id, arguments, list(map(_to_wire, ctx.messages)))

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Make a request fit; for another attempt after a refusal, take the smaller one."""
        if self._call is None or getattr(request_context, "attempt", 1) == 1:
            messages, sent = request_context.messages, request_context.model_request_parameters
            recall = _recall_of(sent)
            prompts = [prompt.content for prompt in (*_prompts(messages), *(sent.instruction_parts or ()))]
            tools = [
                {"name": tool.name, "description": tool.description or "", "input_schema": tool.parameters_json_schema}
                for tool in (*sent.function_tools, *sent.output_tools)
            ]
            extras = {
                "system": "\n\n".join(prompts),
                "tools": tools,
                "model": request_context.model.model_name,
                "recall": recall.name if recall and len(sent.function_tools) > 1 else "",
            }
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
            await self._call.arecord(response, _reply)
        return response

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        """Make a request fit before 2.66, where no hook is called for each attempt."""
        is_old = RetryModelRequest is None
        return await handler(await self.prepare_model_request(ctx, request_context) if is_old else request_context)


@dataclass
class _WithRecall(WrapperToolset[Any]):
    """An agent's toolset with the recall tool; it is taken out of requests until there is something to recall."""

    infold: Infold

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        tools = await super().get_tools(ctx)
        offered = recall_tool(FORMAT, free_recall_name(self.infold.sessions.recall_name, tools))
        definition = ToolDefinition(
            name=offered["name"],
            parameters_json_schema=offered["input_schema"],
            description=offered["description"],
            metadata={MARK: True},
        )
        own = _RecallTool(toolset=self, tool_def=definition, max_retries=1, args_validator=ARGUMENTS)
        return {**tools, definition.name: own} if tools else tools

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        if isinstance(tool, _RecallTool):
            return await self.infold.recall(ctx, tool_args)
        return await super().call_tool(name, tool_args, ctx, tool)


class _RecallTool(ToolsetTool[Any]):
    """The recall tool, known by its type."""


def _recall_of(sent: Any) -> Any:
    """Return the definition of the recall tool in a request, known by its metadata; `None` if it is not there."""
    return next((tool for tool in sent.function_tools if (tool.metadata or {}).get(MARK)), None)


def _prompts(messages: Any) -> list[Any]:
    return [part for message in messages for part in message.parts if isinstance(part, parts.SystemPromptPart)]


def _fitted(request: Any, call: Call) -> Any:
    """Return the request as it is sent; system prompts of messages that are not sent come first."""
    tools = request.model_request_parameters
    recall = _recall_of(tools)
    if not call.is_cut and recall is not None:
        others = [tool for tool in tools.function_tools if tool is not recall]
        request = replace(request, model_request_parameters=replace(tools, function_tools=others))
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
