"""Whatever a model does when it is asked for a summary, the next prompt is answered, and the report says what happened."""

import asyncio
from collections.abc import Callable
from typing import Any

import openai
import pytest

from infold.core.events import Compacted, Event, SummaryProgressed, SummaryRejected
from infold.core.messages import SessionId
from infold.core.summary_request import SummaryRequest
from infold.ports import SessionKey
from infold.session.async_session import AsyncSession
from infold.session.report import describe_event
from infold.session.session import Session
from infold.stores.memory import MemoryStore
from infold.testing.script import Fail, Hang, Say, Script, ScriptedRequest, Trouble, in_turn
from infold.testing.wire_replies import chat_overflow

from .summary_scenes import (
    CHINESE,
    GOOD,
    LIMIT_TOKENS,
    LIVES,
    RULE,
    WENT_ON,
    Life,
    Lived,
    asking_async,
    history,
    is_for_notes,
    live,
    live_async,
    serving,
    settings,
)

pytestmark = pytest.mark.slow

each_life = pytest.mark.parametrize("life", LIVES, ids=["sync", "async"])

BAD: dict[str, tuple[Script, str]] = {
    "empty": (in_turn(Say("")), "empty"),
    "cut off": (in_turn(Say(GOOD, finish="length")), "cut-off"),
    "tool call": (in_turn(Say(GOOD, calls=(("bash", {"command": "make"}),))), "tool-calls"),
    "invented path": (in_turn(Say("Everything was moved to src/nowhere.py and lib/neverland.go.")), "invented"),
    "larger than its input": (in_turn(Say("The parts were built, and all went well. " * 2_000)), "too-large"),
    "refusal": (in_turn(Say("I'm sorry, but I can't help with that.")), "refused"),
    "filtered": (in_turn(Say(GOOD, finish="content-filter")), "refused"),
    "server error": (in_turn(Fail(500)), "failed"),
    "busy": (in_turn(Fail(429)), "failed"),
    "no JSON": (in_turn(Fail(200, b"<html>gateway</html>")), "failed"),
}


def check_answered(lived: Lived, rule: str = RULE) -> None:
    """Both requests fitted, had the rule in them word for word, and were answered by a server that refuses what is too large."""
    assert lived.said == WENT_ON
    assert all(gauge.upper_tokens <= LIMIT_TOKENS for gauge in lived.gauges)
    assert all(rule in str(messages) for messages in lived.sent)


def check_folded(lived: Lived, fault: str, times: int = 2) -> None:
    """Code alone folded, and the report says for which fault, once for each try."""
    (rejected,), (compacted,) = lived.told(SummaryRejected), lived.told(Compacted)

    assert rejected.faults == compacted.faults == (fault,) * times
    assert fault in describe_event(rejected)
    assert compacted.outcome == "folded"


def check_summarised(lived: Lived, *faults: str) -> None:
    """The model's words stand for the head, and the report has what the judge found."""
    (compacted,) = lived.told(Compacted)

    assert not lived.told(SummaryRejected)
    assert (compacted.outcome, compacted.summariser, compacted.faults) == ("summarised", "notes", faults)
    assert all(GOOD in str(messages[0]) for messages in lived.sent)


@each_life
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_summary_gives_way(life: Life, bad: str) -> None:
    """B5, B10: a summary that fails twice is folded by code, the prompt is answered, and the report has the fault."""
    script, fault = BAD[bad]
    with serving(script) as server:
        lived = life(server, history())

    check_answered(lived)
    check_folded(lived, fault)
    assert sum(map(is_for_notes, server.requests)) == 2


@each_life
def test_a_summary_in_another_language_gives_way(life: Life) -> None:
    """B5: who writes Chinese is not given French notes; the fold by code has the request word for word."""
    french = "Les fichiers ont été lus et il faut écrire les pages dans le dossier pour que les tests passent."
    with serving(in_turn(Say(french))) as server:
        lived = life(server, history(CHINESE))

    check_answered(lived, CHINESE)
    check_folded(lived, "language")


@each_life
def test_a_good_summary_stands(life: Life) -> None:
    """B5, B22: the control: one request for notes, and the report names the model and what it cost."""
    with serving(in_turn(Say(GOOD))) as server:
        lived = life(server, history())

    check_answered(lived)
    check_summarised(lived)
    assert lived.told(Compacted)[0].cost == 0.25
    assert sum(map(is_for_notes, server.requests)) == 1


@each_life
def test_an_invented_name_is_marked(life: Life) -> None:
    """B37: a name that occurs nowhere is marked, nothing is lost, and the report says that something was invented."""
    lines = [GOOD, "Each part went well.", "Nothing is open.", "All moved to src/nowhere.py.", "The user is content."]
    with serving(in_turn(Say("\n".join(lines)))) as server:
        lived = life(server, history())

    check_answered(lived)
    check_summarised(lived, "invented")
    assert "All moved to src/nowhere.py. (not found in the record: src/nowhere.py)" in str(lived.sent)
    assert "The user is content." in str(lived.sent)


@each_life
@pytest.mark.parametrize("tells", [True, False], ids=["limit told", "limit untold"])
def test_a_summariser_that_holds_less_is_asked_for_less(life: Life, tells: bool) -> None:
    """B8, B11: notes that are refused as too large a request are asked for again in pieces, none of which is refused."""
    holds = 9_000 if tells else 16_500

    def notes(request: ScriptedRequest) -> Say | Fail:
        if request.tokens <= holds:
            return Say(GOOD)
        return Fail(400, chat_overflow(request.tokens, holds) if tells else UNTOLD)

    with serving(notes) as server:
        lived = life(server, history(steps=60))
    sizes = [request.tokens for request in server.requests if is_for_notes(request)]

    check_answered(lived)
    check_summarised(lived, "failed")
    assert sizes[0] > holds >= max(sizes[1:])
    assert len(sizes) > 2


UNTOLD = {"error": {"message": "Input is too long for requested model.", "code": "context_length_exceeded"}}


@each_life
def test_a_summariser_that_never_takes_it_is_done_without(life: Life) -> None:
    """B8, B10: a model that refuses even the smaller request is not asked a third time."""
    with serving(lambda request: Fail(400, chat_overflow(request.tokens, 100))) as server:
        lived = life(server, history())

    check_answered(lived)
    check_folded(lived, "failed")
    assert sum(map(is_for_notes, server.requests)) == 2


@each_life
def test_a_summariser_that_hangs_is_left(life: Life) -> None:
    """B10, B13, B36: silence is waited for once, no longer than was allowed, and then done without."""
    with serving(in_turn(Hang(60))) as server:
        lived = life(server, history(), seconds=0.15)

    check_answered(lived)
    check_folded(lived, "failed", times=1)
    assert "gave no answer within 0.15 seconds" in lived.told(SummaryRejected)[0].error


@each_life
def test_a_summary_is_told_as_it_is_written(life: Life) -> None:
    """S3.10: the pieces are told in their order before the compaction is, and make up the summary."""
    with serving(in_turn(Say(GOOD))) as server:
        lived = life(server, history(), streamed=True)
    kinds = [type(event) for event in lived.events]

    check_answered(lived)
    assert "".join(event.text for event in lived.told(SummaryProgressed)) == GOOD
    assert kinds.index(Compacted) == len(lived.told(SummaryProgressed)) > 3
    assert GOOD in str(lived.sent[0][0])


@each_life
def test_a_stream_that_breaks_is_asked_for_again(life: Life) -> None:
    """B5, S3.10: half a summary is none; the second stream is whole and stands."""
    broken = Say(GOOD, trouble=Trouble(cut_after_events=4))
    with serving(in_turn(broken, Say(GOOD))) as server:
        lived = life(server, history(), streamed=True)

    check_answered(lived)
    assert lived.told(Compacted)[0].outcome == "summarised"
    assert str(lived.sent[0][0]).count(GOOD) == 1


# Aborted in the middle.


def aborting(interrupt: type[BaseException]) -> Callable[[SummaryRequest], str]:
    """A summariser in the middle of which somebody gives up."""

    def ask(_: SummaryRequest) -> str:
        raise interrupt

    return ask


@pytest.mark.parametrize("seconds", [30.0, None], ids=["in a thread", "in the caller's thread"])
def test_an_interrupt_leaves_a_usable_session(seconds: float | None) -> None:
    """S3.1, B13: Ctrl-C in the summariser reaches the caller; the same session, and a new one, go on from there."""
    store, heard = MemoryStore(), list[Event]()
    session = Session(store, "s", settings(aborting(KeyboardInterrupt), heard, seconds=seconds))
    with pytest.raises(KeyboardInterrupt):
        session.prepare(history())
    with pytest.raises(KeyboardInterrupt):
        session.prepare(history())
    with serving(in_turn(Say(GOOD))) as server:
        lived = live(server, history(), store=store)

    check_answered(lived)
    check_summarised(lived)
    check_once(store)
    assert heard == []


def test_an_interrupt_leaves_a_usable_async_session() -> None:
    """S3.1, B13: Ctrl-C ends the event loop; a session in the next one goes on from there."""
    store = MemoryStore()

    async def run() -> None:
        session = await AsyncSession.open(store, "s", settings(aborting(KeyboardInterrupt), []))
        await session.prepare(history())

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run())
    with serving(in_turn(Say(GOOD))) as server:
        lived = live_async(server, history(), store=store)

    check_answered(lived)
    check_summarised(lived)
    check_once(store)


def test_a_cancelled_request_leaves_a_usable_session() -> None:
    """B13: a task that is cancelled while the notes are being written leaves a session that asks again and goes on."""
    store, heard = MemoryStore(), list[Event]()

    async def run(client: openai.AsyncOpenAI) -> Any:
        begun = asyncio.Event()
        ask = asking_async(client)

        async def told(request: SummaryRequest) -> Any:
            begun.set()
            return await ask(request)

        session = await AsyncSession.open(store, "s", settings(told, heard))
        task = asyncio.create_task(session.prepare(history()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await session.prepare(history())

    with serving(in_turn(Hang(0.2), Say(GOOD))) as server:
        ready = asyncio.run(with_client(server.url, run))

    assert GOOD in str(ready.messages[0])
    assert [type(event) for event in heard] == [Compacted]
    check_once(store)


async def with_client(url: str, run: Callable[[openai.AsyncOpenAI], Any]) -> Any:
    """Run with a client that never tries twice."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        return await run(client)


def check_once(store: MemoryStore) -> None:
    """Each message of the history is stored once, and the session's lock is free."""
    key = SessionKey("", SessionId("s"))
    stored = str([entry for _, entry in store.newest_first(key)])

    assert all(stored.count(f"call_id='c{number}', tool='bash', arguments") == 1 for number in range(24))
    with store.hold(key) as free:
        assert free
