"""Read a text once: what it was found to be is remembered by its hash.

A stateless caller brings the same texts with every request; estimating them again would cost more than everything else.
Only hashes and what was found are kept, never the texts. Forgetting is harmless: the same text always reads the same.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from infold.core.features import estimate_tokens

MOST_REMEMBERED = 100_000
"""Some twenty megabytes at most; then everything is forgotten at once, which costs one slow request."""

WIDE_BYTES_PER_CHARACTER = 1.25
"""UTF-8 bytes per character from which on a text counts as written mostly outside ASCII."""

Found = TypeVar("Found")


class Reading(Struct, frozen=True, gc=False):
    """What is known of a text: its estimated tokens, and whether it is mostly outside ASCII."""

    tokens: int
    is_wide: bool


def remembering(read: Callable[[str], Found]) -> Callable[[str], Found]:
    """A pure reading of text made cheap for texts that were read before."""
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


def _read(text: str) -> Reading:
    wide = not text.isascii() and len(text.encode("utf-8", "surrogatepass")) > WIDE_BYTES_PER_CHARACTER * len(text)
    return Reading(estimate_tokens(text), wide)


remembered = remembering(_read)
