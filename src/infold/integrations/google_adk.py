"""Keep Google ADK agents inside their model's window: `InMemoryRunner(agent, plugins=[InfoldPlugin(window=8_192)])`.

Each model request is made to fit on its own; the events of the session are not changed. Contents are in Gemini's format as they
are, whichever model is called; those that are kept are sent as the objects that ADK made for the request.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Unpack

from google.adk.agents.run_config import StreamingMode
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.genai import types
from msgspec import Struct

from infold.formats.tools import free_recall_name, recall_description, recall_tool
from infold.integrations.sessions import Call, PlugOptions, Sessions
from infold.proxy.sessions import RecentlyUsed

FORMAT = "gemini"


class InfoldPlugin(BasePlugin):
    """Makes each model request of a runner's agents fit, records its usage, and recovers once from a refusal.

    The options are those of `PlugOptions`. Conversations are kept apart by app, user, session and agent. The recall tool is
    offered with an agent's functions once something was folded, under a name that none of them has.
    """

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        super().__init__(name="infold")
        self.sessions = Sessions.from_options(options, format=FORMAT, recovers=True)
        self._pending: RecentlyUsed[list[_Pending]] = RecentlyUsed()
        self._newest: RecentlyUsed[list[Call]] = RecentlyUsed()

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Make a request fit, and offer the recall tool in it if something was folded."""
        given, config = llm_request.contents, llm_request.config
        if not given:
            return
        recall = self._recall_tool(llm_request)
        tools = [_dump(tool) if isinstance(tool, types.Tool) else str(tool) for tool in config.tools or ()]
        instruction = config.system_instruction
        call = await self.sessions.aprepare(
            _thread(callback_context),
            [{"parts": [], **_dump(content)} for content in given],
            system=instruction if isinstance(instruction, str | None) else str(instruction),
            tools=[*tools, {"functionDeclarations": [recall_tool(FORMAT, recall.name)]}] if recall else tools,
            model=llm_request.model,
            recall=recall.name if recall else "",
        )
        self._pending.get(_key(callback_context), list)[:] = [_Pending(call, given)]
        self._newest.get(_key(callback_context), list)[:] = [call]
        if call.is_cut:
            llm_request.contents = call.restore(given, _build)
            llm_request.append_tools([recall] if recall else [])

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Record the reply; of a stream, the last response, which holds all of it."""
        pending = self._pending.find(_key(callback_context))
        has_content = llm_response.content and llm_response.content.parts
        if pending and not llm_response.partial and (has_content or not _is_streamed(callback_context)):
            await pending.pop().call.arecord(llm_response, _reply)

    async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Exception) -> Any:
        """Ask the model once more if a request was refused for its size; ADK raises the error if this returns `None`."""
        pending = self._pending.find(_key(callback_context))
        again = await pending[0].call.arecover(error) if pending else None
        if not pending or again is None:
            return None
        llm_request.contents = again.restore(pending[0].given, _build)
        model = callback_context._invocation_context.agent.canonical_model  # noqa: SLF001  # ADK has no other way
        try:
            return [response async for response in model.generate_content_async(llm_request)][-1]
        except Exception:  # the second refusal; the first is raised
            return None

    def _recall_tool(self, request: Any) -> "_RecallTool | None":
        """Return the tool to offer with an agent's functions: not alone, nor with tools of a provider's own."""
        tools = request.config.tools
        if not tools or not all(getattr(tool, "function_declarations", None) for tool in tools):
            return None
        return _RecallTool(free_recall_name(self.sessions.recall_name, request.tools_dict), self._recall)

    async def _recall(self, arguments: dict[str, Any], context: Any) -> str:
        newest = self._newest.find(_key(context))
        return (
            await newest[0].arecall(arguments) if newest else await self.sessions.arecall(_thread(context), arguments)
        )

    async def close(self) -> None:
        """Close the sessions when the runner is closed."""
        self.sessions.close()


class _Pending(Struct, frozen=True):
    """A request that waits for its reply, and the contents that ADK gave for it."""

    call: Call
    given: Sequence[Any]


class _RecallTool(BaseTool):
    def __init__(self, name: str, recall: Callable[[dict[str, Any], Any], Awaitable[str]]) -> None:
        super().__init__(name=name, description=recall_description(name))
        self._recall = recall

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration.model_validate(recall_tool(FORMAT, self.name))

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> str:
        return await self._recall(args, tool_context)


def _thread(context: Any) -> str:
    session = context._invocation_context.session  # noqa: SLF001  # not public in old releases
    return ":".join((session.app_name, session.user_id, session.id, context.agent_name))


def _is_streamed(context: Any) -> bool:
    """Return whether replies are streamed: then a response without content may come before the one that holds all of it."""
    config = context._invocation_context.run_config  # noqa: SLF001
    return config is not None and config.streaming_mode == StreamingMode.SSE


def _key(context: Any) -> tuple[str, ...]:
    """Return what one model request and the tools that its reply calls have in common; parallel agents have branches."""
    invocation = context._invocation_context  # noqa: SLF001
    return _thread(context), invocation.invocation_id, str(invocation.branch)


def _dump(value: Any) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True, fallback=str)


def _build(item: dict[str, Any], original: Any) -> Any:  # noqa: ARG001  # all that the original has is in the item
    return types.Content.model_validate(item)


def _reply(response: Any) -> dict[str, Any]:
    """Return a response as a body of Gemini's."""
    reason = getattr(response, "finish_reason", None)
    content = {} if response.content is None else _dump(response.content)
    candidate = {"content": content, "finishReason": None if reason is None else reason.value}
    usage = {} if response.usage_metadata is None else {"usageMetadata": _dump(response.usage_metadata)}
    return {"candidates": [candidate], **usage}
