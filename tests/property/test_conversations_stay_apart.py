"""Law: no request and no recall of one conversation holds text of another, however many share a plug and a name."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from infold import preset
from infold.integrations.sessions import NOTHING_RECALLED, Call, Sessions, SharedThread
from infold.stores.memory import MemoryStore

SECRET = "secret-of-"
WINDOW = 4_096
KEEPING = preset("infold").with_memory(0.4)
"""Has room for kept steps in so small a window."""

EXAMPLES = int(os.environ.get("INFOLD_EXAMPLES", "15"))


class Conversation(Struct):
    """A conversation with its own history; everything that its model and its tools say holds its secret."""

    number: int
    first_words: str
    thread: str | None
    steps: int

    @property
    def secret(self) -> str:
        return f"{SECRET}{self.number}."

    def run(self, sessions: Sessions) -> Iterator[str]:
        """Yield every request as it would be sent, and every answer of recall."""
        messages: list[Any] = [{"role": "user", "content": self.first_words}]
        for step in range(self.steps):
            call = sessions.prepare(self.thread, list(messages), recall="recall")
            yield str(call.restore(messages, lambda item, _: item))
            reply = self._reply(step)
            call.record({"choices": [{"message": reply, "finish_reason": "tool_calls"}]})
            messages.append(reply)
            yield from self._recalls(sessions, call, messages, step)
            result = f"{self.secret} all went well in step {step}\n" * 70
            messages.append({"role": "tool", "tool_call_id": f"call_{step}", "content": result})

    def _reply(self, step: int) -> dict[str, Any]:
        call = {"id": f"call_{step}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        said = None if step % 2 else f"{self.secret} I look at step {step}."
        return {"role": "assistant", "content": said, "tool_calls": [call]}

    def _recalls(self, sessions: Sessions, call: Call, messages: list[Any], step: int) -> Iterator[str]:
        yield call.recall({"query": "all went well in step 1"})
        yield call.recall("1.0, 2.0")
        yield sessions.recall(self.thread, {"query": f"step {step // 2}"}, messages)
        assert sessions.recall(None, "step") == NOTHING_RECALLED


def check(conversation: Conversation, texts: list[str]) -> int:
    """Check that the texts hold no other secret; return how many hold the conversation's own."""
    for text in texts:
        assert SECRET not in text.replace(conversation.secret, ""), text[:400]
    return sum(conversation.secret in text for text in texts)


first_words = st.sampled_from(["Hello", "Hello", "Port the feed. Never touch vendor/."])
conversations = st.lists(st.tuples(first_words, st.integers(1, 7)), min_size=2, max_size=4)


@settings(max_examples=EXAMPLES)
@given(conversations, st.sampled_from([None, SharedThread("shared")]), st.randoms(use_true_random=False))
def test_in_turn(drawn: list[tuple[str, int]], thread: str | None, order: Any) -> None:
    """B44, B57: requests in any order: without a thread id, and with one that several conversations have."""
    sessions = Sessions.from_options({"window": WINDOW, "policy": KEEPING}, format="openai-chat", recovers=True)
    every = [Conversation(n, words, thread, steps) for n, (words, steps) in enumerate(drawn)]
    running = {one.number: one.run(sessions) for one in every}
    seen: dict[int, list[str]] = {one.number: [] for one in every}
    while running:
        number = order.choice(sorted(running))
        try:
            seen[number].append(next(running[number]))
        except StopIteration:
            del running[number]
    for one in every:
        check(one, seen[one.number])


@settings(max_examples=EXAMPLES)
@given(conversations)
def test_at_once(drawn: list[tuple[str, int]]) -> None:
    """B44, B57: requests of several threads and several processes, which have one store and sessions of their own."""
    store = MemoryStore()
    every = [Conversation(n, words, None, steps) for n, (words, steps) in enumerate(drawn)]
    shared = Sessions.from_options(
        {"window": WINDOW, "policy": KEEPING, "store": store}, format="openai-chat", recovers=True
    )
    together = Barrier(len(every))

    def run(one: Conversation) -> list[str]:
        own = Sessions.from_options(
            {"window": WINDOW, "policy": KEEPING, "store": store}, format="openai-chat", recovers=True
        )
        together.wait()
        return list(one.run(own if one.number % 3 == 2 else shared))

    with ThreadPoolExecutor(len(every)) as pool:
        for one, texts in zip(every, pool.map(run, every), strict=True):
            check(one, texts)


def test_recall_is_of_use() -> None:
    """B44, B57: each conversation recalls its own text once it was folded, though three begin alike and run in turn."""
    sessions = Sessions.from_options({"window": WINDOW, "policy": KEEPING}, format="openai-chat", recovers=True)
    every = [Conversation(n, "Hello", None, 9) for n in range(3)]
    running = [one.run(sessions) for one in every]
    seen: list[list[str]] = [list(texts) for texts in zip(*zip(*running, strict=True), strict=True)]

    for one, texts in zip(every, seen, strict=True):
        check(one, texts)
        assert sum(one.secret in text and "[" in text for text in texts[1::4][-5:]) == 5  # by the call itself
        assert sum(one.secret in text for text in texts[3::4][-5:]) == 5  # by the messages
