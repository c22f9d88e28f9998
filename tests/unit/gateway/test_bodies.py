"""A body is taken within bounds."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request
from starlette.types import Message

from infold.gateway.bodies import Limits, Refusal, read_body

SMALL = Limits(body_bytes=10, body_seconds=5.0)


def asked(*pieces: bytes, headers: dict[str, str] | None = None, ends: bool = True) -> Request:
    """A request whose body comes in these pieces, and then ends or breaks off."""
    messages: list[Message] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.request", "body": b""} if ends else {"type": "http.disconnect"})
    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]

    async def receive() -> Message:
        return messages.pop(0)

    return Request({"type": "http", "method": "POST", "path": "/", "headers": raw}, receive)


def read(request: Request, limits: Limits = SMALL) -> bytes | Refusal:
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
    refusal = read(request, Limits(body_seconds=0.01))

    assert isinstance(refusal, Refusal)
    assert (refusal.status, "0.01 seconds" in refusal.message) == (408, True)


def test_a_body_that_breaks_off_is_refused() -> None:
    """Half a request is never taken for a whole one."""
    refusal = read(asked(b"12345", ends=False))

    assert isinstance(refusal, Refusal)
    assert refusal.status == 400
