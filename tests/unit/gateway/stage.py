"""A gateway in this process, spoken to without a network before it; what stands behind it is real."""

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx2

from infold.core.events import Event
from infold.gateway.app import Gateway, application
from infold.gateway.event_hub import EventHub
from infold.gateway.tenants import Tenants, TenantSessions
from infold.gateway.upstream import PROVIDERS, Upstreams
from infold.ports import FullStore
from infold.settings import Settings, read_settings
from infold.stores.memory import MemoryStore

Item: TypeAlias = dict[str, Any]

WINDOW = 6_000
"""Too small for a model to be asked for summaries, so that the same requests always give the same."""

SECRET = b"a secret of thirty-two characters"
CHAT = "/v1/chat/completions"


def settings(**variables: str) -> Settings:
    """The settings of a process with these variables alone."""
    return read_settings(variables, Path(tempfile.gettempdir()))


class Stage:
    """A gateway with all it stands on; `variables` are settings, `given` are fields of `Gateway`."""

    def __init__(
        self,
        upstream: str,
        *,
        store: FullStore | None = None,
        window: int | None = WINDOW,
        variables: Mapping[str, str] | None = None,
        **given: Any,
    ) -> None:
        self.hub = EventHub()
        self.events: list[Event] = []
        self.hub.bus.subscribe(Event, self.events.append)
        self.store: FullStore = store or MemoryStore()
        stated = {**({"INFOLD_WINDOW": str(window)} if window else {}), **(variables or {})}
        self.tenant_sessions = TenantSessions(self.store, settings(**stated), self.hub)
        self.tenants = Tenants(SECRET)
        self.gateway = Gateway(
            **{
                "upstreams": Upstreams(dict.fromkeys(PROVIDERS, upstream)),
                "tenants": self.tenants,
                "sessions": self.tenant_sessions,
                "hub": self.hub,
                **given,
            }
        )
        self.app = application(self.gateway)

    @asynccontextmanager
    async def client(self, headers: Mapping[str, str] | None = None) -> AsyncIterator[httpx2.AsyncClient]:
        """A client of the gateway, which runs meanwhile."""
        way = httpx2.ASGITransport(self.app)
        async with (
            self.app.router.lifespan_context(self.app),
            httpx2.AsyncClient(transport=way, base_url="http://127.0.0.1", headers=headers) as client,
        ):
            yield client

    def sessions(self) -> list[tuple[str, str, int]]:
        """Whose sessions there are, under which ids, with how many entries."""
        return [
            (tenant, session.key.session_id, session.entries)
            for tenant in self.store.tenants()
            for session in self.store.sessions(tenant)
        ]


def said(number: int) -> str:
    """What a person says in a turn, about seventy tokens."""
    return f"Turn {number}: tell me about apples. " + "Apples are red and green and sweet. " * 8


def chat(messages: list[Item], **fields: Any) -> Item:
    """The body of a chat request."""
    return {"model": "gpt-x", "messages": messages, **fields}
