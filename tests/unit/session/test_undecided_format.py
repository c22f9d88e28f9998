"""A session whose first messages are the same in several formats decides when one is not."""

from typing import Any

import pytest

from infold import Session, SessionSettings
from infold.errors import InfoldError
from infold.stores.memory import MemoryStore

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "List the files."}]

CHAT: list[dict[str, Any]] = [
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
    ]},
    {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
]  # fmt: skip
RESPONSES: list[dict[str, Any]] = [
    {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
]
ANTHROPIC: list[dict[str, Any]] = [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "ls", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.py"}]},
]
LATER: dict[str, list[dict[str, Any]]] = {
    "openai-chat": CHAT,
    "openai-responses": RESPONSES,
    "anthropic-messages": ANTHROPIC,
}

REPLIES: dict[str, dict[str, Any]] = {
    "openai-chat": {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]},
    "openai-responses": {"output": [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
    ]},
    "anthropic-messages": {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}]},
}  # fmt: skip


def opened(window: int = 8_000) -> Session:
    """A session that is not told its format."""
    return Session(MemoryStore(), "s", SessionSettings(window=window))


@pytest.mark.parametrize("name", LATER)
def test_a_later_message_decides(name: str) -> None:
    """B43: a whole list that turns out to be of another format is the same session, and is sent as it is."""
    session = opened()
    assert session.prepare(HELLO).messages == HELLO

    ready = session.prepare([*HELLO, *LATER[name]])

    assert ready.messages == [*HELLO, *LATER[name]]
    assert ready.sources == (0, 1, 2)
    assert session.log.length == 3


@pytest.mark.parametrize("name", LATER)
def test_a_later_new_message_decides(name: str) -> None:
    """B43: so do messages that are given alone; those before them come back as the caller's own objects."""
    session = opened()
    session.prepare_new(HELLO)

    ready = session.prepare_new(LATER[name])

    assert ready.messages == [*HELLO, *LATER[name]]
    assert ready.messages[0] is HELLO[0]
    assert ready.sources == (None, 0, 1)


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_decides(name: str) -> None:
    """B43: a recorded reply of any format is read, and the session goes on in that format."""
    session = opened()
    session.prepare(HELLO)
    session.record(REPLIES[name])

    ready = session.prepare_new(LATER[name])

    assert ready.messages[0] is HELLO[0]
    assert ready.messages[-2:] == LATER[name]


def test_a_decided_format_stays() -> None:
    """B43: once a message fits only one format, one of another is an error, as it is if the format is named."""
    decided = opened()
    decided.prepare([*HELLO, *CHAT])
    named = Session(MemoryStore(), "s", SessionSettings(window=8_000, format="openai-chat"))
    named.prepare(HELLO)

    for session in (decided, named):
        with pytest.raises(InfoldError):
            session.prepare_new(RESPONSES)


@pytest.mark.parametrize("name", LATER)
def test_a_fold_before_the_decision_is_kept(name: str) -> None:
    """B43: what was folded while the format was open stays folded, and the list is still recognised."""
    session = opened(2_000)
    long = [{"role": role, "content": f"{n} " + "word " * 300} for n, role in enumerate(["user", "assistant"] * 6)]
    session.prepare([*long, *HELLO])
    assert session.log.checkpoint is not None

    ready = session.prepare([*long, *HELLO, *LATER[name]])

    assert ready.messages[-2:] == LATER[name]
    assert len(ready.messages) < len(long)
