"""The list of sessions: all tenants' together, the last changed first, a page at a time."""

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from msgspec import Struct

from infold.dashboard.addresses import address_of
from infold.dashboard.desk import Desk
from infold.dashboard.tally import NO_TALLY, Tallies, Tally
from infold.dashboard.texts import excerpt
from infold.errors import InfoldError
from infold.ports import Archive, SessionKey, Store, StoredSession
from infold.session.titles import title_of

PAGE = 25
"""Sessions of one page."""

LAST_PAGE = 10**9
"""Above every page that a store fills."""

TENANT_CHARACTERS = 8
"""Of a tenant, which is a hash; enough to tell a few apart."""

LONGEST_TITLE = 120
"""Characters of a title, which may be anything that a caller or a model gave."""

MOST_TITLES_READ = 1_000
"""Sessions, those changed last, whose titles are searched; an id is found wherever it stands."""


class Listed(Struct, frozen=True):
    """One session in the list; `tenant` is a few characters of whose it is, empty where there is nobody else.

    `problem` says why a session cannot be read; the others are listed all the same.
    """

    stored: StoredSession
    address: str
    tenant: str
    title: str = ""
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
    """A page of the sessions whose ids or titles hold these words."""
    matching = (
        one
        for place, one in enumerate(by_change(desk.store))
        if not words or _matches(desk.store, tallies, one.key, words.casefold(), titled=place < MOST_TITLES_READ)
    )
    page = min(page, LAST_PAGE)
    found = list(islice(matching, (page - 1) * PAGE, page * PAGE + 1))
    listed = (_listed(desk, tallies, one) for one in found[:PAGE])
    return Listing(tuple(listed), words, page, has_more=len(found) > PAGE)


def title_shown(store: Store, key: SessionKey, tally: Tally) -> str:
    """A session's title on one line: the one it was given, or else its first words."""
    return excerpt(tally.title or title_of(store, key), LONGEST_TITLE)


def tenant_shown(store: Archive, key: SessionKey) -> str:
    """A few characters of whose a session is; nothing where there is nobody else."""
    return key.tenant[:TENANT_CHARACTERS] if len(store.tenants()) > 1 else ""


def _matches(store: Store, tallies: Tallies, key: SessionKey, wanted: str, *, titled: bool) -> bool:
    if wanted in key.session_id.casefold():
        return True
    try:
        return titled and wanted in (tallies.known(key).title or title_of(store, key)).casefold()
    except InfoldError:
        return False


def _listed(desk: Desk, tallies: Tallies, stored: StoredSession) -> Listed:
    key = stored.key
    tenant = tenant_shown(desk.store, key)
    try:
        tally = tallies.of(key)
        title = title_shown(desk.store, key, tally)
        return Listed(stored, address_of(key), tenant, title, tally, desk.window_of(key))
    except InfoldError as error:
        return Listed(stored, address_of(key), tenant, problem=str(error))


def newest(store: Archive) -> StoredSession | None:
    """The session that changed last."""
    return next(by_change(store), None)


def by_change(store: Archive, tenant: str | None = None) -> Iterator[StoredSession]:
    """A tenant's sessions, or everybody's, the last changed first."""
    tenants = store.tenants() if tenant is None else (tenant,)
    return merge(*(store.sessions(one) for one in tenants), key=lambda one: -one.changed_ms)
