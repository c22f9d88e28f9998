"""Relay one request: prepared to fit on its way out, its reply passed on as it arrives, byte for byte, and recorded.

What may still turn out to be a refusal is held back for a short time, and the end of a reply waits until the session has recorded
it, so that the client's next request finds it there.

Fails open: if infold itself fails, the client's request is sent as it was received, and a header and an event say so. While the
store fails, requests are still prepared, but not stored. Headers, errors and fields that infold does not know stay as they are.
"""

import logging
from asyncio import FIRST_COMPLETED, Future, create_task, ensure_future, gather, get_running_loop, wait
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, cast

import httpx2
from anyio import CancelScope
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from infold.core.events import FailedOpen, NotManaged
from infold.errors import BrokenInput, InfoldError, PromptTooLarge, StoreError, UsageError
from infold.formats.codec import MalformedError
from infold.formats.overflow import Overflow
from infold.formats.requests import Unmanaged, format_of_path
from infold.gateway.event_hub import EventHub, ServedRequest
from infold.gateway.request_body import GatewayLimits, Refusal, ReplyDecoder, decompress_body, read_body
from infold.gateway.tenants import Tenants, TenantSessions
from infold.gateway.upstream import (
    ENCODING,
    NOTE_HEADER,
    THE_CLIENTS,
    BadReply,
    BadTarget,
    Headers,
    Outgoing,
    Sender,
    Upstreams,
    by_name,
    returned,
    uncompressed_reply,
    with_betas,
    without,
)
from infold.proxy.managed_request import ManagedRequest, ReplyObserver, UpstreamServer
from infold.proxy.request import SESSION_HEADER, ParsedRequest, parse_request

MANAGED = "managed"
INCOMPLETE = frozenset({408, 413})
"""Refusals of a request that may still be arriving: its connection is closed with the answer."""

OPENING_SECONDS = 10.0
"""How long a stream without content is held back; refusals for size arrive sooner, and clients wait longer."""

LINGER_SECONDS = 2.0
"""How long the end of a stream is held back for its last bytes, which report the usage."""

MOST_LAST_BYTES = 4 * 2**20

_log = logging.getLogger(__name__)


class _Incoming(Struct, frozen=True):
    """A request as it was received, its tenant, and where it goes."""

    path: str
    headers: Mapping[str, str]
    encoding: str
    raw: bytes
    tenant: str
    account: str
    outgoing: Outgoing

    def relayed(self, why: str) -> "_Outbound":
        """Return the request as it was received."""
        return _Outbound(self.outgoing, self.raw, f"relayed; {why}")


class _Outbound(Struct, frozen=True):
    """A request as it is sent, and the note for the client; `managed` is `None` if it is relayed as it was received."""

    outgoing: Outgoing
    content: bytes
    note: str
    managed: ManagedRequest | None = None

    @property
    def full_note(self) -> str:
        """The note, and whether the output limit was lowered, which a recovery may change."""
        return self.note if self.managed is None else f"{self.note}{self.managed.output_note}"


class _Exchange:
    """One request and what became of it, as far as that is reported: its status is read from what is sent."""

    def __init__(self, scope: Scope, send: Send, path: str) -> None:
        self.scope = scope
        self.path = path
        self.outbound: _Outbound | Refusal | None = None
        self.problem = ""
        self._send = send
        self._status = 0
        self._began = monotonic()

    async def send(self, message: Message) -> None:
        """Send on, and note the status."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)

    def served(self) -> ServedRequest:
        """Return what became of it until now."""
        outbound = self.outbound
        managed = outbound.managed if isinstance(outbound, _Outbound) else None
        usage = None if managed is None else managed.usage
        return ServedRequest(
            self.scope["method"],
            self.path,
            self._status,
            round((monotonic() - self._began) * 1000),
            outbound.full_note if isinstance(outbound, _Outbound) else "refused",
            (managed.session_id or "") if managed is not None else "",
            None if usage is None else usage.prompt,
            None if usage is None else usage.output + usage.reasoning,
            self.problem,
        )


class Relay:
    """An ASGI application between clients and upstreams."""

    def __init__(
        self,
        sender: Sender,
        upstreams: Upstreams,
        tenants: Tenants,
        sessions: TenantSessions,
        *,
        hub: EventHub,
        limits: GatewayLimits,
    ) -> None:
        self._sender = sender
        self._upstreams = upstreams
        self._tenants = tenants
        self._sessions = sessions
        self._hub = hub
        self._limits = limits
        self._logged_store_error = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever its method and path; once it is sent, a disconnect of the client cancels it."""
        path: str = scope["path"]
        exchange = _Exchange(scope, send, "/…" if self._upstreams.tokens.are_in(path.encode()) else path)
        try:
            outbound = exchange.outbound = await self._prepare(Request(scope, receive))
            if isinstance(outbound, Refusal):
                await refuse(outbound)(scope, receive, exchange.send)
            else:
                await cancel_on_disconnect(receive, self._answer(outbound, exchange, receive))
        finally:
            self._hub.report(exchange.served())

    async def _answer(self, outbound: _Outbound, exchange: "_Exchange", receive: Receive) -> None:
        managed = outbound.managed
        try:
            reply, note = await self._fetch(outbound)
        except httpx2.TimeoutException as error:
            problem = "the upstream took too long to answer; try again, or raise the time allowed"
            exchange.problem = f"{outbound.outgoing.url.host}: {type(error).__name__}"
            await refuse(Refusal(504, problem))(exchange.scope, receive, exchange.send)
        except httpx2.HTTPError as error:
            problem = f"the upstream could not be reached or broke off ({type(error).__name__}); try again, or check its address"
            if isinstance(error, BadReply):
                problem = f"{error} Report this to the operator of the upstream."
            exchange.problem = f"{outbound.outgoing.url.host}: {type(error).__name__}"
            await refuse(Refusal(502, problem))(exchange.scope, receive, exchange.send)
        else:
            session_id = None if managed is None else managed.session_id
            exchange.problem = reply.error_kind() if reply.status >= 400 else ""
            await reply.pass_on(exchange.send, returned(reply.headers.raw, note, session_id))

    async def _fetch(self, outbound: _Outbound) -> "tuple[ObservedReply, str]":
        """Return the reply to a request, recovered from refusals for its size, and the note for the client."""
        managed = outbound.managed
        reply = await self._send(outbound.outgoing, outbound.content, managed)
        while managed and (overflow := reply.overflow) is not None and managed.may_recover(overflow):
            problem = await self._recover(reply, managed, overflow)
            if problem:
                return reply, f"{outbound.full_note}; not recovered: {problem}"
            await reply.aclose()
            again = replace(outbound.outgoing, headers=without(outbound.outgoing.headers, *THE_CLIENTS))
            reply = await self._send(again, managed.content, managed)
        return reply, outbound.full_note

    # On the way out.

    async def _prepare(self, request: Request) -> _Outbound | Refusal:
        raw = await read_body(request, self._limits)
        if isinstance(raw, Refusal):
            return raw
        headers = by_name(request.headers.raw)
        target: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        try:
            outgoing = self._upstreams.outgoing(
                request.method, target, request.scope["query_string"], tuple(request.headers.raw)
            )
        except UsageError as error:
            return Refusal(503, str(error))
        except BadTarget as error:
            return Refusal(400, str(error))
        try:
            tenant = self._tenants.of(headers, request.query_params)
        except UsageError as error:
            return Refusal(400, str(error))
        encoding = ", ".join(request.headers.getlist("content-encoding"))
        account = self._tenants.account_of(headers, request.query_params)
        return await self._manage(_Incoming(request.scope["path"], headers, encoding, raw, tenant, account, outgoing))

    async def _manage(self, incoming: _Incoming) -> _Outbound | Refusal:
        """Prepare a request in a thread; relay it as it was received if that fails, or if it has no history.

        It is refused only if no provider could answer it.
        """
        if incoming.outgoing.method != "POST":
            return incoming.relayed("not a conversation")
        if format_of_path(incoming.path) is None:
            return incoming.relayed("the path takes no messages")
        if not incoming.raw:
            return incoming.relayed("the body is empty")
        try:
            return await self._sessions.threads.prepare(partial(self._begin, incoming))
        except RuntimeError as error:  # no thread can be started
            return incoming.relayed(self._report(error, None))

    def _begin(self, incoming: _Incoming) -> _Outbound | Refusal:
        """Parse and prepare a request; this blocks and runs in a thread."""
        outgoing, name = incoming.outgoing, None
        try:
            parsed = _parse(incoming, self._limits)
            if isinstance(parsed, Unmanaged):
                if parsed.is_history:
                    self._hub.observe(NotManaged(incoming.headers.get(SESSION_HEADER, ""), parsed.why))
                return incoming.relayed(parsed.why)
            name, parsed = parsed.session_name, replace(parsed, account=incoming.account)
            server = UpstreamServer(str(outgoing.url), partial(self._sender.look_up, outgoing), outgoing.base)
            managed = self._sessions.begin(incoming.tenant, parsed, partial(self._sender.ask, outgoing), server)
        except PromptTooLarge as error:
            return Refusal(400, str(error))
        except Exception as error:  # the request is the client's and is sent whatever fails here
            return incoming.relayed(self._report(error, name))
        if parsed.relayed:
            self._hub.observe(NotManaged(managed.session_id or "", parsed.relayed))
            return replace(incoming.relayed(parsed.relayed), managed=managed)
        note = MANAGED
        if managed.store_error is None:
            self._logged_store_error = ""
        else:
            note = f"{MANAGED}; not stored: {self._report(managed.store_error, name)}"
        if managed.content is parsed.raw:  # unchanged: what was received may be compressed
            return _Outbound(outgoing, incoming.raw, note, managed)
        changed = replace(outgoing, headers=without(outgoing.headers, ENCODING))
        return _Outbound(changed, managed.content, note, managed)

    async def _send(self, outgoing: Outgoing, content: bytes, managed: ManagedRequest | None) -> "ObservedReply":
        """Send a request and read the opening of its reply, which is requested without compression if it is observed."""
        if managed is None:
            return ObservedReply(await self._sender.send(outgoing, content), host=outgoing.url.host)
        readable = replace(outgoing, headers=with_betas(uncompressed_reply(outgoing.headers), managed.betas))
        response = await self._sender.send(readable, content)
        observer = ReplyObserver(managed.parsed, response.status_code, response.headers.get("content-type", ""))
        record = partial(self._record, managed)
        reply = ObservedReply(response, observer=observer, record=record, host=outgoing.url.host)
        try:
            await reply.read_opening()
        except BaseException:
            await reply.aclose()
            raise
        return reply

    # On the way back.

    async def _recover(self, reply: "ObservedReply", managed: ManagedRequest, overflow: Overflow) -> str:
        """Prepare a request that may be accepted; return why there is none, or an empty text."""
        try:
            recovered = await self._sessions.threads.prepare(lambda: managed.recover(overflow))
        except Exception as error:  # as above
            return self._report(error, managed.parsed.session_name)
        except BaseException:
            await reply.aclose()
            raise
        return "" if recovered else "nothing more can be left out"

    async def _record(self, managed: ManagedRequest, observer: ReplyObserver) -> None:
        try:
            await self._sessions.threads.record(lambda: managed.record(observer))
        except Exception as error:  # as above
            is_reply = not isinstance(error, MalformedError) or error.index is not None
            if is_reply:  # otherwise the upstream sent something else
                self._report(error, managed.parsed.session_name)

    def _report(self, error: Exception, session_name: str | None) -> str:
        """Publish a failure of infold, and return what the client may know of it.

        The message of a foreign error may hold content and is left out. Where the store is concerns only the operator, and is
        logged once.
        """
        kind = type(error).__name__
        text = f"{kind}: {error}"
        if isinstance(error, StoreError) and text != self._logged_store_error:
            self._logged_store_error = text
            _log.warning("sessions are not stored: %s", error)
        self._hub.observe(FailedOpen(session_name or "", text if isinstance(error, InfoldError) else kind))
        return text if isinstance(error, InfoldError) and not isinstance(error, StoreError) else kind


def _parse(incoming: _Incoming, limits: GatewayLimits) -> ParsedRequest | Unmanaged:
    """Parse a request. A malformed body is relayed as it is; a malformed message raises, since it may be our bug."""
    body = decompress_body(incoming.raw, incoming.encoding, limits)
    if isinstance(body, Unmanaged):
        return body
    host = incoming.outgoing.url.netloc.decode("ascii")
    try:
        return parse_request(incoming.path, incoming.headers, body, host=host)
    except MalformedError as error:
        if error.index is not None:
            raise
        return Unmanaged("the body is not a readable JSON object")
    except BrokenInput as error:
        return Unmanaged(str(error))


def refuse(refusal: Refusal) -> Response:
    """Return an answer of the gateway itself."""
    headers = {NOTE_HEADER: "refused", **({"connection": "close"} if refusal.status in INCOMPLETE else {})}
    return JSONResponse(refusal.body, refusal.status, headers)


Record = Callable[[ReplyObserver], Awaitable[None]]
"""Records a reply that was observed; does not raise."""


class ResponseChunks:
    """The body of a response in chunks; a wait for one may be given up without losing it."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._response = response
        self._chunks = cast("AsyncGenerator[bytes, None]", aiter(response.stream))
        self._waiting: Future[bytes | None] | None = None
        self._error: httpx2.HTTPError | None = None
        self.is_over = False

    async def next(self, until: float | None = None) -> bytes | None:
        """Return the next chunk, `None` at the end; raise `httpx2.HTTPError` if the upstream breaks off, at each call.

        Raise `TimeoutError` if none arrived until that time of the loop; the next call waits for the same chunk.
        """
        if self._error is not None:
            raise self._error
        if self.is_over:
            return None
        try:
            chunk = await (anext(self._chunks, None) if until is None and not self._waiting else self._within(until))
        except httpx2.HTTPError as error:
            self._error = error
            raise
        self.is_over = chunk is None
        return chunk

    async def aclose(self) -> None:
        """Close the response, also while the calling task is being cancelled."""
        with CancelScope(shield=True):
            if self._waiting is not None:
                self._waiting.cancel()
                await wait({self._waiting})
                if not self._waiting.cancelled():
                    self._waiting.exception()  # retrieved, so that asyncio does not report it
                self._waiting = None
            await self._chunks.aclose()
            await self._response.aclose()

    async def _within(self, until: float | None) -> bytes | None:
        self._waiting = self._waiting or ensure_future(anext(self._chunks, None))
        seconds = None if until is None else max(0.0, until - get_running_loop().time())
        done, _ = await wait({self._waiting}, timeout=seconds)
        if not done:
            raise TimeoutError
        task, self._waiting = self._waiting, None
        return task.result()


class ObservedReply:
    """A reply from an upstream, its host, that is observed on its way to the client if its request is managed."""

    def __init__(
        self,
        response: httpx2.Response,
        *,
        observer: ReplyObserver | None = None,
        record: Record | None = None,
        host: str = "the upstream",
    ) -> None:
        self._host = host
        self.status = response.status_code
        self.headers = response.headers
        self._observer = observer
        self._record = record
        self._decoder = ReplyDecoder(response.headers.get("content-encoding", ""))
        self._chunks = ResponseChunks(response)
        self._held: list[bytes] = []
        if observer is not None and not self._decoder.is_readable:
            observer.give_up()

    @property
    def overflow(self) -> Overflow | None:
        """The refusal for size that it is, if it is one; known once the opening is read."""
        return None if self._observer is None else self._observer.overflow

    def error_kind(self) -> str:
        """Return the provider's word for the error that it is; known once the opening is read."""
        return "" if self._observer is None else self._observer.error_kind()

    async def read_opening(self) -> None:
        """Read until it is known whether this is a refusal; raise `httpx2.HTTPError`."""
        observer = self._observer
        if observer is None:
            return
        until = get_running_loop().time() + OPENING_SECONDS if observer.is_stream else None
        with suppress(TimeoutError):
            while observer.is_held and (chunk := await self._chunks.next(until)) is not None:
                self._observe(observer, chunk)
                self._held.append(chunk)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes as they were received, the last of them once the reply is recorded.

        Raise `httpx2.HTTPError` if the upstream breaks off.
        """
        observer = self._observer
        has_ended = observer is not None and observer.has_ended
        if not has_ended and not self._chunks.is_over:
            for early in self._held:
                yield early
            self._held.clear()
        while not has_ended and (chunk := await self._chunks.next()) is not None:
            if observer is not None:
                self._observe(observer, chunk)
                has_ended = observer.has_ended
            if has_ended:
                self._held.append(chunk)
            else:
                yield chunk
        if observer is not None and self._record is not None:
            await self._read_usage(observer)
            observer.close()
            if observer.is_recordable:
                await self._record(observer)
        for last in self._held:
            yield last
        while (chunk := await self._chunks.next()) is not None:
            yield chunk

    async def pass_on(self, send: Send, headers: Headers) -> None:
        """Send the reply to the client with these headers, then close it; the relay watches for the client's disconnect.

        If the upstream breaks off, the last message is left out, so that the client notices too.
        """
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": list(headers)})
            async for chunk in self.chunks():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except httpx2.HTTPError as error:
            _log.warning("%s broke off in the middle of its answer (%s)", self._host, type(error).__name__)
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connection, or return it to the pool."""
        await self._chunks.aclose()

    def _observe(self, observer: ReplyObserver, chunk: bytes) -> None:
        observer.observe(self._decoder.decode(chunk))
        if not self._decoder.is_readable:
            observer.give_up()

    async def _read_usage(self, observer: ReplyObserver) -> None:
        """Read what follows the end of a stream, up to its last event: the usage.

        An error of the upstream is met again when the rest is passed on.
        """
        until = get_running_loop().time() + LINGER_SECONDS
        size = 0
        with suppress(TimeoutError, httpx2.HTTPError):
            while not observer.is_over and size <= MOST_LAST_BYTES:
                chunk = await self._chunks.next(until)
                if chunk is None:
                    return
                self._observe(observer, chunk)
                self._held.append(chunk)
                size += len(chunk)


async def cancel_on_disconnect(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do the work and raise its errors; if the client disconnects first, cancel the work, which is not an error.

    Starlette's own way cancels a task only while it waits: one that always finds something to read, as from an upstream that is
    faster than we are, would not be cancelled.
    """
    working, watching = create_task(work), create_task(_wait_for_disconnect(receive))
    try:
        await wait({working, watching}, return_when=FIRST_COMPLETED)
    finally:
        for task in (working, watching):
            task.cancel()
        await gather(working, watching, return_exceptions=True)
    if not working.cancelled():
        working.result()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
