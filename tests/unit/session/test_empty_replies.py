"""A reply without content is a reply: it is recorded with its usage, in every format, and the session goes on."""

from typing import Any

import pytest

from infold import Session, SessionSettings, UsageError
from infold.core.entries import Amendment
from infold.core.messages import AssistantMessage

from .session_fixture import HookedStore

Item = dict[str, Any]

PROMPT, COMPLETION = 900, 3

CHAT = {"prompt_tokens": PROMPT, "completion_tokens": COMPLETION}
RESPONSES = {"input_tokens": PROMPT, "output_tokens": COMPLETION}
CONVERSE = {"inputTokens": PROMPT, "outputTokens": COMPLETION, "totalTokens": PROMPT + COMPLETION}
GEMINI = {"promptTokenCount": PROMPT, "candidatesTokenCount": COMPLETION, "totalTokenCount": PROMPT + COMPLETION}

EMPTY: list[tuple[str, Item]] = [
    ("openai-chat", {"choices": [], "usage": CHAT}),
    ("openai-chat", {"choices": [{"message": {"role": "assistant"}, "finish_reason": "stop"}], "usage": CHAT}),
    ("openai-chat", {"choices": [{"message": {"role": "assistant", "content": None}}], "usage": CHAT}),
    ("openai-chat", {"choices": [{"message": {"role": "assistant", "content": "", "refusal": None}}], "usage": CHAT}),
    ("openai-responses", {"output": [], "status": "completed", "usage": RESPONSES}),
    ("anthropic-messages", {"type": "message", "role": "assistant", "content": [], "usage": RESPONSES}),
    ("anthropic-messages", {"content": "", "stop_reason": "end_turn", "usage": RESPONSES}),
    ("bedrock-converse", {"output": {"message": {"role": "assistant", "content": []}}, "usage": CONVERSE}),
    ("bedrock-converse", {"output": {"message": None}, "stopReason": "end_turn", "usage": CONVERSE}),
    ("gemini", {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}], "usageMetadata": GEMINI}),
    ("gemini", {"candidates": [{"content": {"role": "model", "parts": []}}], "usageMetadata": GEMINI}),
    ("gemini", {"candidates": [{"finishReason": "SAFETY"}], "usageMetadata": GEMINI}),
    ("gemini", {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": GEMINI}),
]
every_empty = pytest.mark.parametrize(("format_name", "body"), EMPTY)

BROUGHT_BACK: dict[str, Item] = {
    "openai-chat": {"role": "assistant", "content": ""},
    "openai-responses": {"role": "assistant", "content": []},
    "anthropic-messages": {"role": "assistant", "content": []},
    "bedrock-converse": {"role": "assistant", "content": []},
    "gemini": {"role": "model"},
}


def said(format_name: str, text: str) -> Item:
    if format_name == "gemini":
        return {"role": "user", "parts": [{"text": text}]}
    return {"role": "user", "content": [{"text": text}] if format_name == "bedrock-converse" else text}


def started(format_name: str, store: HookedStore | None = None) -> Session:
    settings = SessionSettings(window=64_000, format=format_name)
    return Session(store or HookedStore(), "s", settings)


@every_empty
def test_an_empty_reply_is_recorded_with_its_usage(format_name: str, body: Item) -> None:
    """B13: what the request cost is known, and the gauge goes by it."""
    session = started(format_name)
    session.prepare([said(format_name, "hi")])
    session.record(body)
    newest = session.log.live[-1].message

    assert isinstance(newest, AssistantMessage)
    assert newest.usage is not None
    assert (newest.parts, newest.usage.prompt, newest.usage.output) == ((), PROMPT, COMPLETION)
    assert session.log.baseline is not None


@every_empty
def test_a_format_that_was_not_named_is_found(format_name: str, body: Item) -> None:
    """B13: messages that are the same in several formats do not make an empty reply an error."""
    session = Session(HookedStore(), "s", SessionSettings(window=64_000))
    session.prepare([said(format_name, "hi")])
    session.record(body)

    assert isinstance(session.log.live[-1].message, AssistantMessage)


@every_empty
def test_an_empty_reply_is_not_sent_back(format_name: str, body: Item) -> None:
    """B25: providers refuse messages without content, so a session that keeps the list itself leaves it out."""
    store, items = HookedStore(), [said(format_name, "hi"), said(format_name, "are you there?")]
    session = started(format_name, store)
    session.prepare_new(items[:1])
    session.record(body)
    again = started(format_name, store)
    ready, reopened = session.prepare_new(items[1:]), again.prepare_new([said(format_name, "hello?")])

    texts = ["hi", "are you there?", "hello?"]
    assert all(text in str(ready.messages) for text in texts[:2])
    assert all(text in str(reopened.messages) for text in texts)
    assert {item["role"] for item in [*ready.messages, *reopened.messages]} == {"user"}
    if format_name == "bedrock-converse":  # roles must alternate
        assert len(ready.messages) == len(reopened.messages) == 1


@every_empty
def test_a_list_may_leave_an_empty_reply_out(format_name: str, body: Item) -> None:
    """B1: a client that does not bring it goes on with the same session and is sent what it brought."""
    session = started(format_name)
    items = [said(format_name, "hi")]
    for number in range(3):
        assert session.prepare(items).messages == items
        session.record(body)
        items = [*items, said(format_name, f"and now {number}?")]

    assert session.prepare(items).messages == items
    assert session.log.length == 4


@every_empty
def test_a_list_may_bring_an_empty_reply(format_name: str, body: Item) -> None:
    """B1: a client that brings it is matched by it, nothing is taken back, and its object is sent as it is."""
    store = HookedStore()
    session = started(format_name, store)
    items = [said(format_name, "hi")]
    session.prepare(items)
    session.record(body)
    items = [*items, BROUGHT_BACK[format_name], said(format_name, "are you there?")]
    ready = session.prepare(items)

    assert ready.messages == items
    assert session.log.length == 3
    assert not any(isinstance(entry, Amendment) for entry in store.entries)


@pytest.mark.parametrize("format_name", BROUGHT_BACK)
@pytest.mark.parametrize("body", [{}, {"error": {"message": "busy"}}, {"hello": 1}, "text", None, 3], ids=repr)
def test_what_is_no_reply_is_still_a_mistake(format_name: str, body: object) -> None:
    """B13: a body in which the session's format finds no reply is named as such, and nothing is stored."""
    session = started(format_name)
    session.prepare([said(format_name, "hi")])
    with pytest.raises(UsageError, match="pass it as the provider gave it"):
        session.record(body)

    assert session.log.length == 1
