"""A session's log where others may write too, and all that can be done to it without a caller's list.

Undo, pins, titles and infold's own messages hold whatever others appended meanwhile, so they are made anew for the log as it then
is and appended until that succeeds.
"""

from collections.abc import Callable, Sequence
from random import uniform

from infold.core.clip import clips_on_arrival
from infold.core.entries import Clipping, Entry, Handle, MessageEntry, Pin, Restoration, Title
from infold.core.events import Clipped, Restored
from infold.core.gauge import estimated_tokens
from infold.core.log import Log
from infold.core.messages import Message, MessageId
from infold.engine.call import Flow, append
from infold.engine.circumstances import Circumstances
from infold.engine.effects import Append, Load, Publish, Wait
from infold.engine.history import numbered
from infold.engine.previewing import Preview, preview
from infold.errors import StoreConflict, UsageError

MOST_TRIES = 500
"""How often a flow begins anew before its conflict is told; another writer cannot be faster for ever."""

PAUSE_SECONDS = 0.002
"""The first pause before beginning anew; it grows and is drawn at random, so that many writers come apart."""

LONGEST_PAUSE = 20
"""How often the first pause the longest one is."""


class Kept:
    """A log in memory and the ways to change it in its store; `is_behind`: a flow broke off, and the store may hold more."""

    def __init__(self, log: Log, circumstances: Circumstances, now_ms: Callable[[], int]) -> None:
        self.log = log
        self.round = circumstances
        self.now_ms = now_ms
        self.is_behind = False
        self._lost = (0, 0)

    @property
    def window_tokens(self) -> int:
        """The window as it is known by now; 0 where it was declared to have no limit."""
        return self.round.window(self.log).context_tokens

    @property
    def limit_tokens(self) -> int:
        """The most that the next request may be, as far as it is known by now; 0 where the window has no limit."""
        return self.round.situation(self.log).budget.limit_tokens

    def undo(self, sequence: int | None = None) -> Flow[None]:
        """Undo the newest compaction, or the pruning or clipping of that number (B1, B20).

        Raises `UsageError` where there is none, or where that entry hides nothing now.
        """
        if sequence is None and self.log.checkpoint is None:
            raise UsageError("there is no compaction to undo")
        number = self.log.checkpoint_sequence if sequence is None else sequence
        if number == self.log.checkpoint_sequence:
            yield from self.unfold(number)
        else:
            yield from self.insist(lambda log: (_restoration(log, number),))
        tokens_after = estimated_tokens(self.log, self.round.situation(self.log))
        yield Publish((Restored(self.log.session_id, number, tokens_after),))

    def pin(self, handle: str, *, pinned: bool = True) -> Flow[None]:
        """Pin a part, so that it is never pruned nor folded away; or release it (B20)."""
        yield from self.insist(lambda _: (Pin(Handle(handle), pinned),))

    def title(self, text: str, message_id: str = "") -> Flow[None]:
        """Give a user message a title, or the session where no message is named; the last one counts."""
        yield from self.insist(lambda _: (Title(text, MessageId(message_id)),))

    def add(self, messages: Sequence[Message], *, longest_tokens: int = 0) -> Flow[None]:
        """Store messages of infold's own making as they come; text and results longer than that are shown shortened."""
        whole: list[int] = []

        def entries(log: Log) -> tuple[Entry, ...]:
            placed = self.round.stamped(numbered(messages, log))
            told = tuple(MessageEntry(message) for message in placed)
            clips = clips_on_arrival(placed, log, longest_tokens) if longest_tokens else ()
            if not clips:
                return told
            whole[:] = [estimated_tokens(log.extend(told), self.round.situation(log))]
            return (*told, Clipping(clips, self.now_ms()))

        made = yield from self.insist(entries)
        if made and isinstance(made[-1], Clipping):
            after = estimated_tokens(self.log, self.round.situation(self.log))
            targets = tuple(clip.handle for clip in made[-1].clips)
            yield Publish((Clipped(self.log.session_id, targets, whole[0], after, "arrival"),))

    def preview(self, up_to: int | None = None) -> Preview:
        """What compacting now would do, by code alone; nothing is changed and no model is asked."""
        return preview(self.log, self.round.situation(self.log, manual=True), up_to)

    # How it is done.

    def begin_anew(self, attempt: int) -> Flow[None]:
        """Read the session again, after a pause where this is not the first attempt."""
        if attempt:
            yield Wait(PAUSE_SECONDS * min(attempt, LONGEST_PAUSE) * uniform(0.5, 1.5))
        log = yield Load()
        assert isinstance(log, Log)
        self._lost = (self.log.next_sequence, log.next_sequence)
        self.log, self.is_behind = log, False

    def insist(self, entries: Callable[[Log], tuple[Entry, ...]]) -> Flow[tuple[Entry, ...]]:
        """Append entries that hold whatever others appended meanwhile, made anew for the log as it then is; gives them."""
        for attempt in range(MOST_TRIES):
            made = entries(self.log)
            try:
                self.log = yield from append(self.log, made)
            except StoreConflict:
                yield from self.begin_anew(attempt)
            else:
                return made
        raise self.conflict()

    def unfold(self, number: int) -> Flow[None]:
        """Undo a checkpoint; where another has done so meanwhile, there is nothing left to do."""
        for attempt in range(MOST_TRIES):
            try:
                yield Append((Restoration(number),), expected=self.log.next_sequence)
            except StoreConflict:
                yield from self.begin_anew(attempt)
                if self.log.checkpoint_sequence != number:
                    return
            else:
                yield from self.begin_anew(0)
                return
        raise self.conflict()

    def conflict(self) -> StoreConflict:
        """What is told when another writer was always faster."""
        expected, actual = self._lost
        return StoreConflict(self.log.session_id, expected=expected, actual=actual)


def _restoration(log: Log, number: int) -> Restoration:
    if not any(altered.is_hidden_by(number) for altered in log.altered.values()):
        raise UsageError(
            f"entry {number} hides nothing now: it was undone or folded since, or never hid anything; choose a pruning, "
            "a clipping or the newest compaction"
        )
    return Restoration(number)
