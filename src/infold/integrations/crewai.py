"""Keep CrewAI's agents inside their model's window: `install(window=8_192)`, before crews are made; `uninstall()` takes it out.

CrewAI's hook changes the list that an agent keeps for its task, so what was folded leaves that list; the session has it. Usage
comes from CrewAI's events. A refusal reaches infold as CrewAI's wish to summarise, which it answers itself.
"""

from collections.abc import Callable
from threading import Event, Lock
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
from infold.formats.tools import RECALL_DESCRIPTION, RECALL_QUERY, recall_description
from infold.integrations.sessions import Call, PlugOptions, Sessions, SharedThread

REFUSED = "maximum context length exceeded"  # CrewAI does not pass on what the provider wrote

PREFLIGHT = "is_context_window_overflowing_threshold"  # by CrewAI's own list of windows, before a call

PATIENCE_SECONDS = 0.05
"""How long a request waits for the event of the reply before, which is usually there already."""

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


class _Sent:
    """A request: the list that the agent had for it, which its sources refer to, and the list as it is sent."""

    def __init__(self, call: Call, given: list[Any], messages: list[Any]) -> None:
        self.call, self.given, self.messages = call, given, messages
        self._lock, self._is_over, self._is_answered = Lock(), False, Event()

    def record(self, response: Any, usage: Any) -> None:
        """Record the reply, unless it is the one before, which the list has: events arrive late, in threads of CrewAI's."""
        calls = response if isinstance(response, list) else []
        message = {"role": "assistant", "content": None if calls else str(response), "tool_calls": calls}
        before: Any = next((one for one in reversed(self.given) if one["role"] == "assistant"), {})
        if _ids(message) == _ids(before) and (calls or message["content"] == before.get("content")):
            return
        with self._lock:
            if not self._is_over:
                self.call.record({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})
        self._is_answered.set()

    def end(self, patience_seconds: float) -> None:
        """Let no reply be recorded from now on; wait a little for one that is on its way."""
        self._is_answered.wait(patience_seconds)
        with self._lock:
            self._is_over = True


class Plug:
    """What `install` put into CrewAI; `recall` is a tool for agents."""

    def __init__(self, options: PlugOptions) -> None:
        self.sessions = Sessions.from_options(options, format="openai-chat", recovers=True)
        name = self.sessions.recall_name
        self.recall = RecallTool(name=name, description=recall_description(name))
        self._newest: dict[str | None, _Sent] = {}
        self._reports = False  # whether the models report usage by events
        self._replaced: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """Register hooks, and replace CrewAI's own summaries; raise `UsageError` if infold is in CrewAI already."""
        if _installed:
            raise UsageError("infold is installed in CrewAI; call uninstall() first")
        _installed.append(self)
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
        """Take out what `install` put in, if it is in there."""
        if self not in _installed:
            return
        _installed.remove(self)
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
        if thread in self._newest:
            self._newest[thread].end(PATIENCE_SECONDS if self._reports else 0)
        call = self.sessions.prepare(
            thread,
            given,
            tools=tools,
            model=getattr(context.llm, "model", None),
            recall=next((one.name for one in offered if isinstance(one, RecallTool)), ""),
        )
        self._send(thread, call, given, context.messages)

    def after_tool(self, context: Any) -> str | None:
        """Answer a call of the recall tool."""
        if not isinstance(getattr(context.tool, "_original_tool", None), RecallTool):
            return None
        messages = getattr(getattr(context.agent, "agent_executor", None), "messages", ())
        return self.sessions.recall(_thread(context.task, context.agent), context.tool_input, list(messages))

    def on_completed(self, _: object, event: Any) -> None:
        """Record a reply with its usage."""
        newest = self._newest.get(":".join(filter(None, (event.task_id, event.agent_id))))
        if newest is not None and event.usage:
            self._reports = True
            newest.record(event.response, event.usage)

    def _replace(self, owner: Any, name: str, place: int) -> None:
        """Replace a function that summarises the list that is its argument at that place."""
        original = getattr(owner, name)

        def summarise(*args: Any, **kwargs: Any) -> Any:
            messages = kwargs["messages"] if "messages" in kwargs else args[place]
            for thread, refused in reversed(list(self._newest.items())):
                if refused.messages == messages and (again := refused.call.recover(REFUSED)) is not None:
                    return self._send(thread, again, refused.given, messages)
            return original(*args, **kwargs)

        self._replaced.append((owner, name, original))
        setattr(owner, name, summarise)

    def _send(self, thread: str | None, call: Call, given: list[Any], messages: list[Any]) -> None:
        if call.is_cut:  # a checkpoint that the agent has already stays the same dict
            messages[:] = call.restore(given, lambda new, _: next((one for one in given if one == new), new))
        self._newest.pop(thread, None)
        self._newest[thread] = _Sent(call, given, list(messages))
        while len(self._newest) > MOST_AGENTS:
            self._newest.pop(next(iter(self._newest)), None)


_installed: list[Plug] = []


def install(**options: Unpack[PlugOptions]) -> Plug:
    """Put infold into CrewAI, for the crews that are made from now on; raise `UsageError` if it is in there.

    The options are those of `PlugOptions`. Conversations are kept apart by task and agent, or by their messages.
    """
    plug = Plug(options)
    plug.install()
    return plug


def uninstall() -> None:
    """Take infold out of CrewAI, if it is in there."""
    for plug in tuple(_installed):
        plug.uninstall()


def _ids(message: Any) -> list[Any]:
    calls = message.get("tool_calls") or ()
    return [call["id"] if isinstance(call, dict) else getattr(call, "id", None) for call in calls]


def _thread(task: Any, agent: Any) -> SharedThread:
    """Return the ids of task and agent; a crew that is started again has the same."""
    return SharedThread(":".join(str(one.id) for one in (task, agent) if getattr(one, "id", None)))
