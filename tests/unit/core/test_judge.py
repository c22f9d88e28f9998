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
    "invention",
    ["src/other.py", "`parse_everything`", "9999", "`loadAll`", "0badc0de", "notes.md", "4,712 lines", "37 s"],
)
def test_a_claim_that_occurs_nowhere_is_marked(invention: str) -> None:
    """B37: a path, a name in code formatting, a number or a hash that occurs nowhere is named behind its sentence."""
    false = f"Then {invention} was found too."
    found = verdict(f"{GOOD} {false} Nothing else was touched.")
    name = invention.strip("`").split()[0]

    assert f"{false} (not found in the record: {name}) Nothing else" in found.text
    assert (found.invented, found.marked, found.faults) == ((name,), (false,), ("invented",))
    assert found.removed == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "It is a client/server design, for reading and/or writing.",
        "All 8/8 went well on macOS with JavaScript and Node.js.",
        "It is due on 14 March 2026, at 09:41, in version 3.11.4.",
        "It takes about 900 ms, more than 35 % of the time.",
        "The full path is /srv/x/src/feed.py, and vendor/ was not touched.",
        "Use snake_case names such as `parse_everything`.",
        "The logs are in `logs/*.txt` and /var/log/{name}/feed.",
        "| src/feed.py | 128 lines |",
        "## Read/write and src/other.py",
        "Next: write `tests/test_other.py`.",
        "A test in tests/test_other.py should be considered.",
        "```\nsrc/other.py\n```",
    ],
)
def test_what_is_no_claim_is_left_alone(sentence: str) -> None:
    """B37: slashes between words, dates, versions, estimates, headings, code blocks and proposals claim nothing."""
    found = verdict(f"{GOOD}\n{sentence}")

    assert (found.text, found.faults) == (f"{GOOD}\n{sentence}", ())


def test_a_row_of_a_table_stays_one() -> None:
    """B37: a remark stands in the last cell."""
    found = verdict(f"{GOOD}\n| src/other.py | done |")

    assert found.text.endswith("| src/other.py | done (not found in the record: src/other.py) |")


def test_a_summary_of_something_else_is_rejected() -> None:
    """B5, B37: where most claims, or the only one, occur nowhere, the rest is not trusted either."""
    found = verdict("src/feed.py was read. src/one.py was written. src/two.py was written.")

    assert not found.is_accepted
    assert found.invented == ("src/one.py", "src/two.py")
    assert not verdict("Wrote src/one.py and it works.").is_accepted
    assert verdict("Wrote src/one.py and it works. The reader was ported too.").is_accepted


def test_the_tail_is_known() -> None:
    """B37: what the summariser was shown of the messages that stay is not invented."""
    tail = numbered((user("Then write src/other.py."),), prefix="t")
    found = judge(Answer(f"{GOOD} src/other.py is next."), HISTORY, tail=tail, replaced_tokens=900, answer_tokens=9)

    assert found.marked == ()


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
        ("テストを必ず実行してください。", "The tests were run and everything passed at last.", True),
        ("テストを必ず実行してください。", "不要修改数据库结构，测试已经全部完成。", False),
        (
            "テストを必ず実行してください。",
            "Les tests ont été lancés et il faut écrire les pages dans le dossier.",
            False,
        ),
        (
            "Bitte die Tests ausführen, und nicht auf den Port achten.",
            "Die Tests sind mit dem Port nicht gelaufen.",
            True,
        ),
        ("Please run the tests.", "Los tests se han ejecutado y no hay que cambiar el puerto para la prueba.", False),
        ("テストを必ず実行してください。", "テストを実行し、すべて成功した。残りはドキュメントだけである。", True),
        ("반드시 테스트를 실행하세요.", "Everything was tested and found to be good.", True),
        ("不要修改数据库结构。", "作業は順調に進んでおり、テストもすべて実行した。", False),
        ("不要修改数据库结构。", "数据库结构没有修改，其余的工作已经按照要求全部完成了。", True),
        ("Не меняй структуру базы данных.", "Структура базы данных не изменена, тесты пройдены.", True),
        ("Please run the tests.", "Everything was tested and found to be good.", True),
        ("Please run the tests.", "テストを実行し、すべて成功した。残りはドキュメントだけである。", False),
        ("ok", "Everything was tested and found to be good.", True),
    ],
)
def test_the_language_is_the_users(said: str, summary: str, accepted: bool) -> None:
    """B5: a summary is in a language of the conversation, or in English."""
    assert verdict(summary, history=numbered((user(said),))).is_accepted is accepted


@pytest.mark.parametrize(
    ("said", "is_noted"),
    [
        ("テストを必ず実行してください。", True),
        ("Bitte die Tests ausführen, und nicht auf den Port achten.", True),
        ("Please run the tests.", False),
        ("ok", False),
    ],
)
def test_an_english_summary_names_the_difference(said: str, is_noted: bool) -> None:
    """B5: an English summary for a user of another language is accepted, reported, and asks for the user's language."""
    note = "(The user does not write in English. Answer in the language of the user's messages.)"
    summary = "Everything was tested and found to be good."
    found = verdict(summary, history=numbered((user(said),)))
    repeated = verdict(f"{summary}\n\n{note}", history=numbered((user(said),)))

    assert found.text == (f"{summary}\n\n{note}" if is_noted else summary)
    assert found.faults == (("language",) if is_noted else ())
    assert repeated.text.count(note) == 1


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
