"""Agent Framework's middleware, with the framework's own loop and a client that follows a script; skipped where it is missing."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agent_framework")

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddleware,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    ResponseStream,
)
from agent_framework.exceptions import ChatClientException

from infold import UsageError
from infold.core.entries import MessageEntry
from infold.integrations.agent_framework import InfoldChatMiddleware

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

RULE = "Read every file. Never touch vendor/."
STEPS = 60
WINDOW = 8_192
TOO_LONG = "maximum context length is 8192 tokens, your messages resulted in 9001 tokens"


def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}: all went well\n" * (12_000 if "big" in path else 120)


def reads(number: int, *names: str) -> list[Content]:
    """The contents of a reply that reads one file or several."""
    return [
        Content.from_function_call(
            f"{name}{number}", "read_file", arguments=json.dumps({"path": f"src/{name}{number}.py"})
        )
        for name in names or "a"
    ]


def script(steps: int = STEPS) -> Iterator[list[Content]]:
    """Replies that read files one after the other, in parallel now and then, and end."""
    yield from (reads(n, "a", "b") if n % 7 == 3 else reads(n) for n in range(steps))
    yield [Content.from_text("Done.")]


class Client(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A client whose replies follow a script; it keeps what it was sent, and refuses the request of one step."""

    def __init__(self, replies: Iterator[list[Content]], refused: int = -1, error: Exception | None = None) -> None:
        super().__init__(function_invocation_configuration={"max_iterations": 200})
        self.requests: list[list[Message]] = []
        self._replies, self._refused, self._error = replies, refused, error or ChatClientException(TOO_LONG)

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:  # noqa: ARG002
        return (
            ResponseStream(self._updates(messages), finalizer=ChatResponse.from_updates)
            if stream
            else self._reply(messages)
        )

    async def _reply(self, messages: Any) -> ChatResponse:
        contents = self._next(messages)
        usage: Any = {"input_token_count": 1_000 + len(self.requests), "output_token_count": 20}
        return ChatResponse(messages=[Message("assistant", contents)], usage_details=usage)

    async def _updates(self, messages: Any) -> AsyncIterator[ChatResponseUpdate]:
        contents = self._next(messages)
        usage: Any = {"input_token_count": 1_000 + len(self.requests), "output_token_count": 20}
        for content in [*contents, Content.from_usage(usage)]:
            yield ChatResponseUpdate(role="assistant", contents=[content])

    def _next(self, messages: Any) -> list[Content]:
        self.requests.append(list(messages))
        if len(self.requests) == self._refused:
            raise self._error
        return next(self._replies)


class Watch(ChatMiddleware):
    """Sees what the framework gives, as the outermost middleware, to compare objects."""

    def __init__(self) -> None:
        self.given: list[list[Message]] = []
        self.passed: list[bool] = []

    async def process(self, context: Any, call_next: Any) -> None:
        before = context.messages
        self.given.append(list(before))
        await call_next()
        self.passed.append(context.messages is before)


def agent(infold: InfoldChatMiddleware, client: Client, *middleware: Any, tools: Any = ()) -> Any:
    return Agent(
        client=client,
        instructions="You are a careful reader.",
        tools=[read_file, infold.recall, *tools],
        middleware=[*middleware, infold],
    )


def run(told: Any, text: str = RULE, *, stream: bool = False, session: Any = None) -> Any:
    """Run an agent, and return its response."""

    async def go() -> Any:
        if not stream:
            return await told.run(text, session=session)
        updates = told.run(text, stream=True, session=session)
        async for _ in updates:
            pass
        return await updates.get_final_response()

    return asyncio.run(go())


def tokens(messages: list[Message]) -> int:
    """A cautious count of a request."""
    return (
        sum(len(str(one.text or one.result or one.arguments)) for message in messages for one in message.contents) // 4
    )


def check(client: Client, watch: Watch, refused: int = -1) -> None:
    """Every request fits, has the rule and whole pairs, and the framework's own objects for what was kept."""
    for sent in client.requests:
        assert tokens(sent) < WINDOW
        assert any(RULE in message.text for message in sent)
        waiting: list[str | None] = []
        for message in sent:
            if message.role == "tool":
                for content in message.contents:
                    waiting.remove(content.call_id)
            else:
                assert not waiting
                waiting = [one.call_id for one in message.contents if one.type == "function_call"]
        assert not waiting
    requests = [sent for number, sent in enumerate(client.requests, 1) if number != refused]
    for given, sent in zip(watch.given, requests, strict=True):
        own = {id(message): place for place, message in enumerate(given)}
        new = [message for message in sent if id(message) not in own]
        assert all(message.role == "tool" or message is sent[0] for message in new)
        places = [own[id(message)] for message in sent if id(message) in own]
        assert places == sorted(places)


@pytest.mark.parametrize("stream", [False, True])
def test_a_long_loop_fits(stream: bool) -> None:
    """B44: in a loop of 60 tool steps, streamed or not, every request fits, has the user's rule and whole pairs."""
    infold, client, watch = InfoldChatMiddleware(window=WINDOW), Client(script()), Watch()
    told = agent(infold, client, watch)
    session = told.create_session()
    result = run(told, stream=stream, session=session)

    assert len(client.requests) == STEPS + 1
    check(client, watch)
    assert len(client.requests[-1]) < 30
    assert result.text.endswith("Done.")
    assert len(watch.given[-1]) == 1 + 2 * STEPS
    assert len(result.messages) == 1 + 2 * STEPS


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_recovered(stream: bool) -> None:
    """B44: a refusal at step 30, of a stream too, is answered by a smaller request, and the loop goes on."""
    infold, client, watch = InfoldChatMiddleware(window=WINDOW), Client(script(), 30), Watch()
    result = run(agent(infold, client, watch), stream=stream)

    assert len(client.requests) == STEPS + 2
    assert tokens(client.requests[30]) < tokens(client.requests[29])
    assert result.text.endswith("Done.")
    check(client, watch, refused=30)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("refused", [22, 55])
@pytest.mark.usefixtures("only_folds")
def test_a_refusal_after_a_fold_is_recovered(refused: int, stream: bool) -> None:
    """B44: a request that was folded and is refused all the same is made smaller, in the same session."""
    infold, client, watch = InfoldChatMiddleware(window=WINDOW), Client(script(), refused), Watch()
    result = run(agent(infold, client, watch), stream=stream)

    assert any("[Earlier conversation" in message.text for message in client.requests[refused - 1])
    assert tokens(client.requests[refused]) < tokens(client.requests[refused - 1])
    assert len(client.requests) == STEPS + 2
    assert result.text.endswith("Done.")
    check(client, watch, refused=refused)
    assert len(list(infold.sessions.store.sessions(""))) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_an_empty_reply_is_a_reply(stream: bool) -> None:
    """B44: a reply without content ends the run as it does without infold, and the session goes on after it."""

    def replies() -> Iterator[list[Content]]:
        yield from (reads(n) for n in range(20))
        yield []
        yield from script(10)

    infold, client, watch = InfoldChatMiddleware(window=WINDOW), Client(replies()), Watch()
    told = agent(infold, client, watch)
    session = told.create_session()
    ended, result = (run(told, text, stream=stream, session=session) for text in (RULE, "Go on."))

    assert ended.text == ""
    assert result.text.endswith("Done.")
    assert len(client.requests) == 21 + 11
    check(client, watch)
    assert len(list(infold.sessions.store.sessions(""))) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_another_error_is_raised_as_it_is(stream: bool) -> None:
    """B44: an error that is not about size passes through."""
    client = Client(script(), 2, ValueError("no such model"))

    with pytest.raises(ValueError, match="no such model"):
        run(agent(InfoldChatMiddleware(window=WINDOW), client), stream=stream)
    assert len(client.requests) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_usage_is_recorded(stream: bool) -> None:
    """B44: what replies report reaches the session, in which each message is stored once."""
    infold, client = InfoldChatMiddleware(window=WINDOW), Client(script(3))
    result = run(agent(infold, client), stream=stream)

    store = infold.sessions.store
    (session,) = store.sessions("")
    entries = (entry for _, entry in store.newest_first(session.key))
    messages: list[Any] = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    found = [message.usage.prompt for message in messages if getattr(message, "usage", None) is not None]
    assert found == [1_004, 1_003, 1_002, 1_001]
    assert len(messages) == 1 + len(result.messages)


def test_two_conversations_stay_apart() -> None:
    """B44: two conversations through one middleware, with sessions or without, see nothing of each other."""
    for has_session in (True, False):
        infold = InfoldChatMiddleware(window=WINDOW)
        for name, other in (("alpha", "beta"), ("beta", "alpha")):

            def replies() -> Iterator[list[Content]]:
                yield from (reads(n) for n in range(30))
                yield [Content.from_function_call("r1", "recall", arguments='{"query": "For alpha beta"}')]
                yield [Content.from_text("Done.")]

            client = Client(replies())
            told = agent(infold, client)
            run(told, f"{RULE} For {name}.", session=told.create_session() if has_session else None)
            assert all(f"For {other}" not in message.text for sent in client.requests for message in sent)
            assert f"For {other}" not in str(client.requests[-1][-1].contents[0].result)


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_recalls_what_was_folded(stream: bool) -> None:
    """B44: the recall tool, called by the model in the framework's way, brings back a folded result."""

    def replies() -> Iterator[list[Content]]:
        yield from (reads(n) for n in range(30))
        yield [Content.from_function_call("r1", "recall", arguments='{"query": "src/a0.py"}')]
        yield [Content.from_text("Done.")]

    infold, client = InfoldChatMiddleware(window=WINDOW), Client(replies())
    run(agent(infold, client), stream=stream)

    assert "src/a0.py: all went well" in str(client.requests[-1][-1].contents[0].result)


def test_a_call_that_cannot_be_run_keeps_its_answer() -> None:
    """B44: calls with arguments that are not JSON, or of an unknown tool, stay with their results; so do results that failed."""

    def fail() -> str:
        """Fail."""
        raise ValueError("broken")

    def replies() -> Iterator[list[Content]]:
        yield [Content.from_function_call("x1", "read_file", arguments="{path")]
        yield reads(98)
        yield [Content.from_function_call("x2", "no_such_tool", arguments={"path": "a"})]
        yield reads(99)
        yield [Content.from_function_call("x3", "fail", arguments=None), *reads(100)]
        yield from script(30)

    infold, client, watch = InfoldChatMiddleware(window=WINDOW), Client(replies()), Watch()
    run(agent(infold, client, watch, tools=[FunctionTool(name="fail", func=fail)]))

    check(client, watch)
    assert len(client.requests) == 36


def test_a_result_larger_than_the_window_is_shortened() -> None:
    """B44: one result that no window holds is sent in part, with its call; the response keeps all of it."""
    replies = iter([reads(0, "big", "a"), [Content.from_text("Done.")]])
    infold, client, watch = InfoldChatMiddleware(window=WINDOW), Client(replies), Watch()
    result = run(agent(infold, client, watch))

    check(client, watch)
    assert [one.call_id for one in client.requests[-1][-1].contents] == ["big0", "a0"]
    assert tokens(result.messages) > 5 * WINDOW


def test_a_short_conversation_is_not_touched() -> None:
    """B44: while nothing is cut, the request is the very list of the framework, with any kind of content."""
    odd = [Content.from_text_reasoning(text="hm"), Content.from_uri("https://a.example/b.png", media_type="image/png")]
    image = Content.from_data(b"abc", media_type="image/png")

    def replies() -> Iterator[list[Content]]:
        yield [*odd, *reads(1)]
        yield from script(2)

    infold, client, watch = InfoldChatMiddleware(window=100_000), Client(replies()), Watch()
    told = agent(infold, client, watch)
    asyncio.run(told.run([Message("system", ["Be brief."]), Message("user", [RULE, image]), Message("user", [])]))

    assert watch.passed == [True] * 4


def test_a_conversation_that_the_server_holds_is_left_alone() -> None:
    """B44: where the service has the earlier messages, only new ones are sent, and infold does nothing."""
    infold, client = InfoldChatMiddleware(window=WINDOW), Client(iter([[Content.from_text("Done.")]]))
    asyncio.run(
        client.get_response(
            [Message("user", [RULE])], options={"conversation_id": "c1"}, client_kwargs={"middleware": [infold]}
        )
    )

    assert not list(infold.sessions.store.sessions(""))


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B44: the example of the guide runs."""
    page = Path("docs/guides/frameworks/agent-framework.md").read_text("utf-8")
    client = Client(script(1))
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/a0.py").write_text("import feed", "utf-8")
    exec(page.partition("```python\n")[2].partition("```")[0], {"client": client})

    assert "import feed" in str(client.requests[-1][-1].contents[0].result)
    assert Path("sessions.db").exists()


def test_a_wrong_option_is_named() -> None:
    """B44: an option that no plug has is refused with the known ones."""
    with pytest.raises(UsageError, match="windw"):
        InfoldChatMiddleware(windw=3)  # type: ignore[call-arg]


def secretive(infold: InfoldChatMiddleware, name: str) -> tuple[Client, Any]:
    """An agent whose tool shows its secret, and which recalls it."""

    def read_file(path: str) -> str:
        """Read a file."""
        return f"{path}: secret-{name} is written here\n" * 120

    def replies() -> Iterator[list[Content]]:
        yield from (reads(n) for n in range(12))
        for n, query in enumerate(("secret", "src/a3.py", "1.0, 2.0, 4.0")):
            yield [Content.from_function_call(f"r{n}", "recall", arguments=json.dumps({"query": query}))]
        yield [Content.from_text("Done.")]

    client = Client(replies())
    return client, Agent(client=client, instructions="Read.", tools=[read_file, infold.recall], middleware=[infold])


def test_conversations_that_begin_alike_recall_their_own() -> None:
    """B44: conversations without an id and with the same first words, in turn and at once, are never shown each other's text."""
    infold, names = InfoldChatMiddleware(window=WINDOW), ("anna", "bert")
    told = [secretive(infold, name) for name in names * 2]

    async def converse() -> None:
        await told[0][1].run("Hello")
        await told[1][1].run("Hello")
        await asyncio.gather(told[2][1].run("Hello"), told[3][1].run("Hello"))

    asyncio.run(converse())
    for name, (client, _) in zip(names * 2, told, strict=True):
        other = {"anna": "secret-bert", "bert": "secret-anna"}[name]
        contents = [one for sent in client.requests for message in sent for one in message.contents]
        assert all(other not in str(one.to_dict()) for one in contents)
        answers = {one.call_id: str(one.result) for one in contents if one.type == "function_result"}
        assert all(f"secret-{name}" in answers[f"r{n}"] for n in range(3))


@pytest.mark.usefixtures("only_folds")
def test_a_tool_named_recall_is_left_alone() -> None:
    """B44: an agent's own tool called recall is not taken for infold's, which may be given another name."""

    def recall(query: str) -> str:
        """Recall a fact of the company."""
        return f"the company knows {query}"

    def replies() -> Iterator[list[Content]]:
        yield from (reads(n) for n in range(12))
        yield [Content.from_function_call("r1", "recall", arguments='{"query": "tides"}')]
        yield [Content.from_function_call("r2", "infold_recall", arguments='{"query": "src/a0.py"}')]
        yield [Content.from_text("Done.")]

    infold, client = InfoldChatMiddleware(window=WINDOW, recall_name="infold_recall"), Client(replies())
    run(Agent(client=client, instructions="Read.", tools=[recall, read_file, infold.recall], middleware=[infold]))
    contents = [one for message in client.requests[-1] for one in message.contents]
    answers = {one.call_id: str(one.result) for one in contents if one.type == "function_result"}
    assert "the company knows tides" in answers["r1"]
    assert "src/a0.py: all went well" in answers["r2"]
    assert "with the infold_recall tool" in str([one.to_dict() for one in contents])
