"""Whose a request is: a keyed hash of its credential, so that sessions of two callers never meet.

The credential itself is forwarded and forgotten; neither it nor anything it could be guessed from is kept. A credential that
changes takes its sessions along in two ways: its client sends a secret that stays the same, such as the old credential, in
`x-infold-tenant`; or the operator names one tenant for all callers.
"""

import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from infold.errors import UsageError

TENANT_HEADER = "x-infold-tenant"
SHORTEST_SECRET = 16
"""Characters of a client's own secret; every provider's keys are longer."""

_CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
"""Headers that providers take credentials in; Gemini takes one in the query too."""

SECRET_BYTES = 32


class Tenants:
    """Tells callers apart by their credentials, under a secret of this gateway and its replicas.

    `fixed` is the tenant of every caller, if the operator wants only one.
    """

    def __init__(self, secret: bytes, fixed: str | None = None) -> None:
        self._secret = secret
        self._fixed = fixed

    def of(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        """Return the tenant a request belongs to; requests without any credential share one.

        A text in `x-infold-tenant` counts as if it stood in place of the credential: whoever knows the old one has its
        sessions. Raise `UsageError` if the text is short enough to be guessed.
        """
        if self._fixed is not None:
            return self._fixed
        given = [*(headers.get(name, "") for name in _CREDENTIALS), query.get("key", "")]
        named = headers.get(TENANT_HEADER, "")
        if named and len(named) < SHORTEST_SECRET:
            raise UsageError(
                f"The header {TENANT_HEADER} has {len(named)} characters. Send a secret of {SHORTEST_SECRET} or more, "
                "such as the credential you used before."
            )
        if named:
            given = [_in_place_of(one, named) for one in given] if any(given) else [f"Bearer {named}", *given[1:]]
        credential = "\n".join(given)
        if not credential.strip():
            return "anonymous"
        return hmac.new(self._secret, credential.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:32]


def _in_place_of(credential: str, named: str) -> str:
    """Return another credential as the same header would hold it: `Bearer new` becomes `Bearer old`."""
    scheme = credential[: credential.find(" ") + 1]
    if not credential:
        return ""
    return named if named.startswith(scheme) else scheme + named


def secret_for(place: str, environ: Mapping[str, str]) -> bytes:
    """The secret for a store: `INFOLD_SECRET`, or one made once and kept beside a SQLite file, readable by its owner alone.

    Raises `UsageError` for a PostgreSQL store without one: replicas that do not share it would not share sessions.
    """
    given = environ.get("INFOLD_SECRET", "")
    if given:
        return given.encode()
    if place.startswith(("postgresql://", "postgres://")):
        raise UsageError(
            "a gateway on PostgreSQL needs INFOLD_SECRET, the same for all replicas; set it to a random text"
        )
    if place == "memory":
        return secrets.token_bytes(SECRET_BYTES)
    return _kept(Path(place.removeprefix("sqlite:")))


def _kept(database: Path) -> bytes:
    path = database.with_name(f"{database.name}-secret")
    try:
        if not path.exists():
            _make(path)
        return _read(path)
    except OSError as error:
        raise UsageError(
            f"no secret can be kept at {path} ({error}); name another store, or set INFOLD_SECRET"
        ) from error


def _make(path: Path) -> None:
    """Write a secret, whole before it has its name, so that nobody reads half of it; its owner alone may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=f"{path.name}.") as file:
        file.write(secrets.token_hex(SECRET_BYTES))
        file.flush()
        with suppress(FileExistsError):  # another process was faster, and its secret is everyone's
            os.link(file.name, path)


def _read(path: Path) -> bytes:
    try:
        secret = bytes.fromhex(path.read_text("ascii"))
    except ValueError:
        secret = b""
    if len(secret) < SECRET_BYTES:
        raise UsageError(f"{path} holds no secret; delete it, and callers begin new sessions, or set INFOLD_SECRET")
    return secret
