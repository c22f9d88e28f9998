"""Events in the bytes of a stream: server-sent events, or the objects of a JSON array (one form of Gemini's streams)."""

import re
from collections.abc import Iterator

from msgspec import Struct

MOST_EVENT_BYTES = 32 * 2**20
"""The largest event that is kept: the one that ends a Responses stream holds the whole reply, pictures included."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseEvent(Struct, frozen=True):
    """One event: its data, the lines joined, and its name if it has one."""

    data: str
    name: str = ""


class SseReader:
    """Returns each event as soon as its bytes are complete, split anywhere.

    Holds at most `most_bytes`: an event with a longer line, or longer lines together, is skipped and counted in `dropped`.
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
        """Return the events that this piece completes."""
        is_amid = self._line_bytes or self._lines or self._name or self._is_over or self._is_after_return
        lone = None if is_amid or len(piece) > self._most_bytes else _lone_event(piece)
        if lone is None:
            return [event for line in self._ended_lines(piece) for event in self._take(line)]
        self._is_first = False
        return [lone]

    def close(self) -> list[SseEvent]:
        """Return the last event of a stream that ended without the empty line after it."""
        return self.feed(b"\n\n")

    def _ended_lines(self, piece: bytes) -> Iterator[bytes]:
        """Yield the lines that this piece ends, without their ends; a line feed after a return ends nothing."""
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
            yield from self._end_event()
        elif field == b"data":
            self._lines.append(value.removeprefix(b" "))
            self._data_bytes += len(line)
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")

    def _end_event(self) -> Iterator[SseEvent]:
        if self._is_over:
            self.dropped += 1
        elif self._lines:
            yield SseEvent(b"\n".join(self._lines).decode("utf-8", "replace"), self._name)
        self._lines, self._name = [], ""
        self._data_bytes, self._is_over = 0, False


def _lone_event(piece: bytes) -> SseEvent | None:
    """Return the event that is all of a piece, as most pieces of a stream are; `None` for any other piece."""
    lines = piece.split(b"\n", 4)
    if len(lines) not in (3, 4) or lines[-2:] != [b"", b""] or b"\r" in piece:
        return None
    name, data = lines[0] if len(lines) == 4 else b"event: ", lines[-3]
    if not name.startswith(b"event: ") or not data.startswith(b"data: "):
        return None
    return SseEvent(data[6:].decode("utf-8", "replace"), name[7:].decode("utf-8", "replace"))


_MARK, _QUOTED_MARK = re.compile(rb'["{}\[\]]'), re.compile(rb'["\\]')


class JsonArrayReader:
    """Returns each object of a JSON array as soon as its bytes are complete; holds at most `most_bytes`."""

    def __init__(self, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self.dropped = 0
        self._most_bytes = most_bytes
        self._open = bytearray()
        self._is_over = self._is_quoted = False
        self._depth = self._ahead = 0

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Return the objects that this piece completes."""
        closed: list[SseEvent] = []
        begin, at = 0, self._ahead
        while mark := (_QUOTED_MARK if self._is_quoted else _MARK).search(piece, at):
            at = mark.end()
            match mark[0]:
                case b"\\":
                    at += 1
                case b'"':
                    self._is_quoted = not self._is_quoted
                case b"{" | b"[":
                    self._depth += 1
                    begin = mark.start() if self._depth == 2 else begin
                case _:
                    self._depth = max(0, self._depth - 1)
                    closed += self._end_object(piece[begin:at]) if self._depth == 1 else []
        self._ahead = max(0, at - len(piece))
        if self._depth > 1:
            self._hold(piece[begin:])
        return closed

    def close(self) -> list[SseEvent]:
        """Return nothing: an object that is not closed is dropped."""
        return []

    def _hold(self, text: bytes) -> None:
        self._is_over = self._is_over or len(self._open) + len(text) > self._most_bytes
        if self._is_over:
            self._open.clear()
        else:
            self._open += text

    def _end_object(self, text: bytes) -> list[SseEvent]:
        self._hold(text)
        data, is_over = bytes(self._open), self._is_over
        self._open.clear()
        self._is_over = False
        self.dropped += is_over
        return [] if is_over else [SseEvent(data.decode("utf-8", "replace"))]
