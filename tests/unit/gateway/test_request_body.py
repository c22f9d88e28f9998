"""A body is taken within bounds."""

import asyncio
import gzip
import random
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable

import brotli
import pytest
import zstandard
from starlette.requests import Request
from starlette.types import Message

from infold.formats.requests import Unmanaged
from infold.gateway.request_body import GatewayLimits, Refusal, decompress_body, read_body

SMALL = GatewayLimits(body_bytes=10, body_seconds=5.0)


def asked(*pieces: bytes, headers: dict[str, str] | None = None, ends: bool = True) -> Request:
    """A request whose body comes in these pieces, and then ends or breaks off."""
    messages: list[Message] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.request", "body": b""} if ends else {"type": "http.disconnect"})
    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]

    async def receive() -> Message:
        return messages.pop(0)

    return Request({"type": "http", "method": "POST", "path": "/", "headers": raw}, receive)


def read(request: Request, limits: GatewayLimits = SMALL) -> bytes | Refusal:
    """What is read of it."""
    return asyncio.run(read_body(request, limits))


@pytest.mark.parametrize("pieces", [(), (b"",), (b"12345", b"67890")])
def test_a_body_is_taken_whole(pieces: tuple[bytes, ...]) -> None:
    """What is within the bound is given as it came, in however many pieces."""
    assert read(asked(*pieces)) == b"".join(pieces)


def test_a_body_over_the_bound_is_refused_once_it_was_sent() -> None:
    """A client that sends too much is heard out, so that it sees the answer; nothing of it is kept."""
    request = asked(b"1234567", b"8901", b"2345")
    refusal = read(request)

    assert isinstance(refusal, Refusal)
    assert refusal.status == 413
    assert "10 bytes" in refusal.message


def test_an_endless_body_is_cut_off() -> None:
    """A client that never ends is not heard out: a few times the bound is read, and no more."""
    sent = 0

    async def pieces() -> AsyncIterator[Message]:
        nonlocal sent
        while True:
            sent += 10
            yield {"type": "http.request", "body": b"0123456789", "more_body": True}

    endless = pieces()

    async def receive() -> Message:
        return await anext(endless)

    refusal = read(Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive))

    assert isinstance(refusal, Refusal)
    assert (refusal.status, sent) == (413, 50)


def test_a_client_that_asks_first_is_answered_first() -> None:
    """With `expect: 100-continue` a body that is told to be too large is never sent."""
    request = asked(headers={"content-length": "11", "expect": "100-continue"}, ends=False)
    refusal = read(request)

    assert isinstance(refusal, Refusal)
    assert refusal.status == 413


def test_a_slow_body_is_refused() -> None:
    """A body that does not arrive in its time is refused, and the answer says so."""

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("nothing comes")

    request = Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)
    refusal = read(request, GatewayLimits(body_seconds=0.01))

    assert isinstance(refusal, Refusal)
    assert (refusal.status, "0.01 seconds" in refusal.message) == (408, True)


def test_a_body_that_breaks_off_is_refused() -> None:
    """Half a request is never taken for a whole one."""
    refusal = read(asked(b"12345", ends=False))

    assert isinstance(refusal, Refusal)
    assert refusal.status == 400


def test_a_compressed_body_is_decompressed_within_the_bound() -> None:
    """What is no larger than infold reads is decompressed; a bomb is not, nor what breaks off, goes on, or is something else."""
    limits = GatewayLimits(managed_bytes=1_000)
    packed = gzip.compress(b"x" * 1_000)

    def told(raw: bytes, encoding: str = "gzip") -> bytes | str:
        found = decompress_body(raw, encoding, limits)
        return found.why if isinstance(found, Unmanaged) else found

    assert told(packed) == told(packed, " X-GZIP ") == told(b"x" * 1_000, "identity") == b"x" * 1_000
    assert told(zlib.compress(b"hi"), "deflate") == b"hi"
    assert told(b"x" * 1_001, "") == "larger than the 1,000 bytes that infold reads"
    assert told(gzip.compress(bytes(5_000_000))) == "larger than the 1,000 bytes that infold reads"
    assert {told(raw) for raw in (packed[:-9], packed + b"x", b"{}", b"")} == {"the body is not valid gzip"}
    assert told(packed, "gzip, br") == "the body is compressed (gzip, br)"


@pytest.mark.parametrize(("encoding", "pack"), [("br", brotli.compress), ("zstd", zstandard.compress)])
def test_br_and_zstd_are_decompressed_within_the_bound(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    """B23: newer agents send them; what breaks off, goes on, or is something else is not taken for a body."""
    limits, text = GatewayLimits(managed_bytes=2_000_000), random.Random(1).randbytes(1_000_000)
    packed = pack(text)

    def told(raw: bytes) -> bytes | str:
        found = decompress_body(raw, encoding, limits)
        return found.why if isinstance(found, Unmanaged) else found

    assert told(packed) == text
    assert told(pack(b"")) == b""
    assert told(pack(bytes(20_000_000))) == "larger than the 2,000,000 bytes that infold reads"
    assert {told(raw) for raw in (packed[:-9], packed + b"x", packed + packed, b"{}", b"")} == {
        f"the body is not valid {encoding}"
    }


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstandard.compress)]
)
def test_a_bomb_fills_no_memory(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    """B23: not much more is decompressed than infold would read: one block of output, of 8 MiB at most."""
    bomb = pack(bytes(200_000_000))
    tracemalloc.start()
    decompress_body(bomb, encoding, GatewayLimits(managed_bytes=100_000))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 20_000_000


def test_a_zstd_body_with_a_huge_window_is_not_read() -> None:
    """B23: a frame may ask its reader for a window of gigabytes; HTTP allows 8 MiB."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = writer.compress(random.Random(1).randbytes(300_000)) + writer.flush()

    assert decompress_body(packed, "zstd", GatewayLimits()) == Unmanaged("the body is not valid zstd")
