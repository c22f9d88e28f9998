"""Messages and their parts as frozen values, and fingerprints of what they say.

A message has one role and a tuple of parts; both are closed unions. Provider wire shapes belong to `formats/`, the
growth of a session to `log.py`. A part has no id of its own: its handle is the sequence number of its message's entry
and its position, which an append-only log never changes. Values hold only what was made before them, so there are no
cycles for the garbage collector to find (`gc=False`): a long session has many of them.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, NewType, TypeAlias

import msgspec
from msgspec import Struct

SessionId = NewType("SessionId", str)


MessageId = NewType("MessageId", str)


Finish: TypeAlias = Literal["stop", "tool-calls", "length", "content-filter", "error", "abort", "other"]


ResultStatus: TypeAlias = Literal["completed", "error", "interrupted"]


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens a provider reported for one request.

    `input` excludes what was read from or written to the cache; `output` excludes `reasoning` if the provider reports
    them separately. `total` is the provider's own sum, if it gave one. `cache_write_hour` is the part of `cache_write`
    that is kept for an hour, which costs more at some providers. `cleared` tokens were sent, but removed by the
    provider before the model read them. `compaction` is what a compaction by the provider used on the way to the reply:
    it is paid for in addition, and not in the window.
    """

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int | None = None
    cache_write_hour: int = 0
    cleared: int = 0
    compaction: "Usage | None" = None

    @property
    def prompt(self) -> int:
        """All tokens that the model read, however they were billed."""
        return self.input + self.cache_read + self.cache_write

    def plus(self, other: "Usage | None") -> "Usage":
        """Return the sum of both; `total` only if both have one."""
        if other is None:
            return self
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            None if self.total is None or other.total is None else self.total + other.total,
            self.cache_write_hour + other.cache_write_hour,
            self.cleared + other.cleared,
            other.compaction if self.compaction is None else self.compaction.plus(other.compaction),
        )

    @property
    def context(self) -> int:
        """The tokens in the window after the reply."""
        return self.total or self.prompt + self.output + self.reasoning


class CacheLoss(Struct, frozen=True, omit_defaults=True):
    """Tokens that were read again because the provider's cache had expired, and what that cost more in US dollars."""

    tokens: int
    cost: float = 0.0


class ToolSchema(Struct, frozen=True):
    """The estimated tokens of one tool's definition."""

    name: str
    tokens: int


class Overhead(Struct, frozen=True, omit_defaults=True):
    """Estimated tokens that a request sends in addition to its messages: the system prompt and the tools.

    `schemas` are those of each tool; a reply has them only if no earlier reply of the view has the same.
    """

    system: int = 0
    tools: int = 0
    schemas: tuple[ToolSchema, ...] = ()

    @property
    def tokens(self) -> int:
        return self.system + self.tools


class ModelRef(Struct, frozen=True):
    """A model at a provider."""

    provider: str
    id: str

    @property
    def full_name(self) -> str:
        """`provider/id`: the same model may have other limits and prices at another provider."""
        return f"{self.provider}/{self.id}" if self.provider else self.id


class WorkPath(Struct, frozen=True):
    """Where the agent worked: its working folder and the project's root."""

    cwd: str
    root: str


# Parts: one typed piece of a message.


class TextPart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="text"):
    """Written text.

    `synthetic`: added by a program (a harness's reminder, a rule file, a continue message), so never treated as the
    user's own words. `ignored`: kept for people, never sent to a model. `document`: the text of an attached document
    with this title, which may be empty. `opaque`: the JSON of a block type that infold does not know; it is counted,
    never edited, and folded only as a whole. `links`: ids that an opaque block shares with its partners; parts with a
    common id are never separated. `state`: what this part sets until a newer part sets it again, such as a tool or the
    working folder; it survives folds.
    """

    text: str
    synthetic: bool = False
    ignored: bool = False
    document: str | None = None
    opaque: bool = False
    links: tuple[str, ...] = ()
    state: tuple[str, ...] = ()


class ReasoningPart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="reasoning"):
    """A model's thinking; `provider_data` is the JSON of a signature or encrypted content, for the provider it is from.

    With `state` it is a summary that the provider wrote for the client: the provider ignores all before it.
    """

    text: str
    provider_data: str = ""
    state: tuple[str, ...] = ()


class ToolCallPart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="tool-call"):
    """A tool call; `arguments` is the JSON text as the model wrote it, possibly invalid."""

    call_id: str
    tool: str
    arguments: str
    provider_data: str = ""


class FilePart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="file"):
    """An image, document or other medium: its cost and address, not its bytes.

    `digest` names the bytes, which are stored apart from the log; empty if they are not stored.
    """

    media_type: str
    tokens: int
    name: str = ""
    reference: str = ""
    byte_size: int = 0
    digest: str = ""


class ToolResultPart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="tool-result"):
    """A tool result; `cleared`: another program had already replaced it by a stub."""

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
    """The beginning of a step; `snapshot` names the working tree at that moment."""

    snapshot: str = ""


class StepFinishPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="step-finish"):
    """The end of a step: the reason, the working tree, usage and cost."""

    reason: Finish
    snapshot: str = ""
    usage: Usage = Usage()
    cost: float = 0.0


class CompactionPart(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="compaction"):
    """A durable request to compact; `first_kept_id` is where the verbatim tail begins, if there is one."""

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


class SystemMessage(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="system"):
    """Instructions of the agent's developer that travel inside the message list.

    `until_user`: its text holds only until the next message of the user's role. `settings` is the JSON of what else it
    sets for the replies after it. `foreign_summary`: another program's summary, as in `AssistantMessage`.
    """

    id: MessageId
    parts: tuple[Part, ...]
    created_ms: int | None = None
    until_user: bool = False
    settings: str = ""
    foreign_summary: bool = False


class UserMessage(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="user"):
    """A message under the user's role, from a person or from a program (`TextPart.synthetic`).

    `agent` and `model` are to answer it; `system` is added to this request's system prompt. It may hold tool results if
    the provider expects them there.
    """

    id: MessageId
    parts: tuple[Part, ...]
    created_ms: int | None = None
    agent: str = ""
    model: ModelRef | None = None
    system: str = ""


class AssistantMessage(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="assistant"):
    """A model's reply: text, reasoning and tool calls; a summary has `summary` set.

    `overhead` is what the request sent in addition to its messages, `window_tokens` the window it was made for, if
    known. `cache_seconds`: how long the provider's cache keeps the request after its last use, 0 if unknown;
    `cache_loss`: what its expiry before this request cost. `foreign_summary`: another program's summary, recognised by
    its marker on import; it is sent like any other message.
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
    cache_seconds: int = 0
    cache_loss: CacheLoss | None = None


class ToolMessage(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="tool"):
    """Tool results for the calls of the assistant message before it."""

    id: MessageId
    parts: tuple[Part, ...]
    created_ms: int | None = None


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


def text_of(message: Message) -> str:
    """Return a message's text as a model would see it, parts joined by line breaks."""
    return "\n".join([part.text for part in message.parts if isinstance(part, TextPart) and not part.ignored])


def calls_of(message: Message) -> tuple[ToolCallPart, ...]:
    """Return the tool calls of a message, in order."""
    return tuple([part for part in message.parts if isinstance(part, ToolCallPart)])


def results_of(message: Message) -> tuple[ToolResultPart, ...]:
    """Return the tool results of a message, in order."""
    return tuple([part for part in message.parts if isinstance(part, ToolResultPart)])


def decode_arguments(arguments: str) -> object:
    """Return the value of a call's arguments, or `None` if they are not JSON."""
    try:
        return msgspec.json.decode(arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None


def is_compaction_request(message: Message) -> bool:
    """Return whether this is a durable request for a compaction."""
    return isinstance(message, UserMessage) and any(isinstance(part, CompactionPart) for part in message.parts)


def is_summary(message: Message) -> bool:
    """Return whether a message stands for earlier ones: an agent's own summary, or another program's."""
    return is_foreign_summary(message) or (isinstance(message, AssistantMessage) and message.summary)


def is_foreign_summary(message: Message) -> bool:
    """Return whether a message is another program's summary, recognised on import."""
    return isinstance(message, AssistantMessage | SystemMessage) and message.foreign_summary


def is_genuine_user(message: Message) -> bool:
    """Return whether a person wrote this: role user, with words or media that no program added."""
    return isinstance(message, UserMessage) and any(
        isinstance(part, FilePart)
        or (isinstance(part, TextPart) and is_attached_or_own(part) and not part.ignored and bool(part.text.strip()))
        for part in message.parts
    )


def is_attached_or_own(part: TextPart) -> bool:
    """Return whether a text is the user's: their words, or a document they attached."""
    return not part.synthetic or part.document is not None


def is_opaque(part: Part) -> bool:
    """Return whether a part is a block of an unknown type."""
    return isinstance(part, TextPart) and part.opaque


def is_signed(message: Message) -> bool:
    """Return whether a message holds provider data that becomes invalid when its surroundings change."""
    return any(
        isinstance(part, _SIGNED_PARTS) and part.provider_data != "" and not is_provider_summary(part)
        for part in message.parts
    )


def has_state(message: Message) -> bool:
    """Return whether a message may set something that folds carry on."""
    return isinstance(message, SystemMessage) or any(
        isinstance(part, _STATE_PARTS) and bool(part.state) for part in message.parts
    )


def is_provider_summary(part: Part) -> bool:
    """Return whether a part is a summary that the provider wrote for the client."""
    return isinstance(part, ReasoningPart) and bool(part.state)


KEPT_ID = "kept-"
"""Prefix of the ids of messages that a fold keeps as they were; the number of the message follows."""

STATE_ID = "state-"
"""Prefix of the ids of messages that a fold carries on; the number of the message follows."""

PINNED_ID = "pinned-"
"""Prefix of the ids of messages that bring back a folded part that was pinned."""


OWN_IDS = (
    "compact-",
    "continue-",
    "checkpoint-",
    "request-",
    "summary-",
    "interrupted-",
    "note-",
    PINNED_ID,
    STATE_ID,
    KEPT_ID,
)
"""Prefixes of the ids of messages that infold made; a caller's message has none of them."""


_SIGNED_PARTS, _STATE_PARTS, _FROM_USER = (
    (ReasoningPart, ToolCallPart),
    (TextPart, ReasoningPart),
    (UserMessage, ToolMessage),
)
"""As tuples, because unions would be made again at each message."""


_SEPARATOR = b"\x1e"


_FIELD = b"\x1f"


_NUMBERED = re.compile(r"[a-z_.:-]*\d{1,5}(\.\d+)?(#\d+)?")
"""Ids that count the calls of a history, as some servers and infold itself assign them: they recur in every history."""


_REPEATED = re.compile(r"#\d+$")


def is_from_caller(message: Message) -> bool:
    """Return whether a message came from the caller and will be in the caller's next history."""
    return not message.id.startswith(OWN_IDS)


def fingerprint(message: Message) -> str:
    """Return a short fingerprint of what a message says; equal for messages that differ in markers alone.

    If no other part of a message counts, its reasoning does.
    """
    return _fingerprint_of(message, map(_piece, message.parts))


def _fingerprint_of(message: Message, pieces: Iterable[bytes]) -> str:
    told = list(filter(None, pieces))
    if isinstance(message, SystemMessage) and message.settings:
        told.append(b"settings" + _FIELD + _encoded(message.settings))
    return _join(message, told or map(_seal_of, message.parts))


class HistoryFingerprints(NamedTuple):
    """The fingerprint of a history, and the one that it keeps if old results are cleared."""

    exact: str
    outline: str


def history_fingerprints(exact: str, outline: str, messages: Iterable[Message]) -> HistoryFingerprints:
    """Return both fingerprints of a history: of the earlier one, then of these messages in order."""
    for message in messages:
        pieces = list(map(_piece, message.parts))
        exact = _hash(f"{exact}{_fingerprint_of(message, pieces)}".encode())
        outline = _hash(f"{outline}{_join(message, map(_outline, message.parts, pieces))}".encode())
    return HistoryFingerprints(exact, outline)


def chain_fingerprint(earlier: str, messages: Iterable[Message]) -> str:
    """Return the fingerprint of a history: of the earlier one, then of these messages in order."""
    for message in messages:
        earlier = _hash(f"{earlier}{fingerprint(message)}".encode())
    return earlier


def outline_fingerprint(earlier: str, messages: Iterable[Message]) -> str:
    """Return the fingerprint of a history whose old results and media may have been cleared by the agent.

    The text of such a result does not count, but the id of its call does: agents that do the same every day get other
    results for the same calls, and only these ids distinguish them.
    """
    for message in messages:
        outline = _join(message, map(_outline, message.parts, map(_piece, message.parts)))
        earlier = _hash(f"{earlier}{outline}".encode())
    return earlier


def has_ids(messages: Iterable[Message]) -> bool:
    """Return whether a call of these messages has an id that is unique to this history."""
    return any(_own_id(call.call_id) for message in messages for call in calls_of(message))


def _join(message: Message, pieces: Iterable[bytes]) -> str:
    # Results come from the user at one provider and from a tool at another.
    role = "user" if isinstance(message, _FROM_USER) else type(message).__name__
    return _hash(_SEPARATOR.join((role.encode(), *filter(None, pieces))))


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _piece(part: Part) -> bytes:  # noqa: PLR0911 - one return for each kind of part
    match part:
        case TextPart(opaque=True):
            return b"opaque" + _FIELD + _without_markers(part.text)
        case TextPart():
            return b"" if part.synthetic or part.ignored else _encoded(part.text.strip())
        case ToolCallPart():
            return b"call" + _FIELD + _encoded(part.tool) + _FIELD + _canonical(part.arguments)
        case ToolResultPart():
            return b"result" + _FIELD + _encoded(part.output.strip())
        case FilePart():
            return b"file" + _FIELD + _encoded(f"{part.media_type} {part.byte_size} {part.reference}")
        case ReasoningPart() if part.state:
            return b"compacted" + _FIELD + _without_markers(part.provider_data)
        case _:
            return b""


def _outline(part: Part, piece: bytes) -> bytes:
    match part:
        case ToolCallPart():
            return piece + _FIELD + _own_id(part.call_id)
        case ToolResultPart():
            own = _own_id(part.call_id)
            return b"result" + _FIELD + own if own else piece
        case FilePart() | TextPart(opaque=True):
            return b""
        case _:
            return piece


def _seal_of(part: Part) -> bytes:
    """Return a reasoning part's provider data, or its text if it has none."""
    if not isinstance(part, ReasoningPart):
        return b""
    return b"reasoning" + _FIELD + _encoded(part.provider_data or part.text)


def _without_markers(text: str) -> bytes:
    """Return an opaque block in canonical form, without cache markers, which move, and without empty fields."""
    try:
        value = msgspec.json.decode(_encoded(text), type=dict[str, object])
        kept = {name: field for name, field in value.items() if name != "cache_control" and field is not None}
        return msgspec.json.encode(kept, order="sorted")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _encoded(text)


def _own_id(call_id: str) -> bytes:
    """Return an id as the provider gave it, or nothing if other histories may share it. Repeated ids are numbered."""
    return b"" if _NUMBERED.fullmatch(call_id) else _encoded(_REPEATED.sub("", call_id))


def _canonical(arguments: str) -> bytes:
    """Return arguments in canonical form; unchanged if they are not JSON."""
    try:
        return msgspec.json.encode(msgspec.json.decode(_encoded(arguments)), order="sorted")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _encoded(arguments)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


LONGEST_NAME = 120
"""Maximum characters of a name or an address in a line."""


RECALL_TOOL_NAME = "recall"
"""The tool by which a model searches its own session."""


def recall_name(recall: bool | str) -> str:
    """Return the name of the recall tool where a request offers it, by that name or by its usual one; else an empty text."""
    return recall if isinstance(recall, str) else RECALL_TOOL_NAME if recall else ""


_RECALL = re.compile(r"(?:.*[^a-z0-9])?infold[^a-z0-9]+recall|recall")


def is_recall(tool: str) -> bool:
    """Return whether a tool's name is recall's: `recall`, `infold_recall`, `mcp__infold__recall` and the like."""
    return _RECALL.fullmatch(tool.lower()) is not None


COMPACT_TOOL_NAME = "compact"
"""The tool by which a model asks for a compaction."""


_COMPACT = re.compile(r"(?:.*[^a-z0-9])?infold[^a-z0-9]+compact")


def is_compact(tool: str, *, plain: bool = True) -> bool:
    """Return whether a tool's name is compact's: `infold_compact`, `mcp__infold__compact`, and if `plain`, `compact`."""
    return _COMPACT.fullmatch(tool.lower()) is not None or (plain and tool.lower() == COMPACT_TOOL_NAME)


_UNITS = (("MB", 1_000_000), ("kB", 1_000), ("bytes", 1))


def media_label(part: FilePart) -> str:
    """Return the line that replaces a medium that is no longer shown."""
    size = f" ({_size(part.byte_size)}{', not stored' if is_media_lost(part) else ''})" if part.byte_size else ""
    reference = f" {_one_line(part.reference)}" if part.reference else ""
    return f"[attached: {_one_line(part.media_type)}{_title(part.name)}{reference}{size}]"


def is_media_lost(part: FilePart) -> bool:
    """Return whether neither the bytes nor an address of a medium are stored."""
    return not part.digest and not part.reference


def quote_document(part: TextPart) -> str:
    """Return a text document as it is quoted: under a line that names it."""
    return f"[attached: text{_title(part.document or '')}]\n{part.text.strip()}"


def _title(name: str) -> str:
    return f' "{_one_line(name)}"' if name.strip() else ""


def _one_line(text: str) -> str:
    """Return a name as part of a line, whatever its sender put in it."""
    return " ".join(text.split())[:LONGEST_NAME].replace('"', "'")


def _size(count: int) -> str:
    unit, divisor = next((unit, divisor) for unit, divisor in _UNITS if count >= divisor)
    return f"{count / divisor:.{1 if divisor > 1_000 else 0}f} {unit}"
