"""boto3's and google-genai's clients through `wrap`, and Converse through the gateway: the SDKs against a scripted server."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import httpx2
import pytest
from google import genai
from google.genai import types
from tests.support.policies import FOLDS, FOLDS_SETTING

from infold import SessionSettings, wrap
from infold.core.events import Compacted, Event, FailedOpen, NotManaged, Pruned, Rejected
from infold.core.policy import INFOLD, Policy
from infold.errors import UsageError
from infold.formats.registry import builder_for
from infold.stores.memory import MemoryStore
from infold.testing.converse_rules import ConverseRules
from infold.testing.script import Fail, Say, ScriptedAnswer, ScriptedRequest, in_turn
from infold.testing.scripted_server import ScriptedServer

from ..unit.gateway.stage import Stage  # noqa: TID252 - `tests` is no package to name
from .gateway_stage import serving

pytestmark = pytest.mark.slow

Item: TypeAlias = dict[str, Any]

CLAUDE = "us.anthropic.claude-opus-5-5-20260901-v1:0"
WINDOW = 20_000
STEPS = 32
OUTPUT = "part {} is fine. " * 200
RULE = "Never touch the files under vendor/."
SYSTEM = [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}]
TOOLS = {"tools": [{"toolSpec": {"name": "bash", "inputSchema": {"json": {"type": "object"}}}}]}


class Worker:
    """Asks for one command after the other, thinking before each; `summaries` counts what it was asked to summarise."""

    def __init__(self, steps: int = STEPS) -> None:
        self.summaries = 0
        self.requests: list[ScriptedRequest] = []
        self._left = steps

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        """One more command, or the end; a summary if infold asks for one."""
        if "Write notes on the conversation" in str((request.body.get("messages") or request.body["contents"])[-1]):
            self.summaries += 1
            return Say(f"The parts were built with make, one after the other. {RULE}")
        self.requests.append(request)
        self._left -= 1
        return (
            Say(calls=(("bash", {"command": f"make part{self._left}"}),), reasoning="Hm.")
            if self._left > 0
            else Say("Done.")
        )


each_way = pytest.mark.parametrize("policy", [INFOLD, FOLDS], ids=["prunes", "folds"])


def check_cuts(worker: Worker, events: list[Event], policy: Policy) -> None:
    """Check that room was made several times, and that each fold has a summary of the worker's."""
    folds = [event for event in events if isinstance(event, Compacted)]
    prunings = [event for event in events if isinstance(event, Pruned)]

    assert worker.summaries == len(folds)
    assert len(folds if policy is FOLDS else prunings) >= 2


def converse_loop(ask: Callable[[list[Item]], Item]) -> list[Item]:
    """Work until the model is done; the newest message has the cache point, as agents place it."""
    messages: list[Item] = [{"role": "user", "content": [{"text": f"Port the importer. {RULE}"}]}]
    for step in range(STEPS + 5):
        *earlier, last = messages
        marked = {**last, "content": [*last["content"], {"cachePoint": {"type": "default"}}]}
        reply = ask([*earlier, marked])
        message = reply["output"]["message"]
        messages.append(message)
        calls = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        if not calls:
            return messages
        output = [{"text": OUTPUT.replace("{}", str(step))}]
        results = [{"toolResult": {"toolUseId": call["toolUseId"], "content": output}} for call in calls]
        messages.append({"role": "user", "content": results})
    raise AssertionError("the model never came to an end")


# boto3.


def boto3_client(url: str) -> Any:
    """A client of Bedrock's runtime with credentials of nobody, which signs what it sends."""
    boto3 = pytest.importorskip("boto3")
    config = pytest.importorskip("botocore.config").Config(retries={"max_attempts": 1})
    return boto3.client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="nobody",
        aws_secret_access_key="nothing",
        config=config,
    )


def whole(client: Any, **fields: Any) -> Item:
    """The reply of `converse`."""
    reply: Item = client.converse(modelId=CLAUDE, **fields)
    return reply


def streamed(client: Any, **fields: Any) -> Item:
    """The reply of `converse_stream`, put together from the SDK's events."""
    builder = builder_for("bedrock-converse")
    for event in client.converse_stream(modelId=CLAUDE, **fields)["stream"]:
        ((name, value),) = event.items()
        builder.feed(f"event: {name}\ndata: {json.dumps(value)}\n\n".encode())
    return builder.reply() or {}


@pytest.mark.parametrize("ask", [whole, streamed])
@pytest.mark.parametrize("binds", [False, True])
@each_way
def test_a_boto3_client_stays_inside_the_window(ask: Callable[..., Item], binds: bool, policy: Policy) -> None:
    """B44: whole or streamed, each request of a boto3 client fits, is signed and acceptable, and has the user's rule."""
    worker, events = Worker(), list[Event]()
    rules = ConverseRules(worker, binds=binds)
    with ScriptedServer(rules) as server:
        client = boto3_client(server.url)
        wrapped = wrap(client, SessionSettings(window=WINDOW, policy=policy, on_event=events.append))
        messages = converse_loop(lambda items: ask(wrapped, messages=items, system=SYSTEM, toolConfig=TOOLS))
        wrapped.close()

    assert type(wrapped) is type(client)
    assert len(rules.refusals) == int(binds)
    assert len(messages) == 2 * STEPS
    assert len(worker.requests) == STEPS
    assert all(request.tokens <= WINDOW and RULE in str(request.body) for request in worker.requests)
    assert all(request.headers["authorization"].startswith("AWS4-HMAC-SHA256") for request in server.requests)
    check_cuts(worker, events, policy)
    assert not any(isinstance(event, FailedOpen | NotManaged) for event in events)


@pytest.mark.parametrize("ask", [whole, streamed])
def test_a_boto3_client_is_recovered_from_a_refusal(ask: Callable[..., Item]) -> None:
    """B44: a ValidationException for the size never reaches the caller; the request is made smaller and sent again."""
    worker, events = Worker(), list[Event]()
    with ScriptedServer(ConverseRules(worker), window_tokens=16_000) as server:
        wrapped = wrap(boto3_client(server.url), SessionSettings(window=32_000, on_event=events.append))
        converse_loop(lambda items: ask(wrapped, messages=items, system=SYSTEM, toolConfig=TOOLS))

    assert sum(isinstance(event, Rejected) for event in events) >= 1
    assert len(worker.requests) == STEPS


def test_what_is_not_folded_is_sent_as_boto3_wrote_it() -> None:
    """B30, B44: media and unknown fields of a request that fits are the SDK's own bytes; other operations are its own."""
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\x00"}}}
    sent: list[list[Item]] = []
    for is_wrapped in (True, False):
        with ScriptedServer() as server:
            client = wrap(boto3_client(server.url)) if is_wrapped else boto3_client(server.url)
            reply = whole(client, messages=[{"role": "user", "content": [image, {"text": "What is it?"}]}])
            with pytest.raises(client.exceptions.ClientError):
                client.count_tokens(modelId=CLAUDE, input={"converse": {"messages": []}})
            sent.append([request.body for request in server.requests])

    assert sent[0] == sent[1]
    assert reply["output"]["message"]["content"] == [{"text": "All is well."}]
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_errors_of_boto3_are_its_own() -> None:
    """B44: an exception that is about something else is raised as the SDK raises it, and nothing is recorded for it."""
    store = MemoryStore()
    denied = Fail(403, {"__type": "AccessDeniedException", "message": "no"})
    with ScriptedServer(in_turn(denied, Say("Yes."))) as server:
        wrapped = wrap(boto3_client(server.url), store=store, session="s")
        ask = {"messages": [{"role": "user", "content": [{"text": "May I?"}]}]}
        with pytest.raises(wrapped.exceptions.AccessDeniedException):
            whole(wrapped, **ask)
        assert whole(wrap(wrapped, store=store, session="s"), **ask)["stopReason"] == "end_turn"

    assert len(server.requests) == 2
    assert [stored.key.session_id for stored in store.sessions("")] == ["s"]


def test_a_stream_of_boto3_may_be_left() -> None:
    """B44: a stream that is closed before its end raises nothing, and the client goes on."""
    with ScriptedServer(in_turn(Say("word " * 400), Say("Yes."))) as server:
        wrapped = wrap(boto3_client(server.url))
        ask = {"messages": [{"role": "user", "content": [{"text": "Speak."}]}]}
        stream = wrapped.converse_stream(modelId=CLAUDE, **ask)["stream"]
        assert next(iter(stream)) == {"messageStart": {"role": "assistant"}}
        stream.close()
        assert streamed(wrapped, **ask)["output"]["message"]["content"] == [{"text": "Yes."}]


# The gateway.


@pytest.mark.parametrize("stream", [False, True])
@each_way
def test_the_gateway_manages_converse(stream: bool, policy: Policy) -> None:
    """B43: Converse with a bearer key is kept inside the window, whole and in Amazon's framing."""
    worker, path = Worker(), f"/model/{CLAUDE}/converse{'-stream' if stream else ''}"
    rules = ConverseRules(worker, binds=True)
    with ScriptedServer(rules) as server:
        stage = Stage(server.url, window=WINDOW, variables=FOLDS_SETTING if policy is FOLDS else {})
        with serving(stage.app) as url, httpx2.Client(base_url=url, timeout=60) as client:

            def ask(items: list[Item]) -> Item:
                body = {"messages": items, "system": SYSTEM, "toolConfig": TOOLS, "inferenceConfig": {"maxTokens": 400}}
                reply = client.post(path, json=body, headers={"authorization": "Bearer k"})
                assert reply.status_code == 200, reply.text
                assert reply.headers["x-infold"] == "managed"
                if not stream:
                    return dict(reply.json())
                builder = builder_for("bedrock-converse")
                builder.feed(reply.content)
                return builder.reply() or {}

            converse_loop(ask)

    assert len(rules.refusals) == 1
    assert all(request.tokens <= WINDOW and RULE in str(request.body) for request in worker.requests)
    check_cuts(worker, stage.events, policy)


def test_a_signed_converse_request_is_relayed() -> None:
    """B43: a request signed by AWS passes byte for byte, and an event says that it is not managed."""
    raw = json.dumps({"messages": [{"role": "user", "content": [{"text": "hi"}]}]}).encode()
    signed = {"authorization": "AWS4-HMAC-SHA256 Credential=A/20261116/us-east-1/bedrock/aws4_request, Signature=0"}
    with ScriptedServer() as server:
        stage = Stage(server.url, window=WINDOW)
        with serving(stage.app) as url:
            reply = httpx2.post(f"{url}/model/{CLAUDE}/converse", content=raw, headers=signed)

    assert "SigV4" in reply.headers["x-infold"]
    assert any(isinstance(event, NotManaged) for event in stage.events)


# google-genai.


def google_client(url: str) -> genai.Client:
    """A client of Google's with a key of nobody's."""
    return genai.Client(api_key="nobody", http_options=types.HttpOptions(base_url=url))


def google_contents() -> Iterator[types.Content]:
    """A request, then results of one call after the other."""
    yield types.UserContent(f"Port the importer. {RULE}")
    for step in range(STEPS):
        response = types.FunctionResponse(
            id=f"call-{step + 1}-0", name="bash", response={"output": OUTPUT.replace("{}", str(step))}
        )
        yield types.Content(role="user", parts=[types.Part(function_response=response)])


DECLARED: Any = [{"function_declarations": [{"name": "bash", "parameters": {"type": "OBJECT"}}]}]


def google_loop(ask: Callable[[list[types.Content]], types.Content | None]) -> None:
    """Work until the model is done."""
    contents: list[types.Content] = []
    for content in google_contents():
        contents.append(content)
        reply = ask(contents)
        assert reply is not None
        contents.append(reply)
        if not any(part.function_call for part in reply.parts or ()):
            return


def joined(chunks: list[types.GenerateContentResponse]) -> types.Content:
    """What a stream brought, as one content."""
    found = (chunk.candidates[0].content for chunk in chunks if chunk.candidates)
    parts = [part for content in found if content for part in content.parts or ()]
    return types.Content(role="model", parts=[part for part in parts if part.text is None or part.text])


CONFIG = types.GenerateContentConfig(tools=DECLARED, system_instruction="Be brief.")


def google_whole(client: genai.Client, contents: list[types.Content]) -> types.Content | None:
    """The reply of `models.generate_content`."""
    reply = client.models.generate_content(model="gemini-2.5-pro", contents=contents, config=CONFIG)
    return reply.candidates[0].content if reply.candidates else None


def google_streamed(client: genai.Client, contents: list[types.Content]) -> types.Content | None:
    """The reply of `models.generate_content_stream`."""
    return joined(list(client.models.generate_content_stream(model="gemini-2.5-pro", contents=contents, config=CONFIG)))


async def google_async(client: genai.Client, contents: list[types.Content]) -> types.Content | None:
    """The reply of `aio.models.generate_content_stream`."""
    stream = await client.aio.models.generate_content_stream(
        model="gemini-2.5-pro",
        contents=contents,
        config=CONFIG,
    )
    return joined([chunk async for chunk in stream])


@pytest.mark.parametrize("ask", [google_whole, google_streamed, google_async])
@each_way
def test_a_google_client_stays_inside_the_window(
    ask: Callable[[genai.Client, list[types.Content]], Any], policy: Policy
) -> None:
    """B44: whole, streamed or async, each request of a google-genai client fits and has the user's rule."""
    worker, events = Worker(), list[Event]()
    with ScriptedServer(worker) as server, asyncio.Runner() as runner:
        settings = SessionSettings(window=WINDOW, policy=policy, on_event=events.append)
        wrapped = wrap(google_client(server.url), settings)
        is_async = ask is google_async
        google_loop(lambda contents: runner.run(ask(wrapped, contents)) if is_async else ask(wrapped, contents))
        runner.run(wrapped.aio.aclose())
        wrapped.close()

    assert type(wrapped) is genai.Client
    assert len(worker.requests) == STEPS
    assert all(request.tokens <= WINDOW and RULE in str(request.body) for request in worker.requests)
    check_cuts(worker, events, policy)
    assert not any(isinstance(event, FailedOpen | NotManaged) for event in events)


def test_a_google_chat_goes_through() -> None:
    """B44: a chat of a wrapped client is a session, and the client it was made of is as it was."""
    store = MemoryStore()
    with ScriptedServer(in_turn(Say("One."), Say("Two."), Say("Three."))) as server:
        client = google_client(server.url)
        wrapped = wrap(client, store=store, session="s")
        chat = wrapped.chats.create(model="gemini-2.5-pro")
        said = [chat.send_message(text).text for text in ("And?", "And then?")]
        plain = client.models.generate_content(model="gemini-2.5-pro", contents="And?").text

    assert (said, plain) == (["One.", "Two."], "Three.")
    assert [stored.key.session_id for stored in store.sessions("")] == ["s"]


def test_a_google_client_is_recovered_from_a_refusal() -> None:
    """B44: an error for the size never reaches the caller of a google-genai client."""
    events: list[Event] = []
    with ScriptedServer(Worker(), window_tokens=16_000) as server:
        wrapped = wrap(wrap(google_client(server.url)), SessionSettings(window=32_000, on_event=events.append))
        google_loop(lambda contents: google_whole(wrapped, contents))

    assert any(isinstance(event, Rejected) for event in events)


def test_a_google_client_of_another_library_is_refused() -> None:
    """A client with certificates sends by other means than an HTTP client that could be wrapped."""
    client = google_client("http://127.0.0.1:9")
    client._api_client._async_httpx_client = None  # as the SDK has it with certificates
    with pytest.raises(UsageError, match="no httpx2 client"):
        wrap(client)
