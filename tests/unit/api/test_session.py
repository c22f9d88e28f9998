"""Two calls around each request, on a store."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infold.api.session import Session
from infold.api.session_settings import SessionSettings
from infold.core.events import Compacted, Event
from infold.core.judge import Answer
from infold.core.summary import SummaryRequest
from infold.errors import UnknownReference, UsageError, WindowExceeded
from infold.ports import FullStore
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore
from infold.wiring import open_store

RULE = "Port the parser. Never touch vendor/."


def step(number: int) -> list[dict[str, Any]]:
    """A tool step of about six hundred tokens."""
    call = {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "bash", "arguments": '{"command": "make part"}'},
    }
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number}: all went well\n" * 80},
    ]


def reply(number: int, *, prompt_tokens: int | None = None) -> dict[str, Any]:
    """A provider's reply that calls a tool, and reports its usage if it is given."""
    body: dict[str, Any] = {"choices": [{"message": step(number)[0], "finish_reason": "tool_calls"}]}
    if prompt_tokens is not None:
        body["usage"] = {"prompt_tokens": prompt_tokens, "completion_tokens": 12}
    return body


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FullStore]:
    """A store of each kind that needs no server."""
    opened = open_store("memory" if request.param == "memory" else str(tmp_path / "log.sqlite3"))
    yield opened
    if isinstance(opened, SqliteStore):
        opened.close()


def grow(session: Session, steps: int, *, begin: int = 0, sent: list[Any] | None = None) -> list[dict[str, Any]]:
    """Drive a session for some steps, giving it only what is new; the list of all messages so far."""
    messages: list[dict[str, Any]] = [] if begin else [{"role": "user", "content": RULE}]
    new = list(messages)
    for number in range(begin, begin + steps):
        ready = session.prepare_new(new)
        if sent is not None:
            sent.append(ready.messages)
        session.record(reply(number))
        new = step(number)[1:]
        messages += step(number)
    return messages


def test_a_long_session_always_fits(store: FullStore) -> None:
    """B2, B8: sixty steps in a window of 8k are folded several times, and the rule is in every request."""
    events: list[Event] = []
    sent: list[Any] = []
    session = Session(store, "s", SessionSettings(window=8_192, on_event=events.append))
    grow(session, 60, sent=sent)

    assert sum(isinstance(event, Compacted) for event in events) >= 3
    assert all(RULE in str(messages) for messages in sent)
    assert len(sent[-1]) < 30


def test_the_whole_history_gives_the_same(store: FullStore) -> None:
    """B29: a caller who brings everything each time is sent what one is sent who brings what is new."""
    by_piece: list[Any] = []
    grow(Session(MemoryStore(), "s", SessionSettings(window=8_192)), 30, sent=by_piece)
    session = Session(store, "whole", SessionSettings(window=8_192))
    messages: list[dict[str, Any]] = [{"role": "user", "content": RULE}]
    whole: list[Any] = []
    for number in range(30):
        whole.append(session.prepare(messages).messages)
        session.record(reply(number))
        messages = [*messages, *step(number)]

    assert whole == by_piece


def test_another_process_goes_on(store: FullStore) -> None:
    """B13: a session opened again by its id goes on with the same view, by new messages or by the whole list."""
    first = Session(store, "s", SessionSettings(window=8_192))
    messages = grow(first, 25)
    before = first.prepare_new(step(24)[1:]).messages

    again = Session(store, "s", SessionSettings(window=8_192))
    whole = Session(store, "s", SessionSettings(window=8_192))

    assert [str(message) for message in again.prepare_new([]).messages] == [str(message) for message in before]
    assert len(whole.prepare(messages).messages) == len(before)


def test_a_changed_history_is_noticed(store: FullStore) -> None:
    """B1: a list that no longer begins with what it held is another session, and the error says what to do."""
    session = Session(store, "s", SessionSettings(window=8_192))
    session.prepare([{"role": "user", "content": RULE}])

    with pytest.raises(UsageError, match="begin a new session"):
        session.prepare([{"role": "user", "content": "something else"}, *step(0)])
    with pytest.raises(UsageError, match="first message"):
        session.prepare([])


def test_a_strange_list_is_refused_on_resuming(store: FullStore) -> None:
    """B13: a session read back does not take a list that begins otherwise."""
    grow(Session(store, "s", SessionSettings(window=8_192)), 3)

    with pytest.raises(UsageError, match="first message"):
        Session(store, "s", SessionSettings(window=8_192)).prepare([{"role": "user", "content": "hello"}])


def test_a_compaction_is_undone(store: FullStore) -> None:
    """B1, B20: after undo everything that was folded is in the view again."""
    session = Session(store, "s", SessionSettings(window=64_000))
    grow(session, 12)
    before = session.prepare_new(step(11)[1:]).messages
    folded = session.compact().messages
    session.undo()

    assert len(folded) < len(before)
    assert session.prepare_new([]).messages == before
    with pytest.raises(UsageError, match="no compaction"):
        session.undo()


def told(answer: str | Answer) -> Callable[[SummaryRequest], str | Answer]:
    """A summariser that always says the same."""
    return lambda _: answer


@pytest.mark.parametrize("answer", ["The parser was ported with make.", Answer("The parser was ported with make.")])
def test_a_summariser_is_any_callable(store: FullStore, answer: str | Answer) -> None:
    """B5: what it says is judged and stands beside the ledger."""
    session = Session(store, "s", SessionSettings(window=64_000, summariser=told(answer)))
    grow(session, 12)
    session.prepare_new(step(11)[1:])
    compacted = session.compact(focus="the parser")

    assert "ported with make" in str(compacted.messages[0])
    assert RULE in str(compacted.messages[0])


def test_a_summariser_that_raises_is_done_without(store: FullStore) -> None:
    """B10: whatever the caller's own code raises, the session goes on."""

    def broken(_: SummaryRequest) -> str:
        raise ConnectionResetError("peer went away")

    session = Session(store, "s", SessionSettings(window=64_000, summariser=broken))
    grow(session, 12)
    session.prepare_new(step(11)[1:])

    assert RULE in str(session.compact().messages[0])


def test_reported_usage_corrects_the_gauge(store: FullStore) -> None:
    """B15, S7.2: after a report the window is as full as the provider says."""
    session = Session(store, "s", SessionSettings(window=64_000))
    session.prepare([{"role": "user", "content": RULE}])
    session.record(reply(0, prompt_tokens=30_000))

    assert session.prepare_new(step(0)[1:]).gauge.count_tokens > 30_000
    assert session.log.anchor is not None


def test_nothing_to_record_before_a_request(store: FullStore) -> None:
    """A reply without a request, and a compaction of nothing, are told apart from an empty session."""
    session = Session(store, "s", SessionSettings(window=8_192, format="openai-chat", now_ms=lambda: 5))

    with pytest.raises(UsageError, match="call prepare"):
        session.record(reply(0))
    with pytest.raises(UsageError, match="call prepare"):
        session.compact()


def test_what_cannot_fit_raises(store: FullStore) -> None:
    """B9: tools that fill the window are an error with numbers, and what was said is stored all the same."""
    session = Session(store, "s", SessionSettings(window=4_096, model="gpt-4o"))

    with pytest.raises(WindowExceeded):
        session.prepare([{"role": "user", "content": RULE}], tools=[{"name": "t", "description": "word " * 20_000}])
    assert Session(store, "s", SessionSettings(window=64_000)).log.next_sequence == 1


def test_tenants_share_nothing(store: FullStore) -> None:
    """B28: the same id of another tenant is another session."""
    grow(Session(store, "s", SessionSettings(window=8_192), tenant="one"), 3)

    assert Session(store, "s", SessionSettings(window=8_192), tenant="two").log.next_sequence == 0


def test_what_was_folded_is_found_again(store: FullStore) -> None:
    """B6: words or a handle bring back what left the view long ago, within a bound."""
    session = Session(store, "s", SessionSettings(window=8_192, recall=True))
    session.prepare_new([{"role": "user", "content": RULE}, step(900)[0]])
    session.prepare_new([{"role": "tool", "tool_call_id": "c900", "content": "the harbour key is quay-4711"}])
    grow(session, 40, begin=1)

    assert "quay-4711" not in str(session.prepare_new([]).messages)
    assert "quay-4711" in session.recall("harbour key")
    assert "quay-4711" in session.recall("2.0")
    assert len(session.recall("all went well", budget_tokens=300)) < 2_000
    with pytest.raises(UnknownReference):
        session.recall("999.9")
