"""Authentication: which requests the gateway accepts, and what browsers may do with its pages.

On loopback no token is needed. Otherwise there are two: clients have one for the API, and the operator has one for the pages
and counters, which are about the sessions of all tenants. Neither opens what the other does; with the clients' alone the pages
are closed. Every request but the health checks must carry its token: in a header, in the path (`/t/TOKEN/v1/…`, for agents that
can set only a base URL), or in a cookie, which the log-in page sets, and so does opening a page by such a path.

Without a token the gateway answers only to names of this machine and of the settings, so that a foreign site cannot reach it
under its own name, and the API refuses what a browser sends for another site. Changes on the pages must be requested from the
pages. What is not HTTP/1.1 with one clear length is refused here too.
"""

import hmac
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from ipaddress import ip_address
from urllib.parse import SplitResult, parse_qs, quote, unquote, unquote_to_bytes, urlsplit

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketClose

from infold.errors import UsageError
from infold.gateway.request_body import GatewayLimits, Refusal, read_body

TOKEN_HEADER = "x-infold-token"
COOKIE = "infold-token"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
SHORTEST_TOKEN = 16
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
STYLE = "/static/"
"""Style sheets and scripts, also of the log-in page: the same in every installation, and nothing private."""

API = ("/v1/", "/v1beta/", "/v1alpha/")
"""Paths that only clients use, and no page has."""

PAGES = ("/sessions/", STYLE)
"""Paths that only pages have: an unknown one is not found, and not relayed."""

LOGIN_PATH = "/login"
LOGIN_LIMITS = GatewayLimits(body_bytes=4_096, body_seconds=10.0)
_TOKEN = re.compile(r"[A-Za-z0-9._~-]*")
"""Characters that need no escaping in a path, a header and a cookie."""

_WORD = re.compile(_TOKEN.pattern.replace("*", "+").encode())

_TOKEN_PATH = re.compile(rb"/(?:t|%74)/([^/]*)(?:/|$)")
"""The beginning of a path with a token, as it was written."""

MOST_ENCODINGS = 3
"""How often percent-encoding may be repeated and still be read: proxies and servers in a row each decode once."""

PAGE_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}

WRONG = '<p role="alert" class="notice trouble">That is not the token.</p>'

FOREIGN_NAME = (
    "Without INFOLD_TOKEN the gateway answers to names of this machine only. Use http://127.0.0.1, add the host to "
    "gateway.allowed_hosts, or set INFOLD_TOKEN."
)
CLOSED_PAGES = (
    "The pages show the sessions of all callers, so INFOLD_TOKEN does not open them. Start the gateway with INFOLD_PAGE_TOKEN, "
    "and present that."
)
FOREIGN_SITE = "Without INFOLD_TOKEN the gateway takes no request from a web page of another site. Set INFOLD_TOKEN."
CLOSE = {"connection": "close"}
NO_SOCKETS = {"connection": "close, upgrade", "upgrade": "HTTP/1.1"}
"""Headers of a 426, which must name a protocol that is supported."""

TOKEN_SCOPE = "infold.token"
"""The key in a request's scope that says whether clients need a token, for the pages to show."""

_OWN_PATH = re.compile(r"/(?![/\\])[^\s\\\x00-\x1f]*")
"""A path of this server; browsers take two leading slashes, of either kind, for another server."""


def check_address(host: str, token: str, page_token: str = "") -> None:
    """Raise `UsageError` for a token that cannot be sent, and for a public address with a token that is missing or short."""
    for name, given in (("INFOLD_TOKEN", token), ("INFOLD_PAGE_TOKEN", page_token)):
        if not _TOKEN.fullmatch(given):
            raise UsageError(
                f"{name} may hold letters, digits and . _ ~ - only, for it stands in addresses; choose another"
            )
        is_needed = bool(given) or name == "INFOLD_TOKEN"
        if host not in LOOPBACK and is_needed and len(given) < SHORTEST_TOKEN:
            raise UsageError(
                f"{host} can be reached by others; set {name} to a random text of {SHORTEST_TOKEN} characters or more, "
                "or listen on 127.0.0.1"
            )


class GatewayTokens(Struct, frozen=True):
    """The token of clients and that of the pages; empty if none is needed."""

    clients: str = ""
    pages: str = ""

    def are_in(self, value: bytes) -> bool:
        """Whether a part of a request holds a token, also in percent-encoding; one too short for a public address, as a word."""
        tokens = [token.encode() for token in (self.clients, self.pages) if token]
        written = decode_percent(value) if tokens else b""
        return any(token in (written if len(token) >= SHORTEST_TOKEN else _WORD.findall(written)) for token in tokens)


class Auth:
    """ASGI middleware around everything the gateway serves; `pages` are the gateway's own routes.

    All else goes straight to `relay`, past the other middleware, which is for pages.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        relay: ASGIApp,
        tokens: GatewayTokens = GatewayTokens(),  # noqa: B008
        content_policy: str = "default-src 'none'",
        pages: Sequence[BaseRoute] = (),
        allowed_hosts: Collection[str] = (),
    ) -> None:
        self._app = app
        self._relay = relay
        self._token = tokens.clients.encode()
        self._page_token = tokens.pages.encode()
        self._policy = content_policy
        self._pages = pages
        self._hosts = frozenset(name.lower() for name in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept a request, answer it with the log-in page, or refuse it."""
        if scope["type"] == "websocket":
            await _close_socket(WebSocket(scope, receive, send))
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope, named = _without_token({**scope, TOKEN_SCOPE: bool(self._token)})
        request = Request(scope, receive)
        is_page = self._is_page(scope)
        answer = await self._answer(request, named, is_page=is_page)
        served = answer or (self._app if is_page else self._relay)
        await served(scope, receive, self._with_headers(send) if is_page else send)

    async def _answer(self, request: Request, named: str, *, is_page: bool) -> Response | None:
        """Return the answer to a request that is not accepted; `None` if it is."""
        path: str = request.scope["path"]
        problem = _refuse_malformed(request)
        if problem is not None or path in OPEN_PATHS or path.startswith(STYLE):
            return problem
        if is_page and self._page_token and path == LOGIN_PATH:
            return await self._login(request)
        refusal = self._refuse_stranger(request, named, is_page=is_page)
        if refusal is not None:
            return refusal
        if _asks_for_socket(request):
            return _refuse_socket()
        is_entering = is_page and _is_browsing(request) and _is_token(named, self._page_token)
        return self._enter(request, _path_of(request)) if is_entering else None

    def _refuse_stranger(self, request: Request, named: str, *, is_page: bool) -> Response | None:
        """Return the answer to a client without access; `None` for any other."""
        token = self._page_token if is_page else self._token
        if is_page and self._token and not token:
            return _refuse(403, CLOSED_PAGES)
        if not token and not self._is_addressed(request):
            return _refuse(403, FOREIGN_NAME)
        if token and not _knows(request, named, token):
            is_person = is_page and request.method == "GET"
            variable = "INFOLD_PAGE_TOKEN" if is_page else "INFOLD_TOKEN"
            form = _login_form(_path_of(request), status=401)
            return form if is_person else _refuse(401, f"a token is needed, as {variable} has it")
        if is_page and request.method not in ("GET", "HEAD") and not _is_own(request):
            return _refuse(403, "what changes anything must be asked for from the gateway's own pages")
        if not is_page and not self._token and not _is_own(request):
            return _refuse(403, FOREIGN_SITE)
        return None

    def _is_addressed(self, request: Request) -> bool:
        """Whether a request names this machine or an allowed host; any other name may be that of a site that resolves to it."""
        named = _split(f"//{request.headers.get('host', '')}")
        host = "" if named is None or named.hostname is None else named.hostname
        return host in self._hosts or _is_loopback(host)

    def _is_page(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if path.startswith(API):
            return False
        if path == LOGIN_PATH or path.startswith(PAGES):
            return True
        return any(route.matches(scope)[0] is not Match.NONE for route in self._pages)

    async def _login(self, request: Request) -> Response:
        if request.method != "POST" or not _is_own(request):
            return _login_form("/")
        form = await read_body(request, LOGIN_LIMITS)
        if isinstance(form, Refusal):
            return _refuse(form.status, form.message)
        fields = parse_qs(form.decode("utf-8", "replace"))
        following = _own_path(fields.get("next", [""])[0])
        if not _is_token(fields.get("token", [""])[0], self._page_token):
            return _login_form(following, problem=WRONG, status=401)
        return self._enter(request, following)

    def _enter(self, request: Request, following: str) -> Response:
        """Redirect to a page, with the cookie that gives access to it."""
        response = RedirectResponse(following, 303)
        is_secure = request.scope.get("scheme") == "https"
        token = self._page_token.decode()
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=is_secure, path="/")
        return response

    def _with_headers(self, send: Send) -> Send:
        """Add the headers that restrict what a browser may do with a page."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["content-security-policy"] = self._policy
                for name, value in PAGE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        return sending


def decode_percent(value: bytes) -> bytes:
    """Return what programs behind the gateway may read: percent-encoding removed, also where it was applied repeatedly."""
    for _ in range(MOST_ENCODINGS):
        value = unquote_to_bytes(value)
    return value


def _without_token(scope: Scope) -> tuple[Scope, str]:
    """Return the request without the token that its path begins with, in any encoding and if repeated, and the token."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    token: bytes | None = None
    while (found := _TOKEN_PATH.match(raw)) and token in (None, unquote_to_bytes(found[1])):
        token = unquote_to_bytes(found[1])
        raw = b"/" + raw[found.end() :]
    if token is None:
        return scope, ""
    return {**scope, "path": unquote(raw.decode("latin-1")), "raw_path": raw}, token.decode("utf-8", "replace")


def _knows(request: Request, named: str, token: bytes) -> bool:
    """Whether a request carries a token in the path, in the header or in the cookie."""
    given = (named, request.headers.get(TOKEN_HEADER, ""), _cookie(request.headers))
    return any([_is_token(one, token) for one in given])  # noqa: C419 - all of them, in constant time


def _is_token(given: str, token: bytes) -> bool:
    return bool(token) and hmac.compare_digest(given.encode("utf-8", "replace"), token)


def _login_form(following: str, *, problem: str = "", status: int = 200) -> Response:
    return HTMLResponse(_login_page().format(problem=problem, following=escape(following)), status)


@cache
def _login_page() -> str:
    return files("infold.gateway").joinpath("login.html").read_text("utf-8")


def _path_of(request: Request) -> str:
    """Return the path of a request, to come back to after the log-in."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope.get("query_string", b"")
    return _own_path((raw.partition(b"?")[0] + (b"?" + query if query else b"")).decode("ascii", "replace"))


def _own_path(text: str) -> str:
    """Return a path if it is one of this server's pages, else the front page's."""
    return text if _OWN_PATH.fullmatch(text) and text != LOGIN_PATH else "/"


def _is_browsing(request: Request) -> bool:
    """Whether a browser opens a page, rather than a part of one."""
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


def _is_loopback(host: str) -> bool:
    """Whether a host is `localhost` or an address of the loopback interface."""
    if host in LOOPBACK:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _refuse_malformed(request: Request) -> Response | None:
    """Refuse HTTP/2 on a connection that did not negotiate it, and a body with two lengths; `None` for other requests.

    After two lengths nothing on the connection can be trusted: another proxy may have used the other one.
    """
    if request.method == "PRI":
        return _refuse(
            505, "The gateway speaks HTTP/1.1, not HTTP/2 with prior knowledge. Turn HTTP/2 off in the client.", CLOSE
        )
    if "content-length" in request.headers and "transfer-encoding" in request.headers:
        return _refuse(400, "The request has both content-length and transfer-encoding. Send one of them.", CLOSE)
    return None


def _asks_for_socket(request: Request) -> bool:
    wishes = request.headers.get("connection", "").lower().split(",")
    return "upgrade" in map(str.strip, wishes) and request.headers.get("upgrade", "").lower() == "websocket"


def _refuse_socket() -> Response:
    return _refuse(
        426, "The gateway has no websockets. Send the request by HTTP, as with POST /v1/responses.", NO_SOCKETS
    )


async def _close_socket(socket: WebSocket) -> None:
    """Refuse a websocket that the server has accepted."""
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(_refuse_socket())
    else:
        await WebSocketClose()(socket.scope, socket.receive, socket.send)


def _is_own(request: Request) -> bool:
    """Whether a request comes from our own pages, as browsers report it; one without either header is not from a browser."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    if origin is None:
        return True
    came_from = _split(origin)
    return came_from is not None and came_from.netloc == request.headers.get("host")


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:  # brackets that hold no address
        return None


def _cookie(headers: Headers) -> str:
    """Return the token in the cookie; it is never quoted, and the standard library takes seconds for a long quoted one."""
    pairs = (pair.partition("=") for pair in headers.get("cookie", "").split(";"))
    return next((value.strip() for name, _, value in pairs if name.strip() == COOKIE), "")


def _refuse(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(Refusal(status, message).body, status, headers)
