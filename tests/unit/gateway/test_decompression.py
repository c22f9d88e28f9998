"""What was compressed unasked is read all the same."""

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from infold.gateway.request_body import ReplyDecoder

TEXT = b"data: apples\n\n" * 100


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("", TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT, mtime=0)),
        ("X-GZIP", gzip.compress(TEXT, mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("br", brotli.compress(TEXT)),
        ("zstd", zstandard.compress(TEXT)),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_body_is_read_however_it_is_split(encoding: str, body: bytes, size: int) -> None:
    """Any split of the bytes gives the same text."""
    decoding = ReplyDecoder(encoding)

    assert b"".join(decoding.decode(body[at : at + size]) for at in range(0, len(body), size)) == TEXT
    assert decoding.is_readable


@pytest.mark.parametrize(
    ("encoding", "body"), [("br", b"x" * 99), ("zstd", TEXT), ("gzip", b"no gzip at all"), ("zip", TEXT)]
)
def test_what_cannot_be_read_is_told(encoding: str, body: bytes) -> None:
    """An encoding that is not known, or is not what it says, gives nothing."""
    decoding = ReplyDecoder(encoding)

    assert [decoding.decode(body), decoding.decode(body)] == [b"", b""]
    assert not decoding.is_readable


@pytest.mark.parametrize("pack", [("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstandard.compress)])
def test_a_trap_is_not_sprung(pack: tuple[str, Callable[[bytes], bytes]]) -> None:
    """A piece that would become a thousand times as large is not read on."""
    decoding = ReplyDecoder(pack[0])

    assert 8 * 2**20 <= len(decoding.decode(pack[1](bytes(100 * 2**20)))) <= 24 * 2**20
    assert not decoding.is_readable
    assert decoding.decode(b"more") == b""
