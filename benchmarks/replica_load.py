"""Load for several gateways: a front that takes them in turn, agents whose sessions come and go, and an upstream for them.

All is raw asyncio in one process. Every message has a mark that occurs once, so that the store can be compared with what the
agents sent and received. The upstream answers a request by its newest mark, and a repeated request like the first.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, TypeAlias

from msgspec import Struct

__all__ = ["HEADERS", "MODEL", "Agent", "Front", "Job", "Traffic", "Upstream", "marks_in", "run_agents", "session_name"]

Item: TypeAlias = dict[str, Any]

MODEL = "gpt-4o"
HEADERS = {"authorization": "Bearer sk-load-of-replicas"}
PADDING = "compiling the ferry feed, line by line, without a warning so far\n"
SUMMARY_SIGN = b"Write notes on the conversation so far"
NOTES = "The user wants every part of the ferry feed ported. The assistant runs make for one part after the other. " * 4
STEPS_PER_REQUEST = 5
MOST_TRIES, RETRY_SECONDS = 100, 0.2
ANSWER_SECONDS = 60.0
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command in the project's folder and return what it prints.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
        },
    }
]
_MARK = re.compile(r"\b(?:ask|say)-\d+-\d+-\d+\b")
_NEWEST = re.compile(rb"\bask-(\d+-\d+-\d+)\b")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_NOTE = re.compile(rb"\r\nx-infold: ([^\r]*)", re.IGNORECASE)


class Job(Struct, frozen=True):
    """How much to send: so many agents, each with sessions of so many requests, at a rate for all of them together."""

    agents: int = 12
    requests_per_session: int = 40
    requests_per_second: float = 10.0
    result_lines: int = 40


class Traffic(Struct):
    """What was sent: requests answered, tries that had to be repeated by reason, notes of infold, and what was given up."""

    answered: int = 0
    repeated: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    lost: list[str] = []


def session_name(agent: int, number: int, run: str) -> str:
    """The name of an agent's session; other runs on the same store have other names."""
    return f"{run}-{agent}-{number}"


def marks_in(text: str) -> list[str]:
    """The marks of a text, each once, in order."""
    return list(dict.fromkeys(_MARK.findall(text)))


# What agents and the upstream say.


def asked(mark: str, *, lines: int, call: str = "") -> Item:
    """The message that a request ends with: a result if there is a call to answer, else a person's request."""
    text = f"ask-{mark} {PADDING * lines}"
    if call:
        return {"role": "tool", "tool_call_id": call, "content": text}
    return {"role": "user", "content": f"Port the next part of the feed. Never touch vendor/. {text}"}


def replied(mark: str) -> Item:
    """The reply to a mark: every fifth is text, the others call a tool."""
    if int(mark.rpartition("-")[2]) % STEPS_PER_REQUEST == STEPS_PER_REQUEST - 1:
        return {"role": "assistant", "content": f"This part is ported, say-{mark} done."}
    function = {"name": "bash", "arguments": json.dumps({"command": f"make say-{mark}"})}
    call = {"id": f"call-{mark}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _events(message: Item, prompt_tokens: int) -> Iterator[bytes]:
    """A reply as the chunks of a chat stream."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": MODEL}
    calls = [{**call, "index": index} for index, call in enumerate(message.get("tool_calls", ()))]
    delta = {"role": "assistant", "content": message["content"], **({"tool_calls": calls} if calls else {})}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 30, "total_tokens": prompt_tokens + 30}
    finish = "tool_calls" if calls else "stop"
    for choices, more in (
        ([{"index": 0, "delta": delta, "finish_reason": None}], {}),
        ([{"index": 0, "delta": {}, "finish_reason": finish}], {}),
        ([], {"usage": usage}),
    ):
        yield b"data: " + json.dumps({**head, "choices": choices, **more}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


# The upstream.


class Upstream:
    """A provider that answers after a while, and refuses what is larger than its window."""

    def __init__(self, window_tokens: int, delay_seconds: float) -> None:
        self.requests = self.summaries = self.refused = 0
        self._window = window_tokens
        self._delay = delay_seconds

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):  # cancelled at the end
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                await asyncio.sleep(self._delay)
                writer.write(self._answer(body))
                await writer.drain()
        writer.close()

    def _answer(self, body: bytes) -> bytes:
        newest, tokens = None, len(body) // 4
        for newest in _NEWEST.finditer(body):  # noqa: B007 - the last one counts
            pass
        if newest is None and SUMMARY_SIGN not in body:
            return _whole(404, {"error": {"message": "not found", "type": "invalid_request_error"}})
        if tokens > self._window:
            self.refused += 1
            problem = (
                f"This model's maximum context length is {self._window} tokens. However, you requested {tokens} tokens."
            )
            error = {"message": problem, "type": "invalid_request_error", "code": "context_length_exceeded"}
            return _whole(400, {"error": error})
        if SUMMARY_SIGN in body or newest is None:
            self.summaries += 1
            message: Item = {"role": "assistant", "content": NOTES}
        else:
            self.requests += 1
            message = replied(newest[1].decode())
        if b'"stream":true' in body.replace(b" ", b"")[:2_000]:
            events = b"".join(_events(message, tokens))
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: "
            return f"{head}{len(events)}\r\n\r\n".encode() + events
        usage = {"prompt_tokens": tokens, "completion_tokens": 30, "total_tokens": tokens + 30}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return _whole(200, {"id": "chatcmpl-1", "model": MODEL, "choices": [choice], "usage": usage})


def _whole(status: int, content: Item) -> bytes:
    body = json.dumps(content).encode()
    head = f"HTTP/1.1 {status} Answer\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


# The front.


class Front:
    """Gives each connection to the next replica that accepts it, as a load balancer does."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._turn = count()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: pass on bytes both ways until one side ends."""
        with suppress(ConnectionError):
            ends = await self._connect()
            if ends is not None:
                there, back = _passing(reader, ends[1]), _passing(ends[0], writer)
                await asyncio.wait(
                    [asyncio.ensure_future(there), done := asyncio.ensure_future(back)], return_when="FIRST_COMPLETED"
                )
                await done
                ends[1].close()
        writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        first = next(self._turn)
        for step in range(len(self._ports)):
            with suppress(ConnectionError):
                return await asyncio.open_connection("127.0.0.1", self._ports[(first + step) % len(self._ports)])
        return None


async def _passing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(2**16):
            writer.write(piece)
            await writer.drain()


# The agents.


class Agent:
    """An agent that works through one session after another, and repeats a request whose connection broke."""

    def __init__(self, number: int, address: tuple[str, int], job: Job, run: str, traffic: Traffic) -> None:
        self.number = number
        self.sessions: dict[str, list[Item]] = {}
        self._address = address
        self._job = job
        self._run = run
        self._traffic = traffic

    async def work(self, is_over: Callable[[], bool]) -> None:
        """Work until it is over; a session that has begun is left where it then stands."""
        period = self._job.agents / self._job.requests_per_second
        loop = asyncio.get_running_loop()
        due = loop.time() + period * self.number / self._job.agents
        for session in count():
            items: list[Item] = []
            self.sessions[session_name(self.number, session, self._run)] = items
            call = ""
            for step in range(self._job.requests_per_session):
                await asyncio.sleep(max(0.0, due - loop.time()))
                if is_over():
                    return
                due = max(due + period, loop.time() - period)  # at most one request late
                mark = f"{self.number}-{session}-{step}"
                items.append(asked(mark, lines=self._job.result_lines, call=call))
                if not await self._send(session_name(self.number, session, self._run), mark, items):
                    self._traffic.lost.append(mark)
                    return
                items.append(reply := replied(mark))
                call = reply["tool_calls"][0]["id"] if "tool_calls" in reply else ""

    async def _send(self, name: str, mark: str, items: list[Item]) -> bool:
        """Send a request until it is answered in full; false if it never is."""
        body = {
            "model": MODEL,
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": TOOLS,
            "messages": items,
        }
        content = json.dumps(body).encode()
        fields = {**HEADERS, "host": "127.0.0.1", "x-infold-session": name, "content-length": str(len(content))}
        lines = "".join(f"{key}: {value}\r\n" for key, value in fields.items())
        request = f"POST /v1/chat/completions HTTP/1.1\r\nconnection: close\r\n{lines}\r\n".encode() + content
        for _ in range(MOST_TRIES):
            try:
                answer = await asyncio.wait_for(self._exchange(request), ANSWER_SECONDS)
            except (OSError, TimeoutError) as error:
                self._traffic.repeated[type(error).__name__] += 1
            else:
                status = answer[9:12].decode()
                if status == "200" and f"say-{mark}".encode() in answer and b"[DONE]" in answer:
                    note = _NOTE.search(answer)
                    self._traffic.notes[note[1].decode() if note else ""] += 1
                    self._traffic.answered += 1
                    return True
                self._traffic.repeated["cut off" if status in ("", "200") else status] += 1
            await asyncio.sleep(RETRY_SECONDS)
        return False

    async def _exchange(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            writer.write(request)
            await writer.drain()
            return await reader.read(-1)
        finally:
            writer.close()


async def run_agents(
    address: tuple[str, int], job: Job, run: str, is_over: Callable[[], bool]
) -> tuple[list[Agent], Traffic]:
    """Let all agents work until it is over; return them and what was sent."""
    traffic = Traffic(0, Counter(), Counter(), [])
    agents = [Agent(number, address, job, run, traffic) for number in range(job.agents)]
    await asyncio.gather(*(agent.work(is_over) for agent in agents))
    return agents, traffic
