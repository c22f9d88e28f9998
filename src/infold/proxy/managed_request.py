"""A request that infold manages: prepared to fit, recovered after a refusal; its reply observed, then recorded in the session.

A proxy has no model of its own. If the settings name no summariser, summaries are requested from the provider that the client's
request goes to, with its credentials and over its connection.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

import msgspec
from msgspec import Struct

from infold.catalogue import cost_of
from infold.catalogue.served import Question
from infold.core.budget import AskedOutput
from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import Usage
from infold.core.summary_request import SummaryRequest
from infold.errors import (
    MAY_PASS,
    BrokenInput,
    FormatError,
    ModelBusy,
    ModelError,
    ModelOverflow,
    PromptTooLarge,
    RequestRefused,
    StoreError,
    WindowExceeded,
)
from infold.formats.codec import as_dict
from infold.formats.overflow import Overflow, message_in, recognise
from infold.formats.registry import GEMINI, builder_for
from infold.formats.requests import (
    ProviderRequest,
    native_betas,
    native_body,
    native_path_suffix,
    read_answer,
    summary_body,
)
from infold.formats.streams import ReplyBuilder
from infold.proxy.request import ParsedRequest, encode_body
from infold.session.session import Session

LEAST_SUMMARISER_TOKENS = 16_000
"""A model with a smaller window cannot hold a transcript worth summarising together with the instruction and the answer."""

OTHER_TOOLS = frozenset({"functions", "mcp_servers", "cachedContent", "prompt"})
"""Fields of a request that may bring tools it does not list."""


class UpstreamReply(Struct, frozen=True):
    """A provider's complete answer to a request of infold's own."""

    status: int
    body: bytes


class OwnRequest(Struct, frozen=True):
    """A request of infold's own: its body, what follows the path of the client's request, and further betas."""

    content: bytes
    path_suffix: str = ""
    betas: tuple[str, ...] = ()


Send = Callable[[OwnRequest], UpstreamReply | Awaitable[UpstreamReply]]
"""Sends a request where the client's goes, with its credentials, and gives the complete answer, or what to await for it."""


class UpstreamServer(Struct, frozen=True):
    """Where a client's request goes: its URL, and a way to ask the same server a question of infold's own.

    `base` is the server's URL as it is configured; empty if only that of the request is known.
    """

    url: str
    ask: Callable[[Question], bytes | Awaitable[bytes | None] | None]
    base: str = ""


class ManagedRequest:
    """One request and its session; `content` is the body to send, with `betas` besides the client's own.

    `store_error` is why the session is kept in memory only; `None` if it is stored. `on_recovery` is called with this request
    and the refusal after a recovery. `on_reply` takes the reply to a request that is not the session's, in place of recording it.
    `usage` is what the provider reported with a reply that was recorded. `output_tokens` is what is asked for in reply.
    """

    def __init__(
        self,
        session: Session,
        parsed: ParsedRequest,
        send: Send,
        on_recovery: "Callable[[ManagedRequest, Overflow], None] | None" = None,
    ) -> None:
        self.session = session
        self.parsed = parsed
        self.content = b""
        self.betas: tuple[str, ...] = ()
        self.on_reply: Callable[[Mapping[str, Any]], None] | None = None
        self.store_error: StoreError | None = None
        self.usage: Usage | None = None
        self.output_tokens = parsed.asked.output_tokens
        self._send = send
        self._on_recovery = on_recovery
        self._next_sequence = -1
        self._size_recoveries, self._thinking_recoveries = 1, 2

    @property
    def session_id(self) -> str | None:
        """The id by which the client may name its session; `None` if the session has no name yet or is not stored."""
        is_stored = self.parsed.session_name is not None and self.store_error is None
        return self.session.log.session_id if is_stored else None

    @property
    def output_note(self) -> str:
        """What to tell the client about its output limit; empty if that is sent as it is."""
        asked = self.parsed.asked.output_tokens
        return f"; output limit lowered from {asked} to {self.output_tokens}" if self.output_tokens < asked else ""

    def prepare(self) -> None:
        """Make the request fit; raise `WindowExceeded` if that is impossible, `PromptTooLarge` if nothing could answer it."""
        asked = self.parsed.asked
        token = _current.set(self)
        try:
            ready = self.session.prepare(
                self.parsed.history.decoded,
                system=asked.system,
                tools=asked.tools or (None if OTHER_TOOLS & self.parsed.body.keys() else ()),
                output_tokens=AskedOutput(asked.output_tokens, asked.thinking_tokens),
                edited_from_tokens=asked.edited_from_tokens,
                cache_seconds=asked.cache_seconds,
            )
        except WindowExceeded as error:
            if self._is_hopeless(error):
                raise PromptTooLarge(
                    overhead_tokens=error.overhead_tokens,
                    usable_tokens=error.usable_tokens,
                    window_tokens=self.session.window_tokens,
                ) from error
            raise
        finally:
            _current.reset(token)
        self.content, self.betas = self.parsed.with_messages(ready.messages, ready.output_tokens), ready.betas
        self.output_tokens = ready.output_tokens
        self._next_sequence = self.session.log.next_sequence

    def _is_hopeless(self, error: WindowExceeded) -> bool:
        """Whether system prompt and tools alone are over the limit, and the provider would refuse the request as it is too.

        A window that is only assumed may be larger than that.
        """
        asked = error.floor_tokens + self.parsed.asked.output_tokens
        is_known = not self.session.is_window_assumed
        return is_known and error.overhead_tokens > error.usable_tokens and asked > self.session.window_tokens

    def may_recover(self, overflow: Overflow) -> bool:
        """Whether to recover from one more refusal of this kind, which is counted: one for size, two for thinking.

        Folding after a refusal for size may be why thinking is refused, and the provider may then miss what was removed.
        """
        if self.parsed.relayed:
            return False
        if overflow.bound_thinking or overflow.native:
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
            self._on_recovery(self, overflow)
        return True

    def record(self, observer: "ReplyObserver") -> None:
        """Record a reply that was observed to its end.

        A reply to a request that is no longer the session's newest is left out: the client brings it if it counts.
        """
        if self.on_reply is None and self.session.log.next_sequence != self._next_sequence:
            return
        reply = observer.reply()
        if reply is not None:
            (self.on_reply or self.session.record)(reply)
            self.usage = self.parsed.asked.wire.usage(reply)

    def summarise(self, request: SummaryRequest) -> ModelAnswer | Awaitable[ModelAnswer]:
        """Request a summary from the provider of this request; raise `ModelError` if its window is too small for one."""
        learned, model = self.session.log.limits.tokens, self.parsed.asked.model
        if learned is not None and learned < LEAST_SUMMARISER_TOKENS:
            raise ModelError(model, f"takes no more than {learned:,} tokens, too few for a record")
        asked = self.parsed.asked
        if request.is_native:
            body = native_body(asked.wire, self.parsed.body, request)
            own = OwnRequest(encode_body(body), native_path_suffix(asked.wire), native_betas(asked.wire))
        else:
            shown = self.session.encode(request.messages[:-1]) if request.messages[1:] else []
            own = OwnRequest(encode_body(summary_body(asked.wire, self.parsed.body, request, shown)))
        reply, read = self._send(own), read_reply if request.is_native else read_summary
        return read(asked, reply) if isinstance(reply, UpstreamReply) else _await_summary(asked, reply, read)


_current: ContextVar[ManagedRequest | None] = ContextVar("infold_managed_request", default=None)
"""The request that is being prepared; the threads that its session starts inherit it."""


def summarise_upstream(request: SummaryRequest) -> ModelAnswer | Awaitable[ModelAnswer]:
    """Summarise with the model of the request that is being prepared; the summariser of sessions without one of their own."""
    managed = _current.get()
    if managed is None:
        raise ModelError("summariser", "no request is under way to take the provider from")
    return managed.summarise(request)


async def _await_summary(
    asked: ProviderRequest,
    reply: Awaitable[UpstreamReply],
    read: Callable[[ProviderRequest, UpstreamReply], ModelAnswer],
) -> ModelAnswer:
    return read(asked, await reply)


def read_summary(asked: ProviderRequest, reply: UpstreamReply) -> ModelAnswer:
    """Return the summary in a provider's reply, with its cost; raise `ModelError` if it has none."""
    body = read_reply(asked, reply).reply
    try:
        usage = asked.wire.usage(body)
        return ModelAnswer(read_answer(asked.wire, body), asked.model, usage, cost_of(asked.model, usage))
    except FormatError as broken:
        raise ModelError(asked.model, f"answered with something other than a reply ({broken})") from broken


def read_reply(asked: ProviderRequest, reply: UpstreamReply) -> ModelAnswer:
    """Return a provider's reply as it is; raise `ModelError` if it reports a failure."""
    if reply.status >= 400:
        raise _refusal(asked.model, reply)
    try:
        body = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        raise ModelError(asked.model, f"answered with something other than JSON ({broken})") from broken
    if isinstance(body, Mapping) and body.get("error"):  # some servers report a failure with status 200
        raise ModelBusy(asked.model, f"answered with an error: {message_in(body)}")
    return ModelAnswer(Answer(""), asked.model, reply=body)


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


# The reply. Some providers refuse a request for its size in the first event of a stream that began well, so a stream is held back
# until it has content.

MOST_WHOLE_BYTES = 32 * 2**20
"""How much of a reply that is not a stream is kept until it is complete; a larger one is passed on without being recorded."""

_WORD = re.compile(r"[A-Za-z_.-]{1,48}")
"""How providers name kinds of errors; a message is longer, and may quote the conversation."""

MOST_REFUSAL_BYTES = 256 * 1024
MOST_OPENING_BYTES = 64 * 1024
"""How much of a refusal, and of a stream without content, is held back; those of providers are smaller."""


class ReplyObserver:
    """What is known of one reply so far, whose bytes arrive here decompressed while they are passed on."""

    def __init__(self, parsed: ParsedRequest, status: int, content_type: str) -> None:
        self._status = status
        self._wire = parsed.asked.wire
        is_stream = status < 300 and _is_stream(content_type.lower(), parsed)
        self._builder = builder_for(self._wire.name) if is_stream else None
        self._body = bytearray()
        self._size = 0
        self._is_readable = True

    @property
    def is_stream(self) -> bool:
        """Whether the reply arrives in events."""
        return self._builder is not None

    @property
    def is_held(self) -> bool:
        """Whether to hold back what arrived so far: it may still turn out to be a refusal."""
        if not self._is_readable:
            return False
        builder = self._builder
        if builder is None:
            return self._size <= (MOST_REFUSAL_BYTES if self._status >= 400 else MOST_WHOLE_BYTES)
        is_known = builder.error() is not None or builder.is_finished or builder.skipped or self._has_content(builder)
        return not is_known and self._size <= MOST_OPENING_BYTES

    @property
    def overflow(self) -> Overflow | None:
        """The refusal for size or thinking that the reply is; `None` if it is something else."""
        if self._builder is not None:
            error = self._builder.error()
            return recognise(None, error) if isinstance(error, dict | str) else None
        if not self.is_held:  # too large or unreadable
            return None
        if self._status >= 400:
            return recognise(self._status, bytes(self._body))
        return recognise(None, {"error": error}) if (error := _error_in(self._body)) else None

    @property
    def has_ended(self) -> bool:
        """Whether a stream has reported why it ended; its usage may still follow."""
        return self._builder is not None and self._builder.is_finished

    @property
    def is_over(self) -> bool:
        """Whether a stream has sent its last event."""
        return self._builder is not None and self._builder.is_over

    @property
    def is_recordable(self) -> bool:
        """Whether there may be something to record; a stream that broke off is left to the client to request again."""
        if not self._is_readable or self._status >= 300:
            return False
        return bool(self._body) if self._builder is None else self._builder.is_finished

    def observe(self, data: bytes) -> None:
        """Take the next bytes."""
        self._size += len(data)
        if self._builder is not None:
            self._builder.feed(data)
        elif self.is_held:
            self._body += data
        else:
            self._body.clear()

    def error_kind(self) -> str:
        """Return the provider's word for an error, such as rate_limit_error; empty if there is no error or no such word."""
        if self._status < 400 or self._builder is not None:
            return ""
        error = _error_in(self._body)
        words = [error.get(name) for name in ("code", "type", "status")] if isinstance(error, dict) else []
        return next((word for word in words if isinstance(word, str) and _WORD.fullmatch(word)), "")

    def give_up(self) -> None:
        """Note that the reply cannot be read."""
        self._is_readable = False

    def close(self) -> None:
        """Note that nothing more arrives; the end of the connection may be the end of a stream."""
        if self._builder is not None:
            self._builder.close()

    def reply(self) -> Mapping[str, Any] | None:
        """Return the reply to record; `None` if there is none. Raise `BrokenInput` if the body is not an object."""
        if not self.is_recordable:
            return None
        reply = as_dict(bytes(self._body)) if self._builder is None else self._builder.reply()
        return reply if reply is not None and self._wire.is_reply(reply) else None

    def _has_content(self, builder: ReplyBuilder) -> bool:
        """Whether a reply has more than a role."""
        items = self._wire.reply_items(builder.reply() or {})
        return any(any(value for name, value in as_dict(item).items() if name != "role") for item in items)


def _is_stream(content_type: str, parsed: ParsedRequest) -> bool:
    """Whether a reply is a stream: by its type, or because a stream was requested and this is not JSON."""
    if content_type.startswith("text/event-stream"):
        return True
    asked = parsed.asked
    return asked.streams and (asked.wire is GEMINI or not content_type.startswith("application/json"))


def _error_in(body: bytearray) -> object:
    """Return the error that a reply reports although its status is good; `None` if it reports none."""
    if b'"error"' not in body:
        return None
    try:
        return as_dict(bytes(body)).get("error")
    except BrokenInput:
        return None
