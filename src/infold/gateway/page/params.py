"""What a request to the page carries: the session in its path, numbers in its query, the fields of a form."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from infold.core.messages import SessionId
from infold.errors import UnknownSession, UnusableKey, UsageError
from infold.ports import SessionKey

LABELS = {
    "up_to": "the first message to keep",
    "sequence": "the entry to undo",
    "before": "the entry to stop before",
    "page": "the page",
    "at": "the entry",
}
"""What each number is called in an error."""

LARGEST_FORM = 64_000
"""Bytes of a form; the focus of a compaction is a sentence or two."""

LONGEST_NUMBER = 18
FORM_TYPE = "application/x-www-form-urlencoded"

SEPARATOR = "\0"
"""Between tenant and id; keys do not contain it."""


def encode_key(key: SessionKey) -> str:
    """Return a session's key as one segment of a URL, whatever characters it contains."""
    return urlsafe_b64encode(f"{key.tenant}{SEPARATOR}{key.session_id}".encode()).decode().rstrip("=")


def decode_key(address: str) -> SessionKey:
    """Return the key that a segment of a URL stands for; raise `UnknownSession` if it is not valid."""
    try:
        text = urlsafe_b64decode(address.encode("ascii") + b"=" * (-len(address) % 4)).decode()
        tenant, _, session_id = text.partition(SEPARATOR)
        return SessionKey(tenant, SessionId(session_id))
    except (ValueError, UnusableKey) as error:
        raise UnknownSession(address) from error


def key_in(request: Request) -> SessionKey:
    """Return the session in the path of a request; raise `UnknownSession` if it is not valid."""
    return decode_key(request.path_params["address"])


def int_param(given: Mapping[str, str], name: str) -> int | None:
    """Return the number of an entry or of a page; `None` if the field is empty, `UsageError` if it is not a number."""
    text = given.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > LONGEST_NUMBER:
        raise UsageError(f"{LABELS.get(name, name)} must be a number, not {text[:40]!r}; go back and leave it empty")
    return int(text)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form sent by a browser; raise `UsageError` for anything else."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != FORM_TYPE:
        raise UsageError("this is not a form of the page; use its buttons")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_FORM:
            raise UsageError(f"the form is larger than {LARGEST_FORM:,} bytes; shorten it")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
