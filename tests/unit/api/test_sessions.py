"""The sessions that requests belong to."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import msgspec
from msgspec import Struct

from infold.api.exchanges import Exchange, opened
from infold.api.sessions import OpenSessions, found
from infold.core.log import Log
from infold.core.messages import SessionId
from infold.engine.finding import MOST_FORKS
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore


class Standing(Struct, frozen=True):
    """A session as far as finding is concerned."""

    log: Log


def empty(session_id: str) -> Standing:
    """A session that nothing was said in."""
    return Standing(Log(SessionId(session_id)))


def turns(*answers: str) -> list[dict[str, Any]]:
    """A history that begins with the same words, with these answers, and asks on."""
    items: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    for answer in answers:
        items += [{"role": "assistant", "content": answer}, {"role": "user", "content": f"After {answer}?"}]
    return items


def exchange(items: list[dict[str, Any]]) -> Exchange:
    """A request with these messages."""
    made = opened("/v1/chat/completions", {}, msgspec.json.encode({"model": "m", "messages": items}))
    assert isinstance(made, Exchange)
    return made


class Shelf:
    """Sessions by their ids, each with the history it was brought."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.asked: list[str] = []

    def open(self, session_id: str) -> Session:
        """The session of that id."""
        self.asked.append(session_id)
        return Session(self.store, session_id, SessionSettings(window=100_000, format="openai-chat"))

    def keep(self, session_id: str, *answers: str) -> None:
        """Bring a session a history."""
        self.open(session_id).prepare(turns(*answers))

    def find(self, *answers: str) -> str:
        """The id of the session that a history goes on from."""
        self.asked.clear()
        return found(exchange(turns(*answers)), "s", self.open).log.session_id


def test_a_session_is_opened_once() -> None:
    """While it is open, the same one is given again."""
    sessions: OpenSessions[Standing] = OpenSessions()
    one = sessions.get("a", lambda: empty("a"))

    assert sessions.get("a", lambda: empty("a")) is one
    assert sessions.get("b", lambda: empty("b")) is not one
    assert sessions.all() == (one, sessions.get("b", lambda: empty("b")))


def test_the_one_used_longest_ago_is_let_go() -> None:
    """No more are held than allowed, and what is used stays."""
    sessions: OpenSessions[Standing] = OpenSessions(most=2)
    one = sessions.get("a", lambda: empty("a"))
    sessions.get("b", lambda: empty("b"))
    sessions.get("a", lambda: empty("a"))
    sessions.get("c", lambda: empty("c"))

    assert [session.log.session_id for session in sessions.all()] == ["a", "c"]
    assert sessions.get("a", lambda: empty("a")) is one


def test_a_session_may_be_let_go() -> None:
    """The next to ask for it gets another."""
    sessions: OpenSessions[Standing] = OpenSessions()
    one = sessions.get("a", lambda: empty("a"))
    sessions.let_go(one)
    sessions.let_go(one)

    assert sessions.all() == ()
    assert sessions.get("a", lambda: empty("a")) is not one


def test_two_threads_get_the_same_session() -> None:
    """Both may read it from the store; one of the two is kept, and neither waits for the other's reading."""
    sessions: OpenSessions[Standing] = OpenSessions()
    both = Barrier(2, timeout=30)

    def make() -> Standing:
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
    """B17: a history that goes on from a session with nothing taken back is not held against others."""
    shelf = Shelf()
    shelf.keep("s", "one", "two")
    shelf.find("one", "two", "three")

    assert shelf.asked == ["s"]


def test_the_session_that_knows_more_is_the_better_one() -> None:
    """A reply that one session never heard may have been heard by another."""
    shelf = Shelf()
    shelf.keep("s", "one")
    shelf.keep("s~1", "one", "two", "three")

    assert shelf.find("one", "two", "three", "four") == "s~1"


def test_a_taken_back_end_is_the_same_session() -> None:
    """The last words asked otherwise go on with the session, unless another has them."""
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
    shelf.keep(once, *answers)

    assert once.startswith("s~")
    assert len(once) > 20
    assert shelf.find(*answers, "z4") == shelf.find(*answers, "z4", "z5") == once
