"""The bytes that a provider receives through `wrap` and through the gateway, with folds and with refusals for size."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai

from infold import SessionSettings, wrap

from .inputs import History
from .upstream import Upstream
from .wires import ANTHROPIC, GEMINI, WIRES, Item, Wire, exchanges, request_body

AGENTS = Path(__file__).parents[1] / "data" / "agents"
WINDOW = 24_000
MOST_ITEMS = 150
REFUSED = (9, 30)
"""The numbers of the requests that the provider refuses once."""

Cases = dict[str, bytes]


def wrap_cases(history: History, *, stream: bool) -> Cases:
    """Send the requests of a history through a wrapped client."""
    wire = WIRES[history.format]
    with Upstream() as upstream:
        settings = SessionSettings(window=WINDOW, environ={})
        client: Any
        if wire is ANTHROPIC:
            client = anthropic.Anthropic(base_url=upstream.url, api_key="k", max_retries=0)
        else:
            client = openai.OpenAI(base_url=f"{upstream.url}/v1", api_key="k", max_retries=0)
        path = wire.path if wire is ANTHROPIC else wire.path.removeprefix("/v1")
        with wrap(client, settings) as wrapped:
            for body in _bodies(history, upstream, stream=stream):
                reply = wrapped.post(
                    path, body=body, cast_to=object, stream=stream, stream_cls=_stream_class(wire) if stream else None
                )
                if stream:
                    list(reply)
        return {history.name: upstream.taken()}


def _stream_class(wire: Wire) -> Any:
    return anthropic.Stream[object] if wire is ANTHROPIC else openai.Stream[object]


def _bodies(history: History, upstream: Upstream, *, stream: bool) -> Iterator[Item]:
    """Yield the bodies of growing requests; the provider is set to reply to each as the history has it."""
    wire = WIRES[history.format]
    for number, exchange in enumerate(exchanges(wire, history.items[:MOST_ITEMS])):
        upstream.reply, upstream.refuses = exchange.reply, number in REFUSED
        body = request_body(wire, exchange.sent, history.system)
        yield {**body, "stream": True} if stream and wire is not GEMINI else body


def gateway_cases(histories: list[tuple[History, bool]], folder: Path) -> Cases:
    """Send the requests of histories through one gateway, each streamed or not."""
    found: Cases = {}
    with Upstream() as upstream, _gateway(upstream.url, folder) as (host, port):
        for history, stream in histories:
            wire = WIRES[history.format]
            path = wire.path.replace(":generateContent", ":streamGenerateContent?alt=sse") if stream else wire.path
            for body in _bodies(history, upstream, stream=stream):
                _post(host, port, path, json.dumps(body).encode(), _credentials(wire))
            found[history.name] = upstream.taken()
    return found


def agents_cases(folder: Path) -> Cases:
    """Send what real agents were seen to send through one gateway."""
    found: Cases = {}
    with Upstream() as upstream, _gateway(upstream.url, folder, window=4_000) as (host, port):
        for path in sorted(AGENTS.glob("*.jsonl")):
            for line in path.read_text("utf-8").splitlines():
                seen = json.loads(line)
                wire = WIRES["anthropic-messages" if "messages" in seen["path"] else "openai-chat"]
                _post(
                    host,
                    port,
                    seen["path"],
                    json.dumps(seen["body"]).encode(),
                    {**_credentials(wire), **seen["headers"]},
                )
            found[path.name] = upstream.taken()
    return found


def _credentials(wire: Wire) -> dict[str, str]:
    match wire.name:
        case "anthropic-messages":
            return {"x-api-key": "k", "anthropic-version": "2023-06-01"}
        case "gemini":
            return {"x-goog-api-key": "k"}
        case _:
            return {"authorization": "Bearer k"}


def _post(host: str, port: int, path: str, body: bytes, headers: dict[str, str]) -> None:
    connection = http.client.HTTPConnection(host, port, timeout=60)
    try:
        connection.request("POST", path, body, {"content-type": "application/json", **headers})
        response = connection.getresponse()
        content = response.read()
        assert response.status == 200, content
    finally:
        connection.close()


@contextmanager
def _gateway(upstream: str, folder: Path, *, window: int = WINDOW) -> Iterator[tuple[str, int]]:
    """Run `infold serve` in a process of its own; summaries are asked for when they are due, so that the order is fixed."""
    given = [f"--upstream={provider}={upstream}" for provider in ("openai", "anthropic", "gemini")]
    command = [
        sys.executable,
        "-m",
        "infold",
        "serve",
        "--port=0",
        "--store=sessions.sqlite3",
        f"--window={window}",
        *given,
    ]
    variables = environ(folder, INFOLD_COMPACTION_BACKGROUND="false")
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder, text=True, env=variables) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "listening on " in line)
            host, _, port = line.partition("listening on http://")[2].split()[0].rstrip("/").partition(":")
            yield host, int(port)
        finally:
            process.kill()


def environ(folder: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a command, without the settings of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("INFOLD_", "XDG_"))}
    return {**kept, "HOME": str(folder), "XDG_CONFIG_HOME": os.devnull, **variables}
