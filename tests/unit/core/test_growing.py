"""How a log grows: messages at its end, checkpoints in place of a head."""

from time import process_time

import pytest
from msgspec.structs import replace

from infold.core.budget import NOTHING_LEARNED, LearnedLimits, Window, budget_for
from infold.core.compact import checkpoint_for
from infold.core.cut import Cut
from infold.core.entries import Amendment, Checkpoint, Entry, Handle, MessageEntry, Pruning, Rejection, Restoration
from infold.core.gauge import PlanInputs
from infold.core.load import load
from infold.core.log import Log, recompute_sums, size_of_text
from infold.core.logged_message import Rendering
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    SessionId,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
)
from infold.core.plan import Fold
from infold.core.policy import INFOLD, PRESETS
from infold.core.tokens import NO_SIZE, UNCALIBRATED, Calibration, estimate
from infold.core.view import view
from infold.testing.builders import calls, numbered, replies, requests_compaction, result, session, summary, user

SITUATION = PlanInputs(INFOLD, budget_for(Window(64_000), INFOLD))


def said(*drafts: Message, prefix: str = "n") -> list[Entry]:
    """Message entries of that prefix."""
    return [MessageEntry(message) for message in numbered(drafts, prefix=prefix)]


def taught() -> Log:
    """A session that learned from two reports and from a refusal."""
    reports = (replies(usage=Usage(input=900)), user("more " * 400), replies(usage=Usage(input=1_500)))
    return session(user(), *reports).append(Rejection(1_600, 2_000, 32_000)).extend(said(replies("so")))


# What was learned.


def test_a_checkpoint_takes_along_what_was_learned() -> None:
    """B11, B15: calibration and limits stand in the checkpoint, so that reading back needs nothing older."""
    log = taught()
    checkpoint, _ = checkpoint_for(log, Fold(Cut.at(log, 2), 400, "manual"), SITUATION)

    assert (checkpoint.calibration, checkpoint.limits) == (log.calibration, log.limits)
    assert checkpoint.calibration is not None
    assert checkpoint.calibration.reports == 1
    assert checkpoint.limits is not None
    assert checkpoint.limits.is_told


def test_what_a_checkpoint_says_is_believed_on_reading() -> None:
    """B13, B15: a session read from its checkpoint on is calibrated and limited like the one that grew."""
    log = taught()
    checkpoint, _ = checkpoint_for(log, Fold(Cut.at(log, 2), 400, "manual"), SITUATION)
    grown = log.append(checkpoint)
    entries: list[Entry] = [*(MessageEntry(logged.message) for logged in log.live), checkpoint]
    numbers = [*(logged.sequence for logged in log.live), log.next_sequence]
    read = load(SessionId("session"), reversed(list(zip(numbers, entries, strict=True))), Rendering())

    assert (read.calibration, read.limits) == (grown.calibration, grown.limits)
    assert (read.size, read.checkpoint_size, read.calls) == (grown.size, grown.checkpoint_size, grown.calls)


def reports(*tokens: int) -> tuple[Message, ...]:
    """Replies that report so many tokens each, with something said before each."""
    return tuple(d for n in tokens for d in (user("x" * 4_000), replies("y", usage=Usage(input=n, output=5))))


@pytest.mark.parametrize(
    ("reply", "tokens"),
    [
        (replies("y", usage=Usage(input=40_000, output=5)), 40_005),
        (replies("y", usage=Usage(input=1_000)), 19_800),
        (replies("y"), 19_800),
        (replies("y", finish="error"), 18_000),
        (replace(replies("y"), error="overloaded"), 18_000),
    ],
)
def test_a_reply_shows_what_the_provider_takes(reply: Message, tokens: int) -> None:
    """B11: after a refusal without a number a reply widens the limit, to what it reports at least; a failure does not."""
    log = session(user()).append(Rejection(20_000)).extend(said(reply, prefix="r"))

    assert log.limits.tokens == tokens


TAUGHT: dict[str, list[Entry]] = {
    "a pruning undone": [
        *said(user(), calls("bash"), result(500), *reports(1_000), prefix="m"),
        Pruning((Handle("2.0"),), 500),
        Restoration(5),
        *said(*reports(3_000)),
    ],
    "a pruning taken back": [
        *said(*reports(900), calls("bash"), result(500), prefix="m"),
        Pruning((Handle("3.0"),), 500),
        Amendment(2),
        *said(*reports(3_000)),
    ],
    "two checkpoints": [
        *said(*reports(1_000), prefix="m"),
        Checkpoint("A", first_kept=1, calibration=UNCALIBRATED),
        *said(*reports(3_000)),
        Checkpoint("B", first_kept=1, calibration=UNCALIBRATED),
    ],
}


@pytest.mark.parametrize("case", TAUGHT)
def test_what_teaches_nothing_teaches_nothing_on_reading(case: str) -> None:
    """B15: growth that something distorted is not learned from, however the log came about."""
    entries = TAUGHT[case]
    grown = Log(SessionId("session")).extend(entries)
    read = load(SessionId("session"), reversed(list(enumerate(entries))), Rendering())

    assert read.calibration == grown.calibration == UNCALIBRATED


def test_a_foreign_checkpoint_takes_nothing_away() -> None:
    """B15: a summary that was read from a foreign transcript knows of no reports; what the log knows stays."""
    log = taught()
    folded = log.append(Checkpoint("by another agent"))

    assert (folded.calibration, folded.limits) == (log.calibration, log.limits)
    known = Checkpoint("own", calibration=Calibration(1.5, reports=3), limits=LearnedLimits(tokens=9))
    assert (log.append(known).calibration.prose, log.append(known).limits.tokens) == (1.5, 9)
    assert (session().calibration, session().limits) == (UNCALIBRATED, NOTHING_LEARNED)


def test_growth_across_a_checkpoint_teaches_nothing() -> None:
    """B9, B15: two reports with a fold between them are not compared; two after it are."""
    log = taught()
    folded = log.append(Checkpoint("t", first_kept=1))
    once = folded.extend(said(user("x " * 300), replies(usage=Usage(input=4_000)), prefix="o"))
    twice = once.extend(said(user("y " * 300), replies(usage=Usage(input=4_500)), prefix="p"))

    assert once.calibration == log.calibration
    assert twice.calibration.reports == log.calibration.reports + 1


@pytest.mark.parametrize("usage", [None, Usage(), Usage(total=0)])
def test_a_reply_without_usage_is_a_reply_all_the_same(usage: Usage | None) -> None:
    """S7.2: it ends a refusal and counts as a call, and leaves the report before it in force."""
    log = taught().append(Rejection(1_600))
    grown = log.extend(said(replies("so", usage=usage), prefix="r"))

    assert (grown.is_rejected, grown.calls, grown.report) == (False, log.calls + 1, log.report)


# What is kept.


def test_a_fold_keeps_what_its_tail_needs() -> None:
    """B12: calls the head left open may still be answered, stubs in the tail stay, business goes."""
    head = (user(), calls("bash"), user("stop"))
    answer = ToolMessage(MessageId(""), (ToolResultPart("m3-call0", "read", "word" * 300),))
    log = session(*head, calls("read"), answer, requests_compaction(), summary(error="no"), user("c"))
    folded = log.append(Pruning((Handle("4.0"),), 300)).append(Checkpoint("t", first_kept=2))

    assert [logged.message.id for logged in folded.live] == ["m2", "m3", "m4", "m7"]
    assert folded.carried == {"m1-call0"}
    assert set(folded.altered) == {4}
    assert (folded.pending, folded.freed) == (None, {})


@pytest.mark.parametrize("name", ["infold", "opencode-1.1.57"])
def test_sums_made_anew_are_the_sums(name: str) -> None:
    """B17: what is kept while growing equals what a walk over the live messages finds."""
    log = session(user("a"), calls("bash"), result(500), replies(), policy=PRESETS[name])
    hidden = log.append(Pruning((Handle("2.0"),), 500))

    assert (recompute_sums(log).size, recompute_sums(log).measured) == (log.size, log.measured)
    assert (recompute_sums(hidden).size, recompute_sums(hidden).measured) == (hidden.size, hidden.measured)


def test_a_checkpoint_without_text_takes_no_room() -> None:
    """S4.5: where cleaning left no summary there is no message to frame; where there is one, its frame counts."""
    assert size_of_text("", Rendering()) == NO_SIZE
    assert size_of_text("word", Rendering("ceil")).measure == estimate("word", "features") + 4


@pytest.mark.slow
def test_many_parallel_calls_take_no_time_each() -> None:
    """B17, B30: the calls of one step are not copied for each of their results: 20,000 take seconds, not minutes."""
    names = [f"c{n}" for n in range(20_000)]
    asked = AssistantMessage(MessageId("a"), tuple(ToolCallPart(name, "bash", "{}") for name in names))
    begun = process_time()
    log = session(user()).append(MessageEntry(asked))
    for name in names:
        log = log.append(MessageEntry(ToolMessage(MessageId(f"r-{name}"), (ToolResultPart(name, "bash", "ok"),))))

    assert not log.open_calls
    assert len(view(log, INFOLD.summary)) == 20_002
    assert process_time() - begun < 8
