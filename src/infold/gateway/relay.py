"""Relay one request: made to fit on its way out, passed on as it arrives on its way back, heard in passing.

Fails open: whatever goes wrong on our side, the client's own request goes out as it came, and a header and an event say so. While
a store fails, requests are still made to fit, and only nothing is kept.
Headers, errors and fields that infold does not know are the client's and the provider's, and stay as they are.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping

import httpx2
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from infold.api.exchanges import Exchange, opened
from infold.api.passage import Recoveries
from infold.core.events import FailedOpen, NotManaged
from infold.engine.finding import SESSION_HEADER
from infold.errors import BrokenInput, InfoldError, StoreError, UsageError
from infold.formats.codec import MalformedError
from infold.formats.overflow import Overflow
from infold.formats.requests import Unmanaged, format_of_path
from infold.gateway.aside import LARGE_BYTES, Underway
from infold.gateway.bodies import Limits, Refusal, read_body, unpacked
from infold.gateway.headers import NOTE_HEADER, anew, by_name, forwarded, readable, returned, uncompressed
from infold.gateway.hub import Hub
from infold.gateway.leaving import until_left
from infold.gateway.replies import PassedOn, Reply
from infold.gateway.sending import Outgoing, Sender
from infold.gateway.tenancy import Tenancy
from infold.gateway.tenants import Tenants
from infold.gateway.upstreams import Upstreams

MANAGED = "managed"
UNREAD = frozenset({408, 413})
"""Refusals of a request that may still be coming: its connection ends with the answer."""

_log = logging.getLogger(__name__)


class _Begun(Struct, frozen=True):
    """A request on its way out: where to, its passage where infold manages it, the body to send, and what to say of it."""

    outgoing: Outgoing
    passage: Underway | None
    content: bytes
    note: str


class Relay:
    """Stands between clients and upstreams, as an ASGI application of its own."""

    def __init__(
        self, sender: Sender, upstreams: Upstreams, tenants: Tenants, tenancy: Tenancy, *, hub: Hub, limits: Limits
    ) -> None:
        self._sender = sender
        self._upstreams = upstreams
        self._tenants = tenants
        self._tenancy = tenancy
        self._hub = hub
        self._limits = limits
        self._trouble = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever its method and its path; a client that leaves ends it once it has been sent on."""
        begun = await self._begun(Request(scope, receive))
        if isinstance(begun, Refusal):
            await refused(begun)(scope, receive, send)
        else:
            await until_left(receive, self._answer(begun, scope, receive, send))

    async def _answer(self, begun: _Begun, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._relayed(begun)
        await response(scope, receive, send)

    async def _relayed(self, begun: _Begun) -> Response:
        try:
            return await self._passed_on(begun)
        except httpx2.TimeoutException:
            return refused(Refusal(504, "the upstream took too long to answer; try again, or raise the time allowed"))
        except httpx2.HTTPError as error:
            problem = f"the upstream could not be reached or broke off ({type(error).__name__})"
            return refused(Refusal(502, f"{problem}; try again, or check its address"))

    async def _passed_on(self, begun: _Begun) -> Response:
        outgoing, note = begun.outgoing, begun.note
        reply = await self._sent(outgoing, begun.content, begun.passage)
        recovered = Recoveries()
        while (overflow := reply.overflow) is not None and reply.passage and recovered.may_be(overflow):
            changed = await self._recovered(reply, reply.passage, overflow)
            if isinstance(changed, str):
                note = f"{note}; not recovered: {changed}"
                break
            await reply.aclose()
            again = Outgoing(outgoing.method, outgoing.url, anew(outgoing.headers))
            reply = await self._sent(again, changed.content, changed)
        return PassedOn(reply, returned(reply.headers.raw, note, _session_id(reply.passage)))

    # On the way out.

    async def _begun(self, request: Request) -> _Begun | Refusal:
        raw = await read_body(request, self._limits)
        if isinstance(raw, Refusal):
            return raw
        headers = by_name(request.headers.raw)
        try:
            outgoing = self._outgoing(request, headers)
        except UsageError as error:
            return Refusal(503, str(error))
        except (httpx2.InvalidURL, ValueError):
            return Refusal(400, "the path is none that can be sent on; check the base URL of your client")
        try:
            tenant = self._tenants.of(headers, request.query_params)
        except UsageError as error:
            return Refusal(400, str(error))
        return await self._fitted(request, headers, tenant, outgoing, raw)

    def _outgoing(self, request: Request, headers: Mapping[str, str]) -> Outgoing:
        target: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        url = self._upstreams.url_for(target, request.scope["query_string"], headers)
        return Outgoing(request.method, url, forwarded(request.headers.raw))

    async def _fitted(
        self, request: Request, headers: Mapping[str, str], tenant: str, outgoing: Outgoing, raw: bytes
    ) -> _Begun:
        name = None
        try:
            exchange = await self._opened(request, headers, raw, outgoing.url.netloc.decode("ascii"))
            if isinstance(exchange, Unmanaged):
                if exchange.is_history:
                    self._hub.observe(NotManaged(request.headers.get(SESSION_HEADER, ""), exchange.why))
                return _Begun(outgoing, None, raw, f"relayed; {exchange.why}")
            name = exchange.name
            passage = await self._tenancy.begin(tenant, exchange, lambda body: self._sender.ask(outgoing, body))
            note = self._note_on(passage)
            if passage.content is exchange.raw:  # what came may have been compressed
                return _Begun(outgoing, passage, raw, note)
            changed = Outgoing(outgoing.method, outgoing.url, uncompressed(outgoing.headers))
            return _Begun(changed, passage, passage.content, note)
        except Exception as error:  # the one place where this face must not fail: the request is the client's
            return _Begun(outgoing, None, raw, f"relayed; {self._failed(error, name)}")

    def _note_on(self, passage: Underway) -> str:
        if passage.trouble is None:
            self._trouble = ""
            return MANAGED
        return f"{MANAGED}; not stored: {self._failed(passage.trouble, passage.exchange.name)}"

    async def _opened(
        self, request: Request, headers: Mapping[str, str], raw: bytes, host: str
    ) -> Exchange | Unmanaged:
        if request.method != "POST":
            return Unmanaged("not a conversation")
        path = request.scope["path"]
        if format_of_path(path) is None:
            return Unmanaged("the path takes no messages")
        if not raw:
            return Unmanaged("the body is empty")
        encoding = ", ".join(request.headers.getlist("content-encoding"))
        if len(raw) > LARGE_BYTES or encoding:
            return await self._tenancy.aside.run(
                lambda: _read(path, headers, unpacked(raw, encoding, self._limits), host)
            )
        return _read(path, headers, unpacked(raw, encoding, self._limits), host)

    async def _sent(self, outgoing: Outgoing, content: bytes, passage: Underway | None) -> Reply:
        """The reply, opened; its bytes are asked for as they are where they have to be read here."""
        headers = outgoing.headers if passage is None else readable(outgoing.headers)
        response = await self._sender.send(Outgoing(outgoing.method, outgoing.url, headers), content)
        reply = Reply(response, passage, self._tried, host=outgoing.url.host)
        try:
            await reply.open()
        except BaseException:
            await reply.aclose()
            raise
        return reply

    # On the way back.

    async def _recovered(self, reply: Reply, passage: Underway, overflow: Overflow) -> Underway | str:
        """The passage with a body that may be accepted, or why there is none."""
        try:
            smaller = await passage.recovered(overflow)
        except Exception as error:  # as above
            return self._failed(error, passage.exchange.name)
        except BaseException:
            await reply.aclose()
            raise
        return smaller or "nothing more can be left out"

    async def _tried(self, passage: Underway, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await act()
        except Exception as error:  # as above
            self._failed(error, passage.exchange.name)

    def _failed(self, error: Exception, name: str | None) -> str:
        """Tell of a failure of ours, and give what a client may know of it.

        The words of an error that is not ours may hold content and are left out; where a store is, is the operator's affair,
        who reads of it once.
        """
        kind = type(error).__name__
        told = f"{kind}: {error}"
        if isinstance(error, StoreError) and told != self._trouble:
            self._trouble = told
            _log.warning("sessions are not stored: %s", error)
        self._hub.observe(FailedOpen(name or "", told if isinstance(error, InfoldError) else kind))
        return told if isinstance(error, InfoldError) and not isinstance(error, StoreError) else kind


def _read(path: str, headers: Mapping[str, str], body: bytes | Unmanaged, host: str) -> Exchange | Unmanaged:
    """What a request asks for; a body that is none is the client's affair, an item that cannot be read may be ours."""
    if isinstance(body, Unmanaged):
        return body
    try:
        return opened(path, headers, body, host=host)
    except MalformedError as error:
        if error.index is not None:
            raise
        return Unmanaged("the body is no JSON object that can be read")
    except BrokenInput as error:
        return Unmanaged(str(error))


def refused(refusal: Refusal) -> Response:
    """An answer of the gateway's own, in the shape that SDKs read errors from."""
    error = {"message": refusal.message, "type": "infold_gateway_error", "code": refusal.status}
    headers = {NOTE_HEADER: "refused", **({"connection": "close"} if refusal.status in UNREAD else {})}
    return JSONResponse({"type": "error", "error": error}, refusal.status, headers)


def _session_id(passage: Underway | None) -> str | None:
    """The name a client may call its session by; none before it has one, or where it is not stored."""
    if passage is None or passage.exchange.name is None or passage.trouble is not None:
        return None
    return passage.session.log.session_id
