"""The tally of a session, counted as it grows, and the list of all sessions."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from infold.core.entries import Checkpoint, Clip, Clipping, Entry, Handle, Pin, Pruning, Restoration, Title
from infold.core.messages import CacheLoss, MessageId, ModelRef, SessionId
from infold.errors import StoreBroken, UnknownSession
from infold.ports import SessionKey
from infold.reports.listing import (
    MOST_COUNTED,
    MOST_TALLIES,
    NO_TALLY,
    ListedSession,
    Tallies,
    add_entries,
    find_sessions,
    list_session,
    newest_sessions,
)
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.session.titles import title_of
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, replies, result, user

from .stored_sessions import KEY, entries_of, reported, stored


class Counting(MemoryStore):
    """Counts the entries that are read."""

    taken = 0

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """The same entries, counted."""
        for numbered in super().newest_first(key, before=before):
            self.taken += 1
            yield numbered


def test_everything_is_counted() -> None:
    """Requests, compactions less those undone, prunings, cost with summaries, cache hits and expiries, and the model that
    answered last."""
    named = replace(
        reported(replies("b"), 3_000, cached=2_700), model=ModelRef("", "gpt-5"), cache_loss=CacheLoss(900, 0.5)
    )
    found = add_entries(
        NO_TALLY,
        entries_of(
            *(user("a"), reported(calls("t"), 1_000), result(9), Pruning((Handle("2.0"),), 9)),
            *(Clipping((Clip(Handle("0.0"), 1, 1),)), named, Checkpoint("x", first_kept=0, cost=0.005, created_ms=3)),
            *(Checkpoint("y", first_kept=0), Restoration(7), replies("silent")),
        ),
    )

    assert (found.requests, found.folds, found.prunings, found.clippings) == (3, frozenset({6}), 1, 1)
    assert (found.model, found.cached_share, found.is_partial) == ("gpt-5", 2_700 / 4_000, False)
    assert found.total_cost == pytest.approx(0.025)
    assert found.summary_cost == 0.005
    assert (found.expired_tokens, found.expired_cost) == (900, 0.5)
    assert NO_TALLY.cached_share is None


def test_a_cost_that_is_known_in_part_is_the_least() -> None:
    """A reply without a price, or entries that were not read, may have cost more; where no price is known there is no cost."""
    priced, unpriced = (reported(replies("b"), 1_000, cost=cost) for cost in (0.01, 0.0))
    tallies = [
        add_entries(NO_TALLY, entries_of(user("a"), *said)) for said in ((priced,), (priced, unpriced), (unpriced,))
    ]

    assert [tally.costs_at_least for tally in tallies] == [False, True, False]
    assert replace(tallies[0], is_partial=True).costs_at_least
    assert not add_entries(NO_TALLY, entries_of(user("a"), priced, replies("nothing was told"))).costs_at_least


def test_all_models_are_known() -> None:
    """A session may go on with another model: each is named once, the one that answered last at the end."""
    named = [replace(replies("b"), model=ModelRef("", name)) for name in ("large", "small", "large")]
    found = add_entries(NO_TALLY, entries_of(user("a"), *named, replies("nameless")))

    assert (found.models, found.model, NO_TALLY.model) == (("small", "large"), "large", "")


QWEN = "This is the Qwen Code. We are setting up the context for our chat.\nToday's date is Monday."
SWITCHED = "I switched to a new code base. Please don't consider the above files or try to edit them any longer."


@pytest.mark.parametrize(
    "opening",
    [
        pytest.param([(QWEN, "Got it. Thanks for the context!")], id="qwen-code"),
        pytest.param(
            [
                ("Change the greeting to be more casual", "Ok, I will: ..."),
                (SWITCHED, "Ok."),
                ("I have *added these files to the chat* so you can go ahead and edit them.", "Ok."),
            ],
            id="aider",
        ),
    ],
)
def test_an_agents_opening_is_neither_title_nor_request(opening: list[tuple[str, str]]) -> None:
    """B26: a preamble and examples that an agent sends along are its own; what the user says first is the title."""
    said = [
        {"role": role, "content": text}
        for pair in opening
        for role, text in zip(("user", "assistant"), pair, strict=True)
    ]
    store = MemoryStore()
    session = Session(store, "s", SessionSettings(window=100_000, format="openai-chat"))
    messages: list[object] = [*said, {"role": "user", "content": "Count the ships."}]
    for _ in range(5):
        session.prepare(messages)
        session.record({"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]})
        messages += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}]
    key = SessionKey("", SessionId("s"))

    assert Tallies(store).get(key).requests == 5
    assert title_of(store, key) == "Count the ships."


def test_a_history_that_a_client_brings_was_requested() -> None:
    """A session that began elsewhere counts its replies, those to tool results too; an aside of an agent changes nothing."""
    brought = entries_of(
        user("a"), calls("t"), result(9), replies("b"), user("<env>", synthetic=True), user("c"), replies("d")
    )

    assert add_entries(NO_TALLY, brought).requests == 3


def test_the_last_title_of_the_session_is_told() -> None:
    """S6.2: of several titles the last holds; a message's is none of the session's, and messages are counted."""
    titles = (Title("First"), Title("Second"), Title("a message's", MessageId("m0")))
    found = add_entries(NO_TALLY, entries_of(user("a"), *titles, replies("b"), Pin(Handle("0.0"))))

    assert (found.title, found.messages) == ("Second", 2)


def test_only_what_is_new_is_read() -> None:
    """B17: a session that has not changed is not read again, and one that grew only where it grew."""
    store = Counting()
    stored(*(user(f"note {number}") for number in range(400)), Checkpoint("x"), store=store)
    tallies = Tallies(store)
    first = tallies.get(KEY)
    begun = store.taken
    again = tallies.get(KEY)
    unchanged = store.taken
    new = [entry for _, entry in entries_of(user("new"), reported(replies("b"), 5_000))]
    store.append(KEY, new, expected=401)
    grown = tallies.get(KEY)

    assert first == again
    assert (begun > 400, unchanged - begun, store.taken - unchanged < 10) == (True, 1, True)
    assert (grown.requests, grown.view_tokens > 5_000) == (1, True)


def test_a_session_begun_again_is_counted_anew() -> None:
    """B27: after a deletion the same id is another session, whether it is shorter or longer than the old one."""
    store = stored(user("a"), reported(replies("b"), 1_000))
    tallies = Tallies(store)
    tallies.get(KEY)
    store.delete(KEY)
    stored(user("c"), replies("d"), user("e"), replies("f"), store=store)
    longer = tallies.get(KEY)
    store.delete(KEY)
    stored(user("g"), store=store)

    assert (longer.requests, longer.cost) == (2, 0)
    assert tallies.get(KEY).requests == 0


def test_a_session_that_is_not_there_is_told() -> None:
    """Nothing is not a tally of nothing."""
    with pytest.raises(UnknownSession):
        Tallies(MemoryStore()).get(KEY)


@pytest.mark.slow
def test_the_first_count_is_bounded() -> None:
    """Of an endless session the newest entries are counted, and the tally says that it knows no more."""
    found = Tallies(stored(*(user("a") for _ in range(MOST_COUNTED)), replies("b"))).get(KEY)

    assert (found.requests, found.is_partial) == (1, True)


def test_few_tallies_are_kept() -> None:
    """A store of very many sessions does not fill the memory with tallies."""
    store = MemoryStore()
    tallies = Tallies(store)
    keys = [SessionKey("", SessionId(f"s{number}")) for number in range(MOST_TALLIES + 5)]
    for key in keys:
        store.append(key, [entry for _, entry in entries_of(user("a"))], expected=0)
        tallies.get(key)

    assert sum(tallies.peek(key) is not NO_TALLY for key in keys) == MOST_TALLIES


# The list.


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


def listed(store: MemoryStore, words: str = "") -> list[ListedSession]:
    """The list, searched by these words."""
    tallies = Tallies(store)
    return [list_session(tallies, one) for one in find_sessions(store, tallies, words)]


def test_the_last_changed_come_first() -> None:
    """Across tenants, by when they changed."""
    found = listed(filled(("abcdef0123456789", "one"), ("", "two"), ("abcdef0123456789", "three"), ("", "known")))

    assert [one.stored.key.session_id for one in found] == ["known", "three", "two", "one"]
    assert all(one.tally.requests == 1 for one in found)


def test_ids_are_searched() -> None:
    """A part of an id finds it, in capitals or not."""
    store = filled(("", "Ferry-42"), ("", "billing"))

    assert [one.stored.key.session_id for one in listed(store, "ferry")] == ["Ferry-42"]
    assert listed(store, "nothing") == []


def test_titles_are_searched() -> None:
    """A part of a title finds its session, whether it was given, early or late, or is made of the first words."""
    store = MemoryStore(Ticking())
    stored(user("Fix the Importer"), key=SessionKey("", SessionId("one")), store=store)
    stored(user("a"), Title("Kites"), key=SessionKey("", SessionId("two")), store=store)
    many = (user(f"{number}") for number in range(20))
    stored(*many, Title("The quay"), key=SessionKey("", SessionId("three")), store=store)
    tallies = Tallies(store)
    tallies.get(SessionKey("", SessionId("three")))
    found = {word: list(find_sessions(store, tallies, word)) for word in ("importer", "kite", "quay", "none")}

    assert [[one.key.session_id for one in ones] for ones in found.values()] == [["one"], ["two"], ["three"], []]
    assert list_session(tallies, found["importer"][0]).title == "Fix the Importer"


def test_the_newest_session_is_known() -> None:
    """What changed last, or nothing where there is nothing."""
    found = next(newest_sessions(filled(("", "one"), ("t", "two"))))

    assert found.key.session_id == "two"
    assert list(newest_sessions(MemoryStore())) == []


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
    sound, damaged = listed(store)

    assert (sound.tally.requests, sound.problem) == (1, "")
    assert damaged.problem == "here: entry 3 is damaged; restore it"
    assert [one.problem for one in listed(store, "a")] == ["", damaged.problem]
    assert listed(store, "no such title") == []
