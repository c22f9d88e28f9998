"""The callback for LiteLLM, with a custom provider of LiteLLM's; skipped where it is not installed."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it fetches one when it is imported
pytest.importorskip("litellm")

import litellm
from litellm import ContextWindowExceededError, CustomLLM, ModelResponse, Router
from litellm.exceptions import MidStreamFallbackError

from infold import UsageError
from infold.core.entries import MessageEntry
from infold.core.messages import SessionId
from infold.formats.registry import builder_for
from infold.integrations.litellm import InfoldLogger
from infold.integrations.sessions import NOTHING_RECALLED
from infold.ports import SessionKey
from infold.testing import Say, ScriptedServer

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # LiteLLM's own, which differ by version
]

RULE = "Read every file. Never touch vendor/."
STEPS = 60
WINDOW = 8_192
TOO_LARGE = "maximum context length is 8192 tokens, your messages resulted in 9001 tokens"
TOOLS = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object", "properties": {}}}}]


class Scripted(CustomLLM):
    """Reads files one after the other, in parallel now and then; reports usage, and refuses one request for its size."""

    def __init__(self, refused: int = -1) -> None:
        super().__init__()
        self.requests: list[list[Any]] = []
        self._refused = refused

    def completion(self, *_: Any, **kwargs: Any) -> Any:
        self.requests.append(list(kwargs["messages"]))
        number = len(self.requests)
        if number == self._refused:
            raise ContextWindowExceededError(TOO_LARGE, model="m", llm_provider="scripted")
        return ModelResponse(
            choices=[{"message": {"role": "assistant", "content": None, "tool_calls": calls(number)}}],
            usage={"prompt_tokens": 1_000 + number, "completion_tokens": 5, "total_tokens": 1_005 + number},
        )

    async def acompletion(self, *args: Any, **kwargs: Any) -> Any:
        return self.completion(*args, **kwargs)

    def streaming(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        reply = self.completion(*args, **kwargs)
        usage = {**reply.usage.model_dump()}
        for call in calls(len(self.requests)):
            yield {"text": "", "tool_use": call, "is_finished": False, "finish_reason": "", "usage": None, "index": 0}
        yield {
            "text": "",
            "tool_use": None,
            "is_finished": True,
            "finish_reason": "tool_calls",
            "usage": usage,
            "index": 0,
        }

    async def astreaming(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        for chunk in self.streaming(*args, **kwargs):
            yield chunk


def calls(number: int) -> list[Any]:
    names = ("a", "b") if number % 7 == 3 else ("a",)
    return [
        {
            "id": f"{name}{number}",
            "type": "function",
            "index": index,
            "function": {"name": "read_file", "arguments": json.dumps({"path": f"src/{name}{number}.py"})},
        }
        for index, name in enumerate(names)
    ]


RUNNER = asyncio.Runner()
"""One event loop for all tests: LiteLLM's log is bound to the first one."""


@pytest.fixture(autouse=True, scope="module")
def one_loop() -> Iterator[None]:
    with RUNNER:
        yield


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    litellm.callbacks = []
    for names in ("success", "failure", "_async_success", "_async_failure"):
        setattr(litellm, f"{names}_callback", [])


class Watch(InfoldLogger):
    """The callback, with the lists that it was given and returned; LiteLLM copies messages on their way."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.given: list[list[Any]] = []
        self.returned: list[list[Any]] = []

    async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> Any:
        self.given.append(list(kwargs.get("messages", ())))
        fitted = await super().async_pre_call_deployment_hook(kwargs, call_type)
        self.returned.append(list((fitted or kwargs).get("messages", ())))
        return fitted


def plug(model: Scripted, **options: Any) -> Watch:
    infold = Watch(window=WINDOW, **options)
    litellm.callbacks = [infold]
    litellm.custom_provider_map = [{"provider": "scripted", "custom_handler": model}]
    return infold


def answers(message: Any) -> list[Any]:
    """The results of a reply's calls, and the reply itself, as a caller appends them."""
    paths = [(call.id, json.loads(call.function.arguments)["path"]) for call in message.tool_calls]
    return [
        message,
        *({"role": "tool", "tool_call_id": one, "content": f"{path}: all went well\n" * 120} for one, path in paths),
    ]


async def loop(steps: int, history: list[Any], *, send: Any = None, stream: bool = False, **kwargs: Any) -> int:
    """Run a tool loop as a caller would; return the number of refusals."""
    refusals = 0
    send = send or litellm.acompletion
    for _ in range(steps):
        try:
            reply = await send(model="scripted/m", messages=history, tools=TOOLS, stream=stream, **kwargs)
            chunks = [chunk async for chunk in reply] if stream else []
        except (ContextWindowExceededError, MidStreamFallbackError):  # the latter in a stream of an older version
            refusals += 1
            await asyncio.sleep(0.1)  # the refusal of a stream is logged after it
            continue
        if stream:
            reply = litellm.stream_chunk_builder(chunks)
            await asyncio.sleep(0.01)
        history += answers(reply.choices[0].message)
    await asyncio.sleep(0.2)  # streams are logged after their end
    return refusals


def tokens(messages: list[Any]) -> int:
    return len(str([message if isinstance(message, dict) else message.model_dump() for message in messages])) // 4


def check(model: Scripted, infold: Watch) -> None:
    """Every request fits, has the rule, whole pairs, and the caller's own objects for what was kept."""
    for given, returned in zip(infold.given, infold.returned, strict=True):
        own = {id(message) for message in given}
        new = [message for message in returned if id(message) not in own]
        assert len([message for message in new if message["role"] == "user"]) <= 1
        assert all(message["role"] in ("user", "tool") for message in new)
    for sent in model.requests:
        assert tokens(sent) < WINDOW
        assert RULE in str(sent)
        dicts = [message if isinstance(message, dict) else message.model_dump() for message in sent]
        made = [call["id"] for message in dicts for call in message.get("tool_calls") or ()]
        assert made == [message["tool_call_id"] for message in dicts if message["role"] == "tool"]


def sessions_of(infold: InfoldLogger) -> list[str]:
    return sorted(str(one.key.session_id) for one in infold.sessions.store.sessions(""))


def prompts(infold: InfoldLogger, session: str) -> list[int]:
    """The prompt tokens that replies reported, the oldest first."""
    entries = [entry for _, entry in infold.sessions.store.newest_first(SessionKey("", SessionId(session)))]
    replies = [one.message for one in entries if isinstance(one, MessageEntry) and hasattr(one.message, "usage")]
    return [reply.usage.prompt for reply in replies if reply.usage is not None][::-1]


@pytest.mark.parametrize("stream", [False, True])
def test_a_long_loop_fits(stream: bool) -> None:
    """B44: in a loop of 60 tool steps every request fits, has the user's rule and whole pairs, and usage is recorded."""
    model = Scripted()
    infold = plug(model)
    history: list[Any] = [{"role": "user", "content": RULE}]
    RUNNER.run(loop(STEPS, history, stream=stream, metadata={"session_id": "one"}))

    assert len(model.requests) == STEPS
    check(model, infold)
    assert len(model.requests[-1]) < 30
    assert len(history) == 1 + 2 * STEPS + sum(n % 7 == 3 for n in range(1, STEPS + 1))
    assert sessions_of(infold) == ["one"]
    assert prompts(infold, "one") == [1_001 + n for n in range(STEPS)]


@pytest.mark.parametrize("stream", [False, True])
def test_the_request_after_a_refusal_is_smaller(stream: bool) -> None:
    """B44: a refusal at step 30 is raised, because no hook may send again; the caller's next try is smaller."""
    model = Scripted(refused=30)
    infold = plug(model)
    history: list[Any] = [{"role": "user", "content": RULE}]

    assert RUNNER.run(loop(STEPS, history, stream=stream, metadata={"session_id": "one"})) == 1
    assert len(model.requests) == STEPS
    assert tokens(model.requests[30]) < tokens(model.requests[29])
    check(model, infold)


@pytest.mark.parametrize("refused", [22, 55])
@pytest.mark.usefixtures("only_folds")
def test_a_refusal_after_a_fold_is_recovered(refused: int) -> None:
    """B44: a blocking request that was folded and is refused all the same is made smaller, in the same session."""
    model = Scripted(refused=refused)
    infold = plug(model)
    history: list[Any] = [{"role": "user", "content": RULE}]
    for _ in range(STEPS):
        reply = infold.completion(model="scripted/m", messages=history, tools=TOOLS, metadata={"session_id": "one"})
        history += answers(reply.choices[0].message)

    assert "[Earlier conversation" in str(model.requests[refused - 1])
    assert tokens(model.requests[refused]) < tokens(model.requests[refused - 1])
    assert len(model.requests) == STEPS + 1
    check(model, infold)
    assert sessions_of(infold) == ["one"]


class Emptied(Scripted):
    """Answers one request with nothing."""

    def completion(self, *args: Any, **kwargs: Any) -> Any:
        reply = super().completion(*args, **kwargs)
        if len(self.requests) == 20:
            reply.choices[0].message.tool_calls = None
            reply.choices[0].message.content = ""
        return reply


def test_an_empty_reply_is_a_reply() -> None:
    """B44: the caller has a reply without content as it is, its usage is recorded, and the conversation goes on."""
    model = Emptied()
    infold = plug(model)
    history: list[Any] = [{"role": "user", "content": RULE}]

    async def ask() -> None:
        for _ in range(30):
            reply = await litellm.acompletion(
                model="scripted/m", messages=history, tools=TOOLS, metadata={"session_id": "one"}
            )
            message = reply.choices[0].message
            history.extend(answers(message) if message.tool_calls else [{"role": "user", "content": "Go on."}])

    RUNNER.run(ask())
    check(model, infold)
    assert sessions_of(infold) == ["one"]
    assert prompts(infold, "one") == [1_001 + n for n in range(30)]


@pytest.mark.parametrize("stream", [False, True])
def test_blocking_calls_fit_and_recover(stream: bool) -> None:
    """B44: `completion` of the callback does the same for blocking code; a request refused before its stream is sent again."""
    model = Scripted(refused=-1 if stream else 30)
    infold = plug(model)
    history: list[Any] = [{"role": "user", "content": RULE}]
    for _ in range(STEPS):
        reply = infold.completion(
            model="scripted/m", messages=history, tools=TOOLS, stream=stream, metadata={"session_id": "one"}
        )
        history += answers((litellm.stream_chunk_builder(list(reply)) if stream else reply).choices[0].message)

    check(model, infold)
    if not stream:  # streams are logged late, in a thread, perhaps only after the next request
        assert sessions_of(infold) == ["one"]
        assert len(model.requests) == STEPS + 1
        assert tokens(model.requests[30]) < tokens(model.requests[29])
        assert len(prompts(infold, "one")) == STEPS


def test_two_conversations_stay_apart() -> None:
    """B44: two conversations at once, with ids or without, see nothing of each other."""
    for ids in (("one", "two"), (None, None)):
        model = Scripted()
        plug(model)
        histories = [[{"role": "user", "content": f"{RULE} For {name}."}] for name in ("alpha", "beta")]

        async def both(histories: Any = histories, ids: Any = ids) -> None:
            await asyncio.gather(
                *(loop(30, one, metadata={"session_id": name}) for one, name in zip(histories, ids, strict=True))
            )

        RUNNER.run(both())
        assert all(("alpha" in str(sent)) != ("beta" in str(sent)) for sent in model.requests)
        assert max(map(len, model.requests)) < 30


def test_a_key_of_the_proxy_has_sessions_of_its_own() -> None:
    """B44: in the proxy a session belongs to the key that made it, whatever a client writes in its metadata."""
    model = Scripted()
    infold = plug(model)

    async def ask(key: str, metadata: dict[str, Any]) -> None:
        data = {"metadata": metadata}
        data = await infold.async_pre_call_hook(SimpleNamespace(api_key=key), None, data, "completion")
        router = Router([{"model_name": "m", "litellm_params": {"model": "scripted/m"}}])
        await loop(
            12,
            [{"role": "user", "content": RULE}],
            send=lambda **kwargs: router.acompletion(**{**kwargs, "model": "m"}),
            **data,
        )

    RUNNER.run(ask("hash-1", {"session_id": "s"}))
    RUNNER.run(ask("hash-2", {"session_id": "s", "infold_key": sessions_of(infold)[0].partition(":")[0]}))

    assert len(sessions_of(infold)) == 2
    assert all(name.endswith(":s") and "hash" not in name for name in sessions_of(infold))


def test_recall_is_a_tool_of_the_caller() -> None:
    """B44: the caller offers the recall tool and answers its calls; handles are named only if it is offered."""
    model = Scripted()
    infold = plug(model)
    history: list[Any] = [{"role": "user", "content": RULE}]
    RUNNER.run(loop(30, history, metadata={"session_id": "one"}))

    assert "recall " not in str(model.requests[-1])
    assert "src/a1.py: all went well" in infold.recall('{"query": "src/a1.py"}', "one")
    TOOLS.append(infold.recall_tool)
    try:
        RUNNER.run(loop(12, history, metadata={"session_id": "one"}))
    finally:
        TOOLS.pop()
    assert "recall " in str(model.requests[-1])


def test_other_shapes_fit() -> None:
    """B44: requests in the shape of Messages and of Responses fit, in a session each, also where LiteLLM converts them."""
    pytest.importorskip("mcp")
    model = Scripted()
    infold = plug(model)

    async def messages() -> None:
        history: list[Any] = [{"role": "user", "content": RULE}]
        tools = [{"name": "read_file", "input_schema": {"type": "object"}}]
        for _ in range(30):
            reply: Any = await litellm.anthropic.messages.acreate(
                model="scripted/m", messages=history, max_tokens=100, tools=tools, litellm_session_id="one"
            )
            blocks = [one if isinstance(one, dict) else one.model_dump() for one in reply["content"]]
            results = [one["id"] for one in blocks if one["type"] == "tool_use"]
            history += [
                {"role": "assistant", "content": blocks},
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": one, "content": "all went well\n" * 200}
                        for one in results
                    ],
                },
            ]

    async def responses() -> None:
        history: list[Any] = [{"role": "user", "content": RULE}]
        for _ in range(30):
            reply: Any = await litellm.aresponses(model="scripted/m", input=history, litellm_session_id="two")
            items = [item if isinstance(item, dict) else item.model_dump() for item in reply.output]
            made = [item["call_id"] for item in items if item["type"] == "function_call"]
            history += items
            history += [
                {"type": "function_call_output", "call_id": one, "output": "all went well\n" * 200} for one in made
            ]

    for run, session in ((messages, "one"), (responses, "two")):
        model.requests.clear()
        try:
            RUNNER.run(run())
        except litellm.exceptions.APIConnectionError as error:
            pytest.skip(f"this version has no custom providers for Responses: {error!s:.80}")
        assert len(model.requests) == 30
        assert all(tokens(sent) < WINDOW and RULE in str(sent) for sent in model.requests)
        assert session in sessions_of(infold)
        assert len(prompts(infold, session)) == 30
    assert sessions_of(infold) == ["one", "two"]


def test_streams_of_messages_report_their_usage() -> None:
    """B44: a stream of Messages is logged in another shape; its usage is recorded, so that the window is filled as far."""
    pytest.importorskip("fastapi")  # LiteLLM 1.80 needs its proxy's packages for such streams
    infold = InfoldLogger(window=WINDOW)
    litellm.callbacks = [infold]

    def answer(request: Any) -> Say:
        return Say(calls=(("read_file", {"path": f"src/{len(request.body['messages'])}.py"}),))

    async def talk(url: str) -> list[Any]:
        history: list[Any] = [{"role": "user", "content": RULE}]
        for number in range(20):
            stream: Any = await litellm.anthropic.messages.acreate(
                model="anthropic/claude-sonnet-4-5",
                messages=history,
                max_tokens=100,
                tools=[{"name": "read_file", "input_schema": {"type": "object"}}],
                stream=True,
                api_base=url,
                api_key="k",
                litellm_session_id="one",
            )
            builder = builder_for("anthropic-messages")
            async for piece in stream:
                builder.feed(piece if isinstance(piece, bytes) else str(piece).encode())
            await asyncio.sleep(0.1)  # logged after its end
            blocks = (builder.reply() or {})["content"]
            results = [
                {"type": "tool_result", "tool_use_id": one["id"], "content": f"{number}: all went well\n" * 120}
                for one in blocks
                if one["type"] == "tool_use"
            ]
            history += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
        return history

    with ScriptedServer(answer) as server:
        RUNNER.run(talk(server.url))
    assert sessions_of(infold) == ["one"]
    assert len(prompts(infold, "one")) == 20


def test_a_short_conversation_is_not_touched() -> None:
    """B44: while nothing is cut, the request is the caller's own, even where a call has no result yet."""
    model = Scripted()
    infold = plug(model)
    request = {"model": "scripted/m", "messages": [{"role": "user", "content": RULE}], "litellm_call_id": "1"}

    assert RUNNER.run(infold.async_pre_call_deployment_hook(request, "acompletion")) is request
    assert RUNNER.run(infold.async_pre_call_deployment_hook({"input": "words"}, "aembedding")) is None


def test_a_wrong_option_is_named() -> None:
    """B44: an option that no plug has is refused with the known ones."""
    with pytest.raises(UsageError, match="windw"):
        InfoldLogger(windw=3)  # type: ignore[call-arg]


async def converse(infold: InfoldLogger, name: str) -> list[Any]:
    """Run a conversation without an id whose tool shows its secret; return what recall answers at its end."""
    history: list[Any] = [{"role": "user", "content": "Hello"}]
    for _ in range(12):
        reply = await litellm.acompletion(model="scripted/m", messages=history, tools=[*TOOLS, infold.recall_tool])
        message = reply.choices[0].message.model_dump()
        history.append({field: message[field] for field in ("role", "content", "tool_calls")})
        for call in message["tool_calls"]:
            text = f"secret-{name} is written here\n" * 120
            history.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        await asyncio.sleep(0)
    queries = ('{"query": "secret"}', '{"query": "1.0, 2.0"}')
    return [infold.recall(query, messages=history) for query in queries] + [infold.recall(queries[0])]


def test_conversations_that_begin_alike_recall_their_own() -> None:
    """B44: conversations without an id, in turn and at once, are never shown each other's text; messages or an id are needed."""
    model = Scripted()
    infold = plug(model)

    async def run() -> list[list[Any]]:
        in_turn = [await converse(infold, "anna"), await converse(infold, "bert")]
        return [*in_turn, *await asyncio.gather(converse(infold, "anna"), converse(infold, "bert"))]

    for name, recalled in zip(("anna", "bert") * 2, RUNNER.run(run()), strict=True):
        other = {"anna": "secret-bert", "bert": "secret-anna"}[name]
        assert other not in str(recalled)
        assert all(f"secret-{name}" in text for text in recalled[:2])
        assert recalled[2] == NOTHING_RECALLED
    assert not any("secret-anna" in str(sent) and "secret-bert" in str(sent) for sent in model.requests)


@pytest.mark.usefixtures("only_folds")
def test_a_tool_named_recall_is_left_alone() -> None:
    """B44: a caller's own tool called recall is not taken for infold's."""
    model = Scripted()
    plug(model)
    TOOLS.append({"type": "function", "function": {"name": "recall", "parameters": {"type": "object"}}})
    try:
        RUNNER.run(loop(30, [{"role": "user", "content": RULE}], metadata={"session_id": "one"}))
    finally:
        TOOLS.pop()
    assert "recall " not in str(model.requests[-1])
