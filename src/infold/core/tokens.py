"""How large content is, without a tokeniser, and how a provider's reports correct that.

Text is *measured* once, when it enters the log. A measure adds up exactly; `tokens_in` turns a sum into tokens by the
policy's rule: our feature model measures in tokens, the documents' rules measure in UTF-16 code units and divide the
sum by four (S7.1). Reported usage corrects the feature model's measure by kind of content (B15).
"""

from collections.abc import Iterable
from typing import assert_never

from msgspec import Struct

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
from infold.core.readings import remembered

MESSAGE_OVERHEAD_TOKENS = 4
"""What providers add around each message for its role and bounds; the documents' rules count text alone."""

CALL_OVERHEAD_TOKENS = 8
"""The frame of a tool call or result beside its name and content."""

SEALED_BYTES_PER_TOKEN = 5
"""Encrypted reasoning is base64 of about four bytes a token; providers count what it stands for."""

LEARNING_RATE = 0.5
"""How much of an estimate's error one report corrects: ten reports leave a thousandth of a constant error."""

LEAST_TAUGHT_TOKENS = 200
"""Below this much text the error of an estimate is chance, and neither corrects a factor nor confirms it."""

SMALLEST_FACTOR, LARGEST_FACTOR = 0.4, 2.5
"""No tokeniser measured is outside this span of o200k (`docs/reference/catalogue.md`); what is, is a mistaken report."""


class Size(Struct, frozen=True, gc=False):
    """A measure by kind of content: running text, tool input and output, and text outside ASCII.

    `loose` is how much of all that a provider may honestly leave out of its count: frames, reasoning and media.
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
        """Both together."""
        return Size(
            self.prose + other.prose,
            self.material + other.material,
            self.wide + other.wide,
            self.loose + other.loose,
        )

    def minus(self, other: "Size") -> "Size":
        """What is left without the other."""
        return Size(
            self.prose - other.prose,
            self.material - other.material,
            self.wide - other.wide,
            self.loose - other.loose,
        )


def total_size(sizes: Iterable[Size]) -> Size:
    """All together; what thousands of sizes add up to is wanted at every step of a long session."""
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
    """Factors that turn an estimate into the tokens a provider counts, by kind of content, learned from its reports.

    `wide_reports` are those on text outside ASCII, of which other text tells little.
    """

    prose: float = 1.0
    material: float = 1.0
    wide: float = 1.0
    reports: int = 0
    wide_reports: int = 0

    def apply(self, size: Size) -> int:
        """The corrected estimate of a size."""
        return round(self.prose * size.prose + self.material * size.material + self.wide * size.wide)

    def learn(self, size: Size, reported_tokens: int) -> "Calibration":
        """Correct the factors by one report: what was added to the view, and by how much the provider's count grew.

        A normalised least-mean-squares step: each kind is corrected in proportion to its share of what was added.
        Growth that is not positive tells nothing, nor does that of little text, or mostly of frames, reasoning and media. An
        error that these explain is none of the text's. Else many small calls would teach what is wrong for a large text.
        """
        power = size.prose**2 + size.material**2 + size.wide**2
        text = size.measure - size.loose
        if reported_tokens <= 0 or text < max(LEAST_TAUGHT_TOKENS, size.loose):
            return self
        error = reported_tokens - self.apply(size)
        step = LEARNING_RATE * error / power if abs(error) > size.loose else 0.0
        return Calibration(
            prose=_within_span(self.prose + step * size.prose),
            material=_within_span(self.material + step * size.material),
            wide=_within_span(self.wide + step * size.wide),
            reports=self.reports + 1,
            wide_reports=self.wide_reports + (size.wide >= LEAST_TAUGHT_TOKENS),
        )


UNCALIBRATED = Calibration()


def estimate(text: str, rule: Ruler) -> int:
    """How many tokens a text has by that rule; 0 for none."""
    return tokens_in(measure(text, rule), rule)


def measure(text: str, rule: Ruler) -> int:
    """A text's size in the rule's own unit, which adds up exactly."""
    if rule == "features":
        return remembered(text).tokens
    return _utf16_units(text) if isinstance(rule, str) else rule(text)


def tokens_in(measured: int, rule: Ruler) -> int:
    """The tokens a sum of measures stands for."""
    match rule:
        case "round":
            return (measured + 2) // 4
        case "ceil":
            return -(-measured // 4)
        case _:
            return measured


def token_ruler(rule: Ruler) -> Ruler:
    """The ruler that measures in tokens beside a rule: the rule itself, or the feature model where it counts characters."""
    return "features" if rule in ("round", "ceil") else rule


def measure_part(part: Part, rule: Ruler) -> int:
    """What a part takes of the window; parts that are never sent take nothing."""
    match part:
        case TextPart():
            return 0 if part.ignored else measure(part.text, rule)
        case ToolResultPart():
            return measure(part.output, rule) + _frame(rule) + sum(measure_part(file, rule) for file in part.files)
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
    """What each part of a message takes of the window."""
    return tuple(measure_part(part, rule) for part in message.parts)


def size_of(message: Message, measures: tuple[int, ...]) -> Size:
    """A message's size by kind of content, from the measures of its parts in tokens."""
    return size_of_parts(message.parts, measures).plus(_MESSAGE_FRAME)


def size_of_parts(parts: tuple[Part, ...], measures: tuple[int, ...]) -> Size:
    """The size of parts by kind of content."""
    prose = material = wide = loose = 0
    for part, measured in zip(parts, measures, strict=True):
        loose += _loose(part, measured)
        match part:
            case ToolCallPart() | ToolResultPart() | FilePart():
                if _is_wide(_content(part)):
                    wide += measured
                else:
                    material += measured
            case TextPart() | ReasoningPart() if _is_wide(part.text):
                wide += measured
            case _:
                prose += measured
    return Size(prose, material, wide, loose)


def _loose(part: Part, measured: int) -> int:
    """What of a part is no text that every provider counts: old reasoning is left out by some, media are estimated high."""
    match part:
        case ToolCallPart():
            return CALL_OVERHEAD_TOKENS
        case ToolResultPart():
            return CALL_OVERHEAD_TOKENS + sum(file.tokens for file in part.files)
        case ReasoningPart() | FilePart():
            return measured
        case _:
            return 0


def _content(part: ToolCallPart | ToolResultPart | FilePart) -> str:
    match part:
        case ToolCallPart():
            return part.arguments
        case ToolResultPart():
            return part.output
        case FilePart():
            return ""
        case _:
            assert_never(part)


def _is_wide(text: str) -> bool:
    return not text.isascii() and remembered(text).is_wide


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
