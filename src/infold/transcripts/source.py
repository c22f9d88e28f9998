"""From bytes to lines and JSON values, within stated bounds.

A damaged line is skipped and noted; damage that leaves nothing to read is an error. Lone surrogates and bytes that are not
UTF-8 become U+FFFD, so that all text can be encoded again.
"""

import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from infold.errors import BrokenInput
from infold.transcripts.record import Issues

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def decode_document(data: bytes, name: str, issues: Issues) -> Any:
    """Return the one JSON value in `data`; raise `BrokenInput` if it is not JSON, or nested too deep."""
    try:
        return decode_line(data, issues, 0)
    except RecursionError as error:
        raise BrokenInput(
            name, "JSON nested too deep", remedy="agents do not write such transcripts; check the file"
        ) from error
    except ValueError as error:
        raise BrokenInput(
            name, f"not a whole JSON document ({error})", remedy="export the transcript again; it may be cut off"
        ) from error


def peek_object(line: bytes, issues: Issues) -> dict[str, Any] | None:
    """Return a line's JSON object, or `None`; damage that a reader will repair does not hide the format."""
    data = line.removeprefix(BYTE_ORDER_MARK).rstrip()
    if not data.endswith(b"}"):
        return None
    try:
        value = decode_line(data, issues, 0)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def decode_line(data: bytes, issues: Issues, line: int) -> Any:
    """Return a JSON value; the slower decoder takes what the strict one refuses: NaN, lone surrogates, bad UTF-8."""
    try:
        return msgspec.json.decode(data)
    except ValueError:
        return _without_surrogates(json.loads(decode_utf8(data, issues, line), strict=False), issues, line)


def decode_utf8(data: bytes, issues: Issues, line: int) -> str:
    """Return the text, with U+FFFD for bytes that are not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        issues.repair("bytes that are not UTF-8 were replaced by U+FFFD", line)
        return data.decode("utf-8", "replace")


def _without_surrogates(value: Any, issues: Issues, line: int) -> Any:
    if isinstance(value, str):
        return _replace_surrogates(value, issues, line)
    if isinstance(value, list):
        return [_without_surrogates(item, issues, line) for item in value]
    if isinstance(value, dict):
        return {
            _replace_surrogates(key, issues, line): _without_surrogates(item, issues, line)
            for key, item in value.items()
        }
    return value


def _replace_surrogates(text: str, issues: Issues, line: int) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        issues.repair("lone surrogates were replaced by U+FFFD", line)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


CHUNK_BYTES = 64 * 1024


HEAD_LINES = 50


Progress: TypeAlias = Callable[[int, int], None]
"""Called with the bytes read so far and the bytes in all, both as they lie on disk."""


class Bounds(NamedTuple):
    """How much is read before an input is taken for hostile; raise one for a file that is trusted.

    Real transcripts compress 5- to 20-fold, and their longest lines are under 10 MB.
    """

    total_bytes: int = 2 * 1024 * 1024 * 1024
    line_bytes: int = 64 * 1024 * 1024
    ratio: int = 200
    ratio_free_bytes: int = 64 * 1024 * 1024


BOUNDS = Bounds()


SQLITE_HEADER = b"SQLite format 3\0"

DATABASE_REMEDY = (
    "for a store of infold, list its sessions with `infold sessions --store FILE` and write one to a file with "
    "`infold export ID --store FILE`; for OpenCode's opencode.db, `opencode export SESSION > session.json`"
)


def open_file(path: Path) -> io.BufferedReader:
    """Open a file to read it as a transcript; raise `BrokenInput` for a SQLite database in use."""
    if is_database_in_use(path):
        problem = "this is a SQLite database that is in use, not a transcript"
        raise BrokenInput(path.name, problem, remedy=DATABASE_REMEDY)
    return path.open("rb")


def is_database_in_use(path: Path) -> bool:
    """Return whether a file is an open SQLite database, which this process must not open and close by itself.

    Closing any descriptor of a file releases all locks that the process holds on it, those of an open store included.
    """
    return Path(f"{os.path.realpath(path)}-wal").exists()


class JsonLine(NamedTuple):
    """One JSON object of a file of lines."""

    line: int
    value: dict[str, Any]


class TextLine(NamedTuple):
    """One line of a text file, without its line break."""

    number: int
    text: str


class Head:
    """The beginning of a source, by which formats are recognised; the whole document only if a format asks for it."""

    def __init__(self, source: "Source", lines: list[bytes]) -> None:
        self._source = source
        self.name = source.name
        self.text = (
            b"\n".join(line[:CHUNK_BYTES] for line in lines)[:CHUNK_BYTES].decode("utf-8", "replace").lstrip("\ufeff")
        )
        issues = Issues()
        self.records = [value for line in lines if (value := peek_object(line, issues)) is not None]
        self.is_repaired = bool(issues.skipped())
        first = next((line for line in lines if line.strip()), b"")
        self.begins_with_record = bool(self.records) and peek_object(first, Issues()) is not None

    @property
    def document(self) -> Any:
        """The one JSON value of the source, or `None` if it does not look like JSON."""
        return self._source.document() if self.text.lstrip()[:1] in ("{", "[") else None


class Source:
    """A stream of bytes, read once, as lines or as one JSON document."""

    def __init__(
        self,
        stream: io.BufferedIOBase,
        *,
        name: str,
        total_bytes: int = 0,
        bounds: Bounds = BOUNDS,
        progress: Progress | None = None,
    ) -> None:
        self.name = name
        self.issues = Issues()
        self._bounds = bounds
        self._meter = _MeteredStream(stream, total_bytes, progress)
        self._chunks = self._bounded(_decompress(self._meter))
        self._ahead = b""
        self._is_ahead = False
        self._document: Any = None

    def head(self) -> Head:
        """Return the beginning without consuming it."""
        self._ahead = self._beginning()
        _refuse_binary(self._ahead, self.name)
        head = Head(self, self._ahead.split(b"\n", HEAD_LINES)[:HEAD_LINES])
        self._keep_single(head)
        return head

    def _beginning(self) -> bytes:
        """Return the first chunks, up to a line break or the longest line there may be.

        A function of its own so that the chunks are released before what they join to is decoded.
        """
        pieces: list[bytes] = []
        size = 0
        for chunk in self._chunks:
            pieces.append(chunk)
            size += len(chunk)
            if b"\n" in chunk.strip() or size > self._bounds.line_bytes:
                break
        else:
            self._is_ahead = True
        return b"".join(pieces)

    def _keep_single(self, head: Head) -> None:
        """Keep the value of a source of one line, decoded already; one with damage is read again, to note it."""
        is_single = self._is_ahead and len(head.records) == 1 and self._ahead.strip().count(b"\n") == 0
        if is_single and not head.is_repaired:
            self._document = head.records[0]

    def records(self) -> Iterator[JsonLine]:
        """Yield every line that is a JSON object; any other line is noted and skipped."""
        for number, data in self._lines():
            value = self._decoded(data, number) if data.strip() else None
            if isinstance(value, dict):
                yield JsonLine(number, value)
            elif value is not None:
                self.issues.skip("a line is JSON but not an object", number)

    def text_lines(self) -> Iterator[TextLine]:
        """Yield every line as text, without its line break."""
        for number, data in self._lines():
            yield TextLine(number, decode_utf8(data, self.issues, number).removesuffix("\r"))

    def document(self) -> Any:
        """Return the whole source as one JSON value, decoded once; raise `BrokenInput` if it is not JSON."""
        if self._document is None:
            self._document = decode_document(b"".join(self._take_chunks()), self.name, self.issues)
        self._ahead = b""
        return self._document

    def _take_chunks(self) -> Iterator[bytes]:
        ahead, self._ahead = self._ahead.removeprefix(BYTE_ORDER_MARK), b""
        return chain((ahead,), self._chunks)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield each line with its number; one that is too long is noted, and is empty."""
        for number, (line, too_long) in enumerate(_split_lines(self._take_chunks(), self._bounds.line_bytes), 1):
            if too_long:
                self.issues.skip(f"a line is longer than {self._bounds.line_bytes:,} bytes", number)
            yield number, line

    def _decoded(self, line: bytes, number: int) -> Any:
        try:
            return decode_line(line, self.issues, number)
        except RecursionError:
            self.issues.skip("a line holds JSON nested too deep", number)
        except ValueError:
            self.issues.skip("a line is not JSON (cut off, or not part of the record)", number)
        return None

    def _bounded(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        size = 0
        try:
            for chunk in chunks:
                size += len(chunk)
                self._refuse_excess(size)
                yield chunk
        except (EOFError, gzip.BadGzipFile, zlib.error):
            self.issues.skip("the compressed data is damaged or ends early; all before it is read")

    def _refuse_excess(self, size: int) -> None:
        bounds = self._bounds
        if size > bounds.total_bytes:
            raise BrokenInput(
                self.name,
                f"unpacks to more than {bounds.total_bytes:,} bytes",
                remedy="raise Bounds.total_bytes if the file is trusted, or split it",
            )
        if size > bounds.ratio_free_bytes and size > bounds.ratio * self._meter.bytes_read:
            raise BrokenInput(
                self.name,
                f"unpacks to over {bounds.ratio} times its size",
                remedy="unpack it by hand and read the result if the file is trusted",
            )


class _MeteredStream(io.RawIOBase):
    """Counts the bytes read from a stream and reports progress."""

    def __init__(self, stream: io.BufferedIOBase, total_bytes: int, progress: Progress | None) -> None:
        self._stream = stream
        self._total_bytes = total_bytes
        self._progress = progress
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self.bytes_read += len(data)
        if self._progress is not None:
            self._progress(self.bytes_read, self._total_bytes)
        return len(data)


def _decompress(meter: _MeteredStream) -> Iterator[bytes]:
    """Yield the stream's bytes, decompressed if it begins as gzip does.

    `read1` returns all that was decompressed before damage is met; `read` would lose the last of it.
    """
    buffered = io.BufferedReader(meter, CHUNK_BYTES)
    packed = buffered.peek(2)[:2] == b"\x1f\x8b"
    stream = gzip.GzipFile(fileobj=buffered) if packed else buffered
    while chunk := stream.read1(CHUNK_BYTES):
        yield chunk


def _split_lines(chunks: Iterator[bytes], max_bytes: int) -> Iterator[tuple[bytes, bool]]:
    """Yield each line and whether it is too long; the bytes of such a line are dropped while they arrive."""
    size = 0
    pieces: list[bytes] = []
    for chunk in chunks:
        for place, piece in enumerate(chunk.split(b"\n")):
            if place:
                yield b"".join(pieces), size > max_bytes
                size, pieces = 0, []
            size += len(piece)
            if size <= max_bytes:
                pieces.append(piece)
            else:
                pieces.clear()
    if size:
        yield b"".join(pieces), size > max_bytes


def _refuse_binary(data: bytes, name: str) -> None:
    if not data.strip():
        raise BrokenInput(name, "the file is empty", remedy="give a transcript that holds messages")
    if data.startswith(b"PK\x03\x04"):
        raise BrokenInput(
            name,
            "this is a zip archive",
            remedy="unpack it first; an Inspect .eval log is turned into JSON by `inspect log dump`",
        )
    if data.startswith(SQLITE_HEADER):
        raise BrokenInput(name, "this is a SQLite database, not a transcript", remedy=DATABASE_REMEDY)
    if b"\0" in data[:8192]:
        raise BrokenInput(name, "this is binary, not text", remedy="give the exported transcript as UTF-8 text or JSON")
