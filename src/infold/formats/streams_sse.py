"""Server-sent events out of bytes that arrive in any pieces.

Lines end with `\\n`, `\\r\\n` or `\\r`, an empty line ends an event, and a line that begins with a colon is a comment. What an
event means is left to the builders of `streams.py`.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

MOST_EVENT_BYTES = 32 * 2**20
"""The largest event that is kept: the one that ends a Responses stream holds the whole reply, pictures included."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONE = re.compile(rb"(?:event: (?!error\n)[^\r\n]+\n)?data: (\{[^\r\n]*\})\n\n")
"""An event by itself: an object on one line, under any name but that of an error."""


class SseEvent(Struct, frozen=True):
    """One event: its data, the lines joined, and its name where it has one."""

    data: str
    name: str = ""


class SseReader:
    """Gives each event as soon as its bytes are complete, wherever they were split.

    It never holds more than `most_bytes`: an event with a longer line, or longer lines together, is passed over and
    counted in `dropped`.
    """

    def __init__(self, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self.dropped = 0
        self._most_bytes = most_bytes
        self._line = bytearray()
        self._line_bytes = self._data_bytes = 0
        self._lines: list[bytes] = []
        self._name = ""
        self._is_first = True
        self._is_after_return = False
        self._is_over = False

    def feed(self, piece: bytes) -> list[SseEvent]:
        """The events that this piece completes."""
        return [event for line in self._ended(piece) for event in self._take(line)]

    def lone(self, piece: bytes) -> bytes | None:
        """The data of a piece that is one event, begun and ended, as most pieces are; nothing for any other, which is to be fed.

        It is told without its name: an object that says what it is needs none.
        """
        is_amid = self._line_bytes or self._lines or self._name or self._is_over or self._is_after_return
        found = None if is_amid or len(piece) > self._most_bytes else _LONE.fullmatch(piece)
        self._is_first = self._is_first and found is None
        return None if found is None else found[1]

    def close(self) -> list[SseEvent]:
        """The last event of a stream that ended without the empty line after it."""
        return self.feed(b"\n\n")

    def _ended(self, piece: bytes) -> Iterator[bytes]:
        """The lines that this piece ends, without their ends; a line feed after a return ends nothing."""
        is_second_half = self._is_after_return and piece.startswith(b"\n")
        self._is_after_return = piece.endswith(b"\r") if piece else self._is_after_return
        for text in piece[is_second_half:].splitlines(keepends=True):
            bare = text.rstrip(b"\r\n")
            self._hold(bare)
            if len(bare) < len(text):
                if self._line or not self._line_bytes:
                    yield bytes(self._line)
                self._line.clear()
                self._line_bytes = 0

    def _hold(self, text: bytes) -> None:
        self._line_bytes += len(text)
        self._is_over = self._is_over or self._line_bytes + self._data_bytes > self._most_bytes
        if self._is_over:
            self._line.clear()
        else:
            self._line += text

    def _take(self, line: bytes) -> Iterator[SseEvent]:
        """Read one line; an empty one ends the event."""
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(BYTE_ORDER_MARK)
        field, _, value = line.partition(b":")
        if not line:
            yield from self._told()
        elif field == b"data":
            self._lines.append(value.removeprefix(b" "))
            self._data_bytes += len(line)
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")

    def _told(self) -> Iterator[SseEvent]:
        if self._is_over:
            self.dropped += 1
        elif self._lines:
            yield SseEvent(b"\n".join(self._lines).decode("utf-8", "replace"), self._name)
        self._lines, self._name = [], ""
        self._data_bytes, self._is_over = 0, False
