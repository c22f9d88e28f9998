"""What a recorded transcript is, once it is read: sessions of core messages, and an account of the rest.

Every reader in this package ends here. The laws a `RecordedSession` keeps (unique ids, each result once and after
its call) are enforced by `draft.py`; what could not be kept as it was is told in `Skipped`.
"""

from msgspec import Struct
from msgspec.structs import replace

from infold.core.messages import AssistantMessage, Message, MessageId, ModelRef, text_of
from infold.core.policy import PRESETS
from infold.formats.injected import marked, marks_of

FOREIGN = marks_of(PRESETS.values())
"""What the systems that presets reproduce write into a history."""


class Skipped(Struct, frozen=True, omit_defaults=True):
    """Something that was not read as it stands, told once per reason.

    `line` is where it was first met (0: nowhere in particular), `count` how often. `repaired`: its content is in
    the messages, in another shape.
    """

    reason: str
    line: int = 0
    count: int = 1
    repaired: bool = False


class RecordedCompaction(Struct, frozen=True, omit_defaults=True):
    """A compaction that really happened while the session ran.

    `messages[:position]` is what had been said before it. A summary whose text is known stands among the messages
    from `position` on; an opaque one has no text and no message. `first_kept` is the index of the first message
    that stayed verbatim, if the record tells.
    """

    position: int
    summary: str = ""
    tokens_before: int | None = None
    first_kept: int | None = None


class RecordedSession(Struct, frozen=True, omit_defaults=True):
    """One session: ids are unique, each tool result follows its call, and no call is answered twice.

    `titles` are those of user messages, by id.
    """

    id: str
    messages: tuple[Message, ...]
    model: ModelRef | None = None
    system: str = ""
    tools: str = ""
    compactions: tuple[RecordedCompaction, ...] = ()
    parent: str | None = None
    title: str = ""
    titles: dict[MessageId, str] = {}


def imported(session: RecordedSession, *, first_kept: int | None = None) -> RecordedSession:
    """Return a foreign record with its marked summaries as compactions and its cleared results known.

    `first_kept` is the first message that stood after such a compaction: none that came before it, unless the caller knows.
    """
    messages = marked(session.messages, FOREIGN)
    told = {compaction.summary.strip() for compaction in session.compactions}
    found = (
        RecordedCompaction(position, text_of(message), first_kept=first_kept)
        for position, message in enumerate(messages)
        if isinstance(message, AssistantMessage) and message.foreign_summary and text_of(message).strip() not in told
    )
    compactions = sorted((*session.compactions, *found), key=lambda compaction: compaction.position)
    return replace(session, messages=messages, compactions=tuple(compactions))


class Transcript(Struct, frozen=True):
    """All that one file told."""

    format: str
    sessions: tuple[RecordedSession, ...]
    skipped: tuple[Skipped, ...] = ()


class Notes:
    """Gathers what a reader leaves out or repairs, one entry per reason however often it occurs."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, bool], int] = {}
        self._count: dict[tuple[str, bool], int] = {}

    def skip(self, reason: str, line: int = 0) -> None:
        """Something is left out."""
        self._tell((reason, False), line)

    def repair(self, reason: str, line: int = 0) -> None:
        """Something is kept in another shape."""
        self._tell((reason, True), line)

    def _tell(self, key: tuple[str, bool], line: int) -> None:
        self._first.setdefault(key, line)
        self._count[key] = self._count.get(key, 0) + 1

    def skipped(self) -> tuple[Skipped, ...]:
        """The account so far, in the order in which the reasons were first met."""
        return tuple(
            Skipped(reason, line=line, count=self._count[reason, repaired], repaired=repaired)
            for (reason, repaired), line in self._first.items()
        )
