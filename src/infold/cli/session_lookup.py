"""Sessions in a store as a command line names them: where the store is, and which session is meant."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click

from infold.agent.snapshots import session_root
from infold.agent.trust import default_store
from infold.cli.render import counted, legible
from infold.core.messages import SessionId
from infold.dashboard.listing import by_change
from infold.errors import InfoldError, UsageError
from infold.ports import FullStore, SessionKey, Store
from infold.settings import StoreLimits, read_settings
from infold.settings.schema import store_path
from infold.wiring import keep_within, open_store

LAST = "last"
"""What the session may be called that changed last, in this folder if there is one."""


BEGIN = 'begin one with: infold run "what to do"'


MOST_IDS = 8


F = TypeVar("F", bound=Callable[..., Any])


_log = logging.getLogger(__name__)


session_argument = click.argument("session", metavar="ID")


_STORE = click.option(
    "--store", metavar="PLACE", help="Where the sessions are: a file's path or a postgresql:// address; else your own."
)


_TENANT = click.option("--tenant", metavar="NAME", help="Whose sessions, in the store of a gateway; else everybody's.")


def naming(function: F) -> F:
    """The options of every verb on stored sessions: which store, and whose sessions."""
    return reduce(lambda wrapped, option: option(wrapped), (_TENANT, _STORE), function)


def place_of(named: str | None, environ: Mapping[str, str] | None = None) -> str:
    """Where sessions are kept: as named, as set, or in the user's own file."""
    if named is not None:
        return named
    environ = os.environ if environ is None else environ
    settings = read_settings(environ, None)  # a project has no say in where sessions are kept
    return settings.store if settings.is_store_stated else default_store(environ)


def existing(place: str) -> str:
    """The place, if there is a store; a mistyped path must not become a new one. Raises `UsageError` otherwise."""
    if "://" in place:
        return place  # whoever opens it sees
    if place == "memory":
        raise UsageError("a store in memory is seen by its own process alone; name a file or a postgresql:// address")
    path = store_path(place)
    if not path.is_file():
        raise UsageError(f"there is no store at {path}; name the file that sessions are kept in")
    return str(path)


def is_there(place: str) -> bool:
    """Whether a store is where it should be, as far as that can be seen without asking it."""
    return "://" in place or store_path(place).is_file()


def kept_within(store: FullStore, limits: StoreLimits) -> None:
    """Delete what is beyond the limits that are set (B27), and say on stderr how much; a failure is logged and ends nothing."""
    try:
        gone = keep_within(store, limits)
    except InfoldError as error:
        _log.warning("the store was not held to its limits: %s", error)
        return
    if gone:
        click.echo(f"deleted {counted(gone, 'session')} beyond your store_limits", err=True)


@contextmanager
def reading_store(named: str | None) -> Iterator[FullStore]:
    """The store that was named, or the user's own, closed at the end; raises `UsageError` where there is none."""
    place = place_of(named)
    if named is None and place != "memory" and not is_there(place):
        raise UsageError(f"there are no sessions yet (no store at {store_path(place)}); {BEGIN}")
    with open_store(existing(place)) as store:
        yield store


def chosen_key(store: FullStore, wanted: str, tenant: str | None = None, *, folder: Path | None = None) -> SessionKey:
    """The session meant by its id, by a beginning that no other has, or by `last`; raises `UsageError` where none is.

    `last` is of the folder, else the current one; where no session is, it is the last of all, and whose is told on stderr. An
    empty name, as of a variable that is not set, is nobody's.
    """
    if wanted == LAST:
        return _last(store, tenant, folder or Path.cwd())
    found = _exactly(store, wanted, tenant) or [
        one.key for one in by_change(store, tenant) if wanted and one.key.session_id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    raise _ambiguous(wanted, found) if found else _unknown(store, wanted, tenant)


def folder_of(store: Store, key: SessionKey) -> str:
    """The project that a session was last worked on in; empty where that was not recorded or cannot be read."""
    try:
        return session_root(store, key)
    except InfoldError:
        return ""


def tell_where(store: Store, key: SessionKey, folder: Path) -> None:
    """Say on stderr which folder a session belongs to, where it is another than this."""
    own = folder_of(store, key)
    if own not in ("", str(folder.resolve())):
        click.echo(legible(f"session {key.session_id} belongs to another folder, {own}"), err=True)


def _last(store: FullStore, tenant: str | None, folder: Path) -> SessionKey:
    """The newest session that is not known to belong elsewhere; else the newest."""
    newest = next(by_change(store, tenant), None)
    if newest is None:
        raise UsageError(f"there are no sessions yet; {BEGIN}")
    here = ("", str(folder.resolve()))
    own = next((one.key for one in by_change(store, tenant) if folder_of(store, one.key) in here), None)
    if own is None:
        told = f"no session belongs to this folder; the last of all is {newest.key.session_id}"
        click.echo(legible(f"{told}, of {folder_of(store, newest.key)}"), err=True)
    return own or newest.key


def _exactly(store: FullStore, wanted: str, tenant: str | None) -> list[SessionKey]:
    tenants = store.tenants() if tenant is None else (tenant,)
    keys = (SessionKey(one, SessionId(wanted)) for one in tenants) if wanted else ()
    return [key for key in keys if next(store.newest_first(key), None) is not None]


def _ambiguous(wanted: str, found: list[SessionKey]) -> UsageError:
    if len({key.session_id for key in found}) == 1:
        return UsageError(f"several tenants have a session {wanted!r}; say whose with --tenant")
    return UsageError(f"several sessions begin with {wanted!r}: {_listed(found)}; give more of the id")


def _unknown(store: FullStore, wanted: str, tenant: str | None) -> UsageError:
    newest = [one.key for one in islice(by_change(store, tenant), MOST_IDS)]
    if not newest:
        return UsageError(f"there is no session {wanted!r}, nor any other; {BEGIN}")
    return UsageError(f"there is no session {wanted!r}; the newest are {_listed(newest)}; see infold sessions")


def _listed(keys: list[SessionKey]) -> str:
    more = f" and {len(keys) - MOST_IDS} more" if len(keys) > MOST_IDS else ""
    return ", ".join(repr(str(key.session_id)) for key in keys[:MOST_IDS]) + more
