"""Large requests are worked on in threads, and speak to upstreams from the event loop."""

import asyncio
from threading import current_thread

import msgspec

from infold.api.exchanges import Exchange, Relayed, opened
from infold.api.passages import Passages
from infold.api.session_settings import SessionSettings
from infold.core.events import Compacted, Event
from infold.core.messages import AssistantMessage, text_of
from infold.formats.overflow import Overflow
from infold.formats.registry import builder_for
from infold.gateway.aside import Aside
from infold.stores.memory import MemoryStore

from .stage import CHAT, Item, chat, said

ANSWER = {"role": "assistant", "content": "Apples are agreed upon, turn by turn, as the user asked. " * 3}


def exchange(turns: int) -> Exchange:
    """A request after so many turns."""
    messages: list[Item] = []
    for number in range(turns):
        messages += [{"role": "user", "content": said(number)}, {"role": "assistant", "content": f"yes {number}"}]
    body = chat([*messages, {"role": "user", "content": "go on"}])
    found = opened(CHAT, {"x-infold-session": "s"}, msgspec.json.encode(body))
    assert isinstance(found, Exchange)
    return found


def test_a_summary_is_asked_for_from_the_event_loop() -> None:
    """The session waits in its thread; the request goes out over the connections of the loop."""
    asked_in: list[str] = []
    events: list[Event] = []

    async def send(body: bytes) -> Relayed:
        assert b"messages" in body
        asked_in.append(current_thread().name)
        return Relayed(200, msgspec.json.encode({"choices": [{"message": ANSWER, "finish_reason": "stop"}]}))

    async def begin() -> None:
        aside = Aside()
        passages = Passages(MemoryStore(), SessionSettings(window=20_000, on_event=events.append))
        passage = await aside.begin(passages, exchange(300), send)
        assert len(passage.content) < len(passage.exchange.raw)
        aside.close()

    asyncio.run(begin())

    assert asked_in
    assert set(asked_in) == {"MainThread"}
    assert [event.summariser for event in events if isinstance(event, Compacted)] == ["gpt-x"]


def test_a_refusal_is_recovered_and_a_reply_taken_in() -> None:
    """B7: the same as in the event loop."""

    async def send(_: bytes) -> Relayed:
        raise AssertionError("nobody is asked")

    async def begin() -> list[str]:
        aside = Aside()
        passages = Passages(MemoryStore(), SessionSettings(window=12_000))
        passage = await aside.begin(passages, exchange(60), send)
        smaller = await passage.recovered(Overflow("openai", prompt_tokens=9_000, limit_tokens=4_000))
        assert smaller is not None
        assert len(smaller.content) < len(passage.content)
        builder = builder_for("openai-chat")
        builder.feed(
            b'data: {"choices": [{"delta": {"content": "done"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
        )
        await smaller.record_stream(builder)
        aside.close()
        live = smaller.session.log.live
        return [text_of(one.message) for one in live if isinstance(one.message, AssistantMessage)]

    assert asyncio.run(begin())[-1] == "done"
