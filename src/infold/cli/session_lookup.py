"""Find the store and the session that a command line names."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from infold.agent.snapshots import session_root
from infold.agent.trust import default_store
from infold.cli.options import combine
from infold.core.messages import SessionId
from infold.errors import InfoldError, UsageError
from infold.ports import FullStore, SessionKey, Store
from infold.reports.listing import Tallies, newest_sessions
from infold.reports.text import name_some, plural, printable
from infold.settings import StoreLimits, read_settings
from infold.settings.schema import store_path
from infold.wiring import keep_within, open_store

LAST = "last"
"""Names the session that changed last, in this folder if there is one."""

START_HINT = 'start one with: infold run "what to do"'
MOST_IDS, MOST_COMPLETED = 8, 50

_log = logging.getLogger(__name__)


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of stored sessions that begin so, the last changed first, with their titles, for the shell."""
    del param
    try:
        with open_existing_store(ctx.params.get("store")) as store:
            tallies = Tallies(store)
            found = (one.key for one in newest_sessions(store) if one.key.session_id.startswith(incomplete))
            items = [CompletionItem(key.session_id, help=tallies.title(key)) for key in islice(found, MOST_COMPLETED)]
    except (InfoldError, OSError):
        items = []
    return [
        *([CompletionItem(LAST, help="the session that changed last")] if LAST.startswith(incomplete) else []),
        *items,
    ]


session_argument = click.argument("session", metavar="ID", shell_complete=complete_session)

store_options = combine(
    click.option(
        "--store", metavar="PLACE", help="The store: a file's path or a postgresql:// address; your own by default."
    ),
    click.option("--tenant", metavar="NAME", help="The tenant, in the store of a gateway; all tenants by default."),
)
"""The options of every verb on stored sessions."""


def store_location(named: str | None, environ: Mapping[str, str] | None = None) -> str:
    """Return where sessions are stored: as named, as set, or in the user's own file."""
    if named is not None:
        return named
    environ = os.environ if environ is None else environ
    settings = read_settings(environ, None)  # a project must not decide where sessions are stored
    return settings.store if settings.is_store_stated else default_store(environ)


def store_exists(place: str) -> bool:
    """Whether a store exists, as far as that can be seen without opening it."""
    return "://" in place or store_path(place).is_file()


@contextmanager
def open_existing_store(named: str | None) -> Iterator[FullStore]:
    """Open the named store, or the user's own; raise `UsageError` if it does not exist, rather than create it."""
    place = store_location(named)
    if place == "memory":
        raise UsageError("a store in memory is visible to its own process only; name a file or a postgresql:// address")
    if not store_exists(place):
        if named is None:
            raise UsageError(f"there are no sessions yet (no store at {store_path(place)}); {START_HINT}")
        raise UsageError(f"no store at {store_path(place)}; name the file that holds the sessions")
    with open_store(place if "://" in place else str(store_path(place))) as store:
        yield store


def enforce_limits(store: FullStore, limits: StoreLimits) -> None:
    """Delete sessions beyond the store's limits and note the count on stderr; a failure is only logged."""
    try:
        deleted = keep_within(store, limits)
    except InfoldError as error:
        _log.warning("the limits of the store were not enforced: %s", error)
        return
    if deleted:
        click.echo(f"deleted {plural(deleted, 'session')} beyond your store_limits", err=True)


def find_session(
    store: FullStore, wanted: str, tenant: str | None = None, *, folder: Path | None = None, is_final: bool = False
) -> SessionKey:
    """Return the session named by its id, by a unique beginning of it, or by `last`; raise `UsageError` otherwise.

    `last` is the last one of the folder, the current one by default; if there is none, the last of all, which is noted on
    stderr. `is_final`: what is done to the session cannot be undone, so `last` is one that was used in this folder, or an
    error. An empty name, as of an unset variable, matches no session.
    """
    if wanted == LAST:
        return _last(store, tenant, folder or Path.cwd(), is_final=is_final)
    found = _exactly(store, wanted, tenant) or [
        one.key for one in newest_sessions(store, tenant) if wanted and one.key.session_id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    raise _ambiguous(wanted, found) if found else _unknown(store, wanted, tenant)


def session_folder(store: Store, key: SessionKey) -> str:
    """Return the project a session was last used in; empty if that was not recorded or cannot be read."""
    try:
        return session_root(store, key)
    except InfoldError:
        return ""


def note_other_folder(store: Store, key: SessionKey, folder: Path) -> None:
    """Note on stderr if a session belongs to another folder than this."""
    own = session_folder(store, key)
    if own not in ("", str(folder.resolve())):
        click.echo(printable(f"session {key.session_id} belongs to another folder, {own}"), err=True)


def _last(store: FullStore, tenant: str | None, folder: Path, *, is_final: bool) -> SessionKey:
    newest = next(newest_sessions(store, tenant), None)
    if newest is None:
        raise UsageError(f"there are no sessions yet; {START_HINT}")
    here = (str(folder.resolve()), *(() if is_final else ("",)))
    own = next((one.key for one in newest_sessions(store, tenant) if session_folder(store, one.key) in here), None)
    if own is None:
        last = f"{newest.key.session_id}, of {session_folder(store, newest.key) or 'no known folder'}"
        if is_final:
            raise UsageError(
                f"no session belongs to this folder, so `last` names none here; the last of all is {last}; give its id if you "
                "mean that one"
            )
        click.echo(printable(f"no session belongs to this folder; the last of all is {last}"), err=True)
    return own or newest.key


def _exactly(store: FullStore, wanted: str, tenant: str | None) -> list[SessionKey]:
    tenants = store.tenants() if tenant is None else (tenant,)
    keys = (SessionKey(one, SessionId(wanted)) for one in tenants) if wanted else ()
    return [key for key in keys if next(store.newest_first(key), None) is not None]


def _ambiguous(wanted: str, found: list[SessionKey]) -> UsageError:
    if len({key.session_id for key in found}) == 1:
        return UsageError(f"several tenants have a session {wanted!r}; choose one with --tenant")
    return UsageError(f"several sessions begin with {wanted!r}: {_join(found)}; give more of the id")


def _unknown(store: FullStore, wanted: str, tenant: str | None) -> UsageError:
    newest = [one.key for one in islice(newest_sessions(store, tenant), MOST_IDS)]
    if not newest:
        return UsageError(f"there is no session {wanted!r}, nor any other; {START_HINT}")
    return UsageError(f"there is no session {wanted!r}; the newest are {_join(newest)}; see infold sessions")


def _join(keys: list[SessionKey]) -> str:
    return name_some([repr(str(key.session_id)) for key in keys], MOST_IDS)
