"""The same life as in `test_session.py`, awaited."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from threading import Event as Signal
from threading import current_thread, main_thread
from typing import Any, TypeVar

import pytest
from tests.support.policies import FOLDS

from infold.core.entries import Entry, MessageEntry, Title
from infold.core.events import Compacted, Event, PreparationDiscarded, PreparedAhead, SummaryProgressed
from infold.core.judge import Answer
from infold.core.messages import SessionId
from infold.core.summary_request import SummaryRequest
from infold.errors import HistoryChanged, SessionReentered, UnknownReference, UsageError, WindowExceeded
from infold.ports import FullStore, SessionKey
from infold.session.async_session import AsyncSession
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore
from infold.wiring import open_store

RULE = "Port the parser. Never touch vendor/."
TOLD = "The parser was ported with make."
KEY = SessionKey("", SessionId("s"))
PATIENCE_SECONDS = 10.0
Outcome = TypeVar("Outcome")


def said(text: str) -> dict[str, Any]:
    """A person's message."""
    return {"role": "user", "content": text}


def step(number: int) -> list[dict[str, Any]]:
    """A tool step of about six hundred tokens."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": '{"command": "make"}'}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number}: all went well\n" * 80},
    ]


def reply(number: int) -> dict[str, Any]:
    """A provider's reply that calls a tool."""
    return {"choices": [{"message": step(number)[0], "finish_reason": "tool_calls"}]}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FullStore]:
    """A store of each kind that needs no server."""
    opened = open_store("memory" if request.param == "memory" else str(tmp_path / "log.sqlite3"))
    yield opened
    if isinstance(opened, SqliteStore):
        opened.close()


def run(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Work awaited to its end, and no longer than is sensible."""

    async def bounded() -> Outcome:
        async with asyncio.timeout(6 * PATIENCE_SECONDS):
            return await work

    return asyncio.run(bounded())


async def opened(store: FullStore, window: int = 8_192, **settings: Any) -> AsyncSession:
    """The session `s` of a store, at a standing clock: when a summary is begun ahead depends on the pace of the calls."""
    return await AsyncSession.open(store, "s", SessionSettings(window=window, **{"now_ms": lambda: 5, **settings}))


async def grow(session: AsyncSession, steps: int, *, begin: int = 0, sent: list[Any] | None = None) -> None:
    """Drive a session for some steps, giving it only what is new; it is left before its next request."""
    new = [] if begin else [said(RULE)]
    for number in range(begin, begin + steps):
        ready = await session.prepare_new(new)
        if sent is not None:
            sent.append(ready.messages)
        await session.record(reply(number))
        new = step(number)[1:]
    await session.prepare_new(new)


def entries(store: FullStore) -> list[Entry]:
    """All that is stored, oldest first."""
    return [entry for _, entry in store.newest_first(KEY)][::-1]


def spoken(store: FullStore) -> list[str]:
    """What callers and models said, by id."""
    found = (entry.message.id for entry in entries(store) if isinstance(entry, MessageEntry))
    return [name for name in found if not name.startswith("compact-")]


# Life.


def test_awaited_or_not_is_the_same_life(store: FullStore) -> None:
    """B8, B13: a session driven by awaiting sends the very requests that one does which is driven by waiting."""
    awaited: list[Any] = []
    waited: list[Any] = []

    async def live() -> None:
        await grow(await opened(store, now_ms=lambda: 7), 80, sent=awaited)

    run(live())
    session = Session(other := MemoryStore(), "s", SessionSettings(window=8_192, now_ms=lambda: 7))
    new = [said(RULE)]
    for number in range(80):
        waited.append(session.prepare_new(new).messages)
        session.record(reply(number))
        new = step(number)[1:]
    session.prepare_new(new)

    assert awaited == waited
    assert entries(store) == entries(other)
    assert all(RULE in str(messages) for messages in awaited)


def test_a_whole_list_can_be_brought(store: FullStore) -> None:
    """B13, B29: by the whole list, in another task or process, the session goes on as it would."""

    async def live() -> tuple[list[object], list[object]]:
        session = await opened(store)
        messages = [said(RULE)]
        for number in range(80):
            await session.prepare(messages)
            await session.record(reply(number))
            messages = [*messages, *step(number)]
        again = await opened(store)
        with pytest.raises(HistoryChanged):
            await again.prepare([said("something else")])
        return (await session.prepare(messages)).messages, (await again.prepare(messages)).messages

    one, other = run(live())

    assert one == other
    assert len(one) < 60


@pytest.mark.parametrize("answer", [TOLD, Answer(TOLD)])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_summariser_is_awaited_or_runs_beside_the_loop(
    store: FullStore, answer: str | Answer, is_async: bool
) -> None:
    """B5: a coroutine function or a plain one; what it says is judged and stands beside the ledger."""

    async def awaited(_: SummaryRequest) -> str | Answer:
        await asyncio.sleep(0)
        return answer

    def plain(_: SummaryRequest) -> str | Answer:
        return answer

    async def live() -> str:
        session = await opened(store, 64_000, summariser=awaited if is_async else plain)
        await grow(session, 12)
        return str((await session.compact("the parser")).messages[0])

    text = run(live())

    assert TOLD in text
    assert RULE in text


def test_a_summary_is_heard_of_as_it_is_written() -> None:
    """S3.10: pieces of an async generator are events in their order, told in the loop."""
    events: list[Event] = []

    async def summariser(_: SummaryRequest) -> AsyncIterator[str]:
        for text in ("The parser ", "was ported ", "with make."):
            await asyncio.sleep(0)
            yield text

    async def live() -> None:
        session = await opened(MemoryStore(), 64_000, summariser=summariser, on_event=events.append)
        await grow(session, 12)
        await session.compact()

    run(live())

    assert [event.text for event in events if isinstance(event, SummaryProgressed)] == [
        *("The parser ", "was ported ", "with make.")
    ]
    assert isinstance(events[-1], Compacted)


def test_a_summariser_that_raises_is_done_without(store: FullStore) -> None:
    """B10: whatever the caller's own code raises, the session goes on."""

    async def broken(_: SummaryRequest) -> str:
        raise ConnectionResetError("peer went away")

    async def live() -> str:
        session = await opened(store, 64_000, summariser=broken)
        await grow(session, 12)
        return str((await session.compact()).messages[0])

    assert RULE in run(live())


def test_a_session_is_worked_on_by_hand(store: FullStore) -> None:
    """B1, B6, B20: preview, pin, compact, recall, undo: each awaited, each as in the sync session."""

    async def live() -> None:
        session = await opened(store, 64_000)
        with pytest.raises(UsageError, match="call prepare"):
            await session.record(reply(0))
        await grow(session, 12)
        before = (await session.prepare_new([])).messages
        preview = session.preview(up_to=9)
        await session.pin("2.0")
        await session.pin("4.0")
        await session.unpin("4.0")
        compacted = await session.compact(up_to=9)
        assert session.log.checkpoint is not None
        assert (session.log.checkpoint.first_kept, preview.folded_messages) == (9, 9)
        assert "line 0: all" in str(compacted.messages[0])
        assert "line 1: all" not in str(compacted.messages[0])
        assert "line 1: all" in await session.recall("4.0", budget_tokens=2_000)
        with pytest.raises(UnknownReference):
            await session.recall("999.9")
        await session.undo()
        assert (await session.prepare_new([])).messages == before
        assert session.match([said("something else")]) is None
        assert len(session.encode([placed.message for placed in session.log.live])) == len(before)

    run(live())


def test_a_refused_request_is_made_smaller_once(store: FullStore) -> None:
    """B7, B8: the refusal is learned from, a second in a row is told, other trouble is not ours."""
    refused = {"error": {"message": "prompt is too long: 21000 tokens > 8192 maximum"}}

    async def live() -> None:
        session = await opened(store, 64_000)
        await grow(session, 20)
        ready = await session.recover(refused)
        assert ready is not None
        assert ready.gauge.upper_tokens <= 8_192
        with pytest.raises(WindowExceeded):
            await session.recover(refused)
        assert await session.recover(ValueError("no")) is None

    run(live())


# Cancelled.


def test_a_smaller_request_that_nobody_received_is_made_again(store: FullStore) -> None:
    """B8, B13: the task is cancelled just when the request was made smaller; asked again, the session gives that request."""
    refused = {"error": {"message": "prompt is too long: 21000 tokens > 8192 maximum"}}

    async def live() -> None:
        session = await opened(store, 64_000)
        await grow(session, 20)
        loop, recover = asyncio.get_running_loop(), session._session.recover

        def cancelled_at_the_end(error: object) -> Any:
            ready = recover(error)
            loop.call_soon_threadsafe(recovering.cancel)
            return ready

        session._session.recover = cancelled_at_the_end  # type: ignore[method-assign,assignment]
        recovering = asyncio.ensure_future(session.recover(refused))
        with pytest.raises(asyncio.CancelledError):
            await recovering
        session._session.recover = recover  # type: ignore[method-assign]

        ready = await session.recover(refused)
        assert ready is not None
        assert ready.gauge.upper_tokens <= 8_192
        with pytest.raises(WindowExceeded):
            await session.recover(refused)

    run(live())


async def interrupted(session: AsyncSession, act: Callable[[], Awaitable[object]], begun: asyncio.Event) -> bool:
    """Cancel a call as soon as it asks the model; whether it did."""
    task = asyncio.ensure_future(act())
    waiting = asyncio.ensure_future(begun.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not begun.is_set():
        await task
        return False
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return True


def test_a_cancelled_summary_leaves_a_usable_session(store: FullStore) -> None:
    """B13: cancelling while the model writes stores nothing twice and leaves the lock free; the same call goes through."""

    async def live() -> int:
        begun, is_hanging, cancelled = asyncio.Event(), True, 0

        async def summariser(_: SummaryRequest) -> str:
            begun.set()
            if is_hanging:
                await asyncio.Event().wait()
            return TOLD

        session = await opened(store, policy=FOLDS, summariser=summariser)
        messages = [said(RULE)]
        for number in range(30):
            if await interrupted(session, lambda: session.prepare(messages), begun):  # noqa: B023 - awaited at once
                cancelled, is_hanging = cancelled + 1, False
                with store.hold(KEY) as free:
                    assert free
                ready = await session.prepare(messages)
                assert TOLD in str(ready.messages[0])
                begun.clear()
                is_hanging = True
            await session.record(reply(number))
            messages = [*messages, *step(number)]
        return cancelled

    assert run(live()) >= 2
    assert len(spoken(store)) == len(set(spoken(store))) == 60


def test_calls_of_one_session_take_turns() -> None:
    """B14: two tasks that bring their messages at once are served one after the other, and nothing is lost."""

    async def live() -> list[str]:
        store = MemoryStore()
        session = await opened(store)
        await asyncio.gather(*(session.prepare_new([said(f"{number} says hello")]) for number in range(20)))
        return spoken(store)

    assert sorted(run(live())) == sorted(f"m{number}" for number in range(20))


# Ahead of need.


def test_nobody_waits_for_a_summary_written_ahead() -> None:
    """B18: a task of the loop writes while requests go out; once it is done the summary is swapped in, and told as that."""
    events: list[Event] = []
    sent: list[Any] = []

    async def live() -> None:
        written = asyncio.Event()

        async def summariser(_: SummaryRequest) -> str:
            await written.wait()
            return TOLD

        session = await opened(
            MemoryStore(), 16_384, policy=FOLDS, summariser=summariser, background=True, on_event=events.append
        )
        await grow(session, 15, sent=sent)
        assert events == []
        assert len(sent[-1]) == 29
        written.set()
        await grow(session, 8, begin=15, sent=sent)
        await session.close()

    run(live())
    compacted = [event for event in events if isinstance(event, Compacted)]

    assert compacted[0].ahead
    assert compacted[0].summariser
    assert TOLD in str(sent[-1][0])


def test_a_summary_that_failed_ahead_is_not_taken_for_one() -> None:
    """B10, B18: what a task could not write is told of, and whoever needs a summary asks for it."""
    events: list[Event] = []

    async def live() -> None:
        answers = ["", ""]

        async def summariser(_: SummaryRequest) -> str:
            return answers.pop() if answers else TOLD

        session = await opened(
            MemoryStore(), 16_384, policy=FOLDS, summariser=summariser, background=True, on_event=events.append
        )
        await grow(session, 18)
        await session.compact()
        await session.close()

    run(live())
    told = [type(event) for event in events if isinstance(event, PreparationDiscarded | PreparedAhead | Compacted)]

    assert told == [PreparationDiscarded, Compacted]
    assert [event.outcome for event in events if isinstance(event, Compacted)] == ["summarised"]


def test_closing_gives_up_what_is_written_ahead() -> None:
    """B13: a session that is closed leaves no task behind; the log is as it was."""

    async def live() -> tuple[int, int]:
        async def summariser(_: SummaryRequest) -> str:
            await asyncio.Event().wait()
            return "never"

        store = MemoryStore()
        session = await opened(store, 16_384, policy=FOLDS, summariser=summariser, background=True)
        await grow(session, 15)
        await session.close()
        return len(asyncio.all_tasks()), len(entries(store))

    assert run(live()) == (1, 31)


def test_a_session_is_closed_at_the_end_of_a_block() -> None:
    """As for a `Session`."""

    async def talked() -> int:
        async with await AsyncSession.open(open_store("memory"), "s", SessionSettings(window=8_000)) as session:
            return len((await session.prepare([{"role": "user", "content": "hi"}])).messages)

    assert asyncio.run(talked()) == 1


def test_both_kinds_of_session_offer_the_same() -> None:
    """What can be asked of one can be asked of the other; only how they begin and end a block differs."""
    names = [{name for name in dir(kind) if not name.startswith("_")} for kind in (Session, AsyncSession)]

    assert names[1] - names[0] == {"open"}
    assert names[0] <= names[1]


def test_a_title_is_given() -> None:
    """S6.2: as by a `Session`, and what the session is kept by can be asked for."""

    store = MemoryStore()

    async def titled() -> tuple[int, int, str]:
        session = await AsyncSession.open(store, "s", SessionSettings(window=8_000))
        await session.title("Port the feed")
        return session.window_tokens, session.limit_tokens, session.policy.name

    assert asyncio.run(titled()) == (8_000, 6_800, "infold")
    assert next(store.newest_first(SessionKey("", SessionId("s")))) == (0, Title("Port the feed"))


# The bridge.

PARALLEL = 40
asked_by: ContextVar[str] = ContextVar("asked_by", default="")


@pytest.mark.parametrize("is_async", [True, False])
def test_many_sessions_wait_for_their_summaries_at_once(is_async: bool) -> None:
    """B17: sessions whose summaries take long hold up neither one another nor the loop."""

    async def live() -> int:
        begun, gate = list[int](), Signal()

        def plain(_: SummaryRequest) -> str:
            begun.append(1)
            gate.wait(PATIENCE_SECONDS)
            return TOLD

        async def awaited(_: SummaryRequest) -> str:
            begun.append(1)
            while not gate.is_set():
                await asyncio.sleep(0.001)
            return TOLD

        async def one(number: int) -> str:
            settings = SessionSettings(window=64_000, summariser=awaited if is_async else plain)
            session = await AsyncSession.open(MemoryStore(), f"s{number}", settings)
            await session.prepare([said(RULE), *(item for n in range(12) for item in step(n))])
            return str((await session.compact()).messages[0])

        tasks = [asyncio.ensure_future(one(number)) for number in range(PARALLEL)]
        while len(begun) < PARALLEL:
            await asyncio.sleep(0.001)
        quick = await AsyncSession.open(MemoryStore(), "quick", SessionSettings(window=8_000))
        await quick.prepare([said("hi")])
        gate.set()
        return sum(TOLD in text for text in await asyncio.gather(*tasks))

    assert run(live()) == PARALLEL


@pytest.mark.parametrize("is_async", [True, False])
def test_the_callers_code_runs_in_the_callers_loop_and_context(is_async: bool) -> None:
    """B22: observers are called on the loop, also with the pieces of a plain generator; a summariser has the caller's context."""
    threads: list[bool] = []
    seen: list[str] = []

    async def awaited(_: SummaryRequest) -> AsyncIterator[str]:
        seen.append(asked_by.get())
        yield TOLD

    def plain(_: SummaryRequest) -> Iterator[str]:
        seen.append(asked_by.get())
        yield TOLD

    async def live() -> None:
        summariser = awaited if is_async else plain
        session = await opened(MemoryStore(), 64_000, summariser=summariser)
        session.bus.subscribe(Event, lambda _: threads.append(current_thread() is main_thread()))
        asked_by.set("the caller")
        await grow(session, 12)
        await session.compact()

    run(live())

    assert seen == ["the caller"]
    assert threads == [True, True]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_summariser_that_takes_too_long_is_left_or_cancelled(is_async: bool) -> None:
    """B10: after its time the head is folded by code; an async summariser is cancelled, a plain one left in its thread."""
    ended: list[str] = []
    gate = Signal()

    async def awaited(_: SummaryRequest) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return TOLD

    def plain(_: SummaryRequest) -> str:
        gate.wait(PATIENCE_SECONDS)
        return TOLD

    async def live() -> str:
        summariser = awaited if is_async else plain
        session = await opened(MemoryStore(), 64_000, summariser=summariser, summary_seconds=0.05)
        await grow(session, 12)
        return str((await session.compact()).messages[0])

    text = run(live())
    gate.set()

    assert TOLD not in text
    assert ended == (["cancelled"] if is_async else [])


def test_a_cancelled_call_does_not_wait_for_a_plain_summariser() -> None:
    """B13: a plain function cannot be ended; the call that waits for it can, and the next one asks again."""

    async def live() -> str:
        begun, gate = asyncio.Event(), Signal()
        loop = asyncio.get_running_loop()

        def plain(_: SummaryRequest) -> str:
            loop.call_soon_threadsafe(begun.set)
            gate.wait(PATIENCE_SECONDS)
            return TOLD

        session = await opened(MemoryStore(), 64_000, summariser=plain, summary_seconds=None)
        await grow(session, 12)
        assert await interrupted(session, session.compact, begun)
        gate.set()
        return str((await session.compact()).messages[0])

    assert TOLD in run(live())


def test_a_session_outlives_its_loop() -> None:
    """B13: a session opened in one event loop goes on in the next, whatever the first was doing when it ended."""
    store, session, asked = MemoryStore(), list[AsyncSession](), list[int]()

    async def begin() -> None:
        async def hanging_once(_: SummaryRequest) -> str:
            asked.append(1)
            if len(asked) == 1:
                await asyncio.Event().wait()
            return TOLD

        session.append(await opened(store, 64_000, summariser=hanging_once))
        await grow(session[0], 12)
        task = asyncio.ensure_future(session[0].compact())
        while not asked:
            await asyncio.sleep(0.001)
        assert not task.done()  # it is cancelled with the loop

    async def go_on() -> str:
        return str((await session[0].prepare_new([])).messages[0])

    asyncio.run(begin())
    with store.hold(KEY) as free:
        assert free
    assert TOLD in asyncio.run(go_on())


def test_a_session_may_not_be_used_by_its_own_summariser() -> None:
    """B36: the call fails at once instead of waiting for itself, and the request goes out, folded by code."""
    caught: list[Exception] = []

    async def live() -> str:
        async def calling(_: SummaryRequest) -> str:
            try:
                await session.title("x")
            except SessionReentered as error:
                caught.append(error)
                raise
            return TOLD

        session = await opened(MemoryStore(), 64_000, summariser=calling)
        await grow(session, 12)
        return str((await session.compact()).messages[0])

    assert TOLD not in run(live())
    assert len(caught) == 1


def test_docstrings_are_those_of_a_session() -> None:
    """What a call does is written once, and shown for both kinds of session."""
    for name, member in vars(AsyncSession).items():
        if not name.startswith("_") and name != "open":
            assert member.__doc__ == getattr(Session, name).__doc__
