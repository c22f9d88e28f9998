"""A recorded session as calls."""

from msgspec.structs import replace

from infold.core.messages import AssistantMessage, Usage, text_of
from infold.replay.calls import find_calls
from infold.testing.builders import calls, numbered, replies, requests_compaction, result, summary, user
from infold.transcripts.record import RecordedCompaction

from .recorded import OPENING, session, timed, with_usage, work


def test_each_reply_is_a_call_with_what_came_before_it() -> None:
    """Every message but the replies is added before exactly one call."""
    recording = find_calls(session(work(steps=3)))

    assert [call.number for call in recording.calls] == [0, 1, 2, 3]
    assert [len(recording.added_before(call)) for call in recording.calls] == [1, 1, 1, 1]
    assert text_of(recording.reply_to(recording.calls[-1])) == "All done."


def test_request_is_as_old_as_its_newest_message() -> None:
    """A call was sent when the newest message before it was written, and answered when its reply was."""
    call = find_calls(session(timed(numbered([user(), replies()]), step_ms=7))).calls[0]

    assert find_calls(session(())).calls == ()
    assert (call.sent_ms, call.answered_ms) == (7, 14)


def test_reply_without_usage_is_no_call_where_others_report_it() -> None:
    """An error or a reply the client made up is not billed; where nobody reports usage every reply is a call."""
    silent = numbered([user(), replies("a"), user(), replies("b"), user(), replies("c")])
    told = with_usage(silent)
    middle = told[3]
    assert isinstance(middle, AssistantMessage)
    mixed = (*told[:3], replace(middle, usage=None), *told[4:])

    assert len(find_calls(session(silent)).calls) == 3
    assert [call.end for call in find_calls(session(mixed)).calls] == [1, 5]


def test_command_of_the_user_and_empty_usage_are_no_calls() -> None:
    """A command the user ran and a reply aborted before anything was billed are told apart from calls."""
    told = list(with_usage(numbered([user(), replies("a"), calls("bash"), result(5), replies("b"), user(), replies()])))
    ran, aborted = told[2], told[6]
    assert isinstance(ran, AssistantMessage)
    assert isinstance(aborted, AssistantMessage)
    told[2], told[6] = replace(ran, agent="user"), replace(aborted, usage=Usage())

    assert [call.end for call in find_calls(session(told)).calls] == [1, 4]


def test_what_a_recorded_compaction_wrote_is_shown_to_no_other_policy() -> None:
    """Requests to compact, summaries and the message that carries one are left out of what is added."""
    told = numbered(
        [user(OPENING), replies("a"), requests_compaction(), summary("short"), user("short", synthetic=True), replies()]
    )
    recording = find_calls(session(told, compactions=[RecordedCompaction(2, "short")]))

    assert recording.artefacts == {2, 3, 4}
    assert recording.added_before(recording.calls[1]) == ()
    assert recording.compactions_before(recording.calls[1])
    assert recording.compactions_before(recording.calls[0]) == ()


def test_opening_is_what_a_person_said_first() -> None:
    """Text a harness put there is not the user's."""
    recording = find_calls(session(numbered([user("reminder", synthetic=True), user(OPENING), replies()])))

    assert recording.opening == OPENING
