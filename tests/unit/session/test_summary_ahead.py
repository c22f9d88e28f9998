"""Whether to begin a summary ahead of need, and whether it may still be used."""

import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold.core.cut import Cut
from infold.core.entries import Amendment, Checkpoint, Clip, Clipping, Entry, Handle, MessageEntry, Pin
from infold.core.events import PreparationDiscarded, PreparedAhead, SummaryRejected
from infold.core.gauge import PlanInputs, gauge
from infold.core.log import Log
from infold.core.messages import AssistantMessage, SessionId
from infold.core.plan import Fits, Summarise, next_step
from infold.session.summary import (
    JudgedSummary,
    PreparedSummary,
    SummaryPlan,
    basis_of,
    cut_with,
    events_for,
    is_valid,
    step_ahead,
)
from infold.testing.builders import numbered, replies, user

from .long_sessions import SOON, TRIGGERED, URGENT, long_session, plan_inputs, step_of
from .session_fixture import GOOD


def session(steps: int) -> Log:
    """A session of so many steps."""
    return long_session(steps)


def prepared(log: Log, given: PlanInputs | None = None) -> PreparedSummary:
    """Notes on the head that a summary begun now would fold."""
    step = step_ahead(log, given or plan_inputs())
    assert step is not None
    return PreparedSummary(basis_of(log, SummaryPlan(step, plan_inputs())), JudgedSummary(GOOD))


def more(log: Log, *texts: str) -> Log:
    """The session with more said in it."""
    drafts = [draft for text in texts for draft in (user(text), replies("done"))]
    return log.extend(MessageEntry(message) for message in numbered(drafts, prefix=f"x{log.next_sequence}-"))


# When to begin.


def test_a_summary_is_begun_before_it_is_needed() -> None:
    """B18: at four fifths of the trigger at the earliest, while the request itself still fits; not sooner."""
    log = session(SOON)

    assert isinstance(next_step(log, plan_inputs()), Fits)
    assert isinstance(step_ahead(log, plan_inputs()), Summarise)
    assert step_ahead(session(SOON - 1), plan_inputs()) is None


def test_no_summary_is_begun_before_the_providers_own_edit() -> None:
    """B18, B23: where the provider shortens the history itself, no summary is written ahead that may never be needed."""
    given = plan_inputs()
    later = replace(given, edited_from_tokens=given.budget.trigger_tokens)

    assert step_ahead(session(SOON), replace(given, edited_from_tokens=100)) is not None
    assert step_ahead(session(SOON), later) is None


def paced(share: float, *, pause_ms: int, took_ms: int = 0, heard: bool = True) -> Log:
    """A session of small steps that fills so much of the trigger, with a call in each pause."""
    given, log = plan_inputs(), Log(SessionId("s"))
    if took_ms:
        log = log.append(MessageEntry(user("Begin."))) if not log.live else log
        log = log.append(Checkpoint("Earlier.", duration_ms=took_ms))
    number = 0
    while gauge(log, given).count_tokens < share * given.budget.trigger_tokens:
        number += 1
        step = numbered((user("go on " * 40), replies("done")), prefix=f"p{number}-")
        stamped = [replace(message, created_ms=1_000_000 + number * pause_ms) for message in step]
        if not heard:
            stamped = [replace(m, finish=None) if isinstance(m, AssistantMessage) else m for m in stamped]
        log = log.extend(MessageEntry(message) for message in stamped)
    return log


def test_a_slow_session_begins_near_the_trigger() -> None:
    """B18, B34: where each call takes longer than a summary, and adds little, it is begun when 5 % are left."""
    assert step_ahead(paced(0.92, pause_ms=60_000), plan_inputs()) is None
    assert step_ahead(paced(0.96, pause_ms=60_000), plan_inputs()) is not None


def test_a_fast_session_begins_earlier() -> None:
    """B18: the more calls fit in the time of a summary, the sooner it is begun; the newest summary tells that time."""
    assert step_ahead(paced(0.85, pause_ms=100), plan_inputs()) is not None
    assert step_ahead(paced(0.75, pause_ms=100), plan_inputs()) is None
    assert step_ahead(paced(0.85, pause_ms=10_000), plan_inputs()) is None
    assert step_ahead(paced(0.85, pause_ms=10_000, took_ms=300_000), plan_inputs()) is not None


def test_a_history_that_arrived_tells_no_pace() -> None:
    """B18, B34: messages that came all at once say nothing of how fast the session grows."""
    assert step_ahead(paced(0.92, pause_ms=0, heard=False), plan_inputs()) is None


def test_what_needs_no_model_is_not_begun() -> None:
    """B18: without a summariser there is nothing to write ahead."""
    assert step_ahead(session(SOON), replace(plan_inputs(), summariser=False)) is None


def test_an_empty_head_is_not_begun() -> None:
    """B18: where nothing new would be folded there is nothing to write."""
    assert step_ahead(session(0), plan_inputs()) is None


# Whether it still holds.


def test_growth_does_not_spoil_what_was_prepared() -> None:
    """B18: messages after the head, and a restart, change nothing that the notes depend on."""
    log = session(SOON)
    notes = prepared(log)

    assert is_valid(notes, log, FOLDS)
    assert is_valid(notes, more(log, "and now?"), FOLDS)


@pytest.mark.parametrize(
    "entry", [Pin(Handle("0.0")), Amendment(0), Amendment(3), Checkpoint("another's", first_kept=None)]
)
def test_what_the_notes_depend_on_may_not_change(entry: Entry) -> None:
    """B18: a new pin, an amended head or another checkpoint make notes of the past worthless."""
    log = session(SOON)

    assert not is_valid(prepared(log), log.append(entry), FOLDS)


def test_another_policy_wants_other_notes() -> None:
    """B18: notes are written for a policy."""
    log = session(SOON)

    assert not is_valid(prepared(log), log, replace(FOLDS, clip=False))


def test_what_stays_in_the_tail_may_be_taken_back() -> None:
    """B18: an amendment after the head leaves the notes as true as they were."""
    log = session(SOON)
    notes = prepared(log)
    kept = next(placed.sequence for placed in log.live if placed.sequence > notes.basis.last)

    assert is_valid(notes, log.append(Amendment(kept)), FOLDS)


def test_a_clip_in_the_head_changes_no_facts() -> None:
    """B18: what the view shows of the head does not matter to notes that were made from the whole of it."""
    log = session(SOON)

    assert is_valid(prepared(log), log.append(Clipping((Clip(Handle("2.0"), 9, 9),))), FOLDS)


# Where to cut with it.


def test_the_cut_is_where_the_notes_end_if_there_is_room() -> None:
    """B18: what came while they were written stays verbatim where the view is then below nine tenths of the trigger."""
    notes, grown = prepared(session(SOON)), session(TRIGGERED)
    step = step_of(grown, plan_inputs())
    cut = cut_with(notes, step, grown, plan_inputs())

    assert cut.index == (grown.index_of(notes.basis.last) or 0) + 1
    assert cut.index < step.cut.index


def test_the_cut_moves_on_where_there_is_none() -> None:
    """B9, B18: where that would leave the view nearly full again, the step's own cut is taken; the ledger tells of the rest."""
    notes, grown = prepared(session(SOON)), session(2 * URGENT)
    step = step_of(grown, plan_inputs())

    assert cut_with(notes, step, grown, plan_inputs()) == step.cut


def test_notes_on_more_than_is_folded_do_not_move_the_cut() -> None:
    """B18: where the step folds less than the notes tell of, its cut holds."""
    log = session(URGENT)
    notes = PreparedSummary(
        basis_of(log, SummaryPlan(Summarise(Cut.at(log, log.length - 1), 100, "trigger"), plan_inputs())),
        JudgedSummary(GOOD),
    )
    step = step_of(log, plan_inputs())

    assert cut_with(notes, step, log, plan_inputs()) == step.cut


def test_an_illegal_end_does_not_move_the_cut() -> None:
    """B12: notes that end inside a step are no place to cut."""
    log = session(TRIGGERED)
    mark = replace(prepared(log).basis, last=3)
    step = step_of(log, plan_inputs())

    assert not log.live[4].cuttable
    assert cut_with(PreparedSummary(mark, JudgedSummary(GOOD)), step, log, plan_inputs()) == step.cut


def test_a_mark_names_the_last_message_of_its_head() -> None:
    """B18: of an empty head that is the checkpoint before it."""
    log = session(SOON).append(Checkpoint("t", first_kept=11))
    empty = basis_of(log, SummaryPlan(Summarise(Cut.at(log, 0), 100, "trigger"), plan_inputs()))

    assert (empty.last, empty.checkpoint_sequence) == (log.checkpoint_sequence, log.checkpoint_sequence)
    assert basis_of(log, SummaryPlan(Summarise(Cut.at(log, 2), 100, "trigger"), plan_inputs())).last == 12


# What is told of it.


def test_only_what_can_be_used_is_told_as_prepared() -> None:
    """B18, B22: notes that were rejected are told with their faults and as money spent for nothing."""
    rejected = SummaryRejected("s", ("empty", "empty"))
    faulty = JudgedSummary(events=(rejected,), cost=0.5)

    assert events_for(JudgedSummary(GOOD, cost=0.5, duration_ms=7), SessionId("s")) == (PreparedAhead("s", 0.5, 7),)
    assert events_for(faulty, SessionId("s")) == (
        rejected,
        PreparationDiscarded("s", "there was no summary to accept", 0.5),
    )
