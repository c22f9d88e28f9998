"""The recorded summaries are true of the session they were made for, except where they are meant not to be."""

from infold.cli.demo_session import INVENTED_PATH, SUMMARY_LINES, RecordedSummariser, coding_session
from infold.core.judge import Answer, judge, record_text
from infold.core.messages import MessageId, TextPart, UserMessage
from infold.core.summary_request import Additions, SummaryRequest, own_request
from infold.core.tokens import estimate_tokens

SESSION = coding_session(largest_result_tokens=500)
SAID = record_text(SESSION)


def asked(record: str, *, earlier: str = "", later: str = "", tokens: int = 4_000) -> SummaryRequest:
    """A request for a summary of this record."""
    return own_request(record, Additions(earlier=earlier, later=later), output_tokens=tokens)


def test_every_mark_stands_in_the_session_in_order() -> None:
    """Each line has its moment, and the lines follow the session's course."""
    places = [SAID.index(note.mark) for note in SUMMARY_LINES]

    assert places == sorted(places)


def test_the_judge_finds_nothing_wrong_with_the_lines() -> None:
    """B5: no line names a path, an identifier or a number that the session does not have."""
    text = "\n".join(note.line for note in SUMMARY_LINES)
    verdict = judge(Answer(text), SESSION, replaced_tokens=100_000, answer_tokens=1_000)

    assert verdict.faults == ()


def test_a_summary_tells_what_the_record_shows() -> None:
    """Marks in the record count, and what the earlier notes said; what follows the record does not."""
    request = asked(SUMMARY_LINES[3].mark, earlier=SUMMARY_LINES[0].line, later=SUMMARY_LINES[5].mark)
    written = RecordedSummariser()(request).answer.text

    assert [note.line in written for note in SUMMARY_LINES[:6]] == [True, False, False, True, False, False]


def test_a_small_room_keeps_the_newest_lines() -> None:
    """A quarter of the room is the summary's; the oldest lines go first."""
    everything = asked(SAID, tokens=400)
    written = RecordedSummariser()(everything).answer.text

    assert SUMMARY_LINES[-1].line in written
    assert SUMMARY_LINES[0].line not in written
    assert estimate_tokens(written) < 110


def test_an_empty_record_leaves_the_heading() -> None:
    """A record without a moment of the recording has nothing to tell."""
    assert RecordedSummariser()(asked("hello")).answer.text == "Notes for whoever goes on:"


def test_the_second_answer_invents_and_the_third_refuses() -> None:
    """The judge has something to do: a path that is nowhere in the session, then no answer twice."""
    recording = RecordedSummariser()
    answers = [recording(asked(SAID)).answer.text for _ in range(5)]

    assert INVENTED_PATH not in SAID
    assert [INVENTED_PATH in answer for answer in answers] == [False, True, False, False, False]
    assert [answer.startswith("I'm sorry") for answer in answers] == [False, False, True, True, False]


def test_an_answer_has_its_price_and_time() -> None:
    """Cost and time grow with what was read and written."""
    recording = RecordedSummariser()
    short, long = recording(asked("hello")), recording(asked(SAID))

    assert short.model == "recorded"
    assert 0 < short.cost < long.cost
    assert 0 < short.duration_ms < long.duration_ms


def test_a_request_of_any_shape_is_answered() -> None:
    """A request that shares the ordinary prefix has no record marked as such, and is read whole."""
    said = UserMessage(MessageId("ask"), (TextPart(SUMMARY_LINES[0].mark),))

    assert SUMMARY_LINES[0].line in RecordedSummariser()(SummaryRequest("", (said,), 1_000)).answer.text
