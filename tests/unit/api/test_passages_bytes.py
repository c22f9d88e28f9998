"""What goes out is what came in, as long as it fits; and what changes, changes seldom."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.trajectory import trajectory
from tests.support.wire import WireHistory, anthropic_histories, chat_histories, responses_histories

from infold.api.exchanges import Exchange, opened
from infold.api.passages import Passages
from infold.api.session_settings import SessionSettings
from infold.core.events import Clipped, Compacted, Event, Pruned
from infold.core.messages import AssistantMessage
from infold.stores.memory import MemoryStore

from .talks import Item, exchange_of, no_model, sent_by

PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic-messages": "/v1/messages",
}
SPACINGS: tuple[dict[str, Any], ...] = (
    {},
    {"ensure_ascii": False},
    {"indent": 1},
    {"separators": (" ,", "\t: "), "ensure_ascii": False},
    {"separators": (",", ":"), "sort_keys": True},
)
EXTRAS: tuple[Item, ...] = (
    {},
    {"seed": 123456789012345678901234567890, "temperature": 1.50, "x_unknown": {"deep": [None, "é", "😀"]}},
    {"tools": [{"name": "bash"}], "metadata": {"user_id": "a"}, "stream": False},
)
ROOMY = SessionSettings(window=1_000_000)


def raw_of(history: WireHistory, spacing: Item, extra: Item) -> bytes:
    """A body as some client would write it."""
    body = {"model": "some-model", history.format.items_field: history.items, **extra}
    return json.dumps(body, **spacing).encode()


def exchange(history: WireHistory, raw: bytes) -> Exchange:
    """The request that these bytes are."""
    made = opened(PATHS[history.format.name], {}, raw)
    assert isinstance(made, Exchange), made
    return made


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(
    st.one_of(chat_histories(), responses_histories(), anthropic_histories()),
    st.sampled_from(SPACINGS),
    st.sampled_from(EXTRAS),
)
def test_below_the_trigger_the_very_bytes_go_out(history: WireHistory, spacing: Item, extra: Item) -> None:
    """B29: whatever a client writes, in whatever spacing and escapes, is sent byte for byte, the second time as well."""
    raw = raw_of(history, spacing, extra)
    passages = Passages(MemoryStore(), ROOMY)

    assert passages.begin(exchange(history, raw), no_model).content == raw
    assert passages.begin(exchange(history, raw), no_model).content == raw


@pytest.mark.slow
def test_growing_histories_go_out_as_they_came() -> None:
    """B29: each request of an agent's long session, below the trigger, is the client's own bytes."""
    passages = Passages(MemoryStore(), ROOMY)
    items = trajectory(40)
    for end in (number for number, item in enumerate(items) if item["role"] == "assistant"):
        asking = exchange_of(items[:end])
        assert passages.begin(asking, no_model).content == asking.raw


def replied(item: Item, prompt_tokens: int) -> bytes:
    """A recorded message as the reply that brought it."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 50}
    return msgspec.json.encode({"choices": [{"message": item, "finish_reason": "stop"}], "usage": usage})


@pytest.mark.slow
@pytest.mark.parametrize("reports", [True, False])
def test_the_prefix_breaks_only_at_cuts(reports: bool) -> None:
    """B29: over a hundred calls each request begins with the one before, but where infold itself pruned, clipped or folded."""
    events: list[Event] = []
    passages = Passages(MemoryStore(), SessionSettings(window=32_000, on_event=events.append, summariser=lambda _: ""))
    items = trajectory(100)
    sent: list[list[Item]] = []
    for number, item in enumerate(items):
        if item["role"] != "assistant":
            continue
        passage = passages.begin(exchange_of(items[:number]), no_model)
        sent.append(sent_by(passage))
        if reports:
            passage.record(replied(item, len(passage.content) // 4))

    breaks = sum(after[: len(before)] != before for before, after in pairwise(sent))
    cuts = sum(isinstance(event, Compacted | Pruned | Clipped) for event in events)
    assert len(sent) >= 100
    assert 2 <= breaks <= cuts


def test_replies_are_known_as_they_come_back() -> None:
    """A reply that a client brings with other fields, or none of its extras, is the one that was heard."""
    store = MemoryStore()
    passages = Passages(store, ROOMY)
    items: list[Item] = [{"role": "user", "content": "hi"}]
    heard: Item = {
        "role": "assistant",
        "content": " Hello! ",
        "refusal": None,
        "annotations": [],
        "reasoning_content": "Hm.",
    }
    headers = {"x-infold-session": "s"}
    passages.begin(exchange_of(items, headers=headers), no_model).record(replied(heard, 10))
    on = [*items, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "So?"}]
    passage = passages.begin(exchange_of(on, headers=headers), no_model)

    assert passage.content == exchange_of(on).raw
    assert len(passage.session.log.live) == 3
    said = passage.session.log.live[1].message
    assert isinstance(said, AssistantMessage)
    assert said.usage is not None


def test_a_message_with_nothing_in_it_goes_out_as_it_came() -> None:
    """B30: below the trigger an empty message is the client's to send."""
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "x"}]
    body = {"model": "some-model", "messages": said, "seed": 7, "x_unknown": [None]}
    made = opened("/v1/chat/completions", {}, json.dumps(body).encode())
    assert isinstance(made, Exchange)

    assert Passages(MemoryStore(), ROOMY).begin(made, no_model).content is made.raw
