"""Keep agents of the OpenAI Agents SDK inside their model's window: `RunConfig(call_model_input_filter=InfoldFilter())`.

Each model call is made to fit on its own; the items of the run and of the SDK's sessions are not changed. The filter alone sees
neither replies nor refusals: `hooks` records usage, `retry` recovers. Items are OpenAI Responses already.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Unpack

from agents import Agent, FunctionTool, Handoff, ModelResponse, RunHooks, get_current_trace, handoff
from agents.models import get_default_model
from agents.retry import RetryDecision, RetryPolicyContext
from agents.run_config import CallModelData, ModelInputData

from infold.formats.tools import recall_tool
from infold.integrations.sessions import Call, PlugOptions, Sessions

FORMAT = "openai-responses"


class _Request:
    """One model call: `given` are the SDK's items, `sent` is the list that the model gets, once it is known."""

    def __init__(self, call: Call, given: list[Any]) -> None:
        self.call, self.given = call, given
        self.sent: list[Any] | None = None
        self.is_answered = False

    def items(self) -> list[Any]:
        return self.call.restore(self.given, lambda item, _: item)


class InfoldFilter:
    """Makes each model call of a run fit; give it to `RunConfig(call_model_input_filter=…)`.

    The options are those of `PlugOptions`. `hooks` goes to `Runner.run(hooks=…)` and records replies with their usage.
    `retry` is the policy of `ModelRetrySettings` that sends a refused request once more, smaller; it needs `hooks`. `recall` is a
    tool for `Agent(tools=…)`. Conversations are kept apart by `RunConfig.group_id`, or by their items if there is none.
    """

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        self.sessions = Sessions.from_options(options, format=FORMAT, recovers=True)
        # Filter, hooks and policy are called by one task, or by tasks that it starts, and the SDK gives them no id.
        self._request: ContextVar[_Request | None] = ContextVar("infold_request", default=None)
        self.hooks: RunHooks[Any] = InfoldHooks(self._request)
        self.retry = _policy(self._request)
        offered = recall_tool(FORMAT, self.sessions.recall_name)
        self.recall = FunctionTool(
            name=offered["name"],
            description=offered["description"],
            params_json_schema=offered["parameters"],
            on_invoke_tool=self._recall,
        )

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input made to fit; the one that was given if nothing has to be cut."""
        given = data.model_data.input
        self._request.set(None)  # the reply to a call without items is not that of the call before
        if not given:
            return data.model_data
        call = await self.sessions.aprepare(
            _thread(),
            given,
            system=data.model_data.instructions,
            tools=_tools(data.agent),
            model=_model(data.agent),
            recall=self.recall.name if any(tool is self.recall for tool in data.agent.tools) else "",
        )
        self._request.set(request := _Request(call, given))
        if not call.is_cut:
            return data.model_data
        return ModelInputData(input=request.items(), instructions=data.model_data.instructions)

    async def _recall(self, _: object, arguments: str) -> str:
        request = self._request.get()
        if request is None:
            return await self.sessions.arecall(_thread(), arguments)
        return await request.call.arecall(arguments)


class InfoldHooks(RunHooks[Any]):
    """Records the replies of the calls that a filter made to fit; call these two from hooks of your own."""

    def __init__(self, request: ContextVar[_Request | None]) -> None:
        self._request = request

    async def on_llm_start(self, context: object, agent: object, system_prompt: object, input_items: list[Any]) -> None:  # noqa: ARG002
        """Keep the list that is about to be sent, for the policy."""
        request = self._request.get()
        if request is not None and not request.is_answered:
            request.sent = input_items

    async def on_llm_end(self, context: object, agent: object, response: ModelResponse) -> None:  # noqa: ARG002
        """Record the reply and its usage."""
        request = self._request.get()
        if request is not None and not request.is_answered:  # a sub-agent that runs without the filter has hooks too
            request.is_answered = True
            await request.call.arecord(response, _reply)


def _policy(current: ContextVar[_Request | None]) -> Callable[[RetryPolicyContext], Awaitable[RetryDecision]]:
    """Return a policy as a plain function: the SDK copies settings deeply, and with a method its filter and store."""

    async def recover(context: RetryPolicyContext) -> RetryDecision:
        request = current.get()
        again = await request.call.arecover(context.error) if request and request.sent is not None else None
        if request is None or request.sent is None or again is None:
            return RetryDecision(retry=False)
        request.call = again
        request.sent[:] = request.items()  # the model is called again with this very list
        return RetryDecision(retry=True, delay=0.0)

    return recover


def _thread() -> str | None:
    """Return the run's group id; `None` if it has none, or is not traced."""
    group = getattr(get_current_trace(), "group_id", None)
    return group if isinstance(group, str) else None


def _model(agent: Agent[Any]) -> str | None:
    """Return the name of the agent's model; that of a run's configuration is not shown to a filter."""
    model = agent.model or get_default_model()
    name = model if isinstance(model, str) else getattr(model, "model", None)
    return name if isinstance(name, str) else None


def _tools(agent: Agent[Any]) -> list[Any]:
    """Return the tools and handoffs that are sent with a request, to be counted, and what MCP servers have listed."""
    functions = [tool for tool in agent.tools if isinstance(tool, FunctionTool)]
    handoffs = [one if isinstance(one, Handoff) else handoff(one) for one in agent.handoffs]
    return [
        *(_tool(one.name, one.description, one.params_json_schema) for one in functions),
        *(_tool(one.tool_name, one.tool_description, one.input_json_schema) for one in handoffs),
        *(tool.model_dump(exclude_none=True) for server in agent.mcp_servers for tool in server.cached_tools or ()),
    ]


def _tool(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": description, "parameters": schema}


def _reply(response: ModelResponse) -> dict[str, Any]:
    """Return a reply as a body of OpenAI Responses; usage that a model does not report is left out."""
    body: dict[str, Any] = {"output": response.to_input_items(), "status": "completed"}
    usage = response.usage
    if usage.input_tokens:
        body["usage"] = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "input_tokens_details": {"cached_tokens": usage.input_tokens_details.cached_tokens},
        }
    return body
