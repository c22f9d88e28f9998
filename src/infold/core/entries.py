"""The records a session's log is made of, and their stored form.

An entry is appended and never changed (B1): what hides something is an entry, and so is what shows it again. Entries are
numbered in order from 0; a part is addressed by its message's number and its own position (`Handle`).
"""

from typing import Literal, NewType, TypeAlias

import msgspec
from msgspec import Struct

from infold.core.budget import Limits
from infold.core.ledger import EMPTY_LEDGER, Ledger
from infold.core.messages import AssistantMessage, Message, MessageId, UserMessage
from infold.core.tokens import Calibration
from infold.errors import UndecodableLog

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 60_000, 3_600_000
"""How long a summariser is left alone after its first failed compaction; each further one in a row doubles the pause."""


Fault: TypeAlias = Literal[
    "failed",
    "empty",
    "too-short",
    "repetitive",
    "cut-off",
    "tool-calls",
    "refused",
    "language",
    "too-large",
    "invented",
]
"""Why a summary cannot stand as it is; `failed`: the model gave none."""


class Verdict(Struct, frozen=True, omit_defaults=True):
    """What the judge found: the text that may be used, empty where none may; the faults; and the lines taken out.

    `error` is the summariser's own error, where it failed; `judged`: whether the policy has a judge of content.
    """

    text: str
    faults: tuple[Fault, ...] = ()
    removed: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    error: str = ""
    judged: bool = True

    @property
    def is_accepted(self) -> bool:
        """Whether the summary, repaired or not, may stand."""
        return bool(self.text)


class Failing(Struct, frozen=True, omit_defaults=True):
    """A summariser that failed in so many compactions in a row, and is not asked again by a policy before `until_ms`."""

    times: int
    until_ms: int

    def pauses(self, now_ms: int) -> bool:
        """Return whether the pause still lasts; a clock that was set back by more than the pause ends it."""
        return self.until_ms - LONGEST_PAUSE_MS <= now_ms < self.until_ms


def next_failure(before: Failing | None, now_ms: int, wait_ms: int = 0) -> Failing:
    """Return the state after one more failed compaction; `wait_ms` is how long the provider asks to wait."""
    times = 1 if before is None else before.times + 1
    pause_ms = min(LONGEST_PAUSE_MS, max(FIRST_PAUSE_MS << min(times - 1, 16), wait_ms))
    return Failing(times, now_ms + pause_ms)


Handle = NewType("Handle", str)
"""The address of a part: `"<sequence>.<position>"`, short enough to stand in a stub."""


Reason: TypeAlias = Literal["trigger", "price", "forced", "overflow", "manual", "safety", "arrival", "import"]
"""Why a compaction happened: the trigger was reached, going on was dearer than a cut, a reply was cut off, a provider reported
an overflow, a person asked, the request would not have fitted although the policy's own trigger kept silent (S1.0), a part was
longer than a caller wanted when it arrived, or it was read from a foreign transcript."""


class MessageEntry(Struct, frozen=True, tag_field="entry", tag="message"):
    """Something was said, called or answered."""

    message: Message


class Pruning(Struct, frozen=True, tag_field="entry", tag="pruning"):
    """Old tool results or call arguments became stubs; the freed tokens are gross, stubs not subtracted (S2.7)."""

    targets: tuple[Handle, ...]
    freed_tokens: int
    pruned_ms: int | None = None


class Clip(Struct, frozen=True):
    """How much of one part stays visible: characters at its head and at its tail."""

    handle: Handle
    head_chars: int
    tail_chars: int


class Clipping(Struct, frozen=True, tag_field="entry", tag="clipping"):
    """Parts too large for the window were shortened in the view."""

    clips: tuple[Clip, ...]
    clipped_ms: int | None = None


class Checkpoint(Struct, frozen=True, omit_defaults=True, tag_field="entry", tag="checkpoint"):
    """The head was folded: `text` stands for everything before the message numbered `first_kept`.

    `narrative` is the part of the text that a model or a foreign agent wrote; the rest was written by code. `first_kept`
    none: nothing before this entry stays. `request` and `summary` are the messages of a compaction carried out as the
    documents have it. `cleaned`: reasoning left the kept tail too (S4.5). `attempt` counts the compactions since a person
    last spoke, `calls` the replies recorded in the session so far. `saving` is what a fold for its price was expected to save, in
    US dollars. `tokens_before` and `tokens_after` are of the whole view.
    `verdict`, `summariser`, `cost` and `duration_ms` tell of a model's summary: what the judge found, who wrote it, at
    what price; `ahead`, that it was written before it was needed. `calibration` and `limits` are what reports and rejections
    had taught by then. `folded` counts the caller's messages before the first kept one, and `fingerprint` is their chain of
    likenesses, by which a whole history is known again; `outline` is the same for one whose old results were cleared.
    `budget_tokens` is the room its text was given. `unanswered` are calls of what was folded that have no result yet and may
    still get one, each with its tool. `failing` says that summaries failed, and until when the summariser is left alone.
    `safety` names what infold did that the policy's document does not have: `code-fold` where a failed summary would have
    stopped the work, `flattened` where the history did not fit the summariser as messages.
    """

    text: str
    first_kept: int | None = None
    reason: Reason = "trigger"
    ledger: Ledger = EMPTY_LEDGER
    request: UserMessage | None = None
    summary: AssistantMessage | None = None
    narrative: str = ""
    cleaned: bool = False
    attempt: int = 1
    calls: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    created_ms: int | None = None
    verdict: Verdict | None = None
    summariser: str = ""
    cost: float = 0.0
    duration_ms: int = 0
    ahead: bool = False
    calibration: Calibration | None = None
    limits: Limits | None = None
    folded: int = 0
    fingerprint: str = ""
    budget_tokens: int = 0
    unanswered: dict[str, str] = {}
    outline: str = ""
    saving: float = 0.0
    failing: Failing | None = None
    safety: tuple[str, ...] = ()


class Restoration(Struct, frozen=True, tag_field="entry", tag="restoration"):
    """A pruning, clipping or checkpoint was undone, named by its number."""

    sequence: int


class Pin(Struct, frozen=True, tag_field="entry", tag="pin"):
    """A part was pinned (never pruned, never folded) or released."""

    handle: Handle
    pinned: bool = True


class Rejection(Struct, frozen=True, omit_defaults=True, tag_field="entry", tag="rejection"):
    """A provider refused a request as too large: what it had been estimated at, and the provider's numbers if it told any.

    `over_bytes`: it was refused for its bytes, of which it had at least that many. `bound_thinking`: it was refused for thinking
    that is bound to another conversation, whatever its size. `believed_tokens` is the limit it was held to.
    """

    estimated_tokens: int
    reported_tokens: int | None = None
    limit_tokens: int | None = None
    over_bytes: int | None = None
    rejected_ms: int | None = None
    bound_thinking: bool = False
    believed_tokens: int | None = None


class Amendment(Struct, frozen=True, tag_field="entry", tag="amendment"):
    """The caller took back the message numbered `first` and all that followed it; the log keeps them, the view does not."""

    first: int


class Title(Struct, frozen=True, omit_defaults=True, tag_field="entry", tag="title"):
    """A user message was given a title, or the whole session where `message_id` is empty; the last one holds (S6.2)."""

    text: str
    message_id: MessageId = MessageId("")


Entry: TypeAlias = MessageEntry | Pruning | Clipping | Checkpoint | Restoration | Pin | Rejection | Amendment | Title


_DECODER: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


_ENCODER = msgspec.json.Encoder()


def encode_entry(entry: Entry) -> bytes:
    """An entry in its stored form: one line of JSON."""
    return _ENCODER.encode(entry)


def decode_entry(stored: bytes) -> Entry:
    """The entry a stored form stands for; raises `UndecodableLog` on anything else."""
    try:
        return _DECODER.decode(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UndecodableLog(str(error)) from error


def handle_of(sequence: int, position: int) -> Handle:
    """The handle of a part."""
    return Handle(f"{sequence}.{position}")


def split_handle(handle: str) -> tuple[int, int]:
    """A handle's message number and part position; (-1, -1), which nothing has, for what is no handle."""
    sequence, _, position = handle.partition(".")
    if not (sequence.isdecimal() and position.isdecimal()):
        return -1, -1
    return int(sequence), int(position)
