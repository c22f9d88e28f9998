"""Finding marked stretches in text that was written by anyone.

Plain searches instead of lazy regular expressions: an opening that is never closed must not be paid for again and
again, or hostile text would take quadratic time.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

COMMAND_FENCE = re.compile(r"^```(?:bash|sh|shell|mswea_bash_command)[ \t]*\n", re.MULTILINE)


class Stretch(NamedTuple):
    """A piece of text; `inside` if it stood between the marks, which are not part of it."""

    text: str
    inside: bool


def split_at(text: str, opening: str, closing: str) -> Iterator[Stretch]:
    """The text's pieces in order, inside and outside of the marks; an opening never closed is plain text."""
    done = 0
    while (start := text.find(opening, done)) >= 0:
        end = text.find(closing, start + len(opening))
        if end < 0:
            break
        yield Stretch(text[done:start], inside=False)
        yield Stretch(text[start + len(opening) : end], inside=True)
        done = end + len(closing)
    yield Stretch(text[done:], inside=False)


def without(text: str, opening: str, closing: str) -> str:
    """The text without its marked stretches and their marks."""
    return "".join(piece.text for piece in split_at(text, opening, closing) if not piece.inside)


def fenced_command(text: str) -> str | None:
    """The first fenced shell command, if its fence is closed."""
    found = COMMAND_FENCE.search(text)
    if found is None:
        return None
    end = text.find("\n```", found.end() - 1)
    return text[found.end() : end] if end >= found.end() else None
