"""LangChain: `SummarizationMiddleware` (keeps 20 messages by default) and `ContextEditingMiddleware` (clears all but 3 results).

A leading system message is the agent's `system_message`, which LangChain keeps beside the state.
"""

from exchange import Session, arguments_of, changed, serve
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, SummarizationMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph.message import add_messages

PROVIDER = "openai"


class Summariser(BaseChatModel):
    """Answers every prompt with the same summary."""

    setting: object

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        del stop, run_manager, kwargs
        text = self.setting.summarise(*(message.text for message in messages))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    def _get_ls_params(self, stop=None, **kwargs):
        del stop, kwargs
        return {"ls_provider": PROVIDER}

    @property
    def _llm_type(self):
        return "scripted"


class LangChain(Session):
    """Messages of LangChain, each under the number of the message it came from."""

    def __init__(self, setting):
        super().__init__(setting)
        self.model = Summariser(setting=setting)
        self.originals = {}
        self.system = []
        self.state = []

    def add(self, message, usage):
        if message["role"] == "system" and not self.state:
            self.system.append(message)
            return
        name = str(len(self.originals))
        self.originals[name] = message
        self.state.append(_native(message, name, usage))

    def sent(self, prepared):
        return [*self.system, *(self._outside(message) for message in prepared)]

    def _outside(self, message):
        original = self.originals.get(message.id)
        if original is None:  # the summary, written by the middleware
            original = self.originals[message.id] = {"role": "user", "content": message.text}
        return changed(original, message.text if original.get("content") else None)


class Summarisation(LangChain):
    """Before each call the state may be replaced by a summary and the newest messages."""

    def __init__(self, setting):
        super().__init__(setting)
        self.middleware = SummarizationMiddleware(self.model, trigger=("tokens", setting.hold_tokens))

    def prepare(self):
        update = self.middleware.before_model({"messages": self.state}, None)
        if update is not None:
            self.state = add_messages(self.state, update["messages"])  # the reducer of the agent's state
        return list(self.state)


class SummarisationUsage(Summarisation):
    """The same, told what each call used."""

    reports_usage = True


class ContextEditing(LangChain):
    """Each request is edited on its way out; the state stays as it is."""

    def __init__(self, setting):
        super().__init__(setting)
        self.middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=setting.hold_tokens)])

    def prepare(self):
        request = ModelRequest(model=self.model, messages=self.state)
        return self.middleware.wrap_model_call(request, lambda edited: edited.messages)


def _native(message, name, usage):
    content = message.get("content") or ""
    match message["role"]:
        case "user":
            return HumanMessage(content, id=name)
        case "system":
            return SystemMessage(content, id=name)
        case "tool":
            return ToolMessage(content, tool_call_id=message["tool_call_id"], id=name)
    calls = [
        {"name": call["function"]["name"], "args": arguments_of(call), "id": call["id"], "type": "tool_call"}
        for call in message.get("tool_calls") or ()
    ]
    reply = AIMessage(content, tool_calls=calls, id=name, response_metadata={"model_provider": PROVIDER})
    if usage is not None:
        reply.usage_metadata = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
    return reply


if __name__ == "__main__":
    serve(
        {
            "summarisation": Summarisation,
            "summarisation, usage": SummarisationUsage,
            "context editing": ContextEditing,
        }
    )
