"""Keep Google ADK agents inside their model's window: `InMemoryRunner(agent, plugins=[InfoldPlugin(window=8_192)])`.

Each model request is made to fit on its own; the events of the session are not changed. Contents are in Gemini's format as they
are, whichever model is called; those that are kept are sent as the objects that ADK made for the request.
"""

from collections.abc import Sequence
from typing import Any, Unpack

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.genai import types
from msgspec import Struct

from infold.core.messages import RECALL_TOOL_NAME
from infold.formats.tools import RECALL_DESCRIPTION, recall_tool
from infold.integrations.sessions import Call, PlugOptions, Sessions
from infold.proxy.sessions import RecentlyUsed

FORMAT = "gemini"


class InfoldPlugin(BasePlugin):
    """Makes each model request of a runner's agents fit, records its usage, and recovers once from a refusal.

    The options are those of `PlugOptions`. Conversations are kept apart by app, user, session and agent. The recall tool is
    offered in requests that may have functions.
    """

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        super().__init__(name="infold")
        self.sessions = Sessions.from_options(options, format=FORMAT, recovers=True, recall=None)
        self._tool = _RecallTool(self.sessions)
        self._pending: RecentlyUsed[list[_Pending]] = RecentlyUsed()

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Make a request fit, and offer the recall tool in it."""
        given, config = llm_request.contents, llm_request.config
        if not given:
            return
        if _takes_functions(llm_request):
            llm_request.append_tools([self._tool])
        instruction = config.system_instruction
        call = await self.sessions.aprepare(
            _thread(callback_context),
            [{"parts": [], **_dump(content)} for content in given],
            system=instruction if isinstance(instruction, str | None) else str(instruction),
            tools=[_dump(tool) if isinstance(tool, types.Tool) else str(tool) for tool in config.tools or ()],
            model=llm_request.model,
        )
        self._pending.get(_key(callback_context), list)[:] = [_Pending(call, given)]
        if call.is_cut:
            llm_request.contents = call.restore(given, _build)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Record the reply; of a stream, the last response, which holds all of it."""
        pending = self._pending.find(_key(callback_context))
        if pending and not llm_response.partial and llm_response.content and llm_response.content.parts:
            await pending.pop().call.arecord(_reply(llm_response))

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

    async def close(self) -> None:
        """Close the sessions when the runner is closed."""
        self.sessions.close()


class _Pending(Struct, frozen=True):
    """A request that waits for its reply, and the contents that ADK gave for it."""

    call: Call
    given: Sequence[Any]


class _RecallTool(BaseTool):
    def __init__(self, sessions: Sessions) -> None:
        super().__init__(name=RECALL_TOOL_NAME, description=RECALL_DESCRIPTION)
        self._sessions = sessions

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration.model_validate(recall_tool(FORMAT))

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> str:
        return await self._sessions.arecall(_thread(tool_context), args)


def _thread(context: Any) -> str:
    session = context._invocation_context.session  # noqa: SLF001  # not public in old releases
    return ":".join((session.app_name, session.user_id, session.id, context.agent_name))


def _key(context: Any) -> int:
    """Return what the callbacks of one model request have in common; agents that run in parallel have contexts of their own."""
    return id(context._invocation_context)  # noqa: SLF001


def _takes_functions(request: Any) -> bool:
    """Return whether the recall tool can be offered: not with a provider's own tools, nor alone where an answer has a schema."""
    tools = request.config.tools or ()
    are_functions = all(getattr(tool, "function_declarations", None) for tool in tools)
    is_free = bool(tools) or request.config.response_schema is None
    return RECALL_TOOL_NAME not in request.tools_dict and are_functions and is_free


def _dump(value: Any) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True, fallback=str)


def _build(item: dict[str, Any], original: Any) -> Any:  # noqa: ARG001  # all that the original has is in the item
    return types.Content.model_validate(item)


def _reply(response: Any) -> dict[str, Any]:
    """Return a response as a body of Gemini's."""
    reason = getattr(response, "finish_reason", None)
    candidate = {"content": _dump(response.content), "finishReason": None if reason is None else reason.value}
    usage = {} if response.usage_metadata is None else {"usageMetadata": _dump(response.usage_metadata)}
    return {"candidates": [candidate], **usage}
