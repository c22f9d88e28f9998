"""The scripted server as the official SDKs see it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from infold.core.messages import Usage, UserMessage, text_of
from infold.formats.overflow import recognise
from infold.formats.registry import ANTHROPIC_MESSAGES, OPENAI_CHAT, OPENAI_RESPONSES, WireFormat, builder_for
from infold.testing.script import Fail, Hang, Say, Trouble, in_turn
from infold.testing.scripted_server import ScriptedServer

pytestmark = pytest.mark.slow

USER: Any = [{"role": "user", "content": "List the files."}]
CALLING = Say("I will look. ☕", calls=(("bash", {"command": "ls", "n": 2}), ("pwd", {})), reasoning="Which folder?")
TOOL = {"type": "object", "properties": {"command": {"type": "string"}}}
CHAT_TOOLS: Any = [{"type": "function", "function": {"name": "bash", "parameters": TOOL}}]
RESPONSES_TOOLS: Any = [{"type": "function", "name": "bash", "parameters": TOOL, "strict": False}]
MESSAGES_TOOLS: Any = [{"name": "bash", "input_schema": TOOL}]
USAGE_TOO: Any = {"include_usage": True}


@contextmanager
def openai_client(server: ScriptedServer, **options: Any) -> Iterator[openai.OpenAI]:
    """A client of OpenAI's SDK that never tries twice."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="sk-secret", max_retries=0, **options) as client:
        yield client


@contextmanager
def anthropic_client(server: ScriptedServer, **options: Any) -> Iterator[anthropic.Anthropic]:
    """A client of Anthropic's SDK that never tries twice."""
    with anthropic.Anthropic(base_url=server.url, api_key="sk-ant-secret", max_retries=0, **options) as client:
        yield client


def chat(server: ScriptedServer) -> Any:
    """A chat reply."""
    with openai_client(server) as client:
        return client.chat.completions.create(model="m", messages=USER, tools=CHAT_TOOLS)


def chat_streamed(server: ScriptedServer) -> Any:
    """A chat reply, streamed."""
    with (
        openai_client(server) as client,
        client.chat.completions.stream(model="m", messages=USER, tools=CHAT_TOOLS, stream_options=USAGE_TOO) as events,
    ):
        return events.get_final_completion()


def response(server: ScriptedServer) -> Any:
    """A response."""
    with openai_client(server) as client:
        return client.responses.create(model="m", input=USER, tools=RESPONSES_TOOLS)


def response_streamed(server: ScriptedServer) -> Any:
    """A response, streamed."""
    with (
        openai_client(server) as client,
        client.responses.stream(model="m", input="List the files.", tools=RESPONSES_TOOLS) as events,
    ):
        return events.get_final_response()


def message(server: ScriptedServer) -> Any:
    """A message."""
    with anthropic_client(server) as client:
        return client.messages.create(model="m", max_tokens=99, messages=USER, tools=MESSAGES_TOOLS)


def message_streamed(server: ScriptedServer) -> Any:
    """A message, streamed."""
    with (
        anthropic_client(server) as client,
        client.messages.stream(model="m", max_tokens=99, messages=USER, tools=MESSAGES_TOOLS) as events,
    ):
        return events.get_final_message()


async def chat_async(server: ScriptedServer) -> Any:
    """A chat reply by the asynchronous client."""
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client:
        return await client.chat.completions.create(model="m", messages=USER, tools=CHAT_TOOLS)


async def response_async(server: ScriptedServer) -> Any:
    """A response by the asynchronous client, streamed."""
    async with (
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client,
        client.responses.stream(model="m", input=USER, tools=RESPONSES_TOOLS) as events,
    ):
        return await events.get_final_response()


async def message_async(server: ScriptedServer) -> Any:
    """A message by the asynchronous client, streamed."""
    async with (
        anthropic.AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0) as client,
        client.messages.stream(model="m", max_tokens=99, messages=USER, tools=MESSAGES_TOOLS) as events,
    ):
        return await events.get_final_message()


WAYS: list[tuple[WireFormat, Callable[[ScriptedServer], Any]]] = [
    (OPENAI_CHAT, chat),
    (OPENAI_CHAT, chat_streamed),
    (OPENAI_CHAT, lambda server: asyncio.run(chat_async(server))),
    (OPENAI_RESPONSES, response),
    (OPENAI_RESPONSES, response_streamed),
    (OPENAI_RESPONSES, lambda server: asyncio.run(response_async(server))),
    (ANTHROPIC_MESSAGES, message),
    (ANTHROPIC_MESSAGES, message_streamed),
    (ANTHROPIC_MESSAGES, lambda server: asyncio.run(message_async(server))),
]
NAMES = [
    f"{wire.name}-{way}"
    for wire in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC_MESSAGES)
    for way in ("", "stream", "async")
]


@pytest.mark.parametrize(("wire", "ask"), WAYS, ids=NAMES)
def test_the_sdks_understand_the_server(wire: WireFormat, ask: Callable[[ScriptedServer], Any]) -> None:
    """Text, thinking, calls, finish and usage arrive, streamed or not, in sync and async clients."""
    with ScriptedServer(in_turn(CALLING)) as server:
        reply = ask(server)
        request = server.requests[0]
    parts = [
        (getattr(part, "text", ""), getattr(part, "tool", ""), getattr(part, "arguments", ""))
        for message in wire.decode(wire.reply_items(reply)).messages
        for part in message.parts
    ]
    assert parts == [
        ("Which folder?", "", ""),
        ("I will look. ☕", "", ""),
        ("", "bash", '{"command":"ls","n":2}'),
        ("", "pwd", "{}"),
    ]
    assert wire.finish(reply) == "tool-calls"
    usage = wire.usage(reply)
    assert usage is not None
    assert usage.prompt == request.tokens > 20
    assert usage.output > 10
    assert usage.reasoning > 0
    assert request.format == wire.name
    assert [text_of(sent) for sent in request.messages if isinstance(sent, UserMessage)] == ["List the files."]


@pytest.mark.parametrize("ask", [chat, chat_streamed, response, response_streamed, message, message_streamed])
def test_too_large_a_request_is_refused_as_its_provider_would(ask: Callable[[ScriptedServer], Any]) -> None:
    """The SDK raises what it raises for that provider, and the report is recognised, numbers included."""
    with ScriptedServer(window_tokens=10) as server:
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as refused:
            ask(server)
        tokens = server.requests[0].tokens
    error: Any = refused.value
    overflow = recognise(error.status_code, error.response.content)

    assert overflow is not None
    assert (overflow.prompt_tokens, overflow.limit_tokens) == (tokens, 10)
    assert not overflow.bytes_limit
    assert recognise(None, str(error)) is not None


@pytest.mark.parametrize("ask", [chat_streamed, response_streamed, message_streamed])
def test_a_stream_can_be_cut(ask: Callable[[ScriptedServer], Any]) -> None:
    """A connection that breaks in the middle of a stream is an error for its reader."""
    with ScriptedServer(in_turn(CALLING), trouble=Trouble(cut_after_events=5)) as server:
        with pytest.raises((openai.APIConnectionError, httpx2.RemoteProtocolError)):
            ask(server)
        assert len(server.requests) == 1


def test_a_relay_knows_what_was_said_before_the_cut() -> None:
    """Bytes of a broken stream, fed to a builder, give the words up to there."""
    builder = builder_for("openai-chat")
    with (
        ScriptedServer(in_turn(Say("All is well, as ever.")), trouble=Trouble(cut_after_events=2)) as server,
        openai_client(server) as client,
        client.chat.completions.with_streaming_response.create(model="m", messages=USER, stream=True) as raw,
        suppress(httpx2.RemoteProtocolError),
    ):
        for piece in raw.iter_bytes():
            builder.feed(piece)

    said = {"role": "assistant", "content": "All is well,", "refusal": None}
    assert OPENAI_CHAT.reply_items(builder.reply()) == [said]
    assert not builder.is_finished


@pytest.mark.parametrize(
    ("ask", "event"),
    [
        (chat_streamed, {"error": {"message": "scripted words", "type": "server_error"}}),
        (response_streamed, {"error": {"message": "scripted words", "type": "server_error"}}),
        (message_streamed, {"type": "error", "error": {"type": "overloaded_error", "message": "scripted words"}}),
    ],
)
def test_a_stream_can_report_an_error(ask: Callable[[ScriptedServer], Any], event: dict[str, Any]) -> None:
    """An error event in the middle of a stream is raised by the SDK with its words."""
    trouble = Trouble(cut_after_events=2, error_event=event)
    with (
        ScriptedServer(in_turn(CALLING), trouble=trouble) as server,
        pytest.raises((openai.APIError, anthropic.APIError), match="scripted words"),
    ):
        ask(server)


def test_answers_come_in_turn() -> None:
    """A failure with its own headers and body, then a reply: a client that tries twice never notices."""
    script = in_turn(Fail(429, {"error": {"message": "slow down"}}, {"Retry-After-Ms": "1"}), Say("done"))
    with (
        ScriptedServer(script) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=1) as client,
    ):
        reply = client.chat.completions.create(model="m", messages=USER)
        assert reply.choices[0].message.content == "done"
        assert [request.headers["x-stainless-retry-count"] for request in server.requests] == ["0", "1"]


def test_a_failure_is_what_it_is_told_to_be() -> None:
    """Status, body and headers are the script's; without a body every SDK still understands it."""
    script = in_turn(Fail(503, "gone fishing", {"x-why": "because"}), Fail(500))
    with ScriptedServer(script) as server, openai_client(server) as client, anthropic_client(server) as other:
        with pytest.raises(openai.InternalServerError) as failed:
            client.responses.create(model="m", input="hi")
        assert (failed.value.status_code, failed.value.response.text) == (503, "gone fishing")
        assert failed.value.response.headers["x-why"] == "because"
        with pytest.raises(anthropic.InternalServerError, match="a scripted failure"):
            other.messages.create(model="m", max_tokens=9, messages=USER)


def test_silence_lasts_no_longer_than_the_server() -> None:
    """A client that is not answered gives up by itself, and the server stops although it still hangs."""
    with (
        ScriptedServer(in_turn(Hang(600))) as server,
        openai_client(server, timeout=0.05) as client,
        pytest.raises(openai.APITimeoutError),
    ):
        client.chat.completions.create(model="m", messages=USER)


def test_usage_is_counted_by_a_factor_or_given() -> None:
    """A provider that counts twice as many reports twice as many; a script may say what is reported."""
    given = Usage(100, 7, reasoning=2, cache_read=50, cache_write=25)
    with ScriptedServer() as plain, ScriptedServer(factor=2.0) as doubled:
        once, twice = OPENAI_CHAT.usage(chat(plain)), OPENAI_CHAT.usage(chat(doubled))
    with ScriptedServer(in_turn(Say("x", usage=given))) as server:
        told = [wire.usage(ask(server)) for wire, ask in WAYS]
    assert once is not None
    assert twice is not None
    assert twice.prompt == 2 * once.prompt
    assert [(usage.prompt, usage.cache_read, usage.output, usage.reasoning) for usage in told if usage] == [
        (175, 50, 7, 2)
    ] * len(WAYS)


def test_a_chat_streams_usage_only_where_it_is_wanted() -> None:
    """As with the real service, usage in a stream has to be asked for."""
    with ScriptedServer() as server, openai_client(server) as client:
        silent = client.chat.completions.create(model="m", messages=USER, stream=True)
        assert [chunk.usage for chunk in silent if chunk.usage] == []
        telling = client.chat.completions.create(model="m", messages=USER, stream=True, stream_options=USAGE_TOO)
        assert len([chunk.usage for chunk in telling if chunk.usage]) == 1


def test_counts_and_models_are_answered() -> None:
    """Tokens can be counted without a reply, and both SDKs find the one model."""
    with ScriptedServer() as server, openai_client(server) as client, anthropic_client(server) as other:
        counted = other.messages.count_tokens(model="m", messages=USER, tools=MESSAGES_TOOLS)
        assert counted.input_tokens == server.requests[0].tokens
        assert client.responses.input_tokens.count(model="m", input="hi").input_tokens == server.requests[1].tokens
        assert (
            [model.id for model in client.models.list()] == [model.id for model in other.models.list()] == ["scripted"]
        )


@pytest.mark.parametrize(
    ("finish", "words"),
    [
        ("length", ("length", "max_tokens", "incomplete")),
        ("content-filter", ("content_filter", "refusal", "incomplete")),
    ],
)
def test_a_reply_ends_as_the_script_says(finish: Any, words: tuple[str, ...]) -> None:
    """Each provider has its own words for the reason, and they mean the script's."""
    with ScriptedServer(in_turn(Say("half", finish=finish))) as server:
        said, written, told = chat(server), message(server), response(server)
    assert (said.choices[0].finish_reason, written.stop_reason, told.status) == words
    assert [OPENAI_CHAT.finish(said), ANTHROPIC_MESSAGES.finish(written), OPENAI_RESPONSES.finish(told)] == [finish] * 3
