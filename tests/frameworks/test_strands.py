"""Strands' middleware, with Strands' own agent loop and a model that follows a script; skipped where Strands is not installed."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

pytest.importorskip("strands")

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models import Model
from strands.types.exceptions import ContextWindowOverflowException

from infold import UsageError
from infold.core.entries import MessageEntry
from infold.core.messages import SessionId
from infold.integrations.strands import InfoldMiddleware
from infold.ports import SessionKey

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

RULE = "Read every file. Never touch vendor/."
STEPS = 60
WINDOW = 8_192
TOO_LONG = "Input is too long for requested model: 9001 tokens > 8192 maximum"


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}: all went well\n" * (12_000 if "big" in path else 120)


Calls = list[tuple[str, str, str]]
"""The calls of a reply: id, tool and arguments as JSON; a reply without calls is the last one."""


def reads(number: int, *names: str) -> Calls:
    return [(f"{name}{number}", "read_file", json.dumps({"path": f"src/{name}{number}.py"})) for name in names or "a"]


def script(steps: int = STEPS) -> Iterator[Calls]:
    """Replies that read files one after the other, in parallel now and then, and end."""
    yield from (reads(n, "a", "b") if n % 7 == 3 else reads(n) for n in range(steps))
    yield []


class Scripted(Model):
    """Streams replies of a script with their usage, and keeps what it was sent; refuses the request of one step."""

    def __init__(self, replies: Iterator[Calls], refused: int = -1, error: Exception | None = None) -> None:
        self.config: Any = {"model_id": "scripted"}
        self.requests: list[list[Any]] = []
        self.offered: set[str] = set()
        self._replies, self._refused = replies, refused
        self._error = error or ContextWindowOverflowException(TOO_LONG)

    def update_config(self, **_: Any) -> None:
        """Keep the configuration."""

    def get_config(self) -> Any:
        return self.config

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, tool_specs: Any = None, *_: Any, **__: Any) -> AsyncIterator[Any]:
        self.requests.append(messages)
        self.offered |= {spec["name"] for spec in tool_specs or ()}
        if len(self.requests) == self._refused:
            raise self._error
        calls = next(self._replies)
        yield {"messageStart": {"role": "assistant"}}
        for call_id, name, arguments in calls:
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": call_id, "name": name}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": arguments}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "Done."}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}
        number = 1_000 + len(self.requests)
        usage = {"inputTokens": number, "outputTokens": 20, "totalTokens": number + 20}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


class Watch(InfoldMiddleware):
    """Sees what Strands gives and what is sent, to compare objects."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seen: list[tuple[list[Any], list[Any]]] = []

    async def __call__(self, context: Any, next_fn: Any) -> AsyncIterator[Any]:
        def watched(fitted: Any) -> Any:
            self.seen.append((context.messages, fitted.messages))
            return next_fn(fitted)

        async for event in super().__call__(context, watched):
            yield event


def agent(infold: InfoldMiddleware, model: Model, **options: Any) -> Agent:
    return Agent(
        model=model,
        tools=[read_file],
        system_prompt="You are a careful reader.",
        plugins=[infold],
        callback_handler=None,
        **{"conversation_manager": NullConversationManager(), **options},
    )


def blocks(messages: list[Any], kind: str) -> list[Any]:
    return [block[kind] for message in messages for block in message["content"] if kind in block]


def tokens(messages: list[Any]) -> int:
    """A cautious count of a request."""
    return len(json.dumps(messages)) // 4


def check(infold: Watch, model: Scripted) -> None:
    """Every request fits, has the rule, whole pairs and roles in turn, and Strands' own objects for what was kept."""
    for sent in model.requests:
        assert tokens(sent) < WINDOW
        assert any(RULE in text for text in blocks(sent, "text"))
        assert [message["role"] for message in sent] == [("user", "assistant")[n % 2] for n in range(len(sent))]
        for before, after in zip(sent, [*sent[1:], {"content": []}], strict=True):
            called = [call["toolUseId"] for call in blocks([before], "toolUse")]
            assert [result["toolUseId"] for result in blocks([after], "toolResult")] == called
    for given, sent in infold.seen:
        own = {id(message) for message in given}
        new = [message for message in sent if id(message) not in own]
        assert all(message is sent[0] or blocks([message], "toolResult") for message in new)
        places = [next(n for n, one in enumerate(given) if one is message) for message in sent if id(message) in own]
        assert places == sorted(places)


def test_a_long_loop_fits() -> None:
    """B44: in a loop of 60 tool steps every request fits, has the user's rule and whole pairs; the agent keeps everything."""
    infold, model = Watch(window=WINDOW), Scripted(script())
    told = agent(infold, model)
    told(RULE)

    assert len(model.requests) == STEPS + 1
    check(infold, model)
    assert len(model.requests[-1]) < 30
    assert all(sent[-1] is given[-1] for given, sent in infold.seen)
    assert len(told.messages) == 2 + 2 * STEPS
    assert {"read_file", "recall"} <= model.offered


def test_a_long_loop_fits_when_it_is_awaited_and_streamed() -> None:
    """B44: so it is in an agent that is awaited, and in one that streams."""

    async def run() -> list[tuple[Watch, Scripted]]:
        awaited, streamed = ((Watch(window=WINDOW), Scripted(script())) for _ in range(2))
        await agent(*awaited).invoke_async(RULE)
        async for _ in agent(*streamed).stream_async(RULE):
            pass
        return [awaited, streamed]

    for infold, model in asyncio.run(run()):
        assert len(model.requests) == STEPS + 1
        check(infold, model)


@pytest.mark.parametrize("said", [TOO_LONG, "no"])
def test_a_refusal_is_recovered(said: str) -> None:
    """B44: a refusal at step 30 is answered by a smaller request, whatever the provider's words, and the loop goes on."""
    infold, model = Watch(window=WINDOW), Scripted(script(), 30, ContextWindowOverflowException(said))
    told = agent(infold, model)
    result = told(RULE)

    assert len(model.requests) == STEPS + 2
    assert tokens(model.requests[30]) < tokens(model.requests[29])
    assert "Done." in str(result)
    assert len(told.messages) == 2 + 2 * STEPS
    check(infold, model)


@pytest.mark.parametrize("refused", [22, 55])
@pytest.mark.usefixtures("only_folds")
def test_a_refusal_after_a_fold_is_recovered(refused: int) -> None:
    """B44: a request that was folded and is refused all the same is made smaller, in the same session."""
    infold, model = Watch(window=WINDOW), Scripted(script(), refused)
    result = agent(infold, model)(RULE)

    assert "[Earlier conversation" in str(model.requests[refused - 1])
    assert tokens(model.requests[refused]) < tokens(model.requests[refused - 1])
    assert len(model.requests) == STEPS + 2
    assert "Done." in str(result)
    check(infold, model)
    assert len(list(infold.sessions.store.sessions(""))) == 1


class Emptied(Scripted):
    """Answers one request with nothing."""

    async def stream(self, *arguments: Any, **keywords: Any) -> AsyncIterator[Any]:
        async for event in super().stream(*arguments, **keywords):
            if len(self.requests) != 20 or not any(name.startswith("contentBlock") for name in event):
                yield (
                    {"messageStop": {"stopReason": "end_turn"}} if event == USES and len(self.requests) == 20 else event
                )


USES = {"messageStop": {"stopReason": "tool_use"}}


def test_an_empty_reply_is_a_reply() -> None:
    """B44: a reply without content ends the turn as it does without infold; its usage is recorded, and the agent goes on."""
    infold, model = Watch(window=WINDOW), Emptied(script(30))
    told = agent(infold, model)
    ended, result = told(RULE), told("Go on.")

    assert (ended.stop_reason, ended.message["content"]) == ("end_turn", [])
    assert "Done." in str(result)
    assert len(model.requests) == 31
    check(infold, model)
    (session,) = infold.sessions.store.sessions("")
    entries = [entry for _, entry in infold.sessions.store.newest_first(session.key)]
    replies = [one.message for one in entries if isinstance(one, MessageEntry) and hasattr(one.message, "usage")]
    assert [one.usage.prompt for one in replies if one.usage is not None][::-1] == [1_001 + n for n in range(31)]


def test_tools_that_are_not_json_are_counted() -> None:
    """B44: a tool whose schema has something else than JSON is counted by what it prints, and the run goes on."""
    infold, model = Watch(window=WINDOW), Scripted(script(2))
    told = agent(infold, model)
    schema = told.tool_registry.registry["read_file"].tool_spec["inputSchema"]["json"]
    schema["properties"]["path"]["default"] = object()
    try:
        assert "Done." in str(told(RULE))
    finally:
        del schema["properties"]["path"]["default"]


def test_another_error_is_raised_as_it_is() -> None:
    """B44: an error that is not about size passes through."""
    model = Scripted(script(), 2, ValueError("no such model"))

    with pytest.raises(Exception, match="no such model"):
        agent(InfoldMiddleware(window=WINDOW), model)(RULE)
    assert len(model.requests) == 2


def test_usage_is_recorded() -> None:
    """B44: what replies report reaches the session, in which each message is stored once."""
    infold = InfoldMiddleware(window=WINDOW)
    told = agent(infold, Scripted(script(3)))
    told(RULE)

    key = SessionKey("", SessionId(told.session_id))
    entries = [entry for _, entry in infold.sessions.store.newest_first(key)]
    messages: list[Any] = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    found = [message.usage.prompt for message in messages if getattr(message, "usage", None) is not None]
    assert found == [1_004, 1_003, 1_002, 1_001]
    assert len(messages) == len(told.messages)


def test_usage_with_the_cache_inside_its_input_is_counted_once() -> None:
    """B44: a provider whose input includes what it read from its cache is not counted twice."""
    infold, model = InfoldMiddleware(window=WINDOW), Scripted(script(0))
    inner = model.stream

    async def stream(*given: Any, **options: Any) -> AsyncIterator[Any]:
        async for chunk in inner(*given, **options):
            if "metadata" in chunk:
                chunk["metadata"]["usage"]["cacheReadInputTokens"] = 600
            yield chunk

    model.stream = stream  # type: ignore[method-assign]
    told = agent(infold, model)
    told(RULE)

    entries = infold.sessions.store.newest_first(SessionKey("", SessionId(told.session_id)))
    reply: Any = next(entry.message for _, entry in entries if isinstance(entry, MessageEntry))
    assert reply.usage.prompt == 1_001


def test_two_agents_stay_apart() -> None:
    """B44: two agents with one middleware see nothing of each other, not even by recall."""
    infold = InfoldMiddleware(window=WINDOW)
    for name, other in (("alpha", "beta"), ("beta", "alpha")):

        def replies() -> Iterator[Calls]:
            yield from (reads(n) for n in range(30))
            yield [("r1", "recall", '{"query": "For alpha beta"}')]
            yield []

        model = Scripted(replies())
        agent(infold, model)(f"{RULE} For {name}.")
        assert all(other not in text for sent in model.requests for text in blocks(sent, "text"))
        answer = blocks(model.requests[-1], "toolResult")[-1]
        assert f"For {other}" not in json.dumps(answer)


def test_a_model_recalls_what_was_folded() -> None:
    """B44: the recall tool, called by the model in Strands' way, brings back a folded result."""

    def replies() -> Iterator[Calls]:
        yield from (reads(n) for n in range(30))
        yield [("r1", "recall", '{"query": "src/a0.py"}')]
        yield []

    infold, model = Watch(window=WINDOW), Scripted(replies())
    told = agent(infold, model)
    told(RULE)

    answer = next(result for result in blocks(told.messages, "toolResult") if result["toolUseId"] == "r1")
    assert "src/a0.py: all went well" in answer["content"][0]["text"]


def test_a_call_whose_arguments_are_not_json_keeps_its_answer() -> None:
    """B44: a call that Strands could not parse stays with its result."""

    def replies() -> Iterator[Calls]:
        yield [("x1", "read_file", "{path")]
        yield from script(30)

    infold, model = Watch(window=WINDOW), Scripted(replies())
    agent(infold, model)(RULE)

    check(infold, model)


def test_a_result_larger_than_the_window_is_shortened() -> None:
    """B44: one result that no window holds is sent in part, with its call; the agent keeps all of it."""
    infold, model = Watch(window=WINDOW), Scripted(iter([reads(0, "big", "a"), []]))
    told = agent(infold, model)
    told(RULE)

    check(infold, model)
    assert [result["toolUseId"] for result in blocks(model.requests[-1], "toolResult")] == ["big0", "a0"]
    assert tokens(told.messages) > 5 * WINDOW


def test_a_short_conversation_is_not_touched() -> None:
    """B44: while nothing is cut, the request is the very list that Strands made."""
    infold, model = Watch(window=WINDOW), Scripted(script(3))
    agent(infold, model)(RULE)

    assert all(given is sent for given, sent in infold.seen)


def test_blocks_that_are_injected_for_one_call_do_not_belong_to_the_history() -> None:
    """B44: what plugins put behind the last message of each call is sent, and the conversation stays one session."""
    infold, model = Watch(window=WINDOW), Scripted(script(40))
    told = agent(infold, model)

    def inject(context: Any) -> Any:
        messages = list(context.messages)
        messages[-1] = {**messages[-1], "content": [*messages[-1]["content"], {"text": f"Now: {len(messages)}"}]}
        return replace(context, messages=messages, dynamic_trailing_blocks=1)

    stage = next(one for one in told._middleware_registry._handlers if one.name == "invokeModel")
    told._middleware_registry.add_middleware(stage.Input, inject)  # a method only since 1.62
    told(RULE)

    assert [sent[-1]["content"][-1]["text"] for sent in model.requests] == [f"Now: {2 * n + 1}" for n in range(41)]
    assert all(sum("Now: " in text for text in blocks(sent, "text")) == 1 for sent in model.requests)
    assert len(list(infold.sessions.store.sessions(""))) == 1


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B44: the example of the guide runs."""
    page = Path("docs/guides/frameworks/strands.md").read_text("utf-8")
    model = Scripted(script(1))
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/a0.py").write_text("import feed", "utf-8")
    exec(page.partition("```python\n")[2].partition("```")[0], {"model": model})

    assert "import feed" in json.dumps(model.requests[-1])
    assert Path("sessions.db").exists()


def test_a_wrong_option_is_named() -> None:
    """B44: an option that no plug has is refused with the known ones."""
    with pytest.raises(UsageError, match="windw"):
        InfoldMiddleware(windw=3)  # type: ignore[call-arg]


def ask(number: int, query: str, name: str = "recall") -> Calls:
    return [(f"r{number}", name, json.dumps({"query": query}))]


def answers(messages: Any) -> dict[str, str]:
    return {one["toolUseId"]: json.dumps(one["content"]) for one in blocks(messages, "toolResult")}


def converse(infold: InfoldMiddleware, name: str, told: Agent | None = None) -> tuple[Scripted, Agent]:
    """Run a conversation whose tool shows its secret, and which recalls it; in a new agent, or in one that forgot another."""

    @tool
    def read_file(path: str) -> str:
        """Read a file."""
        return f"{path}: secret-{name} is written here\n" * 120

    def replies() -> Iterator[Calls]:
        yield from (reads(n) for n in range(12))
        yield from (ask(n, query) for n, query in enumerate(("secret", "src/a3.py", "1.0, 2.0, 4.0")))
        yield []

    model = Scripted(replies())
    if told is None:
        told = Agent(model=model, tools=[read_file], plugins=[infold], callback_handler=None)
    else:
        told.model, told.messages = model, []
        told.tool_registry.registry["read_file"] = read_file
    told("Hello")
    return model, told


def test_conversations_that_begin_alike_recall_their_own() -> None:
    """B44: conversations with the same first words, in turn, in one agent and at once, are never shown each other's text."""
    names = ("anna", "bert")
    infold = InfoldMiddleware(window=WINDOW)
    ran = [(name, *converse(infold, name)) for name in names]
    ran += [(name, *converse(infold, name, ran[0][2])) for name in reversed(names)][:1]
    shared, together = InfoldMiddleware(window=WINDOW), Barrier(2)

    def at_once(name: str) -> Any:
        together.wait()
        return (name, *converse(shared, name))

    with ThreadPoolExecutor(2) as pool:
        ran += pool.map(at_once, names)
    for name, model, _ in ran:
        other = {"anna": "secret-bert", "bert": "secret-anna"}[name]
        assert other not in str(model.requests)
        seen = answers(model.requests[-1])
        assert all(f"secret-{name}" in seen.get(f"r{n}", f"secret-{name}") for n in range(3))
        assert f"secret-{name}" in seen["r2"]


@pytest.mark.usefixtures("only_folds")
def test_a_tool_named_recall_is_left_alone() -> None:
    """B44: an agent's own tool called recall is offered and run; infold's has another name, which the stubs name too."""

    @tool
    def recall(query: str) -> str:
        """Recall a fact of the company."""
        return f"the company knows {query}"

    def replies() -> Iterator[Calls]:
        yield from (reads(n) for n in range(12))
        yield ask(1, "tides")
        yield ask(2, "src/a0.py", "infold_recall")
        yield []

    model = Scripted(replies())
    told = Agent(
        model=model, tools=[recall, read_file], plugins=[InfoldMiddleware(window=WINDOW)], callback_handler=None
    )
    told(RULE)
    seen = answers(told.messages)
    assert "the company knows tides" in seen["r1"]
    assert "src/a0.py: all went well" in seen["r2"]
    assert model.offered == {"recall", "read_file", "infold_recall"}
    assert "with the infold_recall tool" in str(model.requests[-1])


def test_recall_is_offered_when_it_is_of_use() -> None:
    """B44: recall is offered once something was folded, and never to an agent without tools."""
    model = Scripted(script(1))
    agent(InfoldMiddleware(window=WINDOW), model)(RULE)
    assert model.offered == {"read_file"}

    model = Scripted(script(0))
    turns = [("user", RULE), *((("assistant", "user")[n % 2], "So. " * 3_000) for n in range(9))]
    history: Any = [{"role": role, "content": [{"text": text}]} for role, text in turns]
    told = Agent(
        model=model,
        plugins=[InfoldMiddleware(window=WINDOW)],
        messages=history,
        callback_handler=None,
        conversation_manager=NullConversationManager(),
    )
    told("Go on.")
    assert len(model.requests[0]) < len(history)
    assert model.offered == set()
