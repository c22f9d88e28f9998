"""What a plugin is told before a head is folded, and what it may decide.

Values only: who is asked, and in which order, is the plugin manager's affair; what is done with the answer, the engine's.
"""

from typing import TypeAlias

from msgspec import Struct

from infold.core.entries import Reason
from infold.core.messages import Message, SessionId


class Occasion(Struct, frozen=True):
    """A compaction about to happen: of which session, why, what would be folded and how full the window is.

    `head` are the messages to be folded, `first_kept` the number of the first message that stays (none: nothing does).
    `is_urgent`: the request would not fit without it. `focus` is what a person asked the summary to give room to.
    """

    session_id: SessionId
    reason: Reason
    head: tuple[Message, ...]
    first_kept: int | None
    tokens_before: int
    usable_tokens: int
    is_urgent: bool = False
    focus: str = ""


class Veto(Struct, frozen=True):
    """Do not compact now; the request goes out as it stands, and an event says why."""

    why: str


class Supply(Struct, frozen=True):
    """Use this summary and ask no model; it is judged like any other."""

    summary: str


class KeepFrom(Struct, frozen=True):
    """Cut before the message of this number, or before the nearest earlier one where a cut is legal."""

    sequence: int


Decision: TypeAlias = Veto | Supply | KeepFrom
"""What a plugin may say; saying nothing lets the compaction go on as planned."""
