"""The HTTP clients and transports of a wrapped SDK client, sync and async: relay a request, recover once, record the reply.

If infold fails, the caller's request is sent as it is and its reply is passed on; `FailedOpen` reports it. The relay is written
once, as coroutines; for a sync client they never suspend, so that `_run` gets their result at once.
"""

from asyncio import timeout, to_thread
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing, closing, contextmanager
from functools import cache, partial
from time import monotonic
from typing import Any, Generic, TypeAlias, TypeVar

import httpx2

from infold.catalogue.served import MOST_ANSWER_BYTES, Question
from infold.core.events import Event, FailedOpen, NotManaged
from infold.errors import PromptTooLarge, UsageError
from infold.formats.overflow import Overflow
from infold.formats.registry import OPENAI_CHAT
from infold.formats.requests import (
    BETA_HEADER,
    ProviderRequest,
    Unmanaged,
    add_betas,
    counted_path,
    format_of_path,
    unstreamed_path,
)
from infold.observers.bus import Bus
from infold.ports import FullStore
from infold.proxy.managed_request import ManagedRequest, OwnRequest, ReplyObserver, UpstreamReply, UpstreamServer
from infold.proxy.request import SESSION_HEADER, ParsedRequest, parse_request
from infold.proxy.sessions import SessionPool, settings_for
from infold.session.settings import SessionSettings
from infold.session.threads import LoopCallbacks, ThreadBridge

Tell = Callable[[FailedOpen | NotManaged], None]
"""Reports a request that was sent as it is; must not raise."""

ACCEPTED_ENCODING = "accept-encoding"
CONTENT_TYPE = "content-type"
IDEMPOTENCY_KEY = "idempotency-key"
FRAMING = frozenset({"content-length", "transfer-encoding", "content-encoding"})

Inner = TypeVar("Inner", httpx2.Client, httpx2.AsyncClient)
Value = TypeVar("Value")


# Clients.


class WrappedClient(httpx2.Client):
    """Sends through infold what would go through `inner`."""

    def __init__(self, inner: httpx2.Client, transport: "InfoldTransport") -> None:
        super().__init__(transport=transport, **_defaults_of(inner))
        self.inner = inner


class AsyncWrappedClient(httpx2.AsyncClient):
    """Sends through infold what would go through `inner`."""

    def __init__(self, inner: httpx2.AsyncClient, transport: "AsyncInfoldTransport") -> None:
        super().__init__(transport=transport, **_defaults_of(inner))
        self.inner = inner


def http_client_of(client: object, name: str = "_client") -> httpx2.Client | httpx2.AsyncClient:
    """Return the HTTP client of an SDK client, without an earlier wrap; raise `UsageError` if it is of another library."""
    inner = getattr(client, name, None)
    inner = inner.inner if isinstance(inner, WrappedClient | AsyncWrappedClient) else inner
    if not isinstance(inner, httpx2.Client | httpx2.AsyncClient):
        raise UsageError(
            f"the {type(client).__name__} sends through no httpx2 client; use a current version of its SDK and, where you "
            "give it an http_client, one of httpx2"
        )
    return inner


def wrap_http_client(
    inner: httpx2.Client | httpx2.AsyncClient,
    store: FullStore,
    settings: SessionSettings,
    *,
    tenant: str = "",
    session: str | None = None,
    on_close: Callable[[], None] | None = None,
) -> WrappedClient | AsyncWrappedClient:
    """Return a client that sends through infold what would go through `inner`; `on_close` is called when it is closed.

    Raise `UsageError` for settings under which no session could be opened.
    """
    settings_for(settings, ProviderRequest(OPENAI_CHAT, ())).resolve()
    bus = Bus()  # a callback that raises must not keep a request from being sent
    if settings.on_event is not None:
        bus.subscribe(Event, settings.on_event)
    if isinstance(inner, httpx2.Client):
        pool = SessionPool(store, settings, tenant)
        return WrappedClient(inner, InfoldTransport(inner, pool, bus.observe, session=session, end=on_close))
    pool = SessionPool(store, settings, tenant, callbacks=lambda: LoopCallbacks(Bus()))
    return AsyncWrappedClient(inner, AsyncInfoldTransport(inner, pool, bus.observe, session=session, end=on_close))


def _defaults_of(inner: httpx2.Client | httpx2.AsyncClient) -> dict[str, Any]:
    """Return what a client adds to the requests that it builds; its other options apply when it sends them."""
    return {
        "timeout": inner.timeout,
        "headers": inner.headers,
        "params": inner.params,
        "cookies": inner.cookies,
    }


# Transports.


class _Relay(Generic[Inner]):
    """Relays the requests of one client; `end` is called when it is closed."""

    def __init__(
        self,
        inner: Inner,
        pool: SessionPool,
        tell: Tell,
        *,
        session: str | None = None,
        end: Callable[[], None] | None = None,
    ) -> None:
        self._inner: Inner = inner
        self._pool = pool
        self._tell = tell
        self._session = session
        self._end = end

    async def _handle(self, request: httpx2.Request, calls: "_Calls") -> httpx2.Response:
        headers = _take_session_header(request, self._session)
        counted = counted_path(request.url.path) if request.method == "POST" else ""
        if counted:
            return await calls.send(await self._as_sent(request, counted, headers, calls))
        if request.method != "POST" or format_of_path(request.url.path) is None:
            return await calls.send(request)
        content = await calls.read_request(request)
        managed = await self._begin(request, headers, content, calls)
        if managed is None:
            return await calls.send(request)
        if isinstance(managed, PromptTooLarge):
            return _refusal(managed)
        reply = await self._send(_with_body(request, managed.content), managed, calls)
        while (overflow := reply.overflow) is not None and managed.may_recover(overflow):
            recovered = False
            with self._failing_open(managed.parsed.session_name):
                recovered = await calls.prepare(partial(managed.recover, overflow))
            if not recovered:
                break
            await reply.discard()
            reply = await self._send(_as_another_request(request, managed.content), managed, calls)
        return await reply.response()

    async def _as_sent(
        self, request: httpx2.Request, path: str, headers: dict[str, str], calls: "_Calls"
    ) -> httpx2.Request:
        """Return a request that counts the tokens of what would be sent to that path, instead of the caller's whole list."""
        content = await calls.read_request(request)
        with self._failing_open(None):
            parsed = parse_request(path, headers, content, host=request.url.netloc.decode("ascii"))
            if isinstance(parsed, ParsedRequest):
                shown = await calls.prepare(partial(self._pool.counted, parsed))
                if shown.content != content:
                    request = _with_body(request, shown.content)
                    if shown.betas:
                        request.headers[BETA_HEADER] = add_betas(request.headers.get(BETA_HEADER, ""), shown.betas)
        return request

    async def _begin(
        self, request: httpx2.Request, headers: dict[str, str], content: bytes, calls: "_Calls"
    ) -> ManagedRequest | PromptTooLarge | None:
        """Prepare a request; return `None` if it is to be sent as it is, an error if it cannot be answered at all."""
        parsed: ParsedRequest | Unmanaged | None = None
        with self._failing_open(None):
            parsed = parse_request(request.url.path, headers, content, host=request.url.netloc.decode("ascii"))
        if isinstance(parsed, Unmanaged) and parsed.is_history:
            self._tell(NotManaged(headers.get(SESSION_HEADER, ""), parsed.why))
        if not isinstance(parsed, ParsedRequest):
            return None
        managed: ManagedRequest | None = None
        with self._failing_open(parsed.session_name):
            ask = partial(_ask, request, calls)
            server = UpstreamServer(str(request.url), partial(_look_up, request, calls))
            try:
                managed = await calls.prepare(lambda: self._pool.begin(parsed, ask, server))
            except PromptTooLarge as error:
                return error
            if parsed.relayed:
                self._tell(NotManaged(managed.session_id or "", parsed.relayed))
            if managed.store_error is not None:
                self._tell(_failure(parsed.session_name, managed.store_error))
        return managed

    async def _send(self, request: httpx2.Request, managed: ManagedRequest, calls: "_Calls") -> "_Reply":
        if managed.betas:
            request.headers[BETA_HEADER] = add_betas(request.headers.get(BETA_HEADER, ""), managed.betas)
        response = await calls.send(request)
        reply = _Reply(response, managed, calls, lambda: self._failing_open(managed.parsed.session_name))
        try:
            await reply.read_opening()
        except BaseException:
            await reply.aclose()
            raise
        return reply

    @contextmanager
    def _failing_open(self, session_name: str | None) -> Iterator[None]:
        """Report an error of infold and go on: the request is the caller's."""
        try:
            yield
        except Exception as error:  # whatever it is, the request is sent and its reply comes back
            self._tell(_failure(session_name, error))


class InfoldTransport(_Relay[httpx2.Client], httpx2.BaseTransport):
    """Sends the requests of a sync client, made to fit."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Relay one request and its reply."""
        return _run(self._handle(request, _BlockingCalls(self._inner)))

    def close(self) -> None:
        """Cancel summaries in the background, and close the client that this one sends through."""
        self._pool.close()
        self._inner.close()
        if self._end is not None:
            self._end()


class AsyncInfoldTransport(_Relay[httpx2.AsyncClient], httpx2.AsyncBaseTransport):
    """Sends the requests of an async client, made to fit; its sessions run in threads."""

    def __init__(self, inner: httpx2.AsyncClient, pool: SessionPool, tell: Tell, **given: Any) -> None:
        super().__init__(inner, pool, tell, **given)
        self._threads = ThreadBridge()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Relay one request and its reply."""
        return await self._handle(request, _AwaitedCalls(self._inner, self._threads))

    async def aclose(self) -> None:
        """Cancel summaries in the background, and close the client that this one sends through."""
        self._pool.close()
        self._threads.close()
        await self._inner.aclose()
        if self._end is not None:
            await to_thread(self._end)


# What one request needs of its HTTP client and of threads; for sync clients without suspending.


class _BlockingCalls:
    def __init__(self, client: httpx2.Client) -> None:
        self._client = client
        self._chunks: Iterator[bytes] | None = None

    async def read_request(self, request: httpx2.Request) -> bytes:
        return request.read()

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        self._chunks = None
        return self._client.send(request, stream=True)

    async def read(self, response: httpx2.Response) -> bytes:
        return response.read()

    async def next_chunk(self, response: httpx2.Response) -> bytes | None:
        self._chunks = self._chunks or response.iter_bytes()
        return next(self._chunks, None)

    async def close(self, response: httpx2.Response) -> None:
        response.close()

    async def prepare(self, work: Callable[[], Value]) -> Value:
        return work()

    record = prepare

    def ask(self, request: httpx2.Request) -> UpstreamReply:
        response = self._client.send(request)
        return UpstreamReply(response.status_code, response.content)

    def look_up(self, request: httpx2.Request, seconds: float) -> bytes | None:
        body, until = bytearray(), monotonic() + seconds
        try:
            response = self._client.send(request, stream=True, follow_redirects=False)
            with closing(response):
                for chunk in response.iter_bytes():
                    body += chunk
                    if not _is_in_time(body, until):
                        return None
        except httpx2.HTTPError:
            return None
        return bytes(body) if response.status_code == 200 else None


class _AwaitedCalls:
    def __init__(self, client: httpx2.AsyncClient, threads: ThreadBridge) -> None:
        self.prepare, self.record = threads.prepare, threads.record
        self._client = client
        self._chunks: AsyncIterator[bytes] | None = None

    async def read_request(self, request: httpx2.Request) -> bytes:
        return await request.aread()

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        self._chunks = None
        return await self._client.send(request, stream=True)

    async def read(self, response: httpx2.Response) -> bytes:
        return await response.aread()

    async def next_chunk(self, response: httpx2.Response) -> bytes | None:
        self._chunks = self._chunks or response.aiter_bytes()
        return await anext(self._chunks, None)

    async def close(self, response: httpx2.Response) -> None:
        await response.aclose()

    async def ask(self, request: httpx2.Request) -> UpstreamReply:
        response = await self._client.send(request)
        return UpstreamReply(response.status_code, response.content)

    async def look_up(self, request: httpx2.Request, seconds: float) -> bytes | None:
        try:
            async with timeout(seconds):
                response = await self._client.send(request, stream=True, follow_redirects=False)
                body, until = bytearray(), monotonic() + seconds
                async with aclosing(response):
                    async for chunk in response.aiter_bytes():
                        body += chunk
                        if not _is_in_time(body, until):
                            return None
        except (TimeoutError, httpx2.HTTPError):
            return None
        return bytes(body) if response.status_code == 200 else None


def _is_in_time(body: bytearray, until: float) -> bool:
    return len(body) <= MOST_ANSWER_BYTES and monotonic() < until


_Calls: TypeAlias = _BlockingCalls | _AwaitedCalls


class _Reply(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """The body of a reply, passed on as it arrives, and recorded when it ends or is closed."""

    def __init__(
        self,
        response: httpx2.Response,
        managed: ManagedRequest,
        calls: _Calls,
        failing_open: Callable[[], Any],
    ) -> None:
        content_type = response.headers.get("content-type", "")
        self._response = response
        self._observer = ReplyObserver(managed.parsed, response.status_code, content_type)
        self._managed = managed
        self._calls = calls
        self._failing_open = failing_open
        self._held: list[bytes] = []
        self._is_recorded = False

    @property
    def overflow(self) -> Overflow | None:
        """The refusal for size or thinking that it is; `None` if it is something else."""
        return self._observer.overflow

    async def discard(self) -> None:
        """Close a refusal, which is not recorded."""
        self._is_recorded = True
        await self.aclose()

    async def read_opening(self) -> None:
        """Read all of it, or a stream until it has content."""
        if not self._observer.is_stream:
            self._held = [await self._calls.read(self._response)]
            self._observer.observe(self._held[0])
            return
        while self._observer.is_held and (chunk := await self._calls.next_chunk(self._response)) is not None:
            self._observer.observe(chunk)
            self._held.append(chunk)

    async def response(self) -> httpx2.Response:
        """Return the response for the caller, its body decompressed; a complete one is recorded."""
        headers, length = self._response.headers.multi_items(), None
        if not self._observer.is_stream:
            await self._record()
            length = len(self._held[0])
        if length is not None or "content-encoding" in self._response.headers:
            headers = [(name, value) for name, value in headers if name.lower() not in FRAMING]
        if length is not None:
            headers.append(("content-length", str(length)))
        extensions = {name: value for name, value in self._response.extensions.items() if name != "network_stream"}
        return httpx2.Response(self._response.status_code, headers=headers, stream=self, extensions=extensions)

    def __iter__(self) -> Iterator[bytes]:
        while (chunk := _run(self._next())) is not None:
            yield chunk

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self._next()) is not None:
            yield chunk

    def close(self) -> None:
        """Close the response, and record what was read of it."""
        _run(self.aclose())

    async def aclose(self) -> None:
        """Close the response, and record what was read of it."""
        await self._calls.close(self._response)
        await self._record()

    async def _next(self) -> bytes | None:
        if self._held:
            return self._held.pop(0)
        if self._observer.is_stream:
            chunk = await self._calls.next_chunk(self._response)
            if chunk is not None:
                self._observer.observe(chunk)
                return chunk
        await self._record()
        return None

    async def _record(self) -> None:
        if self._is_recorded:
            return
        self._is_recorded = True
        self._observer.close()
        if self._observer.is_recordable:
            with self._failing_open():
                await self._calls.record(lambda: self._managed.record(self._observer))


def _run(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine of a sync client, which never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: Value = stop.value
        return result
    raise AssertionError("a sync client waits in place")


def _refusal(error: PromptTooLarge) -> httpx2.Response:
    """Return an answer in the shape that SDKs read errors from, with a status after which they do not try again."""
    content = {"type": "error", "error": {"type": "invalid_request_error", "message": str(error), "code": 400}}
    return httpx2.Response(400, json=content)


def _failure(session_name: str | None, error: Exception) -> FailedOpen:
    return FailedOpen(session_name or "", f"{type(error).__name__}: {error!s}")


# Requests.


def _take_session_header(request: httpx2.Request, session: str | None) -> dict[str, str]:
    """Return a request's headers by lower-case name, with the name of its session, which is removed from the request."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    if session is not None:
        headers.setdefault(SESSION_HEADER, session)
    request.headers.pop(SESSION_HEADER, None)
    return headers


def _with_body(request: httpx2.Request, content: bytes, *dropped: str) -> httpx2.Request:
    """Return the same request with that body, without these headers."""
    left_out = FRAMING | {ACCEPTED_ENCODING, *dropped}
    headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() not in left_out]
    return httpx2.Request(
        request.method,
        request.url,
        headers=[*headers, (ACCEPTED_ENCODING, _decodable(request.headers.get(ACCEPTED_ENCODING, "")))],
        content=content,
        extensions=request.extensions,
    )


def _ask(request: httpx2.Request, calls: _Calls, own: OwnRequest) -> UpstreamReply | Awaitable[UpstreamReply]:
    """Send a request of infold's own where a caller's goes."""
    another = _as_another_request(request, own.content)
    another.url = httpx2.URL(unstreamed_path(str(another.url)))
    if own.path_suffix:
        another.url = another.url.copy_with(path=f"{another.url.path.rstrip('/')}{own.path_suffix}")
    if own.betas:
        another.headers[BETA_HEADER] = add_betas(another.headers.get(BETA_HEADER, ""), own.betas)
    return calls.ask(another)


def _look_up(request: httpx2.Request, calls: _Calls, question: Question) -> bytes | Awaitable[bytes | None] | None:
    """Ask the server that a caller's request goes to, with its credentials."""
    half = question.seconds / 2  # one half to connect, the other to answer
    asked = _with_body(request, question.body, IDEMPOTENCY_KEY, *(() if question.body else (CONTENT_TYPE,)))
    asked.method, asked.url = question.method, httpx2.URL(question.url)
    asked.extensions = {"timeout": httpx2.Timeout(half).as_dict()}
    return calls.look_up(asked, question.seconds)


def _as_another_request(request: httpx2.Request, content: bytes) -> httpx2.Request:
    """Return a request that is sent in addition to the caller's, and must not count as the same one."""
    return _with_body(request, content, IDEMPOTENCY_KEY)


def _decodable(accepted: str) -> str:
    """Return the encodings that a client accepts and that can be decoded here, since replies are observed."""
    known = _known_encodings()
    kept = [one for one in accepted.split(",") if one.partition(";")[0].strip().lower() in known]
    return ",".join(kept).strip() or "identity"


@cache
def _known_encodings() -> frozenset[str]:
    """Return the encodings that the HTTP library decodes, which are those that its clients ask for."""
    with httpx2.Client(transport=httpx2.BaseTransport()) as client:
        return frozenset({"identity", *client.headers[ACCEPTED_ENCODING].replace(" ", "").split(",")})
