"""Observe a reply while it is passed on: whether it is a refusal, whether it has content yet, and what to record of it.

Some providers refuse a request for its size in the first event of a stream that began well, so a stream is held back until it has
content. Bytes arrive here decompressed.
"""

from collections.abc import Mapping
from typing import Any

from infold.errors import BrokenInput
from infold.formats.codec import as_dict
from infold.formats.overflow import Overflow, recognise
from infold.formats.registry import GEMINI, builder_for
from infold.formats.streams import ReplyBuilder
from infold.proxy.request import ParsedRequest

MOST_WHOLE_BYTES = 32 * 2**20
"""How much of a reply that is not a stream is kept until it is complete; a larger one is passed on without being recorded."""

MOST_REFUSAL_BYTES = 256 * 1024
MOST_OPENING_BYTES = 64 * 1024
"""How much of a refusal, and of a stream without content, is held back; those of providers are smaller."""


class ReplyObserver:
    """What is known of one reply so far."""

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

    def give_up(self) -> None:
        """Note that the reply cannot be read."""
        self._is_readable = False

    def close(self) -> None:
        """Note that nothing more arrives; the end of the connection may be the end of a stream."""
        if self._builder is not None:
            self._builder.close()

    def reply(self) -> Mapping[str, Any] | None:
        """Return the reply to record; `None` if it has no content. Raise `BrokenInput` if it is not one."""
        if not self.is_recordable:
            return None
        reply = as_dict(bytes(self._body)) if self._builder is None else self._builder.reply()
        return reply if reply is not None and self._wire.reply_items(reply) else None

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
