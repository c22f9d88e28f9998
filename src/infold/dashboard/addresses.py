"""Where a session's pages are: its key as one piece of a URL, whatever characters the key is made of."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from infold.core.messages import SessionId
from infold.errors import UnknownSession, UnusableKey
from infold.ports import SessionKey

SEPARATOR = "\0"
"""Between tenant and id; no key holds it."""


def address_of(key: SessionKey) -> str:
    """The address of a session."""
    return urlsafe_b64encode(f"{key.tenant}{SEPARATOR}{key.session_id}".encode()).decode().rstrip("=")


def key_at(address: str) -> SessionKey:
    """The key that an address stands for; raises `UnknownSession` for anything that is none."""
    try:
        text = urlsafe_b64decode(address.encode("ascii") + b"=" * (-len(address) % 4)).decode()
        tenant, _, session_id = text.partition(SEPARATOR)
        return SessionKey(tenant, SessionId(session_id))
    except (ValueError, UnusableKey) as error:
        raise UnknownSession(address) from error
