"""The provider's cache behind a proxy: the lifetime comes from each request's body, a miss from the reply, streamed or not."""

import json
from typing import Any

import pytest

from infold import SessionSettings
from infold.core.events import CacheMissed, Event
from infold.core.messages import AssistantMessage
from infold.proxy.managed_request import ReplyObserver, UpstreamReply
from infold.proxy.request import ParsedRequest, parse_request
from infold.proxy.sessions import SessionPool
from infold.stores.memory import MemoryStore

Item = dict[str, Any]


class Proxied:
    """A client's session behind a proxy, with a clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.events: list[Event] = []
        settings = SessionSettings(now_ms=lambda: self.now_ms, on_event=self.events.append)
        self._pool = SessionPool(MemoryStore(), settings)
        self._messages: list[Item] = []

    def exchange(self, reply: Item, *, streams: bool = False, **fields: Any) -> AssistantMessage:
        """Send one more message, observe the reply, and return it as it was stored."""
        self._messages.append({"role": "user", "content": f"Step {len(self._messages)}."})
        body = {"model": "claude-opus-4-6", "max_tokens": 100, "messages": self._messages, "stream": streams, **fields}
        parsed = parse_request("/v1/messages", {"x-infold-session": "ferry"}, json.dumps(body).encode())
        assert isinstance(parsed, ParsedRequest)
        managed = self._pool.begin(parsed, lambda _: UpstreamReply(500, b""))
        observer = ReplyObserver(parsed, 200, "text/event-stream" if streams else "application/json")
        observer.observe(streamed(reply) if streams else json.dumps(reply).encode())
        observer.close()
        managed.record(observer)
        self._messages.append({"role": "assistant", "content": reply["content"]})
        message = managed.session.log.live[-1].message
        assert isinstance(message, AssistantMessage)
        return message


def answer(read: int, written: int, **fields: Any) -> Item:
    """A reply that read and wrote so much of the cache."""
    usage = {"input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": read}
    usage["cache_creation_input_tokens"] = written
    content = [{"type": "text", "text": "done"}]
    return {
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "end_turn",
        "usage": usage,
        **fields,
    }


def streamed(reply: Item) -> bytes:
    """The same reply in events; what it says of the cache comes with the first."""
    begun = reply | {"content": [], "stop_reason": None}
    events: list[Item] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "done"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


@pytest.mark.parametrize("streams", [False, True])
def test_each_requests_own_lifetime_counts(streams: bool) -> None:
    """B16: a client that changes its marks changes how long the cache lives; one that marks nothing has the model's own."""
    proxied, mark = Proxied(), {"type": "ephemeral", "ttl": "1h"}
    hour = proxied.exchange(answer(0, 9_000), streams=streams, cache_control=mark)
    usual = proxied.exchange(answer(9_000, 50), streams=streams)

    assert (hour.cache_seconds, usual.cache_seconds) == (3_600, 300)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("pause", "reason", "cause"),
    [
        (3_700, None, "expired"),
        (600, None, None),
        (3_700, "messages_changed", "changed"),
        (5, "tools_changed", "changed"),
    ],
)
def test_a_miss_is_reported(streams: bool, pause: int, reason: str | None, cause: str | None) -> None:
    """B22: by the clock and the request's own lifetime, unless the provider says what changed."""
    proxied, marked = Proxied(), {"system": [{"type": "text", "text": "Be brief.", "cache_control": {"ttl": "1h"}}]}
    proxied.exchange(answer(0, 9_000), streams=streams, **marked)
    proxied.now_ms += pause * 1_000
    found = {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": 7}} if reason else None
    stored = proxied.exchange(answer(0, 9_050, diagnostics=found), streams=streams, **marked)

    missed = [event for event in proxied.events if isinstance(event, CacheMissed)]
    assert [event.cause for event in missed] == ([cause] if cause else [])
    assert (stored.cache_loss is not None) == (cause == "expired")
