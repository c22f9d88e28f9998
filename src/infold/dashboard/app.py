"""What is served where: the page's routes, for whoever serves them beside others.

Whoever does adds the header of `CONTENT_POLICY`, asks for a token, and lets nothing be posted that does not come from the page
itself; all of that holds for the whole server and not for the page alone.
"""

from os import PathLike, stat_result

from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from infold.dashboard.acting import Acting
from infold.dashboard.desk import Desk
from infold.dashboard.pages import Pages
from infold.dashboard.printing import STATIC, Printer, version
from infold.dashboard.troubles import Troubles

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""The strictest content-security-policy that these pages work under: nothing inline, nothing from elsewhere."""

SESSION = "/sessions/{address}"
KEPT = "private, max-age=31536000, immutable"
"""What is asked for by its version never changes, so a browser need not ask for it again."""


def page_routes(desk: Desk) -> list[BaseRoute]:
    """The routes of the page, its style and its scripts."""
    printer = Printer()
    pages, acting = Pages(desk, printer), Acting(desk.acts)
    told = [Middleware(Troubles, printer=printer)]
    return [
        Route("/", pages.sessions, middleware=told),
        Route("/events", pages.events, middleware=told),
        Route(SESSION, pages.session, middleware=told),
        Route(f"{SESSION}/messages/{{handle}}", pages.message, middleware=told),
        Route(f"{SESSION}/media/{{handle}}", pages.media, middleware=told),
        Route(f"{SESSION}/changes/{{sequence:int}}", pages.change, middleware=told),
        Route(f"{SESSION}/recall", pages.recall, middleware=told),
        Route(f"{SESSION}/compact", pages.compact, middleware=told),
        Route(f"{SESSION}/compact", acting.compact, methods=["POST"], middleware=told),
        Route(f"{SESSION}/undo", acting.undo, methods=["POST"], middleware=told),
        Route(f"{SESSION}/pin", acting.pin, methods=["POST"], middleware=told),
        Mount("/static", _Static(directory=STATIC)),
    ]


class _Static(StaticFiles):
    """The style and the scripts, which a browser keeps for as long as they are of the version that its pages name."""

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """A file, and how long it holds."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        is_named = scope["query_string"] == version().encode()
        response.headers["cache-control"] = KEPT if is_named else "no-cache"
        return response
