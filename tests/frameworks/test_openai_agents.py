"""The filter for the OpenAI Agents SDK, with the SDK's own runner and a scripted model; skipped where it is not installed."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest

pytest.importorskip("agents.retry")

from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    ModelRetrySettings,
    ModelSettings,
    RunConfig,
    Runner,
    SQLiteSession,
    Usage,
    set_trace_processors,
)
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from infold import UsageError
from infold.core.entries import MessageEntry
from infold.core.messages import SessionId
from infold.integrations.openai_agents import InfoldFilter
from infold.ports import SessionKey

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

RULE = "Read every file. Never touch vendor/."
STEPS = 60
WINDOW = 8_192
TOO_LARGE = "maximum context length is 8192 tokens, your messages resulted in 9001 tokens"


async def read(_: Any, arguments: str) -> str:
    try:
        path = json.loads(arguments)["path"]
    except ValueError:
        return "Error: the arguments are not JSON"
    return f"{path}: all went well\n" * 120


READ_FILE = FunctionTool(
    name="read_file",
    description="Read a file.",
    params_json_schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    on_invoke_tool=read,
    strict_json_schema=False,
)


def call(call_id: str, arguments: str | None = None, name: str = "read_file") -> ResponseFunctionToolCall:
    arguments = json.dumps({"path": f"src/{call_id}.py"}) if arguments is None else arguments
    return ResponseFunctionToolCall(
        type="function_call", id=f"fc_{call_id}", call_id=call_id, name=name, arguments=arguments
    )


def words(text: str) -> ResponseOutputMessage:
    content: list[Any] = [ResponseOutputText(type="output_text", text=text, annotations=[])]
    return ResponseOutputMessage(type="message", id="msg", role="assistant", status="completed", content=content)


def script(steps: int = STEPS) -> Iterator[list[Any]]:
    """Replies that read files one after the other, in parallel now and then, and end."""
    yield from ([call(f"a{n}"), call(f"b{n}")] if n % 7 == 3 else [call(f"a{n}")] for n in range(steps))
    yield [words("Done.")]


class Scripted(Model):
    """Replies as scripted, reports usage, and refuses one request for its size."""

    def __init__(self, replies: Iterator[list[Any]], refused: int = -1, error: Exception | None = None) -> None:
        self.model = "scripted"
        self.requests: list[list[Any]] = []
        self.offered: set[str] = set()
        self._replies, self._refused, self._numbers = replies, refused, count(1_000)
        self._error = error or ValueError(TOO_LARGE)

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        named = {**dict(zip(("system_instructions", "input", "model_settings", "tools"), args, strict=False)), **kwargs}
        self.requests.append(list(named["input"]))
        self.offered |= {tool.name for tool in named["tools"]}
        if len(self.requests) == self._refused:
            raise self._error
        usage = Usage(requests=1, input_tokens=next(self._numbers), output_tokens=20)
        return ModelResponse(output=next(self._replies), usage=usage, response_id=None)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        reply = await self.get_response(*args, **kwargs)
        usage = {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": 20,
            "total_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        response = Response.model_validate(
            {
                "id": "r",
                "created_at": 0,
                "model": "scripted",
                "object": "response",
                "output": [item.model_dump() for item in reply.output],
                "tool_choice": "auto",
                "tools": [],
                "parallel_tool_calls": True,
                "usage": usage,
            }
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


@pytest.fixture(autouse=True)
def no_exporter() -> None:
    """Traces are made, for their group ids, and sent nowhere."""
    set_trace_processors([])


class Watch:
    """The filter, with the items of the run that it was given for each call."""

    def __init__(self, infold: InfoldFilter) -> None:
        self.infold = infold
        self.given: list[list[Any]] = []
        self.returned: list[list[Any]] = []

    async def __call__(self, data: Any) -> Any:
        self.given.append(list(data.model_data.input))
        updated = await self.infold(data)
        self.returned.append(list(updated.input))
        return updated


def settings(filtering: Any, infold: InfoldFilter, group: str | None = None) -> dict[str, Any]:
    retry = ModelRetrySettings(max_retries=1, policy=infold.retry)
    run = RunConfig(
        call_model_input_filter=filtering,
        group_id=group,
        model_settings=ModelSettings(retry=retry),
        tracing_disabled=False,
    )
    return {"run_config": run, "hooks": infold.hooks, "max_turns": 200}


def agent(model: Scripted, infold: InfoldFilter) -> Agent[Any]:
    return Agent(name="reader", instructions="You are careful.", model=model, tools=[READ_FILE, infold.recall])


def tokens(items: list[Any]) -> int:
    """A cautious count of a request."""
    return len(json.dumps(items)) // 4


def check(model: Scripted, watch: Watch) -> None:
    """Every request fits, has the rule, whole pairs, and the SDK's own items for what was kept."""
    for sent in model.requests:
        assert tokens(sent) < WINDOW
        assert RULE in str(sent)
        calls = [item["call_id"] for item in sent if item.get("type") == "function_call"]
        results = [item["call_id"] for item in sent if item.get("type") == "function_call_output"]
        assert sorted(calls) == sorted(results)
    for given, returned in zip(watch.given, watch.returned, strict=True):
        own = {id(item) for item in given}
        new = [item for item in returned if id(item) not in own]
        assert len([item for item in new if item.get("role")]) <= 1
        assert all(item.get("role") == "user" or item["type"] == "function_call_output" for item in new)


def sessions_of(infold: InfoldFilter) -> list[str]:
    return [str(one.key.session_id) for one in infold.sessions.store.sessions("")]


def prompts(infold: InfoldFilter, session: str) -> list[int]:
    """The prompt tokens that replies reported, the oldest first."""
    entries = [entry for _, entry in infold.sessions.store.newest_first(SessionKey("", SessionId(session)))]
    replies = [one.message for one in entries if isinstance(one, MessageEntry) and hasattr(one.message, "usage")]
    return [reply.usage.prompt for reply in replies if reply.usage is not None][::-1]


@pytest.mark.parametrize("way", ["sync", "awaited", "streamed"])
def test_a_long_loop_fits(way: str) -> None:
    """B44: in a loop of 60 tool steps every request fits, has the user's rule and whole pairs; a refusal is recovered."""
    infold = InfoldFilter(window=WINDOW)
    watch, model = Watch(infold), Scripted(script(), refused=30)
    options = settings(watch, infold, "one")

    async def stream() -> Any:
        result = Runner.run_streamed(agent(model, infold), RULE, **options)
        async for _ in result.stream_events():
            pass
        return result

    if way == "sync":
        with closing(asyncio.new_event_loop()) as loop:  # the SDK would leave its own one open
            asyncio.set_event_loop(loop)
            result = Runner.run_sync(agent(model, infold), RULE, **options)
        asyncio.set_event_loop(None)
    else:
        result = asyncio.run(stream() if way == "streamed" else Runner.run(agent(model, infold), RULE, **options))

    assert result.final_output == "Done."
    assert len(model.requests) == STEPS + 2
    check(model, watch)
    assert tokens(model.requests[30]) < tokens(model.requests[29])
    assert len(model.requests[-1]) < 30
    assert len(result.to_input_list()) == 2 + 2 * STEPS + 2 * sum(n % 7 == 3 for n in range(STEPS))
    assert {"read_file", "recall"} <= model.offered
    assert "recall " in str(model.requests[-1])
    assert sessions_of(infold) == ["one"]
    assert prompts(infold, "one") == [1_000 + n for n in range(STEPS + 1)]


async def run(way: str, model: Scripted, infold: InfoldFilter, watch: Watch, given: Any = RULE) -> Any:
    """Run an agent, awaited or streamed."""
    options = settings(watch, infold, "one")
    if way == "awaited":
        return await Runner.run(agent(model, infold), given, **options)
    result = Runner.run_streamed(agent(model, infold), given, **options)
    async for _ in result.stream_events():
        pass
    return result


@pytest.mark.parametrize("way", ["awaited", "streamed"])
@pytest.mark.parametrize("refused", [22, 55])
@pytest.mark.usefixtures("only_folds")
def test_a_refusal_after_a_fold_is_recovered(refused: int, way: str) -> None:
    """B44: a request that was folded and is refused all the same is made smaller, in the same session."""
    infold = InfoldFilter(window=WINDOW)
    watch, model = Watch(infold), Scripted(script(), refused=refused)
    result = asyncio.run(run(way, model, infold, watch))

    assert result.final_output == "Done."
    assert "[Earlier conversation" in str(model.requests[refused - 1])
    assert tokens(model.requests[refused]) < tokens(model.requests[refused - 1])
    assert len(model.requests) == STEPS + 2
    check(model, watch)
    assert sessions_of(infold) == ["one"]


@pytest.mark.parametrize("way", ["awaited", "streamed"])
def test_an_empty_reply_is_a_reply(way: str) -> None:
    """B44: a reply without content ends the run as it does without infold; its usage is recorded, and the next run goes on."""

    def replies() -> Iterator[list[Any]]:
        yield from ([call(f"b{n}")] for n in range(20))
        yield []
        yield from script(10)

    infold = InfoldFilter(window=WINDOW)
    watch, model = Watch(infold), Scripted(replies())

    async def talk() -> list[Any]:
        ended = await run(way, model, infold, watch)
        more = [*ended.to_input_list(), {"role": "user", "content": "Go on."}]
        return [ended.final_output, (await run(way, model, infold, watch, more)).final_output]

    assert asyncio.run(talk()) == ["", "Done."]
    assert len(model.requests) == 21 + 11
    check(model, watch)
    assert sessions_of(infold) == ["one"]
    assert prompts(infold, "one") == [1_000 + n for n in range(21 + 11)]


def test_another_error_is_raised_as_it_is() -> None:
    """B44: an error that is not about size passes through, and is not tried again."""
    infold = InfoldFilter(window=WINDOW)
    model = Scripted(script(), refused=1, error=ValueError("no such model"))
    with pytest.raises(ValueError, match="no such model"):
        asyncio.run(Runner.run(agent(model, infold), RULE, **settings(infold, infold)))

    assert len(model.requests) == 1


@pytest.mark.parametrize("groups", [("one", "two"), (None, None)])
def test_two_conversations_stay_apart(groups: Any) -> None:
    """B44: two runs at once through one filter, with ids or without, see nothing of each other, in recall either."""
    infold = InfoldFilter(window=WINDOW)

    def replies(name: str) -> Iterator[list[Any]]:
        yield from ([call(f"{name}{n}")] for n in range(30))
        yield [call("r1", '{"query": "0.py"}', "recall")]
        yield [words("Done.")]

    models = [Scripted(replies(name)) for name in ("alpha", "beta")]

    async def both() -> Any:
        runs = [
            Runner.run(agent(model, infold), f"{RULE} For {name}.", **settings(infold, infold, group))
            for model, name, group in zip(models, ("alpha", "beta"), groups, strict=True)
        ]
        return await asyncio.gather(*runs)

    results = asyncio.run(both())
    for model, result, other in zip(models, results, ("beta", "alpha"), strict=True):
        assert other not in str(model.requests)
        recalled = next(item for item in result.to_input_list() if item.get("call_id") == "r1" and "output" in item)
        assert "all went well" in recalled["output"]
        assert other not in recalled["output"]


def test_invalid_calls_keep_their_answers() -> None:
    """B44: a call whose arguments are not JSON is answered, and both are kept."""
    infold = InfoldFilter(window=WINDOW)
    model = Scripted(iter([[call("x1", "{path")], [words("Done.")]]))
    asyncio.run(Runner.run(agent(model, infold), RULE, **settings(infold, infold, "one")))

    assert [item.get("call_id") for item in model.requests[-1]] == [None, "x1", "x1"]


def test_the_sdks_own_session_keeps_everything() -> None:
    """B44: a session of the SDK stores the whole conversation, and its next run goes on in the same session of infold."""
    infold, memory = InfoldFilter(window=WINDOW), SQLiteSession("s")
    for turn in range(2):
        model = Scripted(script(20))
        asyncio.run(
            Runner.run(agent(model, infold), f"{RULE} {turn}", session=memory, **settings(infold, infold, "one"))
        )

    assert len(asyncio.run(memory.get_items())) == 2 * (2 + 2 * 20 + 2 * 3)
    assert all(tokens(sent) < WINDOW and RULE in str(sent) for sent in model.requests)
    assert sessions_of(infold) == ["one"]


def test_a_short_conversation_is_not_touched() -> None:
    """B44: while nothing is cut, the SDK's own input is returned, even where a call has no result yet."""
    infold = InfoldFilter(window=WINDOW)
    watch, model = Watch(infold), Scripted(iter([[words("Done.")]]))
    items: list[Any] = [
        {"role": "user", "content": RULE},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Go."},
    ]
    asyncio.run(Runner.run(agent(model, infold), items, **settings(watch, infold)))

    assert [id(item) for item in watch.returned[0]] == [id(item) for item in watch.given[0]]


def test_settings_can_be_copied() -> None:
    """B44: a filter with a store that cannot be copied may be in settings, which the SDK copies."""
    infold = InfoldFilter(window=WINDOW)
    policy = ModelSettings(retry=ModelRetrySettings(max_retries=1, policy=infold.retry)).resolve(ModelSettings()).retry

    assert policy is not None
    assert policy.policy is infold.retry


def test_a_wrong_option_is_named() -> None:
    """B44: an option that no plug has is refused with the known ones."""
    with pytest.raises(UsageError, match="windw"):
        InfoldFilter(windw=3)  # type: ignore[call-arg]


def secretive(infold: InfoldFilter, name: str) -> tuple[Scripted, Any]:
    """A run whose tool shows its secret, and which recalls it."""

    async def read(_: Any, arguments: str) -> str:
        return f"{json.loads(arguments)['path']}: secret-{name} is written here\n" * 120

    def replies() -> Iterator[list[Any]]:
        yield from ([call(f"a{n}")] for n in range(12))
        for n, query in enumerate(("secret", "src/a3.py", "1.0, 2.0, 4.0")):
            yield [call(f"r{n}", json.dumps({"query": query}), "recall")]
        yield [words("Done.")]

    model = Scripted(replies())
    tools: Any = [dataclasses.replace(READ_FILE, on_invoke_tool=read), infold.recall]
    told = Agent(name="reader", instructions="You are careful.", model=model, tools=tools)
    settings = RunConfig(call_model_input_filter=infold)
    return model, Runner.run(told, "Hello", run_config=settings, hooks=infold.hooks, max_turns=100)


def test_conversations_that_begin_alike_recall_their_own() -> None:
    """B44: conversations without an id and with the same first words, in turn and at once, are never shown each other's text."""
    infold, names = InfoldFilter(window=WINDOW), ("anna", "bert")

    async def converse() -> list[Any]:
        runs = [secretive(infold, name) for name in names * 2]
        return [
            (runs[0][0], await runs[0][1]),
            (runs[1][0], await runs[1][1]),
            *zip((runs[2][0], runs[3][0]), await asyncio.gather(runs[2][1], runs[3][1]), strict=True),
        ]

    for name, (model, result) in zip(names * 2, asyncio.run(converse()), strict=True):
        other = {"anna": "secret-bert", "bert": "secret-anna"}[name]
        assert other not in str([*model.requests, result.to_input_list()])
        answers = {one["call_id"]: one["output"] for one in result.to_input_list() if "output" in one}
        assert all(f"secret-{name}" in answers[f"r{n}"] for n in range(3))


@pytest.mark.usefixtures("only_folds")
def test_a_tool_named_recall_is_left_alone() -> None:
    """B44: an agent's own tool called recall is not taken for infold's, which may be given another name."""

    async def answer(_: Any, arguments: str) -> str:
        return f"the company knows {arguments}"

    def replies(last: list[Any]) -> Iterator[list[Any]]:
        yield from ([call(f"a{n}")] for n in range(12))
        yield last
        yield [words("Done.")]

    own = dataclasses.replace(READ_FILE, name="recall", on_invoke_tool=answer)
    infold = InfoldFilter(window=WINDOW, recall_name="infold_recall")
    calls = [call("r1", '{"path": "tides"}', "recall"), call("r2", '{"query": "src/a0.py"}', "infold_recall")]
    for tools, last in (([own, READ_FILE], calls[:1]), ([own, READ_FILE, infold.recall], calls)):
        model = Scripted(replies(last))
        told = Agent(name="reader", model=model, tools=list[Any](tools))
        settings = RunConfig(call_model_input_filter=infold)
        result = asyncio.run(Runner.run(told, RULE, run_config=settings, hooks=infold.hooks, max_turns=100))
        answers = {one["call_id"]: one["output"] for one in result.to_input_list() if "output" in one}
        assert "the company knows" in answers["r1"]
        assert ("with the infold_recall tool" in str(model.requests[-1])) == (len(tools) > 2)
        assert "; recall " not in str(model.requests[-1])
    assert "src/a0.py: all went well" in answers["r2"]
