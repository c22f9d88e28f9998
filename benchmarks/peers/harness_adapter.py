"""pydantic-ai-harness: `ClearToolResults` (all but 3 pairs), with the arguments of cleared calls too, with usage or without."""

import asyncio

from exchange import Session, changed, serve
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage, RunUsage
from pydantic_ai_harness.compaction import ClearToolResults

RUNNER = asyncio.Runner()


class Clearing(Session):
    """The run's own message list, which the capability rewrites; parallel results stand in one request, as the agent has them."""

    clear_tool_inputs = False

    def __init__(self, setting):
        super().__init__(setting)
        self.capability = ClearToolResults(max_tokens=setting.hold_tokens, clear_tool_inputs=self.clear_tool_inputs)
        self.context = RunContext(deps=None, model=TestModel(), usage=RunUsage(), messages=[])
        self.names = {}
        self.replies = {}
        self.results = {}
        self.outsides = {}

    def add(self, message, usage):
        messages = self.context.messages
        match message["role"]:
            case "user":
                messages.append(ModelRequest([UserPromptPart(message["content"])]))
            case "system":
                messages.append(ModelRequest([SystemPromptPart(message["content"])]))
            case "tool":
                self._add_result(message)
            case "assistant":
                self._add_reply(message, usage)

    def prepare(self):
        context = self.context
        context.run_step += 1
        request = ModelRequestContext(
            model=context.model,
            messages=list(context.messages),
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        return RUNNER.run(self.capability.before_model_request(context, request)).messages

    def sent(self, prepared):
        return [message for native in prepared for message in self._outside(native)]

    def _add_result(self, message):
        call_id = message["tool_call_id"]
        self.results[call_id] = message
        part = ToolReturnPart(self.names[call_id], message["content"], call_id)
        last = self.context.messages[-1]
        if isinstance(last, ModelRequest) and isinstance(last.parts[-1], ToolReturnPart):
            last.parts.append(part)
        else:
            self.context.messages.append(ModelRequest([part]))

    def _add_reply(self, message, usage):
        calls = message.get("tool_calls") or ()
        self.names |= {call["id"]: call["function"]["name"] for call in calls}
        said = [TextPart(message["content"])] if message.get("content") else []
        made = [ToolCallPart(call["function"]["name"], call["function"]["arguments"], call["id"]) for call in calls]
        reported = RequestUsage() if usage is None else RequestUsage(**vars(usage))
        name = f"reply {len(self.replies)}"
        self.replies[name] = message
        self.context.messages.append(ModelResponse([*said, *made], usage=reported, provider_response_id=name))

    def _outside(self, native):
        """A message as chat messages, made once for each message object that is ever sent."""
        parts = tuple(map(id, native.parts))
        known = self.outsides.get(id(native))
        if known is None or known[0] is not native or known[1] != parts:
            known = self.outsides[id(native)] = (native, parts, list(self._messages(native)))
        return known[2]

    def _messages(self, native):
        if isinstance(native, ModelResponse):
            made = {part.tool_call_id: part.args for part in native.parts if isinstance(part, ToolCallPart)}
            texts = {name: args if isinstance(args, str) else "{}" for name, args in made.items()}
            yield changed(self.replies[native.provider_response_id], arguments=texts)
            return
        for part in native.parts:
            if isinstance(part, ToolReturnPart):
                yield changed(self.results[part.tool_call_id], str(part.content))
            else:
                yield {"role": "system" if isinstance(part, SystemPromptPart) else "user", "content": part.content}


class ClearingUsage(Clearing):
    """The same, told what each call used."""

    reports_usage = True


class ClearingInputs(Clearing):
    """The arguments of cleared calls go too."""

    clear_tool_inputs = True


class ClearingInputsUsage(ClearingInputs):
    """The same, told what each call used."""

    reports_usage = True


if __name__ == "__main__":
    serve(
        {
            "clear results": Clearing,
            "clear results, usage": ClearingUsage,
            "clear results and inputs": ClearingInputs,
            "clear results and inputs, usage": ClearingInputsUsage,
        }
    )
