"""Estimate how many tokens a text has, at a few nanoseconds a character and without a vocabulary.

Decides nothing but the number. Each character is looked up, together with the one or two before it, in small
tables that say how much of a token begins there on average; the estimate is the sum. The tables are fitted to
the o200k vocabulary; what a provider's own count says is for the caller to correct by.

Every step is one call over the whole text, because a Python-level loop over words is ten times slower.
"""

import zlib
from typing import Final, NamedTuple

from infold.core import weights


class Reading(NamedTuple):
    """One way to look at a text: which class each byte is of, and how much each sequence of classes weighs."""

    classes: bytes
    kernel: int
    weights: bytes


def estimate_tokens(text: str) -> int:
    """Guess the o200k tokens of a text, so that budgets can be kept where no tokenizer is installed.

    Nothing is 0, anything else at least 1, and a text of two halves is close to the sum of both. Mean error
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
    """Say how many of one character make a token, for texts that are mostly one character over and over.

    Such texts have no contexts to learn from. The middle of the text is where they are looked for; a long run
    elsewhere is taken for ordinary text.
    """
    if not char.isascii():
        return 1
    if char.isalpha():
        return 8
    return 3 if char.isdigit() else RUNS_OF_OTHERS.get(char, 64)


def weigh_text(text: str) -> int:
    """Sum up a text in units of 1 / `SCALE` token: as ASCII, and where it is more than that, as UTF-8 too."""
    text = shorten_rules(text)
    narrow = text.encode("ascii", "replace")
    units = weigh(narrow, LETTERS) + weigh(narrow, SHAPES)
    return units if text.isascii() else units + weigh(wide_lines(text), SCRIPTS)


def wide_lines(text: str) -> bytes:
    """Keep the lines with more than ASCII in them, the only ones that weigh anything by script."""
    lines = [line for line in text.split("\n") if not line.isascii()]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def shorten_rules(text: str) -> str:
    """Make drawn lines short, since the vocabulary has tokens for whole lines of one such character."""
    for rule in RULES:
        text = text.replace(rule * RULE_CHARS, rule)
    return text


def weigh(data: bytes, reading: Reading) -> int:
    """Sum the weights of all positions, in units of 1 / `SCALE` token."""
    spans = contexts(data, reading).translate(reading.weights)
    # Adler's lower half is a plain sum as long as it stays under its modulus.
    return sum([zlib.adler32(spans[at : at + BLOCK], 0) & 0xFFFF for at in range(0, len(spans), BLOCK)])


def contexts(data: bytes, reading: Reading) -> bytes:
    """Give each position a number that names its class and those of the positions before it.

    The classes are read as the digits of one long number: multiplying it by the kernel adds to each digit its
    shifted and scaled neighbours. No sum exceeds 255, so nothing carries over.
    """
    digits = int.from_bytes(data.translate(reading.classes), "little")
    return (digits * reading.kernel).to_bytes(len(data) + 3, "little")[: len(data)]


def classify(*groups: bytes) -> bytes:
    """Build the table from byte to class: the place of the group that holds it, or 0."""
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

# Common letters stand alone, rarer ones with their like: unusual neighbours betray words of several tokens.
LETTER_GROUPS: Final = (
    *(b"", b"e", b"a", b"o", b"iu", b"t", b"n", b"s", b"r", b"l", b"dh", b"cmp", b"bfg", b"kvwy", b"jqxz"),
    UPPER,
)
SHAPE_GROUPS: Final = (b"\t\n\r", LOWER, UPPER, DIGITS, b" ", PUNCTUATION)
# UTF-8: ASCII first, then the bytes that continue a character, then those that begin one, by script.
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

LETTERS: Final = Reading(classify(*LETTER_GROUPS), PAIRS, weights.LETTERS)
SHAPES: Final = Reading(classify(*SHAPE_GROUPS), TRIPLES, weights.SHAPES)
SCRIPTS: Final = Reading(classify(*SCRIPT_GROUPS), PAIRS, weights.SCRIPTS)
