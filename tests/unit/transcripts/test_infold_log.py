"""infold's own log: what is written is read back the same."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from tests.support.corpus import each_transcript

from infold.core.entries import (
    Amendment,
    Checkpoint,
    Entry,
    MessageEntry,
    Pin,
    Pruning,
    Rejection,
    Restoration,
    Title,
    decode_entry,
    encode_entry,
    handle_of,
)
from infold.core.messages import Message, MessageId, ModelRef, TextPart, UserMessage, text_of
from infold.testing.builders import calls, numbered, replies, requests_compaction, result, user
from infold.transcripts.infold_log import entries_to_log, session_from_entries, to_log
from infold.transcripts.registry import read_bytes, read_transcript

DATA = Path(__file__).parents[2] / "data" / "transcripts"


@each_transcript()
def test_nothing_is_lost(entry: dict[str, Any]) -> None:
    """Every session of every transcript, written as our log and read again, is the same session."""
    sessions = read_transcript(entry["path"]).sessions
    again = read_bytes(to_log(sessions), name="again")

    assert again.format == "infold"
    assert again.sessions == sessions
    assert again.skipped == ()


def test_each_line_is_an_entry() -> None:
    """Whoever reads plain entries can read every line, the first of a session included."""
    sessions = read_transcript(DATA / "claude-code.jsonl").sessions
    entries = [decode_entry(line) for line in to_log(sessions).splitlines()]

    assert entries == [MessageEntry(message) for session in sessions for message in session.messages]


def test_a_bare_log_is_one_session() -> None:
    """Message entries without anything about the session are a session named after the file."""
    transcript = read_bytes(log(user("Ring the bell")), name="bell.jsonl")

    assert [session.id for session in transcript.sessions] == ["bell.jsonl"]


def test_a_checkpoint_is_a_recorded_compaction() -> None:
    """A fold in the log tells where it was, its text and the first message it kept; a pruning is bookkeeping."""
    first, second, third = user("one"), user("two"), user("three")
    pruning = encode_entry(Pruning((handle_of(0, 0),), 10))
    fold = encode_entry(Checkpoint("what was", first_kept=2, tokens_before=900))
    transcript = read_bytes(log(first) + pruning + b"\n" + log(second) + fold + b"\n" + log(third), name="bell")
    compaction = transcript.sessions[0].compactions[0]

    assert (compaction.position, compaction.summary, compaction.first_kept) == (2, "what was", 1)
    assert compaction.tokens_before == 900
    assert [skipped.reason for skipped in transcript.skipped] == ["bookkeeping: pruning entry"]


def test_every_entry_is_written_and_known_again() -> None:
    """A session's own entries are its lines; read back they tell the same record, and nothing in them is foreign."""
    entries = lived()
    written = entries_to_log("kites", entries)
    transcript = read_bytes(written, name="again")
    (session,) = transcript.sessions

    assert [decode_entry(line) for line in written.splitlines()] == entries
    assert session == session_from_entries("kites", entries)
    assert session.model == ModelRef("", "gpt-5")
    assert all(skipped.reason.startswith("bookkeeping:") for skipped in transcript.skipped)


def test_a_log_tells_what_holds() -> None:
    """S6.2, B20: messages taken back and compactions undone are not in the record; the last title and the model are."""
    session = session_from_entries("kites", lived())

    assert [message.id for message in session.messages] == ["m0", "m1", "m2", "n0"]
    assert [(one.position, one.first_kept, one.summary) for one in session.compactions] == [(3, 2, "second")]
    assert (session.id, session.title, session.model) == ("kites", "Strings", ModelRef("", "gpt-5"))


def test_a_fold_whose_kept_messages_were_taken_back_still_counts() -> None:
    """What a compaction folded stays folded when all that it kept was taken back."""
    entries = [*messages(user("a"), replies("b"), user("c")), Checkpoint("what was", first_kept=2), Amendment(2)]
    (fold,) = session_from_entries("kites", entries).compactions

    assert (fold.position, fold.first_kept) == (2, 2)


def test_titles_of_messages_are_kept() -> None:
    """S6.2: the last title of each message is in the record, and in the log that is written of it."""
    said = messages(user("a"), replies("b"))
    entries = [said[0], Title("First", MessageId("m0")), Title("Kites", MessageId("m0")), said[1]]
    session = session_from_entries("kites", entries)

    assert (session.title, session.titles) == ("", {"m0": "Kites"})
    assert read_bytes(to_log((session,)), name="x").sessions == (session,)
    assert read_bytes(entries_to_log("kites", entries), name="x").sessions == (session,)


def test_an_undone_compaction_leaves_nothing_behind() -> None:
    """B20, S3.1: with a compaction that was undone go the request for it and the message that asked to go on."""
    said = numbered((user("a"), replies("b"), requests_compaction(), replies("c")))
    request = said[2]
    assert isinstance(request, UserMessage)
    entries: list[Entry] = [
        *map(MessageEntry, said),
        Checkpoint("older", first_kept=3, request=None),
        Checkpoint("newer", first_kept=3, request=request),
        MessageEntry(UserMessage(MessageId("continue-5"), (TextPart("Go on.", synthetic=True),))),
        Restoration(5),
        MessageEntry(UserMessage(MessageId("later"), (TextPart("d"),))),
    ]
    session = session_from_entries("kites", entries)

    assert [text_of(message) for message in session.messages] == ["a", "b", "c", "d"]
    assert [(one.position, one.first_kept) for one in session.compactions] == [(3, 2)]


def test_what_stands_before_the_first_message_counts() -> None:
    """Numbers in checkpoints hold where a title stands before the first message."""
    entries = [Title("Kites"), *messages(user("a"), replies("b"), user("c")), Checkpoint("what was", first_kept=3)]
    (session,) = read_bytes(entries_to_log("kites", entries), name="x").sessions

    assert (session.title, session.compactions[0].first_kept) == ("Kites", 2)
    assert session == session_from_entries("kites", entries)


def test_damage_is_told() -> None:
    """A line cut off, an entry of the wrong shape and a line of something else are skipped and told."""
    broken = b'{"entry":"message","message":{"role":"user"}}\n{"colour":"blue"}\n' + log(user("two"))[:-9]
    transcript = read_bytes(log(user("one")) + broken, name="bell")

    assert len(transcript.sessions[0].messages) == 1
    assert len(transcript.skipped) == 3
    assert all(not skipped.repaired for skipped in transcript.skipped)


def test_an_unlawful_log_is_repaired() -> None:
    """A result without its call gets one, and an id used twice is told apart."""
    asked, answered = calls("bash"), result(10)
    transcript = read_bytes(log(user("go"), answered) + log(asked), name="bell")
    doubled = read_bytes(log(user("go")) * 2, name="bell")

    assert len({message.id for message in transcript.sessions[0].messages}) == len(transcript.sessions[0].messages)
    assert len({message.id for message in doubled.sessions[0].messages}) == 2


def test_lines_are_json() -> None:
    """Any tool that reads JSON lines reads the log."""
    lines = (DATA / "infold.jsonl").read_text("utf-8").splitlines()

    assert all(json.loads(line)["entry"] == "message" for line in lines)


def log(*messages: Message) -> bytes:
    """These messages as lines of a bare log."""
    return b"".join(encode_entry(MessageEntry(message)) + b"\n" for message in messages)


def messages(*drafts: Message, prefix: str = "m") -> list[Entry]:
    """These messages as entries."""
    return [MessageEntry(message) for message in numbered(drafts, prefix=prefix)]


def lived() -> Sequence[Entry]:
    """A session with an entry of every kind: an undone fold, one that holds, and a message said again in other words."""
    reply = replace(replies("b"), model=ModelRef("", "gpt-5"))
    return [
        *messages(user("a"), reply, user("c"), user("wrong")),
        *(Title("Kites"), Title("Strings"), Title("a message's", numbered([user()])[0].id)),
        *(Amendment(3), Pin(handle_of(0, 0)), Rejection(900), Pruning((handle_of(1, 0),), 9)),
        *(Checkpoint("first", first_kept=1), Restoration(11), Restoration(10), Checkpoint("second", first_kept=2)),
        *messages(user("right"), prefix="n"),
    ]
