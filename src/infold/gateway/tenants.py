"""Tenants: which one a request belongs to, and the sessions of each.

A tenant is a keyed hash of the caller's credential, so that the sessions of two callers never meet. The credential itself is
forwarded and forgotten; neither it nor anything it could be guessed from is stored. A caller whose credential changes keeps its
sessions in two ways: the client sends a secret that stays the same, such as the old credential, in `x-infold-tenant`; or the
operator names one tenant for all callers.
"""

import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock

from msgspec.structs import replace

from infold.catalogue import ASSUMED_CONTEXT_TOKENS, lookup
from infold.errors import UsageError
from infold.gateway.event_hub import EventHub
from infold.observers.bus import Bus
from infold.ports import FullStore
from infold.proxy.managed_request import ManagedRequest, Send, UpstreamServer
from infold.proxy.request import CREDENTIAL_HEADERS, ParsedRequest
from infold.proxy.sessions import RecentlyUsed, SessionPool, StoreCircuitBreaker
from infold.session.process_settings import settings_from
from infold.session.settings import SessionSettings
from infold.session.threads import LoopCallbacks, ThreadBridge
from infold.settings import Settings
from infold.settings.schema import make_private_folder

TENANT_HEADER = "x-infold-tenant"
SHORTEST_SECRET = 16
"""Characters of a client's own secret; providers' keys are longer."""

SECRET_BYTES = 32

MOST_POOLS = 256
"""Session pools that are kept, one for each tenant and model; the least recently used one is dropped."""

MOST_OPEN = 64
"""Sessions that each pool keeps open; others are read from the store when they are needed."""

MOST_LOGGED, LONGEST_LOGGED = 20, 80
"""How many unknown models are logged, and how much of each name: clients may call a model what they like."""

_log = logging.getLogger(__name__)


class Tenants:
    """Identifies callers by their credentials, with a secret that this gateway shares with its replicas.

    `fixed` is the tenant of every caller, if the operator wants only one.
    """

    def __init__(self, secret: bytes, fixed: str | None = None) -> None:
        self._secret = secret
        self._fixed = fixed

    def of(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        """Return the tenant a request belongs to; requests without any credential share one.

        A text in `x-infold-tenant` counts in place of the credential, so that the old credential gives access to its sessions.
        Raise `UsageError` if the text is short enough to be guessed.
        """
        if self._fixed is not None:
            return self._fixed
        given = _credentials(headers, query)
        named = headers.get(TENANT_HEADER, "")
        if named and len(named) < SHORTEST_SECRET:
            raise UsageError(
                f"The header {TENANT_HEADER} has {len(named)} characters. Send a secret of {SHORTEST_SECRET} or more, "
                "such as the credential you used before."
            )
        if named:
            given = (
                [_replace_credential(one, named) for one in given] if any(given) else [f"Bearer {named}", *given[1:]]
            )
        return self._hash(given) or "anonymous"

    def account_of(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        """Return a keyed hash of the credential that a request is sent with, whichever tenant it belongs to; empty if none."""
        return self._hash(_credentials(headers, query))

    def _hash(self, given: Sequence[str]) -> str:
        if not any(one.strip() for one in given):
            return ""
        return hmac.new(self._secret, "\n".join(given).encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:32]


def _credentials(headers: Mapping[str, str], query: Mapping[str, str]) -> list[str]:
    return [*(headers.get(name, "") for name in CREDENTIAL_HEADERS), query.get("key", "")]


def _replace_credential(credential: str, named: str) -> str:
    """Return another credential as the same header would hold it: `Bearer new` becomes `Bearer old`."""
    scheme = credential[: credential.find(" ") + 1]
    if not credential:
        return ""
    return named if named.startswith(scheme) else scheme + named


def secret_for(place: str, environ: Mapping[str, str]) -> bytes:
    """Return the secret for a store: `INFOLD_SECRET`, or one that is created next to a SQLite file, mode 0600.

    Raise `UsageError` for a PostgreSQL store without one: replicas that do not share it would not share sessions.
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
    return _secret_file(Path(place.removeprefix("sqlite:")))


def _secret_file(database: Path) -> bytes:
    path = database.with_name(f"{database.name}-secret")
    try:
        if not path.exists():
            _create_secret(path)
        return _read_secret(path)
    except OSError as error:
        raise UsageError(
            f"no secret can be kept at {path} ({error}); name another store, or set INFOLD_SECRET"
        ) from error


def _create_secret(path: Path) -> None:
    """Create the secret file atomically, mode 0600."""
    make_private_folder(path.parent)
    with NamedTemporaryFile("w", dir=path.parent, prefix=f"{path.name}.") as file:
        file.write(secrets.token_hex(SECRET_BYTES))
        file.flush()
        with suppress(FileExistsError):  # another process was faster; its secret is used
            os.link(file.name, path)


def _read_secret(path: Path) -> bytes:
    try:
        secret = bytes.fromhex(path.read_text("ascii"))
    except ValueError:
        secret = b""
    if len(secret) < SECRET_BYTES:
        raise UsageError(f"{path} holds no secret; delete it, and callers begin new sessions, or set INFOLD_SECRET")
    return secret


class TenantSessions:
    """The sessions of all tenants; the session of a request is looked for among those of its tenant only.

    `threads` are those in which sessions run, which block. `for_requests` are the settings of what clients send, if they are
    not those of stored sessions: one model that answers every request states its window there.
    """

    def __init__(
        self,
        store: FullStore,
        settings: Settings,
        hub: EventHub,
        plugins: tuple[object, ...] = (),
        *,
        for_requests: Settings | None = None,
    ) -> None:
        self.store = store
        self.threads = ThreadBridge()
        self._hub = hub
        self._stored = _SettingsByModel(settings, plugins)
        self._requested = self._stored if for_requests is None else _SettingsByModel(for_requests, plugins)
        lookup(self._stored.of("").model or "")  # reads the catalogue before the first request
        self._pools: RecentlyUsed[SessionPool] = RecentlyUsed(MOST_POOLS)
        self._lock = Lock()
        self._logged: set[str] = set()
        self._breaker = StoreCircuitBreaker()

    def begin(
        self, tenant: str, parsed: ParsedRequest, send: Send, server: UpstreamServer | None = None
    ) -> ManagedRequest:
        """Find the session of a request and make the request fit; raise `WindowExceeded` if that is impossible."""
        model = parsed.asked.model
        pool = self._pools.get((tenant, model), lambda: self._open_pool(tenant, model))
        managed = pool.begin(parsed, send, server)
        if managed.session.is_window_assumed:
            self._log_unknown(model)
        return managed

    def close(self) -> None:
        """Cancel what runs in the background; the store stays open."""
        for pool in self._pools.all():
            pool.close()
        self.threads.close()

    def settings_for(self, model: str, tenant: str | None = None) -> SessionSettings:
        """Return the settings of a tenant's stored sessions with a model."""
        return self._observed(self._stored.of(model), tenant)

    def _observed(self, settings: SessionSettings, tenant: str | None) -> SessionSettings:
        return replace(settings, on_event=partial(self._hub.observe, tenant=tenant))

    def _open_pool(self, tenant: str, model: str) -> SessionPool:
        return SessionPool(
            self.store,
            self._observed(self._requested.of(model), tenant),
            tenant,
            most_open=MOST_OPEN,
            breaker=self._breaker,
            callbacks=lambda: LoopCallbacks(Bus(), observes_on_loop=False),
        )

    def _log_unknown(self, model: str) -> None:
        """Log a model whose window is not known, once: its sessions may be compacted far earlier than necessary."""
        with self._lock:
            if model in self._logged or len(self._logged) >= MOST_LOGGED:
                return
            self._logged.add(model)
        _log.warning(
            "the window of %r is not known and its server reports none, so %s tokens are assumed; set it by --window, or for "
            "this model in infold.toml",
            model[:LONGEST_LOGGED],
            f"{ASSUMED_CONTEXT_TOKENS:,}",
        )


class _SettingsByModel:
    """Session settings by model; summaries are written in the background by default."""

    def __init__(self, settings: Settings, plugins: tuple[object, ...]) -> None:
        self._settings = settings
        self._plugins = plugins
        self._differs = any(layer.scope == "model" for layer in settings.layers)
        self._default = self._resolve("")

    def of(self, model: str) -> SessionSettings:
        """Return the settings of sessions with a model; an empty name stands for that of the settings."""
        default = self._default
        return self._resolve(model) if self._differs else replace(default, model=model or default.model)

    def _resolve(self, model: str) -> SessionSettings:
        given = settings_from(self._settings, model=model or None, plugins=self._plugins)
        background = self._settings.for_session(model=model or None).values["compaction.background"]
        return replace(given, background=given.background or background.origin == "default")
