"""What a session said, made fit to be looked at.

Text of a session is anybody's: it may hold terminal controls, marks that turn the direction of writing, or megabytes on one line.
Escaping is the templates' affair; decided here is that nothing in a text can hide, reorder or drown what stands around it.
"""

import re

from msgspec import Struct

LONGEST_TEXT = 20_000
"""Characters of one part that a page shows before it is asked for all."""

LONGEST_EXCERPT = 220

_TURNING = {
    0x061C: "ALM",
    0x200E: "LRM",
    0x200F: "RLM",
    0x202A: "LRE",
    0x202B: "RLE",
    0x202C: "PDF",
    0x202D: "LRO",
    0x202E: "RLO",
    0x2066: "LRI",
    0x2067: "RLI",
    0x2068: "FSI",
    0x2069: "PDI",
}
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n\r"}
_SHOWN = {**_PICTURES, 0x7F: "\u2421", **{code: f"⟨{name}⟩" for code, name in _TURNING.items()}}
_SPACE = re.compile(r"\s+")


class Capped(Struct, frozen=True):
    """As much of a text as a page shows at once, and how many characters that leaves out."""

    text: str
    left_out: int


def visible(text: str) -> str:
    """The text with a picture or a name for each character that would be obeyed instead of shown."""
    return text.encode("utf-8", "replace").decode().translate(_SHOWN)


def capped(text: str, *, whole: bool = False) -> Capped:
    """The text as a page shows it, cut off where it is very long and not asked for whole."""
    if whole or len(text) <= LONGEST_TEXT:
        return Capped(visible(text), 0)
    return Capped(visible(text[:LONGEST_TEXT]), len(text) - LONGEST_TEXT)


def excerpt(text: str, most: int = LONGEST_EXCERPT) -> str:
    """The beginning of a text on one line."""
    line = _SPACE.sub(" ", visible(text[: most * 4])).strip()
    return line if len(line) <= most and len(text) <= most * 4 else f"{line[:most].rstrip()}…"


def sentence(text: str) -> str:
    """An error's words as a sentence of their own."""
    return text if not text else f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
