"""What the judge says of a summary, as a checkpoint keeps it."""

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["Fault", "Verdict"]

Fault: TypeAlias = Literal["failed", "empty", "cut-off", "tool-calls", "refused", "language", "too-large", "invented"]
"""Why a summary cannot stand as it is; `failed`: the model gave none."""


class Verdict(Struct, frozen=True, omit_defaults=True):
    """What the judge found: the text that may be used, empty where none may; the faults; and the lines taken out."""

    text: str
    faults: tuple[Fault, ...] = ()
    removed: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()

    @property
    def is_accepted(self) -> bool:
        """Whether the summary, repaired or not, may stand."""
        return bool(self.text)
