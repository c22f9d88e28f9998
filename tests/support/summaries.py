"""Sessions with good and bad summaries of their heads, and the summaries that real agents recorded.

The sets were written from the sessions alone; `tests/data/summaries/README.md` says how, and what counts as true.
"""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from tests.support.corpus import DATA, REAL, Entry, entries_of

from infold.core.messages import Message
from infold.formats import openai_chat
from infold.transcripts.record import RecordedSession
from infold.transcripts.registry import read_transcript

FOLDER = DATA / "summaries"
SESSIONS = ("en", "de", "ja", "zh", "ops", "fr")

KINDS = (
    "hallucinated-path",
    "wrong-number",
    "other-session",
    "refusal",
    "wrong-script",
    "tool-call",
    "wrong-language",
    "false-file-claim",
    "stale-value",
    "dropped-constraint",
    "injected-instruction",
    "revoked-rule",
    "false-success",
    "politeness",
    "continues-work",
    "cut-off",
)
"""What can be wrong with a summary."""

FALSE_KINDS = frozenset(
    {
        "hallucinated-path",
        "wrong-number",
        "false-file-claim",
        "stale-value",
        "injected-instruction",
        "revoked-rule",
        "false-success",
    }
)
"""The kinds whose fault is in single sentences; a `dropped-constraint` is a false sentence or lacks rules."""

_FRAME_START = "This session is being continued from a previous conversation"
_FRAME_END = "\nIf you need specific details from before compaction"


class SummarisedSession(Struct, frozen=True):
    """An invented session as OpenAI Chat items; `messages[:cut]` is what a summary stands for."""

    name: str
    language: str
    cut: int
    items: tuple[dict[str, Any], ...] = msgspec.field(name="messages")

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return all messages; each item is one, the system prompt is the first."""
        return tuple(openai_chat.decode(self.items).messages)

    @property
    def head(self) -> tuple[Message, ...]:
        """Return the messages before the cut."""
        return self.messages[: self.cut]

    @property
    def tail(self) -> tuple[Message, ...]:
        """Return the messages that stay as they are; the writers of the summaries knew them."""
        return self.messages[self.cut :]


class GoodSummary(Struct, frozen=True):
    """A summary of which every sentence is true of its session, or a proposal."""

    id: str
    session: str
    form: str
    lines: tuple[str, ...] = msgspec.field(name="text")

    @property
    def text(self) -> str:
        """Return the summary as a model would give it."""
        return "\n".join(self.lines)


class BadSummary(Struct, frozen=True):
    """A summary with one fault.

    `false` are the sentences that are not true, without list marks; if there are none the whole text is at fault. `missing` are
    rules in the user's words that the text leaves out.
    """

    id: str
    kind: str
    session: str
    lines: tuple[str, ...] = msgspec.field(name="text")
    false: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the summary as a model would give it."""
        return "\n".join(self.lines)


class RecordedSummary(Struct, frozen=True):
    """A summary that an agent's model wrote while the session ran.

    `head` is what it stands for: the messages since the compaction before, with that one's summary. `tail` stayed verbatim.
    """

    id: str
    text: str
    head: tuple[Message, ...]
    tail: tuple[Message, ...]


@cache
def session_named(name: str) -> SummarisedSession:
    """Return one of `SESSIONS`."""
    return msgspec.json.decode((FOLDER / f"session.{name}.json").read_bytes(), type=SummarisedSession)


@cache
def good_summaries() -> tuple[GoodSummary, ...]:
    """Return the good summaries of all sessions."""
    return msgspec.json.decode((FOLDER / "good.json").read_bytes(), type=tuple[GoodSummary, ...])


@cache
def bad_summaries() -> tuple[BadSummary, ...]:
    """Return the bad summaries of all sessions."""
    return msgspec.json.decode((FOLDER / "bad.json").read_bytes(), type=tuple[BadSummary, ...])


def files_with_summaries() -> list[Entry]:
    """Return the real transcripts in which compactions are recorded; none where the corpus is not at hand."""
    return [entry for entry in entries_of(REAL) if entry["summ"]]


def recorded_summaries(path: Path) -> tuple[RecordedSummary, ...]:
    """Return the summaries of a transcript whose text is readable, in order; all count as good."""
    return tuple(found for session in read_transcript(path).sessions for found in _of_session(path.name, session))


def _of_session(file: str, session: RecordedSession) -> list[RecordedSummary]:
    found: list[RecordedSummary] = []
    start = 0
    for compaction in session.compactions:
        kept = compaction.position if compaction.first_kept is None else compaction.first_kept
        if compaction.summary:
            head, tail = session.messages[start:kept], session.messages[kept : compaction.position]
            name = f"{file}:{session.id}:{compaction.position}"
            found.append(RecordedSummary(name, _model_text(compaction.summary), head, tail))
        start = kept
    return found


def _model_text(summary: str) -> str:
    """Return what the model wrote, without the sentences that Claude Code puts around it."""
    if not summary.startswith(_FRAME_START):
        return summary
    return summary.partition("\n\n")[2].partition(_FRAME_END)[0].strip()
