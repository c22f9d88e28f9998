"""Keep LangChain agents inside their model's window: `create_agent(…, middleware=[InfoldMiddleware(window=8_192)])`.

LangGraph and deepagents take the same middleware. Each model call is made to fit on its own; the state of the graph is not
changed. Messages are converted to OpenAI Chat to be counted and folded; those that are kept are sent as LangChain's own objects.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeAlias, Unpack

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config
from langgraph.prebuilt import InjectedState

from infold.core.messages import RECALL_TOOL_NAME
from infold.formats.tools import free_recall_name, recall_tool
from infold.integrations.sessions import Call, PlugOptions, Sessions

FORMAT = "openai-chat"

_State: TypeAlias = Annotated[Sequence[BaseMessage], InjectedState("messages")]


class InfoldMiddleware(AgentMiddleware):
    """Makes each model call of an agent fit, records its usage, and recovers once from a refusal.

    The options are those of `PlugOptions`. Conversations are kept apart by LangGraph's `thread_id`, or by their messages if
    there is none. The recall tool is offered to the model, with an agent's own tools, once something was folded; where a tool of
    the agent has its name, as `infold_recall`. It answers from the session of the conversation that calls it.
    """

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        super().__init__()
        self.sessions = Sessions.from_options(options, format=FORMAT, recovers=True)
        name = self.sessions.recall_name
        self.tools = [self._tool(name), self._tool(free_recall_name(RECALL_TOOL_NAME, (name, RECALL_TOOL_NAME)))]

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Send the request made to fit; once more if it is refused for its size."""
        if not request.messages:
            return handler(request)
        tools = _Tools(request.tools, self.tools)
        call = self.sessions.prepare(_thread(), list(map(_to_chat, request.messages)), **_extras(request, tools))
        try:
            response = handler(_fitted(request, tools, call))
        except Exception as error:
            again = call.recover(error)
            if again is None:
                raise
            response = handler(_fitted(request, tools, again))
        if (reply := _ai_message(response)) is not None:
            call.record(reply, _reply)
        return response

    async def awrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]) -> Any:
        """Do the same for an agent that is awaited."""
        if not request.messages:
            return await handler(request)
        tools, messages = _Tools(request.tools, self.tools), list(map(_to_chat, request.messages))
        call = await self.sessions.aprepare(_thread(), messages, **_extras(request, tools))
        try:
            response = await handler(_fitted(request, tools, call))
        except Exception as error:
            again = await call.arecover(error)
            if again is None:
                raise
            response = await handler(_fitted(request, tools, again))
        if (reply := _ai_message(response)) is not None:
            await call.arecord(reply, _reply)
        return response

    def _tool(self, name: str) -> StructuredTool:
        """Return the recall tool under a name; LangGraph gives it the messages of the conversation that calls it."""
        offered = recall_tool(FORMAT, name)["function"]
        return StructuredTool(
            name=name,
            description=offered["description"],
            args_schema=offered["parameters"],
            func=self._recall,
            coroutine=self._arecall,
        )

    def _recall(self, messages: _State = (), **arguments: Any) -> str:
        return self.sessions.recall(_thread(), arguments, list(map(_to_chat, messages)))

    async def _arecall(self, messages: _State = (), **arguments: Any) -> str:
        return await self.sessions.arecall(_thread(), arguments, list(map(_to_chat, messages)))


class _Tools:
    """The tools of a request: the agent's own, and the one of ours that is offered once there is something to recall.

    It is offered with an agent's own tools only, and under a name that none of them has.
    """

    def __init__(self, tools: Sequence[Any], ours: Sequence[StructuredTool]) -> None:
        self.own = [tool for tool in tools if all(tool is not one for one in ours)]
        taken = {name for tool in self.own for name in (getattr(tool, "name", None), _name(tool))}
        free = [tool for tool in tools if all(tool is not one for one in self.own) and tool.name not in taken]
        self.recall = free[0] if self.own and free else None
        self.with_recall = [*self.own, self.recall] if self.recall else self.own


def _thread() -> str | None:
    """Return the id of the thread that is running; `None` outside of a graph, or without a checkpointer."""
    try:
        return get_config().get("configurable", {}).get("thread_id")
    except RuntimeError:
        return None


def _extras(request: ModelRequest, tools: _Tools) -> dict[str, Any]:
    """Return what is sent with the messages, to be counted, and the model's name."""
    name = getattr(request.model, "model_name", None) or getattr(request.model, "model", None)
    return {
        "system": None if request.system_message is None else str(request.system_message.text),
        "tools": list(map(_tool, tools.with_recall)),
        "model": name if isinstance(name, str) else None,
        "recall": tools.recall.name if tools.recall else "",
    }


def _tool(tool: Any) -> Any:
    try:
        return convert_to_openai_tool(tool)
    except Exception:  # one that cannot be read is counted by its text, and does not end the run
        return str(tool)


def _name(tool: Any) -> Any:
    """Return the name in a tool's definition, as of one of the provider's own, which is a dict."""
    inner = tool.get("function", tool) if isinstance(tool, dict) else {}
    return inner.get("name") if isinstance(inner, dict) else None


def _fitted(request: ModelRequest, tools: _Tools, call: Call) -> ModelRequest:
    """Return the request as it is sent."""
    if call.is_cut:
        return request.override(messages=call.restore(request.messages, _build), tools=tools.with_recall)
    return request if len(tools.own) == len(request.tools) else request.override(tools=tools.own)


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


def _ai_message(response: Any) -> AIMessage | None:
    """Return the reply, if there is one; a model call returns one of three types."""
    response = getattr(response, "model_response", response)  # of an `ExtendedModelResponse`
    messages = response.result if isinstance(response, ModelResponse) else [response]
    return next((message for message in messages if isinstance(message, AIMessage)), None)


def _reply(reply: AIMessage) -> dict[str, Any]:
    """Return a reply as a body of OpenAI Chat."""
    choice = {"message": _to_chat(reply), "finish_reason": reply.response_metadata.get("finish_reason", "stop")}
    body: dict[str, Any] = {"choices": [choice]}
    if usage := reply.usage_metadata:
        body["usage"] = {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "prompt_tokens_details": {"cached_tokens": (usage.get("input_token_details") or {}).get("cache_read")},
        }
    return body
