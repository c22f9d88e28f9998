"""Haystack's compactor, with Haystack's own agent, hook and mock model; skipped where Haystack is not installed."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("haystack")

from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.core.serialization import allow_deserialization_module
from haystack.dataclasses import ChatMessage, ImageContent, ReasoningContent, ToolCall
from haystack.hooks.compaction import CompactionHook
from haystack.token_counters import ApproximateTokenCounter
from haystack.tools import tool

from infold import UsageError, preset
from infold.core.entries import Amendment, Checkpoint, MessageEntry
from infold.core.ledger import CHECKPOINT_MARK
from infold.integrations.haystack import MARK, InfoldCompactor

pytestmark = [pytest.mark.frameworks, pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*experimental")]

RULE = "Read every file. Never touch vendor/."
STEPS = 60
WINDOW = 8_192


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}: all went well\n" * (12_000 if "big" in path else 120)


def reads(number: int, *names: str) -> ChatMessage:
    """A reply that reads one file or several."""
    calls = [ToolCall("read_file", {"path": f"src/{name}{number}.py"}, id=f"{name}{number}") for name in names or "a"]
    return ChatMessage.from_assistant(tool_calls=calls)


def script(steps: int = STEPS) -> Iterator[ChatMessage]:
    """Replies that read files one after the other, in parallel now and then, and end."""
    yield from (reads(n, "a", "b") if n % 7 == 3 else reads(n) for n in range(steps))
    yield ChatMessage.from_assistant("Done.")


class Scripted:
    """What Haystack's mock model answers: the next reply of a script, with usage; it keeps what it was sent."""

    def __init__(self, replies: Iterator[ChatMessage]) -> None:
        self.requests: list[list[ChatMessage]] = []
        self._replies = replies

    def __call__(self, messages: list[ChatMessage], tools: Any) -> ChatMessage:  # noqa: ARG002
        self.requests.append(list(messages))
        usage = {"prompt_tokens": tokens(messages) + 300, "completion_tokens": 20}
        return replace(next(self._replies), _meta={"usage": usage})


class Watch(InfoldCompactor):
    """Sees what Haystack gives and what is returned, to compare objects."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seen: list[tuple[list[ChatMessage], list[ChatMessage] | None]] = []

    def compact(self, messages: Any, target_tokens: int, token_counter: Any) -> Any:
        shorter = super().compact(messages, target_tokens, token_counter)
        self.seen.append((list(messages), shorter))
        return shorter

    async def compact_async(self, messages: Any, target_tokens: int, token_counter: Any) -> Any:
        shorter = await super().compact_async(messages, target_tokens, token_counter)
        self.seen.append((list(messages), shorter))
        return shorter


def agent(infold: InfoldCompactor, model: Scripted, **options: Any) -> Agent:
    return Agent(
        chat_generator=MockChatGenerator(response_fn=model),
        tools=[read_file, infold.recall],
        system_prompt="You are a careful reader.",
        hooks={"before_llm": [CompactionHook(infold, context_window=WINDOW)]},
        max_agent_steps=200,
        **options,
    )


def tokens(messages: list[ChatMessage]) -> int:
    return ApproximateTokenCounter().count(messages)


def text_of(message: ChatMessage) -> str:
    return message.text or " ".join(str(result.result) for result in message.tool_call_results)


def check(infold: Watch, model: Scripted) -> None:
    """Every request fits, has the rule, whole pairs and at most one checkpoint; what was kept is Haystack's own object."""
    for sent in model.requests:
        assert tokens(sent) < WINDOW
        assert sent[0].is_from("system")
        assert any(RULE in text_of(message) for message in sent)
        assert sum(text_of(message).count(CHECKPOINT_MARK) for message in sent) <= 1
        waiting: list[str | None] = []
        for message in sent:
            if message.tool_call_results:
                waiting.remove(message.tool_call_results[0].origin.id)
            else:
                assert not waiting
                waiting = [one.id for one in message.tool_calls]
        assert not waiting
    for given, shorter in infold.seen:
        assert shorter is not None
        own = {id(message): place for place, message in enumerate(given)}
        new = [message for message in shorter if id(message) not in own]
        assert all(MARK in message.meta or message.tool_call_results for message in new)
        places = [own[id(message)] for message in shorter if id(message) in own]
        assert places == sorted(places)
        assert tokens(shorter) < tokens(given)


def run(told: Agent, text: str = RULE) -> Any:
    return told.run(messages=[ChatMessage.from_user(text)])


def test_a_long_loop_fits() -> None:
    """B44: in a loop of 60 tool steps every request fits and has the rule, whole pairs, and one checkpoint after many folds."""
    infold, model = Watch(window=WINDOW), Scripted(script())
    result = run(agent(infold, model))

    assert len(model.requests) == STEPS + 1
    check(infold, model)
    assert len(infold.seen) >= 4
    assert sum(text_of(message).count(CHECKPOINT_MARK) for message in result["messages"]) == 1
    assert len(result["messages"]) < 30
    (session,) = infold.sessions.store.sessions("")
    entries = [entry for _, entry in infold.sessions.store.newest_first(session.key)]
    assert sum(isinstance(entry, Checkpoint) for entry in entries) >= 4


def test_kept_steps_come_back_and_are_known() -> None:
    """B44, B52: steps that folds kept are stored by the agent with their stubs, and come back; none is kept or stored twice."""
    infold, model = Watch(window=WINDOW, policy=preset("infold").with_memory(0.3)), Scripted(script())
    run(agent(infold, model))
    check(infold, model)
    (stored,) = infold.sessions.store.sessions("")
    entries = [entry for _, entry in infold.sessions.store.newest_first(stored.key)]
    folds = [entry for entry in entries if isinstance(entry, Checkpoint)]

    assert len(folds) >= 10
    assert all(fold.steps for fold in folds)
    assert not any(isinstance(entry, Amendment) for entry in entries)
    assert sum(isinstance(entry, MessageEntry) for entry in entries) == 1 + len(script_messages())
    for sent in model.requests:
        ids = [call.id for message in sent for call in message.tool_calls]
        assert len(ids) == len(set(ids))
    assert any("[pruned; recall" in text_of(message) for message in model.requests[-1])


def script_messages() -> list[str]:
    """The messages of the loop that the session holds: each reply but the last, and each result."""
    return [str(one) for reply in script() for one in (reply, *reply.tool_calls)][:-1]


def test_a_long_loop_fits_when_it_is_awaited_and_streamed() -> None:
    """B44: so it is in an agent that is awaited, and in one that streams."""
    awaited, streamed = ((Watch(window=WINDOW), Scripted(script())) for _ in range(2))
    asyncio.run(agent(*awaited).run_async(messages=[ChatMessage.from_user(RULE)]))
    chunks: list[Any] = []
    run(agent(*streamed, streaming_callback=chunks.append))

    assert chunks
    for infold, model in (awaited, streamed):
        assert len(model.requests) == STEPS + 1
        check(infold, model)


def test_an_empty_reply_is_a_reply() -> None:
    """B44: Haystack's agent asks again after a reply without content, as it does without infold."""

    def replies() -> Iterator[ChatMessage]:
        yield from (reads(n) for n in range(20))
        yield ChatMessage.from_assistant("")
        yield from script(20)

    infold, model = Watch(window=WINDOW), Scripted(replies())
    result = run(agent(infold, model))

    assert result["messages"][-1].text == "Done."
    assert len(model.requests) == 21 + 21
    check(infold, model)
    assert len(list(infold.sessions.store.sessions(""))) == 1


def test_usage_is_kept_after_a_checkpoint() -> None:
    """B44: what replies report is recorded, also of those that come back with a checkpoint before them."""
    infold, model = Watch(window=WINDOW), Scripted(script())
    run(agent(infold, model))
    (session,) = infold.sessions.store.sessions("")
    entries = [entry for _, entry in infold.sessions.store.newest_first(session.key)]
    replies = [one.message for one in entries if isinstance(one, MessageEntry) and hasattr(one.message, "usage")]
    given = {
        message.meta["usage"]["prompt_tokens"]
        for messages, _ in infold.seen
        for message in messages
        if "usage" in message.meta
    }

    assert len(infold.seen) > 3
    assert given <= {one.usage.prompt for one in replies if one.usage is not None}


def test_what_was_folded_is_stored_once_and_with_its_usage() -> None:
    """B44: a session holds each message of the loop once, and the usage that replies have in their metadata."""
    infold, model = Watch(window=WINDOW), Scripted(script())
    run(agent(infold, model))

    (session,) = infold.sessions.store.sessions("")
    entries = [entry for _, entry in infold.sessions.store.newest_first(session.key)]
    messages: list[Any] = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    paths = [
        path for path in (f"src/a{n}.py: all" for n in range(20)) if sum(path in str(one) for one in messages) != 1
    ]
    assert not paths
    reported = [message.meta["usage"]["prompt_tokens"] for message in infold.seen[0][0] if "usage" in message.meta]
    found = [one.usage.prompt for one in reversed(messages) if getattr(one, "usage", None) is not None]
    assert reported
    assert found[: len(reported)] == reported


def test_a_later_run_goes_on_from_the_checkpoint() -> None:
    """B44: messages that went through JSON, with the checkpoint of an earlier run, continue its session."""
    infold = Watch(window=WINDOW)
    result = run(agent(infold, Scripted(script(30))))
    stored = [ChatMessage.from_dict(json.loads(json.dumps(one.to_dict()))) for one in result["messages"][1:]]
    model = Scripted(script(30))
    again = agent(infold, model).run(messages=[*stored, ChatMessage.from_user("Go on.")])

    check(infold, model)
    assert sum(text_of(message).count(CHECKPOINT_MARK) for message in again["messages"]) == 1
    assert len(list(infold.sessions.store.sessions(""))) == 1


def test_two_conversations_stay_apart() -> None:
    """B44: two conversations through one compactor see nothing of each other, not even by recall."""
    infold = InfoldCompactor(window=WINDOW)
    for name, other in (("alpha", "beta"), ("beta", "alpha")):

        def replies() -> Iterator[ChatMessage]:
            yield from (reads(n) for n in range(30))
            yield ChatMessage.from_assistant(tool_calls=[ToolCall("recall", {"query": "For alpha beta"}, id="r1")])
            yield ChatMessage.from_assistant("Done.")

        model = Scripted(replies())
        run(agent(infold, model), f"{RULE} For {name}.")
        assert all(f"For {other}" not in text_of(message) for sent in model.requests for message in sent)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_model_recalls_what_was_folded(is_async: bool) -> None:
    """B44: the recall tool, called by the model in Haystack's way, brings back a folded result."""

    def replies() -> Iterator[ChatMessage]:
        yield from (reads(n) for n in range(30))
        yield ChatMessage.from_assistant(tool_calls=[ToolCall("recall", {"query": "src/a0.py"}, id="r1")])
        yield ChatMessage.from_assistant("Done.")

    infold, model = Watch(window=WINDOW), Scripted(replies())
    told = agent(infold, model)
    if is_async:
        asyncio.run(told.run_async(messages=[ChatMessage.from_user(RULE)]))
    else:
        run(told)

    assert "src/a0.py: all went well" in text_of(model.requests[-1][-1])


def test_a_result_larger_than_the_window_is_shortened() -> None:
    """B44: one result that no window holds stays in part, with its call, and can be recalled."""
    infold, model = Watch(window=WINDOW), Scripted(iter([reads(0, "big", "a"), ChatMessage.from_assistant("Done.")]))
    result = run(agent(infold, model))

    check(infold, model)
    results = [one.tool_call_result for one in model.requests[-1] if one.tool_call_result is not None]
    assert [(one.origin.tool_name, one.origin.id) for one in results] == [("read_file", "big0"), ("read_file", "a0")]
    assert "big0.py: all went well" in infold.recall.invoke(query="src/big0.py", messages=result["messages"])


def test_odd_messages_are_taken() -> None:
    """B44: calls without ids, failed results, images, reasoning and empty replies neither fail nor lose their pairs."""
    nameless, failed = ToolCall("read_file", {"path": "a"}), ToolCall("read_file", {}, id="x1")
    image = ImageContent(base64_image="aGVsbG8=", mime_type="image/png", validation=False)
    odd = [
        ChatMessage.from_user(content_parts=[RULE, image]),
        ChatMessage.from_assistant("", tool_calls=[nameless], reasoning=ReasoningContent("hm")),
        ChatMessage.from_tool("all went well\n" * 300, origin=nameless),
        ChatMessage.from_assistant(tool_calls=[failed]),
        ChatMessage.from_tool("no such file", origin=failed, error=True),
        ChatMessage.from_assistant(tool_calls=[ToolCall("shot", {}, id="x2")]),
        ChatMessage.from_tool([image], origin=ToolCall("shot", {}, id="x2")),
        ChatMessage.from_assistant(""),
    ]
    rest = [
        message
        for n in range(12)
        for message in (reads(n), ChatMessage.from_tool("fine\n" * 800, reads(n).tool_calls[0]))
    ]
    shorter = InfoldCompactor(window=WINDOW).compact([*odd, *rest], 3_000, ApproximateTokenCounter())

    assert shorter is not None
    assert RULE in text_of(shorter[0])
    assert shorter[-1] is rest[-1]
    assert InfoldCompactor(window=WINDOW).compact(odd[:2], 3_000, ApproximateTokenCounter()) is None
    assert InfoldCompactor(window=WINDOW).compact([], 3_000, ApproximateTokenCounter()) is None


def test_a_compactor_is_written_down_and_read() -> None:
    """B44: the hook with its compactor goes through a dict; an option that is an object is refused by name."""
    hook = CompactionHook(InfoldCompactor(window=WINDOW, session="team"), context_window=WINDOW)
    allow_deserialization_module("infold.integrations.haystack")
    again = CompactionHook.from_dict(json.loads(json.dumps(hook.to_dict())))

    assert again.to_dict() == hook.to_dict()
    with pytest.raises(UsageError, match="summariser"):
        InfoldCompactor(window=WINDOW, summariser=str).to_dict()


def test_the_window_is_needed() -> None:
    """B44: without window and model there is an error that says what to give; so there is for an option that no plug has."""
    with pytest.raises(UsageError, match="window"):
        InfoldCompactor()
    with pytest.raises(UsageError, match="windw"):
        InfoldCompactor(window=WINDOW, windw=3)  # type: ignore[call-arg]


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B44: the example of the guide runs."""
    page = Path("docs/guides/frameworks/haystack.md").read_text("utf-8")
    model = Scripted(script(1))
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/a0.py").write_text("import feed", "utf-8")
    exec(page.partition("```python\n")[2].partition("```")[0], {"chat_generator": MockChatGenerator(response_fn=model)})

    assert "import feed" in text_of(model.requests[-1][-1])
    assert Path("sessions.db").exists()


def secretive(infold: InfoldCompactor, name: str) -> tuple[Scripted, Agent]:
    """An agent whose tool shows its secret, and which recalls it."""

    @tool
    def read_file(path: str) -> str:
        """Read a file."""
        return f"{path}: secret-{name} is written here\n" * 120

    def replies() -> Iterator[ChatMessage]:
        yield from (reads(n) for n in range(12))
        for n, query in enumerate(("secret", "src/a3.py", "1.0, 2.0, 4.0")):
            yield ChatMessage.from_assistant(tool_calls=[ToolCall("recall", {"query": query}, id=f"r{n}")])
        yield ChatMessage.from_assistant("Done.")

    model = Scripted(replies())
    hooks: Any = {"before_llm": [CompactionHook(infold, context_window=WINDOW)]}
    generator = MockChatGenerator(response_fn=model)
    return model, Agent(chat_generator=generator, tools=[read_file, infold.recall], hooks=hooks, max_agent_steps=200)


@pytest.mark.parametrize("session", [None, "team"])
def test_conversations_that_begin_alike_recall_their_own(session: str | None) -> None:
    """B44: conversations with the same first words, in turn and at once, are never shown each other's text."""
    infold, names = InfoldCompactor(window=WINDOW, session=session), ("anna", "bert")
    told = [secretive(infold, name) for name in names * 2]

    async def at_once() -> list[Any]:
        hello = [ChatMessage.from_user("Hello")]
        return await asyncio.gather(*(one.run_async(messages=hello) for _, one in told[2:]))

    results = [run(told[0][1], "Hello"), run(told[1][1], "Hello"), *asyncio.run(at_once())]
    for name, (model, _), result in zip(names * 2, told, results, strict=True):
        other = {"anna": "secret-bert", "bert": "secret-anna"}[name]
        assert all(other not in text_of(message) for sent in model.requests for message in sent)
        found = [one for message in result["messages"] for one in message.tool_call_results]
        assert all(other not in str(one.result) for one in found)
        answers = {one.origin.id: str(one.result) for one in found}
        assert all(f"secret-{name}" in answers[f"r{n}"] for n in range(3))


@pytest.mark.usefixtures("only_folds")
def test_a_tool_named_recall_is_left_alone() -> None:
    """B44: an agent with a tool called recall gives infold's another name, which the stubs name too."""

    @tool
    def recall(query: str) -> str:
        """Recall a fact of the company."""
        return f"the company knows {query}"

    def replies() -> Iterator[ChatMessage]:
        yield from (reads(n) for n in range(12))
        yield ChatMessage.from_assistant(tool_calls=[ToolCall("recall", {"query": "tides"}, id="r1")])
        yield ChatMessage.from_assistant(tool_calls=[ToolCall("infold_recall", {"query": "src/a0.py"}, id="r2")])
        yield ChatMessage.from_assistant("Done.")

    infold, model = InfoldCompactor(window=WINDOW, recall_name="infold_recall"), Scripted(replies())
    hooks: Any = {"before_llm": [CompactionHook(infold, context_window=WINDOW)]}
    tools: Any = [recall, read_file, infold.recall]
    generator = MockChatGenerator(response_fn=model)
    result = run(Agent(chat_generator=generator, tools=tools, hooks=hooks, max_agent_steps=200))
    found = [one for message in result["messages"] for one in message.tool_call_results]
    answers = {one.origin.id: str(one.result) for one in found}
    assert answers["r1"] == "the company knows tides"
    assert "src/a0.py: all went well" in answers["r2"]
    assert any("with the infold_recall tool" in text_of(message) for message in model.requests[-1])
