"""Clients without a network: each holds its list of messages, sends all of it through infold, and hears replies."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from infold.core.entries import Entry
from infold.errors import StoreBroken
from infold.ports import SessionKey
from infold.proxy.managed_request import ManagedRequest, OwnRequest, ReplyObserver, UpstreamReply
from infold.proxy.request import ParsedRequest, parse_request
from infold.proxy.sessions import SessionPool
from infold.stores.memory import MemoryStore

Item: TypeAlias = dict[str, Any]

CHAT = "/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


def answer(text: str, *, tokens: int | None = None, calls: tuple[Item, ...] = ()) -> Item:
    """A chat completion, with the usage it reports."""
    message = {"role": "assistant", "content": text, **({"tool_calls": [*calls]} if calls else {})}
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "completion_tokens": 20}}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}], **usage}


def no_model(own: OwnRequest) -> UpstreamReply:
    """A provider that is not to be asked."""
    raise AssertionError(f"asked with {own.content[:200]!r}")


def request_of(
    items: list[Item], *, tools: object = TOOLS, headers: dict[str, str] | None = None, **fields: object
) -> ParsedRequest:
    """A chat request with these messages."""
    body = {"model": "some-model", "messages": items, **({"tools": tools} if tools else {}), **fields}
    made = parse_request(CHAT, headers or {}, msgspec.json.encode(body))
    assert isinstance(made, ParsedRequest), made
    return made


def sent_by(managed: ManagedRequest) -> list[Item]:
    """The messages that a request is sent with."""
    items: list[Item] = msgspec.json.decode(managed.content)["messages"]
    return items


def record(managed: ManagedRequest, body: bytes, content_type: str = "application/json") -> None:
    """Let a request's reply arrive, and record it."""
    observer = ReplyObserver(managed.parsed, 200, content_type)
    observer.observe(body)
    observer.close()
    managed.record(observer)


class BrokenStore(MemoryStore):
    """A store whose disk fails after so many writes."""

    def __init__(self, writes: int = 0) -> None:
        super().__init__()
        self.writes = writes

    def append(self, key: SessionKey, entries: Sequence[Entry], *, expected: int) -> int:
        """Append, as long as the disk holds."""
        self.writes -= 1
        if self.writes < 0:
            raise StoreBroken("the store", "the disk is full", remedy="make room")
        return super().append(key, entries, expected=expected)


class Talk:
    """A client with its own list of messages, every text of which bears the client's mark."""

    def __init__(self, mark: str, *, first: str = "Port the importer.", words: int = 120) -> None:
        self.mark = mark
        self.items: list[Item] = [{"role": "user", "content": first}]
        self.turn = 0
        self.words = words

    def hear(self, reply: Item) -> None:
        """Take a reply into the list, and ask on."""
        self.turn += 1
        text = f"{self.mark}-{self.turn} lorem " * self.words
        self.items += [reply["choices"][0]["message"], {"role": "user", "content": f"{self.mark}-{self.turn}: {text}"}]

    def next_answer(self) -> Item:
        """What the model says next; the first two answers are the same for all."""
        return answer("Well then." if self.turn < 2 else f"{self.mark} answer {self.turn}.")

    def ask(self, pool: SessionPool, **fields: Any) -> list[Item]:
        """Send the list, hear a reply, ask on; the messages that were sent."""
        managed = pool.begin(request_of(self.items, **fields), no_model)
        reply = self.next_answer()
        record(managed, msgspec.json.encode(reply))
        self.hear(reply)
        return sent_by(managed)
