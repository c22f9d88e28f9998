"""I10: a compaction that fails or is cancelled leaves the session as it was, to be gone on with."""

from asyncio import CancelledError, Event, create_task, run
from collections.abc import Sequence

import pytest
from tests.support.provider_rules import problems

from infold import AsyncSession, Ready, SessionSettings
from infold.core.entries import (
    Checkpoint,
    Clipping,
    Entry,
    Handle,
    MessageEntry,
    Pin,
    Pruning,
    Restoration,
    encode_entry,
)
from infold.core.events import Compacted
from infold.core.events import Event as Told
from infold.core.messages import MessageId, SessionId, TextPart, UserMessage
from infold.core.policy import INFOLD, preset
from infold.core.summary_request import SummaryRequest
from infold.core.view import REQUEST_TEXT, view
from infold.errors import InfoldError, StoreBroken
from infold.formats.registry import OPENAI_CHAT
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, numbered, replies, result, session, user

from .scenes import GOOD_NOTES, Notetaker, compactions, conversation, each_preset, opened, told_of, written

KEY = SessionKey("", SessionId("s"))
LONG = conversation(40, tokens=12, reply_tokens=900)
ENDS = (KeyboardInterrupt(), SystemExit(1), CancelledError())
each_end = pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)


def stored(store: MemoryStore) -> list[bytes]:
    """Everything a store holds, oldest first."""
    return [encode_entry(entry) for _, entry in store.newest_first(KEY)][::-1]


@each_preset
@each_end
def test_i10_a_cancelled_compaction_changes_no_view(name: str, end: BaseException) -> None:
    """B13, S3.1: whoever is cancelled while the summary is written, the entries stand and the view is what it was."""
    store = MemoryStore()
    session_ = opened(name, OPENAI_CHAT, window=64_000, store=store, notes=Notetaker(end))
    session_.prepare_new(written(OPENAI_CHAT, LONG))
    before, entries = view(session_.log, preset(name).summary), stored(store)
    with pytest.raises(type(end)):
        session_.compact()
    again = opened(name, OPENAI_CHAT, window=64_000, store=store, notes=Notetaker())

    assert stored(store)[: len(entries)] == entries
    assert not any(isinstance(entry, Checkpoint) for _, entry in store.newest_first(KEY))
    assert view(again.log, preset(name).summary) == before


@each_preset
@each_end
def test_i10_the_next_prompt_is_answered(name: str, end: BaseException) -> None:
    """B13: after the cancellation the next request is whole, shows no trace of it, and ends with what was said last."""
    store, events = MemoryStore(), list[Told]()
    session_ = opened(name, OPENAI_CHAT, window=64_000, store=store, notes=Notetaker(end), events=events)
    session_.prepare_new(written(OPENAI_CHAT, LONG))
    with pytest.raises(type(end)):
        session_.compact()
    told_before = list(events)
    again = opened(name, OPENAI_CHAT, window=64_000, store=store, notes=Notetaker())
    ready = again.prepare_new(written(OPENAI_CHAT, numbered([user("Are you there?")], prefix="n")))

    assert compactions(told_before) == []
    assert problems(OPENAI_CHAT, ready.messages) == ()
    assert "Are you there?" in told_of(ready)
    assert told_of(ready).count(REQUEST_TEXT) == len(compactions(ready.events)) * (name in PAIRS)


PAIRS = ("opencode-1.1.23", "opencode-1.1.57", "opencode-1.18", "proactive")
"""Presets that show the request beside the summary, once the compaction has been carried out."""


async def cancelled_in_its_midst(store: MemoryStore) -> Ready:
    """The next request after a task was cancelled while it awaited a summary."""
    asked, asks = Event(), Notetaker()

    async def slow(request: SummaryRequest) -> str:
        asks(request)
        if len(asks.asked) == 1:
            asked.set()
            await Event().wait()
        return GOOD_NOTES

    told = SessionSettings(window=64_000, summariser=slow, format="openai-chat")
    session_ = await AsyncSession.open(store, "s", told)
    await session_.prepare_new(written(OPENAI_CHAT, LONG))
    compacting = create_task(session_.compact())
    await asked.wait()
    compacting.cancel()
    with pytest.raises(CancelledError):
        await compacting
    ready = await session_.prepare_new(written(OPENAI_CHAT, numbered([user("Are you there?")], prefix="n")))
    await session_.close()
    return ready


def test_i10_a_cancelled_task_leaves_the_session_usable() -> None:
    """B13: cancelled while the summary was awaited, an async session answers the next prompt, and holds no lock."""
    store = MemoryStore()
    ready = run(cancelled_in_its_midst(store))

    assert ready.messages[-1] == {"role": "user", "content": "Are you there?"}
    assert GOOD_NOTES in told_of(ready)
    with store.hold(KEY) as is_free:
        assert is_free


class BrittleStore(MemoryStore):
    """A store that has no room left for a checkpoint, until somebody makes some."""

    is_full = True

    def append(self, key: SessionKey, entries: Sequence[Entry], *, expected: int) -> int:
        """Append, or refuse what holds a checkpoint."""
        if self.is_full and any(isinstance(entry, Checkpoint) for entry in entries):
            raise StoreBroken("memory", "no room is left", remedy="make some")
        return super().append(key, entries, expected=expected)


@each_preset
def test_i10_a_store_that_refuses_leaves_the_session_as_it_was(name: str) -> None:
    """B13, B25: a checkpoint that cannot be stored is no checkpoint: nobody is told of one, and the view is as before."""
    store, events = BrittleStore(), list[Told]()
    session_ = opened(name, OPENAI_CHAT, window=64_000, store=store, notes=Notetaker(), events=events)
    before = session_.prepare_new(written(OPENAI_CHAT, LONG)).messages
    with pytest.raises(StoreBroken):
        session_.compact()
    told_before = list(events)
    again = opened(name, OPENAI_CHAT, window=64_000, store=store)

    assert not any(isinstance(event, Compacted) for event in told_before)
    assert [dict(item) for item in written(OPENAI_CHAT, view(again.log, preset(name).summary))] == before
    store.is_full = False
    mended = opened(name, OPENAI_CHAT, window=64_000, store=store, notes=Notetaker())
    assert GOOD_NOTES in told_of(mended.prepare_new([])) + told_of(mended.compact())


@pytest.mark.parametrize(
    "entry",
    [
        MessageEntry(UserMessage(MessageId("m0"), (TextPart("again"),))),
        MessageEntry(numbered([calls("bash"), result()], prefix="z")[1]),
        Checkpoint("so far", first_kept=2),
        Checkpoint("so far", first_kept=99),
        Pruning((Handle("99.0"),), 10),
        Clipping(()),
        Restoration(0),
        Pin(Handle("9.9")),
    ],
    ids=lambda entry: type(entry).__name__,
)
def test_i10_an_entry_that_cannot_follow_changes_nothing(entry: Entry) -> None:
    """B1: a log that refuses an entry is the log it was, to the last count, and takes the next one."""
    log = session(user(), calls("bash"), result(), replies())
    before = view(log, INFOLD.summary), log.size, log.next_sequence
    try:
        log.append(entry)
    except InfoldError:
        assert (view(log, INFOLD.summary), log.size, log.next_sequence) == before
    else:
        assert isinstance(entry, Clipping)
    grown = log.append(MessageEntry(UserMessage(MessageId("next"), (TextPart("and now?"),))))
    assert grown.next_sequence == 5
