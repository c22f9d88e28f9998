"""Read a request's body within bounds: so many bytes, in so much time, and so many when it is unpacked."""

from asyncio import timeout

from msgspec import Struct
from starlette.requests import ClientDisconnect, Request

from infold.formats.requests import Unmanaged
from infold.gateway.decoding import PLAIN, decompressor_for

MOST_PASSED_OVER = 4
"""How many times the bytes that are taken are read and let go of a body that is too large; a client that is cut off while it
still sends would never see the answer."""


class Limits(Struct, frozen=True):
    """How large a request may be, how long each side may take, and how many clients may be connected.

    `managed_bytes` is the most that infold reads itself; what is larger is relayed as it came. `upstream_seconds` is the
    longest silence: a stream may go on for as long as it says something. `idle_seconds` are those between two requests, longer
    than SDKs keep a connection, so that they close first; `stall_seconds` those in which a client reads nothing of its reply.
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
    """A request that is not served: the status, and in a sentence why and what to do."""

    status: int
    message: str


async def read_body(request: Request, limits: Limits) -> bytes | Refusal:
    """The whole body, or why it is not taken."""
    told = request.headers.get("content-length", "")
    is_asking = request.headers.get("expect", "").lower() == "100-continue"
    if is_asking and told.isdecimal() and int(told) > limits.body_bytes:
        return _too_large(limits)
    try:
        async with timeout(limits.body_seconds):
            return await _gathered(request, limits)
    except TimeoutError:
        return Refusal(408, f"the request took longer than {limits.body_seconds:g} seconds to arrive; send it faster")
    except ClientDisconnect:
        return Refusal(400, "the request broke off; send it whole")


async def _gathered(request: Request, limits: Limits) -> bytes | Refusal:
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size <= limits.body_bytes:
            pieces.append(piece)
        else:
            pieces.clear()
        if size > limits.body_bytes * MOST_PASSED_OVER:
            break
    return b"".join(pieces) if size <= limits.body_bytes else _too_large(limits)


def _too_large(limits: Limits) -> Refusal:
    return Refusal(413, f"the request is larger than {limits.body_bytes:,} bytes; send fewer or smaller media")


def unpacked(raw: bytes, encoding: str, limits: Limits) -> bytes | Unmanaged:
    """What a body says, given its `content-encoding`; why infold does not read it, where it cannot or would be too much."""
    name = encoding.strip().lower()
    if name in PLAIN:
        return raw if len(raw) <= limits.managed_bytes else _too_much(limits)
    inner = decompressor_for(name)
    if inner is None:
        return Unmanaged(f"the body is compressed ({name})", is_history=True)
    try:
        text = inner.decompress(raw, limits.managed_bytes + 1)
    except ValueError:
        return Unmanaged(f"the body is no {name}")
    if inner.is_full or len(text) > limits.managed_bytes:
        return _too_much(limits)
    return text if inner.is_whole else Unmanaged(f"the body is no {name}")


def _too_much(limits: Limits) -> Unmanaged:
    return Unmanaged(f"larger than the {limits.managed_bytes:,} bytes that infold reads", is_history=True)
