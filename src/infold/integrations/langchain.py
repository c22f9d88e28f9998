"""Keep LangChain agents inside their model's window: `create_agent(…, middleware=[InfoldMiddleware(window=8_192)])`.

LangGraph and deepagents take the same middleware. Each model call is made to fit on its own; the state of the graph is not
changed. Messages are converted to OpenAI Chat to be counted and folded; those that are kept are sent as LangChain's own objects.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Unpack

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config

from infold.core.messages import RECALL_TOOL_NAME
from infold.formats.tools import RECALL_DESCRIPTION, recall_tool
from infold.integrations.sessions import Call, PlugOptions, Sessions

FORMAT = "openai-chat"


class InfoldMiddleware(AgentMiddleware):
    """Makes each model call of an agent fit, records its usage, and recovers once from a refusal.

    The options are those of `PlugOptions`. Conversations are kept apart by LangGraph's `thread_id`, or by their messages if
    there is none. The recall tool is offered to the model, with an agent's own tools, once something was folded.
    """

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        super().__init__()
        self.sessions = Sessions.from_options(options, format=FORMAT, recovers=True, recall=None)
        self.tools = [
            StructuredTool(
                name=RECALL_TOOL_NAME,
                description=RECALL_DESCRIPTION,
                args_schema=recall_tool(FORMAT)["function"]["parameters"],
                func=lambda **arguments: self.sessions.recall(_thread(), arguments),
                coroutine=self._recall,
            )
        ]

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Send the request made to fit; once more if it is refused for its size."""
        if not request.messages:
            return handler(request)
        call = self.sessions.prepare(_thread(), list(map(_to_chat, request.messages)), **_extras(request))
        try:
            response = handler(_fitted(request, call))
        except Exception as error:
            again = call.recover(error)
            if again is None:
                raise
            response = handler(_fitted(request, again))
        for body in _reply(response):
            call.record(body)
        return response

    async def awrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]) -> Any:
        """Do the same for an agent that is awaited."""
        if not request.messages:
            return await handler(request)
        call = await self.sessions.aprepare(_thread(), list(map(_to_chat, request.messages)), **_extras(request))
        try:
            response = await handler(_fitted(request, call))
        except Exception as error:
            again = await call.arecover(error)
            if again is None:
                raise
            response = await handler(_fitted(request, again))
        for body in _reply(response):
            await call.arecord(body)
        return response

    async def _recall(self, **arguments: Any) -> str:
        return await self.sessions.arecall(_thread(), arguments)


def _thread() -> str | None:
    """Return the id of the thread that is running; `None` outside of a graph, or without a checkpointer."""
    try:
        return get_config().get("configurable", {}).get("thread_id")
    except RuntimeError:
        return None


def _extras(request: ModelRequest) -> dict[str, Any]:
    """Return what is sent with the messages, to be counted, and the model's name."""
    name = getattr(request.model, "model_name", None) or getattr(request.model, "model", None)
    return {
        "system": None if request.system_message is None else str(request.system_message.text),
        "tools": list(map(_tool, request.tools)) if _without_recall(request.tools) else [],
        "model": name if isinstance(name, str) else None,
    }


def _tool(tool: Any) -> Any:
    try:
        return convert_to_openai_tool(tool)
    except Exception:  # one that cannot be read is counted by its text, and does not end the run
        return str(tool)


def _fitted(request: ModelRequest, call: Call) -> ModelRequest:
    """Return the request as it is sent; recall is offered with an agent's own tools, once there is something to recall."""
    others = _without_recall(request.tools)
    if call.is_cut:
        return request.override(messages=call.restore(request.messages, _build), tools=request.tools if others else [])
    return request if len(others) == len(request.tools) else request.override(tools=others)


def _without_recall(tools: Sequence[Any]) -> list[Any]:
    return [tool for tool in tools if getattr(tool, "name", None) != RECALL_TOOL_NAME]


def _to_chat(message: BaseMessage) -> dict[str, Any]:
    """Return a message in OpenAI's shape; calls that could not be parsed count as calls, because they are answered too."""
    try:
        item: Any = convert_to_openai_messages(message)
    except ValueError:  # a block that has no place there; its words are counted
        item = convert_to_openai_messages(message.model_copy(update={"content": str(message.text)}))
    unread = message.invalid_tool_calls if isinstance(message, AIMessage) else []
    named = [(call["id"], {"name": call["name"] or "", "arguments": call["args"] or ""}) for call in unread]
    calls = [{"type": "function", "id": call_id or "", "function": function} for call_id, function in named]
    return {**item, "tool_calls": [*item.get("tool_calls", ()), *calls]} if calls else item


def _build(item: dict[str, Any], original: Any) -> Any:
    """Return a message of LangChain's: a copy of the original with the new content, or a new one."""
    new = convert_to_messages([item])[0]
    fields = ("content", "tool_calls", "invalid_tool_calls") if isinstance(original, AIMessage) else ("content",)
    return new if original is None else original.model_copy(update={field: getattr(new, field) for field in fields})


def _reply(response: Any) -> list[dict[str, Any]]:
    """Return the reply as a body of OpenAI Chat, if there is one; a model call returns one of three types."""
    response = getattr(response, "model_response", response)  # of an `ExtendedModelResponse`
    messages = response.result if isinstance(response, ModelResponse) else [response]
    if (reply := next((message for message in messages if isinstance(message, AIMessage)), None)) is None:
        return []
    choice = {"message": _to_chat(reply), "finish_reason": reply.response_metadata.get("finish_reason", "stop")}
    body: dict[str, Any] = {"choices": [choice]}
    if usage := reply.usage_metadata:
        body["usage"] = {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "prompt_tokens_details": {"cached_tokens": (usage.get("input_token_details") or {}).get("cache_read")},
        }
    return [body]
