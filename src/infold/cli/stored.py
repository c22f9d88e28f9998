"""Sessions in a store as a command line names them: where the store is, and which session is meant."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click

from infold.agent.places import default_store
from infold.core.messages import SessionId
from infold.dashboard.listing import by_change
from infold.errors import UsageError
from infold.ports import FullStore, SessionKey
from infold.settings import read_settings
from infold.wiring import open_store

__all__ = [
    "BEGIN",
    "LAST",
    "chosen_key",
    "closing_store",
    "existing",
    "is_there",
    "naming",
    "place_of",
    "reading_store",
    "session_argument",
]

LAST = "last"
"""What the session that changed last may be called."""

BEGIN = 'begin one with: infold run "what to do"'
MOST_IDS = 8
ELSEWHERE = ("postgresql://", "postgres://")

F = TypeVar("F", bound=Callable[..., Any])

session_argument = click.argument("session", metavar="ID")

_STORE = click.option(
    "--store", metavar="PLACE", help="Where the sessions are: a file's path or a postgresql:// address; else your own."
)
_TENANT = click.option("--tenant", metavar="NAME", help="Whose sessions, in the store of a gateway; else everybody's.")


def naming(function: F) -> F:
    """The options of every verb on stored sessions: which store, and whose sessions."""
    return reduce(lambda wrapped, option: option(wrapped), (_TENANT, _STORE), function)


def place_of(named: str | None, environ: Mapping[str, str] | None = None, *, folder: Path | None = None) -> str:
    """Where sessions are kept: as named, as set, or in the user's own file; what is kept in memory nobody finds again."""
    environ = os.environ if environ is None else environ
    place = named or read_settings(environ, folder or Path.cwd()).store
    return default_store(environ) if place == "memory" and named is None else place


def existing(place: str) -> str:
    """The place, if there is a store; a mistyped path must not become a new one. Raises `UsageError` otherwise.

    Programs start commands without a shell, so `~` is expanded here.
    """
    if place.startswith(ELSEWHERE):
        return place
    if place == "memory":
        raise UsageError("a store in memory is seen by its own process alone; name a file or a postgresql:// address")
    path = _path(place)
    if not path.is_file():
        raise UsageError(f"there is no store at {path}; name the file that sessions are kept in")
    return str(path)


def is_there(place: str) -> bool:
    """Whether a store is where it should be, as far as that can be seen without asking it."""
    return place.startswith(ELSEWHERE) or _path(place).is_file()


@contextmanager
def closing_store(place: str) -> Iterator[FullStore]:
    """The store at a place; one that outlives the process is closed at the end."""
    opened: Any = open_store(place)
    with closing(opened) if hasattr(opened, "close") else nullcontext():
        yield opened


@contextmanager
def reading_store(named: str | None) -> Iterator[FullStore]:
    """The store that was named, or the user's own, closed at the end; raises `UsageError` where there is none."""
    place = place_of(named)
    if named is None and place != "memory" and not is_there(place):
        raise UsageError(f"there are no sessions yet (no store at {_path(place)}); {BEGIN}")
    with closing_store(existing(place)) as store:
        yield store


def chosen_key(store: FullStore, wanted: str, tenant: str | None = None) -> SessionKey:
    """The session meant by its id, by a beginning that no other has, or by `last`; raises `UsageError` where none is."""
    if wanted == LAST:
        newest = next(by_change(store, tenant), None)
        if newest is None:
            raise UsageError(f"there are no sessions yet; {BEGIN}")
        return newest.key
    found = _exactly(store, wanted, tenant) or [
        one.key for one in by_change(store, tenant) if one.key.session_id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    raise _ambiguous(wanted, found) if found else _unknown(store, wanted, tenant)


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


def _path(place: str) -> Path:
    return Path(place.removeprefix("sqlite:")).expanduser()
