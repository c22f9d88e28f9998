"""Sessions in threads for callers on an event loop, and what they await there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from threading import Event as Signal
from threading import current_thread
from time import sleep

import msgspec
import pytest

from infold.core.events import Compacted, Event, SummaryProgressed
from infold.core.messages import SessionId
from infold.core.summary_request import SummaryRequest
from infold.formats.overflow import Overflow
from infold.observers.bus import Bus
from infold.proxy.managed_request import ManagedRequest, OwnRequest, UpstreamReply
from infold.proxy.request import ParsedRequest
from infold.proxy.sessions import SessionPool
from infold.session.settings import SessionSettings
from infold.session.threads import MOST_COMPUTING, MOST_PREPARING, LoopCallbacks, LoopCalls, ThreadBridge
from infold.stores.memory import MemoryStore

from .talks import TOOLS, Item, Talk, answer, request_of

MODEL, WINDOW = "gpt-4o", 20_000
NOTES = "The importer is being ported step by step; nothing is finished yet."
AGENT = {"x-session-id": "ses_42"}

Sending = Callable[[OwnRequest], Awaitable[UpstreamReply]]


def long_list(turns: int = 16) -> list[Item]:
    """A list that is over the threshold of the window."""
    talk = Talk("A", words=320)
    for _ in range(turns):
        talk.hear(talk.next_answer())
    return talk.items


async def summarised(_: OwnRequest) -> UpstreamReply:
    """A provider that writes summaries."""
    return UpstreamReply(200, msgspec.json.encode(answer(NOTES, tokens=900)))


class Stage:
    """A pool whose sessions run in threads, and a provider that is awaited; `asked_in` are the threads that it was asked in."""

    def __init__(self, send: Sending = summarised, **given: object) -> None:
        self.store = MemoryStore()
        self.events: list[Event] = []
        settings = SessionSettings(**{"window": WINDOW, "on_event": self.events.append, **given})  # type: ignore[arg-type]  # as given
        self.pool = SessionPool(self.store, settings, callbacks=lambda: LoopCallbacks(Bus()))
        self.threads = ThreadBridge()
        self.asked_in: list[str] = []
        self._provider = send

    async def begin(self, request: ParsedRequest) -> ManagedRequest:
        """Prepare a request."""

        async def send(own: OwnRequest) -> UpstreamReply:
            self.asked_in.append(current_thread().name)
            return await self._provider(own)

        return await self.threads.prepare(lambda: self.pool.begin(request, send))

    def close(self) -> None:
        """End it."""
        self.pool.close()
        self.threads.close()

    @property
    def summarisers(self) -> list[str]:
        """Who wrote the summaries of the compactions."""
        return [event.summariser for event in self.events if isinstance(event, Compacted)]


class Hanging:
    """A provider that never answers."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = 0

    async def __call__(self, _: OwnRequest) -> UpstreamReply:
        """Wait until that is cancelled."""
        self.begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError


def test_a_summary_is_awaited_on_the_loop() -> None:
    """B5: the session waits in its thread, and the request for the summary goes out from the event loop."""

    async def main() -> Stage:
        stage = Stage()
        managed = await stage.begin(request_of(long_list(), model=MODEL))
        assert NOTES in managed.content.decode()
        stage.close()
        return stage

    stage = asyncio.run(main())

    assert set(stage.asked_in) == {"MainThread"}
    assert stage.summarisers == [MODEL]


def test_a_refusal_is_recovered() -> None:
    """B7: the same as without threads."""

    async def main() -> None:
        stage = Stage(window=12_000)
        managed = await stage.begin(request_of(long_list(8)))
        whole = managed.content
        refusal = Overflow("openai", prompt_tokens=9_000, limit_tokens=4_000)
        assert await stage.threads.prepare(lambda: managed.recover(refusal))
        assert len(managed.content) < len(whole)
        stage.close()

    asyncio.run(main())


def test_cancelling_a_caller_cancels_its_summary() -> None:
    """What is no longer waited for is not paid for, and the session is left as it was; the next request finds its turn."""

    async def main() -> None:
        provider = Hanging()
        stage = Stage(provider)
        request = request_of(long_list(), model=MODEL, headers=AGENT)
        task = asyncio.create_task(stage.begin(request))
        await asyncio.wait_for(provider.begun.wait(), 10)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        stage._provider = summarised
        assert stage.summarisers == []
        assert NOTES in (await asyncio.wait_for(stage.begin(request), 10)).content.decode()
        assert provider.cancelled == 1
        stage.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("items", "tools", "cancelled"),
    [
        (
            [{"role": "user", "content": "What did we do so far?"}, {"role": "assistant", "content": "Ported."}],
            TOOLS,
            True,
        ),
        ([{"role": "user", "content": "<system-reminder>Continue from a summary.</system-reminder>"}], TOOLS, True),
        ([{"role": "user", "content": "You are a sub-agent. Look for the bug."}], TOOLS, False),
        ([{"role": "user", "content": "A title?"}, {"role": "assistant", "content": "Port"}], None, False),
    ],
    ids=["compacted", "continued", "sub-agent", "title"],
)
def test_a_history_that_its_agent_compacted_is_not_summarised_on(
    items: list[Item], tools: object, cancelled: bool
) -> None:
    """B18, B36: the request for a summary of the history that is gone is cancelled; a sub-agent or a title cancels none."""

    async def main() -> None:
        provider = Hanging()
        stage = Stage(provider, background=True)
        turns = 2
        while not provider.begun.is_set():
            turns += 1
            await stage.begin(request_of(long_list(turns), model=MODEL, headers=AGENT))
            await asyncio.sleep(0.02)
        await stage.begin(request_of([*items, items[0]], model=MODEL, headers=AGENT, tools=tools))
        await asyncio.sleep(0.02)
        assert provider.cancelled == cancelled
        stage.close()
        await asyncio.sleep(0.02)
        assert provider.cancelled == 1

    asyncio.run(main())


def test_a_summary_is_written_in_the_background() -> None:
    """B18: a summary is requested before it is needed, over the connection of the request that began it."""

    async def main() -> Stage:
        stage = Stage(background=True)
        items = long_list(40)
        for end in range(3, len(items) + 1, 2):
            await stage.begin(request_of(items[:end], model=MODEL))
            await asyncio.sleep(0.02)
            if stage.summarisers:
                break
        stage.close()
        return stage

    stage = asyncio.run(main())

    assert [event.ahead for event in stage.events if isinstance(event, Compacted)] == [True]
    assert set(stage.asked_in) == {"MainThread"}


def test_cancelled_calls_fail() -> None:
    """Once an operation was cancelled, nothing more is awaited for it; what is only called still is."""

    async def main() -> None:
        calls = LoopCalls.here()
        assert await asyncio.to_thread(calls.wait_for, lambda: asyncio.sleep(0, "done")) == "done"
        calls.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.to_thread(calls.wait_for, lambda: asyncio.sleep(60))
        assert await asyncio.to_thread(calls.call, lambda: "called") == "called"

    asyncio.run(main())


def test_replies_are_recorded_while_all_threads_prepare() -> None:
    """However many requests wait for summaries, the end of a stream waits for none of them; those beyond the limit wait."""

    async def main() -> None:
        threads, released = ThreadBridge(), asyncio.Event()

        async def summarise(_: SummaryRequest) -> str:
            await released.wait()
            return NOTES

        def prepare() -> bool:
            request = SummaryRequest("be brief", (), 100)
            callbacks = LoopCallbacks(Bus())
            return bool(callbacks.summarise(summarise, request, lambda _: None, seconds=None))  # type: ignore[arg-type]

        waiting = [asyncio.create_task(threads.prepare(prepare)) for _ in range(MOST_PREPARING + 1)]
        await asyncio.sleep(0.5)
        assert await asyncio.wait_for(threads.record(lambda: "recorded"), 10) == "recorded"
        assert not any(task.done() for task in waiting)
        released.set()
        assert all(await asyncio.gather(*waiting))
        threads.close()

    asyncio.run(main())


def test_few_threads_compute_at_once() -> None:
    """Work that computes waits its turn, so that the event loop gets its own; work that waits lets others go first."""

    async def main() -> None:
        threads, running = ThreadBridge(), list[int]()
        now = 0

        def compute() -> None:
            nonlocal now
            now += 1
            running.append(now)
            sleep(0.01)
            now -= 1

        await asyncio.gather(*(threads.prepare(compute) for _ in range(20)))
        assert max(running) <= MOST_COMPUTING
        released = Signal()
        hanging = [asyncio.create_task(threads.prepare(lambda: released.wait(60))) for _ in range(MOST_COMPUTING)]
        assert await asyncio.wait_for(threads.prepare(lambda: "served"), 10) == "served"
        released.set()
        await asyncio.gather(*hanging)
        threads.close()

    asyncio.run(main())


def test_the_loop_goes_on_while_a_session_waits() -> None:
    """B17: a store that takes its time delays its own request alone."""

    async def main() -> int:
        threads, ticks = ThreadBridge(), 0
        task = asyncio.create_task(threads.prepare(lambda: sleep(0.2)))
        while not task.done():
            await asyncio.sleep(0.01)
            ticks += 1
        threads.close()
        return ticks

    assert asyncio.run(main()) > 3


@pytest.mark.parametrize(("on_loop", "thread"), [(True, "MainThread"), (False, "infold-prepare")])
def test_observers_run_on_the_loop(on_loop: bool, thread: str) -> None:
    """An async client's observer is called in its own loop's thread, before the request goes on; a gateway's where it is."""
    seen: list[str] = []

    async def main() -> None:
        bus, threads = Bus(), ThreadBridge()
        bus.subscribe(Event, lambda _: seen.append(current_thread().name))
        callbacks = LoopCallbacks(bus, observes_on_loop=on_loop)
        await threads.prepare(lambda: callbacks.publish(SummaryProgressed(SessionId("s"), "text")))
        threads.close()

    asyncio.run(main())

    assert [name.rstrip("_0") for name in seen] == [thread]


async def one_piece(_: SummaryRequest) -> str:
    """A summariser that is awaited."""
    await asyncio.sleep(0)
    return NOTES


async def pieces(_: SummaryRequest) -> AsyncIterator[str]:
    """A summariser that writes piece by piece."""
    for piece in (NOTES[:20], NOTES[20:]):
        await asyncio.sleep(0)
        yield piece


def plain(_: SummaryRequest) -> str:
    """A summariser that blocks."""
    return NOTES


@pytest.mark.parametrize(("summariser", "progress"), [(one_piece, 0), (pieces, 2), (plain, 0)])
def test_summarisers_of_async_callers_are_awaited(summariser: object, progress: int) -> None:
    """A summariser may be a coroutine, an async generator or a plain function."""

    async def main() -> Stage:
        stage = Stage(summariser=summariser)
        assert NOTES in (await stage.begin(request_of(long_list(), model=MODEL))).content.decode()
        stage.close()
        return stage

    events = asyncio.run(main()).events

    assert sum(isinstance(event, SummaryProgressed) for event in events) >= progress
