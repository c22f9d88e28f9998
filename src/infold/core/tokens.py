"""The size of content: an estimate without a tokeniser, and its correction by a provider's reports.

Text is *measured* once, when it enters the log. Measures add up exactly; `tokens_in` turns a sum into tokens by the
policy's rule: our feature model measures in tokens, the documents' rules measure in UTF-16 code units and divide the
sum by four. Reported usage corrects the feature model's measure by kind of content.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar, assert_never

from msgspec import UNSET, Struct, UnsetType

from infold.core import weights
from infold.core.messages import (
    CompactionPart,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from infold.core.policy import Ruler


class WeightTable(NamedTuple):
    """One view of a text: the class of each byte, and the weight of each sequence of classes."""

    classes: bytes
    kernel: int
    weights: bytes


def estimate_tokens(text: str) -> int:
    """Estimate the o200k tokens of a text without a tokeniser.

    The empty text is 0, anything else at least 1, and a text of two halves is close to the sum of both. The mean error
    is within 5 % on passages of code, markdown, JSON, logs, Chinese, Japanese and Korean.
    """
    if not text:
        return 0
    middle = text[len(text) // 2]
    run = middle * RUN_CHARS
    if middle in RULES or run not in text:
        return max(1, round(weigh_text(text) / weights.SCALE))
    rest = weigh_text(text.replace(run, "")) / weights.SCALE
    return max(1, round(text.count(run) * RUN_CHARS / run_chars_per_token(middle) + rest))


def run_chars_per_token(char: str) -> int:
    """Return how many of one character make a token, for texts that mostly repeat one character.

    Such texts have no contexts to learn from. Only the middle of a text is examined; a long run elsewhere is treated as
    ordinary text.
    """
    if not char.isascii():
        return 1
    if char.isalpha():
        return 8
    return 3 if char.isdigit() else RUNS_OF_OTHERS.get(char, 64)


def weigh_text(text: str) -> int:
    """Sum up a text in units of 1 / `SCALE` token: as ASCII, and as UTF-8 too if it is not only ASCII."""
    text = shorten_rules(text)
    narrow = text.encode("ascii", "replace")
    units = weigh(narrow, LETTERS) + weigh(narrow, SHAPES)
    return units if text.isascii() else units + weigh(wide_lines(text), SCRIPTS)


def wide_lines(text: str) -> bytes:
    """Keep the lines with non-ASCII characters, the only ones that the script weights apply to."""
    lines = [line for line in text.split("\n") if not line.isascii()]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def shorten_rules(text: str) -> str:
    """Shorten drawn lines, since the vocabulary has tokens for whole lines of one character."""
    for rule in RULES:
        text = text.replace(rule * RULE_CHARS, rule)
    return text


def weigh(data: bytes, reading: WeightTable) -> int:
    """Sum the weights of all positions, in units of 1 / `SCALE` token."""
    spans = contexts(data, reading).translate(reading.weights)
    # The lower half of Adler-32 is a plain sum as long as it stays below its modulus.
    return sum([zlib.adler32(spans[at : at + BLOCK], 0) & 0xFFFF for at in range(0, len(spans), BLOCK)])


def contexts(data: bytes, reading: WeightTable) -> bytes:
    """Give each position a number for its class and those of the positions before it.

    The classes are read as the digits of one long number: multiplying it by the kernel adds to each digit its shifted
    and scaled neighbours. No sum exceeds 255, so nothing carries over.
    """
    digits = int.from_bytes(data.translate(reading.classes), "little")
    return (digits * reading.kernel).to_bytes(len(data) + 3, "little")[: len(data)]


def classify(*groups: bytes) -> bytes:
    """Build the table from byte to class: the index of the group that holds it, or 0."""
    table = bytearray(256)
    for number, group in enumerate(groups):
        for byte in group:
            table[byte] = number
    return bytes(table)


def span(first: int, last: int) -> bytes:
    """Return all bytes from first to last, both included."""
    return bytes(range(first, last + 1))


BLOCK: Final = 65_520 // weights.SCALE


RULES: Final = "-=─"


RULE_CHARS: Final = 16


RUN_CHARS: Final = 64


RUNS_OF_OTHERS: Final = {" ": 128, "\n": 16, "\t": 16, "\r": 16, "\0": 2, "?": 8}


PAIRS: Final = 1 + (16 << 8)


TRIPLES: Final = 1 + (6 << 8) + (36 << 16)


LOWER: Final = span(ord("a"), ord("z"))


UPPER: Final = span(ord("A"), ord("Z"))


DIGITS: Final = span(ord("0"), ord("9"))


PUNCTUATION: Final = bytes(set(span(0x21, 0x7F)) - set(LOWER + UPPER + DIGITS))


# Common letters are alone, rarer ones grouped: unusual neighbours indicate words of several tokens.
LETTER_GROUPS: Final = (
    *(b"", b"e", b"a", b"o", b"iu", b"t", b"n", b"s", b"r", b"l", b"dh", b"cmp", b"bfg", b"kvwy", b"jqxz"),
    UPPER,
)


SHAPE_GROUPS: Final = (b"\t\n\r", LOWER, UPPER, DIGITS, b" ", PUNCTUATION)


# UTF-8: ASCII first, then continuation bytes, then leading bytes, by script.
SCRIPT_GROUPS: Final = (
    *(b"\n\r", b" \t", LOWER + UPPER + DIGITS, PUNCTUATION),
    *(b"\x80", span(0x81, 0x9F), span(0xA0, 0xBF)),
    span(0xC0, 0xCF) + span(0xD5, 0xDF) + b"\xe0\xe1",
    span(0xD0, 0xD4),  # Cyrillic
    *(b"\xe2", b"\xe3"),  # symbols; kana and ideographic punctuation
    *(b"\xe4\xe5\xe6", b"\xe7\xe8\xe9"),  # Han
    span(0xEA, 0xED),  # Hangul
    *(b"\xee\xef", span(0xF0, 0xFF)),  # full-width forms; emoji
)


LETTERS: Final = WeightTable(classify(*LETTER_GROUPS), PAIRS, weights.LETTERS)


SHAPES: Final = WeightTable(classify(*SHAPE_GROUPS), TRIPLES, weights.SHAPES)


SCRIPTS: Final = WeightTable(classify(*SCRIPT_GROUPS), PAIRS, weights.SCRIPTS)


MOST_REMEMBERED = 100_000
"""About twenty megabytes; beyond it the cache is emptied, which costs one slow request."""


WIDE_BYTES_PER_CHARACTER = 1.25
"""UTF-8 bytes per character above which a text counts as mostly outside ASCII."""


Found = TypeVar("Found")


class TextEstimate(Struct, frozen=True, gc=False):
    """A text's estimated tokens, and whether it is mostly outside ASCII."""

    tokens: int
    is_wide: bool


def cache_by_text(read: Callable[[str], Found]) -> Callable[[str], Found]:
    """Cache a pure function of a text."""
    known: dict[tuple[int, int], Found] = {}

    def recall(text: str) -> Found:
        key = (hash(text), len(text))
        found = known.get(key)
        if found is None:
            if len(known) >= MOST_REMEMBERED:
                known.clear()
            found = known[key] = read(text)
        return found

    return recall


def _read(text: str) -> TextEstimate:
    wide = not text.isascii() and len(text.encode("utf-8", "surrogatepass")) > WIDE_BYTES_PER_CHARACTER * len(text)
    return TextEstimate(estimate_tokens(text), wide)


remembered = cache_by_text(_read)


MESSAGE_OVERHEAD_TOKENS = 4
"""What providers add around each message for its role and bounds; the documents' rules count text alone."""


CALL_OVERHEAD_TOKENS = 8
"""The frame of a tool call or result in addition to its name and content."""


SEALED_BYTES_PER_TOKEN = 5
"""Encrypted reasoning is base64 of about four bytes a token; providers count the original."""


LEARNING_RATE = 0.5
"""Share of an estimate's error that one report corrects: ten reports leave a thousandth of a constant error."""


LEAST_TAUGHT_TOKENS = 200
"""Below this much text the error of an estimate is chance: it neither corrects a factor nor confirms it."""


SMALLEST_FACTOR, LARGEST_FACTOR = 0.4, 2.5
"""All measured tokenisers are within this range of o200k (`docs/reference/catalogue.md`); a value outside is a wrong
report."""


class Size(Struct, frozen=True, gc=False):
    """A measure by kind of content: running text, tool input and output, and text outside ASCII.

    `loose` is how much of it a provider may leave out of its count: frames, reasoning and media.
    """

    prose: int = 0
    material: int = 0
    wide: int = 0
    loose: int = 0

    @property
    def measure(self) -> int:
        """The sum over all kinds."""
        return self.prose + self.material + self.wide

    def plus(self, other: "Size") -> "Size":
        return Size(
            self.prose + other.prose,
            self.material + other.material,
            self.wide + other.wide,
            self.loose + other.loose,
        )

    def minus(self, other: "Size") -> "Size":
        return Size(
            self.prose - other.prose,
            self.material - other.material,
            self.wide - other.wide,
            self.loose - other.loose,
        )


def total_size(sizes: Iterable[Size]) -> Size:
    """Return the sum of sizes; optimised, because thousands are summed at every step of a long session."""
    prose = material = wide = loose = 0
    for size in sizes:
        prose += size.prose
        material += size.material
        wide += size.wide
        loose += size.loose
    return Size(prose, material, wide, loose)


NO_SIZE = Size()


_MESSAGE_FRAME = Size(prose=MESSAGE_OVERHEAD_TOKENS, loose=MESSAGE_OVERHEAD_TOKENS)


class Calibration(Struct, frozen=True):
    """Factors from an estimate to the provider's tokens, by kind of content, learned from its reports.

    `wide_reports` counts reports on text outside ASCII, `material_reports` those on code and data, for which other text is
    a poor guide. What older versions stored has no such count, and is stored again without one.
    """

    prose: float = 1.0
    material: float = 1.0
    wide: float = 1.0
    reports: int = 0
    wide_reports: int = 0
    material_reports: int | UnsetType = UNSET

    def apply(self, size: Size) -> int:
        """Return the corrected estimate of a size."""
        return round(self.prose * size.prose + self.material * size.material + self.wide * size.wide)

    def learn(self, size: Size, reported_tokens: int) -> "Calibration":
        """Correct the factors by one report: what was added to the view, and how much the provider's count grew.

        A normalised least-mean-squares step: each kind is corrected in proportion to its share of what was added.
        Growth that is not positive is ignored, and so is that of little text, or mostly of frames, reasoning and media.
        An error that these explain is not attributed to the text; otherwise many small calls would teach a wrong factor
        for a large text.
        """
        power = size.prose**2 + size.material**2 + size.wide**2
        text = size.measure - size.loose
        if reported_tokens <= 0 or text < max(LEAST_TAUGHT_TOKENS, size.loose):
            return self
        error = reported_tokens - self.apply(size)
        step = LEARNING_RATE * error / power if abs(error) > size.loose else 0.0
        taught = 0 if isinstance(self.material_reports, UnsetType) else self.material_reports
        return Calibration(
            prose=_within_span(self.prose + step * size.prose),
            material=_within_span(self.material + step * size.material),
            wide=_within_span(self.wide + step * size.wide),
            reports=self.reports + 1,
            wide_reports=self.wide_reports + (size.wide >= LEAST_TAUGHT_TOKENS),
            material_reports=taught + (size.material >= LEAST_TAUGHT_TOKENS),
        )


UNCALIBRATED = Calibration()


def estimate(text: str, rule: Ruler) -> int:
    """Return the tokens of a text by that rule; 0 for an empty one."""
    return rule(text) if callable(rule) else tokens_in(measure(text, rule), rule)


def measure(text: str, rule: Ruler) -> int:
    """Return a text's size in the rule's own unit, which adds up exactly."""
    if callable(rule):
        return rule(text)
    return remembered(text).tokens if rule == "features" else _utf16_units(text)


def tokens_in(measured: int, rule: Ruler) -> int:
    """Return the tokens of a sum of measures."""
    match rule:
        case "round":
            return (measured + 2) // 4
        case "ceil":
            return -(-measured // 4)
        case _:
            return measured


def token_ruler(rule: Ruler) -> Ruler:
    """Return the ruler that measures in tokens: the rule itself, or the feature model if it counts characters."""
    return "features" if rule in ("round", "ceil") else rule


def measure_part(part: Part, rule: Ruler) -> int:
    """Return the measure of a part; parts that are never sent have none."""
    match part:
        case TextPart():
            return 0 if part.ignored else measure(part.text, rule)
        case ToolResultPart():
            attached = sum(measure_part(file, rule) for file in part.files) if part.files else 0
            return measure(part.output, rule) + _frame(rule) + attached
        case ToolCallPart():
            return measure(part.arguments, rule) + measure(part.tool, rule) + _frame(rule)
        case ReasoningPart():
            sealed = 0 if part.text else len(part.provider_data) // SEALED_BYTES_PER_TOKEN
            return measure(part.text, rule) + _in_unit(sealed, rule)
        case FilePart():
            return _in_unit(part.tokens, rule)
        case StepStartPart() | StepFinishPart() | CompactionPart():
            return 0
        case _:
            assert_never(part)


def measure_message(message: Message, rule: Ruler) -> tuple[int, ...]:
    """Return the measure of each part of a message."""
    return tuple([measure_part(part, rule) for part in message.parts])


def size_of(message: Message, measures: tuple[int, ...]) -> Size:
    """Return a message's size by kind of content, from the measures of its parts in tokens."""
    return size_of_parts(message.parts, measures).plus(_MESSAGE_FRAME)


def size_of_all(messages: Sequence[Message], rule: Ruler) -> Size:
    """Return the size of messages together, measured in tokens."""
    parts = [part for message in messages for part in message.parts]
    frames = MESSAGE_OVERHEAD_TOKENS * len(messages)
    return size_of_parts(parts, [measure_part(part, rule) for part in parts]).plus(Size(prose=frames, loose=frames))


def size_of_parts(parts: Sequence[Part], measures: Sequence[int]) -> Size:
    """Return the size of parts by kind of content."""
    prose = material = wide = loose = 0
    for part, measured in zip(parts, measures, strict=True):
        content, is_material = "", True
        match part:
            case ToolCallPart():
                content = part.arguments
                loose += CALL_OVERHEAD_TOKENS
            case ToolResultPart():
                content = part.output
                loose += CALL_OVERHEAD_TOKENS
                loose += sum(file.tokens for file in part.files) if part.files else 0
            case FilePart():  # estimated high
                loose += measured
            case ReasoningPart():  # some providers leave old reasoning out
                content, is_material = part.text, False
                loose += measured
            case TextPart():
                content, is_material = part.text, False
            case _:
                is_material = False
        if not content.isascii() and remembered(content).is_wide:
            wide += measured
        elif is_material:
            material += measured
        else:
            prose += measured
    return Size(prose, material, wide, loose)


def _utf16_units(text: str) -> int:
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _frame(rule: Ruler) -> int:
    return 0 if rule in ("round", "ceil") else CALL_OVERHEAD_TOKENS


def _in_unit(tokens: int, rule: Ruler) -> int:
    return tokens * 4 if rule in ("round", "ceil") else tokens


def _within_span(factor: float) -> float:
    return min(LARGEST_FACTOR, max(SMALLEST_FACTOR, factor))
