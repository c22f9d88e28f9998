"""Which sessions a cap on size would delete. A decision only; stores carry it out when they are asked to (B27)."""

from collections.abc import Iterable
from typing import TypeVar

Name = TypeVar("Name")


def surplus(sizes: Iterable[tuple[Name, int]], max_bytes: int) -> list[Name]:
    """The sessions to delete, given with their bytes and the last changed first, so that the rest holds at most that.

    The newest that fit are kept; from the first that does not fit on, all older ones go, so that age alone decides.
    """
    kept, too_many, gone = 0, False, list[Name]()
    for name, size in sizes:
        kept += size
        too_many = too_many or kept > max_bytes
        if too_many:
            gone.append(name)
    return gone
