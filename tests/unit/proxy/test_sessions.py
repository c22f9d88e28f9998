"""Requests on their way to their sessions."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold.core.entries import Entry
from infold.core.events import Clipped, Compacted, Event
from infold.core.log import Log
from infold.core.policy import INFOLD, Policy
from infold.formats.overflow import Overflow
from infold.ports import FullStore, SessionKey
from infold.proxy.managed_request import ManagedRequest, OwnRequest, UpstreamReply
from infold.proxy.request import ParsedRequest, parse_request
from infold.proxy.sessions import SessionPool
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore

from .talks import BrokenStore, Item, Talk, answer, no_model, record, request_of, sent_by

SMALL = SessionSettings(window=8_192)
LARGE = SessionSettings(window=200_000)
NAMED = {"x-infold-session": "ferry"}


def ids(store: FullStore, tenant: str = "") -> list[str]:
    """The sessions of a store."""
    return sorted(stored.key.session_id for stored in store.sessions(tenant))


def log_of(store: FullStore, session_id: str, tenant: str = "") -> Log:
    """A session as its store has it."""
    return Session(store, session_id, LARGE, tenant=tenant).log


def texts(items: list[Item]) -> str:
    """All that a request says."""
    return json.dumps(items)


# Whose session it is.


@pytest.mark.parametrize("headers", [{}, NAMED, {"x-session-id": "agent"}], ids=["unnamed", "named", "agent"])
@pytest.mark.parametrize("most_open", [1, 256])
def test_histories_that_begin_alike_never_mix(headers: dict[str, str], most_open: int) -> None:
    """B28, B29: two clients with the same first words, taking turns, are each sent their own history alone, folded or not."""
    store, events = MemoryStore(), list[Event]()
    pool = SessionPool(store, SessionSettings(window=8_192, on_event=events.append), most_open=most_open)
    one, other = Talk("ALPHA", words=220), Talk("BETA", words=220)
    for _ in range(10):
        assert "BETA" not in texts(one.ask(pool, headers=headers))
        assert "ALPHA" not in texts(other.ask(pool, headers=headers))

    compacted = {event.session_id for event in events if isinstance(event, Compacted)}
    logs = [log_of(store, session_id) for session_id in compacted]
    assert len(compacted) == 2
    assert all(log.checkpoint is not None for log in logs)
    assert sorted("ALPHA" in str(log.checkpoint) for log in logs) == [False, True]


def test_parallel_clients_never_mix() -> None:
    """B14: eight clients with the same first words at once, in threads, are each sent their own history alone."""
    pool = SessionPool(MemoryStore(), SMALL, most_open=3)
    marks = [f"CLIENT{number}X" for number in range(8)]

    def run(mark: str) -> list[str]:
        talk = Talk(mark, words=150)
        return [texts(talk.ask(pool)) for _ in range(8)]

    with ThreadPoolExecutor(8) as threads:
        sent = dict(zip(marks, threads.map(run, marks), strict=True))

    for mark, requests in sent.items():
        strangers = [other for other in marks if other != mark]
        assert not any(other in request for request in requests for other in strangers)
        assert all(f"{mark}-{turn}:" in request for turn, request in enumerate(requests) if turn)


@pytest.mark.parametrize("headers", [NAMED, {"x-session-id": "agent"}], ids=["named", "agent"])
def test_histories_that_begin_at_once_get_sessions_of_their_own(headers: dict[str, str]) -> None:
    """B14: a session that one history begins is not taken by another meanwhile, however many begin; each is found once."""
    store, together = MemoryStore(), Barrier(10, timeout=30)

    def hold(_: object) -> str:
        together.wait()
        return "The importer is being ported step by step; nothing is finished yet."

    pool = SessionPool(store, SessionSettings(window=8_192, summariser=hold))
    marks = [f"CLIENT{number}X" for number in range(10)]

    def run(mark: str) -> str:
        talk = Talk(mark, words=220)
        for _ in range(8):
            talk.hear(talk.next_answer())
        return pool.begin(request_of(talk.items, headers=headers), no_model).session.log.session_id

    with ThreadPoolExecutor(10) as threads:
        assert len(set(threads.map(run, marks))) == len(ids(store)) == 10


class Watched(MemoryStore):
    """A store that counts how often a session is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Count it."""
        self.reads += 1
        return super().newest_first(key, before=before)


def test_a_session_is_read_once() -> None:
    """B17: a session that is open is continued as it is."""
    store = Watched()
    pool, talk = SessionPool(store, LARGE), Talk("ALPHA")
    for _ in range(4):
        talk.ask(pool, headers=NAMED)

    assert store.reads == 1


def test_a_title_does_not_join() -> None:
    """A request without tools has a session of its own, though it says the same."""
    store = MemoryStore()
    pool = SessionPool(store, LARGE)
    talk = Talk("A")
    for _ in range(3):
        talk.ask(pool)
    talk.ask(pool, tools=None)
    talk.ask(pool)

    assert len(ids(store)) == 2
    assert sum(session_id.endswith("-plain") for session_id in ids(store)) == 1


def test_a_single_request_leaves_nothing_behind() -> None:
    """A history without a reply is made to fit and forgotten; the store is for what comes back."""
    store, events = MemoryStore(), list[Event]()
    pool = SessionPool(store, SessionSettings(window=8_192, on_event=events.append))
    small = pool.begin(request_of([{"role": "user", "content": "hi"}]), no_model)
    large = pool.begin(request_of([{"role": "user", "content": "lorem ipsum " * 20_000}]), no_model)
    record(small, msgspec.json.encode(answer("Hello!", tokens=5)))

    assert ids(store) == []
    assert len(large.content) < 50_000
    assert any(isinstance(event, Clipped) for event in events)


def test_a_named_session_begins_at_once() -> None:
    """B23: the name a client gives is the id in the store, from the first request on."""
    store = MemoryStore()
    Talk("A").ask(SessionPool(store, LARGE), headers=NAMED)

    assert ids(store) == ["ferry"]
    assert len(log_of(store, "ferry").live) == 2


def test_a_stream_is_recorded_when_it_ended() -> None:
    """B13: a streamed reply that came to its end is recorded; one that broke off is the client's to ask for again."""
    store = MemoryStore()
    pool = SessionPool(store, LARGE)
    items: list[Item] = [{"role": "user", "content": "hi"}]
    said = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hello!"},"finish_reason":%b}]}\n\n'
    for finish, messages in ((b"null", 1), (b'"stop"', 2)):
        managed = pool.begin(request_of(items, headers=NAMED), no_model)
        record(managed, said % finish, "text/event-stream")
        assert len(log_of(store, "ferry").live) == messages


def test_an_empty_stream_is_not_recorded() -> None:
    """A stream that ended before anything came says nothing."""
    managed = SessionPool(MemoryStore(), LARGE).begin(request_of([{"role": "user", "content": "hi"}]), no_model)
    record(managed, b"data: [DONE]\n\n", "text/event-stream")

    assert len(managed.session.log.live) == 1


def test_tenants_share_nothing() -> None:
    """B28: the same history of two tenants stands in two sessions, and one's compaction is not the other's."""
    store = MemoryStore()
    one, other = Talk("A", words=220), Talk("A", words=220)
    for _ in range(10):
        one.ask(SessionPool(store, SMALL, "tenant-1"))
    for _ in range(2):
        other.ask(SessionPool(store, SMALL, "tenant-2"))

    assert ids(store, "tenant-1") == ids(store, "tenant-2") != []
    assert log_of(store, ids(store, "tenant-1")[0], "tenant-1").checkpoint is not None
    assert log_of(store, ids(store, "tenant-2")[0], "tenant-2").checkpoint is None
    assert ids(store) == []


# What a client may change.


def begun(pool: SessionPool, turns: int = 4, **fields: Any) -> Talk:
    """A client after some turns."""
    talk = Talk("A", words=220)
    for _ in range(turns):
        talk.ask(pool, **fields)
    return talk


def test_the_last_reply_may_be_asked_for_anew() -> None:
    """The same list once more, or with another last reply, goes on in the same session."""
    store = MemoryStore()
    pool = SessionPool(store, LARGE)
    talk = begun(pool)
    again = [*talk.items[:-2], {"role": "assistant", "content": "Another reply."}, {"role": "user", "content": "Good."}]

    assert sent_by(pool.begin(request_of(talk.items[:-2]), no_model)) == talk.items[:-2]
    assert sent_by(pool.begin(request_of(again), no_model)) == again
    assert len(ids(store)) == 1


def test_the_last_words_may_be_edited() -> None:
    """The last message of the user asked otherwise is an amendment: the old one is no longer sent, but still there."""
    store = MemoryStore()
    pool = SessionPool(store, LARGE)
    talk = begun(pool)
    talk.ask(pool)
    edited = [*talk.items[:-3], {"role": "user", "content": "Something else."}]

    assert sent_by(pool.begin(request_of(edited), no_model)) == edited
    assert len(ids(store)) == 1
    assert "A-4:" in Session(store, ids(store)[0], LARGE).recall("A-4")


def test_an_edited_fold_begins_anew() -> None:
    """B1: words that were folded, edited by the client, make a session of their own that starts with the whole history."""
    store = MemoryStore()
    pool = SessionPool(store, SMALL)
    talk = begun(pool, turns=10, headers=NAMED)
    assert log_of(store, "ferry").checkpoint is not None
    edited = [{"role": "user", "content": "Port the exporter."}, *talk.items[1:5]]

    assert sent_by(pool.begin(request_of(edited, headers=NAMED), no_model)) == edited
    assert ids(store) == ["ferry", "ferry~1"]
    assert "Port the importer." in texts(sent_by(pool.begin(request_of(talk.items, headers=NAMED), no_model)))


def test_one_of_several_choices_may_go_on() -> None:
    """With n > 1 the first choice is heard; a client that goes on with the second amends it."""
    store = MemoryStore()
    pool = SessionPool(store, LARGE)
    talk = begun(pool)
    reply = answer("First choice.")
    reply["choices"].append({**reply["choices"][0], "index": 1, "message": {"role": "assistant", "content": "Second."}})
    record(pool.begin(request_of(talk.items, n=2), no_model), msgspec.json.encode(reply))
    on = [*talk.items, reply["choices"][1]["message"], {"role": "user", "content": "Go on."}]

    assert sent_by(pool.begin(request_of(on), no_model)) == on
    assert len(ids(store)) == 1


def test_results_stay_results() -> None:
    """B12: a call that was heard is answered by the result that the client brings, and both stand in the log as such."""
    store = MemoryStore()
    pool = SessionPool(store, LARGE)
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    items: list[Item] = [{"role": "user", "content": "go"}]
    for number in range(3):
        said = answer("Running.", calls=({**call, "id": f"c{number}"},))
        record(pool.begin(request_of(items, headers=NAMED), no_model), msgspec.json.encode(said))
        items = [*items, said["choices"][0]["message"], {"role": "tool", "tool_call_id": f"c{number}", "content": "ok"}]
    pool.begin(request_of(items, headers=NAMED), no_model)
    log = log_of(store, "ferry")

    assert [len(placed.results) for placed in log.live] == [0, 0, 1, 0, 1, 0, 1]
    assert not log.open_calls


@pytest.mark.parametrize("policy", [INFOLD, FOLDS], ids=["prunes", "folds"])
def test_agents_that_make_the_same_calls_never_mix(policy: Policy) -> None:
    """B28: several runs of one task make the same calls and get other results; each is sent its own, and once one
    of them was pruned or folded, each has a session of its own."""
    store = MemoryStore()
    pool = SessionPool(store, replace(SMALL, policy=policy))
    runs: dict[str, list[Item]] = {mark: [{"role": "user", "content": "Go on."}] for mark in ("ALPHA", "BETA")}
    for number in range(24):
        for mark, items in runs.items():
            managed = pool.begin(request_of(items), no_model)
            other = "BETA" if mark == "ALPHA" else "ALPHA"
            assert other not in texts(sent_by(managed))
            call = {"id": f"call_{mark}_{number}", "type": "function", "function": {"name": "next", "arguments": "{}"}}
            said = answer("", calls=(call,))
            record(managed, msgspec.json.encode(said))
            result = {"role": "tool", "tool_call_id": call["id"], "content": f"{mark} {number} lorem " * 90}
            items += [said["choices"][0]["message"], result]

    assert len(ids(store)) == 2


# Several writers.


def test_a_new_process_goes_on(tmp_path: Path) -> None:
    """B13, B29: after a restart on the same store the same request is sent as the same bytes, and the session goes on."""
    store = SqliteStore(tmp_path / "log.sqlite3")
    talk = begun(SessionPool(store, SMALL), turns=9)
    before = SessionPool(store, SMALL).begin(request_of(talk.items), no_model)
    store.close()
    again = SqliteStore(tmp_path / "log.sqlite3")
    after = SessionPool(again, SMALL).begin(request_of(talk.items), no_model)

    assert log_of(again, ids(again)[0]).checkpoint is not None
    assert before.content == after.content
    assert len(ids(again)) == 1
    again.close()


def test_two_processes_on_one_name_do_not_mix() -> None:
    """B14: a name that another process began meanwhile with another history is left to it."""
    store = MemoryStore()
    one, other = SessionPool(store, SMALL), SessionPool(store, SMALL)
    other.begin(request_of([{"role": "user", "content": "Probe."}], headers={"x-infold-session": "ferry~1"}), no_model)
    stale = Talk("B", first="Port the exporter.", words=220)
    stale.ask(other, headers=NAMED)
    fresh = Talk("A", words=220)
    for _ in range(6):
        assert "B-" not in texts(fresh.ask(one, headers=NAMED))
        assert "A-" not in texts(stale.ask(other, headers=NAMED))

    assert ids(store) == ["ferry", "ferry~1", "ferry~2"]


def test_a_session_that_was_let_go_is_read_again() -> None:
    """B14: a reply recorded through a session object that is no longer kept is known to the one that takes its place."""
    store = MemoryStore()
    pool = SessionPool(store, LARGE, most_open=1)
    talk = begun(pool)
    managed = pool.begin(request_of(talk.items), no_model)
    begun(pool, headers=NAMED)
    again = pool.begin(request_of(talk.items), no_model)
    record(managed, msgspec.json.encode(answer("A late reply.")))
    on = [*talk.items, {"role": "assistant", "content": "A late reply."}, {"role": "user", "content": "Go on."}]

    assert again.session is not managed.session
    assert sent_by(pool.begin(request_of(on), no_model)) == on
    assert len(ids(store)) == 2


def test_a_late_reply_does_not_stand_in_the_way() -> None:
    """A reply to a request that is no longer the session's newest is left to the client to bring."""
    store = MemoryStore()
    pool = SessionPool(store, LARGE)
    talk = begun(pool, headers=NAMED)
    early = pool.begin(request_of(talk.items, headers=NAMED), no_model)
    talk.hear(answer("Meanwhile."))
    late = pool.begin(request_of(talk.items, headers=NAMED), no_model)
    record(early, msgspec.json.encode(answer("Too late.", tokens=99_000)))
    record(late, msgspec.json.encode(answer("In time.", tokens=500)))

    assert "Too late." not in str([placed.message for placed in log_of(store, "ferry").live])
    reported = log_of(store, "ferry").reported
    assert reported is not None
    assert reported.usage.prompt == 500


def test_a_refusal_is_recovered_for_the_request_it_is_of() -> None:
    """B7: another client's request under the same name does not end up in what is sent once more."""
    pool = SessionPool(MemoryStore(), LARGE)
    talk = begun(pool, headers=NAMED)
    managed = pool.begin(request_of(talk.items, headers=NAMED), no_model)
    stranger = [*talk.items[:-1], {"role": "user", "content": "STRANGER"}]
    pool.begin(request_of(stranger, headers=NAMED), no_model)

    assert managed.recover(Overflow("openai", 20_000, 5_000))
    assert "STRANGER" not in managed.content.decode()
    assert "A-4:" in managed.content.decode()


# Terms.


def test_a_refusal_teaches_the_limit() -> None:
    """B8, B11: what a provider refuses is sent smaller, and later requests keep to the limit it named."""
    store = MemoryStore()
    pool = SessionPool(store, LARGE)
    talk = begun(pool, turns=6, headers=NAMED)
    managed = pool.begin(request_of(talk.items, headers=NAMED), no_model)
    whole = managed.content

    assert managed.recover(Overflow("openai", 9_000, 5_000))
    assert len(managed.content) < len(whole)
    assert log_of(store, "ferry").limits.tokens == 5_000
    assert len(pool.begin(request_of(talk.items, headers=NAMED), no_model).content) == len(managed.content)


def test_another_model_has_its_own_window() -> None:
    """B19: a session that goes on with a smaller model is made to fit it, and with the larger one again is not."""
    store = MemoryStore()
    pool = SessionPool(store, SessionSettings(summariser=lambda _: "Notes."))
    talk = Talk("A", words=400)
    for _ in range(12):
        talk.ask(pool, model="gpt-4o")
    small = pool.begin(request_of(talk.items, model="gpt-4"), no_model)

    assert len(small.content) < 30_000 < len(request_of(talk.items).raw)
    assert len(ids(store)) == 1


def test_an_answers_size_is_left_free() -> None:
    """B8: what a request asks to be answered with at most is not filled with history."""
    talk = Talk("A", words=220)
    for _ in range(5):
        talk.hear(talk.next_answer())
    whole = SessionPool(MemoryStore(), SMALL).begin(request_of(talk.items), no_model)
    less = SessionPool(MemoryStore(), SMALL).begin(request_of(talk.items, max_tokens=6_000), no_model)

    assert len(less.content) < len(whole.content)


# A store that fails.


def test_without_a_store_requests_still_fit() -> None:
    """B7, B13: while the disk is full each request is made to fit; once there is room, its session goes on in the store."""
    store, events = BrokenStore(writes=4), list[Event]()
    pool = SessionPool(store, replace(SMALL, on_event=events.append))
    talk = Talk("ALPHA", words=220)
    sent = [talk.ask(pool, headers=NAMED) for _ in range(12)]
    store.writes = 100
    sent.append(talk.ask(pool, headers=NAMED))

    assert any(isinstance(event, Compacted) for event in events)
    assert all(len(items) < 14 for items in sent)
    assert all("ALPHA-12:" in texts(items) for items in sent[12:])
    assert log_of(store, "ferry").next_sequence > 20


def test_without_a_store_no_model_is_asked() -> None:
    """What may be lost with the process is not paid for: code writes the checkpoints."""
    events, asked = list[Event](), list[OwnRequest]()

    def ask(own: OwnRequest) -> UpstreamReply:
        asked.append(own)
        return UpstreamReply(500, b"")

    pool = SessionPool(BrokenStore(), SessionSettings(window=20_000, on_event=events.append))
    talk = Talk("ALPHA", words=800)
    for _ in range(12):
        managed = pool.begin(request_of(talk.items, headers=NAMED), ask)
        talk.hear(talk.next_answer())
        record(managed, msgspec.json.encode(talk.next_answer()))

    assert any(isinstance(event, Compacted) for event in events)
    assert asked == []


def test_what_is_not_stored_says_why() -> None:
    """A request reports what is wrong with the store; with one that works there is nothing to report."""
    exchange = request_of([{"role": "user", "content": "hi"}], headers=NAMED)
    broken, well = (SessionPool(store, SMALL).begin(exchange, no_model) for store in (BrokenStore(), MemoryStore()))

    assert "the disk is full" in str(broken.store_error)
    assert well.store_error is None


@pytest.mark.parametrize(
    ("binds", "stated", "learned"), [(True, None, True), (False, None, False), (True, False, False)]
)
def test_a_client_learns_which_models_bind_thinking(binds: bool, stated: bool | None, learned: bool) -> None:
    """B32: a refusal that names the binding counts for every session with that model, unless the settings state otherwise."""
    pool = SessionPool(MemoryStore(), replace(LARGE, bound_thinking=stated))
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    items = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "yes"}]},
        {"role": "user", "content": "go on"},
    ]

    def asked(name: str, model: str) -> ManagedRequest:
        body = {"model": model, "max_tokens": 9, "messages": items}
        parsed = parse_request("/v1/messages", {"x-infold-session": name}, msgspec.json.encode(body))
        assert isinstance(parsed, ParsedRequest)
        return pool.begin(parsed, no_model)

    assert asked("one", "new").recover(Overflow("anthropic", bound_thinking=True, binds=binds))
    other, unlike = asked("two", "new").session.log, asked("three", "old").session.log
    assert other.rendering.binds_thinking is learned
    assert not unlike.rendering.binds_thinking


def test_a_request_is_recovered_from_each_kind_of_refusal() -> None:
    """B7, B32: for its size once, for its thinking twice, in whatever order the refusals come."""
    managed = SessionPool(MemoryStore(), LARGE).begin(request_of([{"role": "user", "content": "hi"}]), no_model)
    size, thinking = Overflow("openai"), Overflow("anthropic", bound_thinking=True)

    assert [managed.may_recover(one) for one in (thinking, size, thinking, thinking, size)] == [
        True,
        True,
        True,
        False,
        False,
    ]
