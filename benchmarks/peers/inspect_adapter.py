"""inspect_ai: `CompactionSummary` and `CompactionEdit` behind its `compaction` handler, which always sees reported usage.

Its tokeniser downloads a vocabulary; here the model counts with the same vocabulary from a package, and adds the ten per cent
that `inspect_ai` adds.
"""

import asyncio

from exchange import Session, arguments_of, changed, count, serve
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    CompactionEdit,
    CompactionSummary,
    ModelInfo,
    ModelOutput,
    ModelUsage,
    compaction,
    get_model,
    modelapi,
    set_model_info,
)
from inspect_ai.model._providers.mockllm import MockLLM
from inspect_ai.tool import ToolCall

MARGIN = 1.1
RUNNER = asyncio.Runner()


@modelapi(name="scripted")
class Summariser(MockLLM):
    """Answers every request with the same summary."""

    async def count_text_tokens(self, text):
        return max(1, int(count(text) * MARGIN))


class Compacting(Session):
    """The agent's whole history, and the handler that makes the input of each call from it."""

    reports_usage = True

    def __init__(self, setting):
        super().__init__(setting)
        name = f"scripted/window-{setting.window_tokens}"
        set_model_info(name, ModelInfo(context_length=setting.window_tokens))
        self.model = get_model(name, custom_outputs=self._summary, memoize=False)
        self.originals = {}
        self.results = {}
        self.history = []
        self.handler = None
        self.input = []

    def strategy(self, hold_tokens):
        raise NotImplementedError

    def add(self, message, usage):
        name = str(len(self.originals))
        self.originals[name] = message
        if message["role"] == "tool":
            self.results[message["tool_call_id"]] = message
        self.history.append(_native(message, name, is_task=self.handler is None))
        if usage is not None:
            tokens = ModelUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
            output = ModelOutput(model=str(self.model), usage=tokens)
            RUNNER.run(self.handler.record_output(self.input, output))

    def prepare(self):
        if self.handler is None:  # what stands before the first call is the task
            prefix = list(self.history)
            self.handler = compaction(self.strategy(self.setting.hold_tokens), prefix, model=self.model)
        self.input, message = RUNNER.run(self.handler.compact_input(self.history))
        if message is not None:
            self.history.append(message)
        return self.input

    def sent(self, prepared):
        return [self._outside(message) for message in prepared]

    def _outside(self, message):
        if isinstance(message, ChatMessageTool):
            return changed(self.results[message.tool_call_id], message.text)
        original = self.originals.get(message.id)
        if original is None:
            original = self.originals[message.id] = {"role": message.role, "content": message.text}
        return original

    def _summary(self, messages, tools, tool_choice, config):
        del tools, tool_choice, config
        return ModelOutput.from_content(str(self.model), self.setting.summarise(*_texts(messages)))


class Summary(Compacting):
    """A summary takes the place of all that is not the task."""

    def strategy(self, hold_tokens):
        return CompactionSummary(threshold=hold_tokens)


class Edit(Compacting):
    """Old tool results are removed, all but three."""

    def strategy(self, hold_tokens):
        return CompactionEdit(threshold=hold_tokens)


def _native(message, name, *, is_task):
    content = message.get("content") or ""
    match message["role"]:
        case "user":
            return ChatMessageUser(content=content, id=name, source="input" if is_task else None)
        case "system":
            return ChatMessageSystem(content=content, id=name)
        case "tool":
            return ChatMessageTool(content=content, tool_call_id=message["tool_call_id"], id=name)
    calls = [
        ToolCall(id=call["id"], function=call["function"]["name"], arguments=arguments_of(call))
        for call in message.get("tool_calls") or ()
    ]
    return ChatMessageAssistant(content=content, tool_calls=calls or None, id=name)


def _texts(messages):
    for message in messages:
        yield message.text
        for call in getattr(message, "tool_calls", None) or ():
            yield call.function
            yield str(call.arguments)


if __name__ == "__main__":
    serve({"summary": Summary, "edit": Edit})
