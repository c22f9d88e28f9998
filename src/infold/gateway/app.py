"""The gateway as an ASGI application: its routes, and what is opened and closed with it."""

from asyncio import timeout, to_thread
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from msgspec import Struct
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from infold.errors import InfoldError
from infold.gateway.auth import Auth, GatewayTokens
from infold.gateway.event_hub import EventHub
from infold.gateway.relay import Relay
from infold.gateway.request_body import GatewayLimits
from infold.gateway.tenants import Tenants, TenantSessions
from infold.gateway.upstream import Sender, Upstreams
from infold.observers.metrics import CONTENT_TYPE
from infold.ports import FullStore

READY_SECONDS = 5.0
"""How long the store may take to answer before the gateway counts as not ready."""


class Gateway(Struct, frozen=True, kw_only=True):
    """The parts of a gateway; without a token it answers to `allowed_hosts` and to the names of this machine.

    `token` is that of clients. `pages`, which show the sessions of all tenants, and counters need `page_token` if either is set.
    """

    upstreams: Upstreams
    tenants: Tenants
    sessions: TenantSessions
    hub: EventHub
    limits: GatewayLimits = GatewayLimits()
    token: str = ""
    page_token: str = ""
    pages: Sequence[BaseRoute] = ()
    content_policy: str = "default-src 'none'; frame-ancestors 'none'"
    allowed_hosts: Sequence[str] = ()


def application(gateway: Gateway) -> Starlette:
    """Build the application; requests to any path that is not one of the gateway's own are relayed."""
    sender = Sender(gateway.limits)
    tokens = GatewayTokens(gateway.token, gateway.page_token)
    own = [
        Route("/healthz", _alive),
        Route("/readyz", partial(_ready, gateway.sessions.store)),
        Route("/metrics", partial(_metrics, gateway.hub)),
        *gateway.pages,
    ]
    upstreams = replace(gateway.upstreams, tokens=tokens)
    relay = Relay(sender, upstreams, gateway.tenants, gateway.sessions, hub=gateway.hub, limits=gateway.limits)
    auth = Middleware(
        Auth,
        relay=relay,
        tokens=tokens,
        content_policy=gateway.content_policy,
        pages=own,
        allowed_hosts=gateway.allowed_hosts,
    )
    return Starlette(routes=own, middleware=[auth], lifespan=partial(_lifespan, sender, gateway.sessions))


async def _alive(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _ready(store: FullStore, _: Request) -> Response:
    try:
        async with timeout(READY_SECONDS):
            await to_thread(store.tenants)
    except (InfoldError, TimeoutError) as error:
        return JSONResponse({"ready": False, "problem": type(error).__name__}, 503)
    return JSONResponse({"ready": True})


async def _metrics(hub: EventHub, _: Request) -> Response:
    return Response(hub.metrics.text(), media_type=CONTENT_TYPE)


@asynccontextmanager
async def _lifespan(sender: Sender, sessions: TenantSessions, _: Starlette) -> AsyncIterator[None]:
    async with sender:
        yield
        sessions.close()
