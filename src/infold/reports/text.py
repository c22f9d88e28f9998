"""Numbers, times, prices, parts, entries and events as text, for the terminal and for the page.

Text of a session is untrusted: it may hold terminal controls, marks that turn the direction of writing, or megabytes on one
line. `printable` makes it safe for a terminal, `visible` for a page, whose templates do the escaping.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from unicodedata import bidirectional

from msgspec import Struct

from infold.core.entries import (
    Amendment,
    Checkpoint,
    Clipping,
    Entry,
    Fault,
    MessageEntry,
    Pin,
    Pruning,
    Rejection,
    Restoration,
    Title,
)
from infold.core.events import Clipped, Compacted, Event, Pruned
from infold.core.messages import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
)
from infold.session.report import REASONS, describe_event, describe_safety, describe_saving, part_name

UNKNOWN = "–"
"""Stands for a number that is not known."""

MINUTE, HOUR, DAY = 60, 3_600, 86_400
LEAST_COST = 0.0001

FAULTS: dict[Fault, str] = {
    "failed": "the model gave no answer",
    "empty": "it was empty",
    "too-short": "it was too short to say anything",
    "repetitive": "it repeated itself",
    "cut-off": "it was cut off before its end",
    "tool-calls": "it called tools instead of summarising",
    "refused": "the model declined",
    "language": "it was not in the user's language",
    "too-large": "it was hardly smaller than what it replaces",
    "invented": "it named things that occur nowhere in the session",
    "vague": "it said nothing about the session",
    "continues": "it continued the work instead of summarising",
    "outdated": "the session knows better what some sentences say",
    "injected": "it repeated an instruction from the output of a tool",
}
"""Why the judge did not accept a summary as it was."""


# Numbers and times.


def short_number(number: int) -> str:
    """Return a count in about three figures: 980, 4.2k, 46.2k, 393k, 1.05M."""
    if number < 1_000:
        return str(number)
    if number < 99_950:
        return f"{number / 1_000:.1f}".removesuffix(".0") + "k"
    if number < 999_500:
        return f"{number / 1_000:.0f}k"
    return f"{number / 1_000_000:.2f}".rstrip("0").rstrip(".") + "M"


def dollars(cost: float) -> str:
    """Return a price with more digits the smaller it is; a dash for 0, since an unknown price is recorded as 0."""
    if cost <= 0:
        return UNKNOWN
    if cost < LEAST_COST:
        return f"< ${LEAST_COST}"
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.3f}" if cost >= 0.01 else f"${cost:.4f}"


def percent(share: float | None) -> str:
    """Return a share of one as a percentage; a dash if it is not known."""
    return UNKNOWN if share is None else f"{share:.0%}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: 1 request, 2,000 requests, 2 replies."""
    if count == 1:
        return f"{count:,} {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("ply") else f"{count:,} {noun}s"


def name_some(names: Sequence[str], most: int) -> str:
    """Return the first names, separated by commas, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def byte_size(stored_bytes: int) -> str:
    """Return a size in bytes, kilobytes or megabytes."""
    if stored_bytes < 1_000:
        return f"{stored_bytes} B"
    return f"{stored_bytes / 1_000:.0f} kB" if stored_bytes < 999_500 else f"{stored_bytes / 1_000_000:.1f} MB"


def seconds(duration_ms: int) -> str:
    """Return a duration; a dash if none was measured."""
    return f"{duration_ms / 1_000:.1f} s" if duration_ms else UNKNOWN


def moment(time_ms: int | None) -> str:
    """Return a time to the minute, in UTC; empty if it is not known."""
    return "" if time_ms is None else f"{datetime.fromtimestamp(time_ms / 1_000, UTC):%Y-%m-%d %H:%M}"


def timestamp(time_ms: int) -> str:
    """Return a time in ISO 8601, for programs."""
    return f"{datetime.fromtimestamp(time_ms / 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def ago(time_ms: int | None, now_ms: int) -> str:
    """Return how long ago something was, or its date after a month; a dash if it is not known."""
    if time_ms is None:
        return UNKNOWN
    passed = (now_ms - time_ms) // 1_000
    if passed < MINUTE:
        return "just now"
    if passed < HOUR:
        return f"{passed // MINUTE} min ago"
    if passed < DAY:
        return f"{passed // HOUR} h ago"
    return plural(passed // DAY, "day") + " ago" if passed < 30 * DAY else moment(time_ms)[:10]


# Untrusted text.

LONGEST_TEXT = 20_000
"""Characters of one part that a page shows unless all of it is requested."""

LONGEST_EXCERPT = 220

_MARKS = {0x061C: "ALM", 0x200E: "LRM", 0x200F: "RLM"}
_DIRECTIONS = {code: bidirectional(chr(code)) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))} | _MARKS
"""Characters that change the direction of writing, by their names in Unicode: LRE, RLO, PDI and others."""

_CONTROL_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n\r"}
_VISIBLE = {**_CONTROL_PICTURES, 0x7F: "\u2421", **{code: f"⟨{name}⟩" for code, name in _DIRECTIONS.items()}}
_SPACE = re.compile(r"\s+")


class Excerpt(Struct, frozen=True):
    """As much of a text as a page shows at once, and how many characters are left out."""

    text: str
    left_out: int


def printable(text: str) -> str:
    """Return text that a terminal shows and never obeys: control and formatting characters become question marks."""
    return "".join(
        character if character.isprintable() or character == "\n" else " " if character.isspace() else "?"
        for character in text
    )


def one_line(text: str, most: int = 200) -> str:
    """Return the beginning of a text as one line, safe for a terminal."""
    return printable(" ".join(text[: most * 4].split()))[:most]


def visible(text: str) -> str:
    """Return text for a page, with a picture or a name for each control character and change of direction."""
    return text.encode("utf-8", "replace").decode().translate(_VISIBLE)


def shorten(text: str, *, whole: bool = False) -> Excerpt:
    """Return text for a page, cut off if it is very long and not wanted `whole`."""
    if whole or len(text) <= LONGEST_TEXT:
        return Excerpt(visible(text), 0)
    return Excerpt(visible(text[:LONGEST_TEXT]), len(text) - LONGEST_TEXT)


def excerpt(text: str, most: int = LONGEST_EXCERPT) -> str:
    """Return the beginning of a text as one line, for a page; an ellipsis shows that there is more."""
    line = _SPACE.sub(" ", visible(text[: most * 4])).strip()
    return line if len(line) <= most and len(text) <= most * 4 else f"{line[:most].rstrip()}…"


def sentence(text: str) -> str:
    """Return an error message as a sentence."""
    return text if not text else f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


# Parts, entries and events.


def describe_part(part: Part) -> str:
    """Return what a part is, in a few words."""
    match part:
        case FilePart():
            return part.media_type
        case TextPart(synthetic=True):
            return "injected text"
        case _:
            return part_name(part)


def part_text(part: Part) -> str:
    """Return a part's own text, whatever its field is called."""
    match part:
        case TextPart() | ReasoningPart():
            return part.text
        case ToolCallPart():
            return part.arguments
        case ToolResultPart():
            return part.output
        case FilePart():
            return part.name or part.reference
        case _:
            return ""


def author_of(message: Message, part: Part) -> str:
    """Return who wrote a part: the user, the assistant, the harness, or a tool by its name."""
    match part:
        case ToolResultPart():
            return part.tool or "tool"
        case TextPart(synthetic=True) if isinstance(message, UserMessage):
            return "harness"
        case _:
            return str(message.__struct_config__.tag)


def describe_entry(entry: Entry) -> str:  # noqa: PLR0911 - one return for each kind of entry
    """Return what an entry did, in a few words; empty for a message."""
    match entry:
        case MessageEntry():
            return ""
        case Checkpoint(tokens_before=0):
            return "the head folded"
        case Checkpoint():
            return f"{short_number(entry.tokens_before)} → {short_number(entry.tokens_after)} tokens"
        case Pruning():
            return f"{plural(len(entry.targets), 'part')} pruned, {short_number(entry.freed_tokens)} tokens freed"
        case Clipping():
            return f"{plural(len(entry.clips), 'part')} clipped"
        case Restoration():
            return f"entry {entry.sequence} undone"
        case Rejection() if entry.bound_thinking or entry.native:
            what = "its own summary, now in infold's words" if entry.native else "the thinking, which was removed"
            return f"the provider refused {what}"
        case Rejection():
            counted = entry.reported_tokens or entry.estimated_tokens
            limit = "" if entry.limit_tokens is None else f", {short_number(entry.limit_tokens)} are allowed"
            return f"the provider refused {short_number(counted)} tokens{limit}"
        case Amendment():
            return f"messages from {entry.first} on taken back"
        case Pin():
            return f"part {entry.handle} {'pinned' if entry.pinned else 'released'}"
        case Title():
            return f"{'message' if entry.message_id else 'session'} titled {entry.text}"


def event_line(event: Event) -> str:
    """Return what was done, from how many tokens to how many, and why."""
    match event:
        case Pruned():
            done = f"pruned {plural(len(event.targets), 'old result')}"
        case Clipped():
            done = f"clipped {plural(len(event.targets), 'large part')}"
        case Compacted(folded_messages=0):
            done = "rewrote the checkpoint"
        case Compacted():
            done = f"folded {plural(event.folded_messages, 'message')}"
        case _:
            return describe_event(event)
    change = f"{short_number(event.tokens_before):>6} -> {short_number(event.tokens_after):>6}"
    beyond = f"{describe_saving(event)}{describe_safety(event)}" if isinstance(event, Compacted) else ""
    return f"{done:<26}{change} tokens   {REASONS[event.reason]}{beyond}"


def is_noticeable(event: Event) -> bool:
    """Whether an event is worth a line: pruning or clipping that changes no shown number is not."""
    if not isinstance(event, Pruned | Clipped):
        return True
    return short_number(event.tokens_before) != short_number(event.tokens_after)
