"""The gateway as an ASGI application: what is served where, and what it needs while it runs."""

from asyncio import timeout, to_thread
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from msgspec import Struct
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from infold.errors import InfoldError
from infold.gateway.bodies import Limits
from infold.gateway.guard import Guard
from infold.gateway.hub import Hub
from infold.gateway.relay import Relay
from infold.gateway.sending import Sender
from infold.gateway.tenancy import Tenancy
from infold.gateway.tenants import Tenants
from infold.gateway.upstreams import Upstreams
from infold.observers.metrics import CONTENT_TYPE
from infold.ports import FullStore

READY_SECONDS = 5.0
"""How long a store may take to answer before it counts as out of order."""


class Gateway(Struct, frozen=True, kw_only=True):
    """All that a gateway is made of; `allowed_hosts` are names it answers to without a token, beside those of this machine."""

    upstreams: Upstreams
    tenants: Tenants
    tenancy: Tenancy
    hub: Hub
    limits: Limits = Limits()
    token: str = ""
    pages: Sequence[BaseRoute] = ()
    content_policy: str = "default-src 'none'; frame-ancestors 'none'"
    allowed_hosts: Sequence[str] = ()


def application(gateway: Gateway) -> Starlette:
    """The application that a server runs; whatever no page claims is relayed."""
    sender = Sender(gateway.limits)
    own = [
        Route("/healthz", _alive),
        Route("/readyz", _ready(gateway.tenancy.store)),
        Route("/metrics", _metrics(gateway.hub)),
        *gateway.pages,
    ]
    relay = Relay(sender, gateway.upstreams, gateway.tenants, gateway.tenancy, hub=gateway.hub, limits=gateway.limits)
    guard = Middleware(
        Guard,
        relay=relay,
        token=gateway.token,
        content_policy=gateway.content_policy,
        pages=own,
        allowed_hosts=gateway.allowed_hosts,
    )
    return Starlette(routes=own, middleware=[guard], lifespan=_lifespan(sender, gateway.tenancy))


async def _alive(_: Request) -> Response:
    return PlainTextResponse("ok\n")


def _ready(store: FullStore) -> Callable[[Request], Awaitable[Response]]:
    async def ready(_: Request) -> Response:
        try:
            async with timeout(READY_SECONDS):
                await to_thread(store.tenants)
        except (InfoldError, TimeoutError) as error:
            return JSONResponse({"ready": False, "problem": type(error).__name__}, 503)
        return JSONResponse({"ready": True})

    return ready


def _metrics(hub: Hub) -> Callable[[Request], Awaitable[Response]]:
    async def metrics(_: Request) -> Response:
        return Response(hub.metrics.text(), media_type=CONTENT_TYPE)

    return metrics


def _lifespan(sender: Sender, tenancy: Tenancy) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        async with sender:
            yield
            await tenancy.close()

    return running
