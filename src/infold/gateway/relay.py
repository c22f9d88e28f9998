"""Relay one request: prepared to fit on its way out, its reply passed on as it arrives and recorded.

Fails open: if infold itself fails, the client's request is sent as it was received, and a header and an event say so. While the
store fails, requests are still prepared, but not stored. Headers, errors and fields that infold does not know stay as they are.
"""

import logging
from asyncio import FIRST_COMPLETED, create_task, gather, wait
from collections.abc import Coroutine, Mapping
from typing import Any

import httpx2
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from infold.core.events import FailedOpen, NotManaged
from infold.errors import BrokenInput, InfoldError, StoreError, UsageError
from infold.formats.codec import MalformedError
from infold.formats.overflow import Overflow
from infold.formats.requests import Unmanaged, wire_of_path
from infold.gateway.event_hub import EventHub
from infold.gateway.headers import (
    NOTE_HEADER,
    by_name,
    for_another_request,
    forwarded,
    returned,
    uncompressed_body,
    uncompressed_reply,
)
from infold.gateway.reply import ObservedReply, RelayedResponse
from infold.gateway.request_body import Limits, Refusal, decompress_body, read_body
from infold.gateway.tenants import Tenants, TenantSessions
from infold.gateway.upstream import Outgoing, Sender, Upstreams
from infold.proxy.managed_request import ManagedRequest, UpstreamReply
from infold.proxy.reply_observer import ReplyObserver
from infold.proxy.request import SESSION_HEADER, ParsedRequest, parse_request
from infold.proxy.threads import LoopCalls

MANAGED = "managed"
INCOMPLETE = frozenset({408, 413})
"""Refusals of a request that may still be arriving: its connection is closed with the answer."""

_log = logging.getLogger(__name__)


class _Incoming(Struct, frozen=True):
    """A request as it was received, its tenant, and where it goes."""

    path: str
    headers: Mapping[str, str]
    encoding: str
    raw: bytes
    tenant: str
    outgoing: Outgoing


class _Outbound(Struct, frozen=True):
    """A request as it is sent, and the note for the client; `managed` is `None` if it is relayed as it was received."""

    outgoing: Outgoing
    content: bytes
    note: str
    managed: ManagedRequest | None = None
    calls: LoopCalls | None = None


class _Failure(Struct, frozen=True):
    """Why a request could not be managed, and the name of its session, if that is known."""

    error: Exception
    session_name: str | None


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
        limits: Limits,
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
        outbound = await self._prepare(Request(scope, receive))
        if isinstance(outbound, Refusal):
            await refuse(outbound)(scope, receive, send)
        else:
            await cancel_on_disconnect(receive, self._answer(outbound, scope, receive, send))

    async def _answer(self, outbound: _Outbound, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._relay(outbound)
        except httpx2.TimeoutException:
            response = refuse(
                Refusal(504, "the upstream took too long to answer; try again, or raise the time allowed")
            )
        except httpx2.HTTPError as error:
            problem = f"the upstream could not be reached or broke off ({type(error).__name__})"
            response = refuse(Refusal(502, f"{problem}; try again, or check its address"))
        await response(scope, receive, send)

    async def _relay(self, outbound: _Outbound) -> Response:
        managed, calls, note = outbound.managed, outbound.calls, outbound.note
        reply = await self._send(outbound.outgoing, outbound.content, managed, calls)
        while managed and calls and (overflow := reply.overflow) is not None and managed.may_recover(overflow):
            problem = await self._recover(reply, managed, calls, overflow)
            if problem:
                note = f"{note}; not recovered: {problem}"
                break
            await reply.aclose()
            sent = outbound.outgoing
            again = Outgoing(sent.method, sent.url, for_another_request(sent.headers))
            reply = await self._send(again, managed.content, managed, calls)
        session_id = None if managed is None else managed.session_id
        return RelayedResponse(reply, returned(reply.headers.raw, note, session_id))

    # On the way out.

    async def _prepare(self, request: Request) -> _Outbound | Refusal:
        raw = await read_body(request, self._limits)
        if isinstance(raw, Refusal):
            return raw
        headers = by_name(request.headers.raw)
        target: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        try:
            url = self._upstreams.url_for(target, request.scope["query_string"], headers)
        except UsageError as error:
            return Refusal(503, str(error))
        except (httpx2.InvalidURL, ValueError):
            return Refusal(400, "the path cannot be sent on; check the base URL of your client")
        try:
            tenant = self._tenants.of(headers, request.query_params)
        except UsageError as error:
            return Refusal(400, str(error))
        outgoing = Outgoing(request.method, url, forwarded(request.headers.raw))
        encoding = ", ".join(request.headers.getlist("content-encoding"))
        return await self._manage(_Incoming(request.scope["path"], headers, encoding, raw, tenant, outgoing))

    async def _manage(self, incoming: _Incoming) -> _Outbound:
        """Prepare a request in a thread; relay it as it was received if that fails, or if it has no history."""
        outgoing, raw = incoming.outgoing, incoming.raw
        calls = LoopCalls(self._sessions.summary_seconds)
        begun: ManagedRequest | Unmanaged | _Failure | None = _why_unmanaged(incoming)
        if begun is None:
            try:
                begun = await self._sessions.threads.prepare(calls, lambda: self._begin(incoming, calls))
            except RuntimeError as error:  # no thread can be started
                begun = _Failure(error, None)
        if isinstance(begun, _Failure):
            return _Outbound(outgoing, raw, f"relayed; {self._report(begun.error, begun.session_name)}")
        if isinstance(begun, Unmanaged):
            if begun.is_history:
                self._hub.observe(NotManaged(incoming.headers.get(SESSION_HEADER, ""), begun.why))
            return _Outbound(outgoing, raw, f"relayed; {begun.why}")
        note = MANAGED
        if begun.store_error is None:
            self._logged_store_error = ""
        else:
            note = f"{MANAGED}; not stored: {self._report(begun.store_error, begun.parsed.session_name)}"
        if begun.content is begun.parsed.raw:  # unchanged: what was received may be compressed
            return _Outbound(outgoing, raw, note, begun, calls)
        changed = Outgoing(outgoing.method, outgoing.url, uncompressed_body(outgoing.headers))
        return _Outbound(changed, begun.content, note, begun, calls)

    def _begin(self, incoming: _Incoming, calls: LoopCalls) -> ManagedRequest | Unmanaged | _Failure:
        """Parse and prepare a request; this blocks and runs in a thread."""

        def ask(body: bytes) -> UpstreamReply:
            return calls.wait_for(lambda: self._sender.ask(incoming.outgoing, body))

        name = None
        try:
            parsed = _parse(incoming, self._limits)
            if isinstance(parsed, Unmanaged):
                return parsed
            name = parsed.session_name
            return self._sessions.begin(incoming.tenant, parsed, ask, calls)
        except Exception as error:  # the request is the client's and is sent whatever fails here
            return _Failure(error, name)

    async def _send(
        self, outgoing: Outgoing, content: bytes, managed: ManagedRequest | None, calls: LoopCalls | None
    ) -> ObservedReply:
        """Send a request and read the opening of its reply, which is requested without compression if it is observed."""
        if managed is None or calls is None:
            return ObservedReply(await self._sender.send(outgoing, content), host=outgoing.url.host)
        readable = Outgoing(outgoing.method, outgoing.url, uncompressed_reply(outgoing.headers))
        response = await self._sender.send(readable, content)
        observer = ReplyObserver(managed.parsed, response.status_code, response.headers.get("content-type", ""))

        async def record(observed: ReplyObserver) -> None:
            await self._record(managed, calls, observed)

        reply = ObservedReply(response, observer=observer, record=record, host=outgoing.url.host)
        try:
            await reply.read_opening()
        except BaseException:
            await reply.aclose()
            raise
        return reply

    # On the way back.

    async def _recover(
        self, reply: ObservedReply, managed: ManagedRequest, calls: LoopCalls, overflow: Overflow
    ) -> str:
        """Prepare a request that may be accepted; return why there is none, or an empty text."""
        try:
            recovered = await self._sessions.threads.prepare(calls, lambda: managed.recover(overflow))
        except Exception as error:  # as above
            return self._report(error, managed.parsed.session_name)
        except BaseException:
            await reply.aclose()
            raise
        return "" if recovered else "nothing more can be left out"

    async def _record(self, managed: ManagedRequest, calls: LoopCalls, observer: ReplyObserver) -> None:
        try:
            await self._sessions.threads.record(calls, lambda: managed.record(observer))
        except Exception as error:  # as above
            if (
                not isinstance(error, MalformedError) or error.index is not None
            ):  # else the upstream sent no reply at all
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


def _why_unmanaged(incoming: _Incoming) -> Unmanaged | None:
    if incoming.outgoing.method != "POST":
        return Unmanaged("not a conversation")
    if wire_of_path(incoming.path) is None:
        return Unmanaged("the path takes no messages")
    return None if incoming.raw else Unmanaged("the body is empty")


def _parse(incoming: _Incoming, limits: Limits) -> ParsedRequest | Unmanaged:
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
