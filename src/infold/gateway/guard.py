"""Who may speak to the gateway, and what its own pages may do.

Loopback needs no token. With one, every request but the health checks carries it: in a header, in the path (`/t/TOKEN/v1/…`, for
agents that can set nothing but a base URL), or, for a person, in a cookie set by the log-in page. What changes anything on the
pages must come from the pages: another site's form is refused.
"""

import hmac
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infold.errors import UsageError

__all__ = ["Guard", "LOOPBACK", "TOKEN_HEADER", "check_address"]

TOKEN_HEADER = "x-infold-token"
COOKIE = "infold-token"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
SHORTEST_TOKEN = 16
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
API = ("/v1", "/v1beta", "/v1alpha", "/t/")
"""Where clients speak; everything else is a page."""

PAGE_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

LOGIN = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>infold</title><form method="post" action="/login"><p><label>Token <input name="token" type="password" autofocus required>
</label> <button>Open</button></p></form></html>"""


def check_address(host: str, token: str) -> None:
    """Raise `UsageError` for an address that others can reach without a token that nobody guesses."""
    if host in LOOPBACK:
        return
    if len(token) < SHORTEST_TOKEN:
        raise UsageError(
            f"{host} can be reached by others; set INFOLD_TOKEN to a random text of {SHORTEST_TOKEN} characters or more, "
            "or listen on 127.0.0.1"
        )


class Guard:
    """An ASGI layer around everything the gateway serves."""

    def __init__(self, app: ASGIApp, *, token: str = "", content_policy: str = "default-src 'none'") -> None:
        self._app = app
        self._token = token.encode()
        self._policy = content_policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, send it to the log-in page, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        scope, named = _without_token(scope)
        path: str = scope["path"]
        is_page = not path.startswith(API) and path not in OPEN_PATHS
        answer: Response | None = None
        if self._token and is_page and path == "/login":
            answer = await self._login(request)
        elif path not in OPEN_PATHS and not self._knows(request, named):
            answer = (
                HTMLResponse(LOGIN, 401) if is_page and request.method == "GET" else _refused(401, "a token is needed")
            )
        elif is_page and request.method not in ("GET", "HEAD") and not _is_own(request):
            answer = _refused(403, "what changes anything must be asked for from the gateway's own pages")
        await (answer or self._app)(scope, receive, self._with_headers(send) if is_page else send)

    def _knows(self, request: Request, named: str) -> bool:
        if not self._token:
            return True
        given = (named, request.headers.get(TOKEN_HEADER, ""), _cookie(request.headers))
        known = [hmac.compare_digest(one.encode(), self._token) for one in given]  # all of them, in constant time
        return any(known)

    async def _login(self, request: Request) -> Response:
        if request.method != "POST" or not _is_own(request):
            return HTMLResponse(LOGIN)
        given = str((await request.form()).get("token", ""))
        if not hmac.compare_digest(given.encode(), self._token):
            return HTMLResponse(LOGIN, 401)
        response = RedirectResponse("/", 303)
        response.set_cookie(COOKIE, given, httponly=True, samesite="strict", path="/")
        return response

    def _with_headers(self, send: Send) -> Send:
        """Every page says what a browser may do with it."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["content-security-policy"] = self._policy
                for name, value in PAGE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        return sending


def _without_token(scope: Scope) -> tuple[Scope, str]:
    """The request as if its path held no token, and the token that it held."""
    path: str = scope["path"]
    if not path.startswith("/t/"):
        return scope, ""
    token, _, rest = path[3:].partition("/")
    return {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}, token


def _is_own(request: Request) -> bool:
    """Whether a browser says that a request comes from our own pages; one without either header is no browser's."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _cookie(headers: Mapping[str, str] | Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _refused(status: int, message: str) -> Response:
    error = {"message": f"{message}", "type": "infold_gateway_error", "code": status}
    return JSONResponse({"type": "error", "error": error}, status)
