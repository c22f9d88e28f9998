"""Decompress bodies within bounds: gzip and deflate by the standard library, br and zstd where their packages are installed.

Requests are decompressed whole (`bodies.unpacked`), replies piece by piece (`Decoding`), in case an upstream compressed what it
was asked to send plain. What goes on to the other side are always the bytes that came.
"""

import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol

MOST_PIECE_BYTES = 8 * 2**20
"""What one piece may come to; a piece is a few kilobytes, and only a trap becomes a thousand times as large."""

PLAIN = frozenset({"", "identity"})
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS

ZSTD_WINDOW_BYTES = 8 * 2**20
"""The largest window that HTTP allows a zstd body (RFC 9659); the library would take 128 MiB."""

ZSTD_SLICE_BYTES = 256
"""The library does not bound what a call gives. This much input is at most 64 blocks, which are 8 MiB."""


class Decompressor(Protocol):
    """Decompresses one body; `is_whole` once all of it came and nothing after it, `is_full` if more was in it than asked for."""

    is_whole: bool
    is_full: bool

    def decompress(self, piece: bytes, most_bytes: int) -> bytes:
        """Return the text of the next piece, not much more than `most_bytes` of it; raise `ValueError` if it has none."""
        ...


def decompressor_for(encoding: str) -> Decompressor | None:
    """Return what reads a `content-encoding`; `None` for one that is unknown or whose package is not installed."""
    make = _KNOWN.get(encoding)
    try:
        return None if make is None else make()
    except ModuleNotFoundError:
        return None


class _Zlib:
    def __init__(self) -> None:
        self._inner = zlib.decompressobj(GZIP_OR_ZLIB)
        self.is_whole = self.is_full = False

    def decompress(self, piece: bytes, most_bytes: int) -> bytes:
        try:
            text = self._inner.decompress(piece, most_bytes)
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

    def decompress(self, piece: bytes, most_bytes: int) -> bytes:
        try:
            text: bytes = self._inner.process(piece, output_buffer_limit=most_bytes)
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

    def decompress(self, piece: bytes, most_bytes: int) -> bytes:
        text = bytearray()
        for at in range(0, len(piece), ZSTD_SLICE_BYTES):
            if len(text) > most_bytes:
                self.is_full = True
                return bytes(text)
            try:
                text += self._inner.decompress(piece[at : at + ZSTD_SLICE_BYTES])
            except self._library.ZstdError as error:  # also for what follows the end
                raise ValueError(str(error)) from error
        self.is_whole = self._inner.eof and not self._inner.unused_data
        return bytes(text)


_KNOWN: Mapping[str, Callable[[], Decompressor]] = MappingProxyType(
    {"gzip": _Zlib, "x-gzip": _Zlib, "deflate": _Zlib, "br": _Brotli, "zstd": _Zstd}
)


class Decoding:
    """Decodes a body piece by piece; `is_possible` turns false at the first piece that cannot be read."""

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        self._is_plain = name in PLAIN
        self._inner = decompressor_for(name)
        self.is_possible = self._is_plain or self._inner is not None

    def decode(self, piece: bytes) -> bytes:
        """What the piece says; nothing where it cannot be read."""
        if self._is_plain:
            return piece
        if not self.is_possible or self._inner is None:
            return b""
        try:
            decoded = self._inner.decompress(piece, MOST_PIECE_BYTES)
        except ValueError:
            self.is_possible = False
            return b""
        self.is_possible = not self._inner.is_full
        return decoded
