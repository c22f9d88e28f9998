"""Hear one reply while it is passed on: whether it is a refusal, whether it says anything yet, and what it said.

Some providers refuse a request for its size in the first event of a stream that began well, so a stream counts as begun only
when something is said in it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from infold.api.exchanges import Exchange
from infold.formats.codec import as_dict
from infold.formats.overflow import Overflow, recognise
from infold.formats.registry import GEMINI, builder_for
from infold.formats.streams import ReplyBuilder
from infold.gateway.aside import Underway
from infold.gateway.decoding import Decoding

MOST_WHOLE_BYTES = 32 * 2**20
"""How much of a reply that is no stream is held until it is whole; more is passed on unheard."""

MOST_REFUSAL_BYTES = 256 * 1024
MOST_OPENING_BYTES = 64 * 1024
"""How much of a refusal, and of a stream that says nothing, is held; no provider's is as long."""


class Hearing:
    """What is known of one reply so far."""

    def __init__(self, status: int, headers: Mapping[str, str], exchange: Exchange) -> None:
        self._status = status
        self._wire = exchange.asked.wire
        is_stream = status < 300 and _is_stream(headers.get("content-type", "").lower(), exchange)
        self._builder = builder_for(self._wire.name) if is_stream else None
        self._decoding = Decoding(headers.get("content-encoding", ""))
        self._body = bytearray()
        self._heard_bytes = 0

    @property
    def is_stream(self) -> bool:
        """Whether the reply is told piece by piece."""
        return self._builder is not None

    @property
    def is_held(self) -> bool:
        """Whether what came so far had better wait: it may still turn out to be a refusal."""
        if not self._decoding.is_possible:
            return False
        builder = self._builder
        if builder is None:
            most = MOST_REFUSAL_BYTES if self._status >= 400 else MOST_WHOLE_BYTES
            return self._heard_bytes <= most
        is_told = builder.error() is not None or builder.is_finished or builder.skipped or self._says_something(builder)
        return not is_told and self._heard_bytes <= MOST_OPENING_BYTES

    @property
    def overflow(self) -> Overflow | None:
        """The refusal for size that the reply is, if it is one."""
        if self._builder is not None:
            error = self._builder.error()
            return recognise(None, error) if isinstance(error, dict | str) else None
        if not self.is_held:  # too much of it came, or nothing that can be read
            return None
        if self._status >= 400:
            return recognise(self._status, bytes(self._body))
        return recognise(None, {"error": error}) if (error := _error_in(self._body)) else None

    def hear(self, piece: bytes) -> None:
        """Take in the next bytes as they came."""
        told = self._decoding.decode(piece)
        self._heard_bytes += len(told)
        if self._builder is not None:
            self._builder.feed(told)
        elif self.is_held:
            self._body += told
        else:
            self._body.clear()

    def has_ended(self) -> bool:
        """Whether a stream has said why it ended; its usage may still follow."""
        return self._builder is not None and self._builder.is_finished

    def is_over(self) -> bool:
        """Whether a stream has said its last word."""
        return self._builder is not None and self._builder.is_over

    async def record(self, passage: Underway) -> None:
        """Tell the session what was said, once all of it is heard.

        What broke off is the client's to ask for again; a reply that says nothing adds nothing to a session.
        """
        if not self._decoding.is_possible or self._status >= 300:
            return
        if self._builder is not None:
            self._builder.close()
            if self._wire.reply_items(self._builder.reply() or {}):
                await passage.record_stream(self._builder)
        elif self._body and self._wire.reply_items(bytes(self._body)):
            await passage.record(bytes(self._body))

    def _says_something(self, builder: ReplyBuilder) -> bool:
        """Whether there is more to the reply than that somebody speaks."""
        items = self._wire.reply_items(builder.reply() or {})
        return any(any(_without_role(as_dict(item))) for item in items)


def _is_stream(media_type: str, exchange: Exchange) -> bool:
    """Whether a reply is a stream: by what it says of itself, or because one was asked for and it is no document."""
    if media_type.startswith("text/event-stream"):
        return True
    asked = exchange.asked
    return asked.streams and (asked.wire is GEMINI or not media_type.startswith("application/json"))


def _without_role(item: Mapping[str, Any]) -> Iterator[object]:
    return (value for name, value in item.items() if name != "role")


def _error_in(body: bytearray) -> object:
    """What a reply reports as an error though its status does not say so."""
    if b'"error"' not in body:
        return None
    try:
        told = msgspec.json.decode(bytes(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return told.get("error") if isinstance(told, dict) else None
