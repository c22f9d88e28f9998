"""Agents at work in each wire format, for laws about requests: what replies hold, what tools bring, what the provider refuses.

A `Provider` writes the items of one format and judges requests by the rules that its real counterpart enforces. A `Work` is one
reply with all that follows it. Marks in its texts say what they are, so that a law can look for them in a request.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from tests.support.provider_rules import problems, signature_problems
from tests.support.wire import PIXEL

from infold.formats.registry import ANTHROPIC_MESSAGES, CONVERSE, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, WireFormat
from infold.testing.anthropic_rules import AnthropicRefusal, AnthropicRules
from infold.testing.converse_rules import ConverseRules
from infold.testing.script import Fail, Say, ScriptedAnswer, ScriptedRequest, Send
from infold.testing.scripted_server import parse_request

Item: TypeAlias = dict[str, Any]

SAID, ASKED, OUTSIDE, SETTLED, STALE = "reply-", "wanted-", "outside-", "settled-", "content-of-"
"""Marks with a number behind them: a reply's own words, the user's, a text from elsewhere, a failure, a file's content."""

SYSTEM = "You are a careful engineer."
SIGNED = "Opaque."


class Call(Struct, frozen=True):
    """A call and its result; one that is not answered was interrupted."""

    tool: str
    arguments: Item
    output: str = "done"
    fails: bool = False
    has_image: bool = False
    is_answered: bool = True


class Work(Struct, frozen=True):
    """One reply: its words, its calls, a block of an unknown type; and what the user says after it, if the turn ends."""

    said: str = ""
    calls: tuple[Call, ...] = ()
    is_odd: bool = False
    asked: str = ""


def _lines(what: str, count: int = 60) -> str:
    return "".join(f"{what}, line {line} of the log\n" for line in range(count))


def _run(number: int, **fields: Any) -> Call:
    return Call("bash", {"command": f"make part-{number}"}, _lines(f"{SAID}{number}"), **fields)


def _read(number: int) -> Call:
    return Call("read_file", {"path": f"src/part{number % 3}.py"}, _lines(f"{STALE}{number}"))


def _edit(number: int, size: int = 6) -> Call:
    old, new = f"value = {number}\n" * size, f"value = {number + 1}\n" * size
    return Call("edit_file", {"path": f"src/part{number % 3}.py", "old": old, "new": new})


def _test(number: int, *, fails: bool) -> Call:
    output = f"Error: {SETTLED}{number}" if fails else _lines("passed", 9)
    return Call("bash", {"command": "make test"}, output, fails)


def _todo(items: Sequence[str]) -> Call:
    return Call("todo_write", {"todos": [{"content": item, "status": "pending"} for item in items]})


KINDS: Mapping[str, Callable[[int], Work]] = {
    "runs": lambda n: Work("", (_run(n),)),
    "says and runs": lambda n: Work(f"{SAID}{n}: the next part.", (_run(n),)),
    "short": lambda n: Work("", (Call("bash", {"command": f"count {n}"}, f"{n}"),)),
    "reads": lambda n: Work(f"{SAID}{n}: I read.", (_read(n),)),
    "prints a file": lambda n: Work("", (Call("bash", {"command": "cat VERSION"}, f"{STALE}{n}"),)),
    "edits": lambda n: Work("", (_edit(n),)),
    "bumps": lambda n: Work("", (Call("bash", {"command": f"echo {n} > VERSION"}, ""),)),
    "writes": lambda n: Work("", (Call("write_file", {"path": f"docs/p{n}.md", "text": _lines("text", 90)}),)),
    "fails": lambda n: Work(f"{SAID}{n}: I test.", (_test(n, fails=True),)),
    "passes": lambda n: Work("", (_test(n, fails=False),)),
    "parallel": lambda n: Work(f"{SAID}{n}: all at once.", (_read(n), _run(n), _edit(n))),
    "interrupted": lambda n: Work("", (_run(n), Call("bash", {"command": "sleep"}, is_answered=False)), asked="Stop."),
    "plans": lambda n: Work("", (_todo([f"{SETTLED}{n}", "port"]),)),
    "ends its plan": lambda _: Work("", (_todo([]),)),
    "recalls": lambda n: Work("", (Call("recall", {"query": f"part {n}"}, _lines("recalled", 20)),)),
    "fetches": lambda n: Work("", (Call("web_fetch", {"url": f"https://a.example/{n}"}, f"{OUTSIDE}{n}"),)),
    "curls": lambda n: Work("", (Call("bash", {"command": f"curl https://a.example/{n}"}, f"{OUTSIDE}{n}"),)),
    "shows": lambda n: Work("", (Call("screenshot", {"n": n}, f"{SAID}{n} shown", has_image=True),)),
    "odd": lambda n: Work(f"{SAID}{n}: odd.", is_odd=True, asked=f"{ASKED}{n}: go on."),
    "ends": lambda n: Work(f"{SAID}{n}: it is done.", asked=f"{ASKED}{n}: do the next part."),
    "reports": lambda n: Work(f"{SAID}{n}: " + "the part is ported " * 90, asked=f"{ASKED}{n}: go on."),
}


class Provider:
    """One format: its items, its replies, and what it refuses.

    `thinks`: whether a reply has thinking that the provider signed. `binds`: the thinking is bound to what stands before it.
    """

    wire: WireFormat

    def __init__(self, thinks: Callable[[int], bool] = lambda _: False, *, binds: bool = False) -> None:
        self.thinks = thinks
        self.binds = binds

    def user(self, text: str) -> Item:
        """Return the user's message."""
        return {"role": "user", "content": text}

    def refusal(self, items: list[Item], *, tools: bool = True) -> str:
        """Return why the provider refuses a request with these items; empty if it answers."""
        del tools
        found = (*problems(self.wire, items), *_neighbours(items))
        return found[0] if found else ""

    def reply(self, number: int, work: Work, items: list[Item]) -> Item:
        """Return the body of a reply to a request with these items."""
        raise NotImplementedError

    def results(self, number: int, work: Work) -> list[Item]:
        """Return what the agent adds after a reply: the results, then the user's next words."""
        raise NotImplementedError

    def said(self, number: int, work: Work) -> list[Item]:
        """Return the items that the user's next words are."""
        del number
        return [self.user(work.asked)] if work.asked else []


def _neighbours(items: Sequence[Item]) -> list[str]:
    """Return replies that follow one another, which chat templates refuse."""
    roles = [item.get("role") for item in items]
    return [f"two replies in a row: {one}" for one, other in pairwise(roles) if one == other in ("assistant", "model")]


def call_id(number: int, place: int) -> str:
    """Return the id of a call of the reply of that number."""
    return f"call_{blake2b(f'{number}.{place}'.encode(), digest_size=8).hexdigest()}"


def _answered(number: int, work: Work) -> list[tuple[str, Call]]:
    return [(call_id(number, place), call) for place, call in enumerate(work.calls) if call.is_answered]


class ChatProvider(Provider):
    """OpenAI's Chat Completions; thinking is a signature on the first call, as compatible servers have it, or signed text."""

    wire = OPENAI_CHAT

    def reply(self, number: int, work: Work, items: list[Item]) -> Item:
        del items
        calls = [
            {
                "id": call_id(number, place),
                "type": "function",
                "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
            }
            for place, call in enumerate(work.calls)
        ]
        odd = [{"type": "new_block", "body": number}] if work.is_odd else []
        content: Any = [{"type": "text", "text": work.said}, *odd] if odd else work.said or (None if number % 2 else "")
        message: Item = {"role": "assistant", "content": content}
        if self.thinks(number):
            message["reasoning_details"] = [{"type": "reasoning.encrypted", "data": f"{SIGNED}{number}"}]
            if calls:
                calls[0]["extra_content"] = {"google": {"thought_signature": f"{SIGNED}{number}"}}
        message |= {"tool_calls": calls} if calls else {}
        return {"choices": [{"message": message, "finish_reason": "tool_calls" if calls else "stop"}]}

    def results(self, number: int, work: Work) -> list[Item]:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
        return [
            *(
                {
                    "role": "tool",
                    "tool_call_id": one,
                    "content": [{"type": "text", "text": call.output}, image] if call.has_image else call.output,
                }
                for one, call in _answered(number, work)
            ),
            *self.said(number, work),
        ]


class ResponsesProvider(Provider):
    """OpenAI's Responses, without storage: reasoning is encrypted, and each item that it led to has an id."""

    wire = OPENAI_RESPONSES

    def __init__(self, thinks: Callable[[int], bool] = lambda _: False, *, binds: bool = False) -> None:
        super().__init__(thinks, binds=binds)
        self._led_to: dict[str, str] = {}
        self._replies: dict[str, Work] = {}

    def refusal(self, items: list[Item], *, tools: bool = True) -> str:
        ids = {item.get("id") for item in items}
        alone = (item["id"] for item in items if self._led_to.get(str(item.get("id")), item.get("id")) not in ids)
        references = (item["id"] for item in items if item.get("type") == "item_reference")
        found = [
            *(
                f"{one['id']} without its required following item"
                for one, next_ in pairwise([*items, {}])
                if one.get("type") == "reasoning" and not self._is_reply(str(one["id"]), next_)
            ),
            *(f"{one} was provided without its reasoning" for one in alone),
            *(f"{one} is not stored" for one in references),
        ]
        return super().refusal(items, tools=tools) or (found[0] if found else "")

    def reply(self, number: int, work: Work, items: list[Item]) -> Item:
        del items
        thought: Item = {
            "type": "reasoning",
            "id": f"rs_{number}",
            "summary": [],
            "encrypted_content": f"{SIGNED}{number}",
        }
        text = {"type": "output_text", "text": work.said, "annotations": []}
        said = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]}
        made = [
            {
                "type": "function_call",
                "id": f"fc_{number}_{place}",
                "call_id": call_id(number, place),
                "name": call.tool,
                "arguments": json.dumps(call.arguments),
            }
            for place, call in enumerate(work.calls)
        ]
        odd = [{"type": "new_item", "id": f"new_{number}", "body": number}] if work.is_odd else []
        output: list[Item] = [*([said] if work.said else []), *odd, *made]
        if self.thinks(number):
            self._led_to |= {str(item["id"]): f"rs_{number}" for item in output}
            self._replies[f"rs_{number}"] = work
            output = [thought, *output]
        return {"object": "response", "status": "completed", "output": output}

    def _is_reply(self, reasoning: str, item: Item) -> bool:
        """Return whether an item is one that a reasoning item led to: its words, or one of its calls."""
        work, number = self._replies[reasoning], int(reasoning.removeprefix("rs_"))
        ids = [call_id(number, place) for place in range(len(work.calls))]
        return item.get("call_id") in ids or (item.get("role") == "assistant" and work.said in str(item)) or work.is_odd

    def results(self, number: int, work: Work) -> list[Item]:
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}
        return [
            *(
                {
                    "type": "function_call_output",
                    "call_id": one,
                    "output": [{"type": "input_text", "text": call.output}, image] if call.has_image else call.output,
                }
                for one, call in _answered(number, work)
            ),
            *self.said(number, work),
        ]


class AnthropicProvider(Provider):
    """Anthropic's Messages, with the checks of `AnthropicRules`: thinking is signed, and bound if the model binds it."""

    wire = ANTHROPIC_MESSAGES

    def __init__(self, thinks: Callable[[int], bool] = lambda _: False, *, binds: bool = False) -> None:
        super().__init__(thinks, binds=binds)
        self._content: list[Item] = []
        self._rules = AnthropicRules(self._answer, binds=binds)

    def refusal(self, items: list[Item], *, tools: bool = True) -> str:
        self._content = [{"type": "text", "text": "asked only"}]
        if not tools and any("tool_use" in str(item) for item in items):
            return "Requests which include `tool_use` or `tool_result` blocks must define tools"
        try:
            self._rules.reply({"model": "claude", "system": SYSTEM, "messages": items})
        except AnthropicRefusal as refused:
            return str(refused)
        return super().refusal(items, tools=tools)

    def reply(self, number: int, work: Work, items: list[Item]) -> Item:
        thought = {"type": "thinking", "thinking": f"Thought {number}: on it goes. " * 3, "signature": ""}
        self._content = [
            *([thought] if self.thinks(number) else []),
            *([{"type": "text", "text": work.said}] if work.said else []),
            *([{"type": "new_block", "body": number}] if work.is_odd else []),
            *(
                {"type": "tool_use", "id": call_id(number, place), "name": call.tool, "input": call.arguments}
                for place, call in enumerate(work.calls)
            ),
        ]
        return self._rules.reply({"model": "claude", "system": SYSTEM, "messages": items})

    def _answer(self, request: ScriptedRequest) -> Send:
        usage = {"input_tokens": request.tokens, "output_tokens": 20}
        stop = "tool_use" if any(block["type"] == "tool_use" for block in self._content) else "end_turn"
        body = {"type": "message", "role": "assistant", "model": "claude", "content": self._content}
        return Send({**body, "stop_reason": stop, "usage": usage})

    def results(self, number: int, work: Work) -> list[Item]:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        blocks = [
            {
                "type": "tool_result",
                "tool_use_id": one,
                "content": [{"type": "text", "text": call.output}, image] if call.has_image else call.output,
                **({"is_error": True} if call.fails else {}),
            }
            for one, call in _answered(number, work)
        ]
        if not blocks:
            return self.said(number, work)
        return [{"role": "user", "content": [*blocks, *([{"type": "text", "text": work.asked}] if work.asked else [])]}]


class GeminiProvider(Provider):
    """Gemini's generateContent, which wants the signature of each step's first call in the turn under way, as Gemini 3 does."""

    wire = GEMINI

    def user(self, text: str) -> Item:
        return {"role": "user", "parts": [{"text": text}]}

    def refusal(self, items: list[Item], *, tools: bool = True) -> str:
        unsigned = signature_problems(items) if self.binds and self.thinks(0) else ()
        return super().refusal(items, tools=tools) or (unsigned[0] if unsigned else "")

    def reply(self, number: int, work: Work, items: list[Item]) -> Item:
        del items
        text = [{"text": work.said}] if work.said or number % 2 else []
        made: list[Item] = [
            {"functionCall": {"id": call_id(number, place), "name": call.tool, "args": call.arguments}}
            for place, call in enumerate(work.calls)
        ]
        odd = [{"hologram": {"body": number}}] if work.is_odd else []
        if self.thinks(number):
            (made or text)[0]["thoughtSignature"] = f"{SIGNED}{number}"
        content = {"role": "model", "parts": [*text, *odd, *made]}
        return {"candidates": [{"content": content, "finishReason": "STOP"}]}

    def results(self, number: int, work: Work) -> list[Item]:
        image = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
        parts = [
            {
                "functionResponse": {
                    "id": one,
                    "name": call.tool,
                    "response": {"error" if call.fails else "output": call.output},
                    **({"parts": [image]} if call.has_image else {}),
                }
            }
            for one, call in _answered(number, work)
        ]
        return [*([{"role": "user", "parts": parts}] if parts else []), *self.said(number, work)]


class ConverseProvider(Provider):
    """Bedrock's Converse, with the checks of `ConverseRules`."""

    wire = CONVERSE

    def __init__(self, thinks: Callable[[int], bool] = lambda _: False, *, binds: bool = False) -> None:
        super().__init__(thinks, binds=binds)
        self._rules = ConverseRules(lambda _: Say("", reasoning="hm"), binds=binds)

    def user(self, text: str) -> Item:
        return {"role": "user", "content": [{"text": text}]}

    def refusal(self, items: list[Item], *, tools: bool = True) -> str:
        answer = self._ask(items, tools=tools)
        return str(answer.body) if isinstance(answer, Fail) else super().refusal(items, tools=tools)

    def reply(self, number: int, work: Work, items: list[Item]) -> Item:
        answer = self._ask(items)
        assert isinstance(answer, Say)
        thought = {"text": f"Thought {number}: on it goes. " * 3, "signature": answer.signature}
        content = [
            *([{"reasoningContent": {"reasoningText": thought}}] if self.thinks(number) else []),
            *([{"text": work.said}] if work.said else []),
            *([{"hologram": {"body": number}}] if work.is_odd else []),
            *(
                {"toolUse": {"toolUseId": call_id(number, place), "name": call.tool, "input": call.arguments}}
                for place, call in enumerate(work.calls)
            ),
        ]
        stop = "tool_use" if work.calls else "end_turn"
        return {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": stop}

    def results(self, number: int, work: Work) -> list[Item]:
        image = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
        blocks = [
            {
                "toolResult": {
                    "toolUseId": one,
                    "content": [
                        *([{"text": call.output}] if call.output else []),
                        *([image] if call.has_image else []),
                    ],
                    **({"status": "error"} if call.fails else {}),
                }
            }
            for one, call in _answered(number, work)
        ]
        return [{"role": "user", "content": [*blocks, *([{"text": work.asked}] if work.asked else [])]}]

    def _ask(self, items: list[Item], *, tools: bool = True) -> ScriptedAnswer:
        config = {"toolConfig": {"tools": [{"toolSpec": {"name": "bash"}}]}} if tools else {}
        body = msgspec.json.encode({"messages": items, **config})
        request: ScriptedRequest = parse_request("/model/claude/converse", {}, body, CONVERSE)
        return self._rules(request)


PROVIDERS: Mapping[str, type[Provider]] = {
    one.wire.name: one for one in (ChatProvider, ResponsesProvider, AnthropicProvider, GeminiProvider, ConverseProvider)
}
