"""`infold top` shows the sessions of a gateway that runs, and says so when it does not."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest
from click.testing import CliRunner, Result

from infold.cli.main import main
from infold.cli.serve_app import request_line, session_line
from infold.core.events import Compacted, Event, MediaNotStored, NotManaged, SummaryProgressed, SummaryRejected
from infold.gateway.actions import SessionActions
from infold.gateway.app import application
from infold.gateway.event_hub import ServedRequest
from infold.gateway.page.routes import CONTENT_POLICY, page_routes
from infold.testing.script import Fail, Say, ScriptedAnswer, ScriptedRequest
from infold.testing.scripted_server import ScriptedServer

from ..unit.gateway.stage import WINDOW, Stage, said  # noqa: TID252 - `tests` is no package to name
from .gateway_stage import serving
from .terminal import IS_THERE, terminal

KEY = "sk-a-key-that-is-secret"
TOKEN = "a-token-that-nobody-guesses"
FIRST = "Port the ferry timetable to the new feed"


@contextmanager
def gateway(script: object = lambda _: Say("Done."), **given: object) -> Iterator[tuple[str, Stage]]:
    """A gateway with its pages before a scripted server, on a real address."""
    with ScriptedServer(script) as server:  # type: ignore[arg-type]  # a script in any of its forms
        stage = Stage(server.url)
        pages = page_routes(stage.store, SessionActions(stage.tenant_sessions), stage.hub)
        fields = {name: getattr(stage.gateway, name) for name in ("upstreams", "tenants", "sessions", "hub")}
        app = application(type(stage.gateway)(**{**fields, "pages": pages, "content_policy": CONTENT_POLICY, **given}))
        with serving(app) as url:
            yield url, stage


def converse(url: str, requests: int, session: str = "ferry", *, first: str = FIRST, model: str = "gpt-x") -> None:
    """A client with so many requests in one session."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        messages: list[dict[str, str]] = [{"role": "user", "content": first}]
        for number in range(requests):
            client.chat.completions.create(
                model=model,
                messages=messages,  # type: ignore[arg-type]  # plain dicts, as people write them
                extra_headers={"x-infold-session": session},
            )
            messages += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": said(number)}]


def top(*arguments: str, **environ: str) -> Result:
    """The verb's outcome."""
    return CliRunner(env={"INFOLD_PAGE_TOKEN": None, **environ}).invoke(main, ["top", *arguments])


@pytest.mark.slow
def test_sessions_are_listed_with_their_numbers() -> None:
    """A frame in a pipe has title, fill of the usable window, requests, folds, cost and cache; JSON has it all."""
    with gateway() as (url, _):
        assert "no sessions yet" in top(url, "--once").stdout
        converse(url, 3)
        frame = top(f"{url}/").stdout
        listed = json.loads(top(url, "--json").stdout)["sessions"]

    assert FIRST in frame
    assert "1 session, 1 active" in frame
    row = next(line for line in frame.splitlines() if FIRST in line)
    assert [listed[0][name] for name in ("id", "requests", "compactions", "title")] == ["ferry", 3, 0, FIRST]
    assert 0 < listed[0]["usable_tokens"] < WINDOW == listed[0]["window_tokens"]
    assert f"{listed[0]['view_tokens'] / listed[0]['usable_tokens']:.0%}" in row
    assert " 3 " in row


@pytest.mark.slow
def test_a_token_is_needed_and_never_shown() -> None:
    """The error names the ways to give it; the address with a token works and is shown without; the clients' does not."""
    with gateway(token="a-token-of-all-clients", page_token=TOKEN) as (url, _):
        for told in (top(url), top(url, INFOLD_PAGE_TOKEN="a-token-of-all-clients")):
            assert told.exit_code == 1
            assert "set INFOLD_PAGE_TOKEN" in told.stderr
        for shown in (top(f"{url}/t/{TOKEN}"), top(url, INFOLD_PAGE_TOKEN=TOKEN)):
            assert shown.exit_code == 0
            assert TOKEN not in shown.output


@pytest.mark.slow
def test_closed_pages_say_how_they_are_opened() -> None:
    """A gateway without a token for its pages shows no sessions, and its reason is passed on."""
    with gateway(token=TOKEN) as (url, _):
        told = top(url, INFOLD_PAGE_TOKEN=TOKEN)

    assert told.exit_code == 1
    assert "Start the gateway with INFOLD_PAGE_TOKEN" in told.stderr
    assert len(told.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://127.0.0.1:9", "no gateway answers at http://127.0.0.1:9"),
        ("127.0.0.1:9", "start one with: infold serve"),
        ("not an address", "not an address"),
        ("http://127.0.0.1:9/t/secret", "no gateway answers at http://127.0.0.1:9 ("),
    ],
)
def test_no_gateway_is_one_line(address: str, problem: str) -> None:
    """Whatever the address is, there is one line and no traceback."""
    told = top(address)

    assert told.exit_code == 1
    assert problem in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_another_server_is_not_a_gateway() -> None:
    """A server that answers something else is named as such."""
    with ScriptedServer() as server:
        told = top(server.url)

    assert told.exit_code == 1
    assert "is not a gateway of this version" in told.stderr


@pytest.mark.slow
@pytest.mark.skipif(not IS_THERE, reason="tmux is not installed")
@pytest.mark.parametrize("columns", [pytest.param(40, marks=pytest.mark.long), 60])
def test_the_screen_is_live_and_numbers_stay_whole(tmp_path: Path, columns: int) -> None:
    """New requests appear, no number is cut in a narrow terminal, and q ends it with status 0."""
    with gateway() as (url, _):
        converse(url, 1)
        command = [sys.executable, "-m", "infold", "top", url, "--every", "0.2"]
        with terminal(command, folder=tmp_path, environ={**os.environ, "LANG": "C.UTF-8"}, size=(columns, 12)) as shown:
            shown.wait("Port the", "q ends")
            converse(url, 11, "boat")
            shown.wait("11")
            screen = shown.wait("Port the", times=2)  # a screen may be seen while it is drawn
            rows = [line.rstrip() for line in screen.splitlines() if "Port the" in line]
            shown.type("q")
            assert shown.wait_end() == 0

    assert len(rows) == 2
    assert not any("…" in word for row in rows for word in row.split()[3:] if word[0].isdigit())


# What `serve --verbose` writes.


@pytest.mark.slow
def test_each_request_is_a_line_without_its_content() -> None:
    """Method, path, status, session and tokens; neither what was said nor the credential, nor a key in the query."""

    def script(request: ScriptedRequest) -> ScriptedAnswer:
        body = {"error": {"type": "rate_limit_error", "message": f"slow down, {FIRST}"}}
        return Fail(429, body) if len(request.messages) > 3 else Say("Done.")

    served: list[ServedRequest] = []
    with gateway(script) as (url, stage):
        stage.hub.subscribe_requests(served.append)
        with pytest.raises(openai.RateLimitError):
            converse(url, 3)
    lines = [request_line(one) for one in served]

    assert len(lines) == 3
    assert lines[0].startswith("POST /v1/chat/completions 200 ")
    assert "session=ferry in=" in lines[0]
    assert lines[0].endswith("managed")
    assert " 429 " in lines[2]
    assert lines[2].endswith("error=rate_limit_error")
    assert not any(FIRST in line or KEY in line for line in lines)


def test_an_upstream_that_is_away_is_named() -> None:
    """Its host and the kind of error stand in the line, with the status that the client got."""
    line = request_line(
        ServedRequest("POST", "/v1/messages", 502, 12, "managed", "s1", problem="example.com: ConnectError")
    )

    assert line == "POST /v1/messages 502 12ms session=s1 managed error=example.com: ConnectError"
    assert request_line(ServedRequest("GET", "/v1/models", 0, 3, "relayed; not a conversation")).startswith(
        "GET /v1/models the client left 3ms"
    )


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (Compacted("s1", 30, 12_700, 7_400, "trigger"), True),
        (SummaryProgressed("s1", FIRST), False),
        (NotManaged("s1", "why"), False),
    ],
)
def test_compactions_are_lines_and_words_of_a_summary_are_not(event: Event, shown: bool) -> None:
    """What was done is reported once, and the text of a summary never."""
    line = session_line(event)

    assert bool(line) is shown
    assert FIRST not in line
    assert not shown or line.startswith("session=s1 ")


def test_what_may_quote_a_session_is_left_out() -> None:
    """A provider's message and the name of a file may hold what was said."""
    assert FIRST not in session_line(SummaryRejected("s1", ("failed",), error=FIRST))
    assert FIRST not in session_line(MediaNotStored("s1", "image/png", FIRST, 9, 3))
