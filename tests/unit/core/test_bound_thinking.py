"""Thinking that is bound to what stands before it: what of it a view shows after a change."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.compact import Simulation, advance, apply_step
from infold.core.cut import Cut
from infold.core.entries import (
    Amendment,
    Checkpoint,
    Clip,
    Clipping,
    Entry,
    Handle,
    MessageEntry,
    Pruning,
    Rejection,
    Restoration,
)
from infold.core.gauge import PlanInputs
from infold.core.load import load
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    MessageId,
    ReasoningPart,
    SessionId,
    StepStartPart,
    TextPart,
    ToolCallPart,
)
from infold.core.plan import Fold, Prune, Shorten
from infold.core.policy import INFOLD
from infold.core.prune import PrunePlan
from infold.core.view import view
from infold.testing.builders import numbered, result, user

SESSION = SessionId("session")
BINDING = Rendering(binds_thinking=True)
SEAL = '{"type":"thinking","thinking":"hm","signature":"s"}'
THOUGHT = "Let me think about the next step. " * 20


def thinks(*parts: ToolCallPart | TextPart | ReasoningPart | StepStartPart) -> AssistantMessage:
    """A reply that begins with sealed thinking."""
    return AssistantMessage(MessageId(""), (ReasoningPart(THOUGHT, SEAL), *parts), finish="stop")


def step(tokens: int = 10) -> tuple[Message, ...]:
    """A reply that thinks and calls, and the result."""
    return thinks(ToolCallPart("", "bash", "{}")), result(tokens)


def log_of(*drafts: Message, rendering: Rendering = BINDING) -> Log:
    """A log of these messages."""
    return Log(SESSION, rendering).extend(MessageEntry(message) for message in numbered(drafts))


def later(log: Log, *drafts: Message) -> Log:
    """The log with more messages."""
    return log.extend(MessageEntry(message) for message in numbered(drafts, prefix=f"x{log.next_sequence}-"))


def thinking_in(log: Log) -> list[str]:
    """The messages of the view that show sealed thinking."""
    shown = view(log, INFOLD.summary)
    return [
        one.id for one in shown if any(isinstance(part, ReasoningPart) and part.provider_data for part in one.parts)
    ]


def read_back(entries: Sequence[Entry], rendering: Rendering = BINDING) -> Log:
    """A session as another process reads it."""
    return load(SESSION, reversed(list(enumerate(entries))), rendering)


WORK = (user("build it"), *step(), *step(), *step())


def test_nothing_is_removed_while_nothing_changed() -> None:
    """B12, B32: before any change the view holds the very messages that were appended."""
    log = log_of(*WORK)

    assert all(shown is logged.message for shown, logged in zip(view(log, INFOLD.summary), log.live, strict=True))


def test_a_fold_removes_the_thinking_that_it_keeps() -> None:
    """B32: after a fold no kept message shows its thinking; a reply to the folded view does."""
    log = later(log_of(*WORK).append(Checkpoint("what was done", first_kept=3)), *step())

    assert thinking_in(log) == ["x8-0"]
    assert [type(part) for part in view(log, INFOLD.summary)[1].parts] == [ToolCallPart]


def test_a_pruning_removes_all_thinking_before_it() -> None:
    """B32: a stub changes what later thinking is bound to, and thinking may be missing only as a run from the start."""
    log = later(log_of(*WORK), *step())
    pruned = later(log.append(Pruning((Handle("4.0"),), 10)), *step())

    assert thinking_in(log) == ["m1", "m3", "m5", "x7-0"]
    assert thinking_in(pruned) == ["x10-0"]


@pytest.mark.parametrize(
    "entry", [Pruning((Handle("6.0"),), 10), Clipping((Clip(Handle("6.0"), 4, 4),))], ids=["pruned", "clipped"]
)
def test_a_change_behind_all_thinking_removes_none(entry: Pruning | Clipping) -> None:
    """B32: what is hidden after the newest thinking is part of nothing that any thinking is bound to."""
    assert thinking_in(log_of(*WORK).append(entry)) == ["m1", "m3", "m5"]


def test_the_first_change_counts_for_the_whole_view() -> None:
    """B30, B32: with the first stub a blank message leaves the view, which thinking behind it was created behind."""
    blank = AssistantMessage(MessageId(""), (TextPart(" "),), finish="stop")
    log = log_of(user("build it"), blank, user("now"), *step(), *step())
    pruned = log.append(Pruning((Handle("6.0"),), 10))
    later_on = later(pruned, *step())

    assert thinking_in(log) == ["m3", "m5"]
    assert thinking_in(pruned) == []
    assert thinking_in(later_on) == ["x8-0"]
    assert thinking_in(later_on.append(Restoration(7))) == []


def test_a_change_before_outdated_thinking_removes_no_more() -> None:
    """B32: thinking that was created after a change stays when something older changes that it never saw."""
    log = later(log_of(*WORK).append(Pruning((Handle("4.0"),), 10)), user("and now?"), *step())
    again = log.append(Restoration(7))

    assert thinking_in(log) == ["x8-1"]
    assert thinking_in(again) == []
    assert thinking_in(later(again, *step())) == ["x12-0"]


def test_a_refusal_teaches_that_thinking_is_bound() -> None:
    """B32: after a refusal all thinking leaves the view, for good and across compactions; the log keeps it."""
    unknown = log_of(*WORK, rendering=Rendering())
    refused = later(unknown.append(Rejection(900, bound_thinking=True)), *step())
    folded = later(
        refused.append(Checkpoint("what was done", first_kept=8, limits=refused.limits)), user("go on"), *step()
    )

    assert thinking_in(unknown) == ["m1", "m3", "m5"]
    assert not refused.is_rejected
    assert refused.limits.tokens is None
    assert thinking_in(refused) == ["x8-0"]
    assert thinking_in(folded) == ["x11-1"]
    assert refused.live[1].message.parts[0] == ReasoningPart(THOUGHT, SEAL)


def test_another_process_shows_the_same() -> None:
    """B32: a session that is read back shows the thinking that it showed before, however its view was changed."""
    entries: list[Entry] = [MessageEntry(message) for message in numbered(WORK)]
    entries += [Rejection(900, bound_thinking=True)]
    entries += [MessageEntry(message) for message in numbered(step(), prefix="a")]
    entries += [Pruning((Handle("2.0"),), 10)]
    entries += [MessageEntry(message) for message in numbered(step(), prefix="b")]
    for count in range(8, len(entries) + 1):
        written = Log(SESSION, Rendering()).extend(entries[:count])
        read = read_back(entries[:count], Rendering())
        assert thinking_in(read) == thinking_in(written)
        assert read.size == written.size
    folded = [*entries, Checkpoint("done", first_kept=8, limits=written.limits)]

    assert read_back(folded, Rendering()).binds_thinking
    assert thinking_in(read_back(folded, Rendering())) == []


def test_an_undone_fold_brings_no_thinking_back() -> None:
    """B1, B32: what a fold had hidden is shown again, but thinking from before the undoing is bound to another view."""
    entries: list[Entry] = [MessageEntry(message) for message in numbered(WORK)]
    entries += [Checkpoint("done", first_kept=3)]
    entries += [MessageEntry(message) for message in numbered(step(), prefix="a")]
    undone = read_back([*entries, Restoration(7)])
    after = later(undone, *step())

    assert len(undone.live) == 9
    assert thinking_in(undone) == []
    assert thinking_in(after) == ["x11-0"]
    assert undone.size == replace(undone, thinking_from=99).size


def test_an_amendment_keeps_what_stood_before_it() -> None:
    """B32: messages that the caller took back leave the thinking before them as it was."""
    assert thinking_in(log_of(*WORK).append(Amendment(5))) == ["m1", "m3"]


def test_sizes_follow_the_view() -> None:
    """B8, B32: thinking that is not sent is not counted, and a fold is sized by what it will leave."""
    kept = log_of(*WORK, rendering=Rendering())
    log = log_of(*WORK)
    folded = log.append(Checkpoint("", first_kept=1))

    assert log.size == kept.size
    assert folded.size.measure < log.size.measure - 3 * 100
    assert sum(log.size_after_fold(logged).measure for logged in log.live[1:]) == folded.size.measure
    assert [folded.size_after_fold(logged) for logged in folded.live] == [folded.size_of(one) for one in folded.live]
    assert kept.size_after_fold(kept.live[1]) == kept.size_of(kept.live[1])
    assert folded.measured < log.measured


def test_a_message_of_thinking_alone_goes_with_it() -> None:
    """B12, B32: what is left of a message without its thinking is sent only if it says something."""
    blank = thinks(TextPart(" \n"), StepStartPart("tree"))
    log = log_of(user(), thinks(), blank, thinks(TextPart("yes")), user("more"))
    folded = log.append(Rejection(1, bound_thinking=True))
    media = later(folded, AssistantMessage(MessageId(""), (ReasoningPart("", SEAL), FilePart("image/png", 9))))
    refused = media.append(Rejection(1, bound_thinking=True))

    assert [message.id for message in view(folded, INFOLD.summary)] == ["m0", "m3", "m4"]
    assert view(refused, INFOLD.summary)[-1].parts == (FilePart("image/png", 9),)


def test_a_cleaned_tail_has_no_thinking_of_either_kind() -> None:
    """S4.5, B32: where the summariser failed under `turn-window`, loose and outdated reasoning both leave the tail."""
    loose = AssistantMessage(MessageId(""), (ReasoningPart("loose"), TextPart("so")), finish="stop")
    log = log_of(user(), loose, thinks(ReasoningPart("loose"), TextPart("done")), user())
    cleaned = log.append(Checkpoint("", first_kept=1, cleaned=True))
    only_cleaned = log_of(user(), loose, rendering=Rendering()).append(Checkpoint("", first_kept=1, cleaned=True))

    assert [part for message in view(cleaned, INFOLD.summary)[:2] for part in message.parts] == [
        TextPart("so"),
        TextPart("done"),
    ]
    assert cleaned.measured_of(cleaned.live[1]) < log.measured_of(log.live[2])
    assert view(only_cleaned, INFOLD.summary)[0].parts == (TextPart("so"),)


@pytest.mark.parametrize(("binds", "expected"), [(True, [2, 2, 3]), (False, [0, 0, 0])])
def test_events_tell_how_much_thinking_left(binds: bool, expected: list[int]) -> None:
    """B22, B32: whatever outdates thinking says of how many messages."""
    log = log_of(*WORK, rendering=Rendering(binds_thinking=binds))
    inputs = PlanInputs(INFOLD, budget_for(Window(9_000), INFOLD))
    steps = (
        Fold(Cut.at(log, 3), 500, "trigger"),
        Fold(Cut.at(log, 3), 500, "manual"),
        Prune(PrunePlan((Handle("2.0"),), 10), "trigger"),
    )
    told = [event for one in steps for event in apply_step(log, one, inputs).events]
    clipped = apply_step(log, Shorten((Clip(Handle("0.0"), 1, 1),), "trigger"), inputs).events

    assert [getattr(event, "outdated_thinking", None) for event in told] == expected
    assert [getattr(event, "outdated_thinking", None) for event in clipped] == [expected[-1]]


def test_a_rehearsal_trusts_only_what_was_sent() -> None:
    """B32: thinking in a history that `fit` meets for the first time was not created behind the folds that it makes."""
    inputs = PlanInputs(INFOLD, budget_for(Window(9_000), INFOLD))
    history = numbered([user(), *[one for _ in range(30) for one in step(300)]])
    begun = Simulation(Log(SESSION, BINDING))
    at_once = advance(begun, history, inputs).log
    stepwise = begun
    for count in range(1, len(history) + 1, 2):
        stepwise = advance(stepwise, history[len(stepwise.sequences) : count], inputs)
    missed = begun
    for count in range(1, len(history) + 1, 6):
        missed = advance(missed, history[len(missed.sequences) : count], inputs)
    unbound = advance(Simulation(Log(SESSION, Rendering())), history, inputs).log

    assert thinking_in(at_once) == []
    assert thinking_in(stepwise.log)
    assert thinking_in(missed.log) == []
    assert thinking_in(unbound)
    assert not unbound.limits.binds_thinking
    assert at_once.checkpoint == stepwise.log.checkpoint
