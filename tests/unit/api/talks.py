"""Clients without a network: each holds its list of messages, sends all of it through infold, and hears replies."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from infold.api.exchanges import Exchange, Relayed, opened
from infold.api.passage import AsyncPassage, Passage
from infold.api.passages import AsyncPassages, Passages
from infold.core.entries import Entry
from infold.errors import StoreBroken
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore

__all__ = [
    "CHAT",
    "TOOLS",
    "AsyncTalk",
    "BrokenStore",
    "Item",
    "Talk",
    "answer",
    "exchange_of",
    "no_model",
    "no_model_async",
    "sent_by",
]

Item: TypeAlias = dict[str, Any]

CHAT = "/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


def answer(text: str, *, tokens: int | None = None, calls: tuple[Item, ...] = ()) -> Item:
    """A chat completion, with the usage it reports."""
    message = {"role": "assistant", "content": text, **({"tool_calls": [*calls]} if calls else {})}
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "completion_tokens": 20}}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}], **usage}


def no_model(body: bytes) -> Relayed:
    """A provider that is not to be asked."""
    raise AssertionError(f"asked with {body[:200]!r}")


async def no_model_async(body: bytes) -> Relayed:
    """The same, awaited."""
    raise AssertionError(f"asked with {body[:200]!r}")


def exchange_of(
    items: list[Item], *, tools: object = TOOLS, headers: dict[str, str] | None = None, **fields: object
) -> Exchange:
    """A chat request with these messages."""
    body = {"model": "some-model", "messages": items, **({"tools": tools} if tools else {}), **fields}
    made = opened(CHAT, headers or {}, msgspec.json.encode(body))
    assert isinstance(made, Exchange), made
    return made


def sent_by(passage: Passage | AsyncPassage) -> list[Item]:
    """The messages that a passage sends."""
    items: list[Item] = msgspec.json.decode(passage.content)["messages"]
    return items


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


class _List:
    """A client's own list, every text of which bears the client's mark."""

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


class Talk(_List):
    """A sync client."""

    def ask(self, passages: Passages, **fields: Any) -> list[Item]:
        """Send the list, hear a reply, ask on; the messages that were sent."""
        passage = passages.begin(exchange_of(self.items, **fields), no_model)
        reply = self.next_answer()
        passage.record(msgspec.json.encode(reply))
        self.hear(reply)
        return sent_by(passage)


class AsyncTalk(_List):
    """An async client."""

    async def ask(self, passages: AsyncPassages, **fields: Any) -> list[Item]:
        """Send the list, hear a reply, ask on; the messages that were sent."""
        passage = await passages.begin(exchange_of(self.items, **fields), no_model_async)
        reply = self.next_answer()
        await passage.record(msgspec.json.encode(reply))
        self.hear(reply)
        return sent_by(passage)
