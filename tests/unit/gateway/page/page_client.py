"""A browser of sorts on the page: actions that are recorded, a hub that publishes given events and ends."""

from collections.abc import AsyncIterator, Callable, Collection

from starlette.applications import Starlette
from starlette.testclient import TestClient

from infold.catalogue import Prices
from infold.core.events import Event
from infold.errors import InfoldError
from infold.gateway.actions import SessionActions
from infold.gateway.event_hub import EventHub
from infold.gateway.page.routes import encode_key, page_routes
from infold.ports import FullStore, SessionKey
from infold.session.compaction import Preview

from ...reports.stored_sessions import KEY, Clock  # noqa: TID252 - `tests` is no package to name

__all__ = ["HERE", "EventList", "RecordedActions", "client"]

HERE = f"/sessions/{encode_key(KEY)}"
PREVIEW = Preview(3, 4, 9_000, 1_000, "[folded]")


class RecordedActions(SessionActions):
    """Records what it is asked to do, or refuses."""

    def __init__(
        self,
        refusal: InfoldError | None = None,
        *,
        preview: Preview = PREVIEW,
        is_done: bool = True,
        summarises: bool = True,
        window_of: Callable[[SessionKey], int | None] = lambda _: 8_000,
    ) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.working_window: int | None = None
        self._is_done = is_done
        self._summarises = summarises
        self._refusal = refusal
        self._preview = preview
        self._window_of = window_of

    async def compact(self, key: SessionKey, focus: str, up_to: int | None) -> bool:
        """Record it."""
        self._record("compact", key, focus, up_to)
        return self._is_done

    async def undo(self, key: SessionKey, sequence: int | None) -> None:
        """Record it."""
        self._record("undo", key, sequence)

    async def pin(self, key: SessionKey, handle: str, pinned: bool) -> None:
        """Record it."""
        self._record("pin", key, handle, pinned)

    async def preview(self, key: SessionKey, up_to: int | None) -> Preview:
        """Return the given preview."""
        self._record("preview", key, up_to)
        return self._preview

    def window_of(self, key: SessionKey) -> int | None:
        """Return the given window."""
        return self._window_of(key)

    def working_window_of(self, key: SessionKey) -> int | None:
        """Return the given working window."""
        del key
        return self.working_window

    def usable_tokens(self, model: str, window_tokens: int) -> int:
        """Return the window without a tenth for the reply."""
        del model
        return window_tokens * 9 // 10

    def prices_of(self, model: str) -> Prices | None:
        """Return prices that are easy to reckon with, for one model."""
        return Prices(input=10.0, output=20.0, cache_read=1.0) if model == "priced" else None

    def summarises(self, key: SessionKey) -> bool:
        """Return as given."""
        del key
        return self._summarises

    def _record(self, *asked: object) -> None:
        if self._refusal is not None:
            raise self._refusal
        self.asked.append(asked)


class EventList(EventHub):
    """Publishes some events and ends."""

    def __init__(self, *events: Event, tenant: str | None = None) -> None:
        super().__init__()
        self._events = events
        self._tenant = tenant

    async def subscribe(self) -> AsyncIterator[tuple[str | None, Event]]:
        """Yield all of them."""
        for event in self._events:
            yield self._tenant, event


def client(
    store: FullStore, actions: RecordedActions | None = None, routed: Collection[str] = ("anthropic", "openai")
) -> TestClient:
    """Return a client of the page over this store, a minute and a half after noon, of a gateway to these providers."""
    routes = page_routes(
        store, actions or RecordedActions(), EventList(), routed=routed, now_ms=lambda: Clock().now_ms() + 90_000
    )
    return TestClient(Starlette(routes=routes), follow_redirects=False)
