"""Sessions whose summariser fails: how often it is asked, what is told of it, and what it may not do."""

import asyncio
import logging
from collections.abc import Callable
from threading import Event as Gate
from time import monotonic, sleep
from typing import Any

import pytest
from tests.support.policies import FOLDS

from infold.core.budget import Window
from infold.core.entries import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, Checkpoint
from infold.core.events import (
    Compacted,
    Event,
    PreparedAhead,
    SummariserPaused,
    SummariserResumed,
    SummaryProgressed,
    SummaryRejected,
)
from infold.core.judge import Answer
from infold.core.messages import SessionId, calls_of, results_of, text_of
from infold.core.policy import PRESETS
from infold.core.summary_request import SummaryRequest
from infold.errors import ModelBusy, SessionReentered, SummaryFailed
from infold.ports import FullStore, SessionKey
from infold.session.async_session import AsyncSession
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore

GOOD = "The parser was ported part by part; each part built without errors so far."
KEY = SessionKey("", SessionId("s"))


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def now_ms(self) -> int:
        """The time."""
        return self.now


class Failing:
    """A summariser that counts how often it is asked, and fails as it is told to until it is mended."""

    def __init__(self, fails: Callable[[], str]) -> None:
        self.fails: Callable[[], str] | None = fails
        self.asked = 0

    def __call__(self, _: SummaryRequest) -> str:
        """Fail, or write."""
        self.asked += 1
        return GOOD if self.fails is None else self.fails()


def raises() -> str:
    """A provider that is down."""
    raise RuntimeError("503 overloaded, key sk-abcdef0123456789")


def is_too_short() -> str:
    """A model that is too small to summarise."""
    return "A title"


def invents() -> str:
    """A model that makes things up."""
    return "Wrote tests/never_seen_before.py and it works."


each_failure = pytest.mark.parametrize("fails", [raises, is_too_short, invents])


def step(number: int) -> list[dict[str, Any]]:
    """A tool step of about four hundred tokens."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number} is fine\n" * 80},
    ]


class Drive:
    """A list of messages that grows by a step for each request; without another policy, under one that only folds."""

    def __init__(
        self, summariser: Callable[[SummaryRequest], Any], *, store: FullStore | None = None, **more: Any
    ) -> None:
        self.events: list[Event] = []
        self.clock = Clock()
        self.store = store or MemoryStore()
        self.settings = SessionSettings(
            format="openai-chat",
            summariser=summariser,
            on_event=self.events.append,
            now_ms=self.clock.now_ms,
            **{"window": 16_000, "policy": FOLDS, "summariser_tokens": 64_000, **more},
        )
        self.session = Session(self.store, KEY.session_id, self.settings)
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": "Port the parser."}]

    def until_compacted(self, times: int = 1) -> None:
        """Go on until so many more compactions are done."""
        wanted = len(self.told(Compacted)) + times
        while len(self.told(Compacted)) < wanted:
            self.step()

    def until_begun(self) -> None:
        """Go on until a summary is being written in the background."""
        while not self.session._background.is_busy:
            self.messages += step(len(self.messages))
            self.session.prepare(self.messages)

    def step(self) -> None:
        """One request more; what is written in the background is waited for."""
        self.messages += step(len(self.messages))
        self.session.prepare(self.messages)
        while self.session._background._running is not None:
            sleep(0.001)

    def told(self, kind: type[Any]) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """The compactions in the store, oldest first."""
        entries = [entry for _, entry in self.store.newest_first(KEY)][::-1]
        return [entry for entry in entries if isinstance(entry, Checkpoint)]


# How often it is asked.


@pytest.mark.slow
@each_failure
@pytest.mark.parametrize("background", [True, False])
def test_a_failing_summariser_is_asked_twice_and_then_left_alone(fails: Callable[[], str], background: bool) -> None:
    """B36: twice for the first compaction, in the background or not, and not at all for those that follow within the pause."""
    failing = Failing(fails)
    drive = Drive(failing, background=background)
    drive.until_compacted(5)

    assert failing.asked == 2
    assert [event.outcome for event in drive.told(Compacted)] == ["folded"] * 5
    assert len(drive.told(SummaryRejected)) == 1
    assert [(event.failures, event.seconds) for event in drive.told(SummariserPaused)] == [(1, FIRST_PAUSE_MS // 1_000)]


@pytest.mark.slow
def test_the_pause_grows_and_ends_with_a_good_summary() -> None:
    """B36: each failed compaction doubles it up to an hour, its beginning and end are told, and one success ends all of it."""
    failing = Failing(is_too_short)
    drive = Drive(failing)
    pauses = []
    for _ in range(9):
        drive.until_compacted()
        pauses.append(drive.told(SummariserPaused)[-1].seconds)
        drive.clock.now += pauses[-1] * 1_000
    failing.fails = None
    drive.until_compacted(2)

    assert pauses[:3] == [60, 120, 240]
    assert pauses[-2:] == [LONGEST_PAUSE_MS // 1_000] * 2
    assert failing.asked == 9 * 2 + 2
    assert [event.failures for event in drive.told(SummariserResumed)] == list(range(1, 10))
    assert drive.checkpoints[-1].failing is None


def test_a_provider_that_asks_to_wait_is_left_alone_for_that_long() -> None:
    """B36: a longer wait that a provider asks for is kept."""

    def busy(_: SummaryRequest) -> str:
        raise ModelBusy("m", "too many requests", wait_seconds=900)

    drive = Drive(busy)
    drive.until_compacted()

    assert drive.told(SummariserPaused)[0].seconds == 900


def test_another_process_keeps_the_pause() -> None:
    """B36, B14: the pause stands in the log, so that neither a restart nor a second process asks sooner."""
    failing = Failing(raises)
    drive = Drive(failing)
    drive.until_compacted()
    later = Drive(failing, store=drive.store)
    later.messages = drive.messages
    later.until_compacted()

    assert failing.asked == 2
    later.clock.now += FIRST_PAUSE_MS
    later.until_compacted()
    assert failing.asked == 4


def test_a_person_need_not_wait_for_the_pause_to_end() -> None:
    """B20, B36: a compaction that a person asks for asks the summariser; if it answers, the pause is over."""
    failing = Failing(raises)
    drive = Drive(failing)
    drive.until_compacted()
    failing.fails = None
    drive.step()
    drive.session.compact()

    assert failing.asked == 3
    assert drive.checkpoints[-1].failing is None


def test_a_failure_in_the_background_is_not_asked_about_again() -> None:
    """B5, B36: a summary that was written ahead and rejected is remembered until its compaction, whatever is pinned meanwhile."""
    failing = Failing(is_too_short)
    drive = Drive(failing, background=True)
    while not failing.asked:
        drive.step()
    drive.session.pin("0.0")
    failing.fails = None
    drive.until_compacted()

    assert failing.asked == 2
    assert drive.told(Compacted)[0].faults == ("too-short", "too-short")
    assert not drive.told(Compacted)[0].ahead


def test_a_slow_summary_in_the_background_is_waited_for() -> None:
    """B18, B36: a request that cannot go out without it waits as long as it would for a summary of its own, and pays for none."""
    gate, asked = Gate(), list[int]()

    def slow(_: SummaryRequest) -> str:
        asked.append(1)
        gate.wait(30)
        return GOOD

    drive = Drive(slow, background=True, patience_seconds=0.01)
    drive.until_begun()
    drive.messages += [message for number in range(8) for message in step(1_000 + number)]
    asyncio.run(_released(gate, drive))

    assert len(asked) == 1
    assert drive.told(Compacted)[0].ahead


async def _released(gate: Gate, drive: Drive) -> None:
    async def release() -> None:
        await asyncio.sleep(0.1)
        gate.set()

    await asyncio.gather(asyncio.to_thread(drive.session.prepare, drive.messages), release())


# What is told of it.


def test_its_own_error_reaches_event_log_checkpoint_and_compaction(caplog: pytest.LogCaptureFixture) -> None:
    """B36, B22: what the summariser raised is told everywhere, and its key nowhere."""
    drive = Drive(Failing(raises))
    with caplog.at_level(logging.WARNING):
        drive.until_compacted()
    words = "summariser: raised RuntimeError: 503 overloaded, key ***"
    (rejected,) = drive.told(SummaryRejected)
    verdict = drive.checkpoints[0].verdict

    assert rejected == SummaryRejected("s", ("failed", "failed"), words)
    assert drive.told(Compacted)[0].error == words
    assert verdict is not None
    assert verdict.error == words
    assert all(words in record.getMessage() for record in caplog.records)
    assert "sk-abcdef" not in caplog.text


# What it writes.


@pytest.mark.slow
@pytest.mark.parametrize("written", ["\ud800 ", "\0", "x" * 10_000_000, "\ud83d" * 5_000_000])
@pytest.mark.parametrize("policy", sorted(set(PRESETS) - {"turn-window"}))
def test_no_text_breaks_a_session(written: str, policy: str) -> None:
    """B36, B8: half surrogate pairs, NUL bytes and ten million characters end in a request that fits, and the session goes on."""
    drive = Drive(lambda _: f"{GOOD}{written}", policy=FOLDS if policy == "infold" else policy)
    began = monotonic()
    for _ in range(60):
        drive.step()
    texts = [checkpoint.text for checkpoint in drive.checkpoints]

    assert texts
    assert all(text.encode() and "\0" not in text and len(text) < 60_000 for text in texts)
    assert monotonic() - began < 30


def test_pieces_are_cleaned_too() -> None:
    """S3.10, B36: what is told while a summary is written can be shown and sent."""
    drive = Drive(lambda _: iter([GOOD[:20], "\ud800\0", GOOD[20:]]))
    drive.until_compacted()

    assert all(event.text.encode() and "\0" not in event.text for event in drive.told(SummaryProgressed))


# A summariser that calls its own session.


@pytest.mark.parametrize("background", [True, False])
def test_a_summariser_that_calls_its_own_session_fails_at_once(background: bool) -> None:
    """B36: it gets an error that says so and not a wait for the lock it is under; the request goes out, folded by code."""
    caught: list[Exception] = []

    def calling(_: SummaryRequest) -> str:
        for call in (lambda: drive.session.title("x"), drive.session.preview, lambda: drive.session.prepare([])):
            try:
                call()
            except SessionReentered as error:
                caught.append(error)
        drive.session.title("y")
        return GOOD

    drive = Drive(calling, background=background, summary_seconds=30)
    began = monotonic()
    drive.until_compacted()

    assert monotonic() - began < 20
    assert len(caught) == 3
    assert drive.told(Compacted)[0].faults == ("failed",)
    assert "called its own session" in drive.told(SummaryRejected)[0].error


def test_an_awaited_summariser_that_calls_its_own_session_fails_at_once() -> None:
    """B36: the same where it is awaited, in its own task, in another, and in a thread."""
    session: AsyncSession = None  # type: ignore[assignment] # opened in the loop
    events: list[Event] = []
    caught: list[Exception] = []

    async def calling(_: SummaryRequest) -> str:
        def in_thread() -> None:
            asyncio.run(session.title("z"))

        for call in (lambda: session.title("x"), lambda: asyncio.gather(session.title("y"))):
            try:
                await call()
            except SessionReentered as error:
                caught.append(error)
        try:
            await asyncio.to_thread(in_thread)
        except SessionReentered as error:
            caught.append(error)
        return GOOD

    async def run() -> None:
        settings = SessionSettings(
            window=16_000,
            policy=FOLDS,
            format="openai-chat",
            summariser=calling,
            summariser_tokens=64_000,
            on_event=events.append,
        )
        nonlocal session
        session = await AsyncSession.open(MemoryStore(), "s", settings)
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Port the parser."}]
        while not any(isinstance(event, Compacted) for event in events):
            messages += step(len(messages))
            await session.prepare(messages)

    asyncio.run(run())

    assert len(caught) == 3
    assert [event.outcome for event in events if isinstance(event, Compacted)] == ["summarised"]


def test_recall_and_other_sessions_may_be_used() -> None:
    """B36: what does not wait for the summary is allowed: reading back, the log, and another session."""
    other = Drive(Failing(raises))

    def reading(_: SummaryRequest) -> str:
        other.session.title("another's")
        drive.session.recall("parser")
        return f"{GOOD} {len(drive.session.log.live)}"

    drive = Drive(reading)
    drive.until_compacted()

    assert drive.told(Compacted)[0].outcome == "summarised"


# Document presets.


class Writing:
    """A summariser that keeps what it is asked, and writes always the same."""

    def __init__(self, written: Any = GOOD) -> None:
        self.written = written
        self.asked: list[SummaryRequest] = []

    def __call__(self, request: SummaryRequest) -> Any:
        """Write."""
        self.asked.append(request)
        return self.written


def document(policy: str, summariser: Callable[[SummaryRequest], Any], **more: Any) -> Drive:
    """A session under a document's preset, in a window that it wants."""
    window = Window(64_000, output_tokens=8_000)
    return Drive(summariser, **{"policy": policy, "window": window, "summariser_tokens": 0, **more})


def talk(drive: Drive, *, output: str = "", words: int = 80) -> None:
    """Eight turns of a person; the last reply reports more than fits, and the next request compacts.

    Under `turn-window`, which believes no report, the turns are as long as its own estimate wants.
    """
    filler = "fine " * (7_000 if drive.settings.policy == "turn-window" else words)
    for turn in range(8):
        drive.session.prepare_new([{"role": "user", "content": f"Begin turn {turn}."}])
        asks, answers = step(turn)
        drive.session.record({"choices": [{"message": asks, "finish_reason": "tool_calls"}]})
        drive.session.prepare_new([{**answers, "content": output if output and turn == 2 else filler}])
        usage = {"prompt_tokens": 60_000 if turn == 7 else 100, "completion_tokens": 10}
        said = {"role": "assistant", "content": f"Turn {turn} is over."}
        drive.session.record({"choices": [{"message": said, "finish_reason": "stop"}], "usage": usage})
    drive.session.prepare_new([{"role": "user", "content": "Go on."}])


DOCUMENTS = sorted(set(PRESETS) - {"infold"})


@pytest.mark.parametrize("policy", DOCUMENTS)
@pytest.mark.parametrize("written", ["summary", "Wrote tests/test_feed_io.py. Next: run them."])
def test_a_document_has_no_judge(policy: str, written: str) -> None:
    """S1.0: whatever was written to its end stands as written, one word or a path that the history lacks; asked once."""
    writing = Writing(written)
    drive = document(policy, writing)
    talk(drive)

    assert len(writing.asked) == 1
    assert drive.checkpoints[0].narrative == written
    assert drive.told(Compacted)[0].faults == ()


@pytest.mark.parametrize("policy", DOCUMENTS)
@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Answer(" \n"), "empty"),
        (Answer(GOOD, "length"), "cut-off"),
        (Answer(GOOD, "content-filter"), "refused"),
        (Answer(GOOD, calls_tools=True), "tool-calls"),
        (Answer("word " * 150_000), "too-large"),
    ],
)
def test_an_answer_that_is_no_summary_is_folded_by_code(policy: str, answer: Answer, fault: str) -> None:
    """S1.0, S3.9, B8: outside an agent's loop the request fits all the same, and the compaction says that infold did that."""
    drive = document(policy, Writing(answer))
    talk(drive)
    (event,) = drive.told(Compacted)

    assert (event.outcome, event.faults) == ("folded", (fault, fault))
    assert event.safety == (("code-fold",) if policy.startswith("opencode") else ())
    assert drive.checkpoints[0].safety == event.safety
    assert drive.checkpoints[0].cleaned == (policy == "turn-window")


@pytest.mark.parametrize("policy", DOCUMENTS)
def test_an_agents_loop_is_stopped_only_where_the_document_says_so(policy: str) -> None:
    """S3.9, S4.5: under the OpenCode presets a failed summary is raised for the loop, and nothing is folded or told as done."""
    drive = document(policy, Failing(raises), stops=True)
    if not policy.startswith("opencode"):
        talk(drive)
        assert drive.told(Compacted)
        return
    with pytest.raises(SummaryFailed, match="503 overloaded"):
        talk(drive)

    assert (drive.told(Compacted), drive.checkpoints) == ([], [])
    assert len(drive.told(SummaryRejected)) == 1


@pytest.mark.parametrize("policy", ["opencode-1.1.23", "opencode-1.1.57", "proactive"])
def test_the_history_is_sent_as_messages(policy: str) -> None:
    """S3.4: a fact in the middle of a long result reaches the summariser; each call is followed by its result."""
    writing = Writing()
    drive = document(policy, writing)
    talk(drive, output=f"{'x' * 6_000} NEEDLE {'y' * 6_000}")
    messages = writing.asked[0].messages
    answered = [result.call_id for message in messages for result in results_of(message)]

    assert any("NEEDLE" in result.output for message in messages for result in results_of(message))
    assert [call.call_id for message in messages for call in calls_of(message)] == answered
    assert text_of(messages[0]) == "Begin turn 0."
    assert "Turn 7 is over." in map(text_of, messages)
    assert "NEEDLE" not in text_of(messages[-1])
    assert drive.told(Compacted)[0].safety == ()


@pytest.mark.parametrize("policy", ["opencode-1.18", "turn-window"])
def test_a_flattened_record_is_without_the_tail(policy: str) -> None:
    """S3.4, S4.5: these two show what is folded as one text, and nothing of what stays."""
    writing = Writing()
    drive = document(policy, writing)
    talk(drive, words=2_500)
    (message,) = writing.asked[0].messages

    assert "Begin turn 0." in text_of(message)
    assert "Turn 7 is over." not in text_of(message)
    assert "<later>" not in text_of(message)


def test_a_history_too_large_for_the_summariser_is_flattened_and_told() -> None:
    """S3.4, B8: it is read in pieces that fit its window, and the compaction says so."""
    writing = Writing()
    drive = document("opencode-1.1.57", writing, summariser_tokens=6_000)
    talk(drive, words=2_500)

    assert len(writing.asked) > 1
    assert all(len(request.messages) == 1 for request in writing.asked)
    assert drive.told(Compacted)[0].safety == ("flattened",)


def test_a_good_summary_is_still_prepared_ahead() -> None:
    """B18: nothing of this changes what a summariser that works does."""
    working = Failing(raises)
    working.fails = None
    drive = Drive(working, background=True)
    drive.until_compacted(3)

    assert [event.ahead for event in drive.told(Compacted)] == [True] * 3
    assert len(drive.told(PreparedAhead)) == working.asked


# A head that is gone.


def test_a_summary_of_what_the_caller_took_back_is_cancelled() -> None:
    """B18: where a caller compacts its own list, the summary that is being written of it is asked for no further and not used."""
    gate, asked = Gate(), list[int]()

    def slow(_: SummaryRequest) -> str:
        asked.append(1)
        gate.wait(30)
        return "A title"  # which would be asked for once more

    drive = Drive(slow, background=True)
    drive.until_begun()
    background = drive.session._background
    running = background._running
    while not asked:
        sleep(0.001)
    drive.session.prepare([drive.messages[0], {"role": "assistant", "content": "All of it in short."}, *step(999)])
    assert not background.is_busy
    gate.set()
    assert running is not None
    running.ended.result(30)

    assert len(asked) == 1
    assert not background.is_busy
    assert (drive.told(SummaryRejected), drive.told(PreparedAhead)) == ([], [])


def test_a_changed_end_cancels_nothing() -> None:
    """B18: a reply that is written anew leaves the summary of what came before it alone."""
    gate, asked = Gate(), list[int]()

    def slow(_: SummaryRequest) -> str:
        asked.append(1)
        gate.wait(30)
        return GOOD

    drive = Drive(slow, background=True)
    drive.until_begun()
    drive.messages[-2:] = step(5_000)
    drive.session.prepare(drive.messages)
    gate.set()
    drive.until_compacted()

    assert len(asked) == 1
    assert drive.told(Compacted)[0].ahead
