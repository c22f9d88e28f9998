"""Models of the `openai` SDK: Chat Completions, Responses, and the embedded model. The provider stores nothing."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, ClassVar
from urllib.parse import urlsplit
from weakref import finalize

import httpx2
import openai
from msgspec.structs import replace

from infold.catalogue.served import Question
from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import ModelRef
from infold.core.summary_request import SummaryRequest
from infold.errors import KeyRefused
from infold.formats.registry import OPENAI_CHAT, OPENAI_RESPONSES, WireFormat
from infold.formats.requests import native_body, offers_native
from infold.formats.tools import tool_items
from infold.models.failures import TRANSPORT, Endpoint, FailureTable, return_long_waits, translate_errors
from infold.models.streaming import build_summary_request, read_stream, read_summary
from infold.ports import Heard, ModelRequest

VARIABLE = "OPENAI_API_KEY"
"""The variable in which the SDK looks for a key."""

NO_KEY = "none"
"""The key for a self-hosted server; most ignore it."""

FAILURES = FailureTable(
    (openai.OpenAIError, *TRANSPORT.roots),
    {
        **TRANSPORT.kinds,
        "APIConnectionError": "cause",
        "APIError": "status",
        "APIRemovedInV1": "refused",
        "APIResponseValidationError": "broken",
        "APIStatusError": "status",
        "APITimeoutError": "busy",
        "AgentFilePreparationError": "refused",
        "AgentFileStagingError": "refused",
        "AgentOutputParseError": "refused",
        "AgentTurnResultError": "refused",
        "ContentFilterFinishReasonError": "refused",
        "LengthFinishReasonError": "refused",
        "MissingDependencyError": "refused",
        "MutuallyExclusiveAuthError": "key",
        "StreamAlreadyConsumed": "broken",
        "SubjectTokenProviderError": "key",
        "WebSocketConnectionClosedError": "broken",
        "WebSocketQueueFullError": "busy",
        "_AmbiguousModuleClientUsageError": "key",
    },
)


def make_client(model: str, *, url: str, key: str, variable: str) -> openai.OpenAI:
    """Return a client for that address, by default the SDK's own; raise `KeyRefused` if OpenAI itself has no key."""
    http_client = openai.DefaultHttpxClient(event_hooks={"response": [return_long_waits]})
    try:
        client = openai.OpenAI(base_url=url or None, api_key=key or None, http_client=http_client)
    except openai.OpenAIError as error:
        if not url:
            raise KeyRefused(model, "there is no key for it", variable=variable) from error
        client = openai.OpenAI(base_url=url, api_key=NO_KEY, http_client=http_client)
    finalize(client, http_client.close)
    return client


def endpoint_of(model: str, client: openai.OpenAI, *, variable: str) -> Endpoint:
    """Return the endpoint of a client, for errors."""
    return Endpoint(model, str(client.base_url), variable=variable, secret=client.api_key)


class OpenAIModel(ABC):
    """A model behind one of OpenAI's interfaces, at the SDK's own address or another.

    Without a `client` one is created; raise `KeyRefused` if it has no key. `variable` is where the user sets that
    key.
    """

    wire: ClassVar[WireFormat]

    def __init__(
        self,
        ref: ModelRef,
        client: openai.OpenAI | None = None,
        *,
        url: str = "",
        key: str = "",
        variable: str = VARIABLE,
    ) -> None:
        self.ref = ref
        self.format = self.wire.name
        self.client = client or make_client(ref.id, url=url, key=key, variable=variable)
        self.endpoint = endpoint_of(ref.id, self.client, variable=variable)

    @abstractmethod
    def _send(self, request: ModelRequest) -> AbstractContextManager[openai.APIResponse[Any]]:
        """Return the reply to a request; the body is sent as it is, since the SDK would check it against its types."""

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """Send a request and yield the reply in pieces; raise `ModelError`."""
        with translate_errors(self.endpoint, FAILURES), self._send(request) as response:
            yield from read_stream(self.endpoint, self.wire, response.iter_bytes())

    def ask_server(self, question: Question) -> bytes | None:
        """Return the answer of the model's server, asked with the client's own key; `None` if it gives none."""
        client = self.client.with_options(max_retries=0, timeout=question.seconds / 2)
        try:
            if question.method == "GET":
                return client.get(question.url, cast_to=httpx2.Response).content
            return client.post(question.url, cast_to=httpx2.Response, content=question.body).content
        except (openai.OpenAIError, httpx2.HTTPError):
            return None

    def summarise(self, request: SummaryRequest) -> Iterator[str | ModelAnswer]:
        """Yield a summary in pieces, then the whole with usage and cost."""
        return read_summary(self.ref, self.wire, self.stream(build_summary_request(self.wire, request)))


EMBEDDED = ModelRef("embedded", "smollm2-135m-instruct")
"""The model that comes in a package."""

_OWN_HOSTS = ("openai.com", "azure.com")
"""Hosts that call the output limit `max_completion_tokens`; compatible servers know `max_tokens`."""


class OpenAIChat(OpenAIModel):
    """A model behind `chat/completions`."""

    wire = OPENAI_CHAT

    def _send(self, request: ModelRequest) -> AbstractContextManager[openai.APIResponse[Any]]:
        create = self.client.chat.completions.with_streaming_response.create
        return create(model=self.ref.id, messages=(), stream=True, extra_body=self._body(request))

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        system = [{"role": "system", "content": request.system}] if request.system else []
        tools = tool_items(self.format, request.tools)
        return {
            "model": self.ref.id,
            "messages": [*system, *request.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"tools": tools} if tools else {}),
            **({self._output_field(): request.output_tokens} if request.output_tokens else {}),
        }

    def _output_field(self) -> str:
        host = urlsplit(self.endpoint.address).hostname or ""
        return "max_completion_tokens" if host.endswith(_OWN_HOSTS) else "max_tokens"


class EmbeddedChat(OpenAIChat):
    """The embedded model at its server's address. It is too small to call tools, so none are offered."""

    def __init__(self, url: str) -> None:
        super().__init__(EMBEDDED, url=f"{url}/v1", key=NO_KEY)

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """Send a request and yield the reply in pieces; raise `ModelError`."""
        return super().stream(replace(request, tools=()))


_WITHOUT_REASONING = re.compile(r"(?:ft:)?(?:chatgpt|gpt-[34]|gpt-5(?:\.\d+)?-chat)")
"""Models that do not reason, and reject a request for encrypted reasoning. All others return it."""


class OpenAIResponses(OpenAIModel):
    """A model behind `responses`."""

    wire = OPENAI_RESPONSES

    @property
    def offers_native(self) -> bool:
        """Whether the provider compacts histories itself."""
        return offers_native(self.wire, self.client.base_url.host)

    def summarise(self, request: SummaryRequest) -> Iterator[str | ModelAnswer]:
        """Yield a summary in pieces, then the whole with usage and cost."""
        return iter((self._compact(request),)) if request.is_native else super().summarise(request)

    def _compact(self, request: SummaryRequest) -> ModelAnswer:
        """Have the provider compact the first items of a request."""
        body = {"model": self.ref.id, **({"instructions": request.system} if request.system else {})}
        asked = native_body(self.wire, body, request)
        with translate_errors(self.endpoint, FAILURES):
            reply = self.client.responses.with_raw_response.compact(model=asked["model"], extra_body=asked)
            return ModelAnswer(Answer(""), self.ref.id, reply=reply.http_response.json())

    def _send(self, request: ModelRequest) -> AbstractContextManager[openai.APIResponse[Any]]:
        create = self.client.responses.with_streaming_response.create
        return create(model=self.ref.id, stream=True, extra_body=self._body(request))

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        tools = tool_items(self.format, request.tools)
        return {
            "model": self.ref.id,
            "input": request.messages,
            "stream": True,
            "store": False,
            **({"instructions": request.system} if request.system else {}),
            **({} if _WITHOUT_REASONING.match(self.ref.id) else {"include": ["reasoning.encrypted_content"]}),
            **({"tools": tools} if tools else {}),
            **({"max_output_tokens": request.output_tokens} if request.output_tokens else {}),
        }
