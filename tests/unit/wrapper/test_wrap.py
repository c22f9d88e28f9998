"""The same client, its requests kept inside the window."""

import asyncio
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from infold import wrap
from infold.core.events import Event, FailedOpen, WindowFound
from infold.errors import StoreClosed, UsageError
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore
from infold.testing.script import Say, in_turn
from infold.testing.scripted_server import ScriptedServer

from ..proxy.talks import BrokenStore  # noqa: TID252 - `tests` is no package to name

KEY = "key-of-the-caller"
HI: Any = [{"role": "user", "content": "hi"}]


def chat(client: openai.OpenAI, **fields: Any) -> str:
    """One request."""
    reply: Any = client.chat.completions.create(model="m", messages=HI, **fields)
    return str(reply.choices[0].message.content)


def named(session: str) -> dict[str, dict[str, str]]:
    """How a request names its session."""
    return {"extra_headers": {"x-infold-session": session}}


def ids(store: MemoryStore, tenant: str = "") -> list[str]:
    """The sessions of a store."""
    return sorted(stored.key.session_id for stored in store.sessions(tenant))


def test_each_kind_of_client_is_wrapped() -> None:
    """B23: all four kinds give one of their own kind, with its key, address and patience."""
    for kind in (openai.OpenAI, openai.AsyncOpenAI, anthropic.Anthropic, anthropic.AsyncAnthropic):
        client = kind(api_key=KEY, base_url="http://127.0.0.1:9", max_retries=7, timeout=12.5)
        wrapped = wrap(client)

        assert type(wrapped) is kind
        assert wrapped is not client
        assert wrapped.api_key == KEY
        assert wrapped.base_url == client.base_url
        assert wrapped.max_retries == 7
        assert wrapped.timeout == 12.5


def test_a_relative_of_a_known_client_is_wrapped() -> None:
    """A subclass, such as the one for Azure, is as good."""
    client = openai.AzureOpenAI(api_key=KEY, azure_endpoint="http://127.0.0.1:9", api_version="2025-01-01")

    assert isinstance(wrap(client), openai.AzureOpenAI)


def test_other_clients_are_refused() -> None:
    """The error names what can be wrapped."""
    with pytest.raises(UsageError, match="cannot wrap a Client; pass a client of OpenAI"):
        wrap(httpx2.Client())
    with pytest.raises(UsageError, match="cannot wrap a str"):
        wrap("client")


def test_an_sdk_of_another_kind_is_refused() -> None:
    """A class of a known name that sends by other means cannot be helped."""

    class OpenAI:
        def with_options(self) -> None: ...

    with pytest.raises(UsageError, match="no httpx2 client"):
        wrap(OpenAI())


def test_settings_are_checked_when_wrapping() -> None:
    """What could never work is told at once."""
    with pytest.raises(UsageError, match="no preset"):
        wrap(openai.OpenAI(api_key=KEY), SessionSettings(policy="no such"))
    with pytest.raises(UsageError, match="no store"):
        wrap(openai.OpenAI(api_key=KEY), store="")


def test_the_client_given_is_not_touched() -> None:
    """Nothing is patched: the client that was given goes on as before, beside the wrapped one."""
    store = MemoryStore()
    with ScriptedServer() as server, openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1") as client:
        wrapped = wrap(client, store=store, session="s")
        chat(client)
        before = ids(store)
        chat(wrapped)

    assert before == []
    assert ids(store) == ["s"]


def test_what_the_inner_client_adds_is_kept() -> None:
    """Headers, parameters, cookies and hooks of an HTTP client of the caller's own still reach the provider, once."""
    hooked: list[str] = []
    inner = httpx2.Client(
        headers={"x-corp": "ferry"},
        params={"api-version": "7"},
        cookies={"a": "1"},
        event_hooks={"request": [lambda request: hooked.append(request.url.path)]},
    )
    with ScriptedServer() as server:
        with wrap(openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1", http_client=inner)) as client:
            chat(client)
        request = server.requests[0]

    assert request.headers["x-corp"] == "ferry"
    assert request.headers["cookie"] == "a=1"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.path.endswith("api-version=7")
    assert hooked.count("/v1/chat/completions") == 1


def test_what_is_switched_off_is_off_in_a_wrapped_client() -> None:
    """S8.2: the off switches hold for wrapped clients; a request over the window is sent as it is."""
    long: Any = [
        item
        for n in range(6)
        for item in ({"role": "user", "content": f"{n} " * 2_000}, {"role": "assistant", "content": "ok"})
    ]
    sent: dict[str, int] = {}
    for word in ("yes", "no"):
        with ScriptedServer() as server:
            off = SessionSettings(window=8_000, environ={"INFOLD_DISABLE_AUTOCOMPACT": word})
            with wrap(openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1"), off) as client:
                client.chat.completions.create(model="m", messages=[*long, *HI])
            sent[word] = len(server.requests[-1].body["messages"])

    assert sent["yes"] == len(long) + 1
    assert sent["no"] < sent["yes"]


def test_a_refusal_reaches_a_caller_who_switched_compacting_off() -> None:
    """S1.1, S8.2: nothing is made smaller unasked, so the provider's own error is the caller's."""
    off = SessionSettings(window=64_000, environ={"INFOLD_DISABLE_AUTOCOMPACT": "1"})
    with (
        ScriptedServer(window_tokens=2_000) as server,
        wrap(openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1"), off) as client,
        pytest.raises(openai.BadRequestError, match="context"),
    ):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "word " * 9_000}])

    assert len(server.requests) == 1


def test_sessions_are_named_by_header_or_for_all() -> None:
    """B23: a name for the whole client, and one for a request, which wins."""
    store = MemoryStore()
    with ScriptedServer() as server, openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1") as bare:
        client = wrap(bare, store=store, session="all")
        chat(client)
        chat(client, **named("own"))
        chat(client.with_options(default_headers={"x-infold-session": "default"}))

    assert ids(store) == ["all", "default", "own"]


def test_tenants_share_nothing() -> None:
    """B28: two clients on one store, each with its tenant, have each their sessions."""
    store = MemoryStore()
    with ScriptedServer() as server, openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1") as client:
        for tenant in ("one", "two"):
            chat(wrap(client, store=store, session="s", tenant=tenant))

    assert ids(store) == []
    assert ids(store, "one") == ids(store, "two") == ["s"]


def test_wrapping_again_replaces() -> None:
    """A client that is wrapped already is wrapped once, by the newer terms."""
    first, second = MemoryStore(), MemoryStore()
    with ScriptedServer() as server:
        once = wrap(openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1"), store=first, session="first")
        with wrap(once, store=second, session="second") as twice:
            chat(twice)
            assert len(server.requests) == 1

    assert ids(first) == []
    assert ids(second) == ["second"]


def test_closing_closes_the_client_behind_it() -> None:
    """Closed once or twice, or as a context, the client it was made from is closed with it."""
    client = openai.OpenAI(api_key=KEY)
    wrapped = wrap(client)
    wrapped.close()
    wrapped.close()

    assert client.is_closed()
    assert wrapped.is_closed()


def test_closing_an_async_client_closes_the_one_behind_it() -> None:
    """The same, awaited."""

    async def main() -> bool:
        client = anthropic.AsyncAnthropic(api_key=KEY)
        async with wrap(client):
            pass
        return client.is_closed()

    assert asyncio.run(main())


def test_a_store_by_its_place_is_closed_with_the_client(tmp_path: Path) -> None:
    """A store that `wrap` opened is closed with the client; one that was given is the caller's to close."""
    place = tmp_path / "log.sqlite3"
    own = SqliteStore(tmp_path / "own.sqlite3")
    with ScriptedServer() as server:
        for store in (str(place), own):
            with wrap(openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1"), store=store, session="s") as client:
                chat(client)

    again = SqliteStore(place)
    assert [stored.key.session_id for stored in again.sessions("")] == ["s"]
    assert [stored.key.session_id for stored in own.sessions("")] == ["s"]
    again.close()
    own.close()
    with pytest.raises(StoreClosed):
        list(own.sessions(""))


def test_a_callback_that_raises_harms_nobody() -> None:
    """Failures are told to whoever listens, and a listener that fails keeps no request from going out."""
    heard: list[Event] = []

    def listen(event: Event) -> None:
        heard.append(event)
        raise ZeroDivisionError

    with ScriptedServer(in_turn(Say("Hello!"))) as server:
        client = openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1")
        with wrap(client, SessionSettings(on_event=listen), store=BrokenStore(), session="s") as wrapped:
            assert chat(wrapped) == "Hello!"

    assert [type(event) for event in heard] == [FailedOpen]


def test_a_server_is_asked_for_its_window() -> None:
    """B11: a local server that reports its window is asked once, through the caller's own client and with its key."""
    heard: list[Event] = []
    with ScriptedServer(served_tokens=4_096) as server:
        client = openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1")
        with wrap(client, SessionSettings(on_event=heard.append), session="s") as wrapped:
            chat(wrapped)
            chat(wrapped)
        looked = [(one.path, one.headers["authorization"]) for one in server.lookups]

    assert looked == [("/v1/models", f"Bearer {KEY}")]
    assert [(event.model, event.window_tokens) for event in heard if isinstance(event, WindowFound)] == [("m", 4_096)]


def test_an_async_client_asks_too() -> None:
    """B11: the same for an async client."""
    heard: list[Event] = []

    async def main(url: str) -> None:
        client = openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1")
        async with wrap(client, SessionSettings(on_event=heard.append), session="s") as wrapped:
            await wrapped.chat.completions.create(model="m", messages=HI)

    with ScriptedServer(served_tokens=4_096) as server:
        asyncio.run(main(server.url))
        assert [one.path for one in server.lookups] == ["/v1/models"]
    assert [event.window_tokens for event in heard if isinstance(event, WindowFound)] == [4_096]


@pytest.mark.parametrize("served", [None, 4_096])
def test_redirects_and_errors_are_no_answer(served: int | None) -> None:
    """B11: a question follows no redirect, since that would take the key elsewhere, and a failure changes nothing."""
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        if request.url.path == "/v1/chat/completions":
            return httpx2.Response(200, json={"choices": [{"message": {"role": "assistant", "content": "yes"}}]})
        if served is None:
            raise httpx2.ConnectError("no")
        return httpx2.Response(307, headers={"location": "http://elsewhere.test/models"})

    inner = httpx2.Client(transport=httpx2.MockTransport(answer), follow_redirects=True)
    with wrap(openai.OpenAI(api_key=KEY, base_url="http://localhost/v1", http_client=inner)) as client:
        assert chat(client) == "yes"
        assert chat(client) == "yes"

    assert asked.count("/v1/models") == 1
    assert asked.count("/v1/chat/completions") == 2
    assert "/models" not in asked
