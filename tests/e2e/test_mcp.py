"""`infold mcp` as an agent starts it: a process of its own, spoken to over its pipes by the client of the official SDK."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from infold import Session, SessionSettings, open_store
from infold.core.events import Clipped, Compacted, Event, Pruned
from infold.core.tokens import estimate
from infold.stores.sqlite import SqliteStore

pytestmark = pytest.mark.slow

HANDLE = re.compile(r"recall (\d+\.\d+)|\[(\d+\.\d+)\]")
TURNS, STEPS = 9, 3

Asked: TypeAlias = tuple[str, Mapping[str, str]]
"""A tool, and what it is given."""


class Kept:
    """A session that was kept in a file: every handle that its requests named, and what happened to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handles: set[str] = set()
        self.events: list[Event] = []


def reply(number: int, arguments: dict[str, str]) -> dict[str, Any]:
    """A provider's reply that calls a tool."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": json.dumps(arguments)}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


def said(number: int) -> str:
    """What a tool answers: a berth's key among much else; once far more than any window holds."""
    lines = 20_000 if number == TURNS * STEPS - 1 else 300
    return f"berth {number}: the key is quay-{4_000 + number}\n" + f"all went well at berth {number}\n" * lines


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A session with results and arguments that were pruned, one that was clipped, and turns that were folded."""
    kept = Kept(tmp_path_factory.mktemp("mcp") / "log.sqlite3")
    with SqliteStore(kept.path) as store:
        play(store, kept)
        session = Session(store, "older", SessionSettings(window=32_000, format="openai-chat"))
        session.prepare_new([{"role": "user", "content": "Nothing but kites."}])
        play(store, kept, session_id="newest")
    return kept


def play(store: SqliteStore, kept: Kept, *, session_id: str = "ferry") -> None:
    """Some turns of tool calls, then a compaction by hand."""
    session = Session(
        store,
        session_id,
        SessionSettings(window=32_000, recall=True, on_event=kept.events.append, format="openai-chat"),
    )
    for turn in range(TURNS):
        new: list[dict[str, Any]] = [{"role": "user", "content": f"Look at pier {turn}. Never touch vendor/{turn}."}]
        for number in range(turn * STEPS, turn * STEPS + STEPS):
            note(kept, session.prepare_new(new).messages)
            session.record(reply(number, {"command": f"cat {number}", "note": f"why {number} " * 100}))
            new = [{"role": "tool", "tool_call_id": f"c{number}", "content": said(number)}]
        note(kept, session.prepare_new(new).messages)
        session.record({"choices": [{"message": {"role": "assistant", "content": f"Pier {turn} is fine."}}]})
    note(kept, session.compact().messages)


def note(kept: Kept, messages: list[object]) -> None:
    """Take down the handles that a request names."""
    kept.handles |= {whole or short for whole, short in HANDLE.findall(str(messages))}


def started(kept: Kept, *arguments: str) -> StdioServerParameters:
    """How a client starts the server on the session's file."""
    return StdioServerParameters(
        command=sys.executable, args=["-m", "infold", "mcp", "--store", str(kept.path), *arguments]
    )


async def asked(server: StdioServerParameters, *calls: Asked) -> list[CallToolResult]:
    """What the server answers to these calls, one after the other, in one connection."""
    async with Client(server) as client:
        return [await client.call_tool(name, dict(arguments)) for name, arguments in calls]


def told(answer: CallToolResult) -> str:
    """The text of an answer."""
    [content] = answer.content
    assert isinstance(content, TextContent)
    return content.text


def test_every_handle_that_was_named_can_be_read(kept: Kept) -> None:
    """B6: whatever a stub, a clipped part or a fold named, the model can read, and no answer is over its budget."""
    assert {type(event) for event in kept.events} >= {Pruned, Clipped, Compacted}
    handles = sorted(kept.handles)
    answers = asyncio.run(asked(started(kept, "--budget", "600"), *(("read", {"handle": one}) for one in handles)))

    assert [told(answer) for answer in answers if answer.is_error] == []
    assert [told(answer).partition("]")[0] for answer in answers] == [f"[{handle}" for handle in handles]
    assert max(estimate(told(answer), "features") for answer in answers) <= 600


def test_what_left_the_view_is_found_by_words(kept: Kept) -> None:
    """B6: the key of a berth that was folded long ago is brought back, under the handle that reads it whole."""
    server = started(kept, "--session", "ferry")
    [found] = asyncio.run(asked(server, ("recall", {"query": "key of berth 2"})))
    handle = told(found).partition("]")[0].removeprefix("[")
    [whole] = asyncio.run(asked(server, ("recall", {"query": handle})))

    assert "the key is quay-4002" in told(found)
    assert "the key is quay-4002" in told(whole)


def test_the_newest_session_is_meant_unless_one_is_named(kept: Kept) -> None:
    """B6, B28: without a name it is the last changed session of the tenant; another tenant sees none of them."""
    calls: tuple[Asked, ...] = (
        ("sessions", {}),
        ("recall", {"query": "0.0"}),
        ("recall", {"query": "0.0", "session": "older"}),
        ("recall", {"query": "0.0", "session": "gone"}),
    )
    listed, newest, older, gone = asyncio.run(asked(started(kept), *calls))
    [elsewhere] = asyncio.run(asked(started(kept, "--tenant", "ada"), ("sessions", {})))

    assert re.findall(r": (\w+)$", told(listed), re.MULTILINE) == ["newest", "older", "ferry"]
    assert "Look at pier 0." in told(newest)
    assert told(older) == "[0.0]\nNothing but kites."
    assert gone.is_error
    assert elsewhere.is_error


async def growing(kept: Kept) -> CallToolResult:
    """What is found of something that was said after the server had started."""
    async with Client(started(kept, "--tenant", "eve")) as client:
        await client.list_tools()
        store = open_store(str(kept.path))
        assert isinstance(store, SqliteStore)
        with store:
            session = Session(store, "begun later", SessionSettings(window=32_000, format="openai-chat"), tenant="eve")
            session.prepare_new([{"role": "user", "content": "The lighthouse is painted teal."}])
        return await client.call_tool("recall", {"query": "lighthouse"})


def test_a_session_may_grow_while_it_is_served(kept: Kept) -> None:
    """B14: what another process appends is found at once."""
    assert "painted teal" in told(asyncio.run(growing(kept)))


BEGIN = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": BEGIN}


def opened(kept: Kept) -> "subprocess.Popen[bytes]":
    """The server, spoken to by hand."""
    command = [started(kept).command, *started(kept).args]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def answers(server: "subprocess.Popen[bytes]", *sent: dict[str, Any], wanted: int) -> list[Any]:
    """So many lines of the server's output, after these messages."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in sent))
    server.stdin.flush()
    return [json.loads(server.stdout.readline()) for _ in range(wanted)]


def test_the_output_is_the_protocol_alone(kept: Kept) -> None:
    """B23: each line of the output is a message; the server ends with its input, without a word on either."""
    read = {"name": "read", "arguments": {"handle": "99.9"}}
    sent: list[dict[str, Any]] = [
        HELLO,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": read},
    ]
    with opened(kept) as server:
        hello, failure = answers(server, *sent, wanted=2)
        rest, errors = server.communicate(timeout=30)

    assert hello["result"]["serverInfo"]["name"] == "infold"
    assert failure["result"]["isError"]
    assert (rest, errors, server.returncode) == (b"", b"", 0)


def test_an_interrupt_ends_the_server(kept: Kept) -> None:
    """B13: a server that waits for input ends at once when it is told to."""
    with opened(kept) as server:
        answers(server, HELLO, wanted=1)
        server.send_signal(signal.SIGINT)

        assert server.wait(timeout=30) == -signal.SIGINT
