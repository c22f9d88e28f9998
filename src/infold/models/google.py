"""Models asked through the `google-genai` SDK. Key and project are the SDK's affair where no key is given."""

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import google.auth.exceptions
import pydantic
from google import genai
from google.genai import errors, types

from infold.core.judge import Told
from infold.core.messages import ModelRef
from infold.core.summary_request import SummaryRequest
from infold.errors import KeyRefused, RequestRefused
from infold.formats.registry import GEMINI
from infold.formats.tools import tool_items
from infold.models.failures import TRANSPORT, Endpoint, FailureTable, translate_errors
from infold.models.streaming import build_summary_request, read_stream, read_summary
from infold.ports import Heard, ModelRequest

VARIABLE = "GEMINI_API_KEY"
"""Where a person sets a key; the SDK looks in `GOOGLE_API_KEY` too."""

TIMEOUT_MS = 600_000
"""How long a reply may stand still: as long as the other SDKs wait by themselves."""

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
"""Stands where the SDK wants contents of its own types; the request's are sent in its place, as they are."""


class GoogleGemini:
    """A model behind `generateContent`, at the SDK's own address or another.

    Without a `client` one is made; raises `KeyRefused` where there is no key for it. `variable` is where a person sets that key.
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
        inside = getattr(self._client, "_api_client", None)  # the SDK tells neither key nor address in public
        told = getattr(getattr(inside, "_http_options", None), "base_url", None)
        self._line = Endpoint(
            ref.id, told or url or ADDRESS, variable=variable, secret=getattr(inside, "api_key", None) or key
        )

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """Ask, and give the reply piece by piece; raises `ModelError`."""
        # The body goes as it is: the SDK's types would refuse fields they do not know, and write signatures anew.
        options = types.HttpOptions(extra_body=self._body(request))
        config = types.GenerateContentConfig(
            http_options=options, automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
        )
        ask = self._client.models.generate_content_stream
        with (
            translate_errors(self._line, FAILURES),
            closing(self._events(ask(model=self.ref.id, contents=_UNSENT, config=config))) as events,
        ):
            yield from read_stream(self._line, GEMINI, events)

    def summarise(self, request: SummaryRequest) -> Iterator[str | Told]:
        """Write a summary piece by piece, and in the end tell all of it with usage and cost (S3.10)."""
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
        """The chunks as the events they came in."""
        for chunk in chunks:
            feedback = chunk.prompt_feedback
            if feedback is not None and feedback.block_reason:
                raise RequestRefused(self.ref.id, f"the request was blocked ({feedback.block_reason.value})")
            told = chunk.model_dump_json(by_alias=True, exclude_none=True, exclude={"sdk_http_response"})
            yield b"data: " + told.encode() + b"\n\n"


def make_client(model: str, *, url: str, key: str, variable: str) -> genai.Client:
    try:
        return genai.Client(
            api_key=key or None, http_options=types.HttpOptions(base_url=url or None, timeout=TIMEOUT_MS)
        )
    except (ValueError, google.auth.exceptions.GoogleAuthError) as error:
        raise KeyRefused(model, "there is no key for it", variable=variable) from error
