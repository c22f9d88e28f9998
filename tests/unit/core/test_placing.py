"""Placing: which results answer which calls, and where the log may be cut."""

import pytest
from msgspec.structs import replace

from infold.core.entries import Checkpoint, Clip, Clipping, Handle, MessageEntry
from infold.core.log import Log
from infold.core.logged_message import INTERRUPTED_TEXT, LoggedMessage, StepState, measure_for_log
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    SessionId,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    results_of,
    text_of,
)
from infold.core.policy import Ruler, SummaryPolicy
from infold.core.view import view
from infold.errors import DuplicateId, OrphanResult
from infold.testing.builders import calls, numbered, replies, requests_compaction, result, session, summary, user

SENT = SummaryPolicy(shape="marked")
RULES: tuple[Ruler, ...] = ("features", "ceil")
SEAL = ReasoningPart("thinking", '"signature"')


def said(*parts: Part) -> AssistantMessage:
    """A reply of these parts."""
    return AssistantMessage(MessageId("a"), parts, finish="tool-calls")


def call(call_id: str) -> ToolCallPart:
    """A call of that id."""
    return ToolCallPart(call_id, "bash", "{}")


def answer(*call_ids: str) -> ToolMessage:
    """The results of those calls."""
    return ToolMessage(MessageId("t"), tuple(ToolResultPart(call_id, "bash", "ok") for call_id in call_ids))


def logged(message: Message, run: StepState = StepState(), unanswered: frozenset[str] = frozenset()) -> LoggedMessage:
    """A message in its place."""
    return measure_for_log(message, 7, run, (run.step | unanswered).__contains__, "features").logged


def after(message: Message, run: StepState = StepState()) -> StepState:
    """Where the log stands once a message is placed."""
    return measure_for_log(message, 7, run, run.step.__contains__, "features").run


def spoken(log: Log, *drafts: Message) -> Log:
    """The log with more messages, numbered on from it."""
    return log.extend(MessageEntry(message) for message in numbered(drafts, prefix=f"x{log.next_sequence}-"))


def came(call_id: str, output: str = "late", *, name: str = "late") -> MessageEntry:
    """An entry with a tool's answer to one call."""
    return MessageEntry(ToolMessage(MessageId(name), (ToolResultPart(call_id, "bash", output),)))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (user(), True),
        (user("reminder", synthetic=True), True),
        (replies(), True),
        (calls("bash"), True),
        (requests_compaction(), False),
        (summary(), False),
        (ToolMessage(MessageId("t"), ()), False),
        (SystemMessage(MessageId("s"), (TextPart("rule"),)), False),
    ],
)
def test_where_a_view_may_begin(message: Message, expected: bool) -> None:
    """B12: a tail may begin at something said, never at a tool's answer, a system message or compaction business."""
    assert logged(numbered([message])[0]).cuttable is expected


def test_no_cut_parts_a_result_from_its_call() -> None:
    """B12: a message that brings results is no cut, in whichever role it comes."""
    run = StepState(frozenset({"1"}))

    assert not logged(answer("1"), run).cuttable
    assert not logged(UserMessage(MessageId("u"), (ToolResultPart("1", "bash", "ok"), TextPart("and?"))), run).cuttable


def test_a_sealed_loop_is_cut_only_at_its_own_reasoning() -> None:
    """B12: after signed reasoning only a reply with reasoning of its own, or the user, may begin a tail."""
    sealed = after(said(SEAL, call("1")))
    unsigned, signed = logged(said(TextPart("go on")), sealed), logged(said(SEAL, TextPart("go on")), sealed)

    assert (unsigned.cuttable, signed.cuttable) == (False, True)
    assert logged(numbered([user()])[0], sealed).cuttable


def test_a_seal_lasts_until_somebody_speaks() -> None:
    """B12: results and later replies stay in the sealed loop; a user message ends it."""
    sealed = after(said(SEAL, call("1")))

    assert after(answer("1"), sealed) == StepState(frozenset({"1"}), sealed=True)
    assert after(said(TextPart("t")), sealed).sealed
    assert after(SystemMessage(MessageId("s"), ()), sealed) == sealed
    assert after(numbered([user()])[0], sealed) == StepState()


def test_calls_stay_open_until_each_is_answered() -> None:
    """B12: parallel calls are waited for one by one; the next reply closes those that have no result."""
    log = Log(SessionId("s")).append(MessageEntry(said(call("1"), call("2"))))

    def then(message: Message) -> frozenset[str]:
        return log.append(MessageEntry(message)).open_calls

    assert log.open_calls == {"1", "2"}
    assert then(answer("2")) == {"1"}
    assert then(UserMessage(MessageId("u"), (ToolResultPart("1", "bash", "ok"),))) == {"2"}
    assert then(replace(said(call("3")), id=MessageId("b"))) == {"3"}
    assert log.open_calls == {"1", "2"}


def test_a_result_after_its_step_is_late() -> None:
    """A result whose step has closed is taken and marked by its position; one in time is not."""
    message = ToolMessage(MessageId("t"), (TextPart("x"), *answer("old", "new").parts))

    assert logged(message, StepState(frozenset({"new"})), frozenset({"old", "new"})).late == (1,)


def test_a_result_nobody_waits_for_is_refused() -> None:
    """B12: an orphan result raises the error that names the call and what to append first."""
    with pytest.raises(OrphanResult, match="append the assistant message that made the call first") as caught:
        logged(answer("9"), StepState(frozenset({"1"})))

    assert (caught.value.call_id, caught.value.message_id) == ("9", "t")


def test_one_message_answers_a_call_once() -> None:
    """Two results for one call in one message are refused."""
    with pytest.raises(OrphanResult, match="which it answers twice"):
        logged(answer("1", "1"), StepState(frozenset({"1"})))


def test_one_message_makes_a_call_once() -> None:
    """Two calls of one id in one message are refused."""
    with pytest.raises(DuplicateId, match="tool call with id '1'"):
        logged(said(call("1"), call("1")))


def test_each_part_is_measured_by_the_session_s_rule() -> None:
    """B17: measures are taken part by part as a message is placed, and sized by features whatever the rule."""
    message = numbered([user("x" * 40)])[0]
    ours, theirs = (measure_for_log(message, 0, StepState(), bool, rule).logged for rule in RULES)

    assert (theirs.measures, theirs.measured) == ((40,), 40)
    assert ours.size == theirs.size
    assert ours.size.measure > ours.measured == sum(ours.measures)


def test_calls_and_results_are_kept_at_hand() -> None:
    """B17: a placed message lists its calls and results, so that nobody walks its parts again."""
    drafts = numbered([calls("bash"), result(3)])

    assert logged(drafts[0]).calls == drafts[0].parts
    assert logged(drafts[1], StepState(frozenset({"m0-call0"}))).results == drafts[1].parts


def test_what_pruning_may_hide_is_marked_last_first() -> None:
    """B24: completed results in time and large free calls may be hidden; late, failed, small and sealed ones may not."""
    large, small = ToolCallPart("1", "write", "x" * 500), ToolCallPart("2", "write", "{}")
    answers = (ToolResultPart("1", "w", "a"), ToolResultPart("2", "w", "b", "error"), ToolResultPart("3", "w", "c"))
    waiting = frozenset({"1", "2", "3"})

    assert logged(said(large, small, TextPart("t"), replace(large, call_id="3"))).prunable == (3, 0)
    assert logged(said(SEAL, large)).prunable == ()
    assert logged(said(large), StepState(sealed=True)).prunable == ()
    assert logged(ToolMessage(MessageId("t"), answers), StepState(waiting)).prunable == (2, 0)
    assert logged(ToolMessage(MessageId("t"), answers), StepState(frozenset({"1", "2"})), waiting).prunable == (0,)
    assert logged(ToolMessage(MessageId("t"), answers[:1]), StepState(waiting, sealed=True)).prunable == (0,)


@pytest.mark.parametrize(
    ("message", "marks"),
    [
        (user(), (True, True, True, False)),
        (user(synthetic=True), (True, True, False, False)),
        (user(" "), (True, True, False, False)),
        (requests_compaction(), (False, True, False, True)),
        (summary(), (False, False, False, True)),
        (replies(), (True, False, False, False)),
        (calls("bash"), (True, False, False, False)),
        (AssistantMessage(MessageId("a"), (ReasoningPart("only"),)), (True, False, False, False)),
        (UserMessage(MessageId("u"), (TextPart("x", ignored=True),)), (False, True, False, False)),
    ],
)
def test_who_speaks_and_what_is_sent_is_marked(message: Message, marks: tuple[bool, bool, bool, bool]) -> None:
    """B17: whether a message is sent, begins a turn, is a person's or is compaction business is known once placed."""
    done = logged(numbered([message])[0])

    assert (done.is_sent, done.is_users, done.is_persons, done.is_business) == marks


# Late and missing answers.


def test_a_late_result_is_shown_as_text() -> None:
    """B12, B30: a result after its step is text and its call interrupted, unless a caller's own list has them so."""
    log = spoken(session(user(), calls("bash")), user("hello?")).append(came("m1-call0", "at last"))
    shown = view(log.append(Clipping((Clip(Handle("2.0"), 1, 1),))), SENT)

    assert view(log, SENT, brought=True) == tuple(logged.message for logged in log.live)

    assert log.live[-1].late == (0,)
    assert results_of(shown[2])[0].output == INTERRUPTED_TEXT
    assert isinstance(shown[-1], UserMessage)
    assert "at last" in text_of(shown[-1])
    assert "m1-call0" in text_of(shown[-1])


def test_an_unfinished_call_is_shown_as_interrupted() -> None:
    """B13: a session that ended in the middle of a step still gives a request in which each call has its result."""
    shown = view(session(user(), calls("bash", "read"), result()), SENT)

    assert [(part.call_id, part.status) for message in shown for part in results_of(message)] == [
        ("m1-call0", "completed"),
        ("m1-call1", "interrupted"),
    ]


def test_a_call_of_the_folded_head_may_still_be_answered() -> None:
    """B1: a result whose call was folded is taken as late once, and shown as text."""
    log = spoken(session(user(), calls("bash")), user("stop")).append(Checkpoint("head", first_kept=2))
    answered = log.append(came("m1-call0"))

    assert log.carried == {"m1-call0"}
    assert (answered.carried, answered.live[-1].late) == (frozenset(), (0,))
    with pytest.raises(OrphanResult):
        answered.append(came("m1-call0", name="twice"))


def test_a_result_after_everything_was_folded_is_late() -> None:
    """B12: when a checkpoint folds a call that is still open, its result can no longer follow it and is shown as text."""
    log = session(user(), calls("bash")).append(Checkpoint("head")).append(came("m1-call0"))

    assert log.live[0].late == (0,)
    assert not [part for message in view(log, SENT) for part in results_of(message)]
