"""Accept, repair or reject a summary before it is used.

A summary is checked by code against the history it replaces: complete, not cut off, without tool calls, in the user's
language, smaller than what it replaces, and free of paths, identifiers and numbers that do not occur there. Lines that
contain such claims are removed; a summary that cannot be repaired is rejected, and the deterministic fold is used. The
must-keep set is not required of the summary: the ledger carries it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from infold.core.entries import Fault, Verdict
from infold.core.messages import (
    Finish,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
    decode_arguments,
    is_genuine_user,
    text_of,
)

LARGEST_LOSS = 0.3
"""The maximum share of lines that repair may remove; beyond it the rest is not trusted either."""

SMALLEST_SUMMARY = 20
"""Minimum characters of a summary."""

LONGEST_ANSWER = 1_000_000
"""Maximum characters of a model's answer that are read; a longer answer is not a summary."""

LARGEST_SHARE = 0.8
"""A summary must be smaller than this share of what it replaces, or it is not worth the cut."""

LONGEST_REFUSAL = 400
"""Characters; models decline briefly."""

_REFUSAL = re.compile(
    r"(?:i['’]?m (?:very )?sorry|i am sorry|sorry,|i can(?:['’]t|not| not)|i['’]?m (?:not able|unable)|i am (?:not able|unable)"
    r"|(?:sure|of course|certainly|please)\b.{0,60}\b(?:share|provide|paste|send)\b.{0,60}\b(?:conversation|transcript|record)"
    r"|as an ai|unfortunately, i|je suis désolé|désolé|es tut mir leid|lo siento|抱歉|对不起|申し訳|ごめん|죄송)",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"^[^\S\n]*+(?:#+.*|\*\*[^*\n]*\*\*:?|[-*\d.]*+[^\S\n]*+\(?(?:none|n/a|nothing|empty|无|なし|없음)\)?[.:]?)[^\S\n]*+$",
    re.I | re.M,
)
"""Lines without content: headings, and phrases for having nothing to report."""

_SCRATCHPAD = re.compile(r"<(analysis|thinking|scratchpad|think)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_CLAIMS = re.compile(
    r"(?<![\w.~@-])(?<![\w.~@-]/)(?:[\w.~@-]++/)+[\w.~@-]*\w"  # paths
    r"|\b[\w-]{1,100}\.(?:py|js|ts|tsx|go|rs|java|c|h|cpp|md|json|toml|yaml|yml|sql|sh|txt|html|css)\b"  # file names
    r"|\b[a-z0-9]+_[a-z0-9_]+\b|\b[a-z]+[A-Z]\w+\b|\b[A-Z][a-z]+[A-Z]\w+\b"  # identifiers
    r"|\b[0-9a-f]{7,40}\b|\b\d[\d,.]{0,40}\d\d\b"  # hashes, numbers of three digits or more
)
_WRITINGS = {
    "latin": re.compile(r"[A-Za-zÀ-ɏ]"),
    "cyrillic": re.compile(r"[\u0400-\u04ff]"),
    "greek": re.compile(r"[\u0370-\u03ff]"),
    "hebrew": re.compile(r"[\u0590-\u05ff]"),
    "arabic": re.compile(r"[\u0600-\u06ff]"),
    "devanagari": re.compile(r"[\u0900-\u097f]"),
    "thai": re.compile(r"[\u0e00-\u0e7f]"),
    "east asian": re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"),
}
"""Scripts that are distinguished. Names and paths are Latin everywhere, so a text in another script has both."""

LEAST_OWN = 0.05
"""Minimum share of a summary's letters in the user's script, if that is not Latin."""

LEAST_LATIN = 0.5
"""Below this share of Latin letters a summary is in another script, whatever names are in it."""

LEAST_OTHER = 0.2
"""Minimum share of a person's letters in another script before that counts as theirs."""

FEWEST_LETTERS = 5
"""Letters of a script that count as its use."""

FEWEST_WORDS, LEAST_VARIED = 100, 0.03
"""From this many words on, a text with a smaller share of different words is stuck in a loop."""


class Answer(Struct, frozen=True):
    """A summariser's answer."""

    text: str
    finish: Finish = "stop"
    calls_tools: bool = False


class ModelAnswer(Struct, frozen=True):
    """A summariser's answer with its model, usage, cost and duration.

    `reply` is a provider's whole reply to a request that it compacts itself, `native` the messages in it by which it did.
    """

    answer: Answer
    model: str = ""
    usage: Usage | None = None
    cost: float = 0.0
    duration_ms: int = 0
    reply: Any = None
    native: tuple[Message, ...] = ()


def judge(
    answer: Answer, head: Sequence[Message], *, known: str = "", replaced_tokens: int, answer_tokens: int
) -> Verdict:
    """Check an answer against the messages it is to replace; `known` is the text of older summaries.

    `replaced_tokens` and `answer_tokens` are in the session's own measure.
    """
    text = _SCRATCHPAD.sub("", answer.text).strip()
    fault: Fault | None = (
        plain_fault(answer)
        or ("too-large" if answer_tokens > LARGEST_SHARE * replaced_tokens else None)
        or _stuck_fault(text)
        or _language_fault(text, head, known)
    )
    if fault is not None:
        return Verdict("", (fault,))
    return _without_inventions(text, f"{record_text(head)}\n{known}")


def record_text(messages: Iterable[Message]) -> str:
    """Return all text, calls and results of messages, with call arguments as their values, not as JSON."""
    return "\n".join(piece for message in messages for part in message.parts for piece in _pieces(part))


def clean_text(text: str) -> str:
    """Return a model's text as a store can hold it: without NUL bytes and half surrogate pairs, of bounded length."""
    text = text[: LONGEST_ANSWER + 1].replace("\0", "")
    try:
        text.encode()
    except UnicodeEncodeError:  # the two halves of one character may have come in two pieces
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def hard_fault(answer: Answer) -> Fault | None:
    """Return the fault of an answer that is not a summary, whatever its words are: empty, cut off, a tool call, a
    refusal."""
    if answer.calls_tools:
        return "tool-calls"
    if answer.finish == "length":
        return "cut-off"
    if answer.finish in ("content-filter", "error", "abort"):
        return "refused"
    if len(answer.text) > LONGEST_ANSWER:
        return "too-large"
    return None if answer.text.strip() else "empty"


def plain_fault(answer: Answer) -> Fault | None:
    """Return the fault of an answer that is unusable whatever it is about: a hard fault, words of refusal, too few
    words."""
    fault = hard_fault(answer)
    if fault is not None:
        return fault
    text = _SCRATCHPAD.sub("", answer.text).strip()
    if len(text) <= LONGEST_REFUSAL and _REFUSAL.match(text):  # a longer summary may quote a refusal
        return "refused"
    told = len(" ".join(_NOTHING.sub("", text).split()))
    return None if told >= SMALLEST_SUMMARY else "too-short" if told else "empty"


def _language_fault(text: str, head: Sequence[Message], known: str) -> Fault | None:
    """Reject an English summary for a user who writes Japanese: agents then change language for good.

    Reject a summary in a script that does not occur in the history, too.
    """
    said = _letters("".join(text_of(message) for message in head if is_genuine_user(message)))
    told = _letters(text)
    own, foreign = _main_script(said), _main_script(told)
    if said[own] >= max(FEWEST_LETTERS, LEAST_OTHER * sum(said.values())):
        return "language" if told[own] < LEAST_OWN * sum(told.values()) else None
    if told["latin"] >= LEAST_LATIN * sum(told.values()):
        return None
    used = _letters("".join((known, *map(text_of, head))))
    return "language" if used[foreign] < FEWEST_LETTERS else None


def _main_script(letters: Mapping[str, int]) -> str:
    """Return the most used script other than Latin."""
    return max((name for name in letters if name != "latin"), key=lambda name: letters[name])


def _letters(text: str) -> dict[str, int]:
    return {name: len(pattern.findall(text)) for name, pattern in _WRITINGS.items()}


def _stuck_fault(text: str) -> Fault | None:
    """Reject a text that repeats one thing."""
    words = text.split()
    return "repetitive" if len(words) >= FEWEST_WORDS and len(set(words)) < LEAST_VARIED * len(words) else None


def _without_inventions(text: str, record: str) -> Verdict:
    lines = text.splitlines()
    kept: list[str] = []
    removed: list[str] = []
    invented: list[str] = []
    for line in lines:
        false = [claim for claim in _CLAIMS.findall(line) if not _occurs(claim, record)]
        (removed if false else kept).append(line)
        invented += false
    faults: tuple[Fault, ...] = ("invented",) if invented else ()
    stated = sum(1 for line in lines if line.strip())
    if len(removed) > LARGEST_LOSS * stated or not "".join(kept).strip():
        return Verdict("", faults, tuple(removed), tuple(invented))
    return Verdict("\n".join(kept).strip(), faults, tuple(removed), tuple(invented))


def _occurs(claim: str, record: str) -> bool:
    """Return whether a claim occurs in the history as it is, or as a number without its separators."""
    bare = claim.rstrip(".,")
    return bare in record or bare.replace(",", "") in record


def _pieces(part: object) -> Iterable[str]:
    match part:
        case TextPart():
            return (part.text,)
        case ToolResultPart():
            return (part.tool, part.output)
        case ToolCallPart():
            return (part.tool, part.arguments, *_strings(decode_arguments(part.arguments)))
        case _:
            return ()


def _strings(value: object) -> Iterable[str]:
    match value:
        case str():
            return (value,)
        case dict():
            return tuple(text for inner in value.values() for text in _strings(inner))
        case list():
            return tuple(text for inner in value for text in _strings(inner))
        case _:
            return ()
