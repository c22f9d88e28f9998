"""From log to the messages the model is sent."""

import pytest
from msgspec.structs import replace

from infold.core.entries import Checkpoint, Clip, Clipping, Handle, MessageEntry, Pruning
from infold.core.log import Log
from infold.core.logged_message import INTERRUPTED_TEXT
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Finish,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    results_of,
    text_of,
)
from infold.core.policy import INFOLD, PRESETS, SummaryPolicy, preset
from infold.core.view import REQUEST_TEXT, answered_as_interrupted, view
from infold.testing.builders import calls, replies, requests_compaction, result, session, summary, user

TURN = (user("do it"), calls("bash"), result(5), replies("done"))


def sent(log: Log, shape: SummaryPolicy = INFOLD.summary) -> tuple[Message, ...]:
    """The view in `infold`'s shape."""
    return view(log, shape)


def changed(log: Log) -> Log:
    """The same log with something hidden in its first message."""
    return log.append(Clipping((Clip(Handle("0.0"), 200, 200),)))


def words(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    """Roles and texts."""
    return [(type(message).__name__, text_of(message)) for message in messages]


def test_an_untouched_message_is_the_very_object() -> None:
    """B25: a message that nothing changed is given back as it was appended."""
    log = session(*TURN)

    assert all(message is logged.message for message, logged in zip(sent(log), log.live, strict=True))


def test_an_empty_log_has_an_empty_view() -> None:
    """S4.1: nothing said, nothing sent."""
    assert sent(session()) == ()


# What stands for the folded head.


@pytest.mark.parametrize("name", ["opencode-1.1.23", "opencode-1.1.57", "opencode-1.18", "proactive"])
def test_opencode_sends_request_and_summary(name: str) -> None:
    """S4.4: the request as something said, the summary as its answer, then the kept tail."""
    log = session(*TURN, user("more"), policy=preset(name)).append(Checkpoint("summary text", first_kept=4))

    assert words(sent(log, preset(name).summary)) == [
        ("UserMessage", REQUEST_TEXT),
        ("AssistantMessage", "summary text"),
        ("UserMessage", "more"),
    ]
    answer = sent(log, preset(name).summary)[1]
    assert isinstance(answer, AssistantMessage)
    assert (answer.summary, answer.mode, answer.agent) == (True, "compaction", "compaction")
    assert answer.parent_id == sent(log, preset(name).summary)[0].id


def test_the_requests_own_message_is_sent() -> None:
    """S3.6, S4.1: where request and summary are messages of the session, their metadata stands in the view."""
    log = session(*TURN, requests_compaction(), summary("summary text"), user("more"))
    asked, answer, *_ = sent(log, preset("opencode-1.1.23").summary)

    assert (asked.id, answer.id) == ("m4", "m5")
    assert asked.parts == (TextPart(REQUEST_TEXT, synthetic=True),)
    assert text_of(answer) == "summary text"


def test_turn_window_sends_the_summary_alone() -> None:
    """S4.5: an assistant message with the summary, then the recent turns."""
    log = session(*TURN, user("more")).append(Checkpoint("[COMPACTED_CONTEXT]\ntext", first_kept=4))

    assert words(sent(log, preset("turn-window").summary)) == [
        ("AssistantMessage", "[COMPACTED_CONTEXT]\ntext"),
        ("UserMessage", "more"),
    ]


def test_infold_sends_one_marked_user_message() -> None:
    """B26, S4.4: the fold is one message under the user's role, known as synthetic by metadata."""
    log = session(*TURN, user("more")).append(Checkpoint("fold text", first_kept=4))
    opening = sent(log)[0]

    assert isinstance(opening, UserMessage)
    assert opening.parts == (TextPart("fold text", synthetic=True),)
    assert words(sent(log))[1:] == [("UserMessage", "more")]


@pytest.mark.parametrize("name", PRESETS)
def test_a_checkpoint_without_text_says_nothing(name: str) -> None:
    """S4.5: no summary, no message for it."""
    log = session(*TURN, user("more")).append(Checkpoint("", first_kept=4, cleaned=True))

    assert words(sent(log, preset(name).summary)) == [("UserMessage", "more")]


@pytest.mark.parametrize("finish", [None, "error"])
def test_requests_and_failed_summaries_are_not_sent(finish: Finish | None) -> None:
    """S4.2: a request without a finished summary, and what came of it, is no boundary and nothing said."""
    log = session(user("do it"), requests_compaction(), summary("half", finish=finish), user("more"))

    assert words(sent(log)) == [("UserMessage", "do it"), ("UserMessage", "more")]


# Hidden parts.


@pytest.mark.parametrize(
    ("name", "stub"),
    [
        ("opencode-1.1.23", "[Old tool result content cleared]"),
        ("opencode-1.1.57", "[output truncated by compaction]"),
        ("proactive", "[Output pruned]"),
    ],
)
def test_a_pruned_result_is_its_presets_stub(name: str, stub: str) -> None:
    """S4.3: call and result stay a pair, the output is the preset's own stub."""
    log = session(*TURN, policy=preset(name)).append(Pruning((Handle("2.0"),), 5))
    (shown,) = results_of(sent(log)[2])

    assert (shown.output, shown.call_id) == (stub, "m1-call0")


def test_a_clipped_text_is_head_note_and_tail() -> None:
    """B9: the view shows both ends and how much is between."""
    log = session(user("abcdefghij")).append(Clipping((Clip(Handle("0.0"), 2, 3),)))

    assert text_of(sent(log)[0]) == "ab\n[clipped: 5 characters]\nhij"


# A state the provider accepts.


def test_an_unanswered_call_is_answered_as_interrupted() -> None:
    """B12, B13: every call has its result, even if the session was aborted between the two."""
    log = session(user(), calls("bash", "read"), result(5), user("stop"))
    _, asked, answered, interrupted, _ = sent(log)

    assert [part.status for part in results_of(answered)] == ["completed"]
    assert interrupted == ToolMessage(
        MessageId("interrupted-1.1"), (ToolResultPart("m1-call1", "read", INTERRUPTED_TEXT, status="interrupted"),)
    )
    assert len(asked.parts) == 2


def answer(*places: int) -> ToolMessage:
    """A message with answers to these of the calls of message 1."""
    return ToolMessage(MessageId(""), tuple(ToolResultPart(f"m1-call{n}", "read", f"text {n}") for n in places))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((answer(0), answer(2)), ["m1-call0", "m1-call1", "m1-call2", "m1-call3"]),
        ((answer(3),), ["m1-call0", "m1-call1", "m1-call2", "m1-call3"]),
        ((answer(1), answer(0)), ["m1-call1", "m1-call0", "m1-call2", "m1-call3"]),
        ((answer(0, 2),), ["m1-call0", "m1-call2", "m1-call1", "m1-call3"]),
        ((), ["m1-call0", "m1-call1", "m1-call2", "m1-call3"]),
    ],
)
def test_answers_stand_in_the_order_of_the_calls(given: tuple[Message, ...], expected: list[str]) -> None:
    """B12: an answer of infold's own stands where its call does among the others; what a caller gave keeps its order."""
    messages = sent(session(user(), calls(*["read"] * 4), *given, user("stop")))
    ids = [message.id for message in messages]

    assert [part.call_id for message in messages for part in results_of(message)] == expected
    assert len(set(ids)) == len(ids)
    assert isinstance(messages[-1], UserMessage)


def test_a_note_between_a_call_and_its_answer_comes_after_it() -> None:
    """B12, B30: once infold changes the request, a system message no longer stands between a call and its result."""
    noted = SystemMessage(MessageId(""), (TextPart("Mind the gap.", synthetic=True),))
    log = session(user(), calls("read", "read"), answer(0), noted, answer(1), user("on"))
    messages = sent(changed(log))

    assert sent(log) == tuple(logged.message for logged in log.live)

    assert [type(message).__name__ for message in messages[1:]] == [
        "AssistantMessage",
        "ToolMessage",
        "ToolMessage",
        "SystemMessage",
        "UserMessage",
    ]
    assert [part.status for message in messages for part in results_of(message)] == ["completed"] * 2


def test_a_note_after_all_answers_stays_there() -> None:
    """B12: calls answered one by one, in order, need nothing, and what follows them is sent as it came."""
    noted = SystemMessage(MessageId(""), (TextPart("Mind the gap.", synthetic=True),))
    log = session(user(), calls("read", "read"), answer(0), answer(1), noted, user("on"))

    assert sent(log) == tuple(logged.message for logged in log.live)


def test_a_call_open_at_the_end_is_answered_too() -> None:
    """B12, B13: the request ends in a state the provider accepts."""
    assert [part.status for part in results_of(sent(session(user(), calls("bash")))[-1])] == ["interrupted"]


def test_calls_that_a_view_answers_are_named() -> None:
    """B22, B30: what was repaired in a view can be told."""
    log = session(user(), calls("bash", "read"), result(5), user("stop"))

    assert answered_as_interrupted(sent(log)) == {"m1-call1"}


def test_an_unanswered_call_before_another_step() -> None:
    """B12: the next reply does not stand between a call and its answer."""
    answer = ToolMessage(MessageId(""), (ToolResultPart("m2-call0", "read", "text"),))
    messages = sent(session(user(), calls("bash"), calls("read"), answer))

    assert [part.output for message in messages for part in results_of(message)] == [INTERRUPTED_TEXT, "text"]
    assert [type(message).__name__ for message in messages[1:]] == ["AssistantMessage", "ToolMessage"] * 2


def test_a_late_result_is_text() -> None:
    """B12, B30: in a list that a caller brings, an answer after its step stays as it came; else it is told in words."""
    log = session(user("a"), calls("bash"), user("b"), result(output="at last"))
    repaired = [
        ("UserMessage", "a"),
        ("AssistantMessage", ""),
        ("ToolMessage", ""),
        ("UserMessage", "b"),
        ("UserMessage", "[late result of bash, call m1-call0]\nat last"),
    ]

    assert view(log, INFOLD.summary, brought=True) == tuple(logged.message for logged in log.live)
    assert words(sent(log)) == repaired
    assert words(view(changed(log), INFOLD.summary, brought=True)) == repaired


def test_a_late_result_beside_one_in_time() -> None:
    """B12: a message with both keeps the result that answers the open call, and tells the other."""
    both = ToolMessage(MessageId(""), (ToolResultPart("", "", "late"), ToolResultPart("", "", "in time")))
    log = session(user(), calls("bash"), user(), calls("read"), both)
    last = sent(changed(log))[-1]

    assert isinstance(last, ToolMessage)
    assert [part.output for part in results_of(last)] == ["in time"]
    assert "late" in text_of(last)


def test_a_late_result_in_a_user_message() -> None:
    """B12: where a provider puts results under the user's role, a late one becomes text in place."""
    late = UserMessage(MessageId(""), (ToolResultPart("m1-call0", "", "at last"), TextPart("and go on")))
    log = session(user(), calls("bash"), user(), late)

    assert text_of(sent(changed(log))[-1]) == "[late result of a tool, call m1-call0]\nat last\nand go on"


BLANK: tuple[tuple[Part, ...], ...] = ((), (TextPart(""),), (TextPart("  \n"),), (ReasoningPart("thinking alone"),))
UNSENT: tuple[tuple[Part, ...], ...] = (
    (TextPart("for people", ignored=True),),
    (StepStartPart(), StepFinishPart("stop")),
)


@pytest.mark.parametrize("parts", [*BLANK, *UNSENT])
def test_what_is_nothing_to_a_provider_is_not_sent(parts: tuple[Part, ...]) -> None:
    """B12: no recorded reply without content is sent, where infold keeps the list of messages."""
    empty = AssistantMessage(MessageId(""), parts, finish="abort")

    assert len(sent(session(user("a"), empty, user("b")))) == 2


@pytest.mark.parametrize("parts", BLANK)
def test_what_a_caller_brings_is_sent(parts: tuple[Part, ...]) -> None:
    """B30: a message without content goes out as the caller wrote or brought it, until infold changes the request."""
    recorded = session(user("a"), AssistantMessage(MessageId(""), parts, finish="abort"), user("b"))
    written = session(user("a"), AssistantMessage(MessageId(""), parts), user("b"))

    assert len(view(recorded, INFOLD.summary, brought=True)) == 3
    assert len(view(written, INFOLD.summary)) == 3
    assert len(view(changed(written), INFOLD.summary, brought=True)) == 2


def test_what_is_never_sent_is_not_sent_for_a_caller_either() -> None:
    """B12: text kept for people and marks of steps are no part of a request."""
    for parts in UNSENT:
        log = session(user("a"), AssistantMessage(MessageId(""), parts), user("b"))
        assert len(view(log, INFOLD.summary, brought=True)) == 2


@pytest.mark.parametrize("part", [ReasoningPart("", '"seal"'), TextPart('{"type":"new"}', synthetic=True, opaque=True)])
def test_a_message_that_is_only_sealed_or_opaque_is_a_message(part: Part) -> None:
    """B30: it is sent as it is, whatever else infold changes."""
    log = session(user("a"), AssistantMessage(MessageId(""), (part,), finish="stop"), user("b"))

    assert sent(log)[1] is log.live[1].message
    assert sent(changed(log))[1] is log.live[1].message


def test_a_result_that_answers_nothing_leaves_the_step_open() -> None:
    """B30: a tool's message without a result that is known, in the midst of a step, moves nothing and repairs nothing."""
    stray = ToolMessage(MessageId(""), (TextPart("stray", synthetic=True),))
    log = session(user(), calls("read", "read"), answer(0), stray, answer(1), user("on"))

    assert sent(log) == tuple(logged.message for logged in log.live)
    assert [len(results_of(message)) for message in sent(changed(log))] == [0, 0, 1, 1, 0, 0]


def test_a_call_that_an_opaque_part_names_is_answered() -> None:
    """B30: a call whose answer infold cannot read is not answered a second time."""
    named = UserMessage(MessageId(""), (TextPart("{}", synthetic=True, opaque=True, links=("m1-call0",)),))
    log = session(user(), calls("read", "bash"), named)

    assert [part.call_id for message in sent(log) for part in results_of(message)] == ["m1-call1"]


@pytest.mark.parametrize("part", [FilePart("image/png", 9), ToolCallPart("c", "bash", "{}"), TextPart("x")])
def test_what_is_something_is_sent(part: Part) -> None:
    """B12: media, calls and text are content."""
    said = AssistantMessage(MessageId(""), (part,), finish="stop")

    assert sent(session(user("a"), said))[1].parts == (part,)


# Mechanical cleaning.


def test_cleaning_drops_reasoning_before_the_checkpoint() -> None:
    """S4.5: after *pruneMessages* the kept tail has no reasoning; what came later keeps its own."""
    log = session(user("a"), replies("b", reasoning="hm"), user("c")).append(Checkpoint("", 0, cleaned=True))
    thought = AssistantMessage(MessageId("later"), (ReasoningPart("hm"), TextPart("d")), finish="stop")
    messages = sent(log.append(MessageEntry(thought)), preset("turn-window").summary)

    assert words(messages) == [
        ("UserMessage", "a"),
        ("AssistantMessage", "b"),
        ("UserMessage", "c"),
        ("AssistantMessage", "d"),
    ]
    assert messages[1].parts == (TextPart("b"),)
    assert messages[3] is thought


def test_an_ordinary_checkpoint_keeps_reasoning() -> None:
    """B12: only mechanical cleaning touches reasoning; a fold leaves the tail's as it is."""
    log = session(user("a"), replies("b", reasoning="hm")).append(Checkpoint("text", 0))

    assert sent(log)[2] is log.live[1].message


def test_the_log_is_not_changed_by_viewing() -> None:
    """B1: the same log gives the same messages each time."""
    log = session(*TURN, calls("bash")).append(Pruning((Handle("2.0"),), 5))

    assert sent(log) == sent(log)
    assert sent(replace(log)) == sent(log)
