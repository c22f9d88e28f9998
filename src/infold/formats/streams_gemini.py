"""A Gemini reply out of the pieces of its stream, which are events or the objects of one JSON array."""

import re

from infold.formats.items import Item
from infold.formats.streams_pieces import Pieces, dicts, fields, grow, whole
from infold.formats.streams_sse import MOST_EVENT_BYTES, SseEvent, SseReader

MARKS = frozenset({"candidates", "usageMetadata", "promptFeedback"})
"""Fields of which a piece of a reply has at least one."""


class GeminiReply:
    """Gathers the first candidate of a reply.

    Neighbouring texts become one, as in a reply that is not streamed. A part with a signature stays by itself, for the API
    wants it back where it was.
    """

    def __init__(self) -> None:
        self._fields: Item = {}
        self._candidate: Item = {}
        self._content: Item = {}
        self._parts: list[Item] = []

    @property
    def is_finished(self) -> bool:
        """Whether the candidate says why it ended."""
        return bool(self._candidate.get("finishReason"))

    def take(self, kind: str, event: Item) -> None:
        """Add a piece of a reply; what is none is passed over."""
        del kind
        if not MARKS & event.keys():
            return
        usage = fields(self._fields.get("usageMetadata")) | fields(event.get("usageMetadata"))
        self._fields |= {field: value for field, value in event.items() if field not in ("candidates", "error")}
        self._fields |= {"usageMetadata": usage} if usage else {}
        for candidate in dicts(event.get("candidates")):
            if not candidate.get("index"):
                self._take_candidate(candidate)

    def grow(self, data: bytes) -> bool:
        """False: pieces are few and large, and gain nothing by being read quickly."""
        del data
        return False

    def reply(self) -> Item | None:
        """The reply so far; nothing before its first piece."""
        if not self._fields and not self._candidate:
            return None
        content = {"role": "model", **self._content, "parts": whole(self._parts)}
        candidates = [{**self._candidate, "content": content}] if self._candidate else []
        return {**self._fields, "candidates": candidates}

    def _take_candidate(self, candidate: Item) -> None:
        content = fields(candidate.get("content"))
        told = {field: value for field, value in candidate.items() if field != "content" and value is not None}
        self._candidate |= {"index": 0} | told
        self._content |= {field: value for field, value in content.items() if field != "parts"}
        for part in dicts(content.get("parts")):
            self._take_part(part)

    def _take_part(self, part: Item) -> None:
        last = self._parts[-1] if self._parts else {}
        if _is_plain_text(part) and _is_plain_text(last) and bool(part.get("thought")) == bool(last.get("thought")):
            grow(last, "text", part["text"])
        elif part:
            self._parts.append({**part})


def _is_plain_text(part: Item) -> bool:
    return isinstance(part.get("text"), str | Pieces) and part.keys() <= {"text", "thought"}


# Where the pieces come from.


class GeminiReader:
    """Reads either form of a stream; the first character that is no space tells which it is."""

    def __init__(self, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._reader: SseReader | JsonArrayReader = SseReader(most_bytes)
        self._is_chosen = False

    @property
    def dropped(self) -> int:
        """How many pieces of the reply were too large."""
        return self._reader.dropped

    def feed(self, piece: bytes) -> list[SseEvent]:
        """The pieces of the reply that these bytes complete."""
        begun = b"" if self._is_chosen else piece.lstrip()
        if begun:
            self._is_chosen = True
            self._reader = JsonArrayReader(self._most_bytes) if begun.startswith(b"[") else self._reader
        return self._reader.feed(piece)

    def lone(self, piece: bytes) -> None:
        """Nothing: each piece is fed."""
        del piece

    def close(self) -> list[SseEvent]:
        """The last event of a stream that ended without the empty line after it."""
        return self._reader.close()


BARE, QUOTED = re.compile(rb'["{}\[\]]'), re.compile(rb'["\\]')


class JsonArrayReader:
    """Gives each object of a JSON array as soon as its bytes are complete, never holding more than `most_bytes`."""

    def __init__(self, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self.dropped = 0
        self._most_bytes = most_bytes
        self._open = bytearray()
        self._is_over = self._is_quoted = False
        self._depth = self._ahead = 0

    def feed(self, piece: bytes) -> list[SseEvent]:
        """The objects that this piece completes."""
        closed: list[SseEvent] = []
        begin, at = 0, self._ahead
        while mark := (QUOTED if self._is_quoted else BARE).search(piece, at):
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
                    closed += self._closed(piece[begin:at]) if self._depth == 1 else []
        self._ahead = max(0, at - len(piece))
        if self._depth > 1:
            self._hold(piece[begin:])
        return closed

    def close(self) -> list[SseEvent]:
        """Nothing: an object that is not closed is no object."""
        return []

    def _hold(self, text: bytes) -> None:
        self._is_over = self._is_over or len(self._open) + len(text) > self._most_bytes
        if self._is_over:
            self._open.clear()
        else:
            self._open += text

    def _closed(self, text: bytes) -> list[SseEvent]:
        self._hold(text)
        data, is_over = bytes(self._open), self._is_over
        self._open.clear()
        self._is_over = False
        self.dropped += is_over
        return [] if is_over else [SseEvent(data.decode("utf-8", "replace"))]
