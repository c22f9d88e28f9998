"""LangChain's middleware, with LangChain's own agent loop and fake model; skipped where LangChain is not installed."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.checkpoint.memory import InMemorySaver

from infold import UsageError
from infold.core.entries import MessageEntry
from infold.core.messages import SessionId
from infold.integrations.langchain import InfoldMiddleware
from infold.ports import SessionKey

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

RULE = "Read every file. Never touch vendor/."
STEPS = 60
WINDOW = 8_192


def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}: all went well\n" * 120


def call(number: int, *names: str) -> AIMessage:
    """A reply that reads one file or several, and reports its usage."""
    calls = [
        {"name": "read_file", "args": {"path": f"src/{name}{number}.py"}, "id": f"{name}{number}"}
        for name in names or ("a",)
    ]
    usage = {"input_tokens": 1_000 + number, "output_tokens": 20, "total_tokens": 1_020 + number}
    return AIMessage("", tool_calls=calls, usage_metadata=usage)


class Model(GenericFakeChatModel):
    """LangChain's fake model, which takes tools, and streams its calls too."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        return self

    def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:  # noqa: ARG002
        reply: Any = next(self.messages)
        calls = [
            {"name": one["name"], "args": json.dumps(one["args"]), "id": one["id"], "index": index}
            for index, one in enumerate(reply.tool_calls)
        ]
        yield ChatGenerationChunk(
            message=AIMessageChunk(reply.content, tool_call_chunks=calls, usage_metadata=reply.usage_metadata)
        )


class Watch(AgentMiddleware):
    """Sees what reaches the model, as the innermost middleware; refuses the request of one step for its size."""

    def __init__(self, refused: int = -1) -> None:
        super().__init__()
        self.requests: list[list[BaseMessage]] = []
        self.states: list[list[BaseMessage]] = []
        self.offered: set[str] = set()
        self._refused = refused

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self._see(request)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self._see(request)
        return await handler(request)

    def _see(self, request: Any) -> None:
        self.requests.append(list(request.messages))
        self.states.append(list(request.state["messages"]))
        self.offered |= {tool.name for tool in request.tools}
        if len(self.requests) == self._refused:
            self._refused = -1
            raise ContextOverflowError("maximum context length is 8192 tokens, your messages resulted in 9001 tokens")


def script(steps: int = STEPS) -> Iterator[AIMessage]:
    """Replies that read files one after the other, in parallel now and then, and end."""
    yield from (call(n, "a", "b") if n % 7 == 3 else call(n) for n in range(steps))
    yield AIMessage("Done.")


def agent(infold: InfoldMiddleware, watch: Watch, replies: Iterator[AIMessage]) -> Any:
    return create_agent(
        Model(messages=replies),
        tools=[read_file],
        system_prompt="You are a careful reader.",
        middleware=[infold, watch],
        checkpointer=InMemorySaver(),
    )


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}, "recursion_limit": 500}


def tokens(messages: list[BaseMessage]) -> int:
    """A cautious count of a request."""
    return sum(len(str(message.content)) + len(str(getattr(message, "tool_calls", ""))) for message in messages) // 4


def check(watch: Watch) -> None:
    """Every request fits, has the rule, whole pairs, and LangChain's own objects for what was kept."""
    for sent, state in zip(watch.requests, watch.states, strict=True):
        assert tokens(sent) < WINDOW
        assert any(RULE in str(message.content) for message in sent)
        own = {id(message) for message in state}
        new = [message for message in sent if id(message) not in own]
        assert len(new) <= 1 or all(isinstance(message, HumanMessage | ToolMessage) for message in new)
        kept = [message.id for message in sent if id(message) in own]
        assert kept == [message.id for message in state if message.id in set(kept)]
        waiting: set[str] = set()
        for message in sent:
            if isinstance(message, ToolMessage):
                assert message.tool_call_id in waiting
                waiting.discard(message.tool_call_id)
            else:
                assert not waiting
                waiting = {one["id"] for one in getattr(message, "tool_calls", [])}


def test_a_long_loop_fits() -> None:
    """B43: in a loop of 60 tool steps every request fits, has the user's rule and whole pairs; the state keeps everything."""
    infold, watch = InfoldMiddleware(window=WINDOW), Watch()
    result = agent(infold, watch, script()).invoke({"messages": [HumanMessage(RULE)]}, config("one"))

    assert len(watch.requests) == STEPS + 1
    check(watch)
    assert len(watch.requests[-1]) < 30
    assert len(result["messages"]) == 2 + 2 * STEPS + sum(n % 7 == 3 for n in range(STEPS))
    assert {"read_file", "recall"} <= watch.offered


def test_a_long_loop_fits_when_it_is_awaited_and_streamed() -> None:
    """B43: so it is in an agent that is awaited, and in one that streams."""

    async def run() -> tuple[Watch, Watch]:
        awaited, streamed = Watch(), Watch()
        await agent(InfoldMiddleware(window=WINDOW), awaited, script()).ainvoke(
            {"messages": [HumanMessage(RULE)]}, config("one")
        )
        told = agent(InfoldMiddleware(window=WINDOW), streamed, script())
        async for _ in told.astream({"messages": [HumanMessage(RULE)]}, config("one"), stream_mode="messages"):
            pass
        return awaited, streamed

    for watch in asyncio.run(run()):
        assert len(watch.requests) == STEPS + 1
        check(watch)


def test_a_refusal_is_recovered() -> None:
    """B43: a refusal at step 30 is answered by a smaller request, and the loop goes on."""
    infold, watch = InfoldMiddleware(window=WINDOW), Watch(refused=30)
    result = agent(infold, watch, script()).invoke({"messages": [HumanMessage(RULE)]}, config("one"))

    assert len(watch.requests) == STEPS + 2
    assert tokens(watch.requests[30]) < tokens(watch.requests[29])
    assert result["messages"][-1].content == "Done."
    check(watch)


@pytest.mark.parametrize("refused", [22, 55])
@pytest.mark.usefixtures("only_folds")
def test_a_refusal_after_a_fold_is_recovered(refused: int) -> None:
    """B44: a request that was folded and is refused all the same is made smaller, in the same session."""
    infold, watch = InfoldMiddleware(window=WINDOW), Watch(refused=refused)
    result = agent(infold, watch, script()).invoke({"messages": [HumanMessage(RULE)]}, config("one"))

    assert "[Earlier conversation" in str(watch.requests[refused - 1])
    assert tokens(watch.requests[refused]) < tokens(watch.requests[refused - 1])
    assert len(watch.requests) == STEPS + 2
    assert result["messages"][-1].content == "Done."
    check(watch)
    assert len(list(infold.sessions.store.sessions(""))) == 1


def test_an_empty_reply_is_a_reply() -> None:
    """B44: a reply without content ends the run as it does without infold, and the thread goes on after it."""

    def replies() -> Iterator[AIMessage]:
        yield from (call(n) for n in range(20))
        yield AIMessage("")
        yield from script(25)

    infold, watch = InfoldMiddleware(window=WINDOW), Watch()
    told = agent(infold, watch, replies())
    ended = told.invoke({"messages": [HumanMessage(RULE)]}, config("one"))
    result = told.invoke({"messages": [HumanMessage("Go on.")]}, config("one"))

    assert (ended["messages"][-1].content, result["messages"][-1].content) == ("", "Done.")
    assert len(watch.requests) == 21 + 26
    check(watch)
    assert len(list(infold.sessions.store.sessions(""))) == 1


def test_another_error_is_raised_as_it_is() -> None:
    """B43: an error that is not about size passes through."""

    class Broken(Watch):
        def _see(self, request: Any) -> None:  # noqa: ARG002
            raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        agent(InfoldMiddleware(window=WINDOW), Broken(), script()).invoke(
            {"messages": [HumanMessage(RULE)]}, config("1")
        )


def test_usage_is_recorded() -> None:
    """B43: what replies report reaches the session."""
    infold, watch = InfoldMiddleware(window=WINDOW), Watch()
    agent(infold, watch, script(3)).invoke({"messages": [HumanMessage(RULE)]}, config("one"))

    store = infold.sessions.store
    entries = [entry for _, entry in store.newest_first(SessionKey("", SessionId("one")))]
    replies = [one.message for one in entries if isinstance(one, MessageEntry) and hasattr(one.message, "usage")]
    assert [reply.usage.prompt for reply in replies if reply.usage is not None] == [1_002, 1_001, 1_000]


def test_two_threads_stay_apart() -> None:
    """B43: two conversations through one middleware, with ids or without, see nothing of each other."""
    for ids in (("one", "two"), (None, None)):
        infold, watch = InfoldMiddleware(window=WINDOW), Watch()
        for name, thread in zip(("alpha", "beta"), ids, strict=True):
            told = create_agent(Model(messages=script(30)), tools=[read_file], middleware=[infold, watch])
            settings: Any = config(thread) if thread else {"recursion_limit": 500}
            told.invoke({"messages": [HumanMessage(f"{RULE} For {name}.")]}, settings)
        first, second = watch.requests[:31], watch.requests[31:]
        assert all("beta" not in str(message.content) for sent in first for message in sent)
        assert all("alpha" not in str(message.content) for sent in second for message in sent)


def test_a_model_recalls_what_was_folded() -> None:
    """B43: the recall tool, called by the model in LangChain's way, brings back a folded result."""

    def replies() -> Iterator[AIMessage]:
        yield from (call(n) for n in range(30))
        yield AIMessage("", tool_calls=[{"name": "recall", "args": {"query": "src/a0.py"}, "id": "r1"}])
        yield AIMessage("Done.")

    infold, watch = InfoldMiddleware(window=WINDOW), Watch()
    result = agent(infold, watch, replies()).invoke({"messages": [HumanMessage(RULE)]}, config("one"))

    answer = next(message for message in result["messages"] if getattr(message, "tool_call_id", "") == "r1")
    assert "src/a0.py: all went well" in answer.content


def test_invalid_calls_keep_their_answers() -> None:
    """B43: a call that LangChain could not parse is a call, so that its answer is sent with it."""
    bad = AIMessage("", invalid_tool_calls=[{"name": "read_file", "args": "{path", "id": "x1", "error": "not JSON"}])
    answer = ToolMessage("The arguments were not JSON.", tool_call_id="x1", status="error")
    infold, watch = InfoldMiddleware(window=WINDOW), Watch()
    agent(infold, watch, script(0)).invoke({"messages": [HumanMessage(RULE), bad, answer]}, config("one"))

    assert [type(message) for message in watch.requests[0]] == [HumanMessage, AIMessage, ToolMessage]


def test_a_short_conversation_is_not_touched() -> None:
    """B43: while nothing is cut, the request is LangChain's own, even where a call has no result yet."""
    open_call = call(1)
    infold, watch = InfoldMiddleware(window=WINDOW), Watch()
    agent(infold, watch, script(0)).invoke(
        {"messages": [HumanMessage(RULE), open_call, HumanMessage("Go on.")]}, config("1")
    )

    assert len(watch.requests[0]) == 3


def test_a_wrong_option_is_named() -> None:
    """B43: an option that no plug has is refused with the known ones."""
    with pytest.raises(UsageError, match="windw"):
        InfoldMiddleware(windw=3)  # type: ignore[call-arg]


def converse(infold: InfoldMiddleware, name: str, watch: Watch, *, is_async: bool = False) -> list[BaseMessage]:
    """Run a conversation without a thread id whose tool shows its secret, and which recalls it, then something unknown."""

    def read_file(path: str) -> str:
        """Read a file."""
        return f"{path}: secret-{name} is written here\n" * 120

    def replies() -> Iterator[AIMessage]:
        yield from (call(n) for n in range(12))
        for n, query in enumerate(("secret", "src/a3.py", "1.0, 2.0, 4.0")):
            yield AIMessage("", tool_calls=[{"name": "recall", "args": {"query": query}, "id": f"r{n}"}])
        yield AIMessage("Done.")

    told = create_agent(Model(messages=replies()), tools=[read_file], middleware=[infold, watch])
    given: Any = {"messages": [HumanMessage("Hello")]}, {"recursion_limit": 500}
    return (asyncio.run(told.ainvoke(*given)) if is_async else told.invoke(*given))["messages"]


def check_apart(name: str, watch: Watch, messages: list[BaseMessage]) -> None:
    other = {"anna": "secret-bert", "bert": "secret-anna"}[name]
    assert other not in str([message.content for sent in [*watch.requests, messages] for message in sent])
    answers = {one.tool_call_id: one.content for one in messages if isinstance(one, ToolMessage)}
    assert all(f"secret-{name}" in answers[f"r{n}"] for n in range(3))


def test_conversations_that_begin_alike_recall_their_own() -> None:
    """B43: two conversations without a thread id, in turn and at once, are never shown each other's text."""
    infold, names = InfoldMiddleware(window=WINDOW), ("anna", "bert")
    for name in names:
        watch = Watch()
        check_apart(name, watch, converse(infold, name, watch))
    for is_async in (False, True):
        infold, watches = InfoldMiddleware(window=WINDOW), {name: Watch() for name in names}
        together = Barrier(2)

        def run(
            name: str, infold: Any = infold, watches: Any = watches, together: Any = together, way: bool = is_async
        ) -> None:
            together.wait()
            check_apart(name, watches[name], converse(infold, name, watches[name], is_async=way))

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(run, names))


@pytest.mark.usefixtures("only_folds")
def test_a_tool_named_recall_is_left_alone() -> None:
    """B43: an agent's own tool called recall is offered and run; infold's has another name, which the stubs name too."""

    def recall(query: str) -> str:
        """Recall a fact of the company."""
        return f"the company knows {query}"

    def replies() -> Iterator[AIMessage]:
        yield from (call(n) for n in range(12))
        yield AIMessage("", tool_calls=[{"name": "recall", "args": {"query": "tides"}, "id": "r1"}])
        yield AIMessage("", tool_calls=[{"name": "infold_recall", "args": {"query": "src/a0.py"}, "id": "r2"}])
        yield AIMessage("Done.")

    infold, watch = InfoldMiddleware(window=WINDOW), Offers()
    told = create_agent(Model(messages=replies()), tools=[recall, read_file], middleware=[infold, watch])
    messages = told.invoke({"messages": [HumanMessage(RULE)]}, {"recursion_limit": 500})["messages"]

    answers = {one.tool_call_id: one.content for one in messages if isinstance(one, ToolMessage)}
    assert answers["r1"] == "the company knows tides"
    assert "src/a0.py: all went well" in answers["r2"]
    assert watch.each[0] == ["recall", "read_file"]
    assert watch.each[-1] == ["recall", "read_file", "infold_recall"]
    folded = str(watch.requests[-1][0].content)
    assert "with the infold_recall tool" in folded


def test_recall_is_offered_when_it_is_of_use() -> None:
    """B43: recall is offered once something was folded, and never to an agent without tools."""
    watch = Offers()
    create_agent(
        Model(messages=script(12)), tools=[read_file], middleware=[InfoldMiddleware(window=WINDOW), watch]
    ).invoke({"messages": [HumanMessage(RULE)]}, {"recursion_limit": 500})
    assert watch.each[0] == ["read_file"]
    assert watch.each[-1] == ["read_file", "recall"]

    watch, long = (
        Offers(),
        [HumanMessage(RULE), *(AIMessage("It is so. " * 900) for _ in range(9)), HumanMessage("Go.")],
    )
    alone = create_agent(Model(messages=script(0)), tools=[], middleware=[InfoldMiddleware(window=WINDOW), watch])
    alone.invoke({"messages": long}, {"recursion_limit": 500})
    assert len(watch.requests[0]) < len(long)
    assert watch.each == [[]]


class Offers(Watch):
    """Sees which tools each request offers."""

    def __init__(self) -> None:
        super().__init__()
        self.each: list[list[str]] = []

    def _see(self, request: Any) -> None:
        super()._see(request)
        self.each.append([tool.name for tool in request.tools])
