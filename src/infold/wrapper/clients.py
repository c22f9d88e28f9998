"""SDK clients that cannot be given another HTTP client: a copy is made of them that sends through infold.

boto3's client for Bedrock has no HTTP client of its own kind: its endpoint signs a request, sends it and parses the reply. Only
`converse` and `converse_stream` go through infold, before they are signed. google-genai has one HTTP client for its sync and one
for its async calls. Neither SDK is imported here.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import httpx2
import msgspec
from msgspec import Struct

from infold.errors import UsageError
from infold.formats.requests import unstreamed_path
from infold.proxy.request import SESSION_HEADER
from infold.wrapper.transport import WrappedClient, http_client_of

Client = TypeVar("Client")

WrapHttp = Callable[[Any], Any]
"""Returns an HTTP client that sends through infold what would go through the one given."""

CONVERSE, CONVERSE_STREAM = "Converse", "ConverseStream"

_CALL, _REPLY = "infold.call", "infold.reply"
"""Extensions of requests and responses: what botocore is to send, and what it made of the answer."""

_CONVERSE_PATH = "/converse"


# boto3.


def wrap_boto3(client: Client, wrap_http: WrapHttp) -> Client:
    """Return a copy of a client of Bedrock's runtime that sends its Converse requests through infold."""
    endpoint, service = (
        getattr(client, "_endpoint", None),
        getattr(getattr(client, "meta", None), "service_model", None),
    )
    inner = endpoint.inner if isinstance(endpoint, ConverseEndpoint) else endpoint
    if inner is None or service is None:
        raise UsageError("the BedrockRuntime client has no endpoint of botocore's; use a current version of boto3")
    sender = httpx2.Client(transport=_EndpointTransport(inner, service.operation_model(CONVERSE)))
    return _copy(client, _endpoint=ConverseEndpoint(inner, wrap_http(sender)))


class ConverseEndpoint:
    """Stands for botocore's endpoint `inner`; its Converse requests go through `http_client`."""

    def __init__(self, inner: Any, http_client: WrappedClient) -> None:
        self.inner = inner
        self._http_client = http_client

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def make_request(self, operation_model: Any, request_dict: dict[str, Any]) -> Any:
        """Send a request and return the reply and what it says, as the endpoint does."""
        if operation_model.name not in (CONVERSE, CONVERSE_STREAM):
            return self.inner.make_request(operation_model, request_dict)
        request = httpx2.Request(
            "POST",
            request_dict["url"],
            headers=list(request_dict["headers"].items()),
            content=request_dict["body"],
            extensions={_CALL: _Call(operation_model, request_dict)},
        )
        response = self._http_client.send(request, stream=True)
        reply: _Reply | None = response.extensions.get(_REPLY)
        if reply is None:  # infold did not send it, and says why
            error = {"Code": "ValidationException", "Message": msgspec.json.decode(response.read())["error"]["message"]}
            return response, {"Error": error, "ResponseMetadata": {"HTTPStatusCode": response.status_code}}
        events = reply.parsed.get("stream")
        if events is None:
            response.close()
        else:  # it reads nothing before it is iterated over
            events._raw_stream = _ObservedBody(response)  # noqa: SLF001 - it takes no other body
        return reply.http_response, reply.parsed

    def close(self) -> None:
        """Cancel summaries in the background, and close the endpoint."""
        self._http_client.close()


class _Call(Struct, frozen=True):
    """What botocore is to send."""

    operation_model: Any
    request_dict: dict[str, Any]


class _Reply(Struct, frozen=True):
    """What botocore received, and what it read in it."""

    http_response: Any
    parsed: dict[str, Any]


class _EndpointTransport(httpx2.BaseTransport):
    """Sends through botocore's endpoint, which signs what it sends and tries again where that may help."""

    def __init__(self, endpoint: Any, converse: Any) -> None:
        self._endpoint = endpoint
        self._converse = converse

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the body of a request with all else that its call has; a call of infold's own is never streamed."""
        call: _Call | None = request.extensions.get(_CALL)
        if call is None:  # a question about the server, which Bedrock has no answer to
            return httpx2.Response(404)
        given, is_whole = call.request_dict, request.url.path.endswith(_CONVERSE_PATH)
        context = given.get("context") or {}
        sent = {
            **given,
            "url": unstreamed_path(given["url"]) if is_whole else given["url"],
            "body": request.read(),
            "headers": {name: value for name, value in given["headers"].items() if name.lower() != SESSION_HEADER},
            "context": {**context, "retries": {**(context.get("retries") or {})}},
        }
        http_response, parsed = self._endpoint.make_request(self._converse if is_whole else call.operation_model, sent)
        is_stream = "stream" in parsed
        return httpx2.Response(
            http_response.status_code,
            headers=list(http_response.headers.items()),
            stream=_RawBody(http_response.raw) if is_stream else None,
            content=None if is_stream else http_response.content,
            extensions={_REPLY: _Reply(http_response, parsed)},
        )

    def close(self) -> None:
        """Close the endpoint."""
        self._endpoint.close()


class _RawBody(httpx2.SyncByteStream):
    """The body of a reply as botocore gives it."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __iter__(self) -> Iterator[bytes]:
        yield from self._raw.stream()

    def close(self) -> None:
        self._raw.close()


class _ObservedBody:
    """The same body for botocore, observed on its way."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    def stream(self) -> Iterator[bytes]:
        """Yield the chunks of the body."""
        yield from self._response.iter_raw()

    def close(self) -> None:
        """Close the response, and record what was read of it."""
        self._response.close()


# google-genai.


def wrap_google(client: Client, wrap_http: WrapHttp) -> Client:
    """Return a copy of a client whose sync and async calls go through infold, those of its chats included."""
    inner: Any = getattr(client, "_api_client", None)
    if inner is None or _calls(inner, "_use_google_auth_sync") or getattr(inner, "_async_httpx_client", None) is None:
        raise UsageError(
            "the google-genai client sends through no httpx2 client; use a current version of google-genai, and no client "
            "certificates"
        )
    sync, later = (wrap_http(http_client_of(inner, name)) for name in ("_httpx_client", "_async_httpx_client"))
    options = vars(inner)["_http_options"]
    if _calls(inner, "_use_aiohttp"):  # a transport of the caller's own makes the SDK use its other client
        arguments = {**(options.async_client_args or {}), "transport": later}
        options = options.model_copy(update={"async_client_args": arguments})
    # The original closes its HTTP clients when it is collected, so it must live as long as its copy.
    sending = _copy(
        inner, _httpx_client=sync, _async_httpx_client=later, _http_options=options, _infold_original=client
    )
    return _sent_through(client, inner, sending)


def _calls(inner: object, name: str) -> bool:
    """Return what the SDK's client says about how it sends; not every version can be asked."""
    return bool(getattr(inner, name, bool)())


def _sent_through(value: Client, inner: object, sending: object) -> Client:
    """Return a copy of a part of the SDK in which another client sends; parts that hold the old one are copied too."""
    held = {name: one for name, one in vars(value).items() if getattr(one, "_api_client", None) is inner}
    return _copy(value, _api_client=sending, **{name: _sent_through(one, inner, sending) for name, one in held.items()})


def _copy(value: Client, **fields: object) -> Client:
    """Return a copy of an object with other fields; `copy.copy` asks for attributes that botocore's clients look up."""
    copy: Client = object.__new__(type(value))
    copy.__dict__.update({**vars(value), **fields})
    return copy
