"""Read a request's body within bounds: so many bytes, in so much time."""

from asyncio import timeout

from msgspec import Struct
from starlette.requests import Request

__all__ = ["Limits", "Refusal", "read_body"]


class Limits(Struct, frozen=True):
    """How large a request may be, how long it may take to arrive, and how long an upstream may take to answer."""

    body_bytes: int = 64 * 2**20
    body_seconds: float = 60.0
    connect_seconds: float = 10.0
    upstream_seconds: float = 600.0


class Refusal(Struct, frozen=True):
    """A request that is not served: the status, and in a sentence why and what to do."""

    status: int
    message: str


async def read_body(request: Request, limits: Limits) -> bytes | Refusal:
    """The whole body, or why it is not taken."""
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > limits.body_bytes:
        return _too_large(limits)
    pieces: list[bytes] = []
    size = 0
    try:
        async with timeout(limits.body_seconds):
            async for piece in request.stream():
                size += len(piece)
                if size > limits.body_bytes:
                    return _too_large(limits)
                pieces.append(piece)
    except TimeoutError:
        return Refusal(408, f"the request took longer than {limits.body_seconds:g} seconds to arrive; send it faster")
    return b"".join(pieces)


def _too_large(limits: Limits) -> Refusal:
    return Refusal(413, f"the request is larger than {limits.body_bytes:,} bytes; send fewer or smaller media")
