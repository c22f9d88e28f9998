"""What a session is made of: messages and their parts, as frozen values.

A message has one role and a tuple of parts; both are closed unions. Nothing here knows a provider's wire shape
(`formats/` does) or how a session grows (`log.py` does). A part has no id of its own: it is addressed by the
sequence number of its message's entry and its position (`log.Handle`), which an append-only log never changes.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Literal, NewType, TypeAlias

import msgspec
from msgspec import Struct

SessionId = NewType("SessionId", str)


MessageId = NewType("MessageId", str)


Finish: TypeAlias = Literal["stop", "tool-calls", "length", "content-filter", "error", "abort", "other"]


ResultStatus: TypeAlias = Literal["completed", "error", "interrupted"]


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens a provider reported for one request (S1.3).

    `input` excludes what was read from or written to the cache; `output` excludes `reasoning` where the provider
    tells them apart. `total` is the provider's own sum, if it gave one.
    """

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int | None = None

    @property
    def prompt(self) -> int:
        """All that was sent, however it was billed."""
        return self.input + self.cache_read + self.cache_write

    def plus(self, other: "Usage | None") -> "Usage":
        """Both together; the provider's own sum only where both have one."""
        if other is None:
            return self
        totals = (self.total, other.total)
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            None if None in totals else sum(total or 0 for total in totals),
        )

    @property
    def context(self) -> int:
        """What stands in the window after the reply."""
        return self.total or self.prompt + self.output + self.reasoning


class Overhead(Struct, frozen=True, omit_defaults=True):
    """Tokens that a request sends beside its messages, as estimated: the system prompt and the tools."""

    system: int = 0
    tools: int = 0

    @property
    def tokens(self) -> int:
        """Both together."""
        return self.system + self.tools


class ModelRef(Struct, frozen=True):
    """Which model, at which provider."""

    provider: str
    id: str

    @property
    def full_name(self) -> str:
        """The model at its provider, which may have limits and prices of its own: what a catalogue is asked for."""
        return f"{self.provider}/{self.id}" if self.provider else self.id


class WorkPath(Struct, frozen=True):
    """Where the agent stood: its working folder and the project's root."""

    cwd: str
    root: str


# Parts: one typed piece of a message.


class TextPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="text"):
    """Written text.

    `synthetic`: put there by a program (a harness's reminder, a rule file, a continue message), so never taken for
    the user's own words. `ignored`: kept for people, never sent to a model. `document`: the text is that of a document that was
    attached, under this title, which may be empty. `opaque`: the JSON of a block that infold has no reading for; it is counted,
    never edited, and folded only as a whole. `links`: ids that an opaque block shares with its partners; parts with an id in
    common are never separated.
    """

    text: str
    synthetic: bool = False
    ignored: bool = False
    document: str | None = None
    opaque: bool = False
    links: tuple[str, ...] = ()


class ReasoningPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="reasoning"):
    """A model's thinking; `provider_data` is JSON text of a seal or sealed content, for the provider it is from."""

    text: str
    provider_data: str = ""


class ToolCallPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool-call"):
    """A model's wish to run a tool; `arguments` is the JSON text as the model wrote it, possibly broken."""

    call_id: str
    tool: str
    arguments: str
    provider_data: str = ""


class FilePart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="file"):
    """An image, document or other medium, by what it costs and where it is, not by its bytes.

    `digest` names the bytes, which are kept beside the log; empty where nothing keeps them.
    """

    media_type: str
    tokens: int
    name: str = ""
    reference: str = ""
    byte_size: int = 0
    digest: str = ""


class ToolResultPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool-result"):
    """What a tool answered; `cleared`: another program had put a stub in its place before it came here."""

    call_id: str
    tool: str
    output: str
    status: ResultStatus = "completed"
    exit_status: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    files: tuple[FilePart, ...] = ()
    cleared: bool = False


class StepStartPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="step-start"):
    """A step began; `snapshot` names the working tree at that moment."""

    snapshot: str = ""


class StepFinishPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="step-finish"):
    """A step ended: why, with what working tree, at what usage and cost."""

    reason: Finish
    snapshot: str = ""
    usage: Usage = Usage()
    cost: float = 0.0


class CompactionPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="compaction"):
    """A durable request to compact (S3.1); `first_kept_id` is where the verbatim tail begins, if there is one."""

    id: str
    auto: bool
    overflow: bool = False
    first_kept_id: MessageId | None = None


Part: TypeAlias = (
    TextPart
    | ReasoningPart
    | ToolCallPart
    | ToolResultPart
    | FilePart
    | StepStartPart
    | StepFinishPart
    | CompactionPart
)


# Messages: one utterance with a role.


class SystemMessage(Struct, frozen=True, omit_defaults=True, tag_field="role", tag="system"):
    """Instructions of the agent's maker that travel inside the message list."""

    id: MessageId
    parts: tuple[Part, ...]
    created_ms: int | None = None


class UserMessage(Struct, frozen=True, omit_defaults=True, tag_field="role", tag="user"):
    """What was put to the model: by a person, or by a program under the same role (`TextPart.synthetic`).

    `agent` and `model` are who is to answer; `system` is text for this request's system prompt (S3.3). Tool results
    may stand in it where a provider wants them there.
    """

    id: MessageId
    parts: tuple[Part, ...]
    created_ms: int | None = None
    agent: str = ""
    model: ModelRef | None = None
    system: str = ""


class AssistantMessage(Struct, frozen=True, omit_defaults=True, tag_field="role", tag="assistant"):
    """A model's reply: text, reasoning and tool calls; a summary is one whose `summary` is true (S3.6).

    `overhead` is what the request it answers sent beside the messages, `window_tokens` the window that was made for, if known.
    `foreign_summary`: another program's summary, known by its marker on import; it is sent like any reply.
    """

    id: MessageId
    parts: tuple[Part, ...]
    created_ms: int | None = None
    parent_id: MessageId | None = None
    agent: str = ""
    mode: str = ""
    model: ModelRef | None = None
    path: WorkPath | None = None
    summary: bool = False
    usage: Usage | None = None
    cost: float = 0.0
    finish: Finish | None = None
    error: str = ""
    overhead: Overhead | None = None
    window_tokens: int = 0
    foreign_summary: bool = False


class ToolMessage(Struct, frozen=True, omit_defaults=True, tag_field="role", tag="tool"):
    """The answers of tools to the calls of the assistant message before it."""

    id: MessageId
    parts: tuple[Part, ...]
    created_ms: int | None = None


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


def text_of(message: Message) -> str:
    """The message's text as a model would see it, parts joined by line breaks."""
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart) and not part.ignored)


def calls_of(message: Message) -> tuple[ToolCallPart, ...]:
    """The tool calls a message makes, in order."""
    return tuple(part for part in message.parts if isinstance(part, ToolCallPart))


def results_of(message: Message) -> tuple[ToolResultPart, ...]:
    """The tool results a message brings, in order."""
    return tuple(part for part in message.parts if isinstance(part, ToolResultPart))


def is_compaction_request(message: Message) -> bool:
    """Whether this is the durable request for a compaction rather than something said."""
    return isinstance(message, UserMessage) and any(isinstance(part, CompactionPart) for part in message.parts)


def is_genuine_user(message: Message) -> bool:
    """Whether a person said this: role user, with words or media that no program put there."""
    return isinstance(message, UserMessage) and has_own_text(message.parts)


def has_own_text(parts: tuple[Part, ...]) -> bool:
    """Whether any of these parts is somebody's own text or medium."""
    return any(
        isinstance(part, FilePart)
        or (isinstance(part, TextPart) and is_attached_or_own(part) and not part.ignored and bool(part.text.strip()))
        for part in parts
    )


def is_attached_or_own(part: TextPart) -> bool:
    """Whether a user's text is theirs: their words, or a document that they attached."""
    return not part.synthetic or part.document is not None


def is_opaque(part: Part) -> bool:
    """Whether a part is a block that infold has no reading for."""
    return isinstance(part, TextPart) and part.opaque


def is_signed(message: Message) -> bool:
    """Whether a message holds provider data that is void once its surroundings change (B12)."""
    return any(isinstance(part, ReasoningPart | ToolCallPart) and part.provider_data != "" for part in message.parts)


OWN_IDS = ("compact-", "continue-", "checkpoint-", "request-", "summary-", "interrupted-")
"""How the ids of messages begin that infold made; no caller's message has one."""


_SEPARATOR = b"\x1e"


_FIELD = b"\x1f"


_NUMBERED = re.compile(r"[a-z_.:-]*\d{1,5}(\.\d+)?(#\d+)?")
"""Ids that count the calls of a history, as some servers and infold itself give them: every history has the same."""


_REPEATED = re.compile(r"#\d+$")


def is_callers(message: Message) -> bool:
    """Whether a message came from the caller, and will be in the history the caller brings next time."""
    return not message.id.startswith(OWN_IDS)


def likeness(message: Message) -> str:
    """What a message says, as a short fingerprint; equal for messages that differ in marks alone.

    Where nothing in a message counts, its reasoning does: it is all the message has.
    """
    pieces = tuple(filter(None, map(_piece, message.parts)))
    return _joined(message, pieces or map(_sealed, message.parts))


def chained(earlier: str, messages: Iterable[Message]) -> str:
    """The fingerprint of a history: of what came before, then of these messages in their order."""
    for message in messages:
        earlier = _hashed(f"{earlier}{likeness(message)}".encode())
    return earlier


def outlined(earlier: str, messages: Iterable[Message]) -> str:
    """The fingerprint of a history from which old results and media may have been cleared: several agents put a few words there.

    What such a result says does not count, but the id of its call does. Agents that do the same at the same time, or each day,
    get other results for the same calls, and no other id tells them apart.
    """
    for message in messages:
        outline = _joined(message, map(_outlined, message.parts))
        earlier = _hashed(f"{earlier}{outline}".encode())
    return earlier


def has_ids(messages: Iterable[Message]) -> bool:
    """Whether a call of theirs has an id that no other history has."""
    return any(_own_id(call.call_id) for message in messages for call in calls_of(message))


def _joined(message: Message, pieces: Iterable[bytes]) -> str:
    return _hashed(_SEPARATOR.join((_role(message), *filter(None, pieces))))


def _hashed(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _role(message: Message) -> bytes:
    """Results come from the user at one provider and from a tool at another."""
    return b"user" if isinstance(message, UserMessage | ToolMessage) else type(message).__name__.encode()


def _piece(part: Part) -> bytes:
    match part:
        case TextPart(opaque=True):
            return b"opaque" + _FIELD + _unmarked(part.text)
        case TextPart():
            return b"" if part.synthetic or part.ignored else _encoded(part.text.strip())
        case ToolCallPart():
            return b"call" + _FIELD + _encoded(part.tool) + _FIELD + _canonical(part.arguments)
        case ToolResultPart():
            return b"result" + _FIELD + _encoded(part.output.strip())
        case FilePart():
            return b"file" + _FIELD + _encoded(f"{part.media_type} {part.byte_size} {part.reference}")
        case _:
            return b""


def _outlined(part: Part) -> bytes:
    match part:
        case ToolCallPart():
            return _piece(part) + _FIELD + _own_id(part.call_id)
        case ToolResultPart():
            own = _own_id(part.call_id)
            return b"result" + _FIELD + own if own else _piece(part)
        case FilePart() | TextPart(opaque=True):
            return b""
        case _:
            return _piece(part)


def _sealed(part: Part) -> bytes:
    """A reasoning part by its provider data, or by its text where it has none."""
    if not isinstance(part, ReasoningPart):
        return b""
    return b"reasoning" + _FIELD + _encoded(part.provider_data or part.text)


def _unmarked(text: str) -> bytes:
    """An opaque block in one order and spacing, without cache marks, which move, and without fields that say nothing."""
    try:
        value = msgspec.json.decode(_encoded(text), type=dict[str, object])
        kept = {name: field for name, field in value.items() if name != "cache_control" and field is not None}
        return msgspec.json.encode(kept, order="sorted")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _encoded(text)


def _own_id(call_id: str) -> bytes:
    """An id as the provider gave it; nothing where it may be another history's too. One met a second time is numbered."""
    return b"" if _NUMBERED.fullmatch(call_id) else _encoded(_REPEATED.sub("", call_id))


def _canonical(arguments: str) -> bytes:
    """Arguments in one order and spacing; as they stand where they are no JSON."""
    try:
        return msgspec.json.encode(msgspec.json.decode(_encoded(arguments)), order="sorted")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _encoded(arguments)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


LONGEST_NAME = 120
"""Characters of a name or an address that a line shows."""


_UNITS = (("MB", 1_000_000), ("kB", 1_000), ("bytes", 1))


def attached(part: FilePart) -> str:
    """Return the line that stands for a medium where it is no longer shown."""
    size = f" ({_size(part.byte_size)}{', not stored' if is_lost(part) else ''})" if part.byte_size else ""
    reference = f" {_one_line(part.reference)}" if part.reference else ""
    return f"[attached: {_one_line(part.media_type)}{_title(part.name)}{reference}{size}]"


def is_lost(part: FilePart) -> bool:
    """Whether neither the bytes nor an address of a medium are kept."""
    return not part.digest and not part.reference


def attached_text(part: TextPart) -> str:
    """Return a text document as it is quoted: under a line that says what it is."""
    return f"[attached: text{_title(part.document or '')}]\n{part.text.strip()}"


def _title(name: str) -> str:
    return f' "{_one_line(name)}"' if name.strip() else ""


def _one_line(text: str) -> str:
    """A name as part of a line, whatever its sender put in it."""
    return " ".join(text.split())[:LONGEST_NAME].replace('"', "'")


def _size(count: int) -> str:
    unit, divisor = next((unit, divisor) for unit, divisor in _UNITS if count >= divisor)
    return f"{count / divisor:.{1 if divisor > 1_000 else 0}f} {unit}"
