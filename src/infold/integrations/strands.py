"""Keep Strands agents inside their model's window: `Agent(…, plugins=[InfoldMiddleware(window=8_192)])`.

The plugin is a middleware of the stage in which Strands calls its model. Each call is made to fit on its own; the agent's own
messages are not changed. They are Bedrock Converse's, which infold knows, so that nothing is converted.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Unpack
from weakref import WeakKeyDictionary

from strands.plugins import Plugin
from strands.tools.tools import PythonAgentTool
from strands.types.exceptions import ContextWindowOverflowException

from infold.formats.tools import free_recall_name, recall_tool
from infold.integrations.sessions import NOTHING_RECALLED, Call, PlugOptions, Sessions, SharedThread

try:
    from strands.middleware import InvokeModelStage
except ImportError:  # before 1.62 it had the same stage, which only plugins of its own used
    from strands._middleware.stages import InvokeModelStage

FORMAT = "bedrock-converse"

REFUSED = {"error": {"code": "context_length_exceeded"}}
"""What `ContextWindowOverflowException` says, where the provider's words alone do not."""


class InfoldMiddleware(Plugin):
    """Makes each model call of an agent fit, records its usage, and recovers once from a refusal.

    The options are those of `PlugOptions`. Conversations are kept apart by the id of the agent's session. The recall tool is
    offered to the model, with an agent's own tools, once something was folded.
    """

    name = "infold"

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        super().__init__()
        self.sessions = Sessions.from_options(options, format=FORMAT, recovers=True)
        self._calls: WeakKeyDictionary[Any, Call] = WeakKeyDictionary()

    def init_agent(self, agent: Any) -> None:
        """Put the middleware and the recall tool into an agent."""
        registry = agent if hasattr(agent, "add_middleware") else agent._middleware_registry  # noqa: SLF001  # before 1.62
        registry.add_middleware(InvokeModelStage, self)
        name = free_recall_name(self.sessions.recall_name, agent.tool_registry.registry)
        agent.tool_registry.register_tool(_RecallTool(name, recall_tool(FORMAT, name)["toolSpec"], self._recall))

    async def __call__(self, context: Any, next_fn: Callable[[Any], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """Send the request made to fit; once more if it is refused for its size before any of the reply has come."""
        if not context.messages:
            async for event in next_fn(context):
                yield event
            return
        given, injected = _without_injected(context)
        tools = _Tools(context)
        call = await self.sessions.aprepare(_thread(context.agent), given, **_extras(context, tools, injected))
        self._calls[context.agent] = call
        context = replace(context, tool_specs=tools.with_recall if call.is_cut else tools.own)
        refusal: Exception | None = None
        is_begun = False
        try:
            async for event in next_fn(_fitted(context, call, given, injected)):
                is_begun = is_begun or _is_content(event)
                await _record(call, event)
                yield event
        except Exception as error:
            if is_begun:
                raise
            refusal = error
        if refusal is None:
            return
        again = await _recover(call, refusal)
        if again is None:
            raise refusal
        self._calls[context.agent] = again
        async for event in next_fn(_fitted(context, again, given, injected)):
            await _record(again, event)
            yield event

    async def _recall(self, tool_use: Any, **state: Any) -> Any:
        agent = state.get("agent")
        call = None if agent is None else self._calls.get(agent)
        found = NOTHING_RECALLED if call is None else await call.arecall(tool_use["input"])
        return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": found}]}


class _RecallTool(PythonAgentTool):
    """The recall tool of one agent, known by its type: it may have another name."""


class _Tools:
    """The tools of a request: the agent's own, and the recall tool, which is offered with them once something was folded."""

    def __init__(self, context: Any) -> None:
        registry, specs = context.agent.tool_registry.registry, context.tool_specs or []
        ours = [spec for spec in specs if isinstance(registry.get(spec["name"]), _RecallTool)]
        self.own = [spec for spec in specs if spec not in ours]
        self.recall = ours[0]["name"] if ours and self.own else ""
        self.with_recall = specs if self.recall else self.own


def _thread(agent: Any) -> SharedThread:
    """Return the id of the agent's session, with its own if it has one: the agents of a session have a history each."""
    name = agent.session_id if agent.agent_id == "default" else f"{agent.session_id}:{agent.agent_id}"
    return SharedThread(name)  # an agent may be given the messages of another conversation


def _without_injected(context: Any) -> tuple[list[Any], list[Any]]:
    """Return the messages as the agent has them, and the blocks that plugins put behind the last one for this call only."""
    *earlier, last = context.messages
    count = getattr(context, "dynamic_trailing_blocks", 0)
    if not 0 < count < len(last["content"]):
        return context.messages, []
    return [*earlier, {**last, "content": last["content"][:-count]}], last["content"][-count:]


def _extras(context: Any, tools: _Tools, injected: list[Any]) -> dict[str, Any]:
    """Return what is sent with the messages, to be counted, and the model's name."""
    config = getattr(getattr(context, "model", context.agent.model), "config", None)
    name = config.get("model_id") if isinstance(config, dict) else None
    return {
        "system": [context.system_prompt, injected] if injected else context.system_prompt,
        "tools": [{"toolSpec": spec} for spec in tools.with_recall],
        "model": name if isinstance(name, str) else None,
        "recall": tools.recall,
    }


def _fitted(context: Any, call: Call, given: list[Any], injected: list[Any]) -> Any:
    if not call.is_cut:
        return context
    messages = call.restore(given, lambda item, _: item)
    if injected:
        messages[-1] = {**messages[-1], "content": [*messages[-1]["content"], *injected]}
    return replace(context, messages=messages)


def _is_content(event: Any) -> bool:
    chunk = event.get("event") if isinstance(event, dict) else None
    return not (isinstance(chunk, dict) and "messageStart" in chunk)


async def _recover(call: Call, error: Exception) -> Call | None:
    again = await call.arecover(error)
    if again is None and isinstance(error, ContextWindowOverflowException):
        return await call.arecover(REFUSED)
    return again


async def _record(call: Call, event: Any) -> None:
    """Record the reply if this is the event that ends it."""
    if isinstance(event, dict) and "stop" in event:
        await call.arecord(event["stop"], _reply)


def _reply(stop: Any) -> dict[str, Any]:
    reason, message, usage, _ = stop
    return {"output": {"message": message}, "stopReason": reason, "usage": _uncached(usage)}


def _uncached(usage: Any) -> dict[str, Any]:
    """Return usage as Converse counts it: without the cache in its input, where the provider's has it there."""
    cached = usage.get("cacheReadInputTokens", 0) + usage.get("cacheWriteInputTokens", 0)
    is_included = cached and usage["totalTokens"] <= usage["inputTokens"] + usage["outputTokens"]
    return {**usage, "inputTokens": max(usage["inputTokens"] - cached, 0)} if is_included else usage
