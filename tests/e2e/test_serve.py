"""`infold serve` as a person starts it: a process of its own, on an address that it prints."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import httpx2
import openai
import pytest

from infold.models.embedded import NEEDED
from infold.session.session import Session
from infold.testing.script import Say
from infold.testing.scripted_server import ScriptedServer

from ..unit.gateway.stage import said  # noqa: TID252 - `tests` is no package to name
from .gateway_stage import ended
from .wrap_scenes import CHAT

pytestmark = pytest.mark.slow

TOKEN, PAGE_TOKEN = "a-token-that-nobody-guesses", "a-page-token-that-nobody-guesses"
ABSENT = [name for name in NEEDED if importlib.util.find_spec(name) is None]
WINDOW = 1_200
"""Less than the embedded model has, so that it need not read much."""

LAST_LINE = "store: "


class Served:
    """A running server: its process, what it printed, and its address."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.told = ""
        assert process.stdout is not None
        for line in process.stdout:
            self.told += line
            if line.startswith(LAST_LINE):
                break
        assert LAST_LINE in self.told, process.communicate(timeout=60)
        self.url = self.told.partition("listening on ")[2].split()[0]


def command(*arguments: str) -> list[str]:
    """How it is started."""
    return [sys.executable, "-m", "infold", "serve", *arguments]


@contextmanager
def serving(folder: Path, *arguments: str, **variables: str) -> Iterator[Served]:
    """A server in that folder, ended with the block."""
    with subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environ(variables),
    ) as process:
        try:
            yield Served(process)
        finally:
            process.kill()


def environ(variables: dict[str, str]) -> dict[str, str]:
    """The environment without settings of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INFOLD_")}
    return {**kept, "XDG_CONFIG_HOME": os.devnull, **variables}


def refused(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """How a server ends that does not start: its status and what it says."""
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, cwd=folder, env=environ(variables), timeout=60
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.skipif(bool(ABSENT), reason=f"{', '.join(ABSENT)} is not installed")
def test_it_answers_at_once_with_no_key(tmp_path: Path) -> None:
    """The embedded model answers, past the window too, and ends with the server."""
    with serving(tmp_path, "--port", "0", "--store", "sessions.db", "--window", str(WINDOW)) as served:
        history = [{"role": "user", "content": said(number)} for number in range(40)]
        with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=120) as client:
            reply = client.chat.completions.create(
                model="gpt-4o", messages=[], max_tokens=4, extra_body={"messages": history}
            )
        page = httpx2.get(f"{served.url}/")
        served.process.send_signal(signal.SIGTERM)
        status, _, errors = ended(served.process)

    assert reply.choices[0].message.role == "assistant"
    assert reply.usage is not None
    assert 0 < reply.usage.prompt_tokens < WINDOW
    assert (page.status_code, "default-src 'none'" in page.headers["content-security-policy"]) == (200, True)
    assert (status, errors) == (0, "")
    for hint in (
        f'OpenAI(base_url="{served.url}/v1")',
        f'Anthropic(base_url="{served.url}")',
        "opencode.json",
        "codex -c",
    ):
        assert hint in served.told
    assert "upstreams: anthropic → the embedded model, openai → the embedded model\nnot routed: gemini," in served.told
    assert (tmp_path / "sessions.db").exists()


@pytest.mark.skipif(bool(ABSENT), reason=f"{', '.join(ABSENT)} is not installed")
def test_stored_sessions_keep_their_windows_beside_the_embedded_model(tmp_path: Path) -> None:
    """B20: a session that another model answered is shown with that model's window, not with the embedded one's."""
    with Session(str(tmp_path / "old.db"), "old", model="claude-sonnet-5-5", format="openai-chat") as session:
        session.prepare([{"role": "user", "content": said(0)}])
        session.record({"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]})
    with serving(tmp_path, "--port", "0", "--store", "old.db") as served:
        [old] = httpx2.get(f"{served.url}/sessions.json").json()["sessions"]

    assert (old["window_tokens"], old["usable_tokens"]) == (session.window_tokens, session.limit_tokens)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_well_though_a_page_is_open(tmp_path: Path, number: signal.Signals) -> None:
    """A stream is finished, a page that listens for news is not waited for, and the status is 0."""
    slow = Say("One word after the other. " * 4)
    with (
        ScriptedServer(lambda _: slow) as upstream,
        serving(tmp_path, "--port", "0", "--window", "8k", "--upstream", f"openai={upstream.url}") as served,
        httpx2.stream("GET", f"{served.url}/events", timeout=60) as news,
    ):
        heard: list[bytes] = []
        listener = Thread(target=lambda: heard.extend(news.iter_raw()))
        listener.start()
        body = {**CHAT, "messages": [{"role": "user", "content": "hi"}], "stream": True}
        with httpx2.stream("POST", f"{served.url}/v1/chat/completions", json=body, timeout=60) as answer:
            pieces = answer.iter_text()
            told = next(pieces)
            served.process.send_signal(number)
            told += "".join(pieces)
        status, _, errors = ended(served.process)
        listener.join(60)

    assert news.status_code == 200
    assert told.endswith("data: [DONE]\n\n")
    assert (status, errors, listener.is_alive()) == (0, "", False)


def test_verbose_writes_a_line_for_each_request(tmp_path: Path) -> None:
    """Requests, folds and upstream errors are lines on stderr; neither words nor the key stand in them."""
    with (
        ScriptedServer(lambda _: Say("Crimson.")) as upstream,
        serving(
            *(tmp_path, "--port", "0", "--window", "1200", "--verbose"),
            *("--upstream", f"openai={upstream.url}", "--upstream", "anthropic=http://127.0.0.1:9"),
        ) as served,
    ):
        history = [{"role": "user" if n % 2 == 0 else "assistant", "content": said(n)} for n in range(31)]
        headers = {"authorization": "Bearer sk-secret-words", "x-infold-session": "ferry"}
        for messages in (history[:1], history):
            body = {**CHAT, "messages": messages}
            httpx2.post(f"{served.url}/v1/chat/completions?key=hidden", json=body, headers=headers, timeout=60)
        httpx2.post(f"{served.url}/v1/messages", json={"model": "claude", "messages": history[:1]}, timeout=60)
        served.process.send_signal(signal.SIGTERM)
        status, _, errors = ended(served.process)

    lines = errors.splitlines()
    assert status == 0
    assert [line.split()[1:4] for line in lines if " POST " in line] == [
        ["POST", "/v1/chat/completions", "200"],
        ["POST", "/v1/chat/completions", "200"],
        ["POST", "/v1/messages", "502"],
    ]
    assert any("session=ferry folded" in line for line in lines)
    assert "error=127.0.0.1: ConnectError" in lines[-1]
    assert not any(word in errors for word in ("sk-secret", "hidden", "apples", "Crimson"))


def test_an_open_address_needs_a_token(tmp_path: Path) -> None:
    """It is refused at the start, in one line; with a token all is behind it."""
    upstream = ("--upstream", "openai=http://127.0.0.1:9")
    tokens = {"INFOLD_TOKEN": TOKEN, "INFOLD_PAGE_TOKEN": PAGE_TOKEN}
    status, line = refused(tmp_path, "--host", "0.0.0.0", "--port", "0", *upstream)
    with serving(tmp_path, "--host", "0.0.0.0", "--port", "0", *upstream, **tokens) as served:
        url = served.url.replace("0.0.0.0", "127.0.0.1")
        without = [httpx2.get(f"{url}{path}").status_code for path in ("/", "/metrics", "/v1/models", "/healthz")]
        known = httpx2.get(f"{url}/metrics", headers={"x-infold-token": PAGE_TOKEN})
        relayed = httpx2.get(f"{url}/t/{TOKEN}/v1/models")
        foreign = httpx2.post(
            f"{url}/sessions/x/undo", headers={"cookie": f"infold-token={PAGE_TOKEN}", "origin": "http://evil.test"}
        )

    assert (status, line.count("\n"), "set INFOLD_TOKEN" in line) == (1, 1, True)
    assert without == [401, 401, 401, 200]
    assert (known.status_code, relayed.status_code, foreign.status_code) == (200, 502, 403)
    assert TOKEN not in served.told
    assert PAGE_TOKEN not in served.told
    assert "/t/$INFOLD_TOKEN/v1" in served.told
    assert ["Claude Code" in served.told, "--upstream anthropic=https://" in served.told] == [False, True]
    assert "(opened by INFOLD_PAGE_TOKEN)" in served.told
