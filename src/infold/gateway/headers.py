"""Which headers travel on: a request's to its upstream, and a reply's back to the client; byte for byte, doubles included."""

from collections.abc import Iterable
from typing import TypeAlias

from infold.engine.finding import SESSION_HEADER
from infold.gateway.guard import COOKIE, TOKEN_HEADER
from infold.gateway.tenants import TENANT_HEADER

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

NOTE_HEADER = "x-infold"
"""On every reply: whether the request was managed, or relayed as it came and why."""

LONGEST_NOTE = 300

HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"),
        *(b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
"""What is said between two neighbours and goes no further."""

REQUEST_FRAMING = frozenset({b"host", b"content-length", b"expect"})
OURS = frozenset({SESSION_HEADER.encode(), TENANT_HEADER.encode(), TOKEN_HEADER.encode()})
ENCODING, ONCE, PACKED = b"accept-encoding", b"idempotency-key", b"content-encoding"


def forwarded(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """A client's headers as its upstream gets them: without what is meant for the gateway."""
    given = tuple(headers)
    dropped = HOP_BY_HOP | REQUEST_FRAMING | OURS | _named(given)
    kept = ((name, value) for name, value in given if name.lower() not in dropped)
    mended = ((name, _without_token(value) if name.lower() == b"cookie" else value) for name, value in kept)
    return tuple((name, value) for name, value in mended if value or name.lower() != b"cookie")


def readable(headers: Headers) -> Headers:
    """Headers that ask for the reply as it is: it is read on its way back."""
    return (*(pair for pair in headers if pair[0].lower() != ENCODING), (ENCODING, b"identity"))


def anew(headers: Headers) -> Headers:
    """Headers for a request that goes out beside or after the client's own, and must not be taken for the same."""
    return tuple(pair for pair in uncompressed(headers) if pair[0].lower() != ONCE)


def uncompressed(headers: Headers) -> Headers:
    """Headers for a body of our own making, which is never compressed."""
    return tuple(pair for pair in headers if pair[0].lower() != PACKED)


def returned(headers: Iterable[tuple[bytes, bytes]], note: str, session_id: str | None = None) -> Headers:
    """An upstream's headers as the client gets them, with a word on what was done."""
    given = tuple(headers)
    dropped = HOP_BY_HOP | _named(given)
    kept = (pair for pair in given if pair[0].lower() not in dropped)
    session = () if session_id is None else ((SESSION_HEADER.encode(), _named_so(session_id)),)
    return (*kept, (NOTE_HEADER.encode(), _one_line(note)), *session)


def by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by their names in lower case, the first of each name; a client may send thousands."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reversed(tuple(headers))}


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """The first header of that name; empty where there is none."""
    return next((value.decode("latin-1") for key, value in headers if key.lower() == name), "")


def _named(headers: Headers) -> frozenset[bytes]:
    """The headers that a `connection` header says are for the neighbour alone."""
    told = (value for name, value in headers if name.lower() == b"connection")
    return frozenset(name.strip().lower() for value in told for name in value.split(b","))


def _without_token(cookies: bytes) -> bytes:
    pairs = cookies.split(b";")
    kept = [pair for pair in pairs if pair.partition(b"=")[0].strip() != COOKIE.encode()]
    return cookies if len(kept) == len(pairs) else b";".join(kept).strip()


def _named_so(session_id: str) -> bytes:
    """A session's name as its client may send it again."""
    shown = "".join(character if character.isprintable() else "?" for character in session_id)
    return shown.strip().encode("utf-8", "replace")


def _one_line(text: str) -> bytes:
    shown = "".join(character if " " <= character <= "~" else "?" for character in text)
    return shown[:LONGEST_NOTE].strip().encode()
