"""Two calls around each request, on a store."""

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event as Gate
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold.core.entries import Checkpoint, Entry, MessageEntry, Pruning
from infold.core.events import (
    Compacted,
    CompactionVetoed,
    Event,
    PreparationDiscarded,
    PreparedAhead,
    Pruned,
    Restored,
    SummaryProgressed,
    SummaryRejected,
)
from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import CompactionPart, SessionId, text_of
from infold.core.policy import Policy, preset, tokens
from infold.core.summary_request import SEVEN_SECTIONS, SummaryRequest
from infold.errors import UnknownReference, UsageError, WindowExceeded
from infold.plugins import hook, installed_plugins
from infold.ports import FullStore, SessionKey, Veto
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore
from infold.wiring import open_store

RULE = "Port the parser. Never touch vendor/."
PORTED = "The parser was ported with make."


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
    """B2, B8: 150 steps in a window of 8k are pruned and folded several times, and the rule is in every request."""
    events: list[Event] = []
    sent: list[Any] = []
    session = Session(store, "s", SessionSettings(window=8_192, on_event=events.append))
    grow(session, 150, sent=sent)

    assert all(sum(isinstance(event, kind) for event in events) >= 3 for kind in (Pruned, Compacted))
    assert all(RULE in str(messages) for messages in sent)
    assert len(sent[-1]) < 60


def test_the_whole_history_gives_the_same(store: FullStore) -> None:
    """B29: a caller who brings everything each time is sent what one is sent who brings what is new."""
    by_piece: list[Any] = []
    grow(Session(MemoryStore(), "s", SessionSettings(window=8_192)), 80, sent=by_piece)
    session = Session(store, "whole", SessionSettings(window=8_192))
    messages: list[dict[str, Any]] = [{"role": "user", "content": RULE}]
    whole: list[Any] = []
    for number in range(80):
        whole.append(session.prepare(messages).messages)
        session.record(reply(number))
        messages = [*messages, *step(number)]

    assert whole == by_piece


def test_another_process_goes_on(store: FullStore) -> None:
    """B13: a session opened again by its id goes on with the same view, by new messages or by the whole list."""
    first = Session(store, "s", SessionSettings(window=8_192))
    messages = grow(first, 80)
    before = first.prepare_new(step(79)[1:]).messages

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


@pytest.mark.parametrize("answer", [PORTED, Answer(PORTED)])
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
    assert session.log.baseline is not None


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
    session = Session(store, "s", SessionSettings(window=8_192, policy=FOLDS, recall=True))
    session.prepare_new([{"role": "user", "content": RULE}, step(900)[0]])
    session.prepare_new([{"role": "tool", "tool_call_id": "c900", "content": "the harbour key is quay-4711"}])
    grow(session, 40, begin=1)

    assert "quay-4711" not in str(session.prepare_new([]).messages)
    assert "quay-4711" in session.recall("harbour key")
    assert "quay-4711" in session.recall("2.0")
    assert len(session.recall("all went well", budget_tokens=300)) < 2_000
    with pytest.raises(UnknownReference):
        session.recall("999.9")


# By hand.


def compactable(store: FullStore, **settings: Any) -> Session:
    """A session of twelve steps that fits its window, before its next request."""
    session = Session(store, "s", SessionSettings(window=64_000, **settings))
    grow(session, 12)
    session.prepare_new(step(11)[1:])
    return session


@pytest.mark.parametrize("up_to", [None, 9])
def test_a_preview_tells_what_would_be_folded(store: FullStore, up_to: int | None) -> None:
    """B20: a preview changes nothing, compacting then does what it said, and a second time there is nothing before."""
    session = compactable(store)
    preview = session.preview(up_to=up_to)
    assert session.log.next_sequence == 25
    session.compact(up_to=up_to)
    checkpoint = session.log.checkpoint

    assert checkpoint is not None
    assert (preview.text, preview.first_kept) == (checkpoint.text, checkpoint.first_kept)
    assert preview.tokens_after == checkpoint.tokens_after < preview.tokens_before
    assert up_to in (None, checkpoint.first_kept)
    with pytest.raises(UsageError, match="later message"):
        session.compact(up_to=checkpoint.first_kept)


def test_a_pinned_part_is_carried_on(store: FullStore) -> None:
    """B20: pinned words stand in the checkpoint, in this process and the next; released ones do not."""
    session = compactable(store)
    session.pin("2.0")
    session.pin("4.0")
    session.unpin("4.0")
    text = str(session.compact().messages[0])

    assert "line 0: all went well" in text
    assert "line 1: all went well" not in text
    assert text == str(Session(store, "s", SessionSettings(window=64_000)).prepare_new([]).messages[0])
    with pytest.raises(UnknownReference, match=r"no part '99\.0'"):
        session.pin("99.0")


def test_a_pruning_is_undone(store: FullStore) -> None:
    """B1, B20: what an entry hid is shown again by its number, and observers hear of it."""
    events: list[Event] = []
    session = Session(store, "s", SessionSettings(window=32_000, on_event=events.append))
    new: list[dict[str, Any]] = [{"role": "user", "content": RULE}]
    for number in range(6):
        session.prepare_new(new)
        session.record(reply(number))
        session.prepare_new([{"role": "tool", "tool_call_id": f"c{number}", "content": "word " * 3_000}])
        session.record({"choices": [{"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}]})
        new = [{"role": "user", "content": f"and then {number}"}]
    whole = session.prepare_new(new).messages
    pruned = session.compact().messages
    numbered = store.newest_first(SessionKey("", SessionId("s")))
    session.undo(next(number for number, entry in numbered if isinstance(entry, Pruning)))

    assert "[pruned:" in str(pruned)
    assert session.prepare_new([]).messages == whole
    assert isinstance(events[-1], Restored)


# Those who are told and asked.


def test_callbacks_hear_of_what_is_done(store: FullStore) -> None:
    """B25, S3.7, S8.3: `on_compacted` is called once the checkpoint is stored; a callback that raises harms nobody."""
    heard: list[tuple[Compacted, bool]] = []

    def compacted(event: Compacted) -> None:
        entries = [entry for _, entry in store.newest_first(SessionKey("", SessionId("s")))]
        heard.append((event, isinstance(entries[0], Checkpoint)))
        raise RuntimeError("somebody else's mistake")

    session = compactable(store, on_compacted=compacted)
    session.compact()

    assert [(event.reason, stored) for event, stored in heard] == [("manual", True)]
    assert session.bus.errors[0].error == "RuntimeError"


def test_a_summary_is_heard_of_as_it_is_written(store: FullStore) -> None:
    """S3.10: pieces are events in the order they came, before the compaction is one."""
    events: list[Event] = []

    def summariser(_: SummaryRequest) -> Iterator[str]:
        yield from ("The parser ", "was ported ", "with make.")

    compactable(store, summariser=summariser, on_event=events.append).compact()

    assert "".join(event.text for event in events[:3] if isinstance(event, SummaryProgressed)) == PORTED
    assert isinstance(events[3], Compacted)


class Vetoing:
    """A plugin that never lets a session be compacted."""

    @hook("compaction.before")
    def before(self) -> Veto:
        """Not now."""
        return Veto("a deploy is running")


def test_plugins_have_their_say(store: FullStore) -> None:
    """S3.5, S8.4: what a plugin adds reaches the summariser, and what it forbids does not happen."""
    asked: list[SummaryRequest] = []

    def summariser(request: SummaryRequest) -> str:
        asked.append(request)
        return PORTED

    compactable(store, summariser=summariser, plugins=installed_plugins(["seven-sections"])).compact()
    vetoed = Session(store, "s", SessionSettings(window=64_000, summariser=summariser, plugins=[Vetoing()]))
    ready = vetoed.compact()

    assert SEVEN_SECTIONS in text_of(asked[0].messages[0])
    assert len(asked) == 1
    assert [type(event) for event in ready.events] == [CompactionVetoed]


# A provider that refuses.


def refusal(status: int, message: str) -> tuple[Exception, Exception]:
    """What the official SDKs raise for one and the same refusal."""
    response = httpx2.Response(status, request=httpx2.Request("POST", "http://127.0.0.1/"))
    body = {"error": {"type": "invalid_request_error", "message": message}}
    told = openai.BadRequestError(message, response=response, body=body["error"])
    return told, anthropic.BadRequestError(message, response=response, body={"type": "error", **body})


@pytest.mark.parametrize("error", refusal(400, "prompt is too long: 21000 tokens > 8192 maximum"))
def test_a_refused_request_is_made_smaller_once(store: FullStore, error: Exception) -> None:
    """B7, B8, B11: an SDK's own exception is enough; the limit is learned, a second is told, other trouble is not ours."""
    session = compactable(store)
    before = len(session.prepare_new([]).messages)
    for other in (*refusal(400, "Invalid value for 'temperature'"), ValueError("no"), "rate limit"):
        assert session.recover(other) is None
    ready = session.recover(error)

    assert ready is not None
    assert len(ready.messages) < before
    assert ready.gauge.upper_tokens <= 8_192
    assert Session(store, "s", SessionSettings(window=64_000)).log.limits.tokens == 8_192
    with pytest.raises(WindowExceeded):
        session.recover(error)


# Ahead of need.


def test_nobody_waits_for_a_summary_written_ahead(store: FullStore) -> None:
    """B18: while the model writes requests go out as they are; once it is done the summary is swapped in, and told as that."""
    written, events = Gate(), list[Event]()

    def summariser(_: SummaryRequest) -> str:
        assert written.wait(10)
        return PORTED

    settings = SessionSettings(
        window=16_384, policy=FOLDS, summariser=summariser, background=True, on_event=events.append, now_ms=lambda: 5
    )
    session = Session(store, "s", settings)
    sent: list[Any] = []
    grow(session, 16, sent=sent)
    assert events == []
    assert len(sent[-1]) == 31
    written.set()
    session.prepare_new(step(15)[1:])
    grow(session, 8, begin=16, sent=sent)
    compacted = [event for event in events if isinstance(event, Compacted)]

    assert [event.ahead for event in compacted][:1] == [True]
    assert compacted[0].summariser
    assert "ported with make" in str(sent[-1][0])


def test_a_summary_that_failed_ahead_is_not_taken_for_one(store: FullStore) -> None:
    """B10, B18, B22: nothing is said to be prepared, what it cost is told, and the request that needs a summary asks for it."""
    events, answers = list[Event](), ["", ""]

    def summariser(_: SummaryRequest) -> ModelAnswer:
        return ModelAnswer(Answer(answers.pop() if answers else PORTED), cost=0.5)

    settings = SessionSettings(
        window=16_384, policy=FOLDS, summariser=summariser, background=True, on_event=events.append, now_ms=lambda: 5
    )
    session = Session(store, "s", settings)
    grow(session, 18)
    session.compact()
    discarded = [event.cost for event in events if isinstance(event, PreparationDiscarded)]
    (compacted,) = (event for event in events if isinstance(event, Compacted))

    assert discarded == [1.0]
    assert not any(isinstance(event, PreparedAhead) for event in events)
    assert [event.faults for event in events if isinstance(event, SummaryRejected)] == [("empty", "empty")]
    assert (compacted.ahead, compacted.outcome, compacted.cost) == (False, "summarised", 0.5)


def short(store: FullStore) -> Session:
    """A session so short that a fold of it would be larger than it is."""
    session = Session(store, "s", SessionSettings(window=8_000))
    session.prepare([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ok"}])
    return session


def test_a_preview_of_a_fold_that_is_not_made_folds_nothing(store: FullStore) -> None:
    """I7, B20: where compacting would make the view larger, neither does anything."""
    session = short(store)
    preview = session.preview()

    assert (preview.folded_messages, preview.first_kept, preview.text) == (0, None, "")
    assert preview.tokens_before == preview.tokens_after
    assert session.compact().events == ()


@pytest.mark.parametrize("up_to", [2, 99])
def test_a_message_that_is_not_there_cannot_be_kept(store: FullStore, up_to: int) -> None:
    """B20: a number past the end is a mistake, for a preview as for the act."""
    session = short(store)
    with pytest.raises(UsageError, match=f"the session ends before message {up_to}; .* at most 1"):
        session.compact(up_to=up_to)
    with pytest.raises(UsageError, match=f"the session ends before message {up_to}"):
        session.preview(up_to=up_to)


def test_a_session_may_be_closed(store: FullStore) -> None:
    """Closing is the same for both kinds of session, and the session goes on if it is used again."""
    with short(store) as session:
        pass
    session.close()

    assert len(session.prepare_new([{"role": "user", "content": "and now?"}]).messages) == 3


def test_settings_can_be_sent_to_another_process() -> None:
    """B14: workers are given the settings they keep sessions by."""
    settings = SessionSettings(window=8_000, policy="proactive")

    assert pickle.loads(pickle.dumps(settings)) == settings


def test_a_compaction_that_gains_nothing_leaves_nothing_behind(store: FullStore) -> None:
    """I7, I1: no model is asked, and what comes next stands where it belongs."""
    asked: list[SummaryRequest] = []

    def summarise(request: SummaryRequest) -> str:
        asked.append(request)
        return "The work went on."

    session = Session(store, "s", SessionSettings(window=64_000, summariser=summarise))
    session.prepare_new([{"role": "user", "content": RULE}])
    session.record(reply(0))
    entries = session.log.next_sequence

    assert session.compact().events == ()
    assert (asked, session.log.next_sequence) == ([], entries)
    sent = [message for message in session.prepare_new(step(0)[1:]).messages if isinstance(message, dict)]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("policy", ["infold", "opencode-1.1.57"])
def test_a_summary_that_gains_nothing_is_left_out(store: FullStore, policy: str) -> None:
    """I7, S3.1: what a model wrote is too long; code folds in its place, or the request for it is taken back."""
    asked: list[SummaryRequest] = []

    def summarise(request: SummaryRequest) -> str:
        asked.append(request)
        return "The harbour master wrote a very long letter about each ferry. " * 400

    settings = SessionSettings(window=64_000, policy=policy, summariser=summarise)
    session = Session(store, "s", settings)
    grow(session, 3)
    before = len(session.log.live)
    ready = session.compact()
    paid = len(asked)
    session.prepare_new([{"role": "user", "content": "and?"}])

    assert asked
    assert len(asked) == paid
    assert session.log.pending is None
    assert bool(ready.events) is (session.log.checkpoint is not None)
    assert session.log.checkpoint is not None or len(session.log.live) == before + 1


def test_nothing_new_is_looked_for_in_the_store(store: FullStore) -> None:
    """B14: who has nothing and brings nothing is sent what another process has stored meanwhile."""
    late = Session(store, "s", SessionSettings(window=8_192, format="openai-chat"))
    Session(store, "s", SessionSettings(window=8_192)).prepare_new([{"role": "user", "content": RULE}])

    assert late.prepare_new([]).messages == [{"role": "user", "content": RULE}]


class Counting(MemoryStore):
    """Counts how often a session is read."""

    reads = 0

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Note it."""
        self.reads += 1
        return super().newest_first(key, before=before)


def test_a_session_that_goes_on_is_not_read_again() -> None:
    """B17: an agent that stores what it says by itself and brings nothing new costs no reading, however long its session."""
    store = Counting()
    session = Session(store, "s", SessionSettings(window=64_000))
    session.prepare_new([{"role": "user", "content": RULE}])
    reads = store.reads
    for number in range(5):
        session.record(reply(number))
        session.prepare_new([])

    assert store.reads == reads


@pytest.mark.parametrize("policy", [FOLDS, "opencode-1.1.23", "opencode-1.18"], ids=["infold", None, None])
def test_the_request_after_a_refusal_says_so(policy: str | Policy) -> None:
    """S3.1: a compaction that a provider's refusal led to has `overflow` in its request, one that a person asked for has not."""
    store = MemoryStore()
    session = Session(store, "s", SessionSettings(window=200_000, policy=policy, summariser=lambda _: PORTED))
    session.prepare([{"role": "user", "content": RULE}, *(item for number in range(60) for item in step(number))])
    session.recover({"error": {"code": "context_length_exceeded", "message": "too long"}})
    session.record(reply(60))
    session.prepare_new(step(60)[1:])
    session.compact()
    entries = [entry for _, entry in store.newest_first(SessionKey("", SessionId("s")))][::-1]
    asked = [part for entry in entries if isinstance(entry, MessageEntry) for part in entry.message.parts]

    assert [(part.auto, part.overflow) for part in asked if isinstance(part, CompactionPart)] == [
        (True, True),
        (False, False),
    ]


@pytest.mark.parametrize(
    ("turns", "budget", "first_kept"), [(2, 10_000, "m2"), (1, 10_000, "m4"), (0, 10_000, None), (2, 0, None)]
)
def test_opencodes_tail_settings_reach_the_request(turns: int, budget: int, first_kept: str | None) -> None:
    """S1.9, S3.1: of the turns first, second and third, 1.18's request names where the tail begins, as `tail_turns` has it."""
    tail = replace(preset("opencode-1.18").tail, turns=turns, size=tokens(budget), minimum_tokens=0)
    policy = replace(preset("opencode-1.18"), tail=tail if turns else replace(tail, rule="none"))
    store = MemoryStore()
    session = Session(store, "s", SessionSettings(window=200_000, policy=policy, summariser=lambda _: PORTED))
    for said in ("first", "second", "third"):
        session.prepare_new([{"role": "user", "content": f"{said} " * 400}])
        message = {"role": "assistant", "content": "Done. " * 200}
        session.record({"choices": [{"message": message, "finish_reason": "stop"}]})
    session.compact()
    entries = [entry for _, entry in store.newest_first(SessionKey("", SessionId("s")))]
    asked = [part for entry in entries if isinstance(entry, MessageEntry) for part in entry.message.parts]

    assert [part.first_kept_id for part in asked if isinstance(part, CompactionPart)] == [first_kept]


def test_thinking_is_recovered_as_far_as_there_is_any() -> None:
    """B32: first the thinking goes, then the work it belongs to; after that, and without thinking, there is nothing to do."""
    refusal = {"error": {"message": "The block is bound to a different conversation."}}
    session = Session(MemoryStore(), "s", SessionSettings(window=64_000, format="anthropic-messages"))
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    call = {"type": "tool_use", "id": "t", "name": "bash", "input": {}}
    items: list[Any] = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [thought, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "done"}]},
    ]
    session.prepare(items)
    bare, folded = session.recover(refusal), session.recover(refusal)

    assert bare is not None
    assert folded is not None
    assert bare.messages == [items[0], {"role": "assistant", "content": [call]}, items[2]]
    assert "Go." in str(folded.messages)
    assert "tool_use" not in str(folded.messages)
    assert session.recover(refusal) is None
    assert session.prepare(items).messages == folded.messages


# A working window.


def test_a_working_window_compacts_early_and_refuses_late() -> None:
    """B11: a session works in its working window, but a request that cannot be made smaller may fill the model's own."""
    settings = SessionSettings(window=100_000, working_window=8_000)
    session = Session(MemoryStore(), "s", settings)
    messages: list[dict[str, Any]] = [{"role": "user", "content": RULE}]
    for number in range(30):
        messages += step(number)
    worked = session.prepare(messages)

    assert any(isinstance(event, Compacted | Pruned) for event in worked.events)
    assert worked.gauge.count_tokens < 8_000 < worked.limit_tokens
    large = Session(MemoryStore(), "large", settings).prepare(
        [{"role": "user", "content": "one word after another " * 4_000}]
    )
    assert large.gauge.count_tokens > 8_000
    assert large.events == ()
    with pytest.raises(WindowExceeded, match="usable window is 85,000"):
        Session(MemoryStore(), "huge", settings).prepare(messages[:1], tools="one word after another " * 40_000)


@pytest.mark.parametrize("wrong", [0, -5, "much", "0", True, 1.5])
def test_a_wrong_working_window_is_refused_where_it_is_written(wrong: Any) -> None:
    """B11: settings with a working window that is not a number of tokens cannot be made, and the error has the fix."""
    with pytest.raises(UsageError, match=r"working window.*such as 200_000"):
        SessionSettings(window=8_000, working_window=wrong)
