"""Asking for a summary, and hearing the judge."""

import pytest
from msgspec.structs import replace

from infold.core.entries import (
    Checkpoint,
    Clip,
    Clipping,
    Handle,
    MessageEntry,
    Pruning,
    Restoration,
    SummariserFailures,
)
from infold.core.events import SummariserResumed, SummaryRejected
from infold.core.gauge import Rates
from infold.core.judge import Answer
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message, MessageId, TextPart, Usage, WorkPath, text_of
from infold.core.summary_request import Additions, SummaryRequest
from infold.core.tokens import measure
from infold.errors import KeyRefused, ModelError, ModelOverflow, RequestRefused, UnknownModel
from infold.session.summary import JudgedSummary, SummaryPlan, judge_supplied, request_summary
from infold.testing.builders import calls, log_of, numbered, replies, result, user

from .long_sessions import URGENT, long_session, plan_inputs, step_of
from .session_fixture import GOOD, ScriptedSummariser


def plan(log: Log, *, window: int = 0) -> SummaryPlan:
    """What is to be summarised now, by a summariser of that window."""
    return SummaryPlan(step_of(log, plan_inputs()), plan_inputs(), summariser_tokens=window)


def noted(scripted: ScriptedSummariser, log: Log, given: SummaryPlan | None = None) -> JudgedSummary:
    """What came of asking."""
    return request_summary(log, given or plan(log), scripted, scripted.publish)


def weight(request: SummaryRequest) -> int:
    """What a request takes of a summariser's window, with the room it leaves for the answer."""
    return sum(measure(text_of(message), "features") for message in request.messages) + request.output_tokens


# Asked.


def test_a_good_answer_becomes_notes() -> None:
    """B5, S3.6: with the verdict, who wrote it, at what usage, price and time."""
    scripted = ScriptedSummariser()
    notes = noted(scripted, long_session(URGENT))

    assert (notes.text, notes.model, notes.cost, notes.duration_ms) == (GOOD, "scripted", 0.25, 40)
    assert notes.usage == Usage(input=10, output=5)
    assert notes.verdict is not None
    assert notes.verdict.is_accepted
    assert notes.events == ()


def test_the_place_of_work_is_noted() -> None:
    """S3.6: the newest reply that says where the agent stands tells it."""
    place = WorkPath("/project/parser", "/project")
    log = long_session(URGENT)
    stood = AssistantMessage(MessageId("p"), (TextPart("here"),), path=place, finish="stop")
    later = AssistantMessage(MessageId("q"), (TextPart("and now"),), finish="stop")
    placed = log.append(MessageEntry(stood)).append(MessageEntry(later))

    assert noted(ScriptedSummariser(), placed).path == place
    assert noted(ScriptedSummariser(), log).path is None


def test_a_failure_is_asked_about_once_more() -> None:
    """B10: after a fault of the model or of its answer it is asked again, and both prices are paid."""
    for first, paid in ((ModelError("m", "is down"), 0.25), (Answer(""), 0.5)):
        scripted = ScriptedSummariser(first)
        notes = noted(scripted, long_session(URGENT))

        assert (notes.text, notes.cost, len(scripted.asked)) == (GOOD, paid, 2)


@pytest.mark.parametrize(
    ("answers", "faults"),
    [
        ((ModelError("m", "is down"), ModelError("m", "is down")), ("failed", "failed")),
        ((Answer(""), ModelError("m", "is down")), ("empty", "failed")),
        ((Answer(GOOD, finish="length"), Answer("I'm sorry, I can't.")), ("cut-off", "refused")),
        ((Answer("A title"), Answer("word " * 300)), ("too-short", "repetitive")),
    ],
)
def test_a_second_failure_is_the_last(answers: tuple[Answer | ModelError, ...], faults: tuple[str, ...]) -> None:
    """B5, B10, B36: the notes are empty, and their verdict and an event have every fault in order, and the model's own error."""
    scripted = ScriptedSummariser(*answers)
    notes = noted(scripted, long_session(URGENT))

    assert notes.text == ""
    assert notes.verdict is not None
    assert notes.verdict.faults == faults
    assert notes.events == (SummaryRejected("s", faults, "m: is down" if "failed" in faults else ""),)
    assert notes.verdict.error == notes.events[0].error
    assert len(scripted.asked) == 2


@pytest.mark.parametrize(
    "error", [KeyRefused("m", "no", variable="K"), UnknownModel("m", "no"), RequestRefused("m", "no")], ids=type
)
def test_a_failure_that_lasts_is_asked_about_once(error: ModelError) -> None:
    """B36: a refused key, an unknown model or a bad request is the same at the second try, so that there is none."""
    scripted = ScriptedSummariser(error)
    notes = noted(scripted, long_session(URGENT))

    assert (notes.is_failure, len(scripted.asked)) == (True, 1)


def test_a_second_try_begins_where_the_first_one_failed() -> None:
    """B36: of a head that is asked for in pieces only the piece that failed is asked for again, with the notes before it."""
    scripted = ScriptedSummariser(
        Answer("First notes on what was done."), Answer("A title"), Answer("Second notes on the work.")
    )
    log = long_session(4 * URGENT)
    pieces = ScriptedSummariser()
    noted(pieces, log, plan(log, window=6_000))
    notes = noted(scripted, log, plan(log, window=6_000))

    assert notes.text == GOOD
    again = text_of(scripted.asked[2].messages[0])
    assert again.startswith(text_of(scripted.asked[1].messages[0]))
    assert again.endswith(
        "A first answer could not be used: it said nothing about the work. Write the notes again without this fault."
    )
    assert "First notes" in text_of(scripted.asked[2].messages[0])
    assert len(scripted.asked) == len(pieces.asked) + 1


def test_a_pause_that_ends_is_told() -> None:
    """B36: where the last compactions failed, asking again is an event."""
    scripted = ScriptedSummariser()
    log = long_session(2 * URGENT).append(Checkpoint("by code", first_kept=1, failing=SummariserFailures(3, 0)))
    noted(scripted, log)

    assert scripted.events == [SummariserResumed("s", 3)]


# What is asked.


def test_the_head_is_the_record_and_the_tail_is_told_after_it() -> None:
    """S3.4: the record ends where the cut is; what follows is shown so that nothing settled is written down as open."""
    drafts = [
        user("Port the parser."),
        *(d for n in range(URGENT) for d in (calls("bash"), result(output=f"part {n} ok " * 330))),
    ]
    log = log_of(numbered(drafts))
    given = plan(log, window=64_000)
    scripted = ScriptedSummariser()
    noted(scripted, log, given)
    record, after = text_of(scripted.asked[0].messages[0]).split("</record>")
    kept = given.step.cut.index // 2

    assert f"part {kept - 1} ok" in record
    assert f"part {kept} ok" not in record
    assert f"<later>\n[call bash] {{}}\n[result of bash, completed] part {kept} ok" in after


def test_older_notes_are_merged() -> None:
    """B3: the checkpoint's own narrative is given along; where code alone wrote it, its text."""
    for checkpoint in (
        Checkpoint("ledger and all", narrative="older notes", first_kept=1),
        Checkpoint("ledger and all", first_kept=1),
    ):
        log = long_session(2 * URGENT).append(checkpoint)
        scripted = ScriptedSummariser()
        noted(scripted, log)
        asked = text_of(scripted.asked[0].messages[0])

        assert f"<earlier-notes>\n{checkpoint.narrative or checkpoint.text}\n</earlier-notes>" in asked


def test_every_piece_fits_a_small_summariser() -> None:
    """B8: a head too large is asked for in pieces, each within the summariser's window, each with the notes before it."""
    scripted = ScriptedSummariser(Answer("First notes on what was done."), Answer("Second notes on what was done."))
    log = long_session(4 * URGENT)
    notes = noted(scripted, log, replace(plan(log, window=6_000), additions=Additions(focus="the parser")))

    assert len(scripted.asked) > 3
    assert max(map(weight, scripted.asked)) <= 6_000
    assert "First notes" in text_of(scripted.asked[1].messages[0])
    assert "First notes" not in text_of(scripted.asked[2].messages[0])
    assert all("the parser" in text_of(request.messages[0]) for request in scripted.asked)
    assert (notes.text, notes.cost) == (GOOD, 0.25 * len(scripted.asked))


@pytest.mark.parametrize(("told", "most"), [(4_000, 4_000), (None, 6_800), (13_600, 9_520), (90_000, 9_520)])
def test_a_summariser_that_refuses_is_asked_for_less(told: int | None, most: int) -> None:
    """B8, B34: after an overflow the pieces are within the limit it names; else half, or 0.7 where the limit was known."""
    scripted = ScriptedSummariser(ModelOverflow("m", told))
    log = long_session(2 * URGENT)
    notes = noted(scripted, log)

    assert notes.text == GOOD
    assert max(map(weight, scripted.asked[1:])) <= most
    assert len(scripted.asked) > 2


# Sharing the ordinary request's prefix.


def reported(*, steps: int = 12) -> Log:
    """A session whose newest reply reported its usage."""
    drafts: list[Message] = [user("Port the parser."), *(d for _ in range(steps) for d in (calls("bash"), result(900)))]
    return log_of(numbered([*drafts, replies(usage=Usage(input=5_000))]))


def shared(log: Log, **changes: object) -> bool:
    """Whether the summary is asked for at the end of the ordinary request."""
    given = replace(plan_inputs(window=64_000, manual=True), rates=Rates(1.25, 0.05))
    base = SummaryPlan(step_of(log, given), given, "main prompt", shares_prefix=True)
    scripted = ScriptedSummariser()
    noted(scripted, log, replace(base, **changes))
    return scripted.asked[0].shares_prefix


def test_a_cached_prefix_is_shared() -> None:
    """B16: with prices known, a report to build on and room enough, the ordinary request is cheaper than the head afresh."""
    assert shared(reported())


@pytest.mark.parametrize(
    "changes",
    [
        {"shares_prefix": False},
        {"summariser_tokens": 32_000},
        {"inputs": plan_inputs(window=64_000, manual=True)},
        {"inputs": replace(plan_inputs(window=64_000, manual=True), rates=Rates(1.0, 1.0))},
        {"inputs": replace(plan_inputs(window=4_096, manual=True), rates=Rates(1.25, 0.05))},
        {"inputs": replace(plan_inputs(window=64_000, manual=True), rates=Rates(1.25, 0.05), is_cold=True)},
    ],
)
def test_a_prefix_is_not_shared_where_it_does_not_pay(changes: dict[str, object]) -> None:
    """B8, B16: another model, unknown or even prices, a request that would not fit, or an expired cache: the head is read
    afresh."""
    assert not shared(reported(), **changes)


def test_a_prefix_nobody_has_cached_is_not_shared() -> None:
    """B16: before the first report nothing was sent that a cache could hold."""
    drafts: list[Message] = [user("Port the parser."), *(d for _ in range(12) for d in (calls("bash"), result(900)))]

    assert not shared(log_of(numbered(drafts)))


def test_what_is_clipped_on_arrival_leaves_the_prefix() -> None:
    """B16: hiding parts of messages that were not sent yet does not change what is cached; hiding older ones does."""
    log = reported()
    arrived = log.append(MessageEntry(user("word " * 900)))
    newest, oldest = (f"{number}.0" for number in (arrived.live[-1].sequence, arrived.live[2].sequence))
    clipped = arrived.append(Clipping((Clip(Handle(newest), 40, 40),)))

    assert shared(clipped)
    assert not shared(clipped.append(Pruning((Handle(oldest),), 900)))
    assert not shared(clipped.append(Restoration(clipped.next_sequence - 1)))


# Supplied.


def test_supplied_notes_carry_their_authors_name() -> None:
    """S3.5: what somebody brought is judged, and says who brought it."""
    log = long_session(URGENT)
    good = judge_supplied(log, plan(log), GOOD)
    bad = judge_supplied(log, plan(log), "")

    assert (good.text, good.model, good.events) == (GOOD, "plugin", ())
    assert (bad.text, bad.model, bad.events) == ("", "", (SummaryRejected("s", ("empty",)),))


def test_what_older_notes_knew_is_no_invention() -> None:
    """B3, B5: a fact that stands only in the checkpoint before may be told again."""
    log = long_session(2 * URGENT).append(Checkpoint("It is served on port 48443.", first_kept=1))
    told = f"{GOOD}\nThe server listens on 48443."

    assert judge_supplied(log, plan(log), told).text == told
