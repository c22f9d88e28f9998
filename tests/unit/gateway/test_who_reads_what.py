"""Who can read what on a shared gateway: every route of its table, asked by each kind of caller."""

import asyncio
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from urllib.parse import urlencode

import httpx2
import pytest
from msgspec import Struct
from starlette.routing import BaseRoute, Mount, Route

from infold.core.entries import Checkpoint
from infold.gateway.actions import SessionActions
from infold.gateway.app import application
from infold.gateway.auth import COOKIE, OPEN_PATHS, STYLE, TOKEN_HEADER
from infold.gateway.page.routes import encode_key, page_routes
from infold.ports import SessionKey
from infold.testing.scripted_server import ScriptedServer

from .stage import CHAT, Item, Stage, chat, said

TOKEN, PAGE_TOKEN = "the-token-of-all-clients", "the-token-of-the-operator"
ALICE, BOB = {"authorization": "Bearer alice-key-1234"}, {"authorization": "Bearer bob-key-5678"}
SECRET, SESSION, MEDIUM = "the merger is on Friday", "alices-session", b"a-picture-of-the-contract"
pytestmark = pytest.mark.slow

FORM = {"content-type": "application/x-www-form-urlencoded"}


class Scene(Struct, frozen=True):
    """A gateway with a session of Alice's that was compacted, and what gives it away."""

    stage: Stage
    key: SessionKey
    folded: int

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts that stand in no answer but to Alice and the operator."""
        return (SECRET, SESSION, MEDIUM.decode(), self.key.tenant[:8], encode_key(self.key))


class Asked(Struct, frozen=True):
    """A request for one route."""

    method: str
    path: str
    content: bytes = b""


def messages_of_alice(turns: int) -> list[Item]:
    """A history that opens with what only she may read."""
    picture = {"url": f"data:image/png;base64,{b64encode(MEDIUM).decode()}"}
    opening = [{"type": "text", "text": f"{SECRET}."}, {"type": "image_url", "image_url": picture}]
    further = [
        ({"role": "assistant", "content": f"Noted {n}."}, {"role": "user", "content": said(n)}) for n in range(turns)
    ]
    return [{"role": "user", "content": opening}, *(message for pair in further for message in pair)]


async def play(token: str, page_token: str = "") -> Scene:
    """Let Alice use a gateway until her session is compacted; the upstream is gone afterwards."""
    with ScriptedServer() as upstream:
        stage = Stage(upstream.url)
        pages = page_routes(stage.store, SessionActions(stage.tenant_sessions), stage.hub)
        fields = {name: getattr(stage.gateway, name) for name in ("upstreams", "tenants", "sessions", "hub")}
        stage.app = application(type(stage.gateway)(**fields, pages=pages, token=token, page_token=page_token))
        hers = {**ALICE, "x-infold-session": SESSION, TOKEN_HEADER: TOKEN}
        async with stage.client(hers) as client:
            for turns in (2, 60, 61):
                answer = await client.post(CHAT, json=chat(messages_of_alice(turns)))
                assert answer.headers["x-infold"] == "managed", answer.text
    stage.hub.close()  # so that streams of events end
    [tenant] = stage.store.tenants()
    key = next(stored.key for stored in stage.store.sessions(tenant))
    folded = next(number for number, entry in stage.store.newest_first(key) if isinstance(entry, Checkpoint))
    return Scene(stage, key, folded)


@cache
def shared() -> Scene:
    """A gateway with a token for clients and one for its pages."""
    return asyncio.run(play(TOKEN, PAGE_TOKEN))


@cache
def without_page_token() -> Scene:
    """A gateway with a token for clients alone."""
    return asyncio.run(play(TOKEN))


def table(scene: Scene) -> Iterator[Asked]:
    """A request for each route and method of the application, at Alice's session wherever a session is named."""
    for route in scene.stage.app.routes:
        yield from requests_for(route, scene)


def requests_for(route: BaseRoute, scene: Scene) -> Iterator[Asked]:
    """Fail for a kind of route that is not known here, so that none is left out."""
    if isinstance(route, Mount):
        yield Asked("GET", f"{route.path}/page.css")
        return
    assert isinstance(route, Route)
    assert route.methods
    values = {"address": encode_key(scene.key), "handle": "0.1", "sequence": str(scene.folded)}
    path = str(route.url_path_for(route.name, **{name: values[name] for name in route.param_convertors}))
    for method in sorted(route.methods):
        fields = {"q": SECRET, "most": 9, "handle": "0.0", "pinned": "yes", "back": "message"}
        if method == "POST":
            yield Asked(method, path, urlencode(fields).encode())
        else:
            yield Asked(method, f"{path}?{urlencode(fields)}")
            yield Asked(method, f"{path}?{urlencode({'session': values['address']})}")


def answers(scene: Scene, asked: Asked, headers: Mapping[str, str], prefix: str = "") -> httpx2.Response:
    """What the gateway answers."""

    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(scene.stage.app), base_url="http://127.0.0.1"
        ) as client:
            own = {**headers, **(FORM if asked.content else {})}
            return await client.request(asked.method, f"{prefix}{asked.path}", headers=own, content=asked.content)

    return asyncio.run(ask())


def everything(answer: httpx2.Response) -> str:
    """Body and headers as text."""
    return answer.text + str(answer.headers)


CALLERS: dict[str, tuple[dict[str, str], str]] = {
    "nobody": ({}, ""),
    "bob": ({**BOB, TOKEN_HEADER: TOKEN}, ""),
    "bob in a browser": ({**BOB, "cookie": f"{COOKIE}={TOKEN}", "accept": "text/html"}, ""),
    "bob by the path": (BOB, f"/t/{TOKEN}"),
    "bob by an encoded path": (BOB, f"/%74/{TOKEN}"),
    "bob naming her session": ({**BOB, TOKEN_HEADER: TOKEN, "x-infold-session": SESSION}, ""),
    "alice herself": ({**ALICE, TOKEN_HEADER: TOKEN}, ""),
}


@pytest.mark.parametrize("scene", [shared, without_page_token])
@pytest.mark.parametrize("caller", CALLERS)
def test_no_route_shows_a_client_anything_of_a_tenant(scene: object, caller: str) -> None:
    """B28, B57: the clients' token opens no page, list, stream, form or counter, whatever credential comes with it."""
    assert callable(scene)
    told = scene()
    headers, prefix = CALLERS[caller]
    for asked in table(told):
        answer = answers(told, asked, headers, prefix)
        path = asked.path.partition("?")[0]

        assert not [mark for mark in told.marks if mark in everything(answer).replace(escape(asked.path), "")], asked
        assert (answer.status_code < 400) is (path in OPEN_PATHS or path.startswith(STYLE)), asked


@pytest.mark.parametrize(("headers", "prefix"), [({TOKEN_HEADER: PAGE_TOKEN}, ""), ({}, f"/t/{PAGE_TOKEN}")])
def test_the_pages_token_opens_every_route(headers: dict[str, str], prefix: str) -> None:
    """B28, B57: whoever has it reads all tenants; so the test above asked for what is really there."""
    scene = shared()
    read = [asked for asked in table(scene) if asked.method == "GET"]
    shown = {asked.path: answers(scene, asked, headers, prefix) for asked in read}

    assert {path: answer.status_code for path, answer in shown.items() if answer.status_code != 200} == {}
    bare = {path for path, answer in shown.items() if not [mark for mark in scene.marks if mark in everything(answer)]}
    assert {path.partition("?")[0] for path in bare} == {
        *("/healthz", "/readyz", "/metrics", "/static/page.css"),
        "/events",  # of all sessions; that of one names it
    }


def test_the_pages_token_is_no_clients_token() -> None:
    """B28, B57: it opens the pages and nothing else, so that a browser's cookie spends no money."""
    scene, body = shared(), Asked("POST", CHAT, b"{}")

    for headers in ({TOKEN_HEADER: PAGE_TOKEN}, {"cookie": f"{COOKIE}={PAGE_TOKEN}"}):
        assert answers(scene, body, {**ALICE, **headers}).status_code == 401
    assert answers(scene, body, ALICE, f"/t/{PAGE_TOKEN}").status_code == 401


def test_without_a_token_for_pages_they_say_what_to_set() -> None:
    """A gateway with a clients' token alone has no pages, and says how to have them."""
    answer = answers(without_page_token(), Asked("GET", "/"), {TOKEN_HEADER: TOKEN})

    assert answer.status_code == 403
    assert "INFOLD_PAGE_TOKEN" in answer.json()["error"]["message"]


def test_a_session_named_by_another_tenant_is_another_session() -> None:
    """B28, B57: what Bob sends under the name of Alice's session reaches the upstream without anything of hers."""

    async def play_both() -> tuple[str, list[str]]:
        with ScriptedServer() as upstream:
            stage = Stage(upstream.url)
            for caller, turns in ((ALICE, 60), (BOB, 60)):
                messages = messages_of_alice(turns)[0 if caller is ALICE else 2 :]
                async with stage.client({**caller, "x-infold-session": SESSION}) as client:
                    await client.post(CHAT, json=chat(messages))
            return str(upstream.requests[-1].body), [tenant for tenant, *_ in stage.sessions()]

    body, tenants = asyncio.run(play_both())

    assert SECRET not in body
    assert len(set(tenants)) == 2
