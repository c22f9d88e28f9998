"""Where requests go, with which headers, and how they are sent: over connections that all tenants share.

Nothing of one reply reaches another request. No cookie is kept, no redirect is followed and no environment variable is read:
those would take a credential elsewhere.

Connections are implemented directly on the event loop. The HTTP library's own backend sets up a deadline and registers the socket
with the selector around every single read. A streamed reply is read in many small chunks, and that took more time than everything
else that is done with one.
"""

import asyncio
import re
import select
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import inf
from types import TracebackType
from typing import Any, TypeAlias

import httpcore2
import httpx2
from msgspec import Struct

from infold.catalogue.served import Question
from infold.errors import UsageError
from infold.formats.requests import BETA_HEADER, add_betas, unstreamed_path
from infold.gateway.auth import COOKIE, GatewayTokens, decode_percent
from infold.gateway.request_body import GatewayLimits, ReplyDecoder
from infold.proxy.managed_request import OwnRequest, UpstreamReply
from infold.proxy.request import SESSION_HEADER

PROVIDERS = ("anthropic", "bedrock", "gemini", "openai", "vertex")

MOST_CACHED_URLS = 256
"""URLs that are cached: building one takes longer than the rest of sending a request."""

_PATHS = (("/v1/messages", "anthropic"), ("/v1/complete", "anthropic"), ("/v1beta", "gemini"), ("/v1alpha", "gemini"))
_BEDROCK, _VERTEX = "/model/", "/publishers/anthropic/"
_HEADERS = (("anthropic-version", "anthropic"), ("x-goog-api-key", "gemini"))
_GEMINI_METHOD = re.compile(r"/models/[^/]+:\w+$")
_VERSION = re.compile(rb"/v\d\w*(?=/|$)")
_SEPARATOR, _DOTS = re.compile(rb"[/\\]"), (b".", b"..")


Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Headers, byte for byte, repeated ones included."""


class BadTarget(ValueError):
    """A path or query that is not sent to an upstream; the message, which does not repeat it, says why and what to do."""


class Outgoing(Struct, frozen=True):
    """A request to an upstream, without its body; `base` is the upstream's own URL, as the settings have it."""

    method: str
    url: httpx2.URL
    headers: Headers
    base: str = ""


class Upstreams(Struct, frozen=True):
    """The base URL of each provider that is routed; `tokens` are the gateway's own, which reach no upstream."""

    named: Mapping[str, str]
    tokens: GatewayTokens = GatewayTokens()

    def outgoing(self, method: str, target: bytes, query: bytes, headers: Headers) -> Outgoing:
        """Return a client's request as it goes to its upstream; `target` is the path as the client wrote it.

        Raise `UsageError` if no upstream is set for it, and `BadTarget` if it cannot be sent.
        """
        base = self.base_for(target, by_name(headers))
        return Outgoing(method, self.url_for(base, target, query), forwarded(headers, self.tokens), base)

    def base_for(self, target: bytes, headers: Mapping[str, str]) -> str:
        """Return the base URL of the provider whose API a request is for; raise `UsageError` if none is set."""
        provider = provider_of(target.decode("latin-1"), headers)
        base = self.named.get(provider, "")
        if not base:
            raise UsageError(
                f"no upstream is set for {provider}; set upstreams.{provider}.base_url, INFOLD_UPSTREAMS_"
                f"{provider.upper()}_BASE_URL, or start with --upstream {provider}=URL"
            )
        return base

    def url_for(self, base: str, target: bytes, query: bytes) -> httpx2.URL:
        """Return the URL of a request at a base; fields of the query that hold a token are left out. Raise `BadTarget`."""
        if self.tokens.are_in(target):
            raise BadTarget("The path holds the gateway's token, which is not sent on. Begin the path with /t/TOKEN/.")
        if self.tokens.are_in(query):
            query = b"&".join(field for field in query.split(b"&") if not self.tokens.are_in(field))
        try:
            url = _url(base, target)
            return url.copy_with(raw_path=url.raw_path + b"?" + query) if query else url
        except (httpx2.InvalidURL, UnicodeDecodeError) as error:
            raise BadTarget("The path cannot be sent on. Check the base URL of your client.") from error


def own_url(url: httpx2.URL, path_suffix: str) -> httpx2.URL:
    """Return where a request of infold's own goes: that of a client's request, answered in one piece, with a longer path."""
    path, mark, query = unstreamed_path(url.raw_path.decode("ascii")).partition("?")
    longer = f"{path.rstrip('/')}{path_suffix}" if path_suffix else path
    return url.copy_with(raw_path=f"{longer}{mark}{query}".encode())


class Client(Struct, frozen=True):
    """A program that speaks as a provider's clients do, and the line that points it at a gateway's `{base}`."""

    provider: str
    name: str
    template: str

    def line(self, base: str) -> str:
        """Return the line for a gateway at that address."""
        return self.template.replace("{base}", base)


CLIENTS = (
    Client("openai", "OpenAI SDK", 'OpenAI(base_url="{base}/v1"), or OPENAI_BASE_URL={base}/v1'),
    Client("anthropic", "Anthropic SDK", 'Anthropic(base_url="{base}")'),
    Client("anthropic", "Claude Code", "ANTHROPIC_BASE_URL={base} claude"),
    Client("openai", "OpenCode", '"provider": {"openai": {"options": {"baseURL": "{base}/v1"}}}   in opencode.json'),
    Client(
        "openai",
        "Codex",
        """codex -c model_provider=infold -c 'model_providers.infold={name="infold", base_url="{base}/v1", """
        """env_key="OPENAI_API_KEY", wire_api="responses"}'""",
    ),
    Client("openai", "pi", '"providers": {"openai": {"baseUrl": "{base}/v1"}}   in ~/.pi/agent/models.json'),
    Client("gemini", "Gemini CLI", "GOOGLE_GEMINI_BASE_URL={base} gemini"),
    Client("bedrock", "Claude Code", "CLAUDE_CODE_USE_BEDROCK=1 ANTHROPIC_BEDROCK_BASE_URL={base} claude"),
    Client("vertex", "Claude Code", "CLAUDE_CODE_USE_VERTEX=1 ANTHROPIC_VERTEX_BASE_URL={base}/v1 claude"),
)

PUBLIC_ADDRESSES = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "bedrock": "https://bedrock-runtime.us-east-1.amazonaws.com",
    "vertex": "https://us-east5-aiplatform.googleapis.com/v1",
}
"""An example of an upstream for each provider, the most used first."""


def upstream_options(routed: Collection[str]) -> Iterator[str]:
    """Yield the options that would route the other providers."""
    return (f"--upstream {name}={url}" for name, url in PUBLIC_ADDRESSES.items() if name not in routed)


def provider_of(path: str, headers: Mapping[str, str]) -> str:
    """Return the provider whose API a path belongs to; for paths of several, headers that only one of them takes decide."""
    if path.startswith(_BEDROCK):
        return "bedrock"
    if _VERTEX in path:
        return "vertex"
    by_header = next((provider for name, provider in _HEADERS if name in headers), None)
    if by_header is not None:
        return by_header
    by_path = next((provider for start, provider in _PATHS if path.startswith(start)), "openai")
    return "gemini" if _GEMINI_METHOD.search(path) else by_path


def is_address(url: str) -> bool:
    """Whether a text is the URL of a server."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        return False
    return parsed.scheme in ("http", "https") and bool(parsed.host)


@lru_cache(MOST_CACHED_URLS)
def _url(base: str, target: bytes) -> httpx2.URL:
    """Return the URL of a path at a base, without the query, which may hold a credential and must not be cached.

    A version at the end of the base replaces the one that the path begins with. Raise `BadTarget` for a path that begins with
    no slash, which could become part of a host, and for dot segments, by which it could leave the base.
    """
    if not target.startswith(b"/"):
        raise BadTarget("The request names no path that begins with a slash. Check the base URL of your client.")
    if any(segment.partition(b";")[0] in _DOTS for segment in _SEPARATOR.split(decode_percent(target))):
        raise BadTarget("The path has a dot segment (. or .., also as %2e). Send the path without it.")
    url = httpx2.URL(base)
    path = url.raw_path.partition(b"?")[0].rstrip(b"/")
    versions = list(_VERSION.finditer(path))
    named = _VERSION.match(target)
    if named is not None and versions and versions[-1].end() == len(path):
        target = target[named.end() :]
    return url.copy_with(raw_path=path + target)


# Headers: one function for each direction.

NOTE_HEADER = "x-infold"
"""On every reply: whether the request was managed, or relayed as it was received and why."""

LONGEST_NOTE = 300

HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"),
        *(b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
REQUEST_FRAMING = frozenset({b"host", b"content-length", b"expect"})
OWN = b"x-infold"
"""How the names of the gateway's own headers begin."""

COOKIES, SET_COOKIE = b"cookie", b"set-cookie"
ACCEPTED_ENCODING = b"accept-encoding"
BETA = BETA_HEADER.encode()
ENCODING = b"content-encoding"
"""Left out with a body of infold's own, which is never compressed."""

THE_CLIENTS = (ENCODING, b"idempotency-key")
"""Left out of a request that is sent in addition to the client's, and must not count as the same one."""


def forwarded(headers: Iterable[tuple[bytes, bytes]], tokens: GatewayTokens = GatewayTokens()) -> Headers:  # noqa: B008
    """Return a client's headers for its upstream: without those that are meant for the gateway, or hold a token of it.

    Of cookies only those are left out that do.
    """
    given = tuple(headers)
    dropped = HOP_BY_HOP | REQUEST_FRAMING | _named_in_connection(given)
    kept: list[tuple[bytes, bytes]] = []
    for name, value in given:
        lower = name.lower()
        sent = _without_token(value, tokens) if lower == COOKIES else value
        is_own = lower in dropped or lower.startswith(OWN) or (lower == COOKIES and not sent)
        if not is_own and not tokens.are_in(sent):
            kept.append((name, sent))
    return tuple(kept)


def uncompressed_reply(headers: Headers) -> Headers:
    """Return headers that ask for a reply without compression, so that it can be observed."""
    return (*without(headers, ACCEPTED_ENCODING), (ACCEPTED_ENCODING, b"identity"))


def without(headers: Headers, *names: bytes) -> Headers:
    """Return headers without those of these names, in lower case."""
    return tuple(pair for pair in headers if pair[0].lower() not in names)


def with_betas(headers: Headers, betas: Sequence[str]) -> Headers:
    """Return headers with these betas besides the client's own."""
    if not betas:
        return headers
    given = b",".join(value for name, value in headers if name.lower() == BETA)
    return (*without(headers, BETA), (BETA, add_betas(given.decode("latin-1"), betas).encode("latin-1")))


def returned(headers: Iterable[tuple[bytes, bytes]], note: str, session_id: str | None = None) -> Headers:
    """Return an upstream's headers for the client, with a note on what was done.

    An upstream's own headers and cookie of the gateway's names are left out: they would speak for the gateway.
    """
    given = tuple(headers)
    dropped = HOP_BY_HOP | _named_in_connection(given)
    named = ((name.lower(), name, value) for name, value in given)
    kept = (
        (name, value)
        for lower, name, value in named
        if lower not in dropped and not lower.startswith(OWN) and not (lower == SET_COOKIE and _is_own_cookie(value))
    )
    session = () if session_id is None else ((SESSION_HEADER.encode(), _as_value(session_id)),)
    return (*kept, (NOTE_HEADER.encode(), _one_line(note)), *session)


def by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by their names in lower case, the first of each name; a client may send thousands."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reversed(tuple(headers))}


def _named_in_connection(headers: Headers) -> frozenset[bytes]:
    """Return the headers that a `connection` header declares hop-by-hop."""
    values = (value for name, value in headers if name.lower() == b"connection")
    return frozenset(name.strip().lower() for value in values for name in value.split(b","))


def _without_token(cookies: bytes, tokens: GatewayTokens) -> bytes:
    pairs = cookies.split(b";")
    kept = [pair for pair in pairs if not _is_own_cookie(pair) and not tokens.are_in(pair)]
    return cookies if len(kept) == len(pairs) else b";".join(kept).strip()


def _is_own_cookie(pair: bytes) -> bool:
    return pair.partition(b";")[0].partition(b"=")[0].strip().lower() == COOKIE.encode()


def _as_value(session_id: str) -> bytes:
    """Return a session's id as a header's value, which the client may send again."""
    shown = "".join(character if character.isprintable() else "?" for character in session_id)
    return shown.strip().encode("utf-8", "replace")


def _one_line(text: str) -> bytes:
    shown = "".join(character if " " <= character <= "~" else "?" for character in text)
    return shown[:LONGEST_NOTE].strip().encode()


# Sending.

MOST_CONNECTIONS = 1_000
MOST_IDLE = 100
IDLE_SECONDS = 5.0
"""How long an unused connection is kept: less than upstreams keep it, so that no request is sent on one that is closing."""

MOST_ANSWER_BYTES = 8 * 2**20
"""The largest answer to a request of infold's own; a summary is less than a thousandth of this."""

KNOWN_ERRORS = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)
"""All that a connection may raise."""


class Sender:
    """The connections to all upstreams; an async context manager."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=MOST_IDLE,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=Network(),
        )
        timeout = httpx2.Timeout(limits.upstream_seconds, connect=limits.connect_seconds)
        self._extensions = {"timeout": timeout.as_dict()}

    async def __aenter__(self) -> "Sender":
        await self._pool.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.__aexit__(kind, error, trace)

    async def send(self, outgoing: Outgoing, content: bytes) -> httpx2.Response:
        """Send a request and return the response with its body unread; the caller closes it. Raise `httpx2.HTTPError`."""
        request = httpx2.Request(outgoing.method, outgoing.url, headers=outgoing.headers, content=content or None)
        url = request.url
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        with _translate_errors():
            answer = await self._pool.handle_async_request(
                httpcore2.Request(
                    request.method, target, headers=request.headers.raw, content=content, extensions=self._extensions
                )
            )
        response = httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer))
        problem = _problem_of(response)
        if problem:
            await response.aclose()
            raise BadReply(problem)
        return response

    async def ask(self, outgoing: Outgoing, own: OwnRequest) -> UpstreamReply:
        """Send a request of infold's own where a client's goes, with its credentials, and return the complete answer."""
        url = own_url(outgoing.url, own.path_suffix)
        headers = with_betas(without(uncompressed_reply(outgoing.headers), *THE_CLIENTS), own.betas)
        response = await self.send(Outgoing(outgoing.method, url, headers), own.content)
        decoder = ReplyDecoder(response.headers.get("content-encoding", ""))
        body = bytearray()
        try:
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            async for chunk in response.stream:
                body += decoder.decode(chunk)
                if len(body) > MOST_ANSWER_BYTES:
                    raise httpx2.RemoteProtocolError("the upstream's answer is too large")
        finally:
            await response.aclose()
        return UpstreamReply(response.status_code, bytes(body))

    async def look_up(self, outgoing: Outgoing, question: Question) -> bytes | None:
        """Ask where a client's request goes, with its headers if the question is one of the same API.

        Return the answer, `None` if there is none.
        """
        own = ((b"content-type", b"application/json"),) if question.body else ()
        headers = outgoing.headers if question.is_of_api else own
        asked = Outgoing(question.method, httpx2.URL(question.url), headers)
        try:
            async with asyncio.timeout(question.seconds):
                reply = await self.ask(asked, OwnRequest(question.body))
        except (TimeoutError, httpx2.HTTPError):
            return None
        return reply.body if reply.status == 200 else None


class BadReply(httpx2.RemoteProtocolError):
    """An upstream's reply that is not HTTP/1.1 as it has to be; the message is a sentence for the client."""


def _problem_of(response: httpx2.Response) -> str:
    """Return why a reply is not passed on; empty if it is."""
    if not 200 <= response.status_code <= 599:
        return f"The upstream answered with status {response.status_code}, which does not exist."
    if "content-length" in response.headers and "transfer-encoding" in response.headers:
        return "The upstream's reply has both content-length and transfer-encoding, so its end is not certain."
    return ""


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, as it arrives."""

    def __init__(self, answer: httpcore2.Response) -> None:
        assert isinstance(answer.stream, AsyncIterable)
        self._answer = answer
        self._chunks = answer.stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translate_errors():
            async for chunk in self._chunks:
                yield chunk

    async def aclose(self) -> None:
        """Close the connection, or return it to the pool."""
        await self._answer.aclose()


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise the errors of httpcore as those of httpx; both have the same names."""
    try:
        yield
    except KNOWN_ERRORS as error:
        raise getattr(httpx2, type(error).__name__)(str(error)) from error


# Connections.

MOST_WAITING_BYTES = 256 * 1024
"""Unread bytes above which the upstream has to wait: a client that reads slowly must not fill the memory."""

NEXT_ADDRESS_SECONDS = 0.25
"""How long one address of a host is tried before the next is tried in parallel (RFC 8305)."""

_NAMES = {"client_addr": "sockname", "server_addr": "peername"}
"""Names of the library for what the event loop calls otherwise."""


class Network(httpcore2.AsyncNetworkBackend):
    """Opens connections in the running event loop."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> "Connection":
        """Open a connection; raise `ConnectTimeout` or `ConnectError`."""
        loop = asyncio.get_running_loop()
        own = None if local_address is None else (local_address, 0)
        with _translate_os_errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
            async with asyncio.timeout(timeout):
                transport, connection = await loop.create_connection(
                    Connection, host, port, local_addr=own, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS
                )
        for option in socket_options or ():
            transport.get_extra_info("socket").setsockopt(*option)
        return connection

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)


class Connection(asyncio.Protocol, httpcore2.AsyncNetworkStream):
    """One connection, plain or encrypted; a read that is cancelled loses no data."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._unread = bytearray()
        self._waiting: asyncio.Future[bool] | None = None
        self._deadline = inf
        self._timer: asyncio.TimerHandle | None = None
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_over = self._is_held_back = False
        self._problem: Exception | None = None

    # Called by the library.

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes, empty at the end; raise `ReadTimeout` or `ReadError`."""
        if not self._unread and not self._is_over and not await self._wait_for_data(timeout):
            raise httpcore2.ReadTimeout(f"nothing came for {timeout} seconds")
        if not self._unread and self._problem is not None:
            raise httpcore2.ReadError(str(self._problem)) from self._problem
        piece = bytes(self._unread[:max_bytes])
        del self._unread[:max_bytes]
        if self._is_held_back and len(self._unread) <= MOST_WAITING_BYTES:
            self._is_held_back = False
            self._transport.resume_reading()
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it; raise `WriteTimeout` or `WriteError`."""
        if not buffer:
            return
        if not self._transport.is_closing():
            self._transport.write(buffer)
        if not self._has_room.is_set():
            with _translate_os_errors(httpcore2.WriteTimeout, httpcore2.WriteError):
                async with asyncio.timeout(timeout):
                    await self._has_room.wait()
        if self._transport.is_closing():
            raise httpcore2.WriteError("the connection has ended") from self._problem

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "Connection":
        """Encrypt the connection from here on; raise `ConnectTimeout` or `ConnectError`, and close it.

        Data that was received in clear before that is refused: it may be from a third party, and would count as the upstream's.
        """
        try:
            if self._unread:
                raise httpcore2.ConnectError("the upstream spoke before the connection was encrypted")
            with _translate_os_errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
                async with asyncio.timeout(timeout):
                    encrypted = await self._loop.start_tls(
                        self._transport, self, ssl_context, server_hostname=server_hostname
                    )
        except BaseException:
            await self.aclose()
            raise
        assert encrypted is not None
        self._transport = encrypted
        return self

    async def aclose(self) -> None:
        """Close it at once, without sending the rest."""
        self._transport.abort()

    def get_extra_info(self, info: str) -> Any:
        """Return what the library asks for; `is_readable`: the other side has closed an idle connection, or sent data on it."""
        if info == "is_readable":
            return bool(self._unread) or self._is_over or _has_data(self._transport)
        return self._transport.get_extra_info(_NAMES.get(info, info))

    # Waiting. Each read moves the deadline; the timer checks it when it fires, so that reads set up no timers.

    async def _wait_for_data(self, timeout: float | None) -> bool:
        """Wait until data arrives or the connection ends; return false on timeout."""
        self._waiting = self._loop.create_future()
        self._deadline = inf if timeout is None else self._loop.time() + timeout
        if self._deadline < (inf if self._timer is None else self._timer.when()):
            self._set_timer()
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._waiting is None or self._deadline == inf:
            return
        if self._loop.time() < self._deadline:
            self._set_timer()
        else:
            self._wake(is_late=True)

    def _wake(self, *, is_late: bool) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(not is_late)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Buffer data until it is read; pause the upstream if that is much."""
        self._unread += data
        self._wake(is_late=False)
        if len(self._unread) > MOST_WAITING_BYTES and not self._is_held_back:
            self._is_held_back = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """Note the end of the data; the event loop closes the connection once all is sent."""
        self._is_over = True
        self._wake(is_late=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake up readers and writers."""
        self._is_over, self._problem = True, exc
        if self._timer is not None:
            self._timer.cancel()
        self._wake(is_late=False)
        self._has_room.set()

    def pause_writing(self) -> None:
        """Make writers wait."""
        self._has_room.clear()

    def resume_writing(self) -> None:
        """Let writers continue."""
        self._has_room.set()


@contextmanager
def _translate_os_errors(late: type[Exception], broken: type[Exception]) -> Iterator[None]:
    """Raise the event loop's errors as those of the library."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except OSError as error:
        raise broken(str(error)) from error


def _has_data(transport: asyncio.Transport) -> bool:
    """Whether there is data that the event loop has not read yet; a connection without a socket has ended."""
    number = transport.get_extra_info("socket").fileno()
    if number < 0:
        return True
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))
