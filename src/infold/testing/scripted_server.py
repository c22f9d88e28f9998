"""A model server for tests: real HTTP on loopback, with answers from a script.

It speaks the five wire formats, whole and as streams, so that the official SDKs, `wrap` or the gateway can talk to it.
"""

import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from itertools import chain, cycle
from socketserver import ThreadingTCPServer
from threading import Event, Lock, RLock, Thread
from types import TracebackType
from typing import Any, TypeAlias, assert_never
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct

from infold.core.tokens import estimate_tokens
from infold.errors import FormatError
from infold.formats.codec import Item
from infold.formats.registry import ANTHROPIC_MESSAGES, CONVERSE, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, WireFormat
from infold.formats.requests import format_of_path, model_in_path, output_tokens_in
from infold.testing.script import (
    ALL_IS_WELL,
    Fail,
    Hang,
    Say,
    Script,
    ScriptedRequest,
    Send,
    StreamEvent,
    Trouble,
    WireReply,
    count_tokens,
    count_usage,
)
from infold.testing.wire_replies import REPLY_WRITERS, compacted_body

MODEL = "scripted"
"""The only model that is listed, and the default name of a request's model."""

NO_TROUBLE = Trouble()

MISSING_BYTES = 100
"""How many more bytes a false length announces than are sent."""

POLL_SECONDS = 0.02
"""How long the listener may take to notice that it should stop."""

GARBAGE = (
    b": a comment\n\n",
    b'data: {"choices": [{"index": 0, "delta"\n\n',
    b'event: nonsense\ndata: {"type": "nonsense", "index": -1}\n\n',
    b"data: \xff\xfe\n\n",
    b"data: [3, null]\nretry: soon\n\n",
)
"""Unreadable events, one before each readable one."""


COUNTS = {
    "/messages/count_tokens": (ANTHROPIC_MESSAGES, "input_tokens"),
    "/responses/input_tokens": (OPENAI_RESPONSES, "input_tokens"),
    ":countTokens": (GEMINI, "totalTokens"),
}
"""The ends of paths that count tokens, each with its wire format and the field of the count."""

FRAMES = "application/vnd.amazon.eventstream"
"""The type of a stream in Amazon's framing."""

COMPACTS = "/responses/compact"
"""The end of the path that compacts a history of OpenAI's Responses."""


OUTPUT_OVERFLOW = (
    "input length and `max_tokens` exceed context limit: {prompt} + {output} > {window}, decrease input length or "
    "`max_tokens` and try again"
)
"""How Anthropic refuses a request whose prompt fits, but not with the output that it asks for."""


class ScriptedServer:
    """Answer every request as a script says, and keep all requests.

    The script is called with one request at a time; an exception in it is raised when the `with` block ends. With
    `window_tokens` a larger request is rejected in its provider's own words before the script sees it; the server counts
    `factor` tokens for each of ours. To a request for OpenAI's compaction the script says the summary, which is sent sealed.
    `served_tokens` is the window that its list of models reports, as vLLM's does. `counts_output`: what a request asks for in
    reply must fit the window too.
    """

    def __init__(
        self,
        answer: Script = ALL_IS_WELL,
        *,
        window_tokens: int | None = None,
        factor: float = 1.0,
        trouble: Trouble = NO_TROUBLE,
        served_tokens: int | None = None,
        counts_output: bool = False,
    ) -> None:
        self._counts_output = counts_output
        self._served_tokens = served_tokens
        self._lookups: list[ScriptedRequest] = []
        self._answer = answer
        self._window_tokens = window_tokens
        self._factor = factor
        self._trouble = trouble
        self._requests: list[ScriptedRequest] = []
        self._lock = RLock()
        self._listener: _Listener
        self._thread: Thread

    @property
    def url(self) -> str:
        """The address without a path; only inside the `with` block."""
        return f"http://127.0.0.1:{self._listener.server_address[1]}"

    @property
    def requests(self) -> tuple[ScriptedRequest, ...]:
        """All requests with a body so far, in the order of arrival; what asks for the server's window is not among them."""
        with self._lock:
            return tuple(self._requests)

    @property
    def lookups(self) -> tuple[ScriptedRequest, ...]:
        """All requests without a body so far, such as for the list of models, and those that ask for the server's window."""
        with self._lock:
            return tuple(self._lookups)

    def __enter__(self) -> "ScriptedServer":
        self._listener = _Listener(self._respond)
        self._thread = Thread(target=self._listener.serve_forever, args=(POLL_SECONDS,), name="scripted model")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._listener.stop()
        self._thread.join()
        if error is None and self._listener.failures:
            raise self._listener.failures[0]

    # From a request to a response, in the connection's thread.

    def _respond(self, path: str, headers: Mapping[str, str], content: bytes) -> "_Response":
        place = urlsplit(path).path
        counts = next((found for ending, found in COUNTS.items() if place.endswith(ending)), None)
        wire, count_field = counts or (OPENAI_RESPONSES if place.endswith(COMPACTS) else format_of_path(place), "")
        try:
            request = parse_request(path, headers, content, wire, self._factor)
        except (msgspec.DecodeError, FormatError) as error:
            self._keep(ScriptedRequest(path, headers, {}))
            return _error(400, f"the request cannot be read: {error}")
        if wire is not None and not count_field:
            return self._ask_script(request)
        is_lookup = not content or place.endswith("/api/show")
        with self._lock:
            (self._lookups if is_lookup else self._requests).append(request)
        if count_field:
            return _Whole(200, _json({count_field: request.tokens}))
        if place.endswith("/models"):
            return _model_list(place, self._served_tokens)
        return _error(404, f"nothing is at {place}")

    def _keep(self, request: ScriptedRequest) -> int:
        with self._lock:
            self._requests.append(request)
            return len(self._requests)

    def _ask_script(self, request: ScriptedRequest) -> "_Response":
        refusal = self._refusal(request)
        if refusal is not None:
            self._keep(request)
            return refusal
        with self._lock:
            number, answer = self._keep(request), self._answer(request)
        match answer:
            case Say():
                usage = count_usage(answer, request.tokens, self._factor)
                model = model_in_path(request.path) or str(request.body.get("model") or MODEL)
                reply = WireReply(answer, usage, number, model, _reports_usage(request))
                return _write_reply(request, reply, answer.trouble or self._trouble)
            case Send():
                trouble = answer.trouble or self._trouble
                if not request.stream or not answer.events:
                    return _Whole(200, _json(answer.body), trouble=trouble)
                return _stream_events(request, answer.events, trouble)
            case Fail():
                return _Whole(answer.status, _json(answer.body), answer.headers, self._trouble)
            case Hang():
                return answer
            case _:
                assert_never(answer)

    def _refusal(self, request: ScriptedRequest) -> "_Whole | None":
        """Return the refusal of a request that is larger than the window; `None` if it is not."""
        window, output = self._window_tokens, output_tokens_in(request.body) if self._counts_output else 0
        if window is None or request.tokens + output <= window:
            return None
        if request.tokens > window:
            return _Whole(400, _json(REPLY_WRITERS[request.format].overflow(request.tokens, window)))
        return _error(400, OUTPUT_OVERFLOW.format(prompt=request.tokens, output=output, window=window))


def parse_request(
    path: str, headers: Mapping[str, str], content: bytes, wire: WireFormat | None, factor: float = 1.0
) -> ScriptedRequest:
    """Decode and count a request; raise `FormatError` or `DecodeError` if it is malformed."""
    body: Item = msgspec.json.decode(content, type=dict) if content else {}
    if wire is None:
        return ScriptedRequest(path, headers, body)
    items = body.get(wire.items_field) or []
    messages = wire.decode([{"role": "user", "content": items}] if isinstance(items, str) else items).messages
    extras = sum(estimate_tokens(text) for text in (wire.system_text(body), wire.tools_text(body)))
    return ScriptedRequest(
        path,
        headers,
        body,
        wire.name,
        messages,
        stream=body.get("stream") is True or ":streamGenerateContent" in path or path.endswith("/converse-stream"),
        tokens=int((count_tokens(messages) + extras) * factor),
    )


def _reports_usage(request: ScriptedRequest) -> bool:
    """Return whether usage is reported: always, except in a chat stream that did not ask for it."""
    options = request.body.get("stream_options")
    is_wanted = isinstance(options, Mapping) and options.get("include_usage") is True
    return is_wanted or not request.stream or request.format != OPENAI_CHAT.name


def _write_reply(request: ScriptedRequest, reply: WireReply, trouble: Trouble) -> "_Response":
    writer = REPLY_WRITERS[request.format]
    if urlsplit(request.path).path.endswith(COMPACTS):
        return _Whole(200, _json(compacted_body(reply, request.body)), trouble=trouble)
    if not request.stream:
        return _Whole(200, _json(writer.body(reply)), trouble=trouble)
    events = tuple(writer.events(reply))
    if request.format == GEMINI.name and parse_qs(urlsplit(request.path).query).get("alt") != ["sse"]:
        opened = [(b",\r\n" if index else b"[") + _json(event.data) for index, event in enumerate(events)]
        return _Streamed((*opened, b"]"), "application/json", trouble)
    return _stream_events(request, events, trouble)


def _stream_events(request: ScriptedRequest, events: tuple[StreamEvent, ...], trouble: Trouble) -> "_Streamed":
    if request.format == CONVERSE.name:
        frames = tuple(event.encode_frame() for event in events)
        return _Streamed(frames, FRAMES, trouble)
    return _Streamed(tuple(event.encode() for event in events), trouble=trouble)


def _error(status: int, words: str) -> "_Whole":
    return _Whole(status, _json({"type": "error", "error": {"type": "invalid_request_error", "message": words}}))


def _model_list(path: str, served_tokens: int | None) -> "_Whole":
    """List the one model in a shape that every SDK can read."""
    if path.startswith("/v1beta"):
        return _Whole(200, _json({"models": [{"name": f"models/{MODEL}"}]}))
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "infold"}
    model |= {"type": "model", "display_name": "Scripted", "created_at": "2024-01-01T00:00:00Z"}
    model |= {} if served_tokens is None else {"max_model_len": served_tokens}
    page = {"object": "list", "data": [model], "has_more": False, "first_id": MODEL, "last_id": MODEL}
    return _Whole(200, _json(page))


def _json(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


# Sockets.


class _Whole(Struct, frozen=True):
    """A response sent at once."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    trouble: Trouble = NO_TROUBLE


class _Streamed(Struct, frozen=True):
    """A response sent event by event."""

    events: tuple[bytes, ...]
    media_type: str = "text/event-stream"
    trouble: Trouble = NO_TROUBLE


_Response: TypeAlias = _Whole | _Streamed | Hang
_Respond: TypeAlias = Callable[[str, Mapping[str, str], bytes], _Response]


class _Listener(ThreadingTCPServer):
    """Listen on loopback, one thread per connection; `failures` are the script's own exceptions."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, respond: _Respond) -> None:
        self.respond = respond
        self.failures: list[BaseException] = []
        self.stopping = Event()
        self._connections: set[Any] = set()
        self._lock = Lock()
        super().__init__(("127.0.0.1", 0), _Connection)

    def stop(self) -> None:
        """Wake and close every connection, and wait for their threads."""
        self.stopping.set()
        self.shutdown()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep an exception of the script; a client that disconnected is not a failure."""
        del request, client_address
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self.failures.append(error)


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        response = self.server.respond(self.path, headers, self._read_body())
        self._wait(response.seconds if isinstance(response, Hang) else response.trouble.delay_seconds)
        match response:
            case _Whole():
                self._send(response)
            case _Streamed():
                self._stream(response)
            case Hang():
                self.close_connection = True
            case _:
                assert_never(response)

    do_POST = do_GET  # noqa: N815 - the base class names it

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _wait(self, seconds: float) -> None:
        if seconds and self.server.stopping.wait(seconds):
            raise ConnectionAbortedError("the server stops")

    def _read_body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = bytearray()
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def _send(self, whole: _Whole) -> None:
        length = len(whole.body) + MISSING_BYTES * whole.trouble.false_length
        headers = {"content-type": "application/json", "content-length": str(length)}
        self._begin(whole.status, headers | {name.lower(): value for name, value in whole.headers.items()})
        self.wfile.write(whole.body)
        self.close_connection = self.close_connection or whole.trouble.false_length

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, streamed: _Streamed) -> None:
        trouble, events = streamed.trouble, _apply_trouble(streamed)
        has_length = trouble.false_length
        length = str(sum(map(len, events)) + MISSING_BYTES)
        framing = {"content-length": length} if has_length else {"transfer-encoding": "chunked"}
        self._begin(200, {"content-type": streamed.media_type, "cache-control": "no-cache", **framing})
        for event in events:
            self.wfile.write(event if has_length else b"%x\r\n%b\r\n" % (len(event), event))
            self._wait(trouble.chunk_delay_seconds)
        is_cut = trouble.cut_after_events is not None and trouble.error_event is None
        self.close_connection = has_length or is_cut
        if not self.close_connection:
            self.wfile.write(b"0\r\n\r\n")


def _apply_trouble(streamed: _Streamed) -> tuple[bytes, ...]:
    """Return the events that are really sent."""
    trouble, is_array = streamed.trouble, streamed.media_type == "application/json"
    events = streamed.events[: trouble.cut_after_events]
    if trouble.garbage and streamed.media_type == "text/event-stream":
        events = tuple(chain.from_iterable(zip(cycle(GARBAGE), events, strict=False)))
    if trouble.error_event is None:
        return events
    if streamed.media_type == FRAMES:
        return (*events, StreamEvent(trouble.error_event, "modelStreamErrorException").encode_frame())
    error = msgspec.json.encode(trouble.error_event)
    return (*events, b",\r\n" + error + b"]" if is_array else b"event: error\ndata: " + error + b"\n\n")
