"""The recorded summaries are true of the session they were made for, except where they are meant not to be."""

from infold.core.judge import Answer, judge, record_text
from infold.core.messages import MessageId, TextPart, UserMessage
from infold.core.summary_request import Additions, SummaryRequest, own_request
from infold.core.tokens import estimate_tokens
from infold.testing.summaries import INVENTED_PATH, NOTES, Recording
from infold.testing.trajectory import coding_session

SESSION = coding_session(largest_result_tokens=500)
SAID = record_text(SESSION)


def asked(record: str, *, earlier: str = "", later: str = "", tokens: int = 4_000) -> SummaryRequest:
    """A request for a summary of this record."""
    return own_request(record, Additions(earlier=earlier, later=later), output_tokens=tokens)


def test_every_mark_stands_in_the_session_in_order() -> None:
    """Each line has its moment, and the lines follow the session's course."""
    places = [SAID.index(note.mark) for note in NOTES]

    assert places == sorted(places)


def test_the_judge_finds_nothing_wrong_with_the_lines() -> None:
    """B5: no line names a path, an identifier or a number that the session does not have."""
    text = "\n".join(note.line for note in NOTES)
    verdict = judge(Answer(text), SESSION, replaced_tokens=100_000, answer_tokens=1_000)

    assert verdict.faults == ()


def test_a_summary_tells_what_the_record_shows() -> None:
    """Marks in the record count, and what the earlier notes said; what follows the record does not."""
    request = asked(NOTES[3].mark, earlier=NOTES[0].line, later=NOTES[5].mark)
    written = Recording()(request).answer.text

    assert [note.line in written for note in NOTES[:6]] == [True, False, False, True, False, False]


def test_a_small_room_keeps_the_newest_lines() -> None:
    """A quarter of the room is the summary's; the oldest lines go first."""
    everything = asked(SAID, tokens=400)
    written = Recording()(everything).answer.text

    assert NOTES[-1].line in written
    assert NOTES[0].line not in written
    assert estimate_tokens(written) < 110


def test_an_empty_record_leaves_the_heading() -> None:
    """A record without a moment of the recording has nothing to tell."""
    assert Recording()(asked("hello")).answer.text == "Notes for whoever goes on:"


def test_the_second_answer_invents_and_the_third_refuses() -> None:
    """The judge has something to do: a path that is nowhere in the session, then no answer twice."""
    recording = Recording()
    answers = [recording(asked(SAID)).answer.text for _ in range(5)]

    assert INVENTED_PATH not in SAID
    assert [INVENTED_PATH in answer for answer in answers] == [False, True, False, False, False]
    assert [answer.startswith("I'm sorry") for answer in answers] == [False, False, True, True, False]


def test_an_answer_has_its_price_and_time() -> None:
    """Cost and time grow with what was read and written."""
    recording = Recording()
    short, long = recording(asked("hello")), recording(asked(SAID))

    assert short.model == "recorded"
    assert 0 < short.cost < long.cost
    assert 0 < short.duration_ms < long.duration_ms


def test_a_request_of_any_shape_is_answered() -> None:
    """A request that shares the ordinary prefix has no record marked as such, and is read whole."""
    said = UserMessage(MessageId("ask"), (TextPart(NOTES[0].mark),))

    assert NOTES[0].line in Recording()(SummaryRequest("", (said,), 1_000)).answer.text
