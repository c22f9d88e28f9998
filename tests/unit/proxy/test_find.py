"""The sessions that are open, and the one that a history is found to continue."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from infold.core.entries import Entry
from infold.ports import SessionKey
from infold.proxy.sessions import MOST_FORKS, RecentlyUsed, SessionPool
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore

from .talks import no_model, request_of

SETTINGS = SessionSettings(window=100_000, format="openai-chat")


def empty(session_id: str) -> Session:
    """A session without messages."""
    return Session(MemoryStore(), session_id, SETTINGS)


def turns(*answers: str) -> list[dict[str, Any]]:
    """A history that begins with the same words, with these answers, and asks on."""
    items: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    for answer in answers:
        items += [{"role": "assistant", "content": answer}, {"role": "user", "content": f"After {answer}?"}]
    return items


class Watched(MemoryStore):
    """A store that notes which sessions are read."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Note it."""
        self.opened.append(key.session_id)
        return super().newest_first(key, before=before)


class Shelf:
    """A store with some sessions, and the histories that are looked for in it."""

    def __init__(self) -> None:
        self.store = Watched()

    def keep(self, session_id: str, *answers: str) -> None:
        """Put a history into a session."""
        Session(self.store, session_id, SETTINGS).prepare(turns(*answers))

    def find(self, *answers: str) -> str:
        """Return the id of the session that a history continues."""
        self.store.opened.clear()
        request = request_of(turns(*answers), tools=None, headers={"x-infold-session": "s"})
        return SessionPool(self.store, SETTINGS).begin(request, no_model).session.log.session_id


def test_a_session_is_opened_once() -> None:
    """While it is open, the same one is given again."""
    sessions = RecentlyUsed[Session]()
    one = sessions.get("a", lambda: empty("a"))

    assert sessions.get("a", lambda: empty("a")) is one
    assert sessions.get("b", lambda: empty("b")) is not one
    assert sessions.all() == (one, sessions.get("b", lambda: empty("b")))


def test_the_one_used_longest_ago_is_dropped() -> None:
    """No more are kept open than allowed, and what is used stays."""
    sessions = RecentlyUsed[Session](most=2)
    one = sessions.get("a", lambda: empty("a"))
    sessions.get("b", lambda: empty("b"))
    sessions.get("a", lambda: empty("a"))
    sessions.get("c", lambda: empty("c"))

    assert [session.log.session_id for session in sessions.all()] == ["a", "c"]
    assert sessions.get("a", lambda: empty("a")) is one


def test_a_session_may_be_dropped() -> None:
    """The next to ask for it gets another."""
    sessions = RecentlyUsed[Session]()
    one = sessions.get("a", lambda: empty("a"))
    sessions.drop(lambda other: other is one)
    sessions.drop(lambda other: other is one)

    assert sessions.all() == ()
    assert sessions.get("a", lambda: empty("a")) is not one


def test_two_threads_get_the_same_session() -> None:
    """Both may read it from the store; one of the two is kept, and neither waits for the other's reading."""
    sessions = RecentlyUsed[Session]()
    both = Barrier(2, timeout=30)

    def make() -> Session:
        both.wait()
        return empty("a")

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: sessions.get("a", make), range(2))

    assert one is other


def test_a_new_history_begins_the_first_free_session() -> None:
    """Nothing is there: the name itself is the id."""
    assert Shelf().find("one") == "s"


def test_a_history_finds_its_own_among_those_that_begin_alike() -> None:
    """Sessions of one name are told apart by what they say."""
    shelf = Shelf()
    shelf.keep("s", "one", "two")
    shelf.keep("s~1", "other", "more")

    assert shelf.find("one", "two", "three") == "s"
    assert shelf.find("other", "more", "most") == "s~1"
    assert shelf.find("third", "thing", "three") == "s~2"


def test_no_more_is_read_than_needed() -> None:
    """B17: a history that continues a session with nothing removed is not compared to others."""
    shelf = Shelf()
    shelf.keep("s", "one", "two")
    shelf.find("one", "two", "three")

    assert shelf.store.opened == ["s"]


def test_the_session_that_knows_more_is_the_better_one() -> None:
    """A reply that one session never got may be in another."""
    shelf = Shelf()
    shelf.keep("s", "one")
    shelf.keep("s~1", "one", "two", "three")

    assert shelf.find("one", "two", "three", "four") == "s~1"


def test_a_removed_end_is_the_same_session() -> None:
    """The last words asked otherwise continue the session, unless another has them."""
    shelf = Shelf()
    shelf.keep("s", "one", "two")

    assert shelf.find("one") == "s"


def test_more_histories_than_numbers_keep_their_sessions() -> None:
    """Beyond the numbered ones a history finds its session again while it grows."""
    shelf = Shelf()
    for number in range(MOST_FORKS):
        shelf.keep("s" if number == 0 else f"s~{number}", f"a{number}", f"b{number}", f"c{number}")
    answers = tuple(f"z{number}" for number in range(4))
    once = shelf.find(*answers)

    assert once.startswith("s~")
    assert len(once) > 20
    assert shelf.find(*answers, "z4") == shelf.find(*answers, "z4", "z5") == once
