"""A model that checks thinking as Anthropic documents it, and a client that works with it for many steps.

A signature stands for what was sent when its block was created: `system`, `tools` and every message before it. The check refuses
a block behind anything else, and a block from before which another one was removed, unless all before that one are missing too.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from infold.testing.anthropic_rules import anthropic_problems
from infold.testing.script import Fail, Say, ScriptedAnswer, ScriptedRequest

__all__ = ["BOUND", "DROPS", "MODEL", "STEPS", "SYSTEM", "TOOLS", "WINDOW", "Refused", "Thinker", "Worker", "body_of"]

Item: TypeAlias = dict[str, Any]

MODEL = "claude-opus-5-5"
WINDOW = 20_000
STEPS = 120
SYSTEM = "You are a careful engineer. Work on the task with the tool you have."
TOOLS: list[Item] = [
    {
        "name": "bash",
        "description": "Run a command.",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    }
]
BOUND = (
    "messages.{}.content.{}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the "
    'block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
MODIFIED = (
    "messages.{}.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These "
    "blocks must remain as they were in the original response."
)
MUST_THINK = "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
THINKING = ("thinking", "redacted_thinking")
DROPS = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def body_of(messages: list[Any], model: str = MODEL, **fields: Any) -> Item:
    """A request as the worker sends it."""
    return {"model": model, "max_tokens": 400, "system": SYSTEM, "tools": TOOLS, "messages": messages, **fields}


class Refused(Exception):
    """A refusal as an SDK raises it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.status_code = 400
        self.body = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


class Thinker:
    """A model that thinks before each call, signs its thinking, and checks what it is given back.

    `binds`: thinking is checked against what stands before it. `manual`: an older model, which wants the last reply of an open
    loop to begin with thinking. `strict`: while its calls are being answered, the thinking of the latest reply must not be
    missing either, as one sentence of the documentation can be read. `refusals` has the reason of each request that was refused;
    `kept` and `bare` count, for each request of the client, the replies in it that have their thinking and those that do not.
    """

    def __init__(
        self, *, binds: bool = True, manual: bool = False, strict: bool = False, turn: int = 10, tool: str = "bash"
    ) -> None:
        self.binds = binds
        self.manual = manual
        self.strict = strict
        self.refusals: list[str] = []
        self.replies = 0
        self.summaries = 0
        self.dropped = 0
        self.kept: list[int] = []
        self.bare: list[int] = []
        self._turn = turn
        self._tool = tool
        self._signed: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._by_call: dict[str, str] = {}

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        """Answer over HTTP."""
        body = request.body
        problem = self.problem(body)
        if problem:
            self.refusals.append(problem)
            return Fail(400, Refused(problem).body)
        if _is_for_summary(body):
            self.summaries += 1
            return Say("The commands were run one after the other; each printed its lines, and nothing is open.")
        self.replies += 1
        thought = f"Thought {self.replies}: the next command follows from the last. " + "Weigh it. " * 12
        signature = self._sign(body)
        if self.replies % self._turn == 0:
            return Say(f"Part {self.replies // self._turn} is done.", reasoning=thought, signature=signature)
        command = (self._tool, {"command": f"make step-{self.replies}"})
        return Say(calls=(command,), reasoning=thought, signature=signature)

    def reply(self, body: Item) -> Item:
        """The same without a network: a reply's body, or `Refused`."""
        request = ScriptedRequest("/v1/messages", {}, json.loads(json.dumps(body)))
        answer = self(request)
        if isinstance(answer, Fail):
            raise Refused(self.refusals[-1])
        assert isinstance(answer, Say)
        content: list[Item] = []
        if answer.reasoning:
            content.append({"type": "thinking", "thinking": answer.reasoning, "signature": answer.signature})
        if answer.text:
            content.append({"type": "text", "text": answer.text})
        content += [
            {"type": "tool_use", "id": f"toolu_{self.replies}", "name": name, "input": arguments}
            for name, arguments in answer.calls
        ]
        return {
            "id": f"msg_{self.replies}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "tool_use" if answer.calls else "end_turn",
        }

    def problem(self, body: Item) -> str:
        """Why a request is refused; empty where it is accepted."""
        messages = body["messages"]
        broken = anthropic_problems(messages)
        if broken:
            return broken[0]
        drops = (body.get("thinking") or {}).get("block_binding", {}).get("prefix_mismatch_behavior") == "drop_block"
        prefix = [_flat("system", body.get("system")), _flat("tools", body.get("tools"))]
        seen: list[str] = []
        for i, j, role, block in _blocks(messages):
            if block.get("type") not in THINKING:
                prefix.append(_flat(role, block))
                continue
            is_valid = self._is_valid(block["signature"], prefix, seen)
            if self.binds and not is_valid and not drops:
                return BOUND.format(i, j)
            if is_valid or not self.binds:
                seen.append(block["signature"])
            else:
                self.dropped += 1
        if _is_for_summary(body):
            return ""
        self.kept.append(len(seen))
        self.bare.append(sum(message["role"] == "assistant" for message in messages) - len(seen))
        return self._latest_problem(messages)

    def _is_valid(self, signature: str, prefix: list[str], seen: list[str]) -> bool:
        created, before = self._signed[signature]
        return created == _hashed(prefix) and before[len(before) - len(seen) :] == tuple(seen)

    def _latest_problem(self, messages: list[Item]) -> str:
        """Thinking of the latest reply is whole or, where the model thinks adaptively, absent."""
        index = max((n for n, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
        if index < 0 or isinstance(messages[index]["content"], str):
            return ""
        blocks = messages[index]["content"]
        thinking = [block["signature"] for block in blocks if block["type"] in THINKING]
        made = [self._by_call[block["input"]["command"]] for block in blocks if block["type"] == "tool_use"]
        if self.manual and made and not thinking:
            return MUST_THINK.format(index)
        is_open = index == len(messages) - 2 and bool(made)
        is_missing = self.strict and is_open and not thinking
        return MODIFIED.format(index) if is_missing or (thinking and made and thinking != made) else ""

    def _sign(self, body: Item) -> str:
        signature = f"signed-{self.replies}"
        prefix = [_flat("system", body.get("system")), _flat("tools", body.get("tools"))]
        seen: list[str] = []
        for _, _, role, block in _blocks(body["messages"]):
            if block.get("type") in THINKING:
                seen.append(block["signature"])
            else:
                prefix.append(_flat(role, block))
        self._signed[signature] = (_hashed(prefix), tuple(seen))
        self._by_call[f"make step-{self.replies}"] = signature
        return signature


class Worker:
    """A client that keeps its whole list of messages and works for many steps; `refused` counts what it was refused."""

    def __init__(self, steps: int = STEPS) -> None:
        self.items: list[Item] = []
        self.refused = 0
        self._steps = steps

    def run(self, ask: Callable[[list[Item]], Item]) -> "Worker":
        """Work to the end; `ask` gives the reply to a list of messages."""
        for new in self.turns():
            self.items.append(new)
            try:
                reply = ask(self.items)
            except Exception as error:
                if getattr(error, "status_code", None) != 400:
                    raise
                self.refused += 1
                break
            self.take(reply)
        return self

    def turns(self) -> Iterator[Item]:
        """What the client says next: the result of the last call, or the next order."""
        yield {"role": "user", "content": "Run the steps one after the other. Never touch the files under vendor/."}
        for _ in range(self._steps):
            calls = [block for block in self.items[-1]["content"] if block["type"] == "tool_use"]
            if calls:
                output = f"{calls[0]['input']['command']} printed:\n" + "compiling the module, no warnings\n" * 90
                result = {"type": "tool_result", "tool_use_id": calls[0]["id"], "content": output}
                yield {"role": "user", "content": [result]}
            else:
                yield {"role": "user", "content": "Good. Go on with the next part."}

    def take(self, reply: Item) -> None:
        """Keep a reply as it came."""
        self.items.append({"role": "assistant", "content": reply["content"]})

    @property
    def thinking(self) -> list[str]:
        """The signatures of all thinking in the client's list."""
        return [block["signature"] for _, _, _, block in _blocks(self.items) if block.get("type") in THINKING]


def _is_for_summary(body: Item) -> bool:
    return "Write notes on the conversation" in json.dumps(body["messages"][-1])


def _blocks(messages: list[Item]) -> Iterator[tuple[int, int, str, Item]]:
    for i, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield from ((i, j, message["role"], block) for j, block in enumerate(blocks))


def _flat(role: str, value: object) -> str:
    """A piece of a request for comparison, without the marks of the cache."""
    if isinstance(value, dict):
        value = {key: inner for key, inner in value.items() if key != "cache_control"}
    if isinstance(value, list):
        value = [_flat("", one) for one in value]
    return json.dumps([role, value], sort_keys=True)


def _hashed(pieces: list[str]) -> str:
    return hashlib.blake2b("\n".join(pieces).encode()).hexdigest()
