"""The sessions of all tenants: which settings each request's session is kept by, and where it is found."""

from collections import OrderedDict

from msgspec.structs import replace

from infold.api.exchanges import Exchange
from infold.api.passages import AsyncPassage, AsyncPassages, AsyncSend
from infold.api.session_settings import SessionSettings, settings_from
from infold.core.events import Event
from infold.gateway.hub import Hub
from infold.ports import FullStore
from infold.settings import Settings

__all__ = ["Tenancy"]

MOST_KEPT = 512
"""Pairs of tenant and model whose open sessions are kept; the one used longest ago is let go."""


class Tenancy:
    """Finds the session of a request among those of its tenant alone (B28)."""

    def __init__(self, store: FullStore, settings: Settings, hub: Hub, plugins: tuple[object, ...] = ()) -> None:
        self.store = store
        self._settings = settings
        self._hub = hub
        self._plugins = plugins
        self._kept: OrderedDict[tuple[str, str], AsyncPassages] = OrderedDict()

    async def begin(self, tenant: str, exchange: Exchange, send: AsyncSend) -> AsyncPassage:
        """The passage of a request."""
        return await self._passages(tenant, exchange.asked.model).begin(exchange, send)

    def settings_for(self, model: str) -> SessionSettings:
        """How sessions with that model are kept; in a gateway summaries are written ahead unless the settings say otherwise."""
        given = settings_from(self._settings, model=model or None, plugins=self._plugins)
        background = self._settings.effective(model=model or None)["compaction.background"]
        ahead = background.origin == "default" or given.background
        return replace(given, on_event=self._observe, background=ahead)

    def _passages(self, tenant: str, model: str) -> AsyncPassages:
        key = (tenant, model)
        passages = self._kept.pop(key, None) or AsyncPassages(self.store, self.settings_for(model), tenant)
        self._kept[key] = passages
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return passages

    def _observe(self, event: Event) -> None:
        self._hub.observe(event)
