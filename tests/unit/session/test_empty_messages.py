"""Messages with nothing in them: what is sent of them, and when."""

import json
from typing import Any

import pytest

from infold import Session, SessionSettings, fit, open_store
from infold.proxy.request import ParsedRequest, parse_request
from infold.proxy.sessions import SessionPool
from infold.stores.memory import MemoryStore

Item = dict[str, Any]

WINDOW = 8_000
SETTINGS = SessionSettings(window=WINDOW, format="openai-chat")
BLANKS = ("", " \n")
CALL: Item = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def user(text: str) -> Item:
    """A message of a person."""
    return {"role": "user", "content": text}


def reply(text: str) -> Item:
    """A message of the model."""
    return {"role": "assistant", "content": text}


def unanswered(blank: str) -> list[Item]:
    """A history that fits, with empty messages of both sides, in which a call has no result."""
    asks = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    return [user("hi"), reply(blank), user(blank), asks, user("go on"), reply("yes"), user(blank)]


def long_history(turns: int = 60) -> list[Item]:
    """A history over the window."""
    return [one for n in range(turns) for one in (user(f"Turn {n}: " + "apples are red. " * 60), reply(f"ok {n}"))]


def without_answers(sent: Any) -> list[Item]:
    """Messages without the answers to calls."""
    return [message for message in sent if message["role"] != "tool"]


@pytest.mark.parametrize("blank", BLANKS)
def test_a_repair_changes_nothing_else(blank: str) -> None:
    """B12, B30: answering a call without a result is no cut: empty messages of both sides are sent as they came."""
    given = unanswered(blank)
    fitted = fit(given, window=WINDOW)
    ready = Session(open_store("memory"), "s", SETTINGS).prepare(given)

    assert fitted.report.changed
    for sent in (fitted.messages, ready.messages):
        assert len(sent) == len(given) + 1
        assert all(one is other for one, other in zip(without_answers(sent), given, strict=True))


@pytest.mark.parametrize("blank", BLANKS)
def test_a_repaired_body_has_every_other_field_as_it_came(blank: str) -> None:
    """B30: the same through `wrap` and the gateway; only the answer is added."""
    body = {"model": "some-model", "messages": unanswered(blank), "x_unknown": [None]}
    made = parse_request("/v1/chat/completions", {}, json.dumps(body).encode())
    assert isinstance(made, ParsedRequest)
    content = json.loads(SessionPool(MemoryStore(), SessionSettings(window=WINDOW)).begin(made, no_model).content)

    assert without_answers(content["messages"]) == body["messages"]
    assert {**content, "messages": 0} == {**body, "messages": 0}


def no_model(_: object) -> Any:
    """Fail if a summary is asked for."""
    raise AssertionError


@pytest.mark.parametrize("blank", BLANKS)
def test_a_cut_leaves_out_empty_replies_and_no_user_message(blank: str) -> None:
    """B12: the newest message is what the model is to answer, also if it is empty; an empty reply is left out and reported."""
    given = [*long_history(), user("now"), reply(blank), user(blank)]
    fitted = fit(given, window=WINDOW)

    assert len(fitted.messages) < len(given)
    assert list(fitted.messages[-2:]) == [user("now"), user(blank)]
    assert [left.what for left in fitted.report.left if left.index == len(given) - 2] == ["empty message"]


def test_after_a_cut_requests_still_extend_each_other() -> None:
    """B29: an empty user message that was sent stays where it was while the session goes on."""
    session = Session(open_store("memory"), "s", SETTINGS)
    before = session.prepare_new([*long_history(), user("")]).messages
    for n in range(3):
        session.record({"choices": [{"message": reply(f"done {n}"), "finish_reason": "stop"}]})
        sent = session.prepare_new([user("")]).messages

        assert list(sent[: len(before)]) == list(before)
        assert sent[-1] == user("")
        before = sent
