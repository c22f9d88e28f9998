"""The sessions of all tenants: which settings each request's session is kept by, and where it is found."""

import logging
from collections import OrderedDict
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from infold.api.exchanges import Exchange
from infold.api.outages import Outage
from infold.api.passages import AsyncPassages, Passages
from infold.api.ways import AsyncSend
from infold.catalogue import Assumed, lookup
from infold.gateway.aside import LARGE_BYTES, Aside, Underway
from infold.gateway.hub import Hub
from infold.ports import FullStore
from infold.session.process_settings import settings_from
from infold.session.settings import SessionSettings
from infold.settings import Settings

MOST_KEPT = 256
"""Pairs of tenant and model whose open sessions are kept; the one used longest ago is let go."""

MOST_OPEN = 64
"""Sessions that each of them holds open; any other is read from the store when it is needed."""

MOST_TOLD, LONGEST_TOLD = 20, 80
"""How many unknown models the log names, and how much of each: clients may call a model what they like."""

_log = logging.getLogger(__name__)


class _Kept(Struct, frozen=True):
    """The sessions of one tenant with one model: those in the event loop, and those of large requests."""

    ordinary: AsyncPassages
    large: Passages


class Tenancy:
    """Finds the session of a request among those of its tenant alone (B28)."""

    def __init__(self, store: FullStore, settings: Settings, hub: Hub, plugins: tuple[object, ...] = ()) -> None:
        self.store = store
        self.aside = Aside()
        self._settings = settings
        self._hub = hub
        self._plugins = plugins
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._told: set[str] = set()
        self._outage = Outage()

    async def begin(self, tenant: str, exchange: Exchange, send: AsyncSend) -> Underway:
        """The passage of a request, which fits; raises `WindowExceeded` where it cannot."""
        kept = self._sessions(tenant, exchange.asked.model)
        if len(exchange.raw) > LARGE_BYTES:
            return await self.aside.begin(kept.large, exchange, send)
        return await kept.ordinary.begin(exchange, send)

    async def close(self) -> None:
        """Give up what is being done in the background; the store stays open."""
        for kept in self._kept.values():
            await kept.ordinary.close()
        self.aside.close()

    def settings_for(self, model: str, tenant: str | None = None) -> SessionSettings:
        """How a tenant's sessions with that model are kept; summaries are written ahead unless the settings say otherwise."""
        given = settings_from(self._settings, model=model or None, plugins=self._plugins)
        background = self._settings.effective(model=model or None)["compaction.background"]
        ahead = background.origin == "default" or given.background
        return replace(given, on_event=partial(self._hub.observe, tenant=tenant), background=ahead)

    def _sessions(self, tenant: str, model: str) -> _Kept:
        key = (tenant, model)
        kept = self._kept.pop(key, None) or self._made(tenant, model)
        self._kept[key] = kept
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return kept

    def _made(self, tenant: str, model: str) -> _Kept:
        settings = self.settings_for(model, tenant)
        if settings.window is None:
            self._tell_of(model)
        return _Kept(
            AsyncPassages(self.store, settings, tenant, most_open=MOST_OPEN, outage=self._outage),
            Passages(self.store, settings, tenant, most_open=MOST_OPEN, outage=self._outage),
        )

    def _tell_of(self, model: str) -> None:
        """Tell the operator, once, of a model whose window nobody knows: it may be cut far earlier than it has to be."""
        found = lookup(model)
        if isinstance(found, Assumed) and model not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(model)
            _log.warning(
                "the window of %r is not known, so %s tokens are assumed; set it by --window, or for this model in infold.toml",
                model[:LONGEST_TOLD],
                f"{found.entry.context_tokens:,}",
            )
