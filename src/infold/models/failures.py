"""What a provider's failure means for whoever asked: one of our errors, in one line that never holds a key.

Every SDK has exceptions of its own; an adapter's table says of each what kind of failure it is, and this module makes the error.
A failure that has a status, as a response or as an event of a stream, is told by it, unless its words know better.
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
from infold.formats.overflow import errors_in, message_in, recognise

FailureKind: TypeAlias = Literal["status", "cause", "busy", "broken", "unreachable", "key", "refused"]
"""What an exception tells: a status, or a cause, that speaks for itself; a model that cannot answer now, a reply that broke off,
nobody at the address, no key to ask with, a request that is not taken."""


class FailureTable(Struct, frozen=True):
    """A provider's table: the classes its exceptions descend from, and by the name of a class what its exceptions tell.

    The entry of an exception is that of its nearest ancestor. Classes go by name, for SDKs keep some of them to themselves.
    """

    roots: tuple[type[Exception], ...]
    kinds: Mapping[str, FailureKind]

    def kind_of(self, raised: type[BaseException]) -> FailureKind | None:
        """What exceptions of a class tell; nothing where neither it nor an ancestor has an entry."""
        names = (ancestor.__name__ for ancestor in raised.__mro__)
        return next((self.kinds[name] for name in names if name in self.kinds), None)


BROKEN_REPLY = "the reply broke off"


FAILED_REPLY = "the provider ended the reply with an error"


BOUND_THINKING = "the request holds thinking that is bound to another conversation"


LONGEST_WORDS = 300
"""Characters of a provider's own words that an error repeats."""


SHORTEST_SECRET = 8
"""Characters; what is shorter is no key but a word that stands for none."""


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
"""The status behind a name that providers give an error in place of one."""


_NAMES_OVER_STATUS = frozenset({"API_KEY_INVALID", "insufficient_quota", "invalid_api_key", "model_not_found"})
"""Names that say more than the status they come with: no waiting helps who has no credit, and a key refused with 400 is a key."""


_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")


_SECONDS = re.compile(r"(\d{1,6}(?:\.\d*)?)s?")


_MARKUP = re.compile(r"<[a-zA-Z!/][^>]*>")


class Endpoint:
    """Whom a model is asked through: its name, the address, and the variable its key is looked for in.

    Knows the key only to keep it out of what is told.
    """

    def __init__(self, model: str, address: str, *, variable: str, secret: str | None = None) -> None:
        self.model = model
        self.address = _CREDENTIALS.sub("", address)
        self.variable = variable
        self._secret = secret or ""

    def words(self, text: str) -> str:
        """A provider's words as part of one line: short, without markup and without the key."""
        shown = text.replace(self._secret, "***") if len(self._secret) >= SHORTEST_SECRET else text
        line = " ".join(_MARKUP.sub(" ", shown).split())
        return f"{line[:LONGEST_WORDS]}…" if len(line) > LONGEST_WORDS else line

    def broke_off(self) -> ModelBusy:
        """The error for a reply that ended before its provider had said that it was complete."""
        return ModelBusy(self.model, BROKEN_REPLY)

    def spoilt(self) -> ModelBusy:
        """The error for a reply that its provider says went wrong, such as one with a call that is none."""
        return ModelBusy(self.model, FAILED_REPLY)

    def keyless(self, detail: str = "there is no key for it") -> KeyRefused:
        """The error for a model that cannot be asked for want of a key."""
        return KeyRefused(self.model, detail, variable=self.variable)


def translate_error(line: Endpoint, error: BaseException, table: FailureTable) -> ModelError:
    """Our error for what an SDK raised; one that no table knows is the model's failure, and no more is said of it."""
    kind = table.kind_of(type(error))
    words = line.words(str(error)) or type(error).__name__
    if kind == "status":
        return _error_for_status(line, _status(error), _body(error), words, wait_seconds=_wait_seconds(error))
    if kind == "cause" and error.__cause__ is not None and table.kind_of(type(error.__cause__)) is not None:
        return translate_error(line, error.__cause__, table)
    if kind in ("cause", "unreachable"):
        return ModelUnreachable(line.model, line.address, words)
    if kind == "key":
        return line.keyless(words)
    if kind in ("busy", "broken"):
        return ModelBusy(line.model, BROKEN_REPLY if kind == "broken" else words)
    return RequestRefused(line.model, words) if kind == "refused" else ModelError(line.model, words)


@contextmanager
def translate_errors(line: Endpoint, table: FailureTable) -> Iterator[None]:
    """Raise what an SDK raises as our error; an interrupt and errors that are ours already pass as they are."""
    try:
        yield
    except table.roots as error:
        raise translate_error(line, error, table) from error


def translate_stream_error(line: Endpoint, body: object) -> ModelError:
    """Our error for what a stream reported as one, in the provider's own words."""
    status = (
        next((_STATUS_BY_NAME[name] for name in _names(body) if name in _STATUS_BY_NAME), None)
        or _status_in_event(body)
        or 500
    )
    return _error_for_status(line, status, body, line.words(message_in(body)) or BROKEN_REPLY, streamed=True)


def _error_for_status(
    line: Endpoint, status: int, body: object, words: str, *, streamed: bool = False, wait_seconds: float = 0.0
) -> ModelError:
    overflow = recognise(None if streamed else status, _as_body(body))
    if overflow is not None:
        problem = BOUND_THINKING if overflow.bound_thinking else ""
        return ModelOverflow(line.model, overflow.limit_tokens, refusal=overflow, problem=problem)
    error = _rejection(line, status, body, line.words(message_in(body)) or words, wait_seconds=wait_seconds)
    error.status = status
    return error


def _rejection(line: Endpoint, status: int, body: object, told: str, *, wait_seconds: float) -> ModelError:
    match next((_STATUS_BY_NAME[name] for name in _names(body) if name in _NAMES_OVER_STATUS), status):
        case 401 | 402 | 403:
            return line.keyless(told)
        case 404:
            return UnknownModel(line.model, told)
        case known if known in MAY_PASS or known >= 500:
            return ModelBusy(line.model, told, wait_seconds=wait_seconds)
        case _:
            return RequestRefused(line.model, told)


# Reading what SDKs and streams hold: a status, a body, and in it names and a message.


def _status(error: BaseException) -> int:
    """An exception's status, under whichever name; a failure without one is the server's."""
    given = (getattr(error, "status_code", None), getattr(error, "code", None))
    return next((status for status in given if isinstance(status, int)), 500)


def _body(error: BaseException) -> object:
    body = getattr(error, "body", None)
    return getattr(error, "details", None) if body is None else body


def retry_seconds(headers: Mapping[str, str]) -> float | None:
    """How long the headers of a refusal ask to wait; none where they do not say so in seconds."""
    given = ((headers.get("retry-after-ms"), 0.001), (headers.get("retry-after"), 1.0))
    return next((float(found[1]) * unit for text, unit in given if (found := _SECONDS.fullmatch(str(text)))), None)


def _wait_seconds(error: BaseException) -> float:
    """How long a provider asks to wait, in a header or, as Google has it, in a detail of the body."""
    asked = retry_seconds(getattr(getattr(error, "response", None), "headers", None) or {})
    details = [detail for body in errors_in(_body(error)) for detail in _as_list(body.get("details"))]
    delays = [detail.get("retryDelay") for detail in details if isinstance(detail, Mapping)]
    return (
        next((float(found[1]) for one in delays if (found := _SECONDS.fullmatch(str(one)))), 0.0)
        if asked is None
        else asked
    )


def _as_body(body: object) -> Mapping[str, Any] | str | bytes:
    """A body for `recognise`; nothing at all is an empty one, which some services answer a large request with."""
    return body if isinstance(body, Mapping | str | bytes) else "" if body is None else str(body)


def _names(body: object) -> list[str]:
    """What the error is called: its code, type, status or the reasons behind it."""
    errors = errors_in(body)
    fields = [error.get(field) for error in errors for field in ("code", "type", "status")]
    details = [detail for error in errors for detail in _as_list(error.get("details")) if isinstance(detail, Mapping)]
    return [name for name in (*fields, *(detail.get("reason") for detail in details)) if isinstance(name, str)]


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _status_in_event(body: object) -> int | None:
    """The status some servers put into the event itself."""
    numbers = (error.get(field) for error in errors_in(body) for field in ("code", "status"))
    return next((number for number in numbers if isinstance(number, int) and 400 <= number < 600), None)


LONGEST_SDK_WAIT_SECONDS = 60.0
"""How long an SDK may sleep between its own tries: it tells nobody, and Anthropic's would for hours if it is asked to."""


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
    """Have an SDK give back what asks for a long wait, for whoever asked the model to tell a person, or to give up."""
    if response.headers.keys() & {"retry-after", "retry-after-ms"}:
        seconds = retry_seconds(response.headers)
        if seconds is None or seconds > LONGEST_SDK_WAIT_SECONDS:
            response.headers["x-should-retry"] = "false"
