"""Read a request's body within limits of bytes and time, and decompress bodies within limits of memory.

gzip and deflate are decompressed by the standard library, br and zstd if their packages are installed. Requests are decompressed
as a whole (`decompress_body`), replies in chunks (`ReplyDecoder`), in case an upstream compresses although it was asked not to.
The bytes that are passed on are always those that were received.
"""

import zlib
from asyncio import timeout
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct
from starlette.requests import ClientDisconnect, Request

from infold.formats.requests import Unmanaged

MOST_DISCARDED = 4
"""How much of a body that is too large is read and discarded, as a multiple of the limit; a client that is cut off while it
still sends would never see the answer."""


class GatewayLimits(Struct, frozen=True):
    """How large a request may be, how long each side may take, and how many clients may be connected.

    Requests larger than `managed_bytes` are relayed without being parsed. `upstream_seconds` limits the time between two chunks,
    not that of a stream. `idle_seconds` pass between two requests of a connection: more than SDKs keep one, so that they close
    it first. In `stall_seconds` a client reads nothing of its reply.
    """

    body_bytes: int = 64 * 2**20
    managed_bytes: int = 32 * 2**20
    header_seconds: float = 20.0
    body_seconds: float = 60.0
    idle_seconds: float = 75.0
    stall_seconds: float = 300.0
    connect_seconds: float = 10.0
    upstream_seconds: float = 600.0
    connections: int = 1_000


class Refusal(Struct, frozen=True):
    """A request that the gateway does not serve: the status, and a sentence that says why and what to do."""

    status: int
    message: str

    @property
    def body(self) -> dict[str, object]:
        """The answer, in the shape that SDKs read errors from."""
        error = {"message": self.message, "type": "infold_gateway_error", "code": self.status}
        return {"type": "error", "error": error}


async def read_body(request: Request, limits: GatewayLimits) -> bytes | Refusal:
    """Return the complete body, or a refusal if it is too large, too slow or incomplete."""
    length = request.headers.get("content-length", "")
    waits = request.headers.get("expect", "").lower() == "100-continue"
    if waits and length.isdecimal() and int(length) > limits.body_bytes:
        return _too_large(limits)
    try:
        async with timeout(limits.body_seconds):
            return await _read(request, limits)
    except TimeoutError:
        return Refusal(408, f"the request took longer than {limits.body_seconds:g} seconds to arrive; send it faster")
    except ClientDisconnect:
        return Refusal(400, "the request broke off; send it whole")


async def _read(request: Request, limits: GatewayLimits) -> bytes | Refusal:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= limits.body_bytes:
            chunks.append(chunk)
        else:
            chunks.clear()
        if size > limits.body_bytes * MOST_DISCARDED:
            break
    return b"".join(chunks) if size <= limits.body_bytes else _too_large(limits)


def _too_large(limits: GatewayLimits) -> Refusal:
    return Refusal(413, f"the request is larger than {limits.body_bytes:,} bytes; send fewer or smaller media")


def decompress_body(raw: bytes, encoding: str, limits: GatewayLimits) -> bytes | Unmanaged:
    """Return a body without its `content-encoding`, or why infold does not read it."""
    name = encoding.strip().lower()
    if name in PLAIN:
        return raw if len(raw) <= limits.managed_bytes else _too_much(limits)
    inner = decompressor_for(name)
    if inner is None:
        return Unmanaged(f"the body is compressed ({name})", is_history=True)
    try:
        text = inner.decompress(raw, limits.managed_bytes + 1)
    except ValueError:
        return Unmanaged(f"the body is not valid {name}")
    if inner.is_full or len(text) > limits.managed_bytes:
        return _too_much(limits)
    return text if inner.is_whole else Unmanaged(f"the body is not valid {name}")


def _too_much(limits: GatewayLimits) -> Unmanaged:
    return Unmanaged(f"larger than the {limits.managed_bytes:,} bytes that infold reads", is_history=True)


# Decompression.

MOST_CHUNK_BYTES = 8 * 2**20
"""The most that one chunk may become; chunks are a few kilobytes, and only a decompression bomb grows a thousandfold."""

PLAIN = frozenset({"", "identity"})
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS

ZSTD_WINDOW_BYTES = 8 * 2**20
"""The largest window that HTTP allows for zstd (RFC 9659); the library's default is 128 MiB."""

ZSTD_SLICE_BYTES = 256
"""The library does not limit its output. This much input is at most 64 blocks, which are 8 MiB."""


class Decompressor(Protocol):
    """Decompresses one body; `is_whole` at its end if nothing follows, `is_full` if it holds more than was asked for."""

    is_whole: bool
    is_full: bool

    def decompress(self, chunk: bytes, most_bytes: int) -> bytes:
        """Decompress the next chunk to little more than `most_bytes`; raise `ValueError` if it is malformed."""
        ...


def decompressor_for(encoding: str) -> Decompressor | None:
    """Return a decompressor for a `content-encoding`; `None` if it is unknown or its package is not installed."""
    make = _KNOWN.get(encoding)
    try:
        return None if make is None else make()
    except ModuleNotFoundError:
        return None


class _Zlib:
    def __init__(self) -> None:
        self._inner = zlib.decompressobj(GZIP_OR_ZLIB)
        self.is_whole = self.is_full = False

    def decompress(self, chunk: bytes, most_bytes: int) -> bytes:
        try:
            text = self._inner.decompress(chunk, most_bytes)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        self.is_full = bool(self._inner.unconsumed_tail)
        self.is_whole = self._inner.eof and not self._inner.unused_data
        return text


class _Brotli:
    def __init__(self) -> None:
        self._library: Any = import_module("brotli")
        self._inner = self._library.Decompressor()
        self.is_whole = self.is_full = False

    def decompress(self, chunk: bytes, most_bytes: int) -> bytes:
        try:
            text: bytes = self._inner.process(chunk, output_buffer_limit=most_bytes)
        except self._library.error as error:
            raise ValueError(str(error)) from error
        self.is_whole = self._inner.is_finished()
        self.is_full = not self.is_whole and not self._inner.can_accept_more_data()
        return text


class _Zstd:
    def __init__(self) -> None:
        self._library: Any = import_module("zstandard")
        self._inner = self._library.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES).decompressobj()
        self.is_whole = self.is_full = False

    def decompress(self, chunk: bytes, most_bytes: int) -> bytes:
        text = bytearray()
        for at in range(0, len(chunk), ZSTD_SLICE_BYTES):
            if len(text) > most_bytes:
                self.is_full = True
                return bytes(text)
            try:
                text += self._inner.decompress(chunk[at : at + ZSTD_SLICE_BYTES])
            except self._library.ZstdError as error:  # also for data after the end
                raise ValueError(str(error)) from error
        self.is_whole = self._inner.eof and not self._inner.unused_data
        return bytes(text)


_KNOWN: Mapping[str, Callable[[], Decompressor]] = MappingProxyType(
    {"gzip": _Zlib, "x-gzip": _Zlib, "deflate": _Zlib, "br": _Brotli, "zstd": _Zstd}
)


class ReplyDecoder:
    """Decompresses a reply in chunks; `is_readable` turns false at the first chunk that cannot be decompressed."""

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        self._is_plain = name in PLAIN
        self._inner = decompressor_for(name)
        self.is_readable = self._is_plain or self._inner is not None

    def decode(self, chunk: bytes) -> bytes:
        """Return the content of the next chunk; empty if it cannot be decompressed."""
        if self._is_plain:
            return chunk
        if not self.is_readable or self._inner is None:
            return b""
        try:
            decoded = self._inner.decompress(chunk, MOST_CHUNK_BYTES)
        except ValueError:
            self.is_readable = False
            return b""
        self.is_readable = not self._inner.is_full
        return decoded
