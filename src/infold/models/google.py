"""Models of the `google-genai` SDK. Without a key the SDK finds its own key and project."""

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import google.auth.exceptions
import pydantic
from google import genai
from google.genai import errors, types

from infold.core.judge import ModelAnswer
from infold.core.messages import ModelRef
from infold.core.summary_request import SummaryRequest
from infold.errors import KeyRefused, RequestRefused
from infold.formats.registry import GEMINI
from infold.formats.tools import tool_items
from infold.models.failures import TRANSPORT, Endpoint, FailureTable, translate_errors
from infold.models.streaming import build_summary_request, read_stream, read_summary
from infold.ports import Heard, ModelRequest

VARIABLE = "GEMINI_API_KEY"
"""The variable for a key; the SDK looks in `GOOGLE_API_KEY` too."""

TIMEOUT_MS = 600_000
"""How long a reply may stall: as long as the other SDKs wait by default."""

ADDRESS = "https://generativelanguage.googleapis.com"

FAILURES = FailureTable(
    (
        errors.APIError,
        errors.ContinuationInterruptedError,
        errors.FunctionInvocationError,
        errors.UnknownApiResponseError,
        errors.UnknownFunctionCallArgumentError,
        errors.UnsupportedFunctionError,
        google.auth.exceptions.GoogleAuthError,
        pydantic.ValidationError,
        *TRANSPORT.roots,
    ),
    {
        **TRANSPORT.kinds,
        "APIError": "status",
        "ContinuationInterruptedError": "broken",
        "FunctionInvocationError": "refused",
        "GoogleAuthError": "key",
        "TimeoutError": "busy",
        "TransportError": "unreachable",
        "UnknownApiResponseError": "broken",
        "UnknownFunctionCallArgumentError": "refused",
        "UnsupportedFunctionError": "refused",
        "ValidationError": "broken",
    },
)

_UNSENT = "."
"""A placeholder for contents of the SDK's own types; the request's are sent instead, unchanged."""


class GoogleGemini:
    """A model behind `generateContent`, at the SDK's own address or another.

    Without a `client` one is created; raise `KeyRefused` if it has no key. `variable` is where the user sets that
    key.
    """

    def __init__(
        self,
        ref: ModelRef,
        client: genai.Client | None = None,
        *,
        url: str = "",
        key: str = "",
        variable: str = VARIABLE,
    ) -> None:
        self.ref = ref
        self.format = GEMINI.name
        self._client = client or make_client(ref.id, url=url, key=key, variable=variable)
        inside = getattr(self._client, "_api_client", None)  # the SDK has no public attribute for key and address
        address = getattr(getattr(inside, "_http_options", None), "base_url", None)
        self._endpoint = Endpoint(
            ref.id, address or url or ADDRESS, variable=variable, secret=getattr(inside, "api_key", None) or key
        )

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """Send a request and yield the reply in pieces; raise `ModelError`."""
        # The body is sent unchanged: the SDK's types would reject unknown fields and rewrite signatures.
        options = types.HttpOptions(extra_body=self._body(request))
        config = types.GenerateContentConfig(
            http_options=options, automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
        )
        ask = self._client.models.generate_content_stream
        with (
            translate_errors(self._endpoint, FAILURES),
            closing(self._events(ask(model=self.ref.id, contents=_UNSENT, config=config))) as events,
        ):
            yield from read_stream(self._endpoint, GEMINI, events)

    def summarise(self, request: SummaryRequest) -> Iterator[str | ModelAnswer]:
        """Yield a summary in pieces, then the whole with usage and cost."""
        return read_summary(self.ref, GEMINI, self.stream(build_summary_request(GEMINI, request)))

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        tools = tool_items(self.format, request.tools)
        return {
            "contents": request.messages,
            **({"systemInstruction": {"parts": [{"text": request.system}]}} if request.system else {}),
            **({"tools": tools} if tools else {}),
            **({"generationConfig": {"maxOutputTokens": request.output_tokens}} if request.output_tokens else {}),
        }

    def _events(self, chunks: Iterator[types.GenerateContentResponse]) -> Generator[bytes]:
        """Yield the chunks as the events they arrived in."""
        for chunk in chunks:
            feedback = chunk.prompt_feedback
            if feedback is not None and feedback.block_reason:
                raise RequestRefused(self.ref.id, f"the request was blocked ({feedback.block_reason.value})")
            event = chunk.model_dump_json(by_alias=True, exclude_none=True, exclude={"sdk_http_response"})
            yield b"data: " + event.encode() + b"\n\n"


def make_client(model: str, *, url: str, key: str, variable: str) -> genai.Client:
    try:
        return genai.Client(
            api_key=key or None, http_options=types.HttpOptions(base_url=url or None, timeout=TIMEOUT_MS)
        )
    except (ValueError, google.auth.exceptions.GoogleAuthError) as error:
        raise KeyRefused(model, "there is no key for it", variable=variable) from error
