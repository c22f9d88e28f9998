"""Folding a head while others do too, with notes that come late or early."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from infold.core.entries import Checkpoint, Entry, MessageEntry, Verdict
from infold.core.events import Compacted, PreparationDiscarded
from infold.core.judge import Answer, Told
from infold.core.messages import MessageId, TextPart, UserMessage, text_of
from infold.core.summary_request import SummaryRequest
from infold.core.view import view
from infold.engine.ahead import Preparation, mark_of
from infold.engine.call import Call, Flow, Outrun
from infold.engine.drive import World, drive
from infold.engine.flow import Prepared, compact
from infold.engine.folding import PAUSE_SECONDS, plan_for
from infold.engine.notes import Notes
from infold.errors import ModelError, StoreConflict

from .scenes import TRIGGERED, URGENT, busy, compacted, outrun_at, situation, step_of, stored
from .worlds import GOOD, KEY, Scripted


def intruded(scripted: Scripted, entry: Entry | None = None) -> World:
    """A world in which another process appends an entry just before the first checkpoint."""
    said = UserMessage(MessageId("other"), (TextPart("from another process"),))
    left: list[Entry] = [entry or MessageEntry(said)]

    def append(entries: Sequence[Entry], expected: int) -> int:
        if left and isinstance(entries[0], Checkpoint):
            scripted.append((left.pop(),), expected)
        return scripted.append(entries, expected)

    return replace(scripted.world(), append=append)


# The lock.


def test_a_request_that_fits_does_not_wait_for_the_lock() -> None:
    """B14, B18: while another process compacts, a request over its trigger alone goes out as it is."""
    scripted = Scripted()
    log = stored(scripted, TRIGGERED)
    entries = scripted.entries
    with scripted.store.hold(KEY):
        done = compacted(scripted, log, Call((), situation()))

    assert (scripted.waits, scripted.asked, scripted.entries) == ([], [], entries)
    assert (done.log, done.events) == (log, ())


def test_a_request_that_does_not_fit_waits_and_begins_anew() -> None:
    """B14: after another process has compacted, the session is another one; nobody pays for the same summary twice."""
    scripted = Scripted()
    log = stored(scripted, URGENT)
    world = replace(scripted.world(), hold=busy(scripted, 3))

    assert drive(compact(log, Call((), situation())), world) == Outrun()
    assert scripted.waits == [PAUSE_SECONDS] * 3
    assert scripted.asked == []
    with scripted.store.hold(KEY) as free:
        assert free


def test_patience_ends_in_a_fold_without_the_model() -> None:
    """B10, B13: a lock that is never given back holds nobody up for longer than the session is patient."""
    scripted = Scripted()
    log = stored(scripted, URGENT)
    with scripted.store.hold(KEY):
        done = compacted(scripted, log, Call((), situation(), patience_seconds=3 * PAUSE_SECONDS))

    assert 3 <= len(scripted.waits) <= 4
    assert scripted.asked == []
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.narrative == ""
    assert done.gauge.upper_tokens <= situation().budget.limit_tokens


@pytest.mark.parametrize("answers", [(), (ModelError("m", "is down"),) * 2])
def test_the_lock_is_free_after_a_compaction(answers: tuple[ModelError, ...]) -> None:
    """B13: whether the model answered or failed, the next process can compact."""
    scripted = Scripted(*answers)
    compacted(scripted, stored(scripted, URGENT), Call((), situation()))
    with scripted.store.hold(KEY) as free:
        assert free


# Notes that come late, or early.


def test_notes_outlive_a_conflict() -> None:
    """B14: where another writer was faster with an entry, the notes are committed to the session as it has become; asked once."""
    scripted = Scripted()
    log = stored(scripted, URGENT)
    done = compacted(scripted, log, Call((), situation()), intruded(scripted))

    assert len(scripted.asked) == 1
    assert done.anew
    assert done.log.checkpoint is not None
    assert (done.log.checkpoint.narrative, done.log.checkpoint.ahead) == (GOOD, False)
    assert "from another process" in text_of(done.view[-1])
    assert view(scripted.reread(), situation().policy.summary) == done.view


def test_notes_are_kept_where_others_never_stop_writing() -> None:
    """B14: after some tries under the lock the notes are left for whoever begins anew, and nobody pays for them again."""
    scripted = Scripted()
    log = stored(scripted, URGENT)

    def append(entries: Sequence[Entry], expected: int) -> int:
        if isinstance(entries[0], Checkpoint):
            raise StoreConflict("s", expected=expected, actual=expected + 1)
        return scripted.append(entries, expected)

    outcome = drive(compact(log, Call((), situation())), replace(scripted.world(), append=append))

    assert isinstance(outcome, Outrun)
    assert outcome.preparation is not None
    assert (outcome.preparation.notes.text, outcome.preparation.is_left) == (GOOD, True)
    assert len(scripted.asked) == 1


def test_notes_on_a_head_that_changed_are_not_committed() -> None:
    """B14, B18: where another process folded that very head meanwhile, the session is read again and begun anew."""
    scripted = Scripted()
    log = stored(scripted, URGENT)
    outcome = drive(compact(log, Call((), situation())), intruded(scripted, Checkpoint("another's", first_kept=None)))

    assert isinstance(outcome, Outrun)
    assert len(scripted.asked) == 1
    assert sum(isinstance(entry, Checkpoint) for entry in scripted.entries) == 1


def test_prepared_notes_outlive_a_conflict_at_their_request() -> None:
    """B14, B18: what was taken off the shelf is given back for the next try, which uses it and asks nobody."""
    scripted = Scripted()
    log = stored(scripted, URGENT)
    notes = Notes(GOOD, Verdict(GOOD), "early", cost=0.5)
    scripted.ahead = Preparation(mark_of(log, step_of(log, situation()), situation().policy), notes)
    outcome = drive(compact(log, Call((), situation())), outrun_at(UserMessage, scripted))
    assert isinstance(outcome, Outrun)
    assert outcome.preparation is not None
    scripted.ahead = outcome.preparation
    done = compacted(scripted, scripted.reread(), Call((), situation()))

    assert scripted.asked == []
    assert done.log.checkpoint is not None
    assert (done.log.checkpoint.narrative, done.log.checkpoint.cost) == (GOOD, 0.5)


def test_a_fold_by_code_leaves_nothing_to_keep() -> None:
    """B14: where no model was asked, a conflict is just told."""
    scripted = Scripted()
    call = Call((), replace(situation(), summariser=False))

    assert drive(compact(stored(scripted, URGENT), call), outrun_at(Checkpoint, scripted)) == Outrun()


def test_a_conflict_at_the_request_asks_nobody() -> None:
    """B14, S3.1: the request is durable before anything is paid for, and the lock is free for the next try."""
    scripted = Scripted()
    log = stored(scripted, URGENT)

    def twice() -> Flow[Prepared | Outrun]:
        first = yield from compact(log, Call((), situation()))
        assert first == Outrun()
        assert scripted.asked == []
        return (yield from compact(log, Call((), situation())))

    done = drive(twice(), outrun_at(UserMessage, scripted))

    assert isinstance(done, Prepared)
    assert (len(scripted.asked), scripted.waits) == (1, [])


def test_a_person_waits_for_the_lock() -> None:
    """B20: a compaction that a person asked for is not passed over while another process compacts."""
    scripted = Scripted()
    log = stored(scripted, 8)
    call = Call((), situation(manual=True))

    assert drive(compact(log, call), replace(scripted.world(), hold=busy(scripted, 3))) == Outrun()
    with scripted.store.hold(KEY):
        done = compacted(scripted, log, replace(call, patience_seconds=3 * PAUSE_SECONDS))
    assert [event.reason for event in done.events if isinstance(event, Compacted)] == ["manual"]


def test_what_was_prepared_is_used() -> None:
    """B18: notes written ahead stand in the checkpoint, which says so; the request for them is stored all the same."""
    scripted = Scripted()
    log = stored(scripted, URGENT)
    notes = Notes("The parser was ported ahead of time with make.", None, "early", cost=0.5)
    scripted.ahead = Preparation(mark_of(log, step_of(log, situation()), situation().policy), notes)
    done = compacted(scripted, log, Call((), situation()))
    checkpoint = done.log.checkpoint

    assert checkpoint is not None
    assert (checkpoint.narrative, checkpoint.ahead, checkpoint.cost) == (notes.text, True, 0.5)
    assert checkpoint.request is not None
    assert scripted.asked == []
    assert [event.ahead for event in done.events if isinstance(event, Compacted)] == [True]


def test_what_no_longer_fits_is_discarded() -> None:
    """B18, B22: notes on another head are thrown away, an event tells what they cost, and the model is asked."""
    scripted = Scripted()
    log = stored(scripted, URGENT)
    mark = replace(mark_of(log, step_of(log, situation()), situation().policy), checkpoint_sequence=77)
    scripted.ahead = Preparation(mark, Notes("old news", cost=0.5))
    done = compacted(scripted, log, Call((), situation()))

    assert [event.cost for event in scripted.events if isinstance(event, PreparationDiscarded)] == [0.5]
    assert len(scripted.asked) == 1
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.narrative == GOOD


def test_a_summary_that_can_wait_is_wanted() -> None:
    """B18: over the trigger alone a session that defers sends its request, and says which summary it wants."""
    scripted = Scripted()
    log = stored(scripted, TRIGGERED)
    call = Call((), situation(), defers=True)
    done = compacted(scripted, log, call)

    assert done.wanted == plan_for(step_of(log, situation()), situation(), call)
    assert (scripted.asked, done.events) == ([], ())


@pytest.mark.parametrize(("steps", "manual"), [(URGENT, False), (TRIGGERED, True)])
def test_what_cannot_wait_is_asked_for(steps: int, manual: bool) -> None:
    """B18, B20: over the limit, or at a person's word, a session that defers compacts at once."""
    scripted = Scripted()
    done = compacted(scripted, stored(scripted, steps), Call((), situation(manual=manual), defers=True))

    assert len(scripted.asked) == 1
    assert done.log.checkpoint is not None


@pytest.mark.parametrize(("manual", "reason"), [(False, "trigger"), (True, "manual")])
def test_a_leftover_request_is_carried_out(manual: bool, reason: str) -> None:
    """S3.1, B22: a compaction that was requested and not finished is finished by its own request, for its own reason."""

    class Ended(BaseException):
        """The end of a process."""

    def ending(_: SummaryRequest) -> Told:
        raise Ended

    scripted = Scripted(Answer(GOOD))
    log = stored(scripted, URGENT if not manual else 8)
    with pytest.raises(Ended):
        drive(compact(log, Call((), situation(manual=manual))), replace(scripted.world(), ask=ending))
    done = compacted(scripted, scripted.reread(), Call((), situation()))
    requests = [
        entry.message
        for entry in scripted.entries
        if isinstance(entry, MessageEntry) and entry.message.id.startswith("compact-")
    ]

    assert done.log.checkpoint is not None
    assert [done.log.checkpoint.request] == requests
    assert done.log.checkpoint.reason == reason
