"""What a provider's failure means for whoever asked."""

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from infold.errors import (
    KeyRefused,
    ModelBusy,
    ModelError,
    ModelOverflow,
    ModelUnreachable,
    RequestRefused,
    UnknownModel,
)
from infold.formats.overflow import Overflow
from infold.models.failures import (
    LONGEST_WORDS,
    Endpoint,
    FailureTable,
    translate_error,
    translate_errors,
    translate_stream_error,
)

SECRET = "sk-very-secret-key"
LINE = Endpoint("gpt-5", "http://127.0.0.1:9/v1", variable="SOME_API_KEY", secret=SECRET)


class Foreign(Exception):
    """What some SDK raises."""

    def __init__(self, words: str = "", *, status: int | None = None, body: object = None) -> None:
        super().__init__(words)
        self.status_code = status
        self.body = body
        self.response: object = None


class Particular(Foreign):
    """Something more particular."""


class Detailed(Exception):
    """What another SDK raises: other names for the same."""

    code = 400
    details: ClassVar[dict[str, Any]] = {
        "error": {"code": 400, "message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}
    }


TABLE = FailureTable((Foreign, Detailed, ValueError), {"Foreign": "status", "Detailed": "status"})


def failed(status: int | None, body: object = None, words: str = "it failed") -> ModelError:
    """Our error for a response of that status."""
    return translate_error(LINE, Foreign(words, status=status, body=body), TABLE)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, KeyRefused) for status in (401, 402, 403)),
        (404, UnknownModel),
        *((status, ModelBusy) for status in (408, 409, 425, 429, 500, 502, 503, 504, 529, None)),
        *((status, RequestRefused) for status in (405, 415, 422)),
    ],
)
def test_a_status_says_who_can_act(status: int | None, kind: type[ModelError]) -> None:
    """B10: a key, a name, time or another request, by what the provider answered; a failure without a status may pass."""
    assert type(failed(status, {"message": "no"})) is kind


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "30"}, {}, 30),
        ({"retry-after": "30", "retry-after-ms": "1500"}, {}, 1.5),
        (None, {"error": {"details": [{"reason": "QUOTA"}, {"retryDelay": "37.5s"}, "odd"]}}, 37.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, {"error": {"details": [{"retryDelay": "-1s"}]}}, 0),
        ({}, None, 0),
    ],
)
def test_a_provider_may_say_how_long_to_wait(headers: dict[str, str] | None, body: object, seconds: float) -> None:
    """In a header or in the body; what is no number of seconds says nothing."""
    error = Foreign("slow down", status=429, body=body)
    error.response = SimpleNamespace(headers=headers)
    told = translate_error(LINE, error, TABLE)

    assert isinstance(told, ModelBusy)
    assert told.wait_seconds == seconds


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, {"code": "insufficient_quota", "message": "no credit"}, KeyRefused),
        (400, {"code": "invalid_api_key"}, KeyRefused),
        (400, {"error": {"code": "model_not_found", "message": "no such model"}}, UnknownModel),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "bad"}}, RequestRefused),
    ],
)
def test_words_may_know_better(status: int, body: object, kind: type[ModelError]) -> None:
    """B10: no waiting helps who has no credit, and a key refused with another status is a key all the same."""
    assert type(failed(status, body)) is kind


def test_names_and_status_are_found_where_an_sdk_puts_them() -> None:
    """B10: Google refuses a wrong key with 400 and a reason among the details."""
    error = translate_error(LINE, Detailed(), TABLE)

    assert isinstance(error, KeyRefused)
    assert str(error) == "gpt-5: API key not valid.; set SOME_API_KEY to a key that may use this model"


@pytest.mark.parametrize(
    ("status", "body", "overflow"),
    [
        (400, {"message": "prompt is too long: 9000 tokens > 4096 maximum"}, Overflow("anthropic", 9_000, 4_096)),
        (413, None, Overflow("http", bytes_limit=True)),
        (400, None, Overflow("http")),
        (400, ["prompt is too long"], Overflow("anthropic")),
    ],
)
def test_what_is_too_large_is_told_apart(status: int, body: object, overflow: Overflow) -> None:
    """B11: with the numbers, for whoever learns from them; some services refuse a large request with no word at all."""
    error = failed(status, body, words="Error code: 400")

    assert isinstance(error, ModelOverflow)
    assert error.refusal == overflow
    assert error.limit_tokens == overflow.limit_tokens


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, ModelBusy),
        ({"type": "error", "error": {"type": "authentication_error", "message": "no"}}, KeyRefused),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "too fast"}, ModelBusy),
        ({"response": {"error": {"code": "server_error", "message": "sorry"}}}, ModelBusy),
        ({"response": {"error": {"code": "invalid_prompt", "message": "no"}}}, RequestRefused),
        ({"response": {"error": {"code": "context_length_exceeded", "message": "too long"}}}, ModelOverflow),
        ({"error": {"code": 502, "message": "upstream"}}, ModelBusy),
        ({"error": {"code": 404, "message": "no such model"}}, UnknownModel),
        ({"error": "prompt is too long"}, ModelOverflow),
        ({"error": "something"}, ModelBusy),
        ("upstream is gone", ModelBusy),
    ],
)
def test_an_error_in_a_stream_means_what_its_status_would(body: object, kind: type[ModelError]) -> None:
    """B10, B11: by the name or the number that the event has in place of a status."""
    assert type(translate_stream_error(LINE, body)) is kind


@pytest.mark.parametrize(
    ("kind", "ours"),
    [("busy", ModelBusy), ("broken", ModelBusy), ("key", KeyRefused), ("refused", RequestRefused)],
)
def test_a_table_says_what_a_class_means(kind: Any, ours: type[ModelError]) -> None:
    """B10: the entry of an exception is that of its nearest ancestor."""
    table = FailureTable((Foreign,), {"Foreign": "status", "Particular": kind})

    assert type(translate_error(LINE, Particular("x", status=404), table)) is ours
    assert type(translate_error(LINE, Foreign("x", status=404), table)) is UnknownModel


def test_nobody_at_an_address_is_told_with_it() -> None:
    """B10: the address, and what the transport said."""
    error = translate_error(LINE, ValueError("connection refused"), FailureTable((), {"ValueError": "unreachable"}))

    assert isinstance(error, ModelUnreachable)
    assert error.address == "http://127.0.0.1:9/v1"
    assert "no answer at http://127.0.0.1:9/v1 (connection refused)" in str(error)


def test_what_no_table_knows_is_the_models_failure() -> None:
    """B10: an exception without an entry is told in its own words, or by its name where it has none."""
    assert str(translate_error(LINE, ValueError("odd"), TABLE)).startswith("gpt-5: odd; ")
    assert str(translate_error(LINE, ValueError(), TABLE)).startswith("gpt-5: ValueError; ")


@pytest.mark.parametrize(
    "body",
    [
        f"<html>\n<body>key {SECRET}\nis wrong</body></html>",
        {"error": {"message": f"key {SECRET}\n is wrong"}},
        {"detail": f"key {SECRET} is wrong"},
        f"key {SECRET} is wrong".encode(),
    ],
)
def test_an_error_is_one_line_without_the_key(body: object) -> None:
    """B28: a provider that repeats the key does not bring it to the screen; markup and line breaks stay out too."""
    assert str(failed(401, body)) == "gpt-5: key *** is wrong; set SOME_API_KEY to a key that may use this model"


def test_an_address_is_told_without_its_password() -> None:
    """B28: what stands before the host is for the server alone."""
    assert Endpoint("m", "http://me:secret@host:8080/v1@x", variable="X").address == "http://host:8080/v1@x"


def test_long_words_are_shortened() -> None:
    """An error page of a proxy is no message."""
    assert len(str(failed(500, "word " * 5_000))) < LONGEST_WORDS + 100


def test_a_short_word_is_no_secret() -> None:
    """What stands for no key at all may stand in a message too."""
    assert Endpoint("m", "", variable="X", secret="none").clean("there is none") == "there is none"


def test_only_an_sdks_exceptions_are_made_ours() -> None:
    """B13: errors of ours, mistakes and interrupts pass as they are."""
    for error in (KeyboardInterrupt(), TypeError("a mistake"), ModelBusy("m", "ours")):
        with pytest.raises(type(error)) as caught, translate_errors(LINE, TABLE):
            raise error
        assert caught.value is error
    foreign = Foreign("no", status=404)
    with pytest.raises(UnknownModel) as ours, translate_errors(LINE, TABLE):
        raise foreign
    assert ours.value.__cause__ is foreign
