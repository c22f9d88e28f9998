"""What a session comes to in all, counted as it grows."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from infold.core.entries import Checkpoint, Clip, Clipping, Entry, Handle, Pin, Pruning, Restoration, Title
from infold.core.messages import MessageId, ModelRef, SessionId
from infold.dashboard import tally as tally_module
from infold.dashboard.tally import MOST_COUNTED, MOST_KEPT, NO_TALLY, Tallies, added
from infold.errors import UnknownSession
from infold.ports import SessionKey
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.session.titles import title_of
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, replies, result, user

from .desks import KEY, entries_of, reported, stored


class Counting(MemoryStore):
    """Counts the entries that are read."""

    taken = 0

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """The same entries, counted."""
        for numbered in super().newest_first(key, before=before):
            self.taken += 1
            yield numbered


def test_everything_is_counted() -> None:
    """Requests, compactions less those undone, prunings, cost with summaries, cache hits, and the model that answered last."""
    named = replace(reported(replies("b"), 3_000, cached=2_700), model=ModelRef("", "gpt-5"))
    found = added(
        NO_TALLY,
        entries_of(
            *(user("a"), reported(calls("t"), 1_000), result(9), Pruning((Handle("2.0"),), 9)),
            *(Clipping((Clip(Handle("0.0"), 1, 1),)), named, Checkpoint("x", first_kept=0, cost=0.005, created_ms=3)),
            *(Checkpoint("y", first_kept=0), Restoration(7), replies("silent")),
        ),
    )

    assert (found.requests, found.folds, found.prunings, found.clippings) == (3, frozenset({6}), 1, 1)
    assert (found.model, found.cached_share, found.is_partial) == ("gpt-5", 2_700 / 4_000, False)
    assert found.whole_cost == pytest.approx(0.025)
    assert found.summary_cost == 0.005
    assert NO_TALLY.cached_share is None


def test_a_cost_that_is_known_in_part_is_the_least() -> None:
    """A reply without a price, or entries that were not read, may have cost more; where no price is known there is no cost."""
    priced, unpriced = (reported(replies("b"), 1_000, cost=cost) for cost in (0.01, 0.0))
    tallies = [added(NO_TALLY, entries_of(user("a"), *said)) for said in ((priced,), (priced, unpriced), (unpriced,))]

    assert [tally.costs_at_least for tally in tallies] == [False, True, False]
    assert replace(tallies[0], is_partial=True).costs_at_least
    assert not added(NO_TALLY, entries_of(user("a"), priced, replies("nothing was told"))).costs_at_least


def test_all_models_are_known() -> None:
    """A session may go on with another model: each is named once, the one that answered last at the end."""
    named = [replace(replies("b"), model=ModelRef("", name)) for name in ("large", "small", "large")]
    found = added(NO_TALLY, entries_of(user("a"), *named, replies("nameless")))

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

    assert Tallies(store).of(key).requests == 5
    assert title_of(store, key) == "Count the ships."


def test_a_history_that_a_client_brings_was_requested() -> None:
    """A session that began elsewhere counts its replies, those to tool results too; an aside of an agent changes nothing."""
    brought = entries_of(
        user("a"), calls("t"), result(9), replies("b"), user("<env>", synthetic=True), user("c"), replies("d")
    )

    assert added(NO_TALLY, brought).requests == 3


def test_the_last_title_of_the_session_is_told() -> None:
    """S6.2: of several titles the last holds; a message's is none of the session's, and messages are counted."""
    titles = (Title("First"), Title("Second"), Title("a message's", MessageId("m0")))
    found = added(NO_TALLY, entries_of(user("a"), *titles, replies("b"), Pin(Handle("0.0"))))

    assert (found.title, found.messages) == ("Second", 2)


def test_only_what_is_new_is_read() -> None:
    """B17: a session that has not changed is not read again, and one that grew only where it grew."""
    store = Counting()
    stored(*(user(f"note {number}") for number in range(400)), Checkpoint("x"), store=store)
    tallies = Tallies(store)
    first = tallies.of(KEY)
    begun = store.taken
    again = tallies.of(KEY)
    unchanged = store.taken
    new = [entry for _, entry in entries_of(user("new"), reported(replies("b"), 5_000))]
    store.append(KEY, new, expected=401)
    grown = tallies.of(KEY)

    assert first == again
    assert (begun > 400, unchanged - begun, store.taken - unchanged < 10) == (True, 1, True)
    assert (grown.requests, grown.fill_tokens > 5_000) == (1, True)


def test_a_session_begun_again_is_counted_anew() -> None:
    """B27: after a deletion the same id is another session, whether it is shorter or longer than the old one."""
    store = stored(user("a"), reported(replies("b"), 1_000))
    tallies = Tallies(store)
    tallies.of(KEY)
    store.delete(KEY)
    stored(user("c"), replies("d"), user("e"), replies("f"), store=store)
    longer = tallies.of(KEY)
    store.delete(KEY)
    stored(user("g"), store=store)

    assert (longer.requests, longer.cost) == (2, 0)
    assert tallies.of(KEY).requests == 0


def test_a_session_that_is_not_there_is_told() -> None:
    """Nothing is not a tally of nothing."""
    with pytest.raises(UnknownSession):
        Tallies(MemoryStore()).of(KEY)


@pytest.mark.slow
def test_the_first_count_is_bounded() -> None:
    """Of an endless session the newest entries are counted, and the tally says that it knows no more."""
    found = Tallies(stored(*(user("a") for _ in range(MOST_COUNTED)), replies("b"))).of(KEY)

    assert (found.requests, found.is_partial) == (1, True)


def test_few_tallies_are_kept() -> None:
    """A store of very many sessions does not fill the memory with tallies."""
    store = MemoryStore()
    tallies = Tallies(store)
    for number in range(MOST_KEPT + 5):
        key = SessionKey("", SessionId(f"s{number}"))
        store.append(key, [entry for _, entry in entries_of(user("a"))], expected=0)
        tallies.of(key)

    assert len(tallies._kept) == MOST_KEPT
    assert tally_module.MOST_KEPT == MOST_KEPT
