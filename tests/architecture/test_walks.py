"""Count the files between a call and its effect: what a reader has to open to follow one request (style.md section 1).

Each walk is the first one of a fresh interpreter, with a fresh store and session, traced by a profile hook in all threads. Caches
are empty and hide no file, and tests that ran before make no difference. Importing a module does not count, nor does what runs
while a module is imported, nor what a walk sets up before its call. The provider, the summariser and the client are written here
and call no code of infold. Comprehensions and lambdas count as part of the function around them, because Python versions differ
in whether a comprehension is a call.

`python tests/architecture/test_walks.py` prints the files of each walk with their functions; name walks to print only those.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import httpx2
import pytest

from infold import Session, SessionSettings, fit
from infold.agent.agents import BUILD
from infold.agent.loop import Loop, RunLimits
from infold.agent.permissions import BUILD_RULES
from infold.agent.snapshots import Snapshots
from infold.agent.toolbox import Toolbox, select_tools
from infold.agent.tools.tool import Workspace
from infold.core.messages import ModelRef
from infold.core.summary_request import SummaryRequest
from infold.gateway.app import Gateway, application
from infold.gateway.event_hub import EventHub
from infold.gateway.tenants import Tenants, TenantSessions
from infold.gateway.upstream import PROVIDERS, Upstreams
from infold.ports import Calling, Heard, ModelRequest, Replied, Said
from infold.settings import read_settings
from infold.stores.memory import MemoryStore

TOUR = Path(__file__).parents[2] / "docs" / "tour.md"

CEILINGS = {
    "fit": 31,
    "session": 47,
    "gateway": 67,
    "agent": 48,
}
"""The most files of a walk: a fifth more than when this was written. Functions are only reported."""

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src"
PACKAGE = str(SOURCE / "infold") + os.sep

Item: TypeAlias = dict[str, Any]
Walked: TypeAlias = dict[str, list[str]]
"""From each file of a walk to the functions of it that were called."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CEILINGS)
def test_a_walk_stays_below_its_ceiling(name: str) -> None:
    """B47: a walk runs through no more files than its ceiling says."""
    walked = trace_in_new_process(name)

    assert 0 < len(walked) <= CEILINGS[name], report(name, walked)


@pytest.mark.parametrize("name", CEILINGS)
def test_the_tour_names_what_runs(name: str) -> None:
    """Every function that the tour names for a walk is called on that walk."""
    section = TOUR.read_text("utf-8").split("\n## ")[1 + list(CEILINGS).index(name)]
    named = re.findall(r"`([a-z_.]+\.(?:[A-Z]\w+\.)?[a-z_]+)`", section)
    walked = trace_in_new_process(name)
    called = {
        f"{path.removesuffix('.py').replace('/', '.')}.{function}" for path in walked for function in walked[path]
    }

    assert len(named) > 10
    assert [function for function in named if function not in called] == []


@cache
def trace_in_new_process(name: str) -> Walked:
    """Trace a walk in an interpreter of its own, without the caller's infold settings."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("INFOLD_", "OPENCODE_"))}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, __file__, "--trace", name],
            cwd=folder,
            env={**environ, "PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": "0", "TMPDIR": folder},
            stdout=subprocess.PIPE,
            check=True,
        )
    walked: Walked = json.loads(done.stdout)
    return walked


def report(name: str, walked: Walked) -> str:
    """Return a walk as text: its sums against the ceiling, then each file with its functions."""
    functions = sum(map(len, walked.values()))
    sums = f"{name}: {len(walked)} files (ceiling {CEILINGS[name]}), {functions} functions"
    return "\n".join([sums, *(f"  {path} ({len(names)}): {', '.join(names)}" for path, names in walked.items())])


class Trace:
    """A profile hook that records which functions of the package are called while its `with` block runs."""

    def __init__(self) -> None:
        self._is_on = False
        self._called: set[tuple[str, str, int]] = set()

    def install(self) -> None:
        """Hook this thread and every thread that is started from now on."""
        threading.setprofile(self._hook)
        sys.setprofile(self._hook)

    def __enter__(self) -> None:
        self._is_on = True

    def __exit__(self, *_: object) -> None:
        self._is_on = False

    @property
    def walked(self) -> Walked:
        """The files and functions recorded so far, in order of name; a lambda alone makes its file count."""
        walked: Walked = {}
        for path, function, _ in sorted(self._called):
            named = walked.setdefault(path, [])
            if not function.endswith(">"):
                named.append(function)
        return walked

    def _hook(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not self._is_on or event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        called = (code.co_filename.removeprefix(PACKAGE), code.co_qualname, code.co_firstlineno)
        is_function = bool(code.co_flags & CO_OPTIMIZED)  # the bodies of modules and classes are not optimised
        if is_function and called not in self._called and not _is_importing(frame):
            self._called.add(called)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


# The walks.


def walk_fit(trace: Trace) -> None:
    """Fit a long history."""
    messages = history(steps=60)
    with trace:
        fitted = fit(messages, window=16_000)

    assert length(fitted.messages) < length(messages) / 2


def walk_session(trace: Trace) -> None:
    """Prepare a request that has to be compacted, with a summary by a summariser; then record the reply."""
    asked: list[SummaryRequest] = []

    def summarise(request: SummaryRequest) -> str:
        asked.append(request)
        return SUMMARY

    messages = history(steps=18)
    session = Session(MemoryStore(), "feed", SessionSettings(window=16_000, summariser=summarise))
    with trace:
        ready = session.prepare(messages)
        session.record(completion({"role": "assistant", "content": "Done."}))

    assert len(asked) == 1
    assert length(ready.messages) < length(messages) / 2


def walk_gateway(trace: Trace) -> None:
    """Send a streaming chat request that has to be compacted; the gateway asks the client's model for the summary."""
    body = {"model": "gpt-4o", "messages": history(steps=23), "stream": True, "stream_options": {"include_usage": True}}

    async def post() -> httpx2.Response:
        way = httpx2.ASGITransport(app)
        headers = {"authorization": "Bearer key"}
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=way, base_url="http://127.0.0.1", headers=headers) as client,
        ):
            with trace:
                return await client.post("/v1/chat/completions", json=body)

    with upstream() as (url, requests):
        hub, settings = EventHub(), read_settings({"INFOLD_WINDOW": "20000"}, Path.cwd())
        app = application(
            Gateway(
                upstreams=Upstreams(dict.fromkeys(PROVIDERS, url)),
                tenants=Tenants(b"a secret of thirty-two characters"),
                sessions=TenantSessions(MemoryStore(), settings, hub),
                hub=hub,
            )
        )
        reply = asyncio.run(post())

    assert reply.content == STREAM
    assert [request.get("stream", False) for request in requests] == [False, True]
    assert length(requests[-1]["messages"]) < length(history(steps=23)) / 2


def walk_agent(trace: Trace) -> None:
    """Let the agent work for one step, in which the model calls `read` once; nothing has to be compacted."""
    root = Path("project").absolute()
    root.mkdir()
    (root / "feed.md").write_text("The feed is JSON.\n", "utf-8")
    settings = SessionSettings(window=64_000, format=ReadingModel.format, recall=True)
    tools = Toolbox(
        select_tools(BUILD_RULES),
        Workspace(root, ()),
        rules=BUILD_RULES,
        consent=lambda _: "no",
        clock=Clock(),
        snapshots=Snapshots(root, root.with_name("snapshots")),
    )
    told: list[object] = []
    limits = RunLimits(steps=1, silence_seconds=600.0)  # so that a slow machine changes nothing
    loop = Loop(Session(MemoryStore(), "feed", settings), ReadingModel(), BUILD, tools, emit=told.append, limits=limits)
    with trace:
        ended = loop.run("What is the feed?")

    assert (ended.ending, ended.steps) == ("steps", 1)
    assert "The feed is JSON." in str(told)


WALKS: dict[str, Callable[[Trace], None]] = {
    "fit": walk_fit,
    "session": walk_session,
    "gateway": walk_gateway,
    "agent": walk_agent,
}


# What the walks are given.

SUMMARY = "The feed is being ported to JSON, one part of ferry/ after the other. Every edit so far went well."


def length(messages: object) -> int:
    """Return the length of messages as JSON."""
    return len(json.dumps(messages))


def history(*, steps: int) -> list[Item]:
    """Return a history like that of the README's example, with that many tool calls, each behind about 800 tokens of prose, so
    that a fold is what makes room."""
    messages: list[Item] = [{"role": "user", "content": "Port the feed to JSON. Never touch vendor/."}]
    for n in range(steps):
        edit = {"name": "edit", "arguments": f'{{"path": "ferry/part{n % 3}.py"}}'}
        said = f"Part {n} splits each line by hand, so I replace that by the reader. " * 44
        call = {"id": f"c{n}", "type": "function", "function": edit}
        messages.append({"role": "assistant", "content": said, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": "line changed"})
    return [*messages, {"role": "user", "content": "Now write docs/feed.md."}]


USAGE = {"prompt_tokens": 5_000, "completion_tokens": 20, "total_tokens": 5_020}


def completion(message: Item, finish: str = "stop") -> Item:
    """Return a chat completion with this message."""
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o",
        "choices": [choice],
        "usage": USAGE,
    }


def _chunk(*choices: Item, **fields: object) -> bytes:
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "choices": choices}
    return b"data: " + json.dumps({**chunk, **fields}).encode() + b"\n\n"


STREAM = b"".join(
    [
        _chunk({"index": 0, "delta": {"role": "assistant", "content": "Do"}, "finish_reason": None}),
        _chunk({"index": 0, "delta": {"content": "ne."}, "finish_reason": None}),
        _chunk({"index": 0, "delta": {}, "finish_reason": "stop"}),
        _chunk(usage=USAGE),
        b"data: [DONE]\n\n",
    ]
)
"""A streamed reply."""


@contextmanager
def upstream() -> Iterator[tuple[str, list[Item]]]:
    """Serve a provider on loopback: it streams `STREAM` and answers `SUMMARY` to what is not streamed."""
    requests: list[Item] = []

    class Provider(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            requests.append(request)
            whole = json.dumps(completion({"role": "assistant", "content": SUMMARY})).encode()
            body, kind = (STREAM, "text/event-stream") if request.get("stream") else (whole, "application/json")
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()


class ReadingModel:
    """A model that calls `read` once and has no other answer."""

    ref = ModelRef("scripted", "scripted")
    format = "openai-chat"

    def stream(self, _: ModelRequest) -> Iterator[Heard]:
        """Stream the call."""
        function = {"name": "read", "arguments": '{"path": "feed.md"}'}
        call = {"id": "c1", "type": "function", "function": function}
        message = {"role": "assistant", "content": "I read it.", "tool_calls": [call]}
        yield from (Said("I read it."), Calling("read"), Replied(completion(message, "tool_calls")))

    def summarise(self, _: SummaryRequest) -> Iterator[str]:
        """Refuse: nothing is compacted."""
        raise AssertionError("asked for a summary")


class Clock:
    """A clock that stands still."""

    def now_ms(self) -> int:
        """Return the same moment each time."""
        return 1_000


def main(arguments: list[str]) -> None:
    """Print the walks that are named, or all; after `--trace`, run one here and print it as JSON."""
    if arguments[:1] == ["--trace"]:
        trace = Trace()
        trace.install()
        WALKS[arguments[1]](trace)
        print(json.dumps(trace.walked))
    else:
        print("\n\n".join(report(name, trace_in_new_process(name)) for name in arguments or WALKS))


if __name__ == "__main__":
    main(sys.argv[1:])
