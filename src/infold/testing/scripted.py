"""A model server for tests: real HTTP on loopback, with answers that a script decides.

It speaks the four wire formats, whole and streamed, so that the official SDKs, a client wrap or a gateway can talk to it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from threading import RLock, Thread
from types import TracebackType
from typing import assert_never
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct

from infold.core.tokens import estimate_tokens
from infold.errors import FormatError
from infold.formats.registry import ANTHROPIC_MESSAGES, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, WireFormat
from infold.testing import scripted_anthropic, scripted_chat, scripted_gemini, scripted_responses
from infold.testing.play import counted_tokens
from infold.testing.scripted_answers import (
    Fail,
    Hang,
    Item,
    Reply,
    Say,
    Script,
    ScriptedRequest,
    Told,
    Trouble,
    in_turn,
    spoken_usage,
)
from infold.testing.scripted_http import Arrived, Listener, Outgoing, Streamed, Whole

MODEL = "scripted"
"""The model's name where a request gives none, and the one that is listed."""

WELL = in_turn(Say("All is well."))
NO_TROUBLE = Trouble()


class Speech(Struct, frozen=True):
    """One provider's way to say it."""

    body: Callable[[Reply], Item]
    events: Callable[[Reply], Iterator[Told]]
    overflow: Callable[[int, int], Item]


class Route(Struct, frozen=True):
    """Where a path leads: to a reply in a wire format, or to a count under the field of that name."""

    ending: str
    wire: WireFormat
    count_field: str = ""


ROUTES = (
    Route("/chat/completions", OPENAI_CHAT),
    Route("/responses", OPENAI_RESPONSES),
    Route("/messages", ANTHROPIC_MESSAGES),
    Route("/messages/count_tokens", ANTHROPIC_MESSAGES, "input_tokens"),
    Route(":generateContent", GEMINI),
    Route(":streamGenerateContent", GEMINI),
    Route(":countTokens", GEMINI, "totalTokens"),
)

SPEECH = {
    OPENAI_CHAT.name: Speech(scripted_chat.body, scripted_chat.events, scripted_chat.overflow),
    OPENAI_RESPONSES.name: Speech(scripted_responses.body, scripted_responses.events, scripted_responses.overflow),
    ANTHROPIC_MESSAGES.name: Speech(scripted_anthropic.body, scripted_anthropic.events, scripted_anthropic.overflow),
    GEMINI.name: Speech(scripted_gemini.body, scripted_gemini.events, scripted_gemini.overflow),
}


class ScriptedServer:
    """Answers every request as a script says, and keeps all it was asked.

    The script is called with one request at a time. What it raises, leaving the `with` block raises too. With
    `window_tokens` a larger request is refused in its provider's own words before the script sees it; each token of ours
    counts as `factor` of the server's.
    """

    def __init__(
        self,
        answer: Script = WELL,
        *,
        window_tokens: int | None = None,
        factor: float = 1.0,
        trouble: Trouble = NO_TROUBLE,
    ) -> None:
        self._answer = answer
        self._window_tokens = window_tokens
        self._factor = factor
        self._trouble = trouble
        self._requests: list[ScriptedRequest] = []
        self._lock = RLock()
        self._listener: Listener
        self._thread: Thread

    @property
    def url(self) -> str:
        """Where the server listens, without a path; there is one only inside the `with` block."""
        return f"http://127.0.0.1:{self._listener.server_address[1]}"

    @property
    def requests(self) -> tuple[ScriptedRequest, ...]:
        """All requests so far, in the order they arrived."""
        with self._lock:
            return tuple(self._requests)

    def __enter__(self) -> "ScriptedServer":
        self._listener = Listener(self._respond)
        self._thread = Thread(target=self._listener.listen, name="scripted model")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._listener.stop()
        self._thread.join()
        if error is None and self._listener.failures:
            raise self._listener.failures[0]

    # From a request to what is sent back, in the connection's thread.

    def _respond(self, arrived: Arrived) -> Outgoing:
        path = urlsplit(arrived.target).path
        route = next((route for route in ROUTES if path.endswith(route.ending)), None)
        try:
            request = _read(arrived, route, self._factor)
        except (msgspec.DecodeError, FormatError) as error:
            self._keep(ScriptedRequest(arrived.target, arrived.headers, {}))
            return _refused(400, f"the request cannot be read: {error}")
        if route is not None and not route.count_field:
            return self._model_response(request)
        self._keep(request)
        if route is not None:
            return Whole(200, _json({route.count_field: request.tokens}))
        return _listed(path) if path.endswith("/models") else _refused(404, f"nothing is at {path}")

    def _keep(self, request: ScriptedRequest) -> int:
        with self._lock:
            self._requests.append(request)
            return len(self._requests)

    def _model_response(self, request: ScriptedRequest) -> Outgoing:
        window = self._window_tokens
        if window is not None and request.tokens > window:
            self._keep(request)
            return Whole(400, _json(SPEECH[request.format].overflow(request.tokens, window)))
        with self._lock:
            number, answer = self._keep(request), self._answer(request)
        match answer:
            case Say():
                usage = spoken_usage(answer, request.tokens, self._factor)
                reply = Reply(answer, usage, number, _model(request), _reports_usage(request))
                return _said(request, reply, answer.trouble or self._trouble)
            case Fail():
                return Whole(answer.status, _json(answer.body), answer.headers, self._trouble)
            case Hang():
                return answer
            case _:
                assert_never(answer)


def _read(arrived: Arrived, route: Route | None, factor: float) -> ScriptedRequest:
    """The request, decoded and counted; `FormatError` or `DecodeError` if it is none."""
    body: Item = msgspec.json.decode(arrived.body, type=dict) if arrived.body else {}
    if route is None:
        return ScriptedRequest(arrived.target, arrived.headers, body)
    wire = route.wire
    given = body.get(wire.items_field) or []
    messages = wire.decode([{"role": "user", "content": given}] if isinstance(given, str) else given).messages
    beside = sum(estimate_tokens(text) for text in (wire.system_text(body), wire.tools_text(body)))
    return ScriptedRequest(
        arrived.target,
        arrived.headers,
        body,
        wire.name,
        messages,
        stream=body.get("stream") is True or route.ending == ":streamGenerateContent",
        tokens=int((counted_tokens(messages) + beside) * factor),
    )


def _model(request: ScriptedRequest) -> str:
    in_path = re.search(r"/models/([^/:]+):", request.path)
    return in_path[1] if in_path else str(request.body.get("model") or MODEL)


def _reports_usage(request: ScriptedRequest) -> bool:
    """Only a chat stream's usage has to be asked for."""
    wanted = request.body.get("stream_options")
    is_wanted = isinstance(wanted, Mapping) and wanted.get("include_usage") is True
    return is_wanted or not request.stream or request.format != OPENAI_CHAT.name


def _said(request: ScriptedRequest, reply: Reply, trouble: Trouble) -> Outgoing:
    speech = SPEECH[request.format]
    if not request.stream:
        return Whole(200, _json(speech.body(reply)), trouble=trouble)
    events = tuple(speech.events(reply))
    if request.format == GEMINI.name and parse_qs(urlsplit(request.path).query).get("alt") != ["sse"]:
        opened = [(b",\r\n" if place else b"[") + _json(event.data) for place, event in enumerate(events)]
        return Streamed((*opened, b"]"), "application/json", trouble)
    return Streamed(tuple(event.encoded() for event in events), trouble=trouble)


def _refused(status: int, words: str) -> Whole:
    return Whole(status, _json({"type": "error", "error": {"type": "invalid_request_error", "message": words}}))


def _listed(path: str) -> Whole:
    """The one model there is, in a shape that every SDK can read."""
    known = {"id": MODEL, "object": "model", "created": 0, "owned_by": "infold"}
    shown = {"type": "model", "display_name": "Scripted", "created_at": "2024-01-01T00:00:00Z"}
    gemini: Item = {"models": [{"name": f"models/{MODEL}"}]} if path.startswith("/v1beta") else {}
    page = {"object": "list", "data": [known | shown], "has_more": False, "first_id": MODEL, "last_id": MODEL}
    return Whole(200, _json(gemini or page))


def _json(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)
