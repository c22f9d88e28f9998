"""When a text holds a fact: cue and answer both there, and near each other.

Near is within `NEAR_CHARACTERS`, or in the same record: a line of a summary, a call with its result. Text is compared after
Unicode and whitespace are normalised, without regard to case; nothing is fuzzy.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from infold.replay.facts_values import Fact

NEAR_CHARACTERS = 200

_BLANKS = re.compile(r"[^\S\n]+")


class Shown(Struct, frozen=True):
    """A normalised text that is in view: one record, lines that are records each, or prose, where nearness alone counts."""

    text: str
    shape: Literal["record", "lines", "prose"] = "record"

    @staticmethod
    def of(text: str, *, shape: Literal["record", "lines", "prose"] = "record") -> "Shown":
        """A text as it is compared."""
        return Shown(normalised(text), shape)


def normalised(text: str) -> str:
    """Text in one form of Unicode, one blank for many, in lower case."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _BLANKS.sub(" ", text).lower()


def beginning(text: str, most: int) -> str:
    """The first words of a text, never half a word where words are told apart by blanks."""
    if len(text) <= most:
        return text
    return text[:most].rpartition(" ")[0] or text[:most]


def holds(shown: Iterable[Shown], fact: Fact, answers: tuple[str, ...]) -> bool:
    """Whether any of the texts holds the fact's cue with one of these answers."""
    return any(_text_holds(text, fact, answer) for text in shown for answer in answers)


def places_of(text: str, words: str) -> Iterator[int]:
    """Where words stand in a normalised text, not as a piece of a longer word."""
    at = text.find(words)
    while at >= 0:
        if not _is_joined(text, at, words[0]) and not _is_joined(text, at + len(words), words[-1]):
            yield at
        at = text.find(words, at + 1)


def _is_joined(text: str, at: int, edge: str) -> bool:
    """Whether the characters on both sides of a place belong to one word of a script that writes blanks."""
    if not 0 < at < len(text) or not edge.isascii():
        return False
    return all(side.isascii() and (side.isalnum() or side == "_") for side in (text[at - 1], text[at]))


def _text_holds(shown: Shown, fact: Fact, answer: str) -> bool:
    return any(
        _has_cue(near, fact) for at in places_of(shown.text, answer) for near in _around(shown, at, fact, answer)
    )


def _around(shown: Shown, at: int, fact: Fact, answer: str) -> Iterator[str]:
    end = at + len(answer)
    if shown.shape == "lines":
        line_end = shown.text.find("\n", end)
        yield shown.text[shown.text.rfind("\n", 0, at) + 1 : line_end if line_end >= 0 else len(shown.text)]
    if shown.shape == "record":
        yield shown.text
    if shown.shape == "prose" or not fact.one_record:
        yield shown.text[max(0, at - NEAR_CHARACTERS) : end + NEAR_CHARACTERS]


def _has_cue(text: str, fact: Fact) -> bool:
    """Whether enough of the cue's words are there: all of a path or command, more than half of the words around."""
    found = sum(1 for cue in fact.cues if cue in text)
    return found * 2 > len(fact.cues) if len(fact.cues) > 1 else found == len(fact.cues)
