"""OpenAI Agents SDK: `ToolOutputTrimmer`, the filter of each call's input; it knows turns, not tokens, and keeps no state."""

from agents import Agent
from agents.extensions import ToolOutputTrimmer
from agents.run_config import CallModelData, ModelInputData
from exchange import Session, changed, serve


class Trimming(Session):
    """The run's input items; a leading system message is the agent's instructions."""

    recent_turns = 2

    def __init__(self, setting):
        super().__init__(setting)
        self.trimmer = ToolOutputTrimmer(recent_turns=self.recent_turns)
        self.agent = Agent(name="benchmark")
        self.system = []
        self.items = []
        self.messages = []
        self.results = {}

    def add(self, message, usage):
        del usage
        if message["role"] == "system" and not self.items:
            self.system.append(message)
            return
        self.messages.append(message)
        if message["role"] == "tool":
            self.results[message["tool_call_id"]] = message
            output = {"call_id": message["tool_call_id"], "output": message["content"]}
            self.items.append({"type": "function_call_output", **output})
            return
        if message.get("content"):
            self.items.append({"role": message["role"], "content": message["content"]})
        self.items += [
            {"type": "function_call", "call_id": call["id"], **call["function"]}
            for call in message.get("tool_calls") or ()
        ]

    def prepare(self):
        given = ModelInputData(input=list(self.items), instructions=None)
        return self.trimmer(CallModelData(model_data=given, agent=self.agent, context=None)).input

    def sent(self, prepared):
        outputs = {item["call_id"]: item["output"] for item in prepared if item.get("type") == "function_call_output"}
        return self.system + [
            changed(message, outputs[message["tool_call_id"]]) if message["role"] == "tool" else message
            for message in self.messages
        ]


class TrimmingAtOnce(Trimming):
    """The least it can be told to keep whole: the turn that is under way."""

    recent_turns = 1


if __name__ == "__main__":
    serve({"trim outputs": Trimming, "trim outputs, one turn": TrimmingAtOnce})
