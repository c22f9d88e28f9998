"""A log that others write to as well."""

import pytest

from infold.core.entries import Checkpoint, Entry, Handle, MessageEntry, Pin, Pruning
from infold.core.log import Log
from infold.engine.call import Flow
from infold.engine.circumstances import Circumstances
from infold.engine.drive import drive
from infold.engine.effects import Append
from infold.engine.kept import MOST_TRIES, Kept
from infold.engine.terms import terms_for
from infold.errors import StoreConflict, UsageError
from infold.testing.builders import calls, numbered, replies, result, user

from .worlds import KEY, Scripted


def stored() -> Scripted:
    """A world whose store holds three messages."""
    scripted = Scripted()
    entries: tuple[Entry, ...] = tuple(map(MessageEntry, numbered([user("hello"), replies("hi"), user("go")])))
    scripted.store.append(KEY, entries, expected=0)
    return scripted


def kept_in(scripted: Scripted) -> Kept:
    """The log of that world."""
    terms = terms_for(None, 16_000)
    return Kept(scripted.reread(), Circumstances(terms, lambda: 7), lambda: 7)


def test_entries_are_made_for_the_log_as_it_is() -> None:
    """B14: where another was faster, the session is read again and the entry made anew for what is there now."""
    scripted = stored()
    kept = kept_in(scripted)
    scripted.store.append(KEY, (Pin(Handle("0.0")),), expected=3)
    seen: list[int] = []

    def entries(log: Log) -> tuple[Entry, ...]:
        seen.append(log.next_sequence)
        return (Pin(Handle("2.0")),)

    made = drive(kept.insist(entries), scripted.world())

    assert seen == [3, 4]
    assert made == (Pin(Handle("2.0")),)
    assert kept.log.next_sequence == 5


def test_one_who_is_always_late_is_told() -> None:
    """B14: after many tries the conflict is told, with the numbers of the last one."""
    scripted = stored()
    scripted.store.append(KEY, (Checkpoint("what came before", first_kept=2),), expected=3)
    kept = kept_in(scripted)

    with pytest.raises(StoreConflict, match="goes on at entry 4, not 4"):
        _outrun(kept.insist(lambda _: (Pin(Handle("2.0")),)), kept.log)
    with pytest.raises(StoreConflict):
        _outrun(kept.unfold(3), kept.log)


def _outrun(flow: Flow[object], log: Log) -> None:
    """Drive a flow in a world where each append comes too late."""
    effect = next(flow)
    for _ in range(4 * MOST_TRIES):
        late = StoreConflict("s", expected=3, actual=3)
        effect = flow.throw(late) if isinstance(effect, Append) else flow.send(log)


def test_a_checkpoint_undone_by_another_stays_undone() -> None:
    """B1, B14: two who undo the same compaction undo it once."""
    scripted = stored()
    scripted.store.append(KEY, (Checkpoint("what came before", first_kept=2),), expected=3)
    first, second = kept_in(scripted), kept_in(scripted)
    drive(first.unfold(3), scripted.world())
    drive(second.unfold(3), scripted.world())

    assert second.log.checkpoint is None
    assert len(scripted.entries) == 5


@pytest.mark.parametrize("number", [1, 3, 4, 99])
def test_what_hides_nothing_now_is_told_in_plain_words(number: int) -> None:
    """B20: a message, a pruning undone already, its undoing and a number too high are no entry to undo, and nothing is stored."""
    scripted = Scripted()
    messages = numbered([user("read it"), calls("read"), result(2_000)])
    scripted.store.append(KEY, (*map(MessageEntry, messages), Pruning((Handle("2.0"),), 1_900)), expected=0)
    kept = kept_in(scripted)
    drive(kept.undo(3), scripted.world())

    with pytest.raises(UsageError, match=f"entry {number} hides nothing now"):
        drive(kept.undo(number), scripted.world())
    assert len(scripted.entries) == 5
