"""What recall brought back, told apart into passages that can be opened."""

import re

from msgspec import Struct

__all__ = ["Passage", "passages"]

_START = re.compile(r"^(?=\[\d+\.\d+\] ?)", re.MULTILINE)
_HEADING = re.compile(r"\[(?P<handle>\d+\.\d+)\] ?(?P<title>.*)")


class Passage(Struct, frozen=True):
    """Some lines of a part; without a handle they are recall's own words."""

    handle: str
    title: str
    text: str


def passages(answer: str) -> tuple[Passage, ...]:
    """The passages of an answer of `recall`, in its order."""
    return tuple(_passage(block.strip()) for block in _START.split(answer) if block.strip())


def _passage(block: str) -> Passage:
    first, _, rest = block.partition("\n")
    heading = _HEADING.fullmatch(first)
    return Passage("", "", block) if heading is None else Passage(heading["handle"], heading["title"], rest)
