"""What is served where: the page's routes, for whoever serves them beside others.

Whoever does adds the header of `CONTENT_POLICY`, asks for a token, and lets nothing be posted that does not come from the page
itself; all of that holds for the whole server and not for the page alone.
"""

from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from infold.dashboard.acting import Acting
from infold.dashboard.desk import Desk
from infold.dashboard.pages import Pages
from infold.dashboard.printing import STATIC, Printer
from infold.dashboard.troubles import Troubles

__all__ = ["CONTENT_POLICY", "page_routes"]

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
        Route(f"{SESSION}/changes/{{sequence:int}}", pages.change, middleware=told),
        Route(f"{SESSION}/recall", pages.recall, middleware=told),
        Route(f"{SESSION}/compact", pages.compact, middleware=told),
        Route(f"{SESSION}/compact", acting.compact, methods=["POST"], middleware=told),
        Route(f"{SESSION}/undo", acting.undo, methods=["POST"], middleware=told),
        Route(f"{SESSION}/pin", acting.pin, methods=["POST"], middleware=told),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
