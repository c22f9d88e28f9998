"""Pydantic AI's capability, with Pydantic AI's own agent loop and function model; skipped where it is not installed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

from infold import UsageError
from infold.core.entries import MessageEntry
from infold.core.messages import SessionId
from infold.integrations.pydantic_ai import Infold, RetryModelRequest, _build, _to_wire
from infold.ports import SessionKey

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

RULE = "Read every file. Never touch vendor/."
STEPS = 60
WINDOW = 8_192
LIMITS = UsageLimits(request_limit=500)


def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}: all went well\n" * 120


class Watch(AbstractCapability[Any]):
    """Sees each request as it is sent, and the run's history, as the innermost capability."""

    def __init__(self) -> None:
        self.requests: list[list[Any]] = []
        self.histories: list[list[Any]] = []

    def _see(self, ctx: Any, request_context: Any) -> None:
        self.requests.append(list(request_context.messages))
        self.histories.append(list(ctx.messages))

    if RetryModelRequest is None:

        async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
            self._see(ctx, request_context)
            return await handler(request_context)

    else:

        async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
            self._see(ctx, request_context)
            return request_context


class Script:
    """Answers requests: reads files one after the other, in parallel now and then, and ends; refuses one for its size."""

    def __init__(self, steps: int = STEPS, refused: int = -1, last: tuple[Any, ...] = ()) -> None:
        self.number = 0
        self.offered: set[str] = set()
        self._steps, self._refused, self._last = steps, refused, list(last)

    def parts(self, info: Any) -> list[Any]:
        self.offered |= {tool.name for tool in info.function_tools}
        if self.number == self._refused:
            self._refused = -1
            text = "maximum context length is 8192 tokens, your messages resulted in 9001 tokens"
            raise ModelHTTPError(400, "fake", {"error": {"message": text, "code": "context_length_exceeded"}})
        n, self.number = self.number, self.number + 1
        if n < self._steps:
            names = ("a", "b") if n % 7 == 3 else ("a",)
            return [ToolCallPart("read_file", {"path": f"src/{name}{n}.py"}, f"{name}{n}") for name in names]
        return [self._last.pop(0)] if self._last else [TextPart("Done.")]

    def answer(self, messages: Any, info: Any) -> ModelResponse:  # noqa: ARG002
        parts = self.parts(info)
        usage = RequestUsage(input_tokens=1_000 + self.number, output_tokens=20, cache_read_tokens=600)
        return ModelResponse(parts=parts, usage=usage)

    async def stream(self, messages: Any, info: Any) -> AsyncIterator[Any]:  # noqa: ARG002
        for index, part in enumerate(self.parts(info)):
            if isinstance(part, ToolCallPart):
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            else:
                yield part.content


def agent(infold: Infold, watch: Watch, script: Script, **options: Any) -> Any:
    return Agent(
        FunctionModel(script.answer, stream_function=script.stream),
        tools=[read_file],
        capabilities=[infold, watch],
        **{"instructions": "You are a careful reader.", **options},
    )


def run(infold: Infold, watch: Watch, script: Script, prompt: Any = RULE, **options: Any) -> Any:
    return asyncio.run(agent(infold, watch, script).run(prompt, usage_limits=LIMITS, **options))


def tokens(messages: list[Any]) -> int:
    """A cautious count of a request."""
    return (
        sum(len(str(getattr(part, "content", ""))) + len(str(getattr(part, "args", ""))) for part in flat(messages))
        // 4
    )


def flat(messages: list[Any]) -> list[Any]:
    return [part for message in messages for part in message.parts]


def check(watch: Watch) -> None:
    """Every request fits, has the rule, whole pairs, and Pydantic AI's own objects for what was kept."""
    for sent, history in zip(watch.requests, watch.histories, strict=True):
        assert tokens(sent) < WINDOW
        assert any(RULE in str(part.content) for part in flat(sent) if isinstance(part, UserPromptPart))
        own = {id(message) for message in history}
        new = [message for message in sent if id(message) not in own]
        assert len(new) <= 1 or all(isinstance(message, ModelRequest) for message in new)
        assert len(sent) == 1 or len(new) < len(sent)
        waiting: set[str] = set()
        for message in sent:
            answered = {part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)}
            assert answered == waiting
            waiting = {part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)}


def test_a_long_loop_fits() -> None:
    """B44: in a loop of 60 tool steps every request fits, has the user's rule and whole pairs; the history keeps everything."""
    infold, watch, script = Infold(window=WINDOW), Watch(), Script()
    result = run(infold, watch, script)

    assert len(watch.requests) == STEPS + 1
    check(watch)
    assert len(watch.requests[-1]) < 30
    assert len(result.all_messages()) == 2 + 2 * STEPS
    assert {"read_file", "recall"} <= script.offered


def test_a_long_loop_fits_when_it_is_streamed() -> None:
    """B44: so it is in an agent that streams, which recovers from a refusal too."""

    async def stream() -> Watch:
        watch = Watch()
        streaming = agent(Infold(window=WINDOW), watch, Script(refused=30))
        async with streaming.run_stream(RULE, usage_limits=LIMITS) as result:
            assert await result.get_output() == "Done."
        return watch

    watch = asyncio.run(stream())
    assert len(watch.requests) == STEPS + (1 if RetryModelRequest is None else 2)
    check(watch)


def test_an_agent_runs_without_a_loop() -> None:
    """B44: `run_sync` works as `run` does."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    watch = Watch()
    try:
        agent(Infold(window=WINDOW), watch, Script(30)).run_sync(RULE, usage_limits=LIMITS)
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    check(watch)
    assert len(watch.requests[-1]) < 30


def test_a_refusal_is_recovered() -> None:
    """B44: a refusal at step 30 is answered by a smaller request, and the loop goes on."""
    infold, watch = Infold(window=WINDOW), Watch()
    result = run(infold, watch, Script(refused=30))

    assert result.output == "Done."
    check(watch)
    if RetryModelRequest is not None:
        assert len(watch.requests) == STEPS + 2
        assert tokens(watch.requests[31]) < tokens(watch.requests[30])


@pytest.mark.parametrize("refused", [21, 54])
@pytest.mark.usefixtures("only_folds")
def test_a_refusal_after_a_fold_is_recovered(refused: int) -> None:
    """B44: a request that was folded and is refused all the same is made smaller, in the same session."""
    infold, watch = Infold(window=WINDOW), Watch()
    result = run(infold, watch, Script(refused=refused))

    assert result.output == "Done."
    assert "[Earlier conversation" in str(watch.requests[refused])
    check(watch)
    assert len(list(infold.sessions.store.sessions(""))) == 1
    if RetryModelRequest is not None:
        assert len(watch.requests) == STEPS + 2
        assert tokens(watch.requests[refused + 1]) < tokens(watch.requests[refused])


class Emptied(Script):
    """Answers one request with nothing."""

    def parts(self, info: Any) -> list[Any]:
        parts = super().parts(info)
        return [] if self.number == 20 else parts


def test_an_empty_reply_is_a_reply() -> None:
    """B44: Pydantic AI asks again after a reply without content, as it does without infold."""
    infold, watch = Infold(window=WINDOW), Watch()
    result = run(infold, watch, Emptied(steps=30))

    assert result.output == "Done."
    assert len(watch.requests) == 31
    check(watch)
    assert len(list(infold.sessions.store.sessions(""))) == 1


def test_another_error_is_raised_as_it_is() -> None:
    """B44: an error that is not about size passes through."""

    class Broken(Script):
        def parts(self, info: Any) -> list[Any]:  # noqa: ARG002
            raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        run(Infold(window=WINDOW), Watch(), Broken())


def test_a_second_refusal_is_raised() -> None:
    """B44: a request that is refused twice ends the run with the provider's error, after one more attempt."""

    class Refusing(Script):
        def parts(self, info: Any) -> list[Any]:
            self._refused = self.number if self.number == 20 else -1
            self.tries = getattr(self, "tries", 0) + (self.number == 20)
            return super().parts(info)

    script = Refusing()
    with pytest.raises(ModelHTTPError, match="context_length_exceeded"):
        run(Infold(window=WINDOW), Watch(), script)
    assert script.tries == 2


def test_usage_is_recorded() -> None:
    """B44: what replies report reaches the session, which the conversation's id names."""
    infold = Infold(window=WINDOW)
    run(infold, Watch(), Script(3), conversation_id="one")

    entries = [entry for _, entry in infold.sessions.store.newest_first(SessionKey("", SessionId("one")))]
    replies = [one.message for one in entries if isinstance(one, MessageEntry) and hasattr(one.message, "usage")]
    used = [reply.usage for reply in replies if reply.usage is not None]
    assert [usage.prompt for usage in used] == [1_004, 1_003, 1_002, 1_001][-len(used) :]
    assert len(used) >= 3
    assert {usage.cache_read for usage in used} == {600}


def test_two_conversations_stay_apart() -> None:
    """B44: two conversations through one capability, at the same time, see nothing of each other."""
    infold, watches = Infold(window=WINDOW), (Watch(), Watch())

    async def both() -> None:
        prompts = [f"{RULE} For {name}." for name in ("alpha", "beta")]
        agents = [agent(infold, watch, Script(30)) for watch in watches]
        await asyncio.gather(*(one.run(text, usage_limits=LIMITS) for one, text in zip(agents, prompts, strict=True)))

    asyncio.run(both())
    for watch, other in zip(watches, ("beta", "alpha"), strict=True):
        check(watch)
        assert not any(other in str(part) for sent in watch.requests for part in flat(sent))


def test_a_conversation_goes_on_in_another_run() -> None:
    """B44: a second run with the messages of the first is the same conversation."""
    infold, watch = Infold(window=WINDOW), Watch()
    first = run(infold, watch, Script(30))
    run(infold, watch, Script(30), "Go on.", message_history=first.all_messages())

    check(watch)
    assert any("Go on." in str(part.content) for part in flat(watch.requests[-1]) if isinstance(part, UserPromptPart))


def test_a_model_recalls_what_was_folded() -> None:
    """B44: the recall tool, called by the model in Pydantic AI's way, brings back a folded result."""
    asked = ToolCallPart("recall", {"query": "src/a0.py"}, "r1")
    result = run(Infold(window=WINDOW), Watch(), Script(30, last=(asked,)))

    answers = [part for part in flat(result.all_messages()) if getattr(part, "tool_call_id", "") == "r1"]
    assert "src/a0.py: all went well" in str(answers[-1].content)


def test_invalid_calls_keep_their_answers() -> None:
    """B44: a call whose arguments are not JSON, or of an unknown tool, is sent with its answer."""
    bad = (ToolCallPart("read_file", "{path", "x1"), ToolCallPart("no_such_tool", {}, "x2"))
    infold, watch = Infold(window=WINDOW), Watch()
    result = run(infold, watch, Script(0, last=bad))

    assert result.output == "Done."
    ids = [part.tool_call_id for part in flat(watch.requests[-1]) if hasattr(part, "tool_call_id")]
    assert ids == ["x1", "x1", "x2", "x2"]


def test_system_prompts_stay() -> None:
    """B44: a system prompt that Pydantic AI keeps in the first message is in every request, once."""
    infold, watch = Infold(window=WINDOW), Watch()
    careful = agent(infold, watch, Script(30), instructions=None, system_prompt="You are a careful reader.")
    asyncio.run(careful.run(RULE, usage_limits=LIMITS))

    for sent in watch.requests:
        assert [part.content for part in flat(sent) if part.part_kind == "system-prompt"] == [
            "You are a careful reader."
        ]


def test_files_and_thinking_are_kept() -> None:
    """B44: a message with an image and a reply with thinking are the same objects in the next requests."""
    image = BinaryContent(b"\x89PNG" * 100, media_type="image/png")
    past = [
        ModelRequest([UserPromptPart([RULE, image])]),
        ModelResponse([ThinkingPart("They want it read.", signature="sig"), TextPart("Fine.")]),
    ]
    infold, watch = Infold(window=WINDOW), Watch()
    run(infold, watch, Script(2), "Go.", message_history=past)

    assert all(a is b for a, b in zip(watch.requests[-1], watch.histories[-1], strict=True))


def test_a_short_conversation_is_not_touched() -> None:
    """B44: while nothing is cut, the request is Pydantic AI's own."""
    infold, watch = Infold(window=WINDOW), Watch()
    run(infold, watch, Script(1))

    assert [list(map(id, sent)) for sent in watch.requests] == [list(map(id, sent)) for sent in watch.histories]


def test_a_wrong_option_is_named() -> None:
    """B44: an option that no adapter has is refused with the known ones."""
    with pytest.raises(UsageError, match="windw"):
        Infold(windw=3)  # type: ignore[call-arg]


def test_files_that_are_left_stay() -> None:
    """B44: where infold hides one file of a message, the message's other files and words stay the framework's objects."""
    files = [BinaryContent(bytes([n]) * 400, media_type="image/png") for n in range(2)]
    given = ModelRequest([UserPromptPart(["Compare.", *files]), ToolReturnPart("read_file", ["x", files[0]], "a1")])
    wire = _to_wire(given)
    words, first, second, result = wire["content"]
    hidden = {
        "role": "user",
        "content": [{**result, "content": "[pruned]"}, words, second, {"type": "text", "text": "[file]"}],
    }
    note, prompt, answer = _build(hidden, given).parts

    assert note.content == "[file]"
    assert prompt.content == ["Compare.", files[1]]
    assert prompt.content[1] is files[1]
    assert (answer.content, answer.tool_call_id) == ("[pruned]", "a1")
    assert _build(wire, given).parts == given.parts
    assert first["source"]["data"] != second["source"]["data"]


def secretive(infold: Infold, name: str, watch: Watch) -> Any:
    """An agent whose tool shows its secret, and which recalls it."""

    def read_file(path: str) -> str:
        """Read a file."""
        return f"{path}: secret-{name} is written here\n" * 120

    queries = ("secret", "src/a3.py", "1.0, 2.0, 4.0")
    asked = tuple(ToolCallPart("recall", {"query": query}, f"r{n}") for n, query in enumerate(queries))
    model = FunctionModel(Script(12, last=asked).answer)
    return Agent(model, tools=[read_file], capabilities=[infold, watch])


def test_conversations_that_begin_alike_recall_their_own() -> None:
    """B44: two conversations with the same first words, in turn and at once, are never shown each other's text."""
    infold, names = Infold(window=WINDOW), ("anna", "bert")
    watches = [Watch() for _ in range(4)]

    async def converse() -> list[Any]:
        runs = [
            secretive(infold, name, watch).run("Hello", usage_limits=LIMITS)
            for name, watch in zip(names * 2, watches, strict=True)
        ]
        return [await runs[0], await runs[1], *await asyncio.gather(*runs[2:])]

    for name, watch, result in zip(names * 2, watches, asyncio.run(converse()), strict=True):
        other = {"anna": "secret-bert", "bert": "secret-anna"}[name]
        assert other not in str([*watch.requests, result.all_messages()])
        returned = {one.tool_call_id: one for one in flat(result.all_messages()) if isinstance(one, ToolReturnPart)}
        assert all(f"secret-{name}" in returned[f"r{n}"].content for n in range(3))


@pytest.mark.usefixtures("only_folds")
def test_a_tool_named_recall_is_left_alone() -> None:
    """B44: an agent's own tool called recall is offered and run; infold's has another name, which the stubs name too."""

    def recall(query: str) -> str:
        """Recall a fact of the company."""
        return f"the company knows {query}"

    asked = (ToolCallPart("recall", {"query": "tides"}, "r1"), ToolCallPart("infold_recall", {"query": "a0.py"}, "r2"))
    watch, script = Watch(), Script(12, last=asked)
    told = Agent(FunctionModel(script.answer), tools=[recall, read_file], capabilities=[Infold(window=WINDOW), watch])
    messages = asyncio.run(told.run(RULE, usage_limits=LIMITS)).all_messages()

    returned = {one.tool_call_id: one.content for one in flat(messages) if isinstance(one, ToolReturnPart)}
    assert returned["r1"] == "the company knows tides"
    assert "src/a0.py: all went well" in returned["r2"]
    assert script.offered == {"recall", "read_file", "infold_recall"}
    assert "with the infold_recall tool" in str(watch.requests[-1])


def test_recall_is_offered_when_it_is_of_use() -> None:
    """B44: recall is offered once something was folded, and never to an agent without tools."""
    script = Script(1)
    run(Infold(window=WINDOW), Watch(), script)
    assert script.offered == {"read_file"}

    script = Script(0)
    told = Agent(FunctionModel(script.answer), capabilities=[Infold(window=WINDOW)])
    long = [ModelRequest(parts=[UserPromptPart(RULE)]), *(ModelResponse([TextPart("So. " * 3_000)]) for _ in range(9))]
    asyncio.run(told.run("Go on.", message_history=long))
    assert script.offered == set()
