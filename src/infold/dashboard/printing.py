"""From templates to responses: one environment for all pages, with the words and figures they share."""

from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.templating import Jinja2Templates

from infold.dashboard import figures, texts
from infold.dashboard.bands import BANDS
from infold.dashboard.facts import FAULTS
from infold.dashboard.marks import OPENED

HERE = Path(__file__).parent
STATIC = HERE / "static"

BAND_NAMES = {"results": "tool results"}
REASONS = {
    "trigger": "the window was nearly full",
    "price": "going on would have cost more than a cut",
    "forced": "a reply was cut off",
    "overflow": "the provider refused the request as too large",
    "manual": "somebody asked for it",
    "safety": "the request would not have fitted",
    "arrival": "it was longer than a view should show",
    "import": "it was read from a foreign transcript",
}
"""Why a compaction happened, in words."""


class Printer:
    """Prints pages; everything a template is given is escaped unless the template itself wrote it."""

    def __init__(self) -> None:
        self._templates = Jinja2Templates(env=_environment())

    def page(self, request: Request, name: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """A page of that template."""
        given = {"base": str(request.scope.get("root_path", "")).rstrip("/"), "events": "", **values}
        return self._templates.TemplateResponse(request, f"{name}.html", given, status_code=status)


FILTERS = ("ago", "dollars", "moment", "percent", "plural", "seconds", "short", "size", "stamp")


@cache
def _environment() -> Environment:
    """The templates with all they are given on every page; read and compiled once, since they come with the package."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update({name: getattr(figures, name) for name in FILTERS})
    environment.filters.update(sentence=texts.sentence, visible=texts.visible)
    environment.globals.update(bands=BANDS, band_names=BAND_NAMES, faults=FAULTS, opened=OPENED, reasons=REASONS)
    environment.globals.update(version=version())
    return environment


@cache
def version() -> str:
    """A name for the style and scripts as they are, so that no browser shows a page with those of another version."""
    content = b"".join(path.read_bytes() for path in sorted(STATIC.iterdir()) if path.is_file())
    return blake2b(content, digest_size=5).hexdigest()
