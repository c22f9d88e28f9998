"""Models of the `anthropic` SDK.

Without an address or a key the SDK finds its own; it also retries after short waits.
"""

from collections.abc import Iterator
from typing import Any
from weakref import finalize

import anthropic

from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import ModelRef
from infold.core.summary_request import SummaryRequest
from infold.errors import KeyRefused
from infold.formats.registry import ANTHROPIC_MESSAGES
from infold.formats.requests import BETA_HEADER, native_betas, native_body, offers_native
from infold.formats.tools import tool_items
from infold.models.failures import TRANSPORT, Endpoint, FailureTable, return_long_waits, translate_errors
from infold.models.streaming import build_summary_request, output_limit, read_stream, read_summary
from infold.ports import Heard, ModelRequest

VARIABLE = "ANTHROPIC_API_KEY"
"""The variable in which the SDK looks for a key first."""

FAILURES = FailureTable(
    (anthropic.AnthropicError, *TRANSPORT.roots),
    {
        **TRANSPORT.kinds,
        "APIConnectionError": "cause",
        "APIError": "status",
        "APIResponseValidationError": "broken",
        "APIStatusError": "status",
        "APITimeoutError": "busy",
        "APIWebhookValidationError": "refused",
        "CredentialsError": "key",
        "MissingDependencyError": "refused",
        "MutuallyExclusiveAuthError": "key",
        "RetryableError": "busy",
        "StreamAlreadyConsumed": "broken",
        "ToolsetUsageError": "refused",
        "WorkloadIdentityError": "key",
    },
)

CACHED = {"type": "ephemeral"}
"""Marks the end of a prefix to cache. One mark is behind the system prompt, which outlives every compaction; the API
sets another behind the last message. Marks are not part of what the cache compares, so prefixes stay equal.
"""


class AnthropicMessages:
    """A model behind `messages`, at the SDK's own address or another.

    Without a `client` one is created; raise `KeyRefused` if it has no key. `variable` is where the user sets that
    key, and `credential` the key or token that is sent.
    """

    def __init__(
        self,
        ref: ModelRef,
        client: anthropic.Anthropic | None = None,
        *,
        url: str = "",
        key: str = "",
        variable: str = VARIABLE,
    ) -> None:
        self.ref = ref
        self.format = ANTHROPIC_MESSAGES.name
        self._client = client or _client(url, key)
        secret = self._client.api_key or self._client.auth_token
        if client is None and not (secret or self._client.credentials):
            raise KeyRefused(ref.id, "there is no key for it", variable=variable)
        self.offers_native = offers_native(ANTHROPIC_MESSAGES, self._client.base_url.host)
        self.credential = secret or ""
        self._endpoint = Endpoint(ref.id, str(self._client.base_url), variable=variable, secret=secret)

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """Send a request and yield the reply in pieces; raise `ModelError`."""
        body = {**self._body(request), **_cached_system(request.system), "cache_control": CACHED}
        return self._heard({**body, "extra_headers": {BETA_HEADER: ",".join(request.betas)}} if request.betas else body)

    def summarise(self, request: SummaryRequest) -> Iterator[str | ModelAnswer]:
        """Yield a summary in pieces, then the whole with usage and cost.

        A request that shares the ordinary one's prefix is sent like it and read from the cache. Of others nothing is cached:
        the same request is never sent twice, and cache writes cost extra.
        """
        if request.is_native:
            return iter((self._compact(request),))
        asked = build_summary_request(ANTHROPIC_MESSAGES, request)
        pieces = self.stream(asked) if request.shares_prefix else self._heard(self._body(asked))
        return read_summary(self.ref, ANTHROPIC_MESSAGES, pieces)

    def _compact(self, request: SummaryRequest) -> ModelAnswer:
        """Have the provider compact the first messages of a request; what it has cached of them serves it."""
        body = {
            "model": self.ref.id,
            **_cached_system(request.system),
            **({"tools": request.tools} if request.tools else {}),
        }
        asked = native_body(ANTHROPIC_MESSAGES, body, request)
        compaction, betas = {"compaction": asked.pop("compaction")}, ",".join(native_betas(ANTHROPIC_MESSAGES))
        with translate_errors(self._endpoint, FAILURES):
            create = self._client.messages.with_raw_response.create
            reply = create(**asked, extra_body=compaction, extra_headers={BETA_HEADER: betas})
            return ModelAnswer(Answer(""), self.ref.id, reply=reply.http_response.json())

    def _heard(self, body: dict[str, Any]) -> Iterator[Heard]:
        create = self._client.messages.with_streaming_response.create
        with translate_errors(self._endpoint, FAILURES), create(**body) as response:
            yield from read_stream(self._endpoint, ANTHROPIC_MESSAGES, response.iter_bytes())

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        tools = tool_items(self.format, request.tools)
        return {
            "model": self.ref.id,
            "messages": request.messages,
            "max_tokens": request.output_tokens or output_limit(self.ref),
            "stream": True,
            **({"system": request.system} if request.system else {}),
            **({"tools": tools} if tools else {}),
        }


def _client(url: str, key: str) -> anthropic.Anthropic:
    http_client = anthropic.DefaultHttpxClient(event_hooks={"response": [return_long_waits]})
    client = anthropic.Anthropic(base_url=url or None, api_key=key or None, http_client=http_client)
    finalize(client, http_client.close)
    return client


def _cached_system(system: str) -> dict[str, Any]:
    return {"system": [{"type": "text", "text": system, "cache_control": CACHED}]} if system else {}
