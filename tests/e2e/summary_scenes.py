"""A session beside a model server that misbehaves when it is asked for a summary, lived through sync and async.

The server is real HTTP and is spoken to by the official SDK. It plays both models: the one the session is for, which refuses a
request over its window, and the one that writes summaries, which does what a scene says.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import openai
from msgspec import Struct
from tests.support.policies import FOLDS

from infold.core.events import Event
from infold.core.gauge import Gauge
from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import Finish, Usage, text_of
from infold.core.summary_request import SummaryRequest
from infold.ports import FullStore
from infold.session.async_session import AsyncSession
from infold.session.report import Ready
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore
from infold.testing.script import Fail, Say, Script, ScriptedRequest
from infold.testing.script import ScriptedAnswer as Reply
from infold.testing.scripted_server import ScriptedServer
from infold.testing.wire_replies import chat_overflow

__all__ = [
    "CHINESE",
    "GOOD",
    "LIMIT_TOKENS",
    "LIVES",
    "RULE",
    "WENT_ON",
    "WINDOW",
    "Item",
    "Life",
    "Lived",
    "asking",
    "asking_async",
    "client_of",
    "history",
    "is_for_notes",
    "live",
    "live_async",
    "serving",
    "settings",
    "streaming",
    "streaming_async",
]

WINDOW = 8_192
LIMIT_TOKENS = WINDOW - int(WINDOW * 0.15)
"""What of the window is not kept free for the reply."""

NOTES, NOTES_WINDOW = "notes", 32_000
"""The model that is asked for summaries, and what it holds."""

WENT_ON = "The work goes on."

RULE = "Port the parser part by part. Never touch vendor/."
CHINESE = "请把解析器逐个部分移植过来。不要修改任何第三方目录里的文件，每完成一个部分就运行构建。"
GOOD = "The parser was ported part by part with make; each part built without errors."

Item = dict[str, Any]
Kind = TypeVar("Kind", bound=Event)


class Lived(Struct, frozen=True):
    """How it went: what was told, what was sent, how full the window was, and what the model said to the next prompt."""

    events: tuple[Event, ...]
    sent: tuple[list[object], ...]
    gauges: tuple[Gauge, ...]
    said: str

    def told(self, kind: type[Kind]) -> list[Kind]:
        """The events of this kind."""
        return [event for event in self.events if isinstance(event, kind)]


Life = Callable[..., Lived]


def history(request: str = RULE, steps: int = 24) -> list[Item]:
    """A request and tool steps, twice what the window holds."""
    return [{"role": "user", "content": request}, *(item for number in range(steps) for item in step(number))]


def step(number: int) -> list[Item]:
    """A tool step of about six hundred tokens."""
    function = {"name": "bash", "arguments": '{"command": "make part"}'}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number}: all went well\n" * 80},
    ]


# The server.


def is_for_notes(request: ScriptedRequest) -> bool:
    """Whether a request asks for a summary."""
    return request.body.get("model") == NOTES


@contextmanager
def serving(notes: Script) -> Iterator[ScriptedServer]:
    """A server whose summaries are as the script has them, and whose other replies are fine."""

    def answer(request: ScriptedRequest) -> Reply:
        if is_for_notes(request):
            return notes(request)
        return Say(WENT_ON) if request.tokens <= WINDOW else Fail(400, chat_overflow(request.tokens, WINDOW))

    with ScriptedServer(answer) as server:
        yield server


def client_of(server: ScriptedServer) -> openai.OpenAI:
    """The official client, which never tries twice."""
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


# The summariser, as a user of the SDK writes it.


def asking(client: openai.OpenAI) -> Callable[[SummaryRequest], ModelAnswer]:
    """Ask for the notes and wait."""

    def ask(request: SummaryRequest) -> ModelAnswer:
        return _told(client.chat.completions.create(**_body(request)))

    return ask


def asking_async(client: openai.AsyncOpenAI) -> Callable[[SummaryRequest], Any]:
    """Ask for the notes and await them."""

    async def ask(request: SummaryRequest) -> ModelAnswer:
        return _told(await client.chat.completions.create(**_body(request)))

    return ask


def streaming(client: openai.OpenAI) -> Callable[[SummaryRequest], Iterator[str]]:
    """Give the notes as they are written."""

    def ask(request: SummaryRequest) -> Iterator[str]:
        with client.chat.completions.create(**_body(request), stream=True) as chunks:
            yield from (text for chunk in chunks for text in _pieces(chunk))

    return ask


def streaming_async(client: openai.AsyncOpenAI) -> Callable[[SummaryRequest], Any]:
    """The same, awaited piece by piece."""

    async def ask(request: SummaryRequest) -> Any:
        async with await client.chat.completions.create(**_body(request), stream=True) as chunks:
            async for chunk in chunks:
                for text in _pieces(chunk):
                    yield text

    return ask


FINISHES: dict[str, Finish] = {"length": "length", "content_filter": "content-filter"}


def _body(request: SummaryRequest) -> Any:
    said = [{"role": "user", "content": text_of(message)} for message in request.messages]
    asked = [{"role": "system", "content": request.system}, *said]
    return {"model": NOTES, "messages": asked, "max_tokens": request.output_tokens}


def _told(reply: Any) -> ModelAnswer:
    choice = reply.choices[0]
    finish = FINISHES.get(choice.finish_reason, "stop")
    usage = Usage(reply.usage.prompt_tokens, reply.usage.completion_tokens)
    answer = Answer(choice.message.content or "", finish, calls_tools=bool(choice.message.tool_calls))
    return ModelAnswer(answer, model=reply.model, usage=usage, cost=0.25)


def _pieces(chunk: Any) -> Iterator[str]:
    return (choice.delta.content for choice in chunk.choices if choice.delta.content)


# The two lives.


def settings(summariser: Any, heard: list[Event], *, seconds: float | None = 30.0) -> SessionSettings:
    """A session that folds what does not fit, with a summariser that may take so long."""
    return SessionSettings(
        window=WINDOW,
        policy=FOLDS,
        summariser=summariser,
        summariser_tokens=NOTES_WINDOW,
        summary_seconds=seconds,
        on_event=heard.append,
    )


def live(
    server: ScriptedServer,
    items: list[Item],
    *,
    seconds: float = 30.0,
    streamed: bool = False,
    store: FullStore | None = None,
) -> Lived:
    """Prepare a history that is too long, have it answered, and have one more prompt answered."""
    heard: list[Event] = []
    with client_of(server) as client:
        notes = streaming(client) if streamed else asking(client)
        session = Session(store or MemoryStore(), "s", settings(notes, heard, seconds=seconds))
        first = session.prepare(items)
        reply = client.chat.completions.create(model="main", messages=_sent(first))
        session.record(reply)
        then = session.prepare([*items, _said(reply), {"role": "user", "content": "And the next part?"}])
        last = client.chat.completions.create(model="main", messages=_sent(then))
        session.record(last)
    return _lived(heard, first, then, last)


def live_async(
    server: ScriptedServer,
    items: list[Item],
    *,
    seconds: float = 30.0,
    streamed: bool = False,
    store: FullStore | None = None,
) -> Lived:
    """The same life, awaited."""
    heard: list[Event] = []

    async def run() -> Lived:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            notes = streaming_async(client) if streamed else asking_async(client)
            session = await AsyncSession.open(store or MemoryStore(), "s", settings(notes, heard, seconds=seconds))
            first = await session.prepare(items)
            reply = await client.chat.completions.create(model="main", messages=_sent(first))
            await session.record(reply)
            then = await session.prepare([*items, _said(reply), {"role": "user", "content": "And the next part?"}])
            last = await client.chat.completions.create(model="main", messages=_sent(then))
            await session.record(last)
        return _lived(heard, first, then, last)

    return asyncio.run(run())


LIVES: tuple[Life, ...] = (live, live_async)


def _sent(ready: Ready) -> Any:
    return ready.messages


def _said(reply: Any) -> Item:
    return {"role": "assistant", "content": reply.choices[0].message.content}


def _lived(heard: list[Event], first: Ready, then: Ready, last: Any) -> Lived:
    said = last.choices[0].message.content or ""
    return Lived(tuple(heard), (first.messages, then.messages), (first.gauge, then.gauge), said)
