"""Sessions with tools as applications hold them: through the official SDKs, over three interfaces, whole or streamed.

OpenAI's lists go in by `extra_body`: its SDK otherwise holds each item against all types it may be of, at every request, which
takes far longer than all the rest. What is sent is the same; `test_wrap.py` has shorter sessions that go the usual way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import anthropic
import msgspec
import openai
from msgspec import Struct

from infold import Session, SessionSettings, open_store, wrap
from infold.core.entries import Entry
from infold.core.events import Event
from infold.core.log import Log
from infold.core.messages import AssistantMessage, ToolMessage, results_of
from infold.errors import StoreBroken
from infold.ports import FullStore, SessionKey
from infold.stores.memory import MemoryStore
from infold.testing.script import Say, ScriptedAnswer, ScriptedRequest
from infold.testing.scripted_server import ScriptedServer

__all__ = [
    "CHAT",
    "MESSAGES",
    "RESPONSES",
    "SCENES",
    "TASK",
    "BreakingStore",
    "Item",
    "Plan",
    "Said",
    "Scene",
    "Wrapping",
    "go_on",
    "only_log",
    "run",
    "shown",
    "worker",
]

Item: TypeAlias = dict[str, Any]

MODEL = "scripted"
TASK = "Port the importer. Never touch the files under vendor/."
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
ABOUT = "Run a command in the shell and give back what it printed."
MOST_TOKENS = 200


class Said(Struct, frozen=True):
    """A reply: the items it adds to the caller's list, and the ids of its calls."""

    items: list[Item]
    calls: tuple[str, ...] = ()


class Scene(Struct, frozen=True):
    """One interface: its clients, how a reply is asked for, and how words and results are brought.

    `ask` and `ask_async` take the client, the list and whether to stream.
    """

    name: str
    client: Callable[[str], Any]
    async_client: Callable[[str], Any]
    ask: Callable[[Any, list[Item], bool], Said]
    ask_async: Callable[[Any, list[Item], bool], Awaitable[Said]]
    result: Callable[[str, str], Item]


class BreakingStore(MemoryStore):
    """A store whose disk is full after so many writes."""

    def __init__(self, after_writes: int) -> None:
        super().__init__()
        self._left = after_writes

    def append(self, key: SessionKey, entries: Sequence[Entry], *, expected: int) -> int:
        """Append, as long as there is room."""
        self._left -= 1
        if self._left < 0:
            raise StoreBroken("the store", "the disk is full", remedy="make room")
        return super().append(key, entries, expected=expected)


def shown(number: int) -> str:
    """What a tool printed: about four hundred tokens, different each time."""
    return f"[{number}] 09:14 INFO ferry.store: route {number} is late, see src/routes/r{number}.py\n" * 14


def worker(request: ScriptedRequest) -> ScriptedAnswer:
    """A model that calls a tool for each wish and answers when it has the result."""
    step = sum(isinstance(message, AssistantMessage) for message in request.messages)
    last = request.messages[-1]
    if isinstance(last, ToolMessage) or results_of(last):
        return Say(f"Part {step} is done.")
    return Say("Running.", calls=(("bash", {"command": f"make part{step}"}),))


def go_on(scene: Scene, client: Any, items: list[Item], turn: int, *, stream: bool = False, words: int = 0) -> None:
    """One more turn: a wish of at least so many words, a call, its result, an answer; the list grows by all of it."""
    items.append(_wish(turn, words))
    said = scene.ask(client, items, stream)
    items += [*said.items, *(scene.result(call, shown(turn)) for call in said.calls)]
    items += scene.ask(client, items, stream).items


async def go_on_async(
    scene: Scene, client: Any, items: list[Item], turn: int, *, stream: bool = False, words: int = 0
) -> None:
    """The same, awaited."""
    items.append(_wish(turn, words))
    said = await scene.ask_async(client, items, stream)
    items += [*said.items, *(scene.result(call, shown(turn)) for call in said.calls)]
    items += (await scene.ask_async(client, items, stream)).items


def _wish(turn: int, words: int) -> Item:
    text = TASK if turn == 0 else f"Now part {turn}."
    return {
        "role": "user",
        "content": " ".join([text, *(f"Mind the tide tables of harbour {turn}." for _ in range(words // 7))]),
    }


# Chat completions.

CHAT: Item = {
    "model": MODEL,
    "max_completion_tokens": MOST_TOKENS,
    "tools": [{"type": "function", "function": {"name": "bash", "description": ABOUT, "parameters": SCHEMA}}],
}
USAGE = {"include_usage": True}


def _chat(client: Any, items: list[Item], stream: bool) -> Said:
    if not stream:
        return _chat_said(client.chat.completions.create(**CHAT, messages=[], extra_body={"messages": items}))
    brought = {"messages": [], "extra_body": {"messages": items}, "stream_options": USAGE}
    with client.chat.completions.stream(**CHAT, **brought) as pieces:
        return _chat_said(pieces.get_final_completion())


async def _chat_async(client: Any, items: list[Item], stream: bool) -> Said:
    if not stream:
        return _chat_said(await client.chat.completions.create(**CHAT, messages=[], extra_body={"messages": items}))
    brought = {"messages": [], "extra_body": {"messages": items}, "stream_options": USAGE}
    async with client.chat.completions.stream(**CHAT, **brought) as pieces:
        return _chat_said(await pieces.get_final_completion())


def _chat_said(reply: Any) -> Said:
    message = reply.choices[0].message
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in message.tool_calls or ()
    ]
    said = {"role": "assistant", "content": message.content, **({"tool_calls": calls} if calls else {})}
    return Said([said], tuple(call["id"] for call in calls))


def _chat_result(call: str, text: str) -> Item:
    return {"role": "tool", "tool_call_id": call, "content": text}


# Responses.

RESPONSES: Item = {
    "model": MODEL,
    "store": False,
    "max_output_tokens": MOST_TOKENS,
    "tools": [{"type": "function", "name": "bash", "description": ABOUT, "parameters": SCHEMA, "strict": False}],
}


def _responses(client: Any, items: list[Item], stream: bool) -> Said:
    if not stream:
        return _responses_said(client.responses.create(**RESPONSES, extra_body={"input": items}))
    with client.responses.stream(**RESPONSES, input=[], extra_body={"input": items}) as pieces:
        return _responses_said(pieces.get_final_response())


async def _responses_async(client: Any, items: list[Item], stream: bool) -> Said:
    if not stream:
        return _responses_said(await client.responses.create(**RESPONSES, extra_body={"input": items}))
    async with client.responses.stream(**RESPONSES, input=[], extra_body={"input": items}) as pieces:
        return _responses_said(await pieces.get_final_response())


def _responses_said(reply: Any) -> Said:
    items = [msgspec.json.decode(item.model_dump_json(exclude_none=True)) for item in reply.output]
    for item in items:
        item.pop("parsed_arguments", None)
    return Said(items, tuple(item["call_id"] for item in items if item["type"] == "function_call"))


def _responses_result(call: str, text: str) -> Item:
    return {"type": "function_call_output", "call_id": call, "output": text}


# Anthropic Messages.

MESSAGES: Item = {
    "model": MODEL,
    "max_tokens": MOST_TOKENS,
    "system": [{"type": "text", "text": "You port importers.", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "bash", "description": ABOUT, "input_schema": SCHEMA}],
}


def _messages(client: Any, items: list[Item], stream: bool) -> Said:
    if not stream:
        return _messages_said(client.messages.create(**MESSAGES, messages=items))
    with client.messages.stream(**MESSAGES, messages=items) as pieces:
        return _messages_said(pieces.get_final_message())


async def _messages_async(client: Any, items: list[Item], stream: bool) -> Said:
    if not stream:
        return _messages_said(await client.messages.create(**MESSAGES, messages=items))
    async with client.messages.stream(**MESSAGES, messages=items) as pieces:
        return _messages_said(await pieces.get_final_message())


def _messages_said(reply: Any) -> Said:
    blocks = [block.model_dump(mode="json", exclude_none=True) for block in reply.content]
    for block in blocks:
        block.pop("parsed_output", None)
    return Said(
        [{"role": "assistant", "content": blocks}],
        tuple(block["id"] for block in blocks if block["type"] == "tool_use"),
    )


def _messages_result(call: str, text: str) -> Item:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text}]}


def _openai(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="key-of-the-caller", max_retries=0)


def _async_openai(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key-of-the-caller", max_retries=0)


def _anthropic(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="key-of-the-caller", max_retries=0)


def _async_anthropic(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=url, api_key="key-of-the-caller", max_retries=0)


SCENES = (
    Scene("chat", _openai, _async_openai, _chat, _chat_async, _chat_result),
    Scene("responses", _openai, _async_openai, _responses, _responses_async, _responses_result),
    Scene("messages", _anthropic, _async_anthropic, _messages, _messages_async, _messages_result),
)


# Whole sessions.


Heard = TypeVar("Heard")


class Plan(Struct, frozen=True):
    """A session to be held: so many turns, streamed or not, with wishes of so many words."""

    turns: int = 40
    stream: bool = False
    words: int = 0


class Wrapping:
    """What a client is wrapped with, and what is heard of it."""

    def __init__(self, *, store: FullStore | None = None, **settings: Any) -> None:
        self.events: list[Event] = []
        self.settings = SessionSettings(on_event=self.events.append, **settings)
        self.store = store or open_store("memory")

    def heard(self, kind: type[Heard]) -> list[Heard]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


def run(scene: Scene, colour: str, server: ScriptedServer, wrapping: Wrapping, plan: Plan) -> list[Item]:
    """A whole session of a wrapped client of either colour; the client's own list."""
    items: list[Item] = []

    async def main() -> None:
        async with wrap(scene.async_client(server.url), wrapping.settings, store=wrapping.store) as client:
            for turn in range(plan.turns):
                await go_on_async(scene, client, items, turn, stream=plan.stream, words=plan.words)

    if colour == "async":
        asyncio.run(main())
        return items
    with wrap(scene.client(server.url), wrapping.settings, store=wrapping.store) as client:
        for turn in range(plan.turns):
            go_on(scene, client, items, turn, stream=plan.stream, words=plan.words)
    return items


def only_log(store: FullStore) -> Log:
    """The one session of a store."""
    (stored,) = store.sessions("")
    return Session(store, stored.key.session_id, SessionSettings(window=8_192)).log
