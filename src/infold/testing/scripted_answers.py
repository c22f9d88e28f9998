"""What a scripted model is asked, what it may answer, and the trouble its server may make."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from infold.core.messages import Finish, Message, Usage
from infold.core.tokens import estimate_tokens

Item: TypeAlias = dict[str, Any]

PIECE_CHARS = 12
"""Characters of text in one event of a stream: a few tokens, as providers send them."""

FAILURE = b'{"type": "error", "error": {"type": "api_error", "message": "a scripted failure"}}'
"""An error that every SDK understands."""


class Trouble(Struct, frozen=True):
    """What goes wrong on the way, for clients that must bear it.

    `cut_after_events` breaks the connection in the middle of a stream; with an `error_event` the stream reports it and ends.
    `false_length` promises more bytes than come. `garbage` strews a stream with what no client can read.
    """

    delay_seconds: float = 0.0
    chunk_delay_seconds: float = 0.0
    cut_after_events: int | None = None
    error_event: Item | None = None
    false_length: bool = False
    garbage: bool = False


class Say(Struct, frozen=True):
    """A reply: text, calls as pairs of a tool's name and its arguments, and thinking before both.

    It ends for the reason its content suggests unless `finish` is given, reports what the server counts unless `usage` is,
    and meets the server's trouble unless it brings its own. `signature` is what Anthropic's thinking is signed with.
    """

    text: str = ""
    calls: tuple[tuple[str, Item], ...] = ()
    finish: Finish | None = None
    reasoning: str = ""
    usage: Usage | None = None
    trouble: Trouble | None = None
    signature: str = "c2lnbmVk"


class Fail(Struct, frozen=True):
    """A refusal: a body of bytes or text is sent as it is, any other as JSON."""

    status: int
    body: object = FAILURE
    headers: Mapping[str, str] = {}


class Hang(Struct, frozen=True):
    """Silence for so long, then a connection that closes without a word."""

    seconds: float


Answer: TypeAlias = Say | Fail | Hang


class ScriptedRequest(Struct, frozen=True):
    """One request as it arrived.

    `path` includes the query; `headers` have lower-case names and hold credentials too; `format` is empty where the path is
    none of a model's; `messages` are the body's, decoded; `tokens` is what the server counts for the whole request.
    """

    path: str
    headers: Mapping[str, str]
    body: Item
    format: str = ""
    messages: tuple[Message, ...] = ()
    stream: bool = False
    tokens: int = 0


Script: TypeAlias = Callable[[ScriptedRequest], Answer]


def in_turn(*answers: Answer) -> Script:
    """A script that gives these answers one after the other, and the last one from then on."""
    left = iter(answers[:-1])
    return lambda _: next(left, answers[-1])


class Reply(Struct, frozen=True):
    """An answer on its way to the wire: ids are made of `number`, the request's place among all.

    `reports_usage` is false where a stream's usage was not asked for.
    """

    say: Say
    usage: Usage
    number: int
    model: str
    reports_usage: bool = True


class Told(Struct, frozen=True):
    """One event of a stream, or one object of a streamed array."""

    data: Item | str
    name: str = ""

    def encoded(self) -> bytes:
        """The event as bytes."""
        data = self.data if isinstance(self.data, str) else msgspec.json.encode(self.data).decode()
        return (f"event: {self.name}\n" if self.name else "").encode() + f"data: {data}\n\n".encode()


def finish_of(say: Say) -> Finish:
    """Why a reply ends."""
    return say.finish or ("tool-calls" if say.calls else "stop")


def pieces_of(text: str) -> Iterator[str]:
    """A text in the pieces a stream sends it in."""
    return (text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS))


def spoken_usage(say: Say, prompt_tokens: int, factor: float) -> Usage:
    """The usage a provider with our own way of counting would report, each token of ours being `factor` of its own."""
    said = [say.text, *(f"{name} {msgspec.json.encode(arguments).decode()}" for name, arguments in say.calls)]
    output = max(1, int(sum(map(estimate_tokens, said)) * factor))
    return say.usage or Usage(prompt_tokens, output, reasoning=int(estimate_tokens(say.reasoning) * factor))
