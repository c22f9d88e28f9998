"""A provider on loopback that keeps the exact bytes it receives and replies with what a recorded history has next."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

from .wires import WIRES, Item, Wire, refusal, reply_body, text_item

ASKS_SUMMARY = b"Write notes on the conversation so far"
NOTES = "The work went on step by step, each part was looked at, and what the user asked for above still holds."
FORMATS = {"/chat/completions": "openai-chat", "/responses": "openai-responses", "/messages": "anthropic-messages"}


class Upstream:
    """Replies to one request at a time; `reply` is what the next ordinary one is told, `refuses` whether for size it is not."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.reply: list[Item] = []
        self.refuses = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """Return the address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def taken(self) -> bytes:
        """Return what was received since this was last called, a line for each request."""
        received, self.received = self.received, []
        return b"".join(line + b"\n" for line in received)

    def respond(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        """Keep a request, and return the status, the content type and the body of its response."""
        self.received.append(path.encode() + b" " + body)
        wire = _wire_of(path)
        asked = json.loads(body)
        is_summary = ASKS_SUMMARY in body
        if self.refuses and not is_summary:
            self.refuses = False
            return 400, "application/json", _json(refusal(wire, size=21_000, limit=19_000))
        items = [text_item(wire, NOTES)] if is_summary else self.reply or [text_item(wire, "All is well.")]
        said = reply_body(wire, items, sent_bytes=len(body), number=1)
        model = asked.get("model", wire.model)
        said |= {} if wire.name == "gemini" else {"model": model}
        if not asked.get("stream") and "stream" not in path:
            return 200, "application/json", _json(said)
        events = b"".join(_event(event) for event in _events(wire, said))
        return 200, "text/event-stream", events + (b"data: [DONE]\n\n" if wire.name == "openai-chat" else b"")


def _handler(upstream: Upstream) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body leave together; apart, each waits for the other end

        def do_POST(self) -> None:
            """Reply to one request."""
            status, kind, body = upstream.respond(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler


def _wire_of(path: str) -> Wire:
    plain = path.partition("?")[0]
    return WIRES[next((name for ending, name in FORMATS.items() if plain.endswith(ending)), "gemini")]


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _event(value: Item) -> bytes:
    name = f"event: {value['type']}\n".encode() if "type" in value else b""
    return name + b"data: " + _json(value) + b"\n\n"


def _events(wire: Wire, said: Item) -> Iterator[Item]:
    """Yield the events of a streamed reply."""
    match wire.name:
        case "openai-chat":
            yield from _chat_events(said)
        case "openai-responses":
            yield {
                "type": "response.created",
                "response": {**said, "status": "in_progress", "output": [], "usage": None},
            }
            for at, item in enumerate(said["output"]):
                yield {"type": "response.output_item.added", "output_index": at, "item": item}
                yield {"type": "response.output_item.done", "output_index": at, "item": item}
            yield {"type": "response.completed", "response": said}
        case "anthropic-messages":
            yield {"type": "message_start", "message": {**said, "content": [], "stop_reason": None}}
            for at, block in enumerate(said["content"]):
                yield from _block_events(at, block)
            usage = {"output_tokens": said["usage"]["output_tokens"]}
            yield {"type": "message_delta", "delta": {"stop_reason": said["stop_reason"]}, "usage": usage}
            yield {"type": "message_stop"}
        case _:
            yield said


def _chat_events(said: Item) -> Iterator[Item]:
    piece = {"id": said["id"], "object": "chat.completion.chunk", "created": 1, "model": said["model"]}
    message = said["choices"][0]["message"]
    calls = [{"index": at, **call} for at, call in enumerate(message.get("tool_calls") or ())]
    delta = {
        **{name: value for name, value in message.items() if name != "tool_calls"},
        **({"tool_calls": calls} if calls else {}),
    }
    yield {**piece, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**piece, "choices": [{"index": 0, "delta": {}, "finish_reason": said["choices"][0]["finish_reason"]}]}
    yield {**piece, "choices": [], "usage": said["usage"]}


def _block_events(at: int, block: Item) -> Iterator[Item]:
    """Yield the events of one content block of a Messages reply."""
    begun: dict[str, Any]
    deltas: list[dict[str, Any]]
    match block["type"]:
        case "text":
            begun, deltas = {"type": "text", "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        case "tool_use":
            begun = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        case "thinking":
            begun = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case _:
            begun, deltas = block, []
    yield {"type": "content_block_start", "index": at, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": at, "delta": delta}
    yield {"type": "content_block_stop", "index": at}
