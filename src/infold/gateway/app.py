"""The gateway as an ASGI application: what is served where, and what it needs while it runs."""

from asyncio import to_thread
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx2
from msgspec import Struct
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from infold.errors import InfoldError
from infold.gateway.bodies import Limits
from infold.gateway.guard import Guard
from infold.gateway.hub import Hub
from infold.gateway.relay import Relay
from infold.gateway.tenancy import Tenancy
from infold.gateway.tenants import Tenants
from infold.gateway.upstreams import Upstreams
from infold.observers.metrics import CONTENT_TYPE

__all__ = ["Gateway", "application"]

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
MOST_CONNECTIONS = 1_000


class Gateway(Struct, frozen=True, kw_only=True):
    """All that a gateway is made of."""

    upstreams: Upstreams
    tenants: Tenants
    tenancy: Tenancy
    hub: Hub
    limits: Limits = Limits()
    token: str = ""
    pages: Sequence[BaseRoute] = ()
    content_policy: str = "default-src 'none'"


def application(gateway: Gateway) -> ASGIApp:
    """The application that a server runs."""
    client = _client(gateway.limits)
    relay = Relay(client, gateway.upstreams, gateway.tenants, gateway.tenancy, gateway.hub, gateway.limits)

    async def relayed(request: Request) -> Response:
        return await relay(request)

    async def alive(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(_: Request) -> Response:
        try:
            await to_thread(gateway.tenancy.store.tenants)
        except InfoldError as error:
            return JSONResponse({"ready": False, "problem": type(error).__name__}, 503)
        return JSONResponse({"ready": True})

    async def metrics(_: Request) -> Response:
        return Response(gateway.hub.metrics.text(), media_type=CONTENT_TYPE)

    routes: list[BaseRoute] = [
        Route("/healthz", alive),
        Route("/readyz", ready),
        Route("/metrics", metrics),
        *(Route(f"{start}/{{rest:path}}", relayed, methods=METHODS) for start in ("/v1", "/v1beta", "/v1alpha")),
        *gateway.pages,
    ]
    return Starlette(
        routes=routes,
        lifespan=_lifespan(client),
        middleware=[Middleware(Guard, token=gateway.token, content_policy=gateway.content_policy)],
    )


def _client(limits: Limits) -> httpx2.AsyncClient:
    """One client for all upstreams; it follows no redirect, for those would take a credential elsewhere."""
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(limits.upstream_seconds, connect=limits.connect_seconds),
        limits=httpx2.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=100),
        follow_redirects=False,
        trust_env=False,
    )


def _lifespan(client: httpx2.AsyncClient) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    return running
