"""A request that infold manages: prepared to fit, recovered after a refusal, its reply recorded in the session.

A proxy has no model of its own. If the settings name no summariser, summaries are requested from the provider that the client's
request goes to, with its credentials and over its connection.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar

import msgspec
from msgspec import Struct

from infold.catalogue import cost_of
from infold.core.judge import ModelAnswer
from infold.core.summary_request import SummaryRequest
from infold.errors import MAY_PASS, FormatError, ModelBusy, ModelError, ModelOverflow, RequestRefused, StoreError
from infold.formats.overflow import Overflow, message_in, recognise
from infold.formats.requests import ProviderRequest, read_answer, summary_body
from infold.proxy.reply_observer import ReplyObserver
from infold.proxy.request import ParsedRequest, encode_body
from infold.proxy.threads import LoopCalls
from infold.session.session import Session

LEAST_SUMMARISER_TOKENS = 16_000
"""A model with a smaller window cannot hold a transcript worth summarising together with the instruction and the answer."""


class UpstreamReply(Struct, frozen=True):
    """A provider's complete answer to a request of infold's own."""

    status: int
    body: bytes


Send = Callable[[bytes], UpstreamReply]
"""Sends a body where the client's request goes, with its credentials, and waits for the complete answer."""


class ManagedRequest:
    """One request and its session; `content` is the body to send.

    `store_error` is why the session is kept in memory only; `None` if it is stored. `calls` are those of an async client;
    `on_recovery` is called with the session after a recovery.
    """

    def __init__(
        self,
        session: Session,
        parsed: ParsedRequest,
        send: Send,
        *,
        calls: LoopCalls | None = None,
        on_recovery: Callable[[Session], None] | None = None,
    ) -> None:
        self.session = session
        self.parsed = parsed
        self.content = b""
        self.store_error: StoreError | None = None
        self._send = send
        self._calls = calls
        self._on_recovery = on_recovery
        self._next_sequence = -1
        self._size_recoveries, self._thinking_recoveries = 1, 2

    @property
    def session_id(self) -> str | None:
        """The id by which the client may name its session; `None` if the session has no name yet or is not stored."""
        is_stored = self.parsed.session_name is not None and self.store_error is None
        return self.session.log.session_id if is_stored else None

    def prepare(self) -> None:
        """Make the request fit; raise `WindowExceeded` if that is impossible."""
        asked = self.parsed.asked
        token = _current.set(self)
        try:
            ready = self.session.prepare(
                asked.items, system=asked.system, tools=asked.tools, output_tokens=asked.output_tokens
            )
        finally:
            _current.reset(token)
        self.content = self.parsed.with_messages(ready.messages)
        self._next_sequence = self.session.log.next_sequence

    def may_recover(self, overflow: Overflow) -> bool:
        """Whether to recover from one more refusal of this kind, which is counted: one for size, two for thinking.

        Folding after a refusal for size may be why thinking is refused, and the provider may then miss what was removed.
        """
        if overflow.bound_thinking:
            self._thinking_recoveries -= 1
            return self._thinking_recoveries >= 0
        self._size_recoveries -= 1
        return self._size_recoveries >= 0

    def recover(self, overflow: Overflow) -> bool:
        """Prepare a request that may be accepted after this refusal; return whether there is one.

        It is prepared again in full, since another request may have changed the session.
        """
        token = _current.set(self)
        try:
            ready = self.session.recover(overflow)
        finally:
            _current.reset(token)
        if ready is None:
            return False
        self.prepare()
        if self._on_recovery is not None:
            self._on_recovery(self.session)
        return True

    def record(self, observer: ReplyObserver) -> None:
        """Record a reply that was observed to its end.

        A reply to a request that is no longer the session's newest is left out: the client brings it if it counts.
        """
        if self.session.log.next_sequence != self._next_sequence:
            return
        reply = observer.reply()
        if reply is not None:
            self.session.record(reply)

    def cancel_background(self) -> None:
        """Cancel a summary that is requested in the background, if the client is async."""
        if self._calls is not None and not self._calls.is_foreground:
            self._calls.cancel()

    def summarise(self, request: SummaryRequest) -> ModelAnswer:
        """Request a summary from the provider of this request; raise `ModelError` if its window is too small for one."""
        learned, model = self.session.log.limits.tokens, self.parsed.asked.model
        if learned is not None and learned < LEAST_SUMMARISER_TOKENS:
            raise ModelError(model, f"takes no more than {learned:,} tokens, too few for a record")
        shown = self.session.encode(request.messages[:-1]) if request.messages[1:] else []
        body = summary_body(self.parsed.asked.wire, self.parsed.body, request, shown)
        return read_summary(self.parsed.asked, self._send(encode_body(body)))


_current: ContextVar[ManagedRequest | None] = ContextVar("infold_managed_request", default=None)
"""The request that is being prepared; the threads that its session starts inherit it."""


def summarise_upstream(request: SummaryRequest) -> ModelAnswer:
    """Summarise with the model of the request that is being prepared; the summariser of sessions without one of their own."""
    managed = _current.get()
    if managed is None:
        raise ModelError("summariser", "no request is under way to take the provider from")
    return managed.summarise(request)


def read_summary(asked: ProviderRequest, reply: UpstreamReply) -> ModelAnswer:
    """Return the summary in a provider's reply, with its cost; raise `ModelError` if it has none."""
    if reply.status >= 400:
        raise _refusal(asked.model, reply)
    try:
        body = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        raise ModelError(asked.model, f"answered with something other than JSON ({broken})") from broken
    if isinstance(body, Mapping) and body.get("error"):  # some servers report a failure with status 200
        raise ModelBusy(asked.model, f"answered with an error: {message_in(body)}")
    try:
        usage = asked.wire.usage(body)
        return ModelAnswer(read_answer(asked.wire, body), asked.model, usage, cost_of(asked.model, usage))
    except FormatError as broken:
        raise ModelError(asked.model, f"answered with something other than a reply ({broken})") from broken


def _refusal(model: str, reply: UpstreamReply) -> ModelError:
    overflow = recognise(reply.status, reply.body)
    if overflow is not None:
        return ModelOverflow(model, overflow.limit_tokens)
    message = message_in(reply.body)
    problem = f"answered with status {reply.status}{f': {message}' if message.strip() else ''}"
    may_pass = reply.status >= 500 or reply.status in MAY_PASS
    error = ModelBusy(model, problem) if may_pass else RequestRefused(model, problem)
    error.status = reply.status
    return error
