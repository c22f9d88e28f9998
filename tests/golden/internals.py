"""What these tests need of infold beyond its public names; nothing else here imports an inner module."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.trajectory import trajectory

from infold.cli.demo import SYSTEM_TEXT, coding_session
from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import Message
from infold.formats.registry import FORMATS, OPENAI_CHAT
from infold.transcripts.registry import read_transcript

__all__ = ["SYSTEM_TEXT", "Recorded", "coding_session", "decode_chat", "recorded_sessions", "summary", "trajectory"]
__all__ += ["write_items"]


class Recorded(NamedTuple):
    """A recorded session as a client would send it: its items in every wire format, its system prompt and its tools."""

    id: str
    items: dict[str, list[Any]]
    system: str
    tools: str


def recorded_sessions(path: Path, *, most: int | None = None) -> Iterator[Recorded]:
    """Read the sessions of a transcript, the longest first."""
    for session in sorted(read_transcript(path).sessions, key=lambda session: -len(session.messages))[:most]:
        yield Recorded(session.id, write_items(session.messages), session.system, session.tools)


def write_items(messages: Iterable[Message]) -> dict[str, list[Any]]:
    """Return messages as items of every wire format."""
    written = tuple(messages)
    return {wire.name: [item for message in written for item in wire.encode_new(message)] for wire in FORMATS}


def decode_chat(items: list[Any]) -> tuple[Message, ...]:
    """Return the messages that items of OpenAI's chat interface stand for."""
    return OPENAI_CHAT.decode(items).messages


def summary(text: str) -> ModelAnswer:
    """Return a summariser's answer that says itself how long it took and what it cost, so that nothing is measured."""
    return ModelAnswer(Answer(text), model="scripted/notes", cost=0.01, duration_ms=1_200)
