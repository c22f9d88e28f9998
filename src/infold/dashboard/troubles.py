"""What a person sees when something is wrong: one sentence, and a way back."""

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from infold.dashboard.printing import Printer
from infold.errors import (
    InfoldError,
    ModelError,
    StoreClosed,
    StoreConflict,
    StoreError,
    UnknownReference,
    UnknownSession,
)

_STATUSES: tuple[tuple[type[InfoldError], int], ...] = (
    (UnknownSession, 404),
    (UnknownReference, 404),
    (StoreConflict, 409),
    (StoreError, 503),
    (StoreClosed, 503),
    (ModelError, 502),
)

TITLES = {400: "That cannot be done", 404: "Not here", 409: "Somebody was faster", 502: "The model did not answer"}
BROKEN, UNCHANGED = "The store cannot be read", "Nothing was changed"


def status_of(error: InfoldError) -> int:
    """The HTTP status that says who can act; 400 where whoever asked can."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 400)


class Troubles:
    """An ASGI layer around one route, which turns what infold raises into a page."""

    def __init__(self, app: ASGIApp, printer: Printer) -> None:
        self._app = app
        self._printer = printer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say why not."""
        try:
            await self._app(scope, receive, send)
        except InfoldError as error:
            status = status_of(error)
            # A session that is not there is no way back; every other trouble leaves it standing.
            address = "" if isinstance(error, UnknownSession) else scope.get("path_params", {}).get("address", "")
            title = TITLES.get(status, BROKEN if scope["method"] == "GET" else UNCHANGED)
            page = self._printer.page(
                Request(scope), "trouble", status=status, title=title, problem=str(error), address=address
            )
            await page(scope, receive, send)
