"""All sessions, the last changed first."""

from collections.abc import Iterator

from infold.core.entries import Entry, Title
from infold.core.messages import SessionId
from infold.dashboard.desk import Desk
from infold.dashboard.listing import PAGE, Listing, listing, newest
from infold.dashboard.tally import Tallies
from infold.errors import StoreBroken
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.testing.builders import replies, user

from .desks import Acted, Told, stored


class Ticking:
    """A clock that goes on by a second at each look."""

    def __init__(self) -> None:
        self.now = 0

    def now_ms(self) -> int:
        """A second later."""
        self.now += 1_000
        return self.now


def filled(*keys: tuple[str, str]) -> MemoryStore:
    """A store with these sessions, the last of them changed last."""
    store = MemoryStore(Ticking())
    for tenant, session_id in keys:
        stored(user("a"), replies("b"), key=SessionKey(tenant, SessionId(session_id)), store=store)
    return store


def listed(store: MemoryStore, words: str = "", page: int = 1) -> Listing:
    """A page of the list."""
    desk = Desk(
        store=store, acts=Acted(), feed=Told(), window_of=lambda key: 100 if "known" in key.session_id else None
    )
    return listing(desk, Tallies(store), words=words, page=page)


def test_the_last_changed_come_first() -> None:
    """Across tenants, by when they changed; whose a session is stands there only where there are several tenants."""
    found = listed(filled(("abcdef0123456789", "one"), ("", "two"), ("abcdef0123456789", "three"), ("", "known")))

    assert [one.stored.key.session_id for one in found.sessions] == ["known", "three", "two", "one"]
    assert [one.tenant for one in found.sessions] == ["", "abcdef01", "", "abcdef01"]
    assert [one.window_tokens for one in found.sessions] == [100, None, None, None]
    assert all(one.tally.requests == 1 for one in found.sessions)
    assert listed(filled(("abcdef0123456789", "one"))).sessions[0].tenant == ""


def test_ids_are_searched() -> None:
    """A part of an id finds it, in capitals or not."""
    store = filled(("", "Ferry-42"), ("", "billing"))

    assert [one.stored.key.session_id for one in listed(store, "ferry").sessions] == ["Ferry-42"]
    assert listed(store, "nothing").sessions == ()


def test_titles_are_searched() -> None:
    """A part of a title finds its session, whether it was given, early or late, or is made of the first words."""
    store = MemoryStore(Ticking())
    stored(user("Fix the Importer"), key=SessionKey("", SessionId("one")), store=store)
    stored(user("a"), Title("Kites"), key=SessionKey("", SessionId("two")), store=store)
    many = (user(f"{number}") for number in range(20))
    stored(*many, Title("The quay"), key=SessionKey("", SessionId("three")), store=store)
    tallies = Tallies(store)
    tallies.of(SessionKey("", SessionId("three")))
    desk = Desk(store=store, acts=Acted(), feed=Told(), window_of=lambda _: None)
    found = {word: listing(desk, tallies, words=word).sessions for word in ("importer", "kite", "quay", "none")}

    assert [[one.stored.key.session_id for one in ones] for ones in found.values()] == [["one"], ["two"], ["three"], []]
    assert [one.title for one in found["importer"]] == ["Fix the Importer"]


def test_the_list_comes_in_pages() -> None:
    """So many at once, and whether there are more."""
    store = filled(*(("", f"s{number}") for number in range(PAGE + 3)))
    first, second, third = (listed(store, page=page) for page in (1, 2, 3))

    assert [(len(found.sessions), found.has_more) for found in (first, second, third)] == [
        (PAGE, True),
        (3, False),
        (0, False),
    ]


def test_the_newest_session_is_known() -> None:
    """What changed last, or nothing where there is nothing."""
    found = newest(filled(("", "one"), ("t", "two")))

    assert found is not None
    assert found.key.session_id == "two"
    assert newest(MemoryStore()) is None


class Damaged(MemoryStore):
    """A store in which one session cannot be read."""

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """All but that one."""
        if key.session_id == "damaged":
            raise StoreBroken("here", "entry 3 is damaged", remedy="restore it")
        return super().newest_first(key, before=before)


def test_one_damaged_session_hides_no_other() -> None:
    """What cannot be read says so on its line."""
    store = Damaged(Ticking())
    for name in ("damaged", "sound"):
        stored(user("a"), replies("b"), key=SessionKey("", SessionId(name)), store=store)
    sound, damaged = listed(store).sessions

    assert (sound.tally.requests, sound.problem) == (1, "")
    assert damaged.problem == "here: entry 3 is damaged; restore it"
    assert [one.problem for one in listed(store, "a").sessions] == ["", damaged.problem]
    assert listed(store, "no such title").sessions == ()


def test_a_page_beyond_all_is_empty() -> None:
    """However large the number that somebody typed, it is a page without sessions."""
    store = filled(("", "one"))

    assert listed(store, page=10**18 - 1).sessions == ()
