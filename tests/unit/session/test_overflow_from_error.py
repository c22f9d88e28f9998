"""Hearing a refusal in whatever a caller caught."""

from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from infold.formats.overflow import Overflow
from infold.session.summariser import overflow_from_error

OPENAI = {
    "error": {
        "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
    }
}
ANTHROPIC = {
    "type": "error",
    "error": {"type": "invalid_request_error", "message": "prompt is too long: 213462 tokens > 200000 maximum"},
}
TOO_LARGE = {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}
TOO_FAST = {"type": "error", "error": {"type": "rate_limit_error", "message": "too many input tokens per minute"}}


def http(status: int, body: Any) -> httpx2.Client:
    """A provider that always answers the same, with a body or without one."""
    response = {} if body is None else {"json": body}
    return httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(status, **response)))


def from_openai(status: int, body: Any) -> Exception:
    """What the official SDK raises."""
    client = openai.OpenAI(api_key="none", http_client=http(status, body), max_retries=0)
    with pytest.raises(openai.OpenAIError) as caught:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
    return caught.value


def from_anthropic(status: int, body: Any) -> Exception:
    """What the official SDK raises."""
    client = anthropic.Anthropic(api_key="none", http_client=http(status, body), max_retries=0)
    with pytest.raises(anthropic.AnthropicError) as caught:
        client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "hello"}])
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raised", "status", "body", "overflow"),
    [
        (from_openai, 400, OPENAI, Overflow("openai", 9_001, 8_192)),
        (from_anthropic, 400, ANTHROPIC, Overflow("anthropic", 213_462, 200_000)),
        (from_anthropic, 413, TOO_LARGE, Overflow("anthropic", bytes_limit=True)),
        (from_openai, 413, {}, Overflow("http", bytes_limit=True)),
        (from_anthropic, 413, None, Overflow("http", bytes_limit=True)),
        (from_openai, 400, None, Overflow("http")),
        (from_anthropic, 400, None, Overflow("http")),
        (from_openai, 500, None, None),
        (from_anthropic, 429, TOO_FAST, None),
        (from_openai, 500, {"error": {"message": "The server had an error"}}, None),
        (from_openai, 401, {"error": {"message": "Incorrect API key provided"}}, None),
    ],
)
def test_an_sdks_exception_is_heard(
    raised: Callable[[int, Any], Exception], status: int, body: Any, overflow: Overflow | None
) -> None:
    """B11: status and body of what the official SDKs raise; a refusal for pace, credentials or trouble is none of size."""
    assert overflow_from_error(raised(status, body)) == overflow


def test_a_connection_that_failed_is_no_refusal() -> None:
    """B11: an exception without a status is heard by its words."""

    def fail(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no route")

    client = openai.OpenAI(
        api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(fail)), max_retries=0
    )
    with pytest.raises(openai.APIConnectionError) as caught:
        client.models.list()

    assert overflow_from_error(caught.value) is None


@pytest.mark.parametrize(
    "error",
    [
        OPENAI,
        str(OPENAI["error"]["message"]),
        OPENAI["error"]["message"].encode(),
        RuntimeError(OPENAI["error"]["message"]),
        Overflow("openai", 9_001, 8_192),
    ],
)
def test_a_body_or_any_exceptions_words_will_do(error: object) -> None:
    """B11: a refusal as a dict, text, bytes, another library's exception, or one that was recognised already."""
    assert overflow_from_error(error) == Overflow("openai", 9_001, 8_192)


class Bodiless(Exception):
    """What libraries raise that keep a provider's words and not its body."""

    status_code = 400
    body = None


@pytest.mark.parametrize(
    ("words", "found"),
    [("", True), ("400", True), ("Error code: 400", True), ("Invalid value for 'temperature'", False)],
)
def test_a_refusal_without_a_body_is_heard_where_nothing_else_is_said(words: str, found: bool) -> None:
    """B11: some services refuse what is too large with nothing but a status; words about something else outweigh that."""
    assert (overflow_from_error(Bodiless(words)) is not None) is found


class Strange(Exception):
    """An exception whose fields are not what they are elsewhere."""

    status_code = "400"
    body = 17


@pytest.mark.parametrize(
    ("error", "found"),
    [(Strange("prompt is too long"), True), (Strange("no"), False), (None, False), (object(), False), ({}, False)],
)
def test_strange_things_are_heard_by_their_words(error: object, found: bool) -> None:
    """B13: whatever a caller hands over, the answer is an overflow or none, never an error."""
    assert (overflow_from_error(error) is not None) is found
