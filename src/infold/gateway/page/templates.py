"""Render templates as responses, errors included."""

from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.templating import Jinja2Templates
from starlette.types import ASGIApp, Receive, Scope, Send

from infold.errors import (
    InfoldError,
    ModelError,
    StoreClosed,
    StoreConflict,
    StoreError,
    UnknownReference,
    UnknownSession,
)
from infold.gateway.page.chart import CATEGORY_NAMES, PAGE_CATEGORIES, group_contents
from infold.reports import text
from infold.reports.timeline import HAS_DETAIL
from infold.session.report import REASONS, describe_saving

HERE = Path(__file__).parent
STATIC = HERE / "static"

FILTERS = {
    "ago": text.ago,
    "brief": text.excerpt,
    "byte_size": text.byte_size,
    "dollars": text.dollars,
    "group": group_contents,
    "moment": text.moment,
    "percent": text.percent,
    "plural": text.plural,
    "seconds": text.seconds,
    "sentence": text.sentence,
    "short": text.short_number,
    "timestamp": text.timestamp,
    "visible": text.visible,
}

_STATUSES: tuple[tuple[type[InfoldError], int], ...] = (
    (UnknownSession, 404),
    (UnknownReference, 404),
    (StoreConflict, 409),
    (StoreError, 503),
    (StoreClosed, 503),
    (ModelError, 502),
)

TITLES = {400: "That cannot be done", 404: "Not found", 409: "The session has changed", 502: "The model did not answer"}
UNREADABLE, UNCHANGED = "The store cannot be read", "Nothing was changed"


class Templates:
    """Renders pages; every value is escaped unless the template itself wrote it."""

    def __init__(self) -> None:
        self._templates = Jinja2Templates(env=_environment())

    def render(self, request: Request, name: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Return the page of a template."""
        given = {"base": str(request.scope.get("root_path", "")).rstrip("/"), "events": "", **values}
        return self._templates.TemplateResponse(request, f"{name}.html", given, status_code=status)


class ErrorPages:
    """ASGI middleware around one route: show infold's errors as a page with a way back."""

    def __init__(self, app: ASGIApp, templates: Templates) -> None:
        self._app = app
        self._templates = templates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or show the error."""
        try:
            await self._app(scope, receive, send)
        except InfoldError as error:
            status = status_of(error)
            # After any other error than a missing session, its page is the way back.
            address = "" if isinstance(error, UnknownSession) else scope.get("path_params", {}).get("address", "")
            title = TITLES.get(status, UNREADABLE if scope["method"] == "GET" else UNCHANGED)
            page = self._templates.render(
                Request(scope), "error", status=status, title=title, problem=str(error), address=address
            )
            await page(scope, receive, send)


def status_of(error: InfoldError) -> int:
    """Return the HTTP status of an error; 400 unless another fits better."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 400)


@cache
def static_version() -> str:
    """Return a hash of the style and scripts, so that a browser never combines a page with those of another version."""
    content = b"".join(path.read_bytes() for path in sorted(STATIC.iterdir()) if path.is_file())
    return blake2b(content, digest_size=5).hexdigest()


@cache
def _environment() -> Environment:
    """Read and compile the templates, once."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(FILTERS)
    environment.globals.update(
        categories=PAGE_CATEGORIES,
        category_names=CATEGORY_NAMES,
        faults=text.FAULTS,
        has_detail=HAS_DETAIL,
        reasons=REASONS,
        saving_of=describe_saving,
        version=static_version(),
    )
    return environment
