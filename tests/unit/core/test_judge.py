"""A summary is held against the history it is to stand for."""

import pytest

from infold.core.entries import Verdict
from infold.core.judge import LONGEST_ANSWER, Answer, clean_text, judge, record_text
from infold.core.messages import AssistantMessage, Finish, Message, MessageId, ReasoningPart
from infold.testing.builders import calls, numbered, replies, result, user

HISTORY = numbered(
    (
        user("Port src/feed.py to the new reader. Never touch vendor/."),
        calls(
            "edit",
            arguments='{"path": "src/feed.py", "edits": [{"new": "def read_feed(path):\\n    return 4711"}], "n": 1}',
        ),
        result(output="Edited src/feed.py, 128 lines, commit 9f8e7d6c"),
        replies("read_feed now returns 4711 and parseRow is gone."),
    )
)
GOOD = "The reader in src/feed.py was ported: read_feed returns 4711.\nThe edit was committed as 9f8e7d6c."


def verdict(
    answer: str | Answer, *, history: tuple[Message, ...] = HISTORY, known: str = "", tokens: int = 40
) -> Verdict:
    """What the judge says of an answer."""
    given = Answer(answer) if isinstance(answer, str) else answer
    return judge(given, history, known=known, replaced_tokens=1_000, answer_tokens=tokens)


def test_a_true_summary_is_accepted_as_it_is() -> None:
    """B5: what the history shows may stand."""
    found = verdict(GOOD)

    assert found.is_accepted
    assert (found.text, found.faults) == (GOOD, ())


@pytest.mark.parametrize(
    ("answer", "tokens", "fault"),
    [
        (Answer(""), 40, "empty"),
        (Answer("<analysis>thinking aloud about everything</analysis> ok"), 40, "too-short"),
        (Answer("<analysis>thinking aloud about everything</analysis>\n## Done\nnone"), 40, "empty"),
        (Answer("x" * (LONGEST_ANSWER + 1)), 40, "too-large"),
        (Answer(GOOD, finish="length"), 40, "cut-off"),
        (Answer(GOOD, calls_tools=True), 40, "tool-calls"),
        (Answer(GOOD, finish="content-filter"), 40, "refused"),
        (Answer(GOOD, finish="abort"), 40, "refused"),
        (Answer(GOOD), 801, "too-large"),
    ],
)
def test_what_cannot_be_repaired_is_rejected(answer: Answer, tokens: int, fault: str) -> None:
    """B5: empty, cut off, tool-calling, refused and oversized answers are rejected with their fault."""
    found = verdict(answer, tokens=tokens)

    assert not found.is_accepted
    assert found.faults == (fault,)


@pytest.mark.parametrize(
    "invention", ["src/other.py", "parse_everything", "9999", "loadAll", "FeedParser", "0badc0de", "notes.md"]
)
def test_a_line_with_something_invented_is_taken_out(invention: str) -> None:
    """B5: a path, identifier, number or hash that occurs nowhere goes with its line; the rest stays."""
    found = verdict(f"{GOOD}\nparseRow is gone.\nNothing else was touched.\nThen {invention} was changed too.")

    assert found.is_accepted
    assert invention not in found.text
    assert found.invented == (invention,)
    assert found.faults == ("invented",)
    assert "9f8e7d6c" in found.text


def test_too_much_invention_is_rejected_whole() -> None:
    """B5: where a third of the lines is invented, the others are not trusted either."""
    found = verdict("src/feed.py was read.\nsrc/one.py was written.\nsrc/two.py was written.")

    assert not found.is_accepted
    assert found.invented == ("src/one.py", "src/two.py")


def test_what_older_notes_knew_is_not_invented() -> None:
    """B3, B5: a fact that only an earlier summary had is known."""
    found = verdict(f"{GOOD}\nThe port is 8443.", known="The server listens on 8443.")

    assert found.is_accepted
    assert found.removed == ()


def test_numbers_match_with_and_without_separators() -> None:
    """B5: 4,711 is the 4711 of the history."""
    assert verdict("The reader returns 4,711 in all cases, as asked.").removed == ()


def test_call_arguments_are_read_as_values() -> None:
    """B5: what stands in a call's arguments counts as it reads, not as JSON escapes it."""
    text = record_text(HISTORY)

    assert "def read_feed(path):\n    return 4711" in text


def test_broken_arguments_and_reasoning_are_passed_over() -> None:
    """B5: arguments that are no JSON count as text, and reasoning is no evidence."""
    broken = numbered((calls("bash", arguments="{oops"),))
    thought = AssistantMessage(MessageId("t"), (ReasoningPart("secret_plan"),))

    assert "{oops" in record_text(broken)
    assert "secret_plan" not in record_text((thought,))


@pytest.mark.parametrize(
    ("said", "summary", "accepted"),
    [
        ("テストを必ず実行してください。", "The tests were run and everything passed at last.", False),
        ("テストを必ず実行してください。", "テストを実行し、すべて成功した。残りはドキュメントだけである。", True),
        ("반드시 테스트를 실행하세요.", "Everything was tested and found to be good.", False),
        ("不要修改数据库结构。", "The structure was left alone as was asked.", False),
        ("Не меняй структуру базы данных.", "The structure was left alone as was asked.", False),
        ("Не меняй структуру базы данных.", "Структура базы данных не изменена, тесты пройдены.", True),
        ("Please run the tests.", "Everything was tested and found to be good.", True),
        ("Please run the tests.", "テストを実行し、すべて成功した。残りはドキュメントだけである。", False),
        ("ok", "Everything was tested and found to be good.", True),
    ],
)
def test_the_language_is_the_users(said: str, summary: str, accepted: bool) -> None:
    """B5: a person is not summarised in a writing that is not theirs."""
    assert verdict(summary, history=numbered((user(said),))).is_accepted is accepted


def test_a_writing_that_was_used_is_nobody_elses() -> None:
    """B5: after a short answer in Latin letters, a summary in what was spoken before is as good as it was."""
    told = "テストを実行し、すべて成功した。残りはドキュメントだけである。"

    assert verdict(told, history=numbered((user("ok"), replies("テストは成功しました。")))).is_accepted
    assert not verdict(told, history=numbered((user("ok"), replies("All is well.")))).is_accepted


def test_a_text_that_got_stuck_says_nothing() -> None:
    """B5: the same words over and over are no summary."""
    assert verdict("word " * 300).faults == ("repetitive",)
    assert verdict("word " * 30).faults == ()


@pytest.mark.parametrize("finish", ["stop", "other", "tool-calls"])
def test_an_ordinary_end_is_no_fault(finish: Finish) -> None:
    """B5: only an end that tells of a failure counts against a summary."""
    assert verdict(Answer(GOOD, finish=finish)).is_accepted


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("plain", "plain"),
        ("two halves \ud83d\ude00 are one", "two halves \U0001f600 are one"),
        ("one half \udfff is none", "one half \ufffd is none"),
        ("no \0 byte\0", "no  byte"),
        ("x" * (LONGEST_ANSWER + 9), "x" * (LONGEST_ANSWER + 1)),
    ],
    ids=["plain", "pair", "half", "nul", "long"],
)
def test_what_a_model_wrote_can_be_stored(text: str, read: str) -> None:
    """B36: no half surrogate pairs, no NUL bytes, and no more than is looked at."""
    assert clean_text(text) == read
