"""Load for a gateway: coding sessions that grow by a step per call, and an upstream that answers them after a while.

Both are raw asyncio in one process, so that on a small machine most of the CPU is left to the server between them. What the
upstream says is what the client brings back with its next call, as an agent does.
"""

import asyncio
import hashlib
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.trajectory import trajectory

__all__ = ["KEY", "Call", "Load", "Story", "Upstream", "play", "stories"]

Item: TypeAlias = dict[str, Any]

MODEL = "gpt-4.1"
KEY = f"sk-{hashlib.sha256(b'load').hexdigest()}"
"""What the clients present; LiteLLM wants a long one."""
PIECE_CHARS = 12
"""Characters of one event: a few tokens, as providers send them."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Use {name} to look at the work or to change it. " * 8,
            "parameters": {
                "type": "object",
                "properties": {field: {"type": "string", "description": "as it says"} for field in ("path", "pattern")},
            },
        },
    }
    for name in ("read_file", "grep", "http_get", "bash", "edit", "write", "todo_write", "task")
]
SYSTEM = {"role": "system", "content": "You are a coding agent. Work in small steps and say what you do. " * 100}
_MARK = re.compile(rb"load-(\d+)-(\d+)-")
_NOTE = re.compile(rb"\r\nx-infold: ([^\r]*)")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Load(Struct, frozen=True):
    """How hard to press: so many streams at once, each sending a request every so often.

    The upstream answers after `delay_seconds` and says the rest over `stream_seconds`. The first `warm_calls` of a stream are
    not counted. Sessions of another `day` are others.
    """

    streams: int = 50
    calls: int = 15
    warm_calls: int = 2
    first_step: int = 7
    period_seconds: float = 2.5
    delay_seconds: float = 0.05
    stream_seconds: float = 2.3
    day: int = 0


class Story(Struct, frozen=True):
    """One session: its messages as JSON, how many there are before each call, and each reply's events as they are sent."""

    items: tuple[bytes, ...]
    points: tuple[int, ...]
    replies: tuple[tuple[bytes, ...], ...]

    def body(self, number: int, call: int, day: int) -> bytes:
        """The request of a call; the mark tells the upstream which it is, the day makes its session one of its own."""
        opening = msgspec.json.encode({"role": "user", "content": f"This is job {number} of day {day}."})
        shown = b",".join((msgspec.json.encode(SYSTEM), opening, *self.items[: self.points[call]]))
        tools = msgspec.json.encode(TOOLS)
        mark = f"load-{number}-{call}-".encode()
        return b"".join(
            (
                b'{"model":"%b","stream":true,"stream_options":{"include_usage":true},' % MODEL.encode(),
                b'"user":"%b","tools":%b,"messages":[%b]}' % (mark, tools, shown),
            )
        )


def stories(load: Load) -> tuple[Story, ...]:
    """A session for each stream, all different."""
    steps = load.first_step + load.warm_calls + load.calls + 1
    return tuple(_story(trajectory(steps, seed), load) for seed in range(load.streams))


def _story(messages: list[Item], load: Load) -> Story:
    places = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    points = places[load.first_step : load.first_step + load.warm_calls + load.calls]
    items = tuple(msgspec.json.encode(message) for message in messages)
    return Story(items, tuple(points), tuple(tuple(_events(messages[place], place)) for place in points))


def _events(message: Item, number: int) -> Iterator[bytes]:
    """A reply as the chunks of a chat stream, each an HTTP chunk of its own."""
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": MODEL}

    def chunk(delta: Item, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _sent(msgspec.json.encode({**head, "choices": [choice]}))

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"content": piece}) for piece in _pieces(message["content"]))
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield chunk({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        for piece in _pieces(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if message.get("tool_calls") else "stop")
    usage = {"prompt_tokens": 30_000, "completion_tokens": 100, "total_tokens": 30_100}
    yield _sent(msgspec.json.encode({**head, "choices": [], "usage": usage}))
    yield _sent(b"[DONE]") + b"0\r\n\r\n"


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS))


def _sent(data: bytes) -> bytes:
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


# The upstream.

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Upstream(asyncio.Protocol):
    """One connection: each request is answered after a while, one event after the other."""

    def __init__(self, told: tuple[Story, ...], load: Load) -> None:
        self._told = told
        self._load = load
        self._buffer = bytearray()
        self._wanted = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Gather a request; answer it when it is whole."""
        self._buffer += data
        if not self._wanted:
            end = self._buffer.find(b"\r\n\r\n")
            length = _LENGTH.search(self._buffer) if end >= 0 else None
            if length is None:
                return
            self._wanted = end + 4 + int(length[1])
        if len(self._buffer) >= self._wanted:
            mark = _MARK.search(self._buffer)
            assert mark is not None, "a request came without its mark"
            events = self._told[int(mark[1])].replies[int(mark[2])]
            del self._buffer[: self._wanted]
            self._wanted = 0
            pause = self._load.stream_seconds / len(events)
            left = iter((HEAD + events[0] + events[1], *events[2:]))  # who speaks, and the first word, come together
            asyncio.get_running_loop().call_later(self._load.delay_seconds, self._say, left, pause)

    def _say(self, left: Iterator[bytes], pause: float) -> None:
        """Send the next event and come back for the one after it."""
        event = next(left, b"")
        if event and not self._transport.is_closing():
            self._transport.write(event)
            asyncio.get_running_loop().call_later(pause, self._say, left, pause)


# The clients.


class Call(Struct, frozen=True):
    """One call: when it began, the seconds to its first byte and to its last, and how large it was."""

    began: float
    first_seconds: float
    seconds: float
    request_bytes: int
    note: str
    """What infold says of it in a header; empty from anybody else."""


async def play(address: str, told: tuple[Story, ...], load: Load) -> list[Call]:
    """All streams at once, each at its own pace; gives their calls."""
    host, port = address.removeprefix("http://").split(":")
    places = [asyncio.open_connection(host, int(port), limit=2**20) for _ in told]
    ends = await asyncio.gather(*places)
    clients = [_client(end, number, told[number], load) for number, end in enumerate(ends)]
    return [call for calls in await asyncio.gather(*clients) for call in calls]


async def _client(
    end: tuple[asyncio.StreamReader, asyncio.StreamWriter], number: int, story: Story, load: Load
) -> list[Call]:
    """One stream: it begins a little after the one before it and sends a request each period."""
    started = time.perf_counter() + number * load.period_seconds / load.streams
    calls: list[Call] = []
    for call in range(len(story.points)):
        await asyncio.sleep(max(0.0, started + call * load.period_seconds - time.perf_counter()))
        calls.append(await _call(*end, story.body(number, call, load.day)))
    end[1].close()
    return calls


async def _call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> Call:
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: load\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json"
    began = time.perf_counter()
    writer.write(f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    told = await reader.readuntil(b"\r\n\r\n")
    status = int(told.split(b" ", 2)[1])
    assert status == 200, (told, await reader.read(2_000))
    first, tail = 0.0, b""
    while not tail.endswith(b"0\r\n\r\n"):
        piece = await reader.read(2**16)
        assert piece, "the connection broke"
        first = first or time.perf_counter()
        tail = (tail + piece)[-16:]
    note = _NOTE.search(told)
    return Call(began, first - began, time.perf_counter() - began, len(body), note[1].decode() if note else "")
