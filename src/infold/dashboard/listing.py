"""The list of sessions: all tenants' together, the last changed first, a page at a time."""

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from msgspec import Struct

from infold.dashboard.addresses import address_of
from infold.dashboard.desk import Desk
from infold.dashboard.tally import NO_TALLY, Tallies, Tally
from infold.errors import InfoldError
from infold.ports import Archive, StoredSession

__all__ = ["Listed", "Listing", "by_change", "listing", "newest"]

PAGE = 25
"""Sessions of one page."""

TENANT_CHARACTERS = 8
"""Of a tenant, which is a hash; enough to tell a few apart."""


class Listed(Struct, frozen=True):
    """One session in the list; `tenant` is a few characters of whose it is, empty where there is nobody else.

    `problem` says why a session cannot be read; the others are listed all the same.
    """

    stored: StoredSession
    address: str
    tenant: str
    tally: Tally = NO_TALLY
    window_tokens: int | None = None
    problem: str = ""


class Listing(Struct, frozen=True):
    """One page of sessions, the words they were searched by, and whether there are further pages."""

    sessions: tuple[Listed, ...]
    words: str
    page: int
    has_more: bool


def listing(desk: Desk, tallies: Tallies, *, words: str = "", page: int = 1) -> Listing:
    """A page of the sessions whose ids hold these words."""
    tenants = desk.store.tenants()
    wanted = words.casefold()
    matching = (one for one in by_change(desk.store) if wanted in one.key.session_id.casefold())
    found = list(islice(matching, (page - 1) * PAGE, page * PAGE + 1))
    listed = (_listed(desk, tallies, one, several=len(tenants) > 1) for one in found[:PAGE])
    return Listing(tuple(listed), words, page, has_more=len(found) > PAGE)


def _listed(desk: Desk, tallies: Tallies, stored: StoredSession, *, several: bool) -> Listed:
    key = stored.key
    tenant = key.tenant[:TENANT_CHARACTERS] if several else ""
    try:
        return Listed(stored, address_of(key), tenant, tallies.of(key), desk.window_of(key))
    except InfoldError as error:
        return Listed(stored, address_of(key), tenant, problem=str(error))


def newest(store: Archive) -> StoredSession | None:
    """The session that changed last."""
    return next(by_change(store), None)


def by_change(store: Archive, tenant: str | None = None) -> Iterator[StoredSession]:
    """A tenant's sessions, or everybody's, the last changed first."""
    tenants = store.tenants() if tenant is None else (tenant,)
    return merge(*(store.sessions(one) for one in tenants), key=lambda one: -one.changed_ms)
