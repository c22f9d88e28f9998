"""What recall brought back, told apart into passages that can be opened."""

import re

from msgspec import Struct

_REMARK = re.compile(r"\n\n(?=\[(?:passages only|also found in [\d., ]+); ask for a handle to read its part\]\s*\Z)")
"""Before what recall says itself at the end of an answer."""

_START = re.compile(r"^(?=\[\d+\.\d+\] ?)", re.MULTILINE)
_HEADING = re.compile(r"\[(?P<handle>\d+\.\d+)\] ?(?P<title>.*)")


class Passage(Struct, frozen=True):
    """Some lines of a part; without a handle they are recall's own words."""

    handle: str
    title: str
    text: str


def passages(answer: str) -> tuple[Passage, ...]:
    """The passages of an answer of `recall`, in its order."""
    found, *remark = _REMARK.split(answer, maxsplit=1)
    return tuple(_passage(block.strip()) for block in (*_START.split(found), *remark) if block.strip())


def _passage(block: str) -> Passage:
    first, _, rest = block.partition("\n")
    heading = _HEADING.fullmatch(first)
    return Passage("", "", block) if heading is None else Passage(heading["handle"], heading["title"], rest)
