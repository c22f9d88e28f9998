"""What is served where."""

import asyncio

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from infold.core.events import FailedOpen
from infold.errors import StoreBroken
from infold.gateway.event_hub import ServedRequest
from infold.stores.memory import MemoryStore
from infold.testing.scripted_server import ScriptedServer

from .raw_upstream import RawUpstream, whole
from .stage import Stage


class Away(MemoryStore):
    """A store whose server does not answer."""

    def tenants(self) -> tuple[str, ...]:
        """Fail."""
        raise StoreBroken("secret-place", "the server is away", remedy="start it")


async def page(_: Request) -> Response:
    """A page."""
    return PlainTextResponse("a page")


def got(stage: Stage, path: str, *, method: str = "GET", **headers: str) -> httpx2.Response:
    """What is answered."""

    async def get() -> httpx2.Response:
        async with stage.client() as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(get())


def test_it_is_alive() -> None:
    """While the process answers at all."""
    assert got(Stage(""), "/healthz").text == "ok\n"


def test_it_is_ready_while_its_store_is() -> None:
    """A store that does not answer takes a replica out of turn."""
    away = got(Stage("", store=Away()), "/readyz")

    assert got(Stage(""), "/readyz").json() == {"ready": True}
    assert (away.status_code, away.json()) == (503, {"ready": False, "problem": "StoreBroken"})


def test_what_happened_is_counted() -> None:
    """B22: the text is what Prometheus reads, and names no session."""
    stage = Stage("")
    stage.hub.observe(FailedOpen("secret-session", "problem"))
    answer = got(stage, "/metrics")
    samples = {s.name: s.value for family in text_string_to_metric_families(answer.text) for s in family.samples}

    assert samples["infold_failed_open_total"] == 1
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "secret" not in answer.text


@pytest.mark.parametrize("path", ["/v1/models", "/v1beta/models", "/chat/completions", "/openai/deployments/x", "/"])
def test_whatever_no_page_claims_is_relayed(path: str) -> None:
    """Every path that is not the gateway's own is the upstream's."""
    with RawUpstream(lambda _: [whole(b"{}", headers=[(b"x-up", b"1")])]) as upstream:
        assert got(Stage(upstream.url), path).headers["x-up"] == "1"
        assert upstream.requests[0].target == path


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/page"])
def test_the_gateways_own_paths_are_never_relayed(path: str) -> None:
    """By another method either."""
    with RawUpstream(lambda _: [whole(b"{}")]) as upstream:
        stage = Stage(upstream.url, pages=[Route("/page", page)])

        assert got(stage, path).status_code == 200
        assert got(stage, path, method="DELETE").status_code == 405
        assert upstream.requests == ()


def test_all_is_behind_the_token() -> None:
    """Pages, metrics and what is relayed; the health checks alone are open."""
    token, page_token = "a-token-that-nobody-guesses", "another-that-nobody-guesses"
    with ScriptedServer() as upstream:
        stage = Stage(upstream.url, token=token, page_token=page_token, pages=[Route("/page", page)])
        without = {path: got(stage, path).status_code for path in ("/page", "/metrics", "/v1/models", "/healthz")}
        known = got(stage, f"/t/{token}/v1/models")

        assert without == {"/page": 401, "/metrics": 401, "/v1/models": 401, "/healthz": 200}
        assert known.status_code == 200
        assert [request.path for request in upstream.lookups] == ["/v1/models"]
        assert token not in str((upstream.requests, upstream.lookups))


def test_a_path_with_a_token_is_not_reported() -> None:
    """B23: a request that is refused for its path is reported without it."""
    token, served = "a-token-that-nobody-guesses", list[ServedRequest]()
    stage = Stage("http://127.0.0.1:9", token=token)
    stage.hub.subscribe_requests(served.append)
    answer = got(stage, f"/v1/{token}/x", **{"x-infold-token": token})

    assert (answer.status_code, served[0].path, served[0].note) == (400, "/…", "refused")


def test_pages_have_a_policy() -> None:
    """The one that the page was made for."""
    stage = Stage("", pages=[Route("/page", page)], content_policy="default-src 'self'")

    assert got(stage, "/page").headers["content-security-policy"] == "default-src 'self'"
