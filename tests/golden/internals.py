"""What these tests need of infold beyond its public names; nothing else here imports an inner module."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from infold.core.judge import Answer, Told
from infold.formats.transcripts.registry import read_transcript
from infold.formats.wire import FORMATS


class Recorded(NamedTuple):
    """A recorded session as a client would send it: its items in every wire format, its system prompt and its tools."""

    id: str
    items: dict[str, list[Any]]
    system: str
    tools: str


def recorded_sessions(path: Path, *, most: int | None = None) -> Iterator[Recorded]:
    """Read the sessions of a transcript, the longest first."""
    for session in sorted(read_transcript(path).sessions, key=lambda session: -len(session.messages))[:most]:
        items = {
            wire.name: [item for message in session.messages for item in wire.encode_new(message)] for wire in FORMATS
        }
        yield Recorded(session.id, items, session.system, session.tools)


def summary(text: str) -> Told:
    """Return a summariser's answer that says itself how long it took and what it cost, so that nothing is measured."""
    return Told(Answer(text), model="scripted/notes", cost=0.01, duration_ms=1_200)
