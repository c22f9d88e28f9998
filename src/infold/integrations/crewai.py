"""Keep CrewAI's agents inside their model's window: `install(window=8_192)`, before crews are made; `uninstall()` takes it out.

CrewAI's hook changes the list that an agent keeps for its task, so what was folded leaves that list; the session has it. Usage
comes from CrewAI's events. A refusal reaches infold as CrewAI's wish to summarise, which it answers itself.
"""

from collections.abc import Callable
from typing import Any, Unpack

from crewai.events import LLMCallCompletedEvent, crewai_event_bus
from crewai.hooks import (
    register_after_tool_call_hook,
    register_before_llm_call_hook,
    unregister_after_tool_call_hook,
    unregister_before_llm_call_hook,
)
from crewai.llms.base_llm import BaseLLM
from crewai.tools import BaseTool
from crewai.utilities import agent_utils
from pydantic import BaseModel, Field, create_model

from infold.core.messages import RECALL_TOOL_NAME
from infold.errors import UsageError
from infold.formats.tools import RECALL_DESCRIPTION, RECALL_QUERY
from infold.integrations.sessions import Call, PlugOptions, Sessions

REFUSED = "maximum context length exceeded"  # CrewAI does not pass on what the provider wrote

PREFLIGHT = "is_context_window_overflowing_threshold"  # by CrewAI's own list of windows, before a call

MOST_AGENTS = 1_024
"""Agents whose newest request is kept, for its reply."""


class RecallTool(BaseTool):
    """The recall tool for `Agent(tools=…)`; the hook of the plug answers its calls, because it knows which agent calls."""

    name: str = RECALL_TOOL_NAME
    description: str = RECALL_DESCRIPTION
    args_schema: type[BaseModel] = create_model("RecallArguments", query=(str, Field(description=RECALL_QUERY)))
    cache_function: Callable[..., bool] = lambda *_: False

    def _run(self, query: str) -> str:
        return f"Error: infold is not installed, so {query!r} cannot be recalled"


class Plug:
    """What `install` put into CrewAI; `recall` is a tool for agents."""

    def __init__(self, options: PlugOptions) -> None:
        self.sessions = Sessions.from_options(options, format="openai-chat", recovers=True, recall=None)
        self.recall = RecallTool()
        self._newest: dict[str | None, tuple[Call, list[Any]]] = {}  # with the list that is sent
        self._replaced: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """Register hooks, and replace CrewAI's own summaries."""
        register_before_llm_call_hook(self.before_call)
        register_after_tool_call_hook(self.after_tool)
        crewai_event_bus.on(LLMCallCompletedEvent)(self.on_completed)
        if hasattr(BaseLLM, "summarize_messages"):
            self._replace(BaseLLM, "summarize_messages", 1)
            self._replaced.append((BaseLLM, PREFLIGHT, getattr(BaseLLM, PREFLIGHT)))
            setattr(BaseLLM, PREFLIGHT, lambda *_, **__: False)
        else:  # before 1.15
            self._replace(agent_utils, "summarize_messages", 0)

    def uninstall(self) -> None:
        """Take out what `install` put in."""
        unregister_before_llm_call_hook(self.before_call)
        unregister_after_tool_call_hook(self.after_tool)
        crewai_event_bus.off(LLMCallCompletedEvent, self.on_completed)
        for owner, name, original in self._replaced:
            setattr(owner, name, original)
        self.sessions.close()

    def before_call(self, context: Any) -> None:
        """Make an agent's list fit, in place."""
        if not context.messages or self not in _installed:  # agents made before keep the hook
            return
        thread, given = _thread(context.task, context.agent), list(context.messages)
        offered = getattr(context.executor, "original_tools", None) or ()
        tools = [
            {"type": "function", "function": {"name": one.name, "description": one.description}} for one in offered
        ]
        call = self.sessions.prepare(thread, given, tools=tools, model=getattr(context.llm, "model", None))
        self._send(thread, call, given, context.messages)

    def after_tool(self, context: Any) -> str | None:
        """Answer a call of the recall tool."""
        if context.tool_name != RECALL_TOOL_NAME:
            return None
        return self.sessions.recall(_thread(context.task, context.agent), context.tool_input)

    def on_completed(self, _: object, event: Any) -> None:
        """Record a reply with its usage."""
        newest = self._newest.get(":".join(filter(None, (event.task_id, event.agent_id))) or None)
        if newest is not None and event.usage:
            calls = event.response if isinstance(event.response, list) else []
            message = {"role": "assistant", "content": None if calls else str(event.response), "tool_calls": calls}
            newest[0].record({"choices": [{"message": message, "finish_reason": "stop"}], "usage": event.usage})

    def _replace(self, owner: Any, name: str, place: int) -> None:
        """Replace a function that summarises the list that is its argument at that place."""
        original = getattr(owner, name)

        def summarise(*args: Any, **kwargs: Any) -> Any:
            messages = kwargs["messages"] if "messages" in kwargs else args[place]
            sent = list(messages)
            for thread, (call, refused) in reversed(list(self._newest.items())):
                if refused == sent and (again := call.recover(REFUSED)) is not None:
                    return self._send(thread, again, sent, messages)
            return original(*args, **kwargs)

        self._replaced.append((owner, name, original))
        setattr(owner, name, summarise)

    def _send(self, thread: str | None, call: Call, given: list[Any], messages: list[Any]) -> None:
        if call.is_cut:
            messages[:] = call.restore(given, lambda message, _: message)
        self._newest.pop(thread, None)
        self._newest[thread] = call, list(messages)
        while len(self._newest) > MOST_AGENTS:
            self._newest.pop(next(iter(self._newest)), None)


_installed: list[Plug] = []


def install(**options: Unpack[PlugOptions]) -> Plug:
    """Put infold into CrewAI, for the crews that are made from now on; raise `UsageError` if it is in there.

    The options are those of `PlugOptions`. Conversations are kept apart by task and agent, or by their messages.
    """
    if _installed:
        raise UsageError("infold is installed in CrewAI; call uninstall() first")
    plug = Plug(options)
    plug.install()
    _installed.append(plug)
    return plug


def uninstall() -> None:
    """Take infold out of CrewAI, if it is in there."""
    while _installed:
        _installed.pop().uninstall()


def _thread(task: Any, agent: Any) -> str | None:
    return ":".join(str(one.id) for one in (task, agent) if getattr(one, "id", None)) or None
