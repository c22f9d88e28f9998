"""Translate the exceptions of provider SDKs to infold's errors, in one line without the key.

An adapter's table says what kind of failure each exception is. A failure with a status, as a response or as an event
of a stream, is classified by the status, unless its name says more.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import httpx2
from msgspec import Struct

from infold.errors import (
    MAY_PASS,
    KeyRefused,
    ModelBusy,
    ModelError,
    ModelOverflow,
    ModelUnreachable,
    RequestRefused,
    UnknownModel,
)
from infold.formats.codec import Item, dicts_in
from infold.formats.overflow import errors_in, message_in, recognise

FailureKind: TypeAlias = Literal["status", "cause", "busy", "broken", "unreachable", "key", "refused"]
"""What an exception means: look at its status or its cause; the model is busy, the reply broke off, the address is
unreachable, the key is missing, or the request is rejected.
"""


class FailureTable(Struct, frozen=True):
    """A provider's exceptions: the root classes, and the kind of failure by class name.

    An exception has the kind of its nearest ancestor. Classes are named, since SDKs keep some of them private.
    """

    roots: tuple[type[Exception], ...]
    kinds: Mapping[str, FailureKind]

    def kind_of(self, raised: type[BaseException]) -> FailureKind | None:
        """Return the kind of an exception class, or `None` if neither it nor an ancestor has an entry."""
        names = (ancestor.__name__ for ancestor in raised.__mro__)
        return next((self.kinds[name] for name in names if name in self.kinds), None)


BROKEN_REPLY = "the reply broke off"

FAILED_REPLY = "the provider ended the reply with an error"

BOUND_THINKING = "the request holds thinking that is bound to another conversation"

LONGEST_WORDS = 300
"""Characters of a provider's message that an error repeats."""

SHORTEST_SECRET = 8
"""Characters; a shorter key is a placeholder, not a secret."""

_STATUS_BY_NAME = {
    "API_KEY_INVALID": 401,
    "authentication_error": 401,
    "billing_error": 402,
    "insufficient_quota": 402,
    "internal_error": 500,
    "internal_server_error": 500,
    "invalid_api_key": 401,
    "invalid_prompt": 400,
    "invalid_request_error": 400,
    "model_not_found": 404,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "server_error": 500,
    "timeout_error": 504,
}
"""The status for the name of an error, if the error has no status."""

_NAMES_OVER_STATUS = frozenset({"API_KEY_INVALID", "insufficient_quota", "invalid_api_key", "model_not_found"})
"""Names that say more than the status: waiting does not help without credit, and a wrong key may come with 400."""

_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")

_SECONDS = re.compile(r"(\d{1,6}(?:\.\d*)?)s?")

_MARKUP = re.compile(r"<[a-zA-Z!/][^>]*>")


class Endpoint:
    """How a model is reached: its name, the address, and the variable of its key.

    It holds the key only to keep it out of messages.
    """

    def __init__(self, model: str, address: str, *, variable: str, secret: str | None = None) -> None:
        self.model = model
        self.address = _CREDENTIALS.sub("", address)
        self.variable = variable
        self._secret = secret or ""

    def clean(self, text: str) -> str:
        """Return a provider's message as part of one line: short, without markup and without the key."""
        shown = text.replace(self._secret, "***") if len(self._secret) >= SHORTEST_SECRET else text
        line = " ".join(_MARKUP.sub(" ", shown).split())
        return f"{line[:LONGEST_WORDS]}…" if len(line) > LONGEST_WORDS else line

    def broken_reply(self) -> ModelBusy:
        """Return the error for a reply that ended before the provider marked it as complete."""
        return ModelBusy(self.model, BROKEN_REPLY)

    def failed_reply(self) -> ModelBusy:
        """Return the error for a reply that the provider marked as failed, such as one with a malformed call."""
        return ModelBusy(self.model, FAILED_REPLY)

    def missing_key(self, detail: str = "there is no key for it") -> KeyRefused:
        """Return the error for a missing or rejected key."""
        return KeyRefused(self.model, detail, variable=self.variable)


def translate_error(endpoint: Endpoint, error: BaseException, table: FailureTable) -> ModelError:
    """Return infold's error for an SDK's exception; an unknown exception becomes a plain `ModelError`."""
    kind = table.kind_of(type(error))
    words = endpoint.clean(str(error)) or type(error).__name__
    if kind == "status":
        return _error_for_status(endpoint, _status(error), _body(error), words, wait_seconds=_wait_seconds(error))
    if kind == "cause" and error.__cause__ is not None and table.kind_of(type(error.__cause__)) is not None:
        return translate_error(endpoint, error.__cause__, table)
    if kind in ("cause", "unreachable"):
        return ModelUnreachable(endpoint.model, endpoint.address, words)
    if kind == "key":
        return endpoint.missing_key(words)
    if kind in ("busy", "broken"):
        return ModelBusy(endpoint.model, BROKEN_REPLY if kind == "broken" else words)
    return RequestRefused(endpoint.model, words) if kind == "refused" else ModelError(endpoint.model, words)


@contextmanager
def translate_errors(endpoint: Endpoint, table: FailureTable) -> Iterator[None]:
    """Raise SDK exceptions of the block as infold's errors; everything else propagates unchanged."""
    try:
        yield
    except table.roots as error:
        raise translate_error(endpoint, error, table) from error


def translate_stream_error(endpoint: Endpoint, body: object) -> ModelError:
    """Return infold's error for an error that a stream reported."""
    status = (
        next((_STATUS_BY_NAME[name] for name in _names(body) if name in _STATUS_BY_NAME), None)
        or _status_in_event(body)
        or 500
    )
    return _error_for_status(endpoint, status, body, endpoint.clean(message_in(body)) or BROKEN_REPLY, streamed=True)


def _error_for_status(
    endpoint: Endpoint, status: int, body: object, words: str, *, streamed: bool = False, wait_seconds: float = 0.0
) -> ModelError:
    overflow = recognise(None if streamed else status, _as_body(body))
    if overflow is not None:
        problem = BOUND_THINKING if overflow.bound_thinking else ""
        return ModelOverflow(endpoint.model, overflow.limit_tokens, refusal=overflow, problem=problem)
    error = _rejection(endpoint, status, body, endpoint.clean(message_in(body)) or words, wait_seconds=wait_seconds)
    error.status = status
    return error


def _rejection(endpoint: Endpoint, status: int, body: object, words: str, *, wait_seconds: float) -> ModelError:
    match next((_STATUS_BY_NAME[name] for name in _names(body) if name in _NAMES_OVER_STATUS), status):
        case 401 | 402 | 403:
            return endpoint.missing_key(words)
        case 404:
            return UnknownModel(endpoint.model, words)
        case known if known in MAY_PASS or known >= 500:
            return ModelBusy(endpoint.model, words, wait_seconds=wait_seconds)
        case _:
            return RequestRefused(endpoint.model, words)


# Reading what SDKs and streams hold: a status, a body, and in it names and a message.


def _status(error: BaseException) -> int:
    """Return an exception's status, under either name; 500 if it has none."""
    given = (getattr(error, "status_code", None), getattr(error, "code", None))
    return next((status for status in given if isinstance(status, int)), 500)


def _body(error: BaseException) -> object:
    body = getattr(error, "body", None)
    return getattr(error, "details", None) if body is None else body


def retry_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long the headers of a response ask to wait, or `None` if they do not say so in seconds."""
    given = ((headers.get("retry-after-ms"), 0.001), (headers.get("retry-after"), 1.0))
    return next((float(found[1]) * unit for text, unit in given if (found := _SECONDS.fullmatch(str(text)))), None)


def _wait_seconds(error: BaseException) -> float:
    """Return how long a provider asks to wait, in a header or, for Google, in a detail of the body."""
    asked = retry_seconds(getattr(getattr(error, "response", None), "headers", None) or {})
    if asked is not None:
        return asked
    delays = (detail.get("retryDelay") for detail in _details(_body(error)))
    return next((float(found[1]) for delay in delays if (found := _SECONDS.fullmatch(str(delay)))), 0.0)


def _as_body(body: object) -> Mapping[str, Any] | str | bytes:
    """Return a body for `recognise`; no body is an empty one, which some services send for a request that is too
    large.
    """
    return body if isinstance(body, Mapping | str | bytes) else "" if body is None else str(body)


def _names(body: object) -> list[str]:
    """Return the error's names: its code, type, status and reasons."""
    fields = [error.get(field) for error in errors_in(body) for field in ("code", "type", "status")]
    reasons = [detail.get("reason") for detail in _details(body)]
    return [name for name in (*fields, *reasons) if isinstance(name, str)]


def _details(body: object) -> list[Item]:
    """Return the objects that a body lists as details of its errors."""
    return [detail for error in errors_in(body) for detail in dicts_in(error.get("details"))]


def _status_in_event(body: object) -> int | None:
    """Return the status that some servers put into the event itself."""
    numbers = (error.get(field) for error in errors_in(body) for field in ("code", "status"))
    return next((number for number in numbers if isinstance(number, int) and 400 <= number < 600), None)


LONGEST_SDK_WAIT_SECONDS = 60.0
"""How long an SDK may sleep between its own retries, which it does not report; Anthropic's would sleep for hours."""

TRANSPORT = FailureTable(
    (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, httpx2.CookieConflict),
    {
        "ConnectError": "unreachable",
        "ConnectTimeout": "unreachable",
        "CookieConflict": "refused",
        "DecodingError": "broken",
        "HTTPStatusError": "busy",
        "InvalidURL": "unreachable",
        "NetworkError": "broken",
        "ProtocolError": "broken",
        "ProxyError": "unreachable",
        "SSEError": "broken",
        "StreamError": "broken",
        "TimeoutException": "busy",
        "TooManyRedirects": "unreachable",
        "UnsupportedProtocol": "unreachable",
    },
)


def return_long_waits(response: httpx2.Response) -> None:
    """Make an SDK return a response that asks for a long wait, so that the caller can report it or give up."""
    if response.headers.keys() & {"retry-after", "retry-after-ms"}:
        seconds = retry_seconds(response.headers)
        if seconds is None or seconds > LONGEST_SDK_WAIT_SECONDS:
            response.headers["x-should-retry"] = "false"
