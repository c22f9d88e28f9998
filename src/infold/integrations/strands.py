"""Keep Strands agents inside their model's window: `Agent(…, plugins=[InfoldMiddleware(window=8_192)])`.

The plugin is a middleware of the stage in which Strands calls its model. Each call is made to fit on its own; the agent's own
messages are not changed. They are Bedrock Converse's, which infold knows, so that nothing is converted.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Unpack

from strands.plugins import Plugin
from strands.tools.tools import PythonAgentTool
from strands.types.exceptions import ContextWindowOverflowException

from infold.core.messages import RECALL_TOOL_NAME
from infold.formats.tools import recall_tool
from infold.integrations.sessions import Call, PlugOptions, Sessions

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
    offered to the model.
    """

    name = "infold"

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        super().__init__()
        self.sessions = Sessions.from_options(options, format=FORMAT, recovers=True)
        self._tool = PythonAgentTool(RECALL_TOOL_NAME, recall_tool(FORMAT)["toolSpec"], self._recall)

    def init_agent(self, agent: Any) -> None:
        """Put the middleware and the recall tool into an agent."""
        registry = agent if hasattr(agent, "add_middleware") else agent._middleware_registry  # noqa: SLF001  # before 1.62
        registry.add_middleware(InvokeModelStage, self)
        if RECALL_TOOL_NAME not in agent.tool_registry.registry:  # the user's own is left as it is
            agent.tool_registry.register_tool(self._tool)

    async def __call__(self, context: Any, next_fn: Callable[[Any], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """Send the request made to fit; once more if it is refused for its size before any of the reply has come."""
        if not context.messages:
            async for event in next_fn(context):
                yield event
            return
        given, injected = _without_injected(context)
        call = await self.sessions.aprepare(_thread(context.agent), given, **_extras(context, injected))
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
        async for event in next_fn(_fitted(context, again, given, injected)):
            await _record(again, event)
            yield event

    async def _recall(self, tool_use: Any, **state: Any) -> Any:
        found = await self.sessions.arecall(_thread(state.get("agent")), tool_use["input"])
        return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": found}]}


def _thread(agent: Any) -> str | None:
    """Return the id of the agent's session, with its own if it has one: the agents of a session have a history each."""
    if agent is None:
        return None
    return agent.session_id if agent.agent_id == "default" else f"{agent.session_id}:{agent.agent_id}"


def _without_injected(context: Any) -> tuple[list[Any], list[Any]]:
    """Return the messages as the agent has them, and the blocks that plugins put behind the last one for this call only."""
    *earlier, last = context.messages
    count = getattr(context, "dynamic_trailing_blocks", 0)
    if not 0 < count < len(last["content"]):
        return context.messages, []
    return [*earlier, {**last, "content": last["content"][:-count]}], last["content"][-count:]


def _extras(context: Any, injected: list[Any]) -> dict[str, Any]:
    """Return what is sent with the messages, to be counted, and the model's name."""
    config = getattr(getattr(context, "model", context.agent.model), "config", None)
    name = config.get("model_id") if isinstance(config, dict) else None
    return {
        "system": [context.system_prompt, injected] if injected else context.system_prompt,
        "tools": [{"toolSpec": spec} for spec in context.tool_specs or ()],
        "model": name if isinstance(name, str) else None,
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
    if not isinstance(event, dict) or "stop" not in event:
        return
    reason, message, usage, _ = event["stop"]
    await call.arecord({"output": {"message": message}, "stopReason": reason, "usage": _uncached(usage)})


def _uncached(usage: Any) -> dict[str, Any]:
    """Return usage as Converse counts it: without the cache in its input, where the provider's has it there."""
    cached = usage.get("cacheReadInputTokens", 0) + usage.get("cacheWriteInputTokens", 0)
    is_included = cached and usage["totalTokens"] <= usage["inputTokens"] + usage["outputTokens"]
    return {**usage, "inputTokens": max(usage["inputTokens"] - cached, 0)} if is_included else usage
