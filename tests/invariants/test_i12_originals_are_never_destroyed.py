"""I12: the log keeps everything as it came, a view follows from it alone, and a compaction begins where the last one ended."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infold.core.entries import MessageEntry, encode_entry, handle_of
from infold.core.events import Event
from infold.core.load import load
from infold.core.messages import Message, SessionId, ToolResultPart
from infold.core.policy import INFOLD, PRESETS, preset
from infold.core.view import view
from infold.formats.registry import OPENAI_CHAT
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore

from .scenes import (
    EXAMPLES,
    GOOD_NOTES,
    Notetaker,
    compactions,
    conversation,
    each_preset,
    opened,
    played,
    story,
    told_of,
    written,
)

KEY = SessionKey("", SessionId("s"))


@pytest.mark.slow
def test_i12_every_part_can_be_read_back_as_it_was(tmp_path: Path) -> None:
    """B1, B6: five compactions later each result is in the store under its handle, to the letter."""
    store, events, told = SqliteStore(tmp_path / "log.sqlite3"), list[Event](), story(40)
    for ready in played(opened("infold", OPENAI_CHAT, window=4_096, store=store), OPENAI_CHAT, told):
        events += ready.events
    entries = [(number, entry) for number, entry in store.newest_first(KEY) if isinstance(entry, MessageEntry)]

    assert len(compactions(events)) >= 5
    assert [str(entry.message.parts) for _, entry in entries[::-1]] == [
        str(message.parts) for message in OPENAI_CHAT.decode(written(OPENAI_CHAT, told)).messages
    ]
    for number, entry in entries:
        for position, part in enumerate(entry.message.parts):
            if isinstance(part, ToolResultPart):
                assert store.read(KEY, handle_of(number, position)).text == part.output
    store.close()


@pytest.mark.slow
@each_preset
def test_i12_resuming_and_forking_give_the_same_view(name: str, tmp_path: Path) -> None:
    """B1, B13: at each step a session read back, and a copy of it under another id, show what the session shows."""
    store = SqliteStore(tmp_path / "log.sqlite3")
    session = opened(name, OPENAI_CHAT, store=store, notes=Notetaker())
    for _ in played(session, OPENAI_CHAT, conversation(30)):
        rendering, summary = session.log.rendering, preset(name).summary
        entries = list(store.newest_first(KEY))
        again = load(SessionId("s"), iter(entries), rendering)
        forked = load(SessionId("other"), iter(entries), rendering)
        assert view(again, summary) == view(forked, summary) == view(session.log, summary)
    store.close()

    kinds = {type(entry).__name__ for _, entry in entries}
    assert "Checkpoint" in kinds
    assert name == "turn-window" or "Pruning" in kinds or not preset(name).prune.genuine_turns


@pytest.mark.slow
@settings(parent=EXAMPLES, max_examples=50)
@given(st.sampled_from(sorted(PRESETS)), st.lists(st.integers(3, 9), min_size=2, max_size=4), st.booleans())
def test_i12_undoing_everything_gives_everything_back(name: str, rounds: list[int], has_model: bool) -> None:
    """B1, B20: compactions made one upon the other and undone in turn leave the view that there would be without them."""
    store = MemoryStore()
    session = opened(name, OPENAI_CHAT, window=1_000_000, store=store, notes=Notetaker() if has_model else None)
    said: list[Message] = []
    for number, turns in enumerate(rounds):
        new = conversation(turns, prefix=f"r{number}-")
        session.prepare_new(written(OPENAI_CHAT, new))
        said += new
        session.compact()
    while session.log.checkpoint is not None:
        session.undo()
    ready = session.prepare_new([])

    assert ready.messages == written(OPENAI_CHAT, said)


def test_i12_a_compaction_never_rewrites_what_is_stored() -> None:
    """B1: what a store held before a compaction, a pruning or an undo it holds after it, byte for byte, with more behind."""
    store = MemoryStore()
    session, before = opened("infold", OPENAI_CHAT, window=4_096, store=store), list[bytes]()
    for _ in played(session, OPENAI_CHAT, story(30)):
        now = [encode_entry(entry) for _, entry in store.newest_first(KEY)][::-1]
        assert now[: len(before)] == before
        before = now
    session.undo()

    assert [encode_entry(entry) for _, entry in store.newest_first(KEY)][::-1][: len(before)] == before


@each_preset
def test_i12_the_next_compaction_begins_at_the_last(name: str) -> None:
    """B3: a summariser is shown what came since the last checkpoint and the notes on what was before, never that again."""
    notes = Notetaker()
    session = opened(name, OPENAI_CHAT, window=1_000_000, notes=notes)
    session.prepare_new(written(OPENAI_CHAT, conversation(60)))
    session.compact()
    first = notes.shown
    notes.asked.clear()
    session.prepare_new(written(OPENAI_CHAT, conversation(60, prefix="n")))
    told = told_of(session.compact())

    assert "Now part 0." in first
    assert GOOD_NOTES in notes.shown
    assert notes.shown.partition("</record>")[0].count("Now part 0.") == 1
    assert told.count(GOOD_NOTES) == 1


def test_i12_a_view_is_a_function_of_the_log() -> None:
    """B29: asked twice, and asked of the same entries put together anew, a log gives the same messages."""
    store = MemoryStore()
    session = opened("infold", OPENAI_CHAT, window=4_096, store=store, notes=Notetaker())
    list(played(session, OPENAI_CHAT, story(30)))
    shown = view(session.log, INFOLD.summary)

    assert view(session.log, INFOLD.summary) == shown
    assert view(load(SessionId("s"), store.newest_first(KEY), session.log.rendering), INFOLD.summary) == shown
