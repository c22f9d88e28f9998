"""Which headers are forwarded: a request's to its upstream, and a reply's to the client, byte for byte."""

from collections.abc import Iterable
from typing import TypeAlias

from infold.gateway.auth import COOKIE, TOKEN_HEADER
from infold.gateway.tenants import TENANT_HEADER
from infold.proxy.request import SESSION_HEADER

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

NOTE_HEADER = "x-infold"
"""On every reply: whether the request was managed, or relayed as it was received and why."""

LONGEST_NOTE = 300

HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"),
        *(b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
REQUEST_FRAMING = frozenset({b"host", b"content-length", b"expect"})
OWN = frozenset({SESSION_HEADER.encode(), TENANT_HEADER.encode(), TOKEN_HEADER.encode()})
ACCEPTED_ENCODING, IDEMPOTENCY_KEY, ENCODING = b"accept-encoding", b"idempotency-key", b"content-encoding"


def forwarded(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return a client's headers for its upstream: without those that are meant for the gateway."""
    given = tuple(headers)
    dropped = HOP_BY_HOP | REQUEST_FRAMING | OWN | _named_in_connection(given)
    kept = ((name, value) for name, value in given if name.lower() not in dropped)
    mended = ((name, _without_token(value) if name.lower() == b"cookie" else value) for name, value in kept)
    return tuple((name, value) for name, value in mended if value or name.lower() != b"cookie")


def uncompressed_reply(headers: Headers) -> Headers:
    """Return headers that ask for a reply without compression, so that it can be observed."""
    return (*(pair for pair in headers if pair[0].lower() != ACCEPTED_ENCODING), (ACCEPTED_ENCODING, b"identity"))


def for_another_request(headers: Headers) -> Headers:
    """Return headers for a request that is sent in addition to the client's, and must not count as the same one."""
    return tuple(pair for pair in uncompressed_body(headers) if pair[0].lower() != IDEMPOTENCY_KEY)


def uncompressed_body(headers: Headers) -> Headers:
    """Return headers for a body of infold's own, which is never compressed."""
    return tuple(pair for pair in headers if pair[0].lower() != ENCODING)


def returned(headers: Iterable[tuple[bytes, bytes]], note: str, session_id: str | None = None) -> Headers:
    """Return an upstream's headers for the client, with a note on what was done."""
    given = tuple(headers)
    dropped = HOP_BY_HOP | _named_in_connection(given)
    kept = (pair for pair in given if pair[0].lower() not in dropped)
    session = () if session_id is None else ((SESSION_HEADER.encode(), _as_value(session_id)),)
    return (*kept, (NOTE_HEADER.encode(), _one_line(note)), *session)


def by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by their names in lower case, the first of each name; a client may send thousands."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reversed(tuple(headers))}


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """Return the first header of that name; empty if there is none."""
    return next((value.decode("latin-1") for key, value in headers if key.lower() == name), "")


def _named_in_connection(headers: Headers) -> frozenset[bytes]:
    """Return the headers that a `connection` header declares hop-by-hop."""
    values = (value for name, value in headers if name.lower() == b"connection")
    return frozenset(name.strip().lower() for value in values for name in value.split(b","))


def _without_token(cookies: bytes) -> bytes:
    pairs = cookies.split(b";")
    kept = [pair for pair in pairs if pair.partition(b"=")[0].strip() != COOKIE.encode()]
    return cookies if len(kept) == len(pairs) else b";".join(kept).strip()


def _as_value(session_id: str) -> bytes:
    """Return a session's id as a header's value, which the client may send again."""
    shown = "".join(character if character.isprintable() else "?" for character in session_id)
    return shown.strip().encode("utf-8", "replace")


def _one_line(text: str) -> bytes:
    shown = "".join(character if " " <= character <= "~" else "?" for character in text)
    return shown[:LONGEST_NOTE].strip().encode()
