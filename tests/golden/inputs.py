"""The histories that the digests are made of: committed as one file, so that they stay what they are when infold changes.

`python -m tests.golden.regenerate inputs` writes the file again from the invented transcripts and infold's generators.
"""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
INPUTS = HERE / "inputs.json.xz"
LONG = ("coding", "trajectory")
"""Histories of more than a hundred thousand tokens; the others are too short to fill a window."""


class History(NamedTuple):
    """A history in one wire format, with what is sent next to it."""

    name: str
    format: str
    items: list[Any]
    system: str = ""
    tools: str = ""


@cache
def invented() -> dict[str, tuple[History, ...]]:
    """Return the committed histories by name, each in every format it is written in."""
    stored = json.loads(lzma.decompress(INPUTS.read_bytes()))
    return {
        name: tuple(
            History(name, wire, items, value["system"], value["tools"])
            for wire, items in sorted(value["items"].items())
        )
        for name, value in stored.items()
    }


def history(name: str, wire: str) -> History:
    """Return one committed history."""
    return next(one for one in invented()[name] if one.format == wire)
