"""Read what an upstream compressed although it was asked not to; the client gets it as it came.

Only the standard library unpacks here: gzip and deflate, which every client and server knows.
"""

import zlib

__all__ = ["Decoding", "GZIP_OR_ZLIB", "KNOWN", "PLAIN"]

MOST_PIECE_BYTES = 8 * 2**20
"""What one piece may come to; a piece is a few kilobytes, and only a trap becomes a thousand times as large."""

GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
PLAIN = frozenset({"", "identity"})
KNOWN = frozenset({"gzip", "x-gzip", "deflate"})


class Decoding:
    """Decodes a body piece by piece; `is_possible` turns false at the first piece that cannot be read."""

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        self._inflating = None if name in PLAIN else zlib.decompressobj(GZIP_OR_ZLIB)
        self.is_possible = name in PLAIN | KNOWN

    def decode(self, piece: bytes) -> bytes:
        """What the piece says; nothing where it cannot be read."""
        if self._inflating is None:
            return piece
        if not self.is_possible:
            return b""
        try:
            decoded = self._inflating.decompress(piece, MOST_PIECE_BYTES)
        except zlib.error:
            self.is_possible = False
            return b""
        self.is_possible = not self._inflating.unconsumed_tail
        return decoded
