"""The records a session's log is made of, and their stored form.

An entry is appended and never changed: hiding something is an entry, and so is showing it again. Entries are numbered
in order from 0; a part is addressed by its message's number and its position (`Handle`).
"""

from collections.abc import Iterable
from typing import Literal, NewType, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.core.budget import LearnedLimits
from infold.core.ledger import EMPTY_LEDGER, EXCERPTS, Ledger
from infold.core.messages import AssistantMessage, Message, MessageId, UserMessage
from infold.core.tokens import Calibration
from infold.errors import UndecodableLog

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 60_000, 3_600_000
"""How long a summariser is not asked after its first failed compaction; each further failure in a row doubles the
pause."""


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
    "vague",
    "continues",
    "outdated",
    "injected",
]
"""Why a summary cannot be used as it is; `failed`: the model returned none."""


class Verdict(Struct, frozen=True, omit_defaults=True):
    """The judge's result: the usable text (empty if rejected), the faults, and the sentences they concern.

    `removed` are sentences that were taken out, `marked` those with something that occurs nowhere (`invented`), `corrected`
    those to which the log's own knowledge was added, with it. `error` is the summariser's own error if it failed; `judged`:
    whether the policy judges content.
    """

    text: str
    faults: tuple[Fault, ...] = ()
    removed: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    error: str = ""
    judged: bool = True
    marked: tuple[str, ...] = ()
    corrected: tuple[str, ...] = ()

    @property
    def is_accepted(self) -> bool:
        """Whether the summary, repaired or not, is accepted."""
        return bool(self.text)


class SummariserFailures(Struct, frozen=True, omit_defaults=True):
    """Consecutive failed compactions of a summariser; policies do not ask it again before `until_ms`."""

    times: int
    until_ms: int

    def pauses(self, now_ms: int) -> bool:
        """Return whether the pause still lasts; a clock that was set back by more than the pause ends it."""
        return self.until_ms - LONGEST_PAUSE_MS <= now_ms < self.until_ms


def after_failure(before: SummariserFailures | None, now_ms: int, wait_ms: int = 0) -> SummariserFailures:
    """Return the state after one more failed compaction; `wait_ms` is how long the provider asks to wait."""
    times = 1 if before is None else before.times + 1
    pause_ms = min(LONGEST_PAUSE_MS, max(FIRST_PAUSE_MS << min(times - 1, 16), wait_ms))
    return SummariserFailures(times, now_ms + pause_ms)


Handle = NewType("Handle", str)
"""The address of a part: `"<sequence>.<position>"`, short enough for a stub."""


Reason: TypeAlias = Literal[
    "trigger", "price", "task", "asked", "forced", "overflow", "manual", "safety", "arrival", "import"
]
"""Why a compaction happened: the trigger was reached, continuing cost more than a cut, a task had ended near the
trigger, the model asked by its tool, a reply was cut off, a provider reported an overflow, a person asked, the
request would not have fitted although the preset's own trigger did not act, a part was longer on arrival than the
caller wanted, or it was read from a foreign transcript."""


class MessageEntry(Struct, frozen=True, tag_field="entry", tag="message"):
    """A message was appended."""

    message: Message


class Pruning(Struct, frozen=True, omit_defaults=True, tag_field="entry", tag="pruning"):
    """Old tool results or call arguments became stubs; the freed tokens are gross, stubs not subtracted.

    `excerpts` are the lines of results that stay in their stubs: chosen once, so that a stub never changes.
    """

    targets: tuple[Handle, ...]
    freed_tokens: int
    pruned_ms: int | None = None
    excerpts: dict[Handle, str] = {}


class Clip(Struct, frozen=True):
    """How much of one part stays visible: characters at its head and at its tail."""

    handle: Handle
    head_chars: int
    tail_chars: int


class Clipping(Struct, frozen=True, tag_field="entry", tag="clipping"):
    """Parts too large for the window were shortened in the view."""

    clips: tuple[Clip, ...]
    clipped_ms: int | None = None


class KeptStep(Struct, frozen=True):
    """An old step of the assistant that a fold keeps in its own form: the reply, then the results of its calls.

    `sequence` is the number of the reply; the messages are copies with ids of their own.
    """

    sequence: int
    messages: tuple[Message, ...]


def messages_of(steps: Iterable[KeptStep]) -> tuple[Message, ...]:
    """Return the messages of kept steps as they are sent: a reply without calls is joined with the reply after it."""
    messages: list[Message] = []
    for step in steps:
        reply, *results = step.messages
        last = messages[-1] if messages else None
        if isinstance(last, AssistantMessage) and isinstance(reply, AssistantMessage):
            messages[-1] = replace(reply, parts=(*last.parts, *reply.parts))
        else:
            messages.append(reply)
        messages += results
    return tuple(messages)


class Checkpoint(Struct, frozen=True, omit_defaults=True, tag_field="entry", tag="checkpoint"):
    """The head was folded: `text` replaces everything before the message numbered `first_kept`.

    `narrative` is the part of the text that a model or a foreign agent wrote; the rest was written by code.
    `first_kept` `None`: nothing before this entry stays. `request` and `summary` are the messages of a compaction
    carried out as in the documents. `cleaned`: reasoning was removed from the kept tail too. `attempt` counts the
    compactions since a person last spoke, `calls` the replies recorded in the session so far. `saving` is the expected
    saving of a fold made for its price, in US dollars, 0.0 if prices are assumed; `saving_tokens` is the same as tokens of
    uncached input that cost as much. `tokens_before` and `tokens_after` cover the whole view.

    `verdict`, `summariser`, `cost` and `duration_ms` describe a model's summary; `ahead`: it was written in the
    background. `calibration` and `limits` are what reports and rejections had taught by then. `folded` counts the
    caller's messages before the first kept one, and `fingerprint` is their chained fingerprint, by which a whole
    history is recognised; `outline` is the same for a history whose old results were cleared. `budget_tokens` is the
    room its text was given. `unanswered` maps folded calls that may still get a result to their tools. `failing`:
    summaries failed, and until when the summariser is not asked. `safety` names what infold did beyond the preset's
    document: `code-fold` if a failed summary would have stopped the work, `flattened` if the history did not fit the
    summariser as messages. `state` are the messages of the folded head that stay in force, with only the parts that do.
    `steps` are old steps that the view shows behind the text, oldest first.

    `native` are the messages by which the provider itself compacted the head, of `native_tokens`; a view that shows them
    has `note` in place of the text. `thinking_from`: thinking numbered below it was outdated before, and the rest stays.
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
    limits: LearnedLimits | None = None
    folded: int = 0
    fingerprint: str = ""
    budget_tokens: int = 0
    unanswered: dict[str, str] = {}
    outline: str = ""
    saving: float = 0.0
    failing: SummariserFailures | None = None
    safety: tuple[str, ...] = ()
    state: tuple[Message, ...] = ()
    native: tuple[Message, ...] = ()
    native_tokens: int = 0
    thinking_from: int = 0
    saving_tokens: int = 0
    steps: tuple[KeptStep, ...] = ()

    @property
    def text_alone(self) -> str:
        """The text without the line that announces kept steps, for readers that are not shown these."""
        return self.text.removesuffix(f"\n\n{EXCERPTS}")

    @property
    def note(self) -> str:
        """The part of the text that code wrote; next to a provider's own summary, also what that one invented."""
        written = without_narrative(self.text, self.narrative) if self.narrative else self.text
        verdict = self.verdict if self.native else None
        if verdict is None:
            return written
        names = (f"{_DOUBTS}: {', '.join(verdict.invented)}",) if verdict.invented else ()
        wrong = "\n- ".join(
            (_WRONG, *verdict.corrected, *(f"Leave this out of account: {one}" for one in verdict.removed))
        )
        return "\n\n".join((written, *names, *((wrong,) if verdict.corrected or verdict.removed else ())))


_WRONG = "Of what the summary at the beginning says, the record knows better:"


NARRATIVE = "Summary written by a model; where it differs from what follows, that is right:"
"""The heading of a model's words in a checkpoint's text."""


def add_narrative(text: str, narrative: str) -> str:
    """Return the text that code wrote with a model's words in it, under their own heading, right behind its opening."""
    opening, blank, rest = text.partition("\n\n")
    return f"{opening}\n\n{NARRATIVE}\n{narrative}{blank}{rest}"


def without_narrative(text: str, narrative: str) -> str:
    """Return the text of a checkpoint without a model's words, which stand at its end in older ones."""
    opening, found, rest = text.partition(f"\n\n{NARRATIVE}\n{narrative}")
    return f"{opening}{rest}" if found else text.removesuffix(narrative).rstrip()


_DOUBTS = "The summary at the beginning mentions what the record does not show; check it before you rely on it"


class Restoration(Struct, frozen=True, tag_field="entry", tag="restoration"):
    """A pruning, clipping or checkpoint was undone, named by its number."""

    sequence: int


class Pin(Struct, frozen=True, tag_field="entry", tag="pin"):
    """A part was pinned (never pruned, never folded) or released."""

    handle: Handle
    pinned: bool = True


class Rejection(Struct, frozen=True, omit_defaults=True, tag_field="entry", tag="rejection"):
    """A provider refused a request as too large: its estimate, and the provider's numbers if it gave any.

    `over_bytes`: it was refused for its bytes, of which it had at least that many. `bound_thinking`: it was refused for
    thinking that is bound to another conversation, whatever its size. `native`: it was refused for the provider's own
    summary in it. `believed_tokens` is the limit it was held to. `for_output`: its prompt is within the limit, and it was
    refused for the output that it asked for besides.
    """

    estimated_tokens: int
    reported_tokens: int | None = None
    limit_tokens: int | None = None
    over_bytes: int | None = None
    rejected_ms: int | None = None
    bound_thinking: bool = False
    believed_tokens: int | None = None
    native: bool = False
    for_output: bool = False


class Amendment(Struct, frozen=True, tag_field="entry", tag="amendment"):
    """The caller took back the message numbered `first` and all that followed it; the log keeps them, the view does
    not."""

    first: int


class Title(Struct, frozen=True, omit_defaults=True, tag_field="entry", tag="title"):
    """A user message was given a title, or the whole session if `message_id` is empty; the newest one counts."""

    text: str
    message_id: MessageId = MessageId("")


Entry: TypeAlias = MessageEntry | Pruning | Clipping | Checkpoint | Restoration | Pin | Rejection | Amendment | Title


_DECODER: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


_ENCODER = msgspec.json.Encoder()


def encode_entry(entry: Entry) -> bytes:
    """Return an entry in its stored form: one line of JSON."""
    return _ENCODER.encode(entry)


def decode_entry(stored: bytes) -> Entry:
    """Return the entry of a stored form; raise `UndecodableLog` for anything else."""
    try:
        return _DECODER.decode(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UndecodableLog(str(error)) from error


def handle_of(sequence: int, position: int) -> Handle:
    """Return the handle of a part."""
    return Handle(f"{sequence}.{position}")


def split_handle(handle: str) -> tuple[int, int]:
    """Return a handle's message number and part position; (-1, -1), which matches nothing, for an invalid one."""
    sequence, _, position = handle.partition(".")
    if not (sequence.isdecimal() and position.isdecimal()):
        return -1, -1
    return int(sequence), int(position)
