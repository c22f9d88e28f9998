"""Scripts: what a scripted server or model is asked, what it answers, and what goes wrong on the way."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import pack
from typing import TypeAlias
from zlib import crc32

import msgspec
from msgspec import Struct

from infold.core.messages import FilePart, Finish, Message, Part, ToolResultPart, Usage
from infold.core.tokens import estimate_tokens
from infold.formats.codec import Item

CHUNK_CHARS = 12
"""Characters of text in one event of a stream: a few tokens, as providers send them."""

FAILURE = b'{"type": "error", "error": {"type": "api_error", "message": "a scripted failure"}}'
"""An error body that every SDK understands."""


class Trouble(Struct, frozen=True):
    """Faults of the connection.

    `cut_after_events` breaks the connection in the middle of a stream; with an `error_event` the stream reports it and ends.
    `false_length` announces more bytes than are sent. `garbage` puts unreadable events into a stream.
    """

    delay_seconds: float = 0.0
    chunk_delay_seconds: float = 0.0
    cut_after_events: int | None = None
    error_event: Item | None = None
    false_length: bool = False
    garbage: bool = False


class Say(Struct, frozen=True):
    """A reply: reasoning, text, and calls as pairs of a tool's name and its arguments.

    By default it ends for the reason its content suggests, reports the usage that the server counts, and has the server's
    trouble. `signature` signs Anthropic's thinking.
    """

    text: str = ""
    calls: tuple[tuple[str, Item], ...] = ()
    finish: Finish | None = None
    reasoning: str = ""
    usage: Usage | None = None
    trouble: Trouble | None = None
    signature: str = "c2lnbmVk"


class Fail(Struct, frozen=True):
    """An HTTP error; a body of bytes or text is sent unchanged, any other as JSON."""

    status: int
    body: object = FAILURE
    headers: Mapping[str, str] = {}


class Hang(Struct, frozen=True):
    """No answer for that long, then a closed connection."""

    seconds: float


class StreamEvent(Struct, frozen=True):
    """One event of a stream, or one object of a streamed array."""

    data: Item | str
    name: str = ""

    def encode(self) -> bytes:
        data = self.data if isinstance(self.data, str) else msgspec.json.encode(self.data).decode()
        return (f"event: {self.name}\n" if self.name else "").encode() + f"data: {data}\n\n".encode()

    def encode_frame(self) -> bytes:
        """Return the event in Amazon's framing, as Converse sends it; one with the name of an exception reports it."""
        kind, payload = "exception" if self.name.endswith("Exception") else "event", msgspec.json.encode(self.data)
        values = {":message-type": kind, f":{kind}-type": self.name, ":content-type": "application/json"}
        headers = b"".join(_frame_header(name, value) for name, value in values.items())
        prelude = pack("!II", 16 + len(headers) + len(payload), len(headers))
        frame = prelude + pack("!I", crc32(prelude)) + headers + payload
        return frame + pack("!I", crc32(frame))


def _frame_header(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + b"\x07" + pack("!H", len(value)) + value.encode()


class Send(Struct, frozen=True):
    """A reply in the provider's own form: its body, and the events that a request for a stream gets in its place."""

    body: Item
    events: tuple[StreamEvent, ...] = ()
    trouble: Trouble | None = None


ScriptedAnswer: TypeAlias = Say | Send | Fail | Hang


class ScriptedRequest(Struct, frozen=True):
    """One request as it arrived.

    `path` includes the query. `headers` have lower-case names and include credentials. `format` is empty if the path is not a
    model's. `messages` are the body's, decoded; `tokens` is the server's count of the whole request.
    """

    path: str
    headers: Mapping[str, str]
    body: Item
    format: str = ""
    messages: tuple[Message, ...] = ()
    stream: bool = False
    tokens: int = 0


Script: TypeAlias = Callable[[ScriptedRequest], ScriptedAnswer]


def in_turn(*answers: ScriptedAnswer) -> Script:
    """Return a script that gives these answers one after the other, and then repeats the last one."""
    left = iter(answers[:-1])
    return lambda _: next(left, answers[-1])


ALL_IS_WELL = in_turn(Say("All is well."))


class WireReply(Struct, frozen=True):
    """A reply to be written in a wire format; ids are made of `number`, the request's position among all.

    `reports_usage` is false if a stream's usage was not asked for.
    """

    say: Say
    usage: Usage
    number: int
    model: str
    reports_usage: bool = True

    @property
    def finish(self) -> Finish:
        return self.say.finish or ("tool-calls" if self.say.calls else "stop")


def split_text(text: str) -> Iterator[str]:
    """Yield a text in the chunks of a stream."""
    return (text[at : at + CHUNK_CHARS] for at in range(0, len(text), CHUNK_CHARS))


def count_usage(say: Say, prompt_tokens: int, factor: float = 1.0) -> Usage:
    """Return the usage a provider would report that counts `factor` tokens for each of ours."""
    written = [say.text, *(f"{name} {msgspec.json.encode(arguments).decode()}" for name, arguments in say.calls)]
    output = max(1, int(sum(map(estimate_tokens, written)) * factor))
    return say.usage or Usage(prompt_tokens, output, reasoning=int(estimate_tokens(say.reasoning) * factor))


def count_tokens(messages: Iterable[Message]) -> int:
    """Return the tokens that a provider with our way of counting would report for these messages."""
    return sum(4 + sum(map(_part_tokens, message.parts)) for message in messages)


def _part_tokens(part: Part) -> int:
    texts = (getattr(part, field, "") for field in ("text", "output", "arguments", "tool"))
    files = part.files if isinstance(part, ToolResultPart) else (part,) if isinstance(part, FilePart) else ()
    return sum(estimate_tokens(text) for text in texts if text) + sum(file.tokens for file in files) + 8
