"""infold's own log: what is written is read back the same."""

import json
import os
from pathlib import Path

import pytest

from infold.core.entries import Checkpoint, MessageEntry, Pruning, decode_entry, encode_entry, handle_of
from infold.core.messages import Message
from infold.formats.transcripts.infold_log import to_log
from infold.formats.transcripts.registry import read_bytes, read_transcript
from infold.testing.builders import calls, result, user

DATA = Path(__file__).parents[3] / "data" / "transcripts"
CORPUS = Path(os.environ.get("INFOLD_CORPUS") or Path(__file__).parents[5] / "shared" / "corpus")
RECORDED = sorted(DATA.iterdir()) + sorted(CORPUS.glob("*/*.gz"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: str(path.name))
def test_nothing_is_lost(path: Path) -> None:
    """Every session of every transcript, written as our log and read again, is the same session."""
    sessions = read_transcript(path).sessions
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
