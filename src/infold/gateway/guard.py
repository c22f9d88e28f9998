"""Who may speak to the gateway, and what its own pages may do.

Loopback needs no token. With one, every request but the health checks carries it: in a header, in the path (`/t/TOKEN/v1/…`, for
agents that can set nothing but a base URL), or, for a person, in a cookie set by the log-in page; a browser that opens a page by
such a path is given the cookie too. Without a token everything answers only to names of this machine and of the settings, so that
no foreign site can pass for it, and the API takes nothing that a browser sends for another site. What changes anything on the
pages must come from the pages: another site's form is refused. What is not HTTP/1.1 with one clear length is refused here too.
"""

import hmac
import re
from collections.abc import Collection, Mapping, Sequence
from html import escape
from ipaddress import ip_address
from urllib.parse import SplitResult, parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketClose

from infold.errors import UsageError
from infold.gateway.bodies import Limits, Refusal, read_body

TOKEN_HEADER = "x-infold-token"
COOKIE = "infold-token"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
SHORTEST_TOKEN = 16
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
STYLE = "/static/"
"""What pages are drawn with, the log-in page too: the same in every installation, and nothing of anybody's."""

API = ("/v1/", "/v1beta/", "/v1alpha/")
"""Where clients speak and no page is."""

PAGES = ("/sessions/", STYLE)
"""Where nothing but pages is: what is none there is not found, and not sent on."""

LOGIN_PATH = "/login"
LOGIN_LIMITS = Limits(body_bytes=4_096, body_seconds=10.0)
_TOKEN = re.compile(r"[A-Za-z0-9._~-]*")
"""What stands in a path, a header and a cookie as it is."""

PAGE_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}

LOGIN = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Log in · infold</title>
<link rel="icon" type="image/svg+xml" href="/static/mark.svg">
<link rel="stylesheet" href="/static/page.css">
<script src="/static/theme.js"></script>
</head>
<body>
<header class="top"><span class="wordmark"><img src="/static/mark.svg" alt="" width="20" height="20">infold</span></header>
<main>
<div class="empty">
<h1>Log in</h1>
<p>These pages show what agents say and do. They open to whoever has the token that INFOLD_TOKEN was when the gateway was
started.</p>
{problem}
<form method="post" action="/login" class="stack narrow">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" autofocus required>
<p class="buttons"><button>Log in</button></p>
<input type="hidden" name="next" value="{following}">
</form>
</div>
</main>
</body>
</html>
"""
WRONG = '<p role="alert" class="notice trouble">That is not the token.</p>'

FOREIGN_NAME = (
    "Without INFOLD_TOKEN the gateway answers to names of this machine only. Use http://127.0.0.1, add the host to "
    "gateway.allowed_hosts, or set INFOLD_TOKEN."
)
FOREIGN_SITE = "Without INFOLD_TOKEN the gateway takes no request from a web page of another site. Set INFOLD_TOKEN."
CLOSE = {"connection": "close"}
NO_SOCKETS = {"connection": "close, upgrade", "upgrade": "HTTP/1.1"}
"""Headers of a 426, which has to name a protocol that is spoken."""

TOKEN_SCOPE = "infold.token"
"""In the scope of a request where a token is asked for, so that a page can say so."""

_OWN_PATH = re.compile(r"/(?![/\\])[^\s\\\x00-\x1f]*")
"""A path of this server; what a browser would take for another one begins with two slashes, of either kind."""


def check_address(host: str, token: str) -> None:
    """Raise `UsageError` for a token that cannot be sent, and for an address that others can reach without a good one."""
    if not _TOKEN.fullmatch(token):
        raise UsageError(
            "INFOLD_TOKEN may hold letters, digits and . _ ~ - only, for it stands in addresses; choose another"
        )
    if host not in LOOPBACK and len(token) < SHORTEST_TOKEN:
        raise UsageError(
            f"{host} can be reached by others; set INFOLD_TOKEN to a random text of {SHORTEST_TOKEN} characters or more, "
            "or listen on 127.0.0.1"
        )


class Guard:
    """An ASGI layer around everything the gateway serves; `pages` are the routes that are not a client's.

    What is no page goes straight to `relay`: the layers around pages have nothing to do with it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        relay: ASGIApp,
        token: str = "",
        content_policy: str = "default-src 'none'",
        pages: Sequence[BaseRoute] = (),
        allowed_hosts: Collection[str] = (),
    ) -> None:
        self._app = app
        self._relay = relay
        self._token = token.encode()
        self._policy = content_policy
        self._pages = pages
        self._hosts = frozenset(name.lower() for name in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, send it to the log-in page, or refuse it."""
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
        """What is said in place of what was asked for; none where that may be had."""
        path: str = request.scope["path"]
        problem = _unreadable(request)
        if problem is not None or path in OPEN_PATHS or path.startswith(STYLE):
            return problem
        if is_page and self._token and path == LOGIN_PATH:
            return await self._login(request)
        outsider = self._outsider(request, named, is_page=is_page)
        if outsider is not None:
            return outsider
        if _asks_for_socket(request):
            return _no_socket()
        is_entering = is_page and _is_browsing(request) and self._is_token(named)
        return self._entered(request, _path_of(request)) if is_entering else None

    def _outsider(self, request: Request, named: str, *, is_page: bool) -> Response | None:
        """The answer to a client that has no business here; none for any other."""
        if not self._token and not self._is_addressed(request):
            return _refused(403, FOREIGN_NAME)
        if not self._knows(request, named):
            is_person = is_page and request.method == "GET"
            form = _login_form(_path_of(request), status=401)
            return form if is_person else _refused(401, "a token is needed, as INFOLD_TOKEN has it")
        if is_page and request.method not in ("GET", "HEAD") and not _is_own(request):
            return _refused(403, "what changes anything must be asked for from the gateway's own pages")
        if not is_page and not self._token and not _is_own(request):
            return _refused(403, FOREIGN_SITE)
        return None

    def _is_addressed(self, request: Request) -> bool:
        """Whether a request names this machine or an allowed host; any other name may be a site's that was made to lead here."""
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

    def _knows(self, request: Request, named: str) -> bool:
        if not self._token:
            return True
        given = (named, request.headers.get(TOKEN_HEADER, ""), _cookie(request.headers))
        return any([self._is_token(one) for one in given])  # noqa: C419 - all of them, in constant time

    def _is_token(self, given: str) -> bool:
        return bool(self._token) and hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    async def _login(self, request: Request) -> Response:
        if request.method != "POST" or not _is_own(request):
            return _login_form("/")
        form = await read_body(request, LOGIN_LIMITS)
        if isinstance(form, Refusal):
            return _refused(form.status, form.message)
        fields = parse_qs(form.decode("utf-8", "replace"))
        following = _own_path(fields.get("next", [""])[0])
        if not self._is_token(fields.get("token", [""])[0]):
            return _login_form(following, problem=WRONG, status=401)
        return self._entered(request, following)

    def _entered(self, request: Request, following: str) -> Response:
        """On to a page, with the cookie that opens it."""
        response = RedirectResponse(following, 303)
        is_secure = request.scope.get("scheme") == "https"
        token = self._token.decode()
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=is_secure, path="/")
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
    raw: bytes = scope.get("raw_path") or path.encode()
    return {**scope, "path": f"/{rest}", "raw_path": b"/" + raw[3:].partition(b"/")[2]}, token


def _login_form(following: str, *, problem: str = "", status: int = 200) -> Response:
    return HTMLResponse(LOGIN.format(problem=problem, following=escape(following)), status)


def _path_of(request: Request) -> str:
    """What was asked for, to come back to."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope.get("query_string", b"")
    return _own_path((raw.partition(b"?")[0] + (b"?" + query if query else b"")).decode("ascii", "replace"))


def _own_path(text: str) -> str:
    """A path of this server's pages; the first of them in place of anything else."""
    return text if _OWN_PATH.fullmatch(text) and text != LOGIN_PATH else "/"


def _is_browsing(request: Request) -> bool:
    """Whether a browser opens a page, and not what belongs to one."""
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


def _is_loopback(host: str) -> bool:
    """Whether a host is this machine to every client: `localhost`, or an address of its loopback interface."""
    if host in LOOPBACK:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _unreadable(request: Request) -> Response | None:
    """The answer to HTTP/2 on a connection that did not negotiate it, and to a body with two lengths; else none.

    After two lengths nothing on the connection can be trusted: another program on the way may believe the other one.
    """
    if request.method == "PRI":
        return _refused(
            505, "The gateway speaks HTTP/1.1, not HTTP/2 with prior knowledge. Turn HTTP/2 off in the client.", CLOSE
        )
    if "content-length" in request.headers and "transfer-encoding" in request.headers:
        return _refused(400, "The request has both content-length and transfer-encoding. Send one of them.", CLOSE)
    return None


def _asks_for_socket(request: Request) -> bool:
    wishes = request.headers.get("connection", "").lower().split(",")
    return "upgrade" in map(str.strip, wishes) and request.headers.get("upgrade", "").lower() == "websocket"


def _no_socket() -> Response:
    return _refused(
        426, "The gateway has no websockets. Send the request by HTTP, as with POST /v1/responses.", NO_SOCKETS
    )


async def _close_socket(socket: WebSocket) -> None:
    """Refuse a websocket that the server has already recognised."""
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(_no_socket())
    else:
        await WebSocketClose()(socket.scope, socket.receive, socket.send)


def _is_own(request: Request) -> bool:
    """Whether a browser says that a request comes from our own pages; one without either header is no browser's."""
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
    """The token in a cookie; it is never quoted, and the standard library takes seconds to read a long quoted one."""
    pairs = (pair.partition("=") for pair in headers.get("cookie", "").split(";"))
    return next((value.strip() for name, _, value in pairs if name.strip() == COOKIE), "")


def _refused(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    error = {"message": message, "type": "infold_gateway_error", "code": status}
    return JSONResponse({"type": "error", "error": error}, status, headers)
